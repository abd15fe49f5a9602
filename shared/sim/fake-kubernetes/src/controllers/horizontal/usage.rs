//! The replicas that a metric proposes, by the usage of pods.

use crate::controllers::object::{int, is_true, name, text};
use crate::server::metrics::{LOAD, USAGE, of_pod};
use crate::server::path::Path as _;
use crate::server::pod_resources::{of_container, quantity, running_containers};
use nodeless_model::Quantity;
use nodeless_model::resources::format_quantity;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;

/// What a metric proposes.
#[derive(Debug)]
pub(super) struct Computed {
    pub(super) replicas: i64,
    /// The name of the metric in messages.
    pub(super) name: String,
    /// The current value for `status.currentMetrics`.
    pub(super) status: Value,
}

/// Why a metric proposes nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// A metric of the type Resource or ContainerResource.
struct Metric<'a> {
    resource: &'a str,
    /// Only the usage of this container.
    container: Option<&'a str>,
    goal: Goal,
}

/// The target of the average of all pods.
#[derive(Clone, Copy)]
enum Goal {
    /// In percent of the requests.
    Utilization(i64),
    Value(Quantity),
}

/// The replicas that a metric proposes for these active pods.
pub(super) fn compute(metric: &Value, pods: &[Arc<Value>], current: i64) -> Result<Computed, Failure> {
    let metric_type = text(metric, "/type");
    let (field, reason) = match metric_type {
        "Resource" => ("resource", "FailedGetResourceMetric"),
        "ContainerResource" => ("containerResource", "FailedGetContainerResourceMetric"),
        other => {
            let reason = match other {
                "Pods" => "FailedGetPodsMetric",
                "Object" => "FailedGetObjectMetric",
                "External" => "FailedGetExternalMetric",
                _ => "InvalidMetricSourceType",
            };
            return Err(Failure { reason, message: format!("metrics of the type {other} are not simulated") });
        }
    };
    let source = &metric[field];
    let failed = |what: &str, why: String| Failure {
        reason,
        message: format!("failed to get {} {what}: {why}", text(source, "/name")),
    };
    let target = &source["target"];
    let goal = match (int(target, "/averageUtilization"), target.at("/averageValue").and_then(quantity)) {
        (Some(percent), _) if percent > 0 => Goal::Utilization(percent),
        (None, Some(value)) if !value.is_zero() => Goal::Value(value),
        _ => {
            return Err(failed(
                "target",
                "invalid resource metric source: neither a utilization target nor a value target was set".to_owned(),
            ));
        }
    };
    let metric = Metric { resource: text(source, "/name"), container: source["container"].as_str(), goal };
    let proposal = metric
        .replicas(pods, current)
        .map_err(|why| failed(if matches!(goal, Goal::Utilization(_)) { "utilization" } else { "usage" }, why))?;
    let kind = if metric.container.is_some() { "container resource" } else { "resource" };
    let unit = if matches!(goal, Goal::Utilization(_)) { " utilization (percentage of request)" } else { "" };
    let mut value = json!({ "name": metric.resource, "current": proposal.current });
    if let Some(container) = metric.container {
        value["container"] = json!(container);
    }
    Ok(Computed {
        replicas: proposal.replicas,
        name: format!("{} {kind}{unit}", metric.resource),
        status: json!({ "type": metric_type, field: value }),
    })
}

/// The pods of a workload, whose ready pods do its work in equal parts if it has the annotation [`LOAD`].
pub(super) fn under_load(workload: &Value, mut pods: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    let load = workload["metadata"]["annotations"].get(LOAD).and_then(quantity).map(Quantity::milli);
    let is_working = |pod: &Arc<Value>| of_pod(pod).is_some() && is_true(pod, "Ready");
    let working = pods.iter().filter(|pod| is_working(pod)).count();
    let Some(each) = load.and_then(|load| load.checked_div(i64::try_from(working).ok()?)) else { return pods };
    for pod in pods.iter_mut().filter(|pod| is_working(pod)) {
        let requests = running_containers(pod).map(|container| of_container(container, "requests").get("cpu").milli());
        let requests = requests.fold(0, i64::saturating_add);
        if let Some(percent) = each.saturating_mul(100).checked_div(requests) {
            Arc::make_mut(pod)["metadata"]["annotations"][USAGE] = json!(format!("{percent}%"));
        }
    }
    pods
}

struct Proposal {
    replicas: i64,
    current: Value,
}

/// The usage of the pods that are counted, and their requests, in thousandths of the unit.
type Sample = BTreeMap<String, (i64, i64)>;

