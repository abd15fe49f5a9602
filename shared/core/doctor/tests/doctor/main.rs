//! The checks of a cluster.
#![allow(clippy::unwrap_used)]

mod boot_time;
mod checks;
mod nodes;
