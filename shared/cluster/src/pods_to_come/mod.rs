//! What defines pods that do not exist yet, and the pod templates that it refers to.

pub(crate) mod buffers;
pub(crate) mod requests;
