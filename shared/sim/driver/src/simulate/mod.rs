//! Many hours of a cluster's life, with everything that can go wrong, watched from outside: `nodeless simulate`.
//!
//! The operations are those that the Lambda functions call; the world is simulated, and its time is virtual. Everything
//! that happens is drawn from one seed: the same scenario, seed and hours give the same run, to the byte.
//!
//! After every step [`Run`] checks what must always hold, by a reckoning of its own. At the end nothing goes wrong any more
//! and nobody changes anything: the world must come to rest, and stay at rest.

mod budgets;
mod checks;
mod deeds;
mod durations;
mod leftovers;
mod order;
mod report;
mod scenario;
mod timeline;
mod watch;

pub use report::{Note, Report, Sample, Waits};
pub use scenario::{
    Action, BUILT_IN, BadMachines, CallRates, Deed, FaultRates, Jobs, Machines, Named, Outage, Scale, Scenario,
    ScenarioError, Shift, Shortage,
};

use crate::{Controller, ControllerError, Schedule};
use checks::Checker;
use deeds::Ends;
use jiff::{SignedDuration, Timestamp};
use nodeless_operations::gates::FeatureGatesError;
use nodeless_telemetry::Sink;
use nodeless_world::fault_injection::{FaultInjection, Rates};
use nodeless_world::random::Random;
use nodeless_world::{JoinTiming, World, WorldError, WorldOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use timeline::{Timeline, after};
use watch::Watch;

/// How often figures are taken.
const SAMPLE: SignedDuration = SignedDuration::from_mins(5);
/// How long the world may take to come to rest once nothing changes any more, the rest included.
const SETTLES: SignedDuration = SignedDuration::from_mins(95);
/// How long it must stay at rest.
const RESTS: SignedDuration = SignedDuration::from_mins(20);
/// Objects of these kinds do not change in a world at rest.
const AT_REST: [&str; 5] = ["NodePool", "EC2NodeClass", "NodeClaim", "Node", "Pod"];
/// The run ends when so many things went wrong: the rest would only follow from them.
const ENOUGH: usize = 10;
/// How many notes are kept.
const NOTES: usize = 2_000;

/// Something that must hold and did not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// When.
    pub at: Timestamp,
    /// What must hold.
    pub invariant: &'static str,
    /// What was there instead.
    pub detail: String,
}

