//! HorizontalPodAutoscalers: replicas within their bounds, by the usage that `kubectl top` shows, or by the work that an annotation states.
//!
//! The rules, reasons and messages are those of `pkg/controller/podautoscaler` of Kubernetes, without metrics of the types Pods, Object
//! and External, and of `spec.behavior` only `scaleDown.stabilizationWindowSeconds`.

mod usage;

use super::Controller;
use super::feed::Feed;
use super::object::{
    NewEvent, after, all, int, is_active, lenient, list, name, namespace, publish, seconds, set_condition, text, uid,
    write_status,
};
use crate::server::path::Path as _;
use crate::server::resource::{
    DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource, STATEFUL_SETS,
};
use crate::server::{ApiServer, LabelSelector, ListOptions, PatchOptions, PatchType, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use usage::{Computed, Failure};

const WATCHED: &[Resource] = &[HORIZONTAL_POD_AUTOSCALERS];
const COMPONENT: &str = "horizontal-pod-autoscaler";
/// The kinds that have a subresource `scale`.
const SCALABLE: [Resource; 4] = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS];
/// `--horizontal-pod-autoscaler-sync-period`, in seconds.
const PERIOD: i64 = 15;
/// `--horizontal-pod-autoscaler-downscale-stabilization`, in seconds.
const STABILIZATION: i64 = 300;

/// Scales the targets of HorizontalPodAutoscalers.
#[derive(Debug)]
pub struct HorizontalController {
    feed: Feed,
    /// By uid.
    known: BTreeMap<String, Known>,
}

/// What is remembered of a HorizontalPodAutoscaler.
#[derive(Debug)]
struct Known {
    /// When it is evaluated next.
    due: Timestamp,
    /// The recommended replicas of the stabilization window, and the times of the recommendations.
    recommended: Vec<(Timestamp, i64)>,
}

impl Default for HorizontalController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), known: BTreeMap::new() }
    }
}

impl Controller for HorizontalController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let autoscalers = all(api, &HORIZONTAL_POD_AUTOSCALERS)?;
        self.known.retain(|known, _| autoscalers.iter().any(|one| uid(one) == known));
        for autoscaler in &autoscalers {
            let first = || Known { due: now, recommended: Vec::new() };
            let known = self.known.entry(uid(autoscaler).to_owned()).or_insert_with(first);
            if known.due <= now {
                Autoscaler::new(api, autoscaler, now).reconcile(&mut known.recommended)?;
                known.due = after(now, PERIOD);
            }
            self.feed.wake_at(known.due);
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The evaluation of one HorizontalPodAutoscaler.
struct Autoscaler<'a> {
    api: &'a ApiServer,
    object: &'a Value,
    now: Timestamp,
    conditions: Vec<Value>,
}

/// What is scaled.
struct Target {
    resource: Resource,
    object: Arc<Value>,
    replicas: i64,
}

impl<'a> Autoscaler<'a> {
    fn new(api: &'a ApiServer, object: &'a Value, now: Timestamp) -> Self {
        Self { api, object, now, conditions: list(object, "/status/conditions").to_vec() }
    }

