//! How often what goes wrong.

use std::time::Duration;

/// The probability of each fault for one call, or for one message. All are 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    pub slowest: Duration,
    /// A snapshot of the cluster, the objects of one kind in it, a list of instances, or the description of an instance is the
    /// one that was read before.
    pub stale: f64,
    /// The maximum age of a stale read.
    pub stalest: Duration,
    /// A message is lost.
    pub lost: f64,
    /// A message is delayed, by up to [`Self::latest`].
    pub late: f64,
    /// The maximum delay of a message.
    pub latest: Duration,
    /// A message is delivered twice.
    pub doubled: f64,
    /// The maximum difference between the clock of a process and the time.
    pub skew: Duration,
}
