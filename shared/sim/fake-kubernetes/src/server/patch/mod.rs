//! The kinds of patch that the API takes.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;
