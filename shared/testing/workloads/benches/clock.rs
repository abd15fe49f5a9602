//! Measures processor time.
#![allow(unreachable_pub, reason = "shared by benchmarks")]

use std::time::{Duration, Instant};

/// The processor time of this thread, where the system reports it, so that other load on the machine matters less.
pub struct Clock(Option<u64>, Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Self::on_cpu(), Instant::now())
    }

    fn on_cpu() -> Option<u64> {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split(' ').next()?.parse().ok()
    }

    pub fn elapsed(&self) -> Duration {
        let on_cpu = self.0.zip(Self::on_cpu()).map(|(start, now)| Duration::from_nanos(now - start));
        on_cpu.unwrap_or_else(|| self.1.elapsed())
    }
}
