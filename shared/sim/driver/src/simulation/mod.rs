//! A run of a scenario, checked from outside: `nodeless simulate`.
//!
//! The operations are those that the Lambda functions call; the cluster and the account are simulated, and time is virtual. All
//! random decisions come from one seed: the same scenario, seed and hours result in the same run, byte for byte.
//!
//! After every step the oracle of [`crate::invariants`] checks the invariants. At the end, faults and actions stop: the cluster
//! must become quiescent, and stay so.

mod report;

pub use report::{Note, Report, Sample, Waits};

use crate::invariants::{
    AFFINITY_GROUPS, BECOMES_QUIESCENT, EffectChecks, Messages, NO_LEFTOVERS, NOT_REPEATED, OTHER_CONTROLLERS, Oracle,
    Violation, divided_groups, leftovers,
};
use crate::scenarios::actions;
use crate::scenarios::active_faults::ActiveFaults;
use crate::scenarios::objects;
use crate::scenarios::other_controller::OtherController;
use crate::scenarios::{Action, Entry, Scenario, ScenarioError, Timeline, after};
use crate::{Driver, DriverError, FunctionSettings, Schedule};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::ExpectedPods;
use nodeless_model::listed_commitments::AccountCommitments;
use nodeless_model::shell::quoted;
use nodeless_operations::gates::FeatureGatesError;
use nodeless_telemetry::Sink;
use nodeless_world::fault_injection::{FaultInjection, Rates};
use nodeless_world::random::Random;
use nodeless_world::{JoinTiming, World, WorldError, WorldOptions};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The interval of the figures.
const SAMPLE: SignedDuration = SignedDuration::from_mins(5);
/// The maximum time after the last action until the cluster has been quiescent for [`QUIESCENT_FOR`].
const QUIESCENT_WITHIN: SignedDuration = SignedDuration::from_mins(150);
/// The time for which the cluster must stay quiescent.
const QUIESCENT_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Objects of these kinds do not change in a quiescent cluster.
const QUIESCENT_KINDS: [&str; 5] = ["NodePool", "EC2NodeClass", "NodeClaim", "Node", "Pod"];
/// The run ends after this number of violations: further ones mostly follow from them.
const MAX_VIOLATIONS: usize = 10;
/// The maximum number of notes.
const MAX_NOTES: usize = 2_000;

/// Why a run cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The scenario cannot be used.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The simulated cluster or account failed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The cluster or the operations failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Gets the simulated time at each sample, and may end the run.
type Observer<'a> = &'a mut dyn FnMut(Timestamp) -> ControlFlow<()>;

/// One run of a scenario.
pub struct Run {
    scenario: Scenario,
    seed: u64,
    hours: u32,
    driver: Driver,
    fault_injection: FaultInjection,
    effects: Arc<EffectChecks>,
    oracle: Oracle,
    messages: Messages,
    timeline: Timeline,
    active: ActiveFaults,
    others: OtherController,
    random: Random,
    sampled: Timestamp,
    report: Report,
}

/// The settings of the functions.
fn settings(scenario: &Scenario) -> Result<FunctionSettings, ScenarioError> {
    let invalid = |field: &str, why: String| ScenarioError::Value { field: field.to_owned(), why };
    let gates = scenario.feature_gates.parse();
    let expected_pods = match scenario.expected_pods.as_str() {
        "" => ExpectedPods::Off,
        text => text.parse().map_err(|why| invalid("expectedPods", why))?,
    };
    Ok(FunctionSettings {
        gates: gates.map_err(|error: FeatureGatesError| invalid("featureGates", error.to_string()))?,
        expected_pods,
        without: scenario.without,
        ..FunctionSettings::default()
    })
}

fn world_options(scenario: &Scenario, seed: u64) -> WorldOptions {
    let (registers_after, ready_after) = (scenario.machines.registers_after, scenario.machines.ready_after);
    WorldOptions {
        start: scenario.start,
        zones: scenario.zones.clone(),
        families: scenario.instance_families.clone(),
        seed,
        join: JoinTiming { registers_after, ready_after, ..JoinTiming::default() },
        deletion_costs: scenario.deletion_costs,
        zonal_shift: scenario.actions.iter().any(|action| matches!(action.action, Action::ZonalShift(_))),
        ..WorldOptions::default()
    }
}

