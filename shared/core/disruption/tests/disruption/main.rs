//! Tests of decisions about disruption, in one binary.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod ami_canary;
mod consolidation;
mod constraints;
mod decisions;
mod drift;
mod on_demand_minimum;
mod others;
mod parsers;
mod properties;
mod repair;
mod support;
mod terminate_first;
mod topology;
mod undecoded;
mod unready;
mod zonal_shift;
