//! The parts that the texts of a plan have in common.

pub(super) mod answer;
pub(crate) mod parts;
pub(super) mod ruled_out;
pub(crate) mod text_parts;
