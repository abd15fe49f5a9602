//! What a step observes.

pub mod group;
pub mod observation;
pub mod opening;
pub(super) mod prospect;
