//! Commands that simulate a cluster.

pub(crate) mod demo;
#[cfg(unix)]
pub(crate) mod local;
#[cfg(unix)]
pub(crate) mod local_commands;
pub(crate) mod simulate;
