//! Tests of plans for pending pods, in one binary.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod fixed_point;
mod gangs;
mod preferences;
/// The clusters of the tests of disruption.
#[path = "../../../disruption/tests/disruption/support/mod.rs"]
mod support;
mod volumes;
