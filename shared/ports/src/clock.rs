//! The time, and waiting for it.

use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Duration;

/// A clock. In AWS it is the wall clock. In the simulation it may run faster, or advance only when it is set.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Waits for this duration on this clock.
    async fn sleep(&self, duration: Duration);
}
