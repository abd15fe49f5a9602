//! Reports of simulations.

pub(crate) mod html;
mod progress;
pub(crate) mod text;

pub(crate) use progress::Progress;
