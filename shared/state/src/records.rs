//! Small records that their owners encode: what one run of a function learned and later runs use.

use crate::State;
use crate::items::{attributes, read_number, read_text, text, ttl};
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::table::{Item, Key};
use serde::{Deserialize, Serialize};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordKind {
    /// The voluntary disruption of a NodePool within the last hour, and its replacements that did not become ready.
    Churn,
    /// The last report of costs that was sent, or begun: one for the cluster.
    CostReport,
    /// The last stop of an instance that EC2 refused for a NodePool.
    RefusedStops,
    /// The results of the last launches of a NodePool.
    Registrations,
    /// The memory that nodes reported, by image and instance type: one for the cluster.
    ReportedMemory,
    /// The pods that stay pending although plans place them on nodes that are ready for pods: one for the cluster.
    WaitingPods,
    /// The zones that the cluster is shifted away from: one for the cluster.
    ZonalShifts,
}

impl RecordKind {
    /// The name of the kind in the claims table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::CostReport => "costreport",
            Self::RefusedStops => "refusedstops",
            Self::Registrations => "registrations",
            Self::ReportedMemory => "memory",
            Self::WaitingPods => "waitingpods",
            Self::ZonalShifts => "zonalshifts",
        }
    }

    /// The names of the calls that read and write it.
    const fn operations(self) -> (&'static str, &'static str) {
        match self {
            Self::Churn => ("claims churn", "claims put churn"),
            Self::CostReport => ("claims cost report", "claims put cost report"),
            Self::RefusedStops => ("claims refused stops", "claims put refused stops"),
            Self::Registrations => ("claims registrations", "claims put registrations"),
            Self::ReportedMemory => ("claims reported memory", "claims put reported memory"),
            Self::WaitingPods => ("claims waiting pods", "claims put waiting pods"),
            Self::ZonalShifts => ("claims zonal shifts", "claims put zonal shifts"),
        }
    }

    /// The key of the record's item in the claims table.
    #[must_use]
    pub fn key(self, node_pool: &str) -> String {
        let kind = self.as_str();
        if node_pool.is_empty() { kind.to_owned() } else { format!("{kind}#{node_pool}") }
    }
}

/// A record as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRecord {
    /// The NodePool of the record; empty for a record of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_pool: String,
    /// The number of writes. A write fails if another one came first. Zero before the first write.
    pub version: u64,
    /// The record that its owner encoded as JSON; empty before the first write.
    pub encoded: String,
    /// When it expires. It may be deleted later than that. `None` for a record that does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl State {
    /// All records of a kind, in the order of their NodePools, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, PortError> {
        let (read, _) = kind.operations();
        self.items_of(read, &format!("{}#", kind.as_str())).await?.iter().map(decode).collect()
    }

    /// Reads a record consistently. `node_pool` is empty for a record of the cluster.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn record(&self, kind: RecordKind, node_pool: &str) -> Result<Option<StoredRecord>, PortError> {
        let (read, _) = kind.operations();
        self.item(read, &kind.key(node_pool)).await?.as_ref().map(decode).transpose()
    }

    /// Writes a record if the table still holds the version that was read (none if that is zero, or if the record has expired),
    /// and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    pub async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Result<u64, PortError> {
        let (_, write) = kind.operations();
        let mut item = attributes([("record", text(&record.encoded))]);
        let stored = match record.expires {
            Some(expires) => {
                item.insert("expires".to_owned(), ttl(expires));
                Stored::read_expiring(record.version)
            }
            None => Stored::read(record.version),
        };
        self.put_versioned(write, Key::of_cluster(kind.key(&record.node_pool)), item, stored).await
    }
}

fn decode(item: &Item) -> Result<StoredRecord, PortError> {
    let expires = item.attributes.contains_key("expires").then(|| read_number(item, "expires")).transpose()?;
    Ok(StoredRecord {
        node_pool: item.key.sort.split_once('#').map_or("", |(_, node_pool)| node_pool).to_owned(),
        version: read_number(item, "version")?,
        encoded: read_text(item, "record")?.to_owned(),
        expires: expires.map(|seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)),
    })
}
