//! Changes of existing claims: hashes, conditions and annotations, and deletion.

pub(crate) mod deletions;
pub(crate) mod updates;
