//! The kinds of patch that the API takes.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;

/// The kinds of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge, which supports keyed lists. Built-in kinds only.
    Strategic,
    /// Server-side apply; needs a field manager.
    Apply,
}
