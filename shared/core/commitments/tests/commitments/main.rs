//! Tests of how commitments apply, and of how their exports are read.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod account;
mod examples;
mod exports;
mod prepaid;
mod properties;
mod support;
