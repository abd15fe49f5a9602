//! The record of the hour that has not ended.

use crate::hour::{HourRecord, rounded};
use crate::stored::{StoredError, encode};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The costs of the nodes of a cluster in the current hour. One record for each cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// When records began.
    pub since: Timestamp,
    /// Until when everything is recorded.
    pub through: Timestamp,
    /// The uids of the claims that had no instance then. Instances that they get later are recorded from the launch on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub awaited: BTreeSet<String>,
    /// The uids of the claims that ended lately and are recorded.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ended: BTreeSet<String>,
    /// The records of the hour, in the order of their NodePools.
    pub hours: Vec<HourRecord>,
    /// The costs of each NodePool today and this month.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub totals: BTreeMap<String, PoolTotals>,
    /// The costs of this month at the present pace, by NodePool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paces: BTreeMap<String, f64>,
    /// The budgets of NodePools, in dollars a month; that of the cluster has an empty name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budgets: BTreeMap<String, f64>,
}

/// The costs of a NodePool, by day and month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolTotals {
    /// The day.
    pub day: Date,
    /// Dollars on that day.
    #[serde(serialize_with = "rounded")]
    pub today: f64,
    /// Dollars on the day before.
    #[serde(serialize_with = "rounded")]
    pub yesterday: f64,
    /// Dollars in the month of that day.
    #[serde(serialize_with = "rounded")]
    pub this_month: f64,
}

/// The day of a time in UTC.
pub(crate) fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The start of a day in UTC.
pub(crate) fn start_of(day: Date) -> Timestamp {
    day.to_zoned(TimeZone::UTC).map_or(Timestamp::MIN, |zoned| zoned.timestamp())
}

impl PoolTotals {
    /// Nothing yet.
    #[must_use]
    pub const fn new(day: Date) -> Self {
        Self { day, today: 0.0, yesterday: 0.0, this_month: 0.0 }
    }

    /// The totals as of this day. Earlier days change nothing.
    #[must_use]
    pub fn on(self, day: Date) -> Self {
        if day <= self.day {
            return self;
        }
        let next = self.day.tomorrow().is_ok_and(|next| next == day);
        let same_month = (day.year(), day.month()) == (self.day.year(), self.day.month());
        Self {
            day,
            today: 0.0,
            yesterday: if next { self.today } else { 0.0 },
            this_month: if same_month { self.this_month } else { 0.0 },
        }
    }

    /// Adds dollars of a day.
    pub(crate) fn add(&mut self, day: Date, dollars: f64) {
        *self = self.on(day);
        self.today += dollars;
        self.this_month += dollars;
    }

    /// The costs of the month if the rest of it costs as much per hour as the time since the start of yesterday. Records began at
    /// `since`; if that is less than an hour ago, `now_per_hour` counts.
    #[must_use]
    pub fn this_month_at_this_pace(self, since: Timestamp, now: Timestamp, now_per_hour: f64) -> f64 {
        let totals = self.on(day_of(now));
        let yesterday = totals.day.yesterday().map_or(Timestamp::MIN, start_of);
        let counted = hours(yesterday.max(since), now);
        let pace = if counted < 1.0 { now_per_hour } else { (totals.yesterday + totals.today) / counted };
        let end = totals.day.last_of_month().tomorrow().map_or(Timestamp::MAX, start_of);
        totals.this_month + pace * hours(now, end)
    }
}

/// The hours from a time to a later one; zero if it is earlier.
pub(crate) fn hours(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0) / 3600.0
}

impl Open {
    /// A record that begins now.
    #[must_use]
    pub const fn begin(now: Timestamp) -> Self {
        Self {
            since: now,
            through: now,
            awaited: BTreeSet::new(),
            ended: BTreeSet::new(),
            hours: Vec::new(),
            totals: BTreeMap::new(),
            paces: BTreeMap::new(),
            budgets: BTreeMap::new(),
        }
    }

    /// Encodes the record in at most this many bytes: if need be with fewer groups, of which more are added up.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn encode_within(&self, bytes: usize) -> Result<Vec<u8>, StoredError> {
        let mut encoded = encode(self)?;
        let mut smaller = self.clone();
        for most in [50, 10, 1] {
            if encoded.len() <= bytes {
                break;
            }
            smaller.hours.iter_mut().for_each(|record| record.limit_groups(most));
            encoded = encode(&smaller)?;
        }
        Ok(encoded)
    }

    /// The costs of a NodePool until now.
    #[must_use]
    pub fn totals_of(&self, node_pool: &str, now: Timestamp) -> PoolTotals {
        let day = day_of(now);
        self.totals.get(node_pool).map_or(PoolTotals::new(day), |totals| totals.on(day))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn days_and_months_begin_at_midnight_in_utc() {
        let mut totals = PoolTotals::new(day_of(at("2026-11-29T12:00:00Z")));
        totals.add(day_of(at("2026-11-29T23:59:59Z")), 3.0);
        totals.add(day_of(at("2026-11-30T00:00:00Z")), 2.0);
        assert_eq!((totals.today, totals.yesterday, totals.this_month), (2.0, 3.0, 5.0));
        let next = totals.on(day_of(at("2026-12-01T00:00:00Z")));
        assert_eq!((next.today, next.yesterday, next.this_month), (0.0, 2.0, 0.0));
        let later = totals.on(day_of(at("2026-12-05T00:00:00Z")));
        assert_eq!((later.today, later.yesterday), (0.0, 0.0));
    }

    #[test]
    fn the_pace_is_that_of_yesterday_and_today() {
        let totals =
            PoolTotals { day: day_of(at("2026-11-23T12:00:00Z")), today: 12.0, yesterday: 24.0, this_month: 500.0 };
        let pace = |since, now| totals.this_month_at_this_pace(at(since), at(now), 9.0);
        // A dollar an hour, and 7.5 days are left.
        assert!((pace("2026-01-01T00:00:00Z", "2026-11-23T12:00:00Z") - 680.0).abs() < 1e-9);
        // Records began 18 hours ago: two dollars an hour.
        assert!((pace("2026-11-22T18:00:00Z", "2026-11-23T12:00:00Z") - 860.0).abs() < 1e-9);
        // Records began half an hour ago: the current price counts.
        assert!((pace("2026-11-23T11:30:00Z", "2026-11-23T12:00:00Z") - 2120.0).abs() < 1e-9);
        // At the end of the month nothing is left.
        assert!((pace("2026-01-01T00:00:00Z", "2026-11-30T23:59:59.999Z") - 500.0).abs() < 1e-3);
    }
}