    fn condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        set_condition(&mut self.conditions, kind, status, reason, message, self.now);
    }

    fn event(&self, kind: &str, reason: &str, message: &str) -> Result<(), Status> {
        publish(self.api, self.object, &NewEvent { component: COMPONENT, kind, reason, message }, self.now)
    }

    fn reconcile(mut self, recommended: &mut Vec<(Timestamp, i64)>) -> Result<(), Status> {
        let target = match self.target() {
            Ok(target) => target,
            Err(message) => {
                self.event("Warning", "FailedGetScale", &message)?;
                let message = format!("the HPA controller was unable to get the target's current scale: {message}");
                self.condition("AbleToScale", "False", "FailedGetScale", &message);
                return self.write(0, 0, &[], false);
            }
        };
        let scale_read = "the HPA controller was able to get the target's current scale";
        self.condition("AbleToScale", "True", "SucceededGetScale", scale_read);
        if recommended.is_empty() {
            recommended.push((self.now, target.replicas));
        }
        let current = target.replicas;
        let (minimum, maximum) = self.bounds();
        let mut metrics = Vec::new();
        let (desired, reason) = if current == 0 && minimum != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.condition("ScalingActive", "False", "ScalingDisabled", message);
            (0, String::new())
        } else if current > maximum {
            (maximum, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < minimum {
            (minimum, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            let Some((proposed, metric)) = self.proposed(&target, &mut metrics)? else {
                return self.write(current, current, &metrics, false);
            };
            let reason = if proposed > current {
                format!("{metric} above target")
            } else {
                "All metrics below target".to_owned()
            };
            (self.normalized(proposed, current, recommended), reason)
        };
        let rescaled = desired != current;
        if rescaled {
            self.rescale(&target, desired, &reason)?;
        }
        self.write(current, desired, &metrics, rescaled)
    }

    /// The minimum and the maximum of the replicas.
    fn bounds(&self) -> (i64, i64) {
        let bound = |field: &str| int(self.object, &format!("/spec/{field}")).unwrap_or(1);
        (bound("minReplicas"), bound("maxReplicas"))
    }

    /// The target, or why it has no scale.
    fn target(&self) -> Result<Target, String> {
        let field = |field: &str| text(self.object, &format!("/spec/scaleTargetRef/{field}"));
        let (version, kind, target) = (field("apiVersion"), field("kind"), field("name"));
        let known =
            SCALABLE.into_iter().find(|it| it.kind == kind && (version.is_empty() || it.api_version() == version));
        let resource = known.ok_or_else(|| format!("no matches for kind {kind:?} in version {version:?}"))?;
        let object = self.api.get(&resource, namespace(self.object), target).map_err(|_| {
            let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
            format!("{}/scale{group} {target:?} not found", resource.plural)
        })?;
        let replicas = int(&object, "/spec/replicas").unwrap_or(1);
        Ok(Target { resource, object, replicas })
    }

    /// The replicas that the metrics propose, and the metric that proposes most; `None` if they cannot be computed.
    fn proposed(&mut self, target: &Target, statuses: &mut Vec<Value>) -> Result<Option<(i64, String)>, Status> {
        let pods = self.pods(target)?;
        let specified = list(self.object, "/spec/metrics");
        let mut most: Option<(i64, String)> = None;
        let mut failures: Vec<Failure> = Vec::new();
        for metric in specified {
            match usage::compute(metric, &pods, target.replicas) {
                Ok(Computed { replicas, name, status }) => {
                    statuses.push(status);
                    if most.as_ref().is_none_or(|(most, _)| replicas > *most) {
                        most = Some((replicas, name));
                    }
                }
                Err(failure) => {
                    self.event("Warning", failure.reason, &failure.message)?;
                    failures.push(failure);
                }
            }
        }
        // With some of the metrics unknown, fewer replicas could be too few.
        let usable = most.filter(|(replicas, _)| failures.is_empty() || *replicas >= target.replicas);
        match (&usable, failures.first()) {
            (Some((_, name)), _) => {
                let message = format!("the HPA was able to successfully calculate a replica count from {name}");
                self.condition("ScalingActive", "True", "ValidMetricFound", &message);
            }
            (None, Some(Failure { reason, message })) => {
                let (invalid, all) = (failures.len(), specified.len());
                let event = format!("invalid metrics ({invalid} invalid out of {all}), first error is: {message}");
                let message = format!("the HPA was unable to compute the replica count: {message}");
                self.condition("ScalingActive", "False", reason, &message);
                self.event("Warning", "FailedComputeMetricsReplicas", &event)?;
            }
            (None, None) => {}
        }
        Ok(usable)
    }

    fn pods(&self, target: &Target) -> Result<Vec<Arc<Value>>, Status> {
        let selector = target.object.at("/spec/selector").unwrap_or(&Value::Null);
        let Some(labels) = LabelSelector::from_object(selector)? else { return Ok(Vec::new()) };
        let options = ListOptions { labels, ..ListOptions::namespace(namespace(self.object)) };
        let mut pods = self.api.list(&PODS, &options)?.items;
        pods.retain(|pod| is_active(pod));
        Ok(usage::under_load(&target.object, pods))
    }

    /// The proposed replicas after stabilization, the limit of scaling up, and the bounds.
    fn normalized(&mut self, proposed: i64, current: i64, recommended: &mut Vec<(Timestamp, i64)>) -> i64 {
        let window = int(self.object, "/spec/behavior/scaleDown/stabilizationWindowSeconds").unwrap_or(STABILIZATION);
        recommended.retain(|(at, _)| after(*at, window) > self.now);
        recommended.push((self.now, proposed));
        let stabilized = recommended.iter().map(|(_, replicas)| *replicas).max().unwrap_or(proposed);
        if stabilized == proposed {
            self.condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size");
        } else {
            let message =
                "recent recommendations were higher than current one, applying the highest recent recommendation";
            self.condition("AbleToScale", "True", "ScaleDownStabilized", message);
        }
        let (minimum, maximum) = self.bounds();
        let limit = (2 * current).max(4);
        let (desired, limited, reason, message) = if stabilized < minimum {
            (minimum, "True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
        } else if stabilized > limit.min(maximum) && limit < maximum {
            (
                limit,
                "True",
                "ScaleUpLimit",
                "the desired replica count is increasing faster than the maximum scale rate",
            )
        } else if stabilized > maximum {
            (maximum, "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
        } else {
            (stabilized, "False", "DesiredWithinRange", "the desired count is within the acceptable range")
        };
        self.condition("ScalingLimited", limited, reason, message);
        desired
    }

    fn rescale(&mut self, target: &Target, desired: i64, reason: &str) -> Result<(), Status> {
        let patch = json!({ "spec": { "replicas": desired } });
        let (own, scaled, options) = (namespace(&target.object), name(&target.object), PatchOptions::default());
        lenient(self.api.patch(&target.resource, own, scaled, Some("scale"), PatchType::Merge, &patch, &options))?;
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        self.condition("AbleToScale", "True", "SucceededRescale", &message);
        self.event("Normal", "SuccessfulRescale", &format!("New size: {desired}; reason: {reason}"))
    }

    fn write(self, current: i64, desired: i64, metrics: &[Value], rescaled: bool) -> Result<(), Status> {
        let mut status =
            json!({ "currentReplicas": current, "desiredReplicas": desired, "conditions": self.conditions });
        if !metrics.is_empty() {
            status["currentMetrics"] = json!(metrics);
        }
        let last = self.object.at("/status/lastScaleTime").cloned();
        if let Some(last) = if rescaled { Some(json!(seconds(self.now))) } else { last } {
            status["lastScaleTime"] = last;
        }
        write_status(self.api, &HORIZONTAL_POD_AUTOSCALERS, self.object, status)
    }
}
