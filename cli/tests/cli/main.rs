//! Tests of the command line, in one binary.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod catalog;
mod cluster;
mod commitments;
mod convert;
mod crds;
mod decisions;
mod diff;
#[cfg(unix)]
mod doctor;
mod malformed;
mod plan;
mod printed;
mod report;
#[cfg(unix)]
mod shells;
mod simulated;
mod streams;
mod support;
mod what_if;
