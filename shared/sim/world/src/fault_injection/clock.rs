//! Clocks of processes that are fast or slow.

use super::FaultInjection;
use crate::world::WorldClock;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use nodeless_ports::Clock;
use std::sync::Arc;
use std::time::Duration;

/// A clock that differs from that of the world by a constant.
#[derive(Debug)]
struct SkewedClock {
    clock: WorldClock,
    ahead: SignedDuration,
}

impl FaultInjection {
    /// The clock of a new process: it differs from the time by at most [`super::Rates::skew`].
    #[must_use]
    pub fn clock_of_process(&self) -> Arc<dyn Clock> {
        let ahead = self.draw(|random, rates| {
            let most = u64::try_from(rates.skew.as_millis()).unwrap_or(0);
            let drawn = if most == 0 { 0 } else { random.below(2 * most + 1) };
            SignedDuration::from_millis(i64::try_from(drawn).unwrap_or(0) - i64::try_from(most).unwrap_or(0))
        });
        Arc::new(SkewedClock { clock: self.clock().clone(), ahead })
    }
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let now = self.clock.time();
        now.saturating_add(self.ahead).unwrap_or(now)
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}
