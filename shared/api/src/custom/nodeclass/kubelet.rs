//! The kubelet's configuration in an EC2NodeClass: what we read of it, and what is wrong with it.

mod fields;
pub(crate) mod schema;

use super::SpecProblems;
use crate::custom::common::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields of the kubelet's configuration that decide about scheduling or that every AMI family takes. Other fields
/// go to the nodes as they are, on AMI families that can take them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfiguration {
    /// Addresses of the cluster's DNS servers.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    /// The maximum number of pods on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<MaxPods>,
    /// The maximum number of pods on a node for each of its processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<u32>,
    /// The resources that are reserved for the operating system: quantities or expressions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_reserved: BTreeMap<String, Quantity>,
    /// The resources that are reserved for the kubelet and the container runtime: quantities or expressions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// By signal, when pods are evicted at once: a quantity or a percentage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_hard: BTreeMap<String, String>,
    /// By signal, when pods are evicted after the grace period: a quantity or a percentage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft: BTreeMap<String, String>,
    /// The grace period of every signal in `evictionSoft`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// The longest grace period, in seconds, that an evicted pod gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// The disk use in percent above which images are collected.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// The disk use in percent down to which images are collected.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether cpu limits are enforced.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

/// The maximum number of pods on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxPods {
    /// The same for all instance types.
    Count(u32),
    /// A CEL expression, which is evaluated for each instance type.
    Expression(String),
}

/// A field with reservations, of which each value may be an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ReservedField {
    /// `kubeReserved`.
    Kube,
    /// `systemReserved`.
    System,
}

impl ReservedField {
    /// Both fields.
    pub const ALL: [Self; 2] = [Self::Kube, Self::System];

    /// The name of the field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kube => "kubeReserved",
            Self::System => "systemReserved",
        }
    }
}

impl KubeletConfiguration {
    /// `maxPods`, if it is an expression.
    #[must_use]
    pub fn max_pods_expression(&self) -> Option<&str> {
        match &self.max_pods {
            Some(MaxPods::Expression(text)) => Some(text),
            Some(MaxPods::Count(_)) | None => None,
        }
    }

    /// The reservations of a field.
    #[must_use]
    pub const fn reserved(&self, field: ReservedField) -> &BTreeMap<String, Quantity> {
        match field {
            ReservedField::Kube => &self.kube_reserved,
            ReservedField::System => &self.system_reserved,
        }
    }

    /// The reservations of a field, to change them.
    pub const fn reserved_mut(&mut self, field: ReservedField) -> &mut BTreeMap<String, Quantity> {
        match field {
            ReservedField::Kube => &mut self.kube_reserved,
            ReservedField::System => &mut self.system_reserved,
        }
    }

    /// The reservations that are expressions: the field, the resource and the text. As in Karpenter, every value that is no quantity
    /// is one.
    pub fn reserved_expressions(&self) -> impl Iterator<Item = (ReservedField, &str, &str)> {
        ReservedField::ALL.into_iter().flat_map(|field| {
            let expressions = self.reserved(field).iter().filter(|(_, value)| is_expression(value));
            expressions.map(move |(name, value)| (field, name.as_str(), value.0.as_str()))
        })
    }
}

fn is_expression(value: &Quantity) -> bool {
    value.0.parse::<nodeless_model::Quantity>().is_err()
}

