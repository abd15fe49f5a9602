//! The checks of a cluster.
#![allow(clippy::unwrap_used)]

mod checks;
mod nodes;
