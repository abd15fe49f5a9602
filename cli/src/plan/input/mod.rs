//! What a plan reads: objects and prices from files, the API server or records.

pub(crate) mod catalog;
pub(crate) mod files;
#[cfg(feature = "kubernetes")]
pub(crate) mod live;
pub(super) mod offline;
pub(crate) mod replay;
pub(crate) mod reservations;
pub(crate) mod scheduler_config;
