//! The format of scenario files, and the built-in scenarios.

mod action;
pub(crate) mod actions;
pub(crate) mod active_faults;
mod built_in;
pub(crate) mod durations;
mod edit;
mod fault_rates;
mod misconfigurations;
pub(crate) mod objects;
pub(crate) mod other_controller;
pub(crate) mod other_objects;
mod selection;
mod timeline;

pub use action::{
    Action, BadMachines, BuyReservedInstances, BuySavingsPlan, ChangePrices, Denial, Misconfiguration, Misconfigure,
    Named, OneZone, Outage, Quota, Recreate, RefusePods, Restore, Shortage, SlowCalls, SlowDetachments, SomePods,
    TimedAction,
};
pub use fault_rates::FaultRates;
pub(crate) use timeline::{Entry, Timeline, after};

use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::controllers::DeletionCosts;
use nodeless_model::Template;
use nodeless_planner::Mechanism;
use nodeless_world::fault_injection::Rates;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A scenario, as written in YAML. `docs/simulate.md` describes every field.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The start time; times of day are in UTC.
    #[serde(default = "start")]
    pub start: Timestamp,
    /// The duration, unless the command line overrides it.
    #[serde(default = "hours")]
    pub hours: u32,
    /// The zones.
    #[serde(default = "zones")]
    pub zones: Vec<String>,
    /// The available instance families; all of them if empty.
    #[serde(default)]
    pub instance_families: Vec<String>,
    /// How long machines take to start and join.
    #[serde(default)]
    pub machines: Machines,
    /// Feature gates as the functions take them, such as `NodeRepair=true,SpotToSpotConsolidation=true`.
    #[serde(default)]
    pub feature_gates: String,
    /// Which pods are expected, as the planner takes it: `off`, `samples` or `templates`.
    #[serde(default)]
    pub expected_pods: String,
    /// The mechanism that plans are made without, for measurements.
    #[serde(skip)]
    pub without: Option<Mechanism>,
    /// Which pods a smaller ReplicaSet deletes first, for measurements; by their annotations if unset.
    #[serde(skip)]
    pub deletion_costs: Option<DeletionCosts>,
    /// Whether the clients of kube-controller-manager and kube-scheduler have their default limits, for measurements.
    #[serde(skip)]
    pub client_limits: bool,
    /// Whether Lambda stops recursive loops, as it does where the functions do not allow them.
    #[serde(default)]
    pub stops_loops: bool,
    /// The initial Kubernetes objects. An EC2NodeClass `default` is created if there is none among them, or if a NodePool refers to it.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Deployments and StatefulSets whose replicas follow the time of day.
    #[serde(default)]
    pub scale: Vec<Scale>,
    /// The CPUs that the pods of Deployments and StatefulSets use together, which HorizontalPodAutoscalers follow.
    #[serde(default)]
    pub load: Vec<Scale>,
    /// Jobs that run repeatedly.
    #[serde(default)]
    pub jobs: Vec<Jobs>,
    /// Actions at given times.
    #[serde(default)]
    pub actions: Vec<TimedAction>,
    /// Random faults.
    #[serde(default)]
    pub faults: FaultRates,
}

fn start() -> Timestamp {
    // A Monday.
    "2026-03-02T00:00:00Z".parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn hours() -> u32 {
    24
}

fn zones() -> Vec<String> {
    ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).to_vec()
}

/// How long machines take to start and join.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Machines {
    /// From CreateFleet to running.
    #[serde(deserialize_with = "durations::one")]
    pub start_up: SignedDuration,
    /// From running to the registration of the node.
    #[serde(deserialize_with = "durations::one")]
    pub registers_after: SignedDuration,
    /// From the registration to being ready.
    #[serde(deserialize_with = "durations::one")]
    pub ready_after: SignedDuration,
    /// The time until DescribeInstances returns a new instance.
    #[serde(deserialize_with = "durations::one")]
    pub visibility_delay: SignedDuration,
    /// The additional delay of each further instance of a call.
    #[serde(deserialize_with = "durations::one")]
    pub visibility_spread: SignedDuration,
    /// The time until the tags of a new instance are returned.
    #[serde(deserialize_with = "durations::one")]
    pub tags_delay: SignedDuration,
}

impl Default for Machines {
    fn default() -> Self {
        Self {
            start_up: SignedDuration::from_secs(15),
            registers_after: SignedDuration::from_secs(12),
            ready_after: SignedDuration::from_secs(10),
            visibility_delay: SignedDuration::from_secs(1),
            visibility_spread: SignedDuration::ZERO,
            tags_delay: SignedDuration::ZERO,
        }
    }
}

/// A workload whose replicas or load follow the time of day.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// `Deployment` or `StatefulSet`.
    #[serde(default = "deployment")]
    pub kind: String,
    /// The namespace of the workload.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
    /// The number from each time of day on, such as `"07:30": 20`.
    #[serde(default)]
    pub daily: BTreeMap<String, u32>,
    /// The number from each time after the start on, such as `"1h30m": 20`.
    #[serde(default)]
    pub after: BTreeMap<String, u32>,
    /// The fraction by which each number may vary at random, from 0 to 1; the time varies by the same number of hours.
    #[serde(default)]
    pub jitter: f64,
}

