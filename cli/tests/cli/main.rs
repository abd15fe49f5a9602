//! Tests of the command line, in one binary.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod catalog;
mod commitments;
mod convert;
mod crds;
mod decisions;
mod demo;
mod diff;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod export_command;
mod install;
mod kubeconfig;
#[cfg(unix)]
mod local;
#[cfg(unix)]
mod local_commands;
mod malformed;
#[cfg(all(unix, feature = "kubernetes"))]
mod metrics;
#[cfg(all(unix, feature = "kubernetes"))]
mod page_sizes;
mod plan;
mod plan_assumptions;
mod plan_cluster;
mod plan_default_spread;
mod plan_disruption;
mod plan_explained_nodes;
mod plan_inputs;
mod plan_policies;
mod plan_repair_and_churn;
mod plan_reservations;
mod plan_snapshot;
mod printed;
mod report;
#[cfg(unix)]
mod shells;
mod simulate;
mod streams;
mod support;
#[cfg(all(unix, feature = "kubernetes"))]
mod upgrade;
#[cfg(all(unix, feature = "kubernetes"))]
mod view;
#[cfg(all(unix, feature = "kubernetes"))]
mod view_web;
mod what_if;
