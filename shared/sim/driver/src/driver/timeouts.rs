//! How long an invocation may take. Shortly before Lambda ends it, a function drops its work and answers, except for the planner, which plans
//! for the time that is left.
//!
//! The timeouts repeat the defaults of Terraform, which the tests in `terraform.rs` compare.

use super::Outcome;
use futures::future::{Either, select};
use jiff::{SignedDuration, Timestamp};
use nodeless_ports::Clock;
use nodeless_world::WorldClock;
use nodeless_world::fault_injection::Rates;
use nodeless_world::memory::Function;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

pub(super) const PLANNER: Duration = Duration::from_secs(40);
pub(super) const LIFECYCLE: Duration = Duration::from_secs(90);
pub(super) const INTERRUPTION: Duration = Duration::from_secs(30);
pub(super) const CATALOG: Duration = Duration::from_secs(240);
/// What a function keeps of its time to answer, as in `nodeless-runtime`.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// The longest delay of single calls with which invocations have a timeout.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The timeout of a function.
pub(super) fn timeout(function: Function) -> Duration {
    match function {
        Function::Planner => PLANNER,
        Function::Lifecycle => LIFECYCLE,
        Function::Interruption => INTERRUPTION,
        Function::Catalog => CATALOG,
    }
}

/// Whether invocations end at their timeout: unless single calls, chosen at random, take most of it. These delays are for other work to run
/// in between; services that answer slowly are simulated with what their clients do.
pub(super) fn apply(rates: Rates) -> bool {
    rates.slow == 0.0 || rates.slowest <= LONGEST_DELAY
}

/// The work of an invocation until it ends or its time does. `name` names it.
pub(super) async fn within(
    function: Function,
    name: &'static str,
    clock: WorldClock,
    work: impl Future<Output = Outcome>,
) -> Outcome {
    let (time, late) = match function {
        Function::Planner => (PLANNER, Outcome::Ended(name)),
        _ => (timeout(function).saturating_sub(KEPT_FOR_THE_ANSWER), Outcome::OutOfTime(name)),
    };
    match select(pin!(work), pin!(clock.sleep(time))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => late,
    }
}

/// When Lambda ends an invocation that begins now.
pub(super) fn deadline(function: Function, clock: &WorldClock) -> Timestamp {
    let time = SignedDuration::try_from(timeout(function)).unwrap_or(SignedDuration::MAX);
    clock.time().saturating_add(time).unwrap_or(Timestamp::MAX)
}