impl Run {
    /// Creates a world. Logs of the operations are written to `sink`.
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
        let timeline = Timeline::new(&scenario, seed, hours)?;
        let mut world = World::new(world_options(&scenario, seed))?;
        world.set_client_limits(scenario.client_limits);
        let sold =
            |family: &str| world.catalog().types.iter().any(|kind| kind.facts.name.split('.').next() == Some(family));
        if let Some(unsold) = scenario.instance_families.iter().find(|family| !sold(family)) {
            return Err(ScenarioError::Value {
                field: "instanceFamilies".to_owned(),
                why: format!("there is no instance family {unsold}; write it like m6i"),
            }
            .into());
        }
        world.ec2().change_account(|account| {
            account.require_tags_of(&world.options().cluster_name);
            account.timing.start_up = machines.start_up;
            account.timing.visibility_delay = machines.visibility_delay;
            account.timing.visibility_spread = machines.visibility_spread;
            account.timing.tags_delay = machines.tags_delay;
            account.commitments = scenario.has_commitments().then(AccountCommitments::default);
        });
        let fault_injection = FaultInjection::new(world.clock().clone(), seed, scenario.faults.calls);
        let set = settings(&scenario)?;
        let driver = Driver::with_fault_injection(world, Schedule::default(), sink, fault_injection.clone(), set)
            .stopping_loops(scenario.stops_loops);
        let effects = Arc::new(EffectChecks::new(
            driver.world().api().clone(),
            driver.claims().clone(),
            driver.world().ec2().clone(),
            SignedDuration::try_from(scenario.faults.calls.skew).unwrap_or(SignedDuration::MAX),
        ));
        fault_injection.set_observer(effects.clone());
        objects::check(&driver, &scenario)?;
        if lacks_default_class(&scenario.objects) {
            objects::apply(&driver, &node_class(&driver))?;
        }
        for object in &scenario.objects {
            objects::apply(&driver, object)?;
        }
        let others = OtherController::start(&driver, seed)?;
        let oracle = Oracle::new(&scenario, &driver);
        let report = Report::new(&scenario, seed, hours);
        let (sampled, random) = (scenario.start, Random::for_purpose(seed, "targets"));
        Ok(Self {
            scenario,
            seed,
            hours,
            driver,
            fault_injection,
            effects,
            oracle,
            messages: Messages::default(),
            timeline,
            active: ActiveFaults::default(),
            others,
            random,
            sampled,
            report,
        })
    }

    /// Runs it to its end, and returns its report.
    ///
    /// # Errors
    /// When an action fails, or the simulated cluster fails.
    pub fn finish(self) -> Result<Report, SimulationError> {
        self.finish_observed(|_, _| ControlFlow::Continue(()))
    }

    /// Runs it to its end, and returns its report. Every five simulated minutes the observer gets the simulated time and the
    /// part of the run that is done, from 0 to 1, and may end the run: its report then has the figures until then, and the
    /// checks at the end are left out.
    ///
    /// # Errors
    /// When an action fails, or the simulated cluster fails.
    pub fn finish_observed(
        mut self,
        mut observe: impl FnMut(Timestamp, f64) -> ControlFlow<()>,
    ) -> Result<Report, SimulationError> {
        let start = self.scenario.start;
        let end = after(start, SignedDuration::from_hours(i64::from(self.hours)));
        let most = after(end, QUIESCENT_FOR).duration_since(start).as_secs_f64();
        let mut observe = |at: Timestamp| observe(at, (at.duration_since(start).as_secs_f64() / most).min(1.0));
        self.sample();
        self.advance(end, &mut observe)?;
        self.report.dollars = self.driver.world().ec2().spent();
        let (faults, killed) = self.fault_injection.injected();
        (self.report.faults, self.report.killed) = (faults, killed);
        if self.report.violations.len() < MAX_VIOLATIONS && self.report.interrupted.is_none() {
            self.become_quiescent(end, &mut observe)?;
        }
        self.conclude();
        Ok(self.report)
    }

    /// The driver, for tests that inspect more.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Advances to a time, from action to action, unless the observer ends the run.
    fn advance(&mut self, target: Timestamp, observe: Observer<'_>) -> Result<(), SimulationError> {
        loop {
            let now = self.driver.world().now();
            for entry in self.timeline.take(now) {
                match &entry {
                    Entry::Action(Action::RecreateTable) => self.oracle.table_replaced(now, None),
                    Entry::Action(Action::RestoreTable(restore)) => {
                        self.oracle.table_replaced(now, Some(after(now, -restore.ago)));
                    }
                    _ => {}
                }
                let what = actions::carry_out(&mut self.driver, &entry, &mut self.random, &mut self.active)?;
                self.report.note(now, what);
            }
            self.active.end(&mut self.driver, now, false)?;
            self.others.act(&self.driver)?;
            let sample = after(self.sampled, SAMPLE);
            if sample <= now {
                self.sample();
                if observe(now).is_break() {
                    self.report.interrupted = Some(now);
                    return Ok(());
                }
            }
            if now >= target || self.report.violations.len() >= MAX_VIOLATIONS {
                return Ok(());
            }
            let sample = after(self.sampled, SAMPLE);
            let dues = [self.timeline.next(), self.active.next_end(), self.others.next(), Some(sample), Some(target)];
            let limit =
                dues.into_iter().flatten().min().unwrap_or(target).max(after(now, actions::MIN_STEP)).min(target);
            self.step_to(limit)?;
        }
    }

    fn step_to(&mut self, limit: Timestamp) -> Result<(), SimulationError> {
        let oracle = &mut self.oracle;
        self.driver.advance_until(limit, |driver| {
            oracle.check(driver);
            false
        })?;
        self.oracle.check(&self.driver);
        let outcomes = self.driver.take_outcomes();
        self.report.count(&outcomes);
        self.messages.add(&outcomes);
        self.oracle.take_outcomes(&outcomes, &self.driver);
        self.driver.take_events();
        self.report.violations.append(&mut self.oracle.violations);
        self.report.violations.append(&mut self.effects.observed().violations);
        let at = self.driver.world().now();
        let disturbed = self.others.disturbed(&self.driver).into_iter();
        self.report.violations.extend(disturbed.map(|detail| Violation { at, invariant: OTHER_CONTROLLERS, detail }));
        Ok(())
    }

    /// Stops all faults and actions, and checks that the cluster becomes quiescent, and stays so.
    fn become_quiescent(&mut self, end: Timestamp, observe: Observer<'_>) -> Result<(), SimulationError> {
        self.timeline = Timeline::default();
        self.others.stop();
        self.active.end(&mut self.driver, end, true)?;
        self.fault_injection.set_rates(Rates::default());
        self.fault_injection.end_outages();
        self.report.note(end, "faults and actions stop".to_owned());
        let mut quiet = SignedDuration::ZERO;
        let mut last = None;
        while quiet < QUIESCENT_FOR && self.driver.world().now() < after(end, QUIESCENT_WITHIN) {
            let now = self.driver.world().now();
            let revision = self.driver.world().api().revision();
            self.effects.observed().effects.clear();
            self.advance(after(now, SAMPLE), observe)?;
            // A pod whose node never became ready is pending until the node is repaired, which takes half an hour.
            let waits =
                self.oracle.unexplained().pop().map(|pod| format!("pod {pod} is pending, and no plan gives a reason"));
            match self.moved_since(revision).or(waits) {
                Some(what) => (quiet, last) = (SignedDuration::ZERO, Some(what)),
                None => quiet += SAMPLE,
            }
            if self.report.violations.len() >= MAX_VIOLATIONS || self.report.interrupted.is_some() {
                return Ok(());
            }
        }
        if quiet < QUIESCENT_FOR {
            let last = last.unwrap_or_default();
            let detail = format!("within {QUIESCENT_WITHIN:#} it was not quiescent for {QUIESCENT_FOR:#}: {last}");
            self.report.violations.push(Violation {
                at: self.driver.world().now(),
                invariant: BECOMES_QUIESCENT,
                detail,
            });
        }
        for pod in self.oracle.unexplained() {
            let detail = format!("pod {pod} is still pending, and no plan gives a reason");
            let at = self.driver.world().now();
            self.report.violations.push(Violation { at, invariant: BECOMES_QUIESCENT, detail });
        }
        self.oracle.check_recorded_time(&self.driver);
        self.report.violations.append(&mut self.oracle.violations);
        let at = self.driver.world().now();
        let repeated = self.messages.repeated(after(at, -QUIESCENT_FOR)).into_iter();
        let repeated = repeated.map(|detail| Violation { at, invariant: NOT_REPEATED, detail });
        let left = leftovers(&self.driver).into_iter();
        let left = left.map(|detail| Violation { at, invariant: NO_LEFTOVERS, detail });
        let divided = divided_groups(&self.driver).into_iter();
        let divided = divided.map(|detail| Violation { at, invariant: AFFINITY_GROUPS, detail });
        self.report.violations.extend(repeated.chain(left).chain(divided));
        Ok(())
    }

    /// The latest effect of the operations or change of the cluster since a revision, if any.
    fn moved_since(&self, revision: u64) -> Option<String> {
        if let Some(effect) = self.effects.observed().effects.last() {
            return Some(format!("{} {} at {}", effect.operation, effect.subject, effect.at));
        }
        let changes = self.driver.world().api().watch_since(None, revision).unwrap_or_default();
        let moved = changes.iter().rev().find(|change| QUIESCENT_KINDS.contains(&change.resource.kind.as_ref()));
        moved.map(|change| format!("{} {} was {:?}", change.resource.kind, change.name(), change.kind))
    }

    fn sample(&mut self) {
        let world = self.driver.world();
        let now = world.now();
        self.sampled = now;
        let claims = self.driver.claims().snapshot();
        let (pending, running) = self.oracle.pods(&self.driver);
        let joined = claims.iter().filter(|claim| claim.status.node_name.is_some());
        let spot = joined.clone().filter(|claim| {
            claim.status.instance.as_ref().is_some_and(|it| it.capacity_type == nodeless_model::CapacityType::Spot)
        });
        let evictions = self.effects.observed().evictions.values().sum();
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
        report.waits = Waits::new(&mut self.oracle.waits);
        let seen = self.effects.observed();
        report.evictions = seen.evictions.clone();
        report.forced = seen.forced;
        report.launched = self.oracle.launched();
        report.calls = self.driver.world().ec2().call_counts();
        report.writes = self.fault_injection.writes();
        report.violations.sort_by_key(|violation| violation.at);
        report.replay = replay(&self.scenario.name, self.seed, self.hours);
    }
}

/// The command that runs a built-in scenario again.
fn replay(scenario: &str, seed: u64, hours: u32) -> String {
    format!("nodeless simulate --seed {seed} --hours {hours} --scenario {}", quoted(scenario))
}

/// Whether the objects lack an EC2NodeClass: there is none, or a NodePool refers to a missing one named `default`.
fn lacks_default_class(objects: &[Value]) -> bool {
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let refers = |pool: &Value| pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default";
    let mut classes = of_kind("EC2NodeClass").peekable();
    classes.peek().is_none()
        || (of_kind("NodePool").any(refers) && !classes.any(|class| class["metadata"]["name"] == "default"))
}

/// The EC2NodeClass `default` of scenarios that do not define it.
fn node_class(driver: &Driver) -> Value {
    let cluster = &driver.world().options().cluster_name;
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
mod action_tests;
#[cfg(test)]
mod disruption_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod moving_pods_tests;
#[cfg(test)]
mod pod_tests;
#[cfg(test)]
mod service_tests;
#[cfg(test)]
mod standalone_tests;
#[cfg(test)]
mod tests;
