//! The hours of a report that were recorded late.

use super::rows::RecordOfCluster;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeSet;

/// Hours of a cluster that are not exact: costs were recorded late, because the planner did not run or the claims table was restored to an
/// earlier time. Nodes that ended meanwhile may count for too long, and those that were launched meanwhile, too, may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inexact {
    /// The cluster.
    pub cluster: String,
    /// The start of the first hour.
    pub from: Timestamp,
    /// The end of the last hour.
    pub to: Timestamp,
}

/// The hours of these records that are not exact, by cluster. Hours that follow each other are one time.
pub(super) fn inexact(entries: &[RecordOfCluster<'_>]) -> Vec<Inexact> {
    let late = entries.iter().filter(|entry| entry.record.late);
    let hours: BTreeSet<(&str, Timestamp)> = late.map(|entry| (entry.cluster, entry.record.hour)).collect();
    let mut times: Vec<Inexact> = Vec::new();
    for (cluster, from) in hours {
        let to = from.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX);
        match times.last_mut().filter(|last| last.cluster == cluster && last.to == from) {
            Some(last) => last.to = to,
            None => times.push(Inexact { cluster: cluster.to_owned(), from, to }),
        }
    }
    times
}
