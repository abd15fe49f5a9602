//! The pods without a node: which of them are nominated, where they are scheduled, and what they wait for.

pub(crate) mod burst;
pub(crate) mod expected;
pub(crate) mod own_nominations;
pub(crate) mod placed;
pub(crate) mod unmarked;
mod unused_launches;
pub(crate) mod waiting;
