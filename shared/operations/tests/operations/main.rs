//! Tests of the operations over their ports, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod claims;
mod cluster_settings;
mod common;
mod costs;
mod disruption;
mod events;
mod isolation;
mod other_controllers;
mod outages;
mod planning;
mod refreshing;
mod requests;
mod scenarios;
mod snapshots;
mod throughput;
mod two_tables;
