//! The format of scenario files, and the built-in scenarios.

pub(crate) mod actions;
pub(crate) mod active_faults;
pub(crate) mod durations;
mod edit;
mod misconfigurations;
pub(crate) mod objects;
pub(crate) mod other_controller;
pub(crate) mod other_objects;
mod selection;
mod timeline;

pub(crate) use timeline::{Entry, Timeline, after};

use jiff::{SignedDuration, Timestamp};
use nodeless_model::Template;
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
    /// Whether Lambda stops recursive loops, as it does where the functions do not allow them.
    #[serde(default)]
    pub stops_loops: bool,
    /// The initial Kubernetes objects. An EC2NodeClass `default` is created if there is none among them, or if a NodePool refers to it.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Deployments and StatefulSets whose replicas follow the time of day.
    #[serde(default)]
    pub scale: Vec<Scale>,
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

/// A workload whose replicas follow the time of day.
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
    /// The replicas from each time of day on, such as `"07:30": 20`.
    #[serde(default)]
    pub daily: BTreeMap<String, u32>,
    /// The replicas from each time after the start on, such as `"1h30m": 20`.
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

/// An action and its time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub struct TimedAction {
    /// The time after the start.
    pub after: SignedDuration,
    /// The action.
    pub action: Action,
}

impl TryFrom<BTreeMap<String, Value>> for TimedAction {
    type Error = String;

    fn try_from(mut fields: BTreeMap<String, Value>) -> Result<Self, String> {
        let after = fields.remove("after").ok_or("an action needs the field after")?;
        let after = durations::parse(after.as_str().unwrap_or(&after.to_string()))?;
        if fields.len() != 1 {
            let given: Vec<&str> = fields.keys().map(String::as_str).collect();
            return Err(format!("an action has one field beside after, not {given:?}"));
        }
        let rest = Value::Object(fields.into_iter().collect());
        Ok(Self { after, action: serde_json::from_value(rest).map_err(|error| error.to_string())? })
    }
}

/// An action of a user, of a workload or of EC2.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Creates or replaces an object.
    Apply(Value),
    /// Deletes an object.
    Delete(Named),
    /// Deletes the NodeClaim objects of this number of nodes, chosen at random.
    DeleteNodeClaims(u32),
    /// Deletes this number of Node objects, chosen at random.
    DeleteNodes(u32),
    /// EC2 interrupts this number of spot instances, chosen at random.
    InterruptSpot(u32),
    /// EC2 recommends rebalancing this number of spot instances, chosen at random.
    RebalanceSpot(u32),
    /// This number of machines, chosen at random, stop without warning.
    KillMachines(u32),
    /// This number of machines, chosen at random, stop responding while EC2 still runs them.
    SilenceMachines(u32),
    /// The EC2 status checks of this number of machines, chosen at random, fail from then on.
    ImpairMachines(u32),
    /// A user removes the tags by which nodeless finds its instances from this number of instances, chosen at random.
    UntagMachines(u32),
    /// A user restores the claims table to its contents of a time before.
    RestoreTable(Restore),
    /// The claims table is deleted and created again, empty.
    RecreateTable,
    /// The prices of EC2 change.
    ChangePrices(ChangePrices),
    /// The readiness probes of running pods fail for a time.
    UnreadyPods(SomePods),
    /// Pods do not stop when they are deleted, for a time.
    HangingPods(SomePods),
    /// The kube-scheduler places no pods with a label, for a time.
    RefusePods(RefusePods),
    /// Volumes take longer to detach, for a time.
    SlowDetachments(SlowDetachments),
    /// A new EKS image is published, so that nodes drift.
    NewImages(u32),
    /// A user makes a NodePool or an EC2NodeClass unusable, and corrects it later.
    Misconfigure(Misconfigure),
    /// A user deletes NodePools, and creates them again later.
    RecreateNodePools(Recreate),
    /// EC2 lacks capacity of offerings for a time.
    Shortage(Shortage),
    /// The cluster is shifted away from a zone for a time.
    ZonalShift(OneZone),
    /// A service fails for a time.
    Outage(Outage),
    /// A zone fails as a whole for a time.
    ZoneFailure(OneZone),
    /// Calls of an EC2 API are not authorized for a time.
    Denial(Denial),
    /// The account has a quota of vCPUs for a time.
    Quota(Quota),
    /// The next instances do not become nodes.
    BadMachines(BadMachines),
}

/// An object by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    /// The kind.
    pub kind: String,
    /// The namespace, for kinds that have one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The time to which the claims table is restored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restore {
    /// How long before.
    #[serde(deserialize_with = "durations::one")]
    pub ago: SignedDuration,
}

