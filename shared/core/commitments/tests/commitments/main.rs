//! Tests of how commitments apply, and of how their exports are read.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod examples;
mod exports;
mod prepaid;
mod properties;
mod support;
