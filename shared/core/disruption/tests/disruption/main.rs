//! Tests of decisions about disruption, in one binary.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod ami_canary;
mod binding;
mod buffers;
mod consolidation;
mod constraints;
mod decisions;
mod drift;
mod just_launched;
mod local_volumes;
mod merge;
mod min_savings;
mod on_demand_minimum;
mod others;
mod paid;
mod parsers;
mod preferences;
mod properties;
mod repair;
mod support;
mod terminate_first;
mod topology;
mod undecoded;
mod unready;
mod zonal_shift;
mod zone_balance;