impl Metric<'_> {
    fn replicas(&self, pods: &[Arc<Value>], current: i64) -> Result<Proposal, String> {
        let (mut measured, mut missing, mut unready) = (Sample::new(), Sample::new(), Sample::new());
        let mut any = false;
        for pod in pods {
            let requests = if matches!(self.goal, Goal::Utilization(_)) { self.requests(pod)? } else { 0 };
            let usage = self.usage(pod);
            any |= usage.is_some();
            let key = name(pod).to_owned();
            let pending = text(pod, "/status/phase") == "Pending";
            match usage {
                // The CPU of a pod that starts is not that of its work.
                _ if pending || (self.resource == "cpu" && !is_true(pod, "Ready")) => {
                    unready.insert(key, (0, requests))
                }
                Some(usage) => measured.insert(key, (usage, requests)),
                None => missing.insert(key, (0, requests)),
            };
        }
        if !any {
            let why = "no metrics returned from resource metrics API";
            return Err(format!("unable to get metrics for resource {}: {why}", self.resource));
        }
        if measured.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let ratio = self.ratio(&measured);
        let shown = self.shown(&measured);
        let replicas = self.adjusted(ratio, measured, missing, unready, current);
        Ok(Proposal { replicas, current: shown })
    }

    /// The replicas for a ratio of usage and target. Pods whose usage is unknown count against a change.
    fn adjusted(&self, ratio: f64, measured: Sample, missing: Sample, unready: Sample, current: i64) -> i64 {
        let grows_unready = !unready.is_empty() && ratio > 1.0;
        if !grows_unready && missing.is_empty() {
            return if is_within_tolerance(ratio) { current } else { times(ratio, measured.len()) };
        }
        let mut all = measured;
        for (pod, (_, requests)) in missing {
            all.insert(pod, (if ratio < 1.0 { self.assumed(requests) } else { 0 }, requests));
        }
        if grows_unready {
            all.extend(unready);
        }
        let adjusted = self.ratio(&all);
        if is_within_tolerance(adjusted) || (ratio < 1.0) != (adjusted < 1.0) {
            return current;
        }
        let replicas = times(adjusted, all.len());
        let reversed = if adjusted < 1.0 { replicas > current } else { replicas < current };
        if reversed { current } else { replicas }
    }

    /// The usage of a pod without metrics where fewer replicas are proposed.
    fn assumed(&self, requests: i64) -> i64 {
        match self.goal {
            Goal::Utilization(percent) => requests.saturating_mul(percent.max(100)) / 100,
            Goal::Value(value) => value.milli(),
        }
    }

    fn requests(&self, pod: &Value) -> Result<i64, String> {
        let mut sum = 0_i64;
        for container in running_containers(pod).filter(|it| self.counts(text(it, "/name"))) {
            let requests = of_container(container, "requests");
            if !requests.contains(self.resource) {
                let container = text(container, "/name");
                return Err(format!(
                    "missing request for {} in container {container} of Pod {}",
                    self.resource,
                    name(pod)
                ));
            }
            sum = sum.saturating_add(requests.get(self.resource).milli());
        }
        Ok(sum)
    }

    /// The usage of a pod, if it runs and the resource is measured.
    fn usage(&self, pod: &Value) -> Option<i64> {
        let containers = of_pod(pod)?;
        let mut counted =
            containers.iter().filter(|(name, usage)| self.counts(name) && usage.contains(self.resource)).peekable();
        counted.peek()?;
        Some(counted.map(|(_, usage)| usage.get(self.resource).milli()).fold(0, i64::saturating_add))
    }

    fn counts(&self, container: &str) -> bool {
        self.container.is_none_or(|only| only == container)
    }

    /// The usage in relation to the target.
    fn ratio(&self, sample: &Sample) -> f64 {
        match self.goal {
            Goal::Utilization(percent) => float(utilization(sample)) / float(percent),
            Goal::Value(value) => float(average(sample)) / float(value.milli()),
        }
    }

    fn shown(&self, sample: &Sample) -> Value {
        let value = format_quantity(self.resource, Quantity::from_milli(average(sample)));
        match self.goal {
            Goal::Utilization(_) => json!({ "averageUtilization": utilization(sample), "averageValue": value }),
            Goal::Value(_) => json!({ "averageValue": value }),
        }
    }
}

fn sums(sample: &Sample) -> (i64, i64) {
    sample.values().fold((0, 0), |sum, one| (i64::saturating_add(sum.0, one.0), i64::saturating_add(sum.1, one.1)))
}

