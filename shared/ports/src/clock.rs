//! The time, and waiting for it.

use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Duration;

/// A clock. In AWS it is the wall clock; in the simulated world it may run faster, or move only when it is set.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Waits until this much time has passed on this clock.
    async fn sleep(&self, duration: Duration);
}