/// Why a run could not be made, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The scenario is at fault.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The world is.
    #[error(transparent)]
    World(#[from] WorldError),
    /// World and operations do not come to rest.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// One run of a scenario.
pub struct Run {
    scenario: Scenario,
    seed: u64,
    hours: u32,
    controller: Controller,
    fault_injection: FaultInjection,
    watch: Arc<Watch>,
    checker: Checker,
    timeline: Timeline,
    ends: Ends,
    random: Random,
    sampled: Timestamp,
    report: Report,
}

impl Run {
    /// Sets a world up. Logs of the operations go to `sink`.
    ///
    /// # Errors
    /// When the scenario cannot be used.
    pub fn new(
        scenario: Scenario,
        seed: u64,
        hours: Option<u32>,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, SimulationError> {
        let hours = hours.unwrap_or(scenario.hours);
        let machines = scenario.machines;
        let options = WorldOptions {
            start: scenario.start,
            zones: scenario.zones.clone(),
            families: scenario.instance_families.clone(),
            seed,
            join: JoinTiming { registers_after: machines.registers_after, ready_after: machines.ready_after },
            zonal_shift: scenario.actions.iter().any(|action| matches!(action.what, Deed::ZonalShift(_))),
            ..WorldOptions::default()
        };
        let timeline = Timeline::new(&scenario, seed, hours)?;
        let world = World::new(options)?;
        let sold =
            |family: &str| world.catalog().types.iter().any(|kind| kind.facts.name.split('.').next() == Some(family));
        if let Some(unsold) = scenario.instance_families.iter().find(|family| !sold(family)) {
            return Err(ScenarioError::Value {
                field: "instanceFamilies".to_owned(),
                why: format!("EC2 sells no family {unsold}; write it like m6i"),
            }
            .into());
        }
        world.ec2().change_account(|account| {
            account.timing.start_up = machines.start_up;
            account.timing.visibility_delay = machines.visibility_delay;
            account.timing.visibility_spread = machines.visibility_spread;
            account.timing.tags_delay = machines.tags_delay;
        });
        let fault_injection = FaultInjection::new(world.clock().clone(), seed, scenario.faults.calls.rates());
        let gates = scenario.feature_gates.parse().map_err(|error: FeatureGatesError| ScenarioError::Value {
            field: "featureGates".to_owned(),
            why: error.to_string(),
        })?;
        let controller =
            Controller::with_fault_injection(world, Schedule::default(), sink, fault_injection.clone(), gates);
        let watch = Arc::new(Watch::new(controller.world().api().clone(), controller.claims().clone()));
        fault_injection.set_observer(watch.clone());
        deeds::check(&controller, &scenario)?;
        let has_class = scenario.objects.iter().any(|object| object["kind"] == "EC2NodeClass");
        if !has_class {
            deeds::apply(&controller, &node_class(&controller))?;
        }
        for object in &scenario.objects {
            deeds::apply(&controller, object)?;
        }
        let checker = Checker::new(&scenario, &controller);
        let report = Report::new(&scenario, seed, hours);
        let (sampled, random) = (scenario.start, Random::of(seed, "targets"));
        Ok(Self {
            scenario,
            seed,
            hours,
            controller,
            fault_injection,
            watch,
            checker,
            timeline,
            ends: Ends::default(),
            random,
            sampled,
            report,
        })
    }

    /// Lets it run to its end, and says what came of it.
    ///
    /// # Errors
    /// When the scenario asks for what cannot be done, or the world fails.
    pub fn finish(mut self) -> Result<Report, SimulationError> {
        let end = after(self.scenario.start, SignedDuration::from_hours(i64::from(self.hours)));
        self.sample();
        self.advance(end)?;
        self.report.dollars = self.controller.world().ec2().spent();
        let (mishaps, deaths) = self.fault_injection.mishaps();
        (self.report.mishaps, self.report.deaths) = (mishaps, deaths);
        if self.report.violations.len() < ENOUGH {
            self.rest(end)?;
        }
        self.conclude();
        Ok(self.report)
    }

    /// The world as it stands, for tests that look closer.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Goes on until a time, stepping from happening to happening.
    fn advance(&mut self, target: Timestamp) -> Result<(), SimulationError> {
        loop {
            let now = self.controller.world().now();
            for happening in self.timeline.take(now) {
                let what = deeds::happen(&mut self.controller, &happening, &mut self.random, &mut self.ends)?;
                self.report.note(now, what);
            }
            self.ends.take(&mut self.controller, now, false);
            let sample = after(self.sampled, SAMPLE);
            if sample <= now {
                self.sample();
            }
            if now >= target || self.report.violations.len() >= ENOUGH {
                return Ok(());
            }
            let sample = after(self.sampled, SAMPLE);
            let dues = [self.timeline.next(), self.ends.next(), Some(sample), Some(target)];
            let limit = dues.into_iter().flatten().min().unwrap_or(target).max(after(now, deeds::MOMENT)).min(target);
            self.step_to(limit)?;
        }
    }

    fn step_to(&mut self, limit: Timestamp) -> Result<(), SimulationError> {
        let checker = &mut self.checker;
        self.controller.advance_until(limit, |controller| {
            checker.look(controller);
            false
        })?;
        self.checker.look(&self.controller);
        let outcomes = self.controller.take_outcomes();
        self.report.count(&outcomes);
        self.checker.take_outcomes(&outcomes, &self.controller);
        self.controller.take_events();
        self.report.violations.append(&mut self.checker.violations);
        self.report.violations.append(&mut self.watch.seen().violations);
        Ok(())
    }

    /// Nothing goes wrong any more and nobody changes anything: the world comes to rest, and stays there.
    fn rest(&mut self, end: Timestamp) -> Result<(), SimulationError> {
        self.timeline = Timeline::default();
        self.ends.take(&mut self.controller, end, true);
        self.fault_injection.set_rates(Rates::default());
        self.fault_injection.mend();
        self.report.note(end, "from here on nothing goes wrong and nobody changes anything".to_owned());
        let mut quiet = SignedDuration::ZERO;
        let mut last = None;
        while quiet < RESTS && self.controller.world().now() < after(end, SETTLES) {
            let now = self.controller.world().now();
            let revision = self.controller.world().api().revision();
            self.watch.seen().effects.clear();
            self.advance(after(now, SAMPLE))?;
            // A pod whose node never became ready waits until that is repaired: nothing happens for half an hour.
            let waits = self.checker.unexplained().pop().map(|pod| format!("pod {pod} waits, and no plan says why"));
            match self.moved_since(revision).or(waits) {
                Some(what) => (quiet, last) = (SignedDuration::ZERO, Some(what)),
                None => quiet += SAMPLE,
            }
            if self.report.violations.len() >= ENOUGH {
                return Ok(());
            }
        }
        if quiet < RESTS {
            let detail = format!("{SETTLES:#} later it was not at rest for {RESTS:#}: {}", last.unwrap_or_default());
            self.report.violations.push(Violation {
                at: self.controller.world().now(),
                invariant: "a quiescent world comes to rest",
                detail,
            });
        }
        for pod in self.checker.unexplained() {
            let detail = format!("pod {pod} is still pending, and no plan says why");
            let at = self.controller.world().now();
            self.report.violations.push(Violation { at, invariant: "a quiescent world comes to rest", detail });
        }
        for detail in leftovers::leftovers(&self.controller) {
            let at = self.controller.world().now();
            self.report.violations.push(Violation { at, invariant: "a world at rest has nothing left over", detail });
        }
        Ok(())
    }

    /// What the operations did, or what changed in the cluster, since a revision, if anything.
    fn moved_since(&self, revision: u64) -> Option<String> {
        if let Some(effect) = self.watch.seen().effects.last() {
            return Some(format!("{} {} at {}", effect.operation, effect.subject, effect.at));
        }
        let changes = self.controller.world().api().watch_since(None, revision).unwrap_or_default();
        let moved = changes.iter().rev().find(|change| AT_REST.contains(&change.resource.kind.as_ref()));
        moved.map(|change| format!("{} {} was {:?}", change.resource.kind, change.name(), change.kind))
    }

    fn sample(&mut self) {
        let world = self.controller.world();
        let now = world.now();
        self.sampled = now;
        let claims = self.controller.claims().snapshot();
        let (pending, running) = self.checker.pods(&self.controller);
        let joined = claims.iter().filter(|claim| claim.status.node_name.is_some());
        let spot = joined.clone().filter(|claim| {
            claim.status.instance.as_ref().is_some_and(|it| it.capacity_type == nodeless_model::CapacityType::Spot)
        });
        let evictions = self.watch.seen().evictions.values().sum();
        self.report.samples.push(Sample {
            at: now,
            nodes: joined.clone().count(),
            spot_nodes: spot.count(),
            running_pods: running,
            pending_pods: pending,
            dollars_per_hour: world.ec2().hourly_price(),
            evictions,
        });
    }

    fn conclude(&mut self) {
        let report = &mut self.report;
        report.waits = Waits::of(&mut self.checker.waits);
        let seen = self.watch.seen();
        report.evictions = seen.evictions.clone();
        report.forced = seen.forced;
        report.launched = self.checker.launched();
        report.calls = self.controller.world().ec2().call_counts();
        report.writes = self.fault_injection.writes();
        report.violations.sort_by_key(|violation| violation.at);
        report.replay = replay(&self.scenario.name, self.seed, self.hours);
    }
}

/// The command that runs a built-in scenario again.
fn replay(scenario: &str, seed: u64, hours: u32) -> String {
    format!("nodeless simulate --seed {seed} --hours {hours} --scenario {scenario}")
}

/// The EC2NodeClass of scenarios without one.
fn node_class(controller: &Controller) -> Value {
    let cluster = &controller.world().options().cluster_name;
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" },
        "spec": {
            "role": format!("{cluster}-node"), "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": cluster } }],
            "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": cluster } }],
        },
    })
}

#[cfg(test)]
mod tests;