const RESERVED: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pid"];
const SIGNALS: [&str; 6] = [
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// Reads `spec.kubelet`.
///
/// # Errors
/// Everything that is wrong with it; the text is for the condition ValidationSucceeded.
pub fn parse(kubelet: &BTreeMap<String, Value>) -> Result<KubeletConfiguration, SpecProblems> {
    let mut problems = fields::problems(kubelet);
    number_problems(kubelet, &mut problems);
    if !problems.is_empty() {
        return Err(SpecProblems(problems));
    }
    // A field that is null is absent, as for the kubelet.
    let present = kubelet.iter().filter(|(_, value)| !value.is_null());
    let object = present.map(|(key, value)| (key.clone(), value.clone())).collect();
    let configuration: KubeletConfiguration =
        serde_json::from_value(Value::Object(object)).map_err(|error| format!("spec.kubelet: {error}"))?;
    if kubelet.contains_key("registerWithTaints") {
        problems.push("spec.kubelet.registerWithTaints: set taints in the NodePool instead".to_owned());
    }
    for field in ReservedField::ALL {
        reserved_problems(field.name(), configuration.reserved(field), &mut problems);
    }
    eviction_problems(kubelet, &configuration, &mut problems);
    image_problems(&configuration, &mut problems);
    SpecProblems(problems).or(configuration)
}

fn reserved_problems(field: &str, reserved: &BTreeMap<String, Quantity>, problems: &mut Vec<String>) {
    for (name, quantity) in reserved {
        if !RESERVED.contains(&name.as_str()) {
            problems.push(format!("spec.kubelet.{field}.{name}: only {} can be reserved", RESERVED.join(", ")));
        }
        // Expressions that start with a sign are refused too, as in Karpenter.
        if quantity.0.starts_with('-') {
            problems.push(format!("spec.kubelet.{field}.{name}: {:?} is negative", quantity.0));
        }
    }
}

fn eviction_problems(
    kubelet: &BTreeMap<String, Value>,
    configuration: &KubeletConfiguration,
    problems: &mut Vec<String>,
) {
    let soft = &configuration.eviction_soft;
    let grace = &configuration.eviction_soft_grace_period;
    let reclaim = kubelet.get("evictionMinimumReclaim").and_then(Value::as_object).into_iter().flatten();
    let reclaim: BTreeMap<String, String> =
        reclaim.filter_map(|(signal, value)| Some((signal.clone(), value.as_str()?.to_owned()))).collect();
    for (field, thresholds) in
        [("evictionHard", &configuration.eviction_hard), ("evictionSoft", soft), ("evictionMinimumReclaim", &reclaim)]
    {
        for (signal, threshold) in thresholds {
            if !SIGNALS.contains(&signal.as_str()) {
                problems.push(format!("spec.kubelet.{field}.{signal}: the signals are {}", SIGNALS.join(", ")));
            }
            if !is_threshold(threshold) {
                problems.push(format!(
                    "spec.kubelet.{field}.{signal}: {threshold:?} is neither a percentage from 0% to 100% nor a quantity"
                ));
            }
        }
    }
    for signal in soft.keys().filter(|signal| !grace.contains_key(*signal)) {
        problems.push(format!("spec.kubelet.evictionSoft.{signal}: evictionSoftGracePeriod lacks this signal"));
    }
    for (signal, period) in grace {
        if !soft.contains_key(signal) {
            problems.push(format!("spec.kubelet.evictionSoftGracePeriod.{signal}: evictionSoft lacks this signal"));
        }
        if let Err(error) = nodeless_model::duration::parse_go_duration(period) {
            problems.push(format!("spec.kubelet.evictionSoftGracePeriod.{signal}: {error}"));
        }
    }
}

fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => text.parse::<nodeless_model::Quantity>().is_ok_and(|value| value >= nodeless_model::Quantity::ZERO),
    }
}

/// Numbers that are never negative.
fn number_problems(kubelet: &BTreeMap<String, Value>, problems: &mut Vec<String>) {
    for field in ["maxPods", "podsPerCore", "evictionMaxPodGracePeriod"] {
        if let Some(number) = kubelet.get(field).and_then(Value::as_i64).filter(|number| *number < 0) {
            problems.push(format!("spec.kubelet.{field}: {number} is negative"));
        }
    }
}

/// Whether the text is a duration of Go; may be negative.
fn is_duration(text: &str) -> bool {
    nodeless_model::duration::parse_go_duration(text.strip_prefix('-').unwrap_or(text)).is_ok()
}