/// The usage in percent of the requests. Requests are not zero where a percentage is a target: each container has one.
fn utilization(sample: &Sample) -> i64 {
    let (usage, requests) = sums(sample);
    usage.saturating_mul(100).checked_div(requests).unwrap_or(0)
}

fn average(sample: &Sample) -> i64 {
    let count = i64::try_from(sample.len()).unwrap_or(i64::MAX);
    sums(sample).0.checked_div(count).unwrap_or(0)
}

fn is_within_tolerance(ratio: f64) -> bool {
    (1.0 - ratio).abs() <= TOLERANCE
}

#[expect(clippy::cast_precision_loss, reason = "ratios need no more than 53 bits")]
fn float(number: i64) -> f64 {
    number as f64
}

/// This many times a number of pods, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a number of replicas")]
fn times(ratio: f64, pods: usize) -> i64 {
    (ratio * pods as f64).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running pod with a request of one core.
    fn pod(name: &str, usage: &str, ready: &str) -> Arc<Value> {
        let resources = json!({ "requests": { "cpu": "1" } });
        Arc::new(json!({
            "metadata": { "name": name, "annotations": { USAGE: usage } },
            "spec": { "containers": [{ "name": "main", "resources": resources }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
        }))
    }

    fn cpu(target: &Value) -> Value {
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }

    fn replicas(percent: i64, pods: &[Arc<Value>]) -> i64 {
        let current = i64::try_from(pods.len()).unwrap();
        compute(&cpu(&json!({ "averageUtilization": percent })), pods, current).unwrap().replicas
    }

    #[test]
    fn replicas_follow_the_utilization() {
        let at = |usage: &str| (0..4).map(|number| pod(&number.to_string(), usage, "True")).collect::<Vec<_>>();
        assert_eq!(replicas(50, &at("100%")), 8);
        assert_eq!(replicas(50, &at("54%")), 4, "within the tolerance");
        assert_eq!(replicas(50, &at("56%")), 5);
        assert_eq!(replicas(50, &at("20%")), 2);
        let value = cpu(&json!({ "averageValue": "250m" }));
        let computed = compute(&value, &at("100%"), 4).unwrap();
        assert_eq!((computed.replicas, computed.name.as_str()), (16, "cpu resource"));
        assert_eq!(computed.status["resource"]["current"], json!({ "averageValue": "1" }));
    }

    #[test]
    fn the_ready_pods_of_a_workload_do_its_work_in_equal_parts() {
        let workload = json!({ "metadata": { "annotations": { LOAD: "3" } } });
        let pods = |count: usize| {
            let mut pods: Vec<_> = (0..count).map(|number| pod(&number.to_string(), "10%", "True")).collect();
            pods.push(pod("starts", "10%", "False"));
            under_load(&workload, pods)
        };
        assert_eq!(replicas(50, &pods(2)[..2]), 6);
        assert_eq!(replicas(50, &pods(6)[..6]), 6);
        assert_eq!(replicas(50, &pods(9)[..9]), 6);
        assert_eq!(replicas(50, &under_load(&json!({}), pods(2))[..2]), 6, "they keep what they have");
        assert_eq!(pods(0)[0]["metadata"]["annotations"][USAGE], "10%", "no pod works");
    }

    #[test]
    fn pods_that_are_not_ready_hold_back_a_growth() {
        let pods = [pod("a", "200%", "True"), pod("b", "0%", "False")];
        // Two pods use 200% of two cores: as much as the target.
        assert_eq!(replicas(100, &pods), 2);
        assert_eq!(replicas(100, &pods[..1]), 2);
        let shrinks = [pod("a", "10%", "True"), pod("b", "0%", "False")];
        assert_eq!(replicas(100, &shrinks), 1);
    }

    #[test]
    fn what_cannot_be_computed_is_explained_as_kubernetes_does() {
        let failure = |metric: &Value, pods: &[Arc<Value>]| compute(metric, pods, 1).unwrap_err();
        let percent = cpu(&json!({ "averageUtilization": 50 }));
        let none = failure(&percent, &[]);
        assert_eq!(none.reason, "FailedGetResourceMetric");
        let expected = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API";
        assert_eq!(none.message, expected);
        let mut without = pod("a", "50%", "True").as_ref().clone();
        without["spec"]["containers"][0]["resources"] = json!({});
        let message = failure(&percent, &[Arc::new(without)]).message;
        assert!(message.ends_with("missing request for cpu in container main of Pod a"), "{message}");
        let external = json!({ "type": "External", "external": {} });
        assert_eq!(failure(&external, &[]).reason, "FailedGetExternalMetric");
        assert!(failure(&cpu(&json!({})), &[]).message.contains("neither a utilization target nor a value target"));
    }
}
