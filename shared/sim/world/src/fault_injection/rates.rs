//! How often what goes wrong.

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as duration;
use serde::Deserialize;
use std::time::Duration;

/// The probability of each fault for one call, or for one message, from 0 to 1. All are 0 by default.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rates {
    /// The process is killed right before a write.
    pub killed_before: f64,
    /// The process is killed right after a write.
    pub killed_after: f64,
    /// A call fails without an effect.
    pub failed: f64,
    /// A call is throttled and has no effect.
    pub throttled: f64,
    /// A write takes effect, but its answer is lost.
    pub answer_lost: f64,
    /// A conditional write of the claims table conflicts with another transaction.
    pub refused: f64,
    /// A call takes up to [`Self::slowest`], so that other operations run in between.
    pub slow: f64,
    /// The maximum duration of a slow call.
    #[serde(deserialize_with = "duration::deserialize")]
    pub slowest: Duration,
    /// A snapshot of the cluster, the objects of one kind in it, a list of instances, or the description of an instance is the
    /// one that was read before.
    pub stale: f64,
    /// The maximum age of a stale read.
    #[serde(deserialize_with = "duration::deserialize")]
    pub stalest: Duration,
    /// A message is lost.
    pub lost: f64,
    /// A message is delayed, by up to [`Self::latest`].
    pub late: f64,
    /// The maximum delay of a message.
    #[serde(deserialize_with = "duration::deserialize")]
    pub latest: Duration,
    /// A message is delivered twice.
    pub doubled: f64,
    /// The maximum difference between the clock of a process and the time.
    #[serde(deserialize_with = "duration::deserialize")]
    pub skew: Duration,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            killed_before: 0.0,
            killed_after: 0.0,
            failed: 0.0,
            throttled: 0.0,
            answer_lost: 0.0,
            refused: 0.0,
            slow: 0.0,
            slowest: Duration::from_secs(2),
            stale: 0.0,
            stalest: Duration::from_secs(10),
            lost: 0.0,
            late: 0.0,
            latest: Duration::from_secs(30),
            doubled: 0.0,
            skew: Duration::ZERO,
        }
    }
}
