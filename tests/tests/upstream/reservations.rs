//! Capacity reservations of cases, as `aws ec2 describe-capacity-reservations` prints them.

use jiff::Timestamp;
use nodeless_launch::node_class::exported_reservations::ExportedReservations;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A capacity reservation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Reservation {
    id: String,
    #[serde(rename = "type", default = "default_type")]
    instance_type: String,
    #[serde(default = "default_zone")]
    zone: String,
    /// The number of instances, if EC2 reports it.
    total: Option<u32>,
    /// The number of available instances.
    #[serde(default = "one")]
    available: u32,
    /// `default` or `capacity-block`.
    #[serde(default = "default_kind")]
    kind: String,
    /// `targeted` or `open`.
    #[serde(default = "default_criteria")]
    criteria: String,
    /// Null if EC2 does not report it.
    interruptible: Option<bool>,
    #[serde(default = "default_state")]
    state: String,
    ends: Option<Timestamp>,
    #[serde(default = "default_owner")]
    owner: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

fn default_type() -> String {
    "m5.large".to_owned()
}

fn default_zone() -> String {
    "us-east-1a".to_owned()
}

const fn one() -> u32 {
    1
}

fn default_kind() -> String {
    "default".to_owned()
}

fn default_criteria() -> String {
    "targeted".to_owned()
}

fn default_state() -> String {
    "active".to_owned()
}

fn default_owner() -> String {
    "111122223333".to_owned()
}

impl Reservation {
    fn listed(&self) -> Value {
        let tags = self.tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value }));
        let mut made = json!({
            "CapacityReservationId": self.id, "OwnerId": self.owner, "InstanceType": self.instance_type,
            "AvailabilityZone": self.zone, "State": self.state, "InstanceMatchCriteria": self.criteria,
            "TotalInstanceCount": self.total, "AvailableInstanceCount": self.available, "ReservationType": self.kind, "EndDate": self.ends,
            "Tags": tags.collect::<Vec<_>>(),
        });
        if let Some(interruptible) = self.interruptible {
            made["Interruptible"] = json!(interruptible);
        }
        made
    }
}

/// The reservations, as `nodeless plan --capacity-reservations` reads them.
pub(crate) fn exported(all: &[Reservation]) -> Result<ExportedReservations, String> {
    let output = json!({ "CapacityReservations": all.iter().map(Reservation::listed).collect::<Vec<_>>() });
    let mut exported = ExportedReservations::default();
    exported.read("case", output.to_string().as_bytes()).map_err(|error| error.to_string())?;
    Ok(exported)
}
