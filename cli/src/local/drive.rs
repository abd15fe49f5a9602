//! Lets a world's time pass with the wall clock, only faster.

use super::log::{LocalFailure, LocalMishap};
use super::mishaps::Mishaps;
use crate::error::CliError;
use jiff::Timestamp;
use nodeless_driver::{Controller, ControllerError};
use nodeless_telemetry::{Sink, emit};
use nodeless_world::World;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the world rests between two looks at the wall clock and at what changed in it.
const TICK: Duration = Duration::from_millis(5);

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

/// What is driven: a world with nodeless at work in it, or without.
pub(crate) enum Worker {
    World(Box<World>),
    Controller(Box<Controller>),
}

impl Worker {
    fn advance_to(&mut self, target: Timestamp) -> Result<(), ControllerError> {
        match self {
            Self::World(world) => Ok(world.advance_to(target)?),
            Self::Controller(controller) => controller.advance_to(target),
        }
    }

    fn world_mut(&mut self) -> &mut World {
        match self {
            Self::World(world) => world,
            Self::Controller(controller) => controller.world_mut(),
        }
    }

    /// What failed since the last call, and when. All of it is tried again.
    fn take_failures(&mut self) -> Vec<(Timestamp, String)> {
        match self {
            Self::World(world) => {
                // Nobody here listens to EventBridge.
                drop(world.take_events());
                Vec::new()
            }
            Self::Controller(controller) => {
                let outcomes = controller.take_outcomes().into_iter();
                outcomes.filter_map(|(at, outcome)| Some((at, outcome.failure()?))).collect()
            }
        }
    }
}

/// Lets time pass until the process ends, in a thread of its own: a plan may take the processor for a while.
///
/// # Errors
/// When no thread can be had.
pub(crate) fn start(mut worker: Worker, pace: Pace, sink: Arc<dyn Sink>) -> Result<(), CliError> {
    let work = move || {
        let mut told = String::new();
        let mut mishaps = Mishaps::default();
        loop {
            if let Err(error) = worker.advance_to(pace.time()) {
                // It goes on: whoever made the object that it stumbles over can mend or delete it.
                let why = error.to_string();
                if why != told {
                    told.clone_from(&why);
                    emit(sink.as_ref(), pace.time(), &LocalFailure { what: "control plane", why });
                }
            }
            for happened in mishaps.see_to(worker.world_mut()) {
                match happened {
                    Ok(what) => emit(sink.as_ref(), pace.time(), &LocalMishap { what }),
                    Err(why) => emit(sink.as_ref(), pace.time(), &LocalFailure { what: "mishap", why }),
                }
            }
            for (at, why) in worker.take_failures() {
                emit(sink.as_ref(), at, &LocalFailure { what: "operation", why });
            }
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("world".to_owned()).spawn(work).map(drop).map_err(CliError::Thread)
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
