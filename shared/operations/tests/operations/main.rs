//! Tests of the operations over their ports, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod churn;
mod cluster_settings;
mod cluster_state;
mod commands;
mod common;
mod costs;
mod crash_points;
mod deletions;
mod drift;
mod dry_runs;
mod events;
mod graceful_expiration;
mod held_back;
mod interruption;
mod launch_groups;
mod lifecycle;
mod limits;
mod not_yet_evaluated;
mod outages;
mod quotas;
mod recovery;
mod registrations;
mod reported_memory;
mod reservations;
mod scenarios;
mod shards;
mod snapshots;
mod static_capacity;
mod surges;
mod throughput;
mod two_planners;
mod two_tables;
mod unfinished;
mod validation;
mod zonal_shift;
