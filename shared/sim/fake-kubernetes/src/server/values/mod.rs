//! Values that the rest of the server shares.

pub(super) mod limits;
pub(crate) mod path;
pub(crate) mod pod_resources;
pub(super) mod selectors;
pub(super) mod status;
pub(super) mod time;
