//! Reports of simulations.

mod progress;
pub(crate) mod text;

pub(crate) use progress::Progress;
