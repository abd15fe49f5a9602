//! The controllers that create pods.

pub(super) mod creations;
pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod job;
pub(super) mod replica_set;
pub(super) mod rollout;
pub(super) mod stateful_set;
pub(super) mod workload;
