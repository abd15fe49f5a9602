//! Zonal shifts of Amazon Application Recovery Controller (ARC): zones in which the cluster launches nothing for a while.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A shift that is applied to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZonalShift {
    /// The zone's id, the same in every account, such as `use1-az1`.
    pub zone_id: String,
    /// When it ends by itself. `None` where that is not known, as with a shift that AWS began.
    pub until: Option<Timestamp>,
}

/// ARC, as far as it is about this cluster.
#[async_trait]
pub trait ZonalShifts: Send + Sync {
    /// The shifts that are applied to the cluster now. Those that another one keeps from being applied are left out.
    ///
    /// # Errors
    /// When ARC cannot be read, does not know the cluster, or answers what this version does not understand. Then nothing is
    /// known: neither that there is a shift nor that there is none.
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError>;
}

/// A zone that the cluster is shifted away from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShiftedZone {
    /// Its id.
    pub zone_id: String,
    /// Its name in this account, such as `us-east-1a`.
    pub zone: String,
    /// From when on it is not shifted away from any more, whatever becomes of reading ARC.
    pub until: Timestamp,
}
