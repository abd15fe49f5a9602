//! Lets a world's time pass with the wall clock, only faster.

use super::log::LocalFailure;
use jiff::Timestamp;
use nodeless_simulation::world::World;
use nodeless_telemetry::{Sink, emit};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::MissedTickBehavior;

/// How often the world looks at the wall clock. Changes to objects are seen at once.
const TICK: Duration = Duration::from_millis(10);

/// How a world's time goes with the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    began: Instant,
    start: Timestamp,
    speed: f64,
}

impl Pace {
    /// From now on the world's time runs this many times faster than the wall clock.
    pub(crate) fn new(start: Timestamp, speed: f64) -> Self {
        Self { began: Instant::now(), start, speed }
    }

    /// What the wall clock showed since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What the world's clock should show now.
    fn time(&self) -> Timestamp {
        let passed = Duration::try_from_secs_f64(self.elapsed().as_secs_f64() * self.speed).unwrap_or(Duration::MAX);
        self.start.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}

/// Runs the world for ever. What EC2 tells EventBridge goes to `events`; nobody has to listen.
pub(crate) async fn drive(mut world: World, pace: Pace, events: UnboundedSender<Value>, sink: Arc<dyn Sink>) {
    let mut revisions = world.api().subscribe();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = String::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // The world holds the sender, so this never fails.
            _ = revisions.changed() => {}
        }
        if let Err(error) = world.advance_to(pace.time()) {
            // It goes on: whoever made the object that it stumbles over can mend or delete it.
            let why = error.to_string();
            if why != told {
                told.clone_from(&why);
                emit(sink.as_ref(), world.now(), &LocalFailure { what: "control plane", why });
            }
        }
        for event in world.take_events() {
            let _nobody_listens = events.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_faster_by_the_speed() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let began = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
        let passed = |speed| Pace { began, start, speed }.time().duration_since(start).as_secs();
        // The test itself takes a moment, which counts too.
        assert!(passed(1.0) >= 30 && passed(20.0) >= 600 && passed(20.0) >= 15 * passed(1.0));
    }
}
