//! The records of a plan: its decisions, its report, and that it has begun.

pub(crate) mod decisions;
pub(crate) mod report;
pub(crate) mod unfinished;