/// Offerings that are unavailable for a time. An absent field matches all.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shortage {
    /// The instance type.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// The zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// `spot` or `on-demand`.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// The number of machines that these offerings still provide in total.
    #[serde(default)]
    pub left: u64,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A wrong edit of a NodePool or an EC2NodeClass, chosen at random, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Misconfigure {
    /// The fault.
    pub fault: Misconfiguration,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// The fault of a NodePool or an EC2NodeClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Misconfiguration {
    /// A NodePool requires an instance type that does not exist.
    UnknownInstanceType,
    /// A NodePool has a requirement that no instance type satisfies.
    NoInstanceType,
    /// The subnet selector of an EC2NodeClass matches nothing.
    NoSubnets,
    /// The security group selector of an EC2NodeClass matches nothing.
    NoSecurityGroups,
    /// The AMI selector of an EC2NodeClass matches nothing.
    NoAmis,
}

/// NodePools, chosen at random, that do not exist for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recreate {
    /// The number of NodePools.
    pub count: u32,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A zone for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneZone {
    /// The name of the zone.
    pub zone: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// An outage of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outage {
    /// `claims`, `cluster`, `cloud`, `source`, `queue`, `arc`, or the prefix of an operation's name such as `cloud launch`.
    pub of: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
    /// Whether the service throttles the calls, instead of not answering them.
    #[serde(default)]
    pub throttled: bool,
}

/// Calls that EC2 answers with `UnauthorizedOperation` for a time, as after a wrong change of an IAM policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denial {
    /// The API, such as `CreateFleet`.
    pub api: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// The APIs of EC2 that nodeless calls for instances.
const DENIABLE: [&str; 11] = [
    "CreateFleet",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteLaunchTemplate",
    "DescribeInstanceStatus",
    "DescribeInstances",
    "DescribeLaunchTemplates",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
];

