//! The time of equal length before that of a report, with which it is compared.

use super::ClusterRecords;
use super::rows::{Earlier, RecordOfCluster};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The time of equal length before the start of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// The start.
    pub from: Timestamp,
    /// The end, exclusive: the start of the report.
    pub to: Timestamp,
    /// The costs of this time; `None` if they are not recorded from its start on in every cluster.
    pub dollars: Option<f64>,
}

/// The time before that from `from` to `to`, and its records if all of it is recorded. A time that does not begin with a full hour has
/// a part of the first hour.
pub(super) fn before<'a>(
    from: Timestamp,
    to: Timestamp,
    sources: &'a [ClusterRecords<'a>],
) -> (Before, Option<Vec<Earlier<'a>>>) {
    let start = from.checked_sub(to.duration_since(from)).unwrap_or(Timestamp::MIN);
    if sources.iter().any(|source| source.since > start) {
        return (Before { from: start, to: from, dollars: None }, None);
    }
    let counted = |entry: RecordOfCluster<'a>| {
        let hour = entry.record.hour;
        let end = hour.checked_add(SignedDuration::from_hours(1)).ok()?.min(from);
        let part = end.duration_since(hour.max(start)).as_secs_f64() / 3600.0;
        (part > 0.0).then_some((entry, part))
    };
    let earlier: Vec<Earlier<'a>> = sources.iter().flat_map(ClusterRecords::entries).filter_map(counted).collect();
    let dollars = earlier.iter().map(|(entry, part)| entry.record.dollars() * part).sum();
    (Before { from: start, to: from, dollars: Some(dollars) }, Some(earlier))
}
