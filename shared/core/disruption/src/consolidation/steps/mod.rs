//! The steps of consolidation.

pub(super) mod groups;
pub(super) mod merge;
pub(super) mod removal;
pub(super) mod single;
