//! Node repair: nodes that have been unhealthy for too long are rebooted or replaced, unless too many are unhealthy at once.

mod detection;
pub(crate) mod method;

pub use detection::{Unhealthy, Verdict, unhealthy};
