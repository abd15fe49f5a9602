//! The demo: a Deployment is scaled up and down in a simulated cluster.

mod objects;
mod progress;
pub(crate) mod steps;

pub(crate) use progress::{DemoProgress, style};
