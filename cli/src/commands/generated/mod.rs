//! Commands that print what is generated from the code.

pub(crate) mod completions;
pub(crate) mod crds;
pub(crate) mod man;
