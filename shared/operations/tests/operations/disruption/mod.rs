//! Nodes that are replaced, interrupted, rebooted or stopped.

mod certificate_authority;
mod churn;
mod commands;
mod drift;
mod graceful_expiration;
mod interruption;
mod reboots;
mod surges;
mod warm;
mod warm_calls;
mod zonal_shift;
