//! Zonal shifts of Amazon Application Recovery Controller (ARC): zones in which the cluster launches nothing until the shift
//! ends.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A shift that is applied to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZonalShift {
    /// The zone's id, the same in every account, such as `use1-az1`.
    pub zone_id: String,
    /// When it expires. `None` if that is unknown, for example for a shift that AWS started.
    pub until: Option<Timestamp>,
}

/// ARC, for this cluster.
#[async_trait]
pub trait ZonalShifts: Send + Sync {
    /// The shifts that are applied to the cluster now. Shifts that another shift overrides are left out.
    ///
    /// # Errors
    /// When ARC cannot be read, the cluster is not registered with ARC, or the answer cannot be decoded by this version: it is
    /// unknown whether there is a shift.
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError>;
}

/// A zone that the cluster is shifted away from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShiftedZone {
    /// The zone id.
    pub zone_id: String,
    /// The zone name in this account, such as `us-east-1a`.
    pub zone: String,
    /// When the shift ends at the latest, even if ARC cannot be read.
    pub until: Timestamp,
}