fn image_problems(configuration: &KubeletConfiguration, problems: &mut Vec<String>) {
    let (high, low) = (configuration.image_gc_high_threshold_percent, configuration.image_gc_low_threshold_percent);
    for (field, percent) in [("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)] {
        if percent.is_some_and(|percent| !(0..=100).contains(&percent)) {
            problems.push(format!("spec.kubelet.{field}: a percentage is from 0 to 100"));
        }
    }
    if let (Some(high), Some(low)) = (high, low)
        && high <= low
    {
        problems.push(format!(
            "spec.kubelet.imageGCHighThresholdPercent: {high} must be above imageGCLowThresholdPercent, which is {low}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_json(value: Value) -> Result<KubeletConfiguration, SpecProblems> {
        parse(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn reads_the_fields_that_decide_and_lets_others_pass() {
        let configuration = parse_json(json!({
            "maxPods": 42, "kubeReserved": { "cpu": "80m", "memory": "1Gi" }, "evictionHard": { "memory.available": "5%" },
            "evictionSoft": { "nodefs.available": "1Gi" }, "evictionSoftGracePeriod": { "nodefs.available": "1m30s" },
            "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "featureGates": { "Some": true },
            "evictionMinimumReclaim": { "memory.available": "500Mi" }, "podsPerCore": null,
        }))
        .unwrap();
        assert_eq!(configuration.max_pods, Some(MaxPods::Count(42)));
        assert_eq!((configuration.max_pods_expression(), configuration.reserved_expressions().count()), (None, 0));
        assert_eq!(configuration.kube_reserved["memory"].0, "1Gi");
    }

    #[test]
    fn what_is_no_quantity_is_an_expression() {
        let configuration = parse_json(json!({
            "maxPods": "min(110, max_pods)", "kubeReserved": { "cpu": "80m", "memory": "11 * max_pods + 255" },
            "systemReserved": { "pid": "vcpus * 10", "cpu": "1" },
        }))
        .unwrap();
        assert_eq!(configuration.max_pods_expression(), Some("min(110, max_pods)"));
        let expressions: Vec<_> = configuration.reserved_expressions().collect();
        assert_eq!(
            expressions,
            [(ReservedField::Kube, "memory", "11 * max_pods + 255"), (ReservedField::System, "pid", "vcpus * 10")]
        );
    }

    #[test]
    fn names_every_field_that_is_wrong() {
        for (value, field) in [
            (json!({ "registerWithTaints": [] }), "registerWithTaints"),
            (json!({ "maxPods": -1 }), "spec.kubelet.maxPods: "),
            (json!({ "kubeReserved": { "gpu": "1" } }), "kubeReserved.gpu"),
            (json!({ "systemReserved": { "cpu": "-1" } }), "systemReserved.cpu"),
            (json!({ "systemReserved": { "cpu": "-vcpus" } }), "systemReserved.cpu: \"-vcpus\" is negative"),
            (json!({ "maxPodz": 20 }), "spec.kubelet.maxPodz: the kubelet has no such setting; did you mean maxPods?"),
            (json!({ "podsPerCore": -1 }), "spec.kubelet.podsPerCore: -1 is negative"),
            (json!({ "evictionMaxPodGracePeriod": -1 }), "spec.kubelet.evictionMaxPodGracePeriod: -1 is negative"),
            (
                json!({ "evictionMinimumReclaim": { "memory": "1Gi" } }),
                "evictionMinimumReclaim.memory: the signals are",
            ),
            (json!({ "evictionMinimumReclaim": { "pid.available": "a" } }), "evictionMinimumReclaim.pid.available"),
            (json!({ "evictionHard": { "disk": "5%" } }), "evictionHard.disk"),
            (json!({ "evictionHard": { "memory.available": "101%" } }), "evictionHard.memory.available"),
            (json!({ "evictionSoft": { "memory.available": "5%" } }), "evictionSoft.memory.available"),
            (
                json!({ "evictionSoftGracePeriod": { "memory.available": "1m" } }),
                "evictionSoftGracePeriod.memory.available",
            ),
            (json!({ "imageGCHighThresholdPercent": 101 }), "imageGCHighThresholdPercent"),
            (
                json!({ "imageGCHighThresholdPercent": 60, "imageGCLowThresholdPercent": 60 }),
                "imageGCHighThresholdPercent",
            ),
        ] {
            let problems = parse_json(value.clone()).unwrap_err();
            assert!(problems.0.iter().any(|problem| problem.contains(field)), "{value}: {problems:?}");
        }
    }
}