fn deployment() -> String {
    "Deployment".to_owned()
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// A Job that runs repeatedly.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jobs {
    /// The name of its runs, followed by a number.
    pub name: String,
    /// The interval between two runs.
    #[serde(deserialize_with = "durations::one")]
    pub every: SignedDuration,
    /// The fraction by which the interval may vary at random, from 0 to 1.
    #[serde(default)]
    pub jitter: f64,
    /// The Job's spec.
    pub spec: Value,
}

impl Jobs {
    /// The Job object of one of its runs.
    pub(crate) fn object(&self, number: u64) -> Value {
        let name = format!("{}-{number}", self.name);
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": self.spec })
    }
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The scenario is not YAML, or has an unknown field.
    #[error("the scenario cannot be read: {0}; docs/simulate.md describes its fields")]
    Form(String),
    /// The scenario has template expressions.
    #[error("line {}: {template}", template.line)]
    Templated {
        /// The first template expression.
        template: Template,
    },
    /// A field has an invalid value.
    #[error("the scenario cannot be used: {field}: {why}")]
    Value {
        /// The field.
        field: String,
        /// The error, and the valid values.
        why: String,
    },
}

/// Whether a value of an object is a template expression.
fn is_templated(object: &Value) -> bool {
    fn any(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains("{{"),
            Value::Array(items) => items.iter().any(any),
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| !OWN_EXPRESSIONS.contains(&key.as_str()) && any(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    any(object)
}

/// The fields whose values may have expressions that are not of the template engine of the manifest.
const OWN_EXPRESSIONS: [&str; 6] = ["annotations", "args", "command", "data", "env", "userData"];

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When it is not a scenario.
    pub fn parse(yaml: &str) -> Result<Self, ScenarioError> {
        let read: Result<Self, _> = serde_saphyr::from_str(yaml);
        match (read, Template::find(yaml)) {
            (Ok(scenario), None) => Ok(scenario),
            // The arguments of containers may have expressions of their own.
            (Ok(scenario), Some(_)) if !scenario.objects.iter().any(is_templated) => Ok(scenario),
            (_, Some(template)) => Err(ScenarioError::Templated { template }),
            (Err(_), None) if yaml.lines().any(|line| line.starts_with("apiVersion:")) => {
                let form = "it is a Kubernetes object, and a scenario has these in its list `objects`";
                Err(ScenarioError::Form(form.to_owned()))
            }
            (Err(error), None) => Err(ScenarioError::Form(error.without_snippet().to_string())),
        }
    }

    /// Whether every call succeeds and every message arrives in time.
    pub(crate) fn is_reliable(&self) -> bool {
        let fails = |action: &TimedAction| {
            use Action::{ActivateCertificateAuthority, Denial, Outage, SlowCalls};
            matches!(action.action, Outage(_) | SlowCalls(_) | Denial(_) | ActivateCertificateAuthority)
        };
        let faults = &self.faults;
        !self.stops_loops
            && faults.calls == Rates::default()
            && faults.outages_per_hour <= 0.0
            && faults.slow_calls_per_hour <= 0.0
            && faults.denials_per_hour <= 0.0
            && !self.actions.iter().any(fails)
    }

    /// Whether the deployment considers Savings Plans and Reserved Instances.
    pub(crate) fn has_commitments(&self) -> bool {
        let buys = |it: &TimedAction| matches!(it.action, Action::BuyReservedInstances(_) | Action::BuySavingsPlan(_));
        self.actions.iter().any(buys)
    }

    /// Whether prices change.
    pub(crate) fn changes_prices(&self) -> bool {
        let changes = |action: &TimedAction| matches!(action.action, Action::ChangePrices(_));
        self.faults.spot_price_changes_per_hour > 0.0
            || self.faults.on_demand_price_changes_per_day > 0.0
            || self.actions.iter().any(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_is_named() {
        let error = Scenario::parse("name: a\nscales: []\n").unwrap_err().to_string();
        assert!(error.contains("scales"), "{error}");
        let error = Scenario::parse("name: a\njobs: [{name: b, every: soon, spec: {}}]\n").unwrap_err().to_string();
        assert!(error.contains("soon"), "{error}");
        for (actions, expected) in [
            ("{after: 1h, interruptSpots: 2}", "unknown variant `interruptSpots`, expected one of `apply`"),
            ("{after: 1h}", "an action has one field"),
            ("{interruptSpot: 2}", "an action needs the field after"),
            ("{after: 1d, interruptSpot: 2}", "1d is not a duration; write it like 90s or 1h30m"),
            ("{after: 1h, shortage: {zoned: a, for: 1h}}", "unknown field `zoned`"),
        ] {
            let error = Scenario::parse(&format!("name: a\nactions: [{actions}]\n")).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        let action = "name: a\nactions: [{after: 1h, interruptSpot: 2}, {after: 90m, outage: {of: cloud, for: 3m}}, {after: 2h, zonalShift: {zone: us-east-1b, for: 30m}}]\n";
        let actions = Scenario::parse(action).unwrap().actions;
        assert!(matches!(actions[0].action, Action::InterruptSpot(2)));
        assert_eq!(actions[1].after, SignedDuration::from_mins(90));
        assert!(matches!(&actions[2].action, Action::ZonalShift(shift) if shift.zone == "us-east-1b"));
    }
}
