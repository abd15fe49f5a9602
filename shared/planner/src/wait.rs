//! The time before a plan: its batch window, and the requests that end it.

use crate::pods::{burst, waiting};
use crate::{Planner, Snapshot};
use futures::future::{self, Either};
use jiff::Timestamp;
use nodeless_model::ExpectedPods;
use nodeless_operations::log_lines::Failed;
use nodeless_ports::PortError;
use nodeless_ports::cluster::{BatchWindow, Expecting};
use nodeless_ports::queue::{WAKE_INTERVAL, WakeSource};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::PoisonError;
use std::time::Duration;

/// The maximum time that a plan waits while a controller creates many pods, if the maximum of the settings is not longer: the pods of a
/// workload that are planned together need fewer and cheaper nodes, and those that are created last have their nodes earlier.
const BURST_MAX: Duration = Duration::from_secs(20);
/// The part of a function's time that is reserved for the plan itself.
const KEPT_FOR_THE_PLAN: Duration = Duration::from_secs(15);

/// Why a plan is made now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The batch window ended, with these pods pending, by uid.
    Window(BTreeSet<String>),
    /// A plan was requested that does not wait for the end of the window.
    AtOnce,
}

/// The minimum of the batch window of a plan with these sources. The heartbeat requests a plan for nothing in particular.
fn shortest_window(woken: &[WakeSource]) -> Duration {
    let of = |source: &WakeSource| match source {
        WakeSource::Heartbeat => Duration::ZERO,
        // The API server stores an object after it called the webhook about it.
        WakeSource::Webhook | WakeSource::Object => WAKE_INTERVAL.saturating_mul(2),
        WakeSource::Lifecycle | WakeSource::Interruption | WakeSource::Catalog | WakeSource::Planner => WAKE_INTERVAL,
    };
    woken.iter().map(of).max().unwrap_or_default()
}

/// Whether these sources may have requested a plan at once.
fn may_be_at_once(woken: &[WakeSource]) -> bool {
    woken.iter().any(|source| matches!(source, WakeSource::Lifecycle | WakeSource::Interruption))
}

impl Planner {
    /// Waits for the end of the batch window, or for a request to plan at once: its message is received only after this plan.
    pub(super) async fn wait(&self, deadline: Option<Timestamp>, woken: &[WakeSource]) -> Result<Waited, PortError> {
        let window = async {
            let window = self.batch_window(deadline, woken, self.expecting().await);
            self.cluster.wait_for_batch(window).await
        };
        match future::select(pin!(window), pin!(self.requested_at_once(woken))).await {
            Either::Left((pending, _)) => Ok(Waited::Window(pending?)),
            Either::Right(_) => Ok(Waited::AtOnce),
        }
    }

    /// Which pods are not waited for. Without the right to read workloads, or what earlier plans recorded of them, none is expected.
    async fn expecting(&self) -> Expecting {
        let mode = self.settings.expected_pods;
        if mode == ExpectedPods::Off || !self.reads_pod_controllers().await {
            return Expecting::default();
        }
        // The plan reads a record again that cannot be read now, and reports that.
        let Ok(record) = self.waiting_pods().await else { return Expecting::default() };
        Expecting { mode, except: waiting::not_expected(&record, self.context.now()) }
    }

    fn batch_window(&self, deadline: Option<Timestamp>, woken: &[WakeSource], expecting: Expecting) -> BatchWindow {
        let (idle, max) = (self.settings.batch_idle, self.settings.batch_max);
        let left = deadline.map_or(Duration::MAX, |deadline| self.left(deadline).saturating_sub(KEPT_FOR_THE_PLAN));
        BatchWindow { idle, max, burst: self.longest_window().min(left), min: shortest_window(woken), expecting }
    }

    /// For how long pods of a burst are waited for.
    fn longest_window(&self) -> Duration {
        self.settings.batch_max.saturating_mul(2).min(BURST_MAX)
    }

    /// Completes some time after a plan at once was requested.
    async fn requested_at_once(&self, woken: &[WakeSource]) {
        let clock = &self.context.clock;
        if !may_be_at_once(woken) {
            // Windows without pods are not longer.
            clock.sleep(WAKE_INTERVAL.saturating_mul(2)).await;
        }
        loop {
            match self.claims.requested_plan().await {
                Ok(requested) if self.is_new(requested) => break,
                Ok(_) => clock.sleep(WAKE_INTERVAL).await,
                Err(error) => {
                    let what = "read whether a plan is requested at once, so this one waits for the end of its window";
                    self.context.log(&Failed { what, why: &error.to_string() });
                    future::pending::<()>().await;
                }
            }
        }
        // The plan is for all requests of the interval.
        clock.sleep(WAKE_INTERVAL).await;
    }

    /// Whether no plan of this process is for this request. Without an earlier plan, requests count as long as one may wait.
    fn is_new(&self, requested: Option<Timestamp>) -> bool {
        let Some(requested) = requested else { return false };
        let known = self.answered.lock().unwrap_or_else(PoisonError::into_inner).replace(requested);
        let is_recent = || requested.checked_add(BURST_MAX).is_ok_and(|until| self.context.now() < until);
        known.map_or_else(is_recent, |known| known != requested)
    }

    /// Leaves the pods that the batch window is for to the next plan. Returns whether there are any.
    pub(super) fn leave_burst(&self, snapshot: &mut Snapshot) -> bool {
        burst::leave(&mut snapshot.view, &self.last.pods(), self.longest_window(), snapshot.now)
    }
}
