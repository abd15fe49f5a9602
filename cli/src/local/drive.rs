//! Advances the time of a simulated cluster with the wall clock, at a multiple of its speed.

use super::cluster_faults::ClusterFaults;
use super::faults::Faults;
use super::log::{LocalFailure, LocalFault};
use crate::error::CliError;
use jiff::Timestamp;
use nodeless_driver::{Driver, DriverError};
use nodeless_telemetry::{Sink, emit};
use nodeless_world::World;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two steps.
const TICK: Duration = Duration::from_millis(5);

/// The time of a simulated cluster as a function of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    began: Instant,
    start: Timestamp,
    speed: f64,
}

impl Pace {
    /// Time that runs from now on at this multiple of the wall clock.
    pub(crate) fn new(start: Timestamp, speed: f64) -> Self {
        Self { began: Instant::now(), start, speed }
    }

    /// The time that passed on the wall clock.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The speed of simulated time as a multiple of the wall clock.
    pub(crate) fn speed(&self) -> f64 {
        self.speed
    }

    /// The simulated time now.
    fn time(&self) -> Timestamp {
        let passed = Duration::try_from_secs_f64(self.elapsed().as_secs_f64() * self.speed).unwrap_or(Duration::MAX);
        self.start.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}

/// What is driven: a simulated cluster with nodeless, or without.
pub(crate) enum Worker {
    World(Box<World>),
    Driver(Box<Driver>),
}

impl Worker {
    fn advance_to(&mut self, target: Timestamp) -> Result<(), DriverError> {
        match self {
            Self::World(world) => Ok(world.advance_to(target)?),
            Self::Driver(driver) => driver.advance_to(target),
        }
    }

    fn world_mut(&mut self) -> &mut World {
        match self {
            Self::World(world) => world,
            Self::Driver(driver) => driver.world_mut(),
        }
    }

    /// Changes the faults of the account and of the services.
    fn change_faults(&self, faults: &mut ClusterFaults) -> Vec<Result<String, String>> {
        match self {
            Self::World(world) => faults.change(world, None),
            Self::Driver(driver) => faults.change(driver.world(), driver.fault_injection()),
        }
    }

    /// The operations that failed since the last call, and when. All of them are tried again.
    fn take_failures(&mut self) -> Vec<(Timestamp, String)> {
        match self {
            Self::World(world) => {
                // Without nodeless these events have no receiver.
                drop(world.take_events());
                Vec::new()
            }
            Self::Driver(driver) => {
                let outcomes = driver.take_outcomes().into_iter();
                outcomes.filter_map(|(at, outcome)| Some((at, outcome.failure()?))).collect()
            }
        }
    }
}

/// Advances time until the process ends, in a thread of its own, because a plan may use the processor for a while.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn start(mut worker: Worker, pace: Pace, sink: Arc<dyn Sink>) -> Result<(), CliError> {
    let work = move || {
        let mut reported = String::new();
        let (mut faults, mut of_cluster) = (Faults::default(), ClusterFaults::default());
        loop {
            if let Err(error) = worker.advance_to(pace.time()) {
                // Time continues, so that the user can fix or delete the object that causes the failure.
                let why = error.to_string();
                if why != reported {
                    reported.clone_from(&why);
                    emit(sink.as_ref(), pace.time(), &LocalFailure { what: "control plane", why });
                }
            }
            let mut injected = faults.inject(worker.world_mut());
            injected.extend(worker.change_faults(&mut of_cluster));
            for injected in injected {
                match injected {
                    Ok(what) => emit(sink.as_ref(), pace.time(), &LocalFault { what }),
                    Err(why) => emit(sink.as_ref(), pace.time(), &LocalFailure { what: "fault", why }),
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