/// A quota of the account for instances of the Standard families (A, C, D, H, I, M, R, T and Z) for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The number of vCPUs.
    pub vcpus: u64,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Running pods, chosen at random, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomePods {
    /// The number of pods.
    pub count: u32,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Pods that the kube-scheduler places nowhere for a time, for a reason that no object states.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefusePods {
    /// The key and the value of their label, as `KEY=VALUE`.
    pub label: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Slow detachment of volumes, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowDetachments {
    /// How long a volume stays attached after its last pod.
    #[serde(deserialize_with = "durations::one")]
    pub take: SignedDuration,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A change of every price of a capacity type.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangePrices {
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The fraction by which each price may increase or decrease at random, from 0 to below 1.
    pub share: f64,
}

/// The fault of the next machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BadMachines {
    /// `neverStarts`, `neverJoins` or `failsToStart`.
    pub fault: String,
    /// The number of machines.
    pub count: u32,
}

/// Random faults. All rates are 0 unless given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FaultRates {
    /// Spot interruptions per hour.
    pub spot_interruptions_per_hour: f64,
    /// Rebalance recommendations per hour.
    pub rebalances_per_hour: f64,
    /// Shortages of offerings per hour: a type, a zone's spot capacity, or a type in a zone.
    pub shortages_per_hour: f64,
    /// Outages of an API per hour, for some minutes each.
    pub outages_per_hour: f64,
    /// Denials of an EC2 API per hour, for some minutes each.
    pub denials_per_hour: f64,
    /// Low quotas of vCPUs per hour, for some minutes each.
    pub quotas_per_hour: f64,
    /// Failures of a zone per hour, for some minutes each.
    pub zone_failures_per_hour: f64,
    /// Machines per hour that stop without warning.
    pub machine_failures_per_hour: f64,
    /// Machines per hour that stop responding while EC2 still runs them.
    pub silent_machines_per_hour: f64,
    /// Machines per hour that begin to fail their EC2 status check.
    pub impaired_machines_per_hour: f64,
    /// Instances per hour from which a user removes tags.
    pub untagged_machines_per_hour: f64,
    /// Launches per hour whose machine does not become a node.
    pub bad_machines_per_hour: f64,
    /// NodeClaims per hour that a user deletes.
    pub deleted_claims_per_hour: f64,
    /// Nodes per hour that a user deletes.
    pub deleted_nodes_per_hour: f64,
    /// Edits per hour that make a NodePool or an EC2NodeClass unusable, for some minutes each.
    pub misconfigurations_per_hour: f64,
    /// NodePools per hour that a user deletes, and creates again after some minutes.
    pub recreated_node_pools_per_hour: f64,
    /// Pods per hour whose readiness probes fail, for some minutes each.
    pub unready_pods_per_hour: f64,
    /// Pods per hour that do not stop, for some minutes each.
    pub hanging_pods_per_hour: f64,
    /// Times per hour in which volumes take minutes to detach, for some minutes each.
    pub slow_detachments_per_hour: f64,
    /// Changes of all spot prices per hour.
    pub spot_price_changes_per_hour: f64,
    /// Changes of all on-demand prices per day.
    pub on_demand_price_changes_per_day: f64,
    /// New images per day.
    pub new_images_per_day: f64,
    /// Faults of calls and messages.
    pub calls: CallRates,
}

/// The probability of each fault for one call or one message, from 0 to 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is documented where it is used, in Rates")]
pub struct CallRates {
    pub killed_before: f64,
    pub killed_after: f64,
    pub failed: f64,
    pub throttled: f64,
    pub answer_lost: f64,
    pub refused: f64,
    pub slow: f64,
    #[serde(deserialize_with = "durations::one")]
    pub slowest: SignedDuration,
    pub stale: f64,
    #[serde(deserialize_with = "durations::one")]
    pub stalest: SignedDuration,
    pub lost: f64,
    pub late: f64,
    #[serde(deserialize_with = "durations::one")]
    pub latest: SignedDuration,
    pub doubled: f64,
    #[serde(deserialize_with = "durations::one")]
    pub skew: SignedDuration,
}

impl Default for CallRates {
    fn default() -> Self {
        Self {
            killed_before: 0.0,
            killed_after: 0.0,
            failed: 0.0,
            throttled: 0.0,
            answer_lost: 0.0,
            refused: 0.0,
            slow: 0.0,
            slowest: SignedDuration::from_secs(2),
            stale: 0.0,
            stalest: SignedDuration::from_secs(10),
            lost: 0.0,
            late: 0.0,
            latest: SignedDuration::from_secs(30),
            doubled: 0.0,
            skew: SignedDuration::ZERO,
        }
    }
}

impl CallRates {
    pub(crate) fn rates(&self) -> Rates {
        let unsigned = |duration: SignedDuration| std::time::Duration::try_from(duration).unwrap_or_default();
        Rates {
            killed_before: self.killed_before,
            killed_after: self.killed_after,
            failed: self.failed,
            throttled: self.throttled,
            answer_lost: self.answer_lost,
            refused: self.refused,
            slow: self.slow,
            slowest: unsigned(self.slowest),
            stale: self.stale,
            stalest: unsigned(self.stalest),
            lost: self.lost,
            late: self.late,
            latest: unsigned(self.latest),
            doubled: self.doubled,
            skew: unsigned(self.skew),
        }
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

/// The built-in scenarios, by name.
const BUILT_IN: [(&str, &str); 13] = [
    ("canary", include_str!("built-in/canary.yaml")),
    ("cluster-settings", include_str!("built-in/cluster-settings.yaml")),
    ("day", include_str!("built-in/day.yaml")),
    ("faults", include_str!("built-in/faults.yaml")),
    ("faults-all-features", include_str!("built-in/faults-all-features.yaml")),
    ("moving-pods", include_str!("built-in/moving-pods.yaml")),
    ("refused-pods", include_str!("built-in/refused-pods.yaml")),
    ("schedules", include_str!("built-in/schedules.yaml")),
    ("spot", include_str!("built-in/spot.yaml")),
    ("stateful", include_str!("built-in/stateful.yaml")),
    ("surge", include_str!("built-in/surge.yaml")),
    ("unready-nodes", include_str!("built-in/unready-nodes.yaml")),
    ("warm", include_str!("built-in/warm.yaml")),
];

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
            (Err(error), None) => Err(ScenarioError::Form(error.without_snippet().to_string())),
        }
    }

    /// Whether every call succeeds and every message arrives in time.
    pub(crate) fn is_reliable(&self) -> bool {
        let fails = |action: &TimedAction| matches!(action.action, Action::Outage(_) | Action::Denial(_));
        let faults = &self.faults;
        !self.stops_loops
            && faults.calls.rates() == CallRates::default().rates()
            && faults.outages_per_hour <= 0.0
            && faults.denials_per_hour <= 0.0
            && !self.actions.iter().any(fails)
    }

    /// Whether prices change.
    pub(crate) fn changes_prices(&self) -> bool {
        let changes = |action: &TimedAction| matches!(action.action, Action::ChangePrices(_));
        self.faults.spot_price_changes_per_hour > 0.0
            || self.faults.on_demand_price_changes_per_day > 0.0
            || self.actions.iter().any(changes)
    }

    /// The names of the built-in scenarios.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// A built-in scenario, by its name.
    ///
    /// # Errors
    /// When there is none with this name.
    pub fn built_in(name: &str) -> Result<Self, ScenarioError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, yaml)) => Self::parse(yaml),
            None => Err(ScenarioError::Value {
                field: "scenario".to_owned(),
                why: format!(
                    "there is no built-in scenario {name}; use one of {}",
                    Self::built_in_names().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scenarios_can_be_read() {
        for (name, _) in BUILT_IN {
            let scenario = Scenario::built_in(name).unwrap();
            assert_eq!(scenario.name, name);
            assert!(!scenario.objects.is_empty() && !scenario.scale.is_empty());
        }
    }

    #[test]
    fn what_there_is_not_is_named() {
        let error = Scenario::parse("name: a\nscales: []\n").unwrap_err().to_string();
        assert!(error.contains("scales"), "{error}");
        let error = Scenario::parse("name: a\njobs: [{name: b, every: soon, spec: {}}]\n").unwrap_err().to_string();
        assert!(error.contains("soon"), "{error}");
        let error = Scenario::built_in("night").unwrap_err().to_string();
        assert!(
            error.contains(
                "canary, cluster-settings, day, faults, faults-all-features, moving-pods, refused-pods, schedules, spot, \
                 stateful, surge, unready-nodes, warm"
            ),
            "{error}"
        );
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
