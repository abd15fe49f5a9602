//! The demo: a deployment goes up and down in a world of its own.

mod look;
mod progress;
pub(crate) mod story;

pub(crate) use progress::{Progress, style};
