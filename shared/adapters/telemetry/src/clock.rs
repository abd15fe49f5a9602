//! The wall clock.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::Clock;
use std::time::Duration;

/// The time of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
