//! The records of a cluster that a report is made of.

use super::ClusterRecords;
use crate::hour::{HourRecord, hour_of};
use crate::open::Open;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// The records of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The records of hours that have ended.
    pub hours: Vec<HourRecord>,
    /// The record of the current hour.
    pub open: Option<Open>,
}

impl Records {
    /// Until when there are records.
    #[must_use]
    pub fn through(&self) -> Option<Timestamp> {
        let end = |record: &HourRecord| record.hour.checked_add(SignedDuration::from_hours(1)).ok();
        let last = || self.hours.iter().filter_map(end).max();
        self.open.as_ref().map(|open| open.through).or_else(last)
    }

    /// Since when there are records: since they began, or since those that have not expired after this time.
    #[must_use]
    pub fn since(&self, kept: Duration) -> Option<Timestamp> {
        let first = || self.hours.iter().map(|record| record.hour).min();
        let unexpired =
            |open: &Open| open.through.checked_sub(kept).map_or(open.since, |oldest| oldest.max(open.since));
        self.open.as_ref().map(unexpired).or_else(first)
    }

    /// The labels by which costs are recorded.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let open = self.open.iter().flat_map(|open| &open.hours);
        self.hours.iter().chain(open).flat_map(|record| record.labels.keys()).map(String::as_str)
    }

    /// These records for a report, if there are any, as those of the cluster with this name. They are kept for this time.
    #[must_use]
    pub fn source<'a>(&'a self, cluster: &'a str, kept: Duration) -> Option<ClusterRecords<'a>> {
        let since = self.since(kept)?;
        Some(ClusterRecords { cluster, since, hours: &self.hours, open: self.open.as_ref() })
    }
}

/// This number of full hours, the last of which ends with the records or less than an hour before.
#[must_use]
pub fn last_hours(through: Timestamp, hours: u32) -> (Timestamp, Timestamp) {
    let end = hour_of(through);
    (end.checked_sub(SignedDuration::from_hours(hours.into())).unwrap_or(Timestamp::MIN), end)
}
