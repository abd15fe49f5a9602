//! ProvisioningRequests of the Cluster Autoscaler's API: capacity for all pods of a job, or for none.
//!
//! A request is represented by virtual pods ([`crate::pods::virtual_pod`]). [`ProvisioningRequest::due`] is what a plan does with it,
//! and [`ProvisioningRequest::step`] the conditions after the plan, with the types and reasons of Cluster Autoscaler
//! (`cluster-autoscaler/provisioningrequest/conditions/conditions.go`), which Kueue reads.

use crate::pods::pod::PodAffinityTerm;
use crate::pods::virtual_pod::VirtualPods;
use crate::text::plural::counted;
use crate::{LabelSelector, Pod, PodOrigin, PodShape, StringMap, labels};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The parameter with the seconds after which a request that is not provisioned fails.
const VALID_UNTIL_SECONDS: &str = "ValidUntilSeconds";
/// The parameter with which a request of [`Class::CheckCapacity`] fails at once if there is no capacity.
const NO_RETRY: &str = "noRetry";
/// The parameter that keeps all pods of a request in one domain; the value is `topology.kubernetes.io/zone`.
pub const SINGLE_TOPOLOGY: &str = "nodeless.sh/single-topology";
/// When a request that is not provisioned fails without `ValidUntilSeconds`, as in Cluster Autoscaler.
const VALID_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long the capacity of a provisioned request is held for its pods, as in Cluster Autoscaler.
pub const BOOKED_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How long nodes take to be launched, registered and initialized at most: claims that take longer are given up.
const LAUNCHED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// How far the clocks of those who write the status may be ahead.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// How long the PodTemplates of a request may be missing: Kueue creates them after the request.
const TEMPLATES_WITHIN: SignedDuration = SignedDuration::from_mins(1);
/// The maximum number of pods of one request. A mistake in a count must not use up the planner's memory.
pub const MAX_PODS: u64 = 10_000;
/// A ProvisioningRequest, decoded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequest {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// The name of the class.
    pub class_name: String,
    /// The parameters of the class.
    pub parameters: StringMap,
    /// The pods.
    pub pod_sets: Vec<PodSet>,
    /// How far it is, by its conditions.
    pub progress: Progress,
}

/// Pods of one PodTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// The name of the PodTemplate, in the request's namespace.
    pub template: String,
    /// The number of pods.
    pub count: u32,
}

/// The classes of requests that nodeless handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All pods must fit on nodes that exist. Nothing is launched.
    CheckCapacity,
    /// Nodes are launched for all pods, or for none.
    AtomicScaleUp,
}

impl Class {
    const ALL: [(Self, &'static str); 2] = [
        (Self::CheckCapacity, "check-capacity.autoscaling.x-k8s.io"),
        (Self::AtomicScaleUp, "best-effort-atomic-scale-up.autoscaling.x-k8s.io"),
    ];

    /// The name, as `spec.provisioningClassName`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CheckCapacity => Self::ALL[0].1,
            Self::AtomicScaleUp => Self::ALL[1].1,
        }
    }
}

/// How far a request is, by the conditions that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Progress {
    /// It is neither provisioned nor failed.
    #[default]
    Waiting,
    /// All of its pods had nodes, not all of which were initialized.
    Launching,
    /// It is provisioned: its capacity is held for its pods.
    Provisioned {
        /// Since when.
        since: Timestamp,
    },
    /// It has failed, or its booking has ended.
    Ended,
}

/// A condition that a request has.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The type.
    pub kind: &'a str,
    /// Whether it is true.
    pub holds: bool,
    /// The reason.
    pub reason: &'a str,
    /// When its status last changed.
    pub since: Timestamp,
}

impl Progress {
    /// The progress that these conditions state.
    pub fn new<'a>(conditions: impl Iterator<Item = Known<'a>>) -> Self {
        let mut progress = Self::Waiting;
        for known in conditions {
            match (known.kind, known.holds) {
                (kind::FAILED | kind::BOOKING_EXPIRED, true) => return Self::Ended,
                (kind::PROVISIONED, true) => progress = Self::Provisioned { since: known.since },
                (kind::PROVISIONED, false) if known.reason == LAUNCHING => progress = Self::Launching,
                _ => {}
            }
        }
        progress
    }
}

/// The types of conditions.
mod kind {
    pub(super) const ACCEPTED: &str = "Accepted";
    pub(super) const PROVISIONED: &str = "Provisioned";
    pub(super) const FAILED: &str = "Failed";
    pub(super) const BOOKING_EXPIRED: &str = "BookingExpired";
}

/// The reason of `Provisioned` while nodes launch. Cluster Autoscaler has no such state: it admits pods before their nodes exist.
const LAUNCHING: &str = "CapacityIsLaunching";

/// What a plan does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is of another class, has ended, or expires with this plan.
    Nothing,
    /// Its pods need capacity.
    Capacity(Class),
    /// Its capacity is held.
    Booking,
}

/// What a plan found for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It was not evaluated in this plan.
    NotEvaluated,
    /// All of its pods fit on initialized nodes.
    Fits,
    /// All of its pods have nodes, some of which launch.
    Launching {
        /// The number of its pods.
        pods: usize,
        /// How many of them fit on initialized nodes.
        fitting: usize,
    },
    /// Not all of its pods can have nodes, for this reason.
    NotFound(String),
    /// Its capacity is held.
    Booked,
    /// As many pods as it has are bound.
    Consumed,
    /// Its pods cannot be made.
    Invalid(RequestError),
}

/// Why the pods of a request cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RequestError {
    /// A PodTemplate does not exist.
    #[error("PodTemplate {name} does not exist in namespace {namespace}; create it before the ProvisioningRequest")]
    TemplateNotFound {
        /// The name of the PodTemplate.
        name: String,
        /// The request's namespace.
        namespace: String,
    },
    /// A PodTemplate, or a parameter, is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// A condition after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The type.
    pub kind: &'static str,
    /// Whether it is true.
    pub holds: bool,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

fn verdict(kind: &'static str, holds: bool, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict { kind, holds, reason, message: message.into() }
}

impl ProvisioningRequest {
    /// The class, if nodeless handles it.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        Class::ALL.iter().find(|(_, name)| *name == self.class_name).map(|(class, _)| *class)
    }

    /// Whether the request is of a class that nodeless handles, and has not ended.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.class().is_some() && self.progress != Progress::Ended
    }

    /// What a plan at this time does with the request.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Due {
        match (self.class(), self.progress) {
            (Some(class), Progress::Waiting | Progress::Launching) if !self.has_expired(now) => Due::Capacity(class),
            (Some(_), Progress::Provisioned { since }) if !self.booking_has_expired(since, now) => Due::Booking,
            _ => Due::Nothing,
        }
    }

    /// Whether its time for getting capacity is over.
    fn has_expired(&self, now: Timestamp) -> bool {
        now.duration_since(self.created) > self.valid_for().unwrap_or(VALID_FOR)
    }

    /// When the booking of a request that is provisioned since this time began: no later than now, and no later than its nodes can have
    /// been launched. Users may write the status, so the creation counts instead of a time in the future.
    fn booked_since(&self, since: Timestamp, now: Timestamp) -> Timestamp {
        let is_stated = since.duration_since(now) <= CLOCK_SKEW;
        let found = if is_stated { self.valid_for().unwrap_or(VALID_FOR) } else { SignedDuration::ZERO };
        let latest = self.created.checked_add(found).and_then(|found| found.checked_add(LAUNCHED_WITHIN));
        since.min(now).min(latest.unwrap_or(now))
    }

    fn booking_has_expired(&self, since: Timestamp, now: Timestamp) -> bool {
        now.duration_since(self.booked_since(since, now)) > BOOKED_FOR
    }

    /// How long after its creation a request that is not provisioned fails.
    fn valid_for(&self) -> Result<SignedDuration, RequestError> {
        let Some(value) = self.parameters.get(VALID_UNTIL_SECONDS) else { return Ok(VALID_FOR) };
        let seconds = value.parse().ok().filter(|seconds| *seconds > 0).map(SignedDuration::from_secs);
        seconds.ok_or_else(|| {
            RequestError::Invalid(format!(
                "the parameter {VALID_UNTIL_SECONDS} is {value:?}; create the request with a number of seconds above 0, or without it"
            ))
        })
    }

    /// The conditions that a plan with this finding sets; none where nothing changes.
    #[must_use]
    pub fn step(&self, finding: &Finding, now: Timestamp) -> Vec<Verdict> {
        match self.progress {
            _ if !self.is_active() => Vec::new(),
            Progress::Provisioned { since } => self.booking_step(finding, since, now),
            Progress::Waiting | Progress::Launching => self.capacity_step(finding, now),
            Progress::Ended => Vec::new(),
        }
    }

    fn capacity_step(&self, finding: &Finding, now: Timestamp) -> Vec<Verdict> {
        if let Finding::Invalid(error) = finding {
            let too_soon = now.duration_since(self.created) < TEMPLATES_WITHIN;
            return match error {
                RequestError::TemplateNotFound { .. } if too_soon => Vec::new(),
                _ => vec![verdict(kind::FAILED, true, "FailedToCreatePods", error.to_string())],
            };
        }
        if self.has_expired(now) {
            let message = "the request expired before all of its pods could have nodes; create it again to try again";
            return vec![verdict(kind::FAILED, true, "Expired", message)];
        }
        let provisioned = match finding {
            Finding::Fits if self.progress == Progress::Launching => {
                let message = "all pods fit on nodes of the cluster; nodes were launched for them";
                verdict(kind::PROVISIONED, true, "CapacityIsProvisioned", message)
            }
            Finding::Fits => {
                verdict(kind::PROVISIONED, true, "CapacityIsFound", "all pods fit on nodes of the cluster")
            }
            Finding::Launching { pods, fitting } => {
                let of = counted(*pods, "pod");
                let message = format!("{fitting} of {of} on initialized nodes; nodes for the others launch");
                verdict(kind::PROVISIONED, false, LAUNCHING, message)
            }
            Finding::NotFound(why) if self.fails_at_once() => {
                verdict(kind::FAILED, true, "CapacityIsNotFound", why.clone())
            }
            Finding::NotFound(why) => verdict(kind::PROVISIONED, false, "CapacityIsNotFound", why.clone()),
            _ => return Vec::new(),
        };
        vec![verdict(kind::ACCEPTED, true, "Accepted", "nodeless provides the capacity"), provisioned]
    }

    /// The conditions of a provisioned request.
    fn booking_step(&self, finding: &Finding, since: Timestamp, now: Timestamp) -> Vec<Verdict> {
        match finding {
            Finding::Consumed => {
                let message = "all pods of the request are bound, so that its capacity is no longer held";
                vec![verdict(kind::BOOKING_EXPIRED, true, "CapacityBookingConsumed", message)]
            }
            _ if self.booking_has_expired(since, now) => {
                let message = "the capacity was held for 10 minutes";
                vec![verdict(kind::BOOKING_EXPIRED, true, "CapacityReservationTimeExpired", message)]
            }
            Finding::Invalid(error) => {
                vec![verdict(kind::FAILED, true, "FailedToBookCapacity", error.to_string())]
            }
            _ => Vec::new(),
        }
    }

    fn fails_at_once(&self) -> bool {
        self.class() == Some(Class::CheckCapacity) && self.parameters.get(NO_RETRY).is_some_and(|value| value == "true")
    }

    /// Whether all its pods have to be in one zone.
    fn is_in_one_zone(&self) -> Result<bool, RequestError> {
        match self.parameters.get(SINGLE_TOPOLOGY) {
            None => Ok(false),
            Some(domain) if domain == labels::ZONE => Ok(true),
            Some(domain) => Err(RequestError::Invalid(format!(
                "the parameter {SINGLE_TOPOLOGY} is {domain:?}; set it to {:?}, or remove it",
                labels::ZONE
            ))),
        }
    }

    /// The number of its pods.
    #[must_use]
    pub fn pods(&self) -> u64 {
        self.pod_sets.iter().map(|set| u64::from(set.count)).sum()
    }

    /// The virtual pods of the request, given the shapes that its templates define, in the order of its pod sets: one for each of its
    /// pods, less one for each of these consumers. A consumer takes the place of a virtual pod with the same requests, if there is one.
    /// The priority is the lowest, that of CapacityBuffers, and the rank.
    ///
    /// # Errors
    /// When the request has more than [`MAX_PODS`] pods, or an invalid parameter.
    pub fn virtual_pods<'p>(
        &self,
        templates: &[PodShape],
        consumers: impl Iterator<Item = &'p Pod>,
        rank: i32,
    ) -> Result<Vec<Pod>, RequestError> {
        let pods = self.pods();
        if pods > MAX_PODS {
            let problem = format!(
                "it has {pods} pods, and {MAX_PODS} are the most that one request may have; split it into several"
            );
            return Err(RequestError::Invalid(problem));
        }
        self.valid_for()?;
        // Once it is provisioned, the capacity is held wherever it is.
        let together = self.is_in_one_zone()? && !matches!(self.progress, Progress::Provisioned { .. });
        let left = self.left(templates, consumers);
        let sets = templates.iter().zip(left).enumerate();
        let mut pods: Vec<Pod> =
            sets.flat_map(|(set, (template, left))| self.set_of_pods(&template.pod, set, left, rank)).collect();
        if together {
            pods.iter_mut().for_each(|pod| self.keep_together(pod));
        }
        Ok(pods)
    }

    /// Requires all pods of the request in one zone.
    fn keep_together(&self, pod: &mut Pod) {
        let own = StringMap::from([(labels::CONSUMES_REQUEST.to_owned(), self.uid.clone())]);
        pod.template_mut().labels.extend(own.clone());
        pod.template_mut().required_pod_affinity.push(PodAffinityTerm {
            selector: Some(LabelSelector::from_labels(own)),
            topology_key: labels::ZONE.to_owned(),
            ..PodAffinityTerm::default()
        });
    }

    /// How many pods of each set have no consumer.
    fn left<'p>(&self, templates: &[PodShape], consumers: impl Iterator<Item = &'p Pod>) -> Vec<u32> {
        let mut left: Vec<u32> = self.pod_sets.iter().map(|set| set.count).collect();
        let mut others = 0_u32;
        for pod in consumers {
            if !take_equal(&mut left, templates, pod) {
                others = others.saturating_add(1);
            }
        }
        for left in left.iter_mut().rev() {
            let taken = others.min(*left);
            *left -= taken;
            others -= taken;
        }
        left
    }

    /// How many pods of each set are still to be created: those without a consumer, less one for each of these pods, which exist and have
    /// the same requests. A smaller pod does not count for a larger one.
    pub fn pods_to_come<'p>(
        &self,
        templates: &[PodShape],
        consumers: impl Iterator<Item = &'p Pod>,
        existing: impl Iterator<Item = &'p Pod>,
    ) -> Vec<u32> {
        let mut left = self.left(templates, consumers);
        for pod in existing {
            take_equal(&mut left, templates, pod);
        }
        left
    }

    fn set_of_pods(&self, template: &Pod, set: usize, count: u32, rank: i32) -> Vec<Pod> {
        let pods = VirtualPods {
            origin: PodOrigin::ProvisioningRequest(self.name.as_str().into()),
            template,
            namespace: &self.namespace,
            name: format!("provisioning-request-{}-{set}-", self.name),
            uid: format!("{}-{set}-", self.uid),
            created: Some(self.created),
            priority: i32::MIN.saturating_add(rank.max(0)),
        };
        pods.pods(0..count)
    }

    /// The request as `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Lets a pod take the place of one with the same requests, and returns whether there is one.
fn take_equal(left: &mut [u32], templates: &[PodShape], pod: &Pod) -> bool {
    let is_equal =
        |(left, own): &(&mut u32, &PodShape)| **left > 0 && own.pod.template.requests == pod.template.requests;
    match left.iter_mut().zip(templates).find(is_equal) {
        Some((left, _)) => {
            *left -= 1;
            true
        }
        None => false,
    }
}

/// The request whose capacity a pod of the cluster uses: its name, in the pod's namespace.
#[must_use]
pub fn consumed_by(pod: &Pod) -> Option<&str> {
    let annotated = |key: &str| pod.template.annotations.get(key);
    let name = || annotated(labels::CONSUMES_REQUEST).or_else(|| annotated(labels::CONSUMES_REQUEST_DEPRECATED));
    if pod.is_virtual() { None } else { name().map(String::as_str) }
}

/// The request that a virtual pod is of: its namespace and name.
#[must_use]
pub fn request_of(pod: &Pod) -> Option<(&str, &str)> {
    match &pod.origin {
        PodOrigin::ProvisioningRequest(name) => Some((&pod.namespace, name)),
        PodOrigin::Cluster | PodOrigin::CapacityBuffer(_) | PodOrigin::Workload(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodTemplate;
    use crate::{Quantity, ResourceList};

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn request(class: Class, parameters: &[(&str, &str)]) -> ProvisioningRequest {
        let parameter = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        ProvisioningRequest {
            namespace: "team".into(),
            name: "train".into(),
            uid: "u".into(),
            created: second(1000),
            class_name: class.name().into(),
            parameters: parameters.iter().map(parameter).collect(),
            pod_sets: vec![
                PodSet { template: "leader".into(), count: 1 },
                PodSet { template: "worker".into(), count: 3 },
            ],
            progress: Progress::Waiting,
        }
    }

    fn shape(cpus: i64) -> PodShape {
        PodShape { pod: template(cpus), ..PodShape::default() }
    }

    fn template(cpus: i64) -> Pod {
        Pod {
            template: PodTemplate {
                requests: ResourceList::from([("cpu", Quantity::from_units(cpus))]),
                priority: 7,
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        }
    }

    /// Type, status and reason of each condition.
    fn reasons(verdicts: &[Verdict]) -> Vec<(&str, bool, &str)> {
        verdicts.iter().map(|verdict| (verdict.kind, verdict.holds, verdict.reason)).collect()
    }

    fn known<'a>(kind: &'a str, holds: bool, reason: &'a str) -> Known<'a> {
        Known { kind, holds, reason, since: second(5000) }
    }

    const ACCEPTED: (&str, bool, &str) = ("Accepted", true, "Accepted");

    #[test]
    fn progress_is_what_the_conditions_state() {
        let of = |conditions: &[Known<'_>]| Progress::new(conditions.iter().copied());
        let accepted = known("Accepted", true, "Accepted");
        let provisioned = known("Provisioned", true, "CapacityIsFound");
        assert_eq!(of(&[]), Progress::Waiting);
        assert_eq!(of(&[accepted, known("Provisioned", false, "CapacityIsNotFound")]), Progress::Waiting);
        assert_eq!(of(&[accepted, known("Provisioned", false, "CapacityIsLaunching")]), Progress::Launching);
        assert_eq!(of(&[provisioned, accepted]), Progress::Provisioned { since: second(5000) });
        assert_eq!(
            of(&[provisioned, known("BookingExpired", true, "CapacityReservationTimeExpired")]),
            Progress::Ended
        );
        assert_eq!(of(&[known("Failed", true, "Expired")]), Progress::Ended);
        assert_eq!(of(&[known("Failed", false, "Unknown")]), Progress::Waiting);
    }

    #[test]
    fn other_classes_and_what_has_ended_are_ignored() {
        let mut other = request(Class::CheckCapacity, &[]);
        other.class_name = "queued-provisioning.gke.io".into();
        let ended = ProvisioningRequest { progress: Progress::Ended, ..request(Class::CheckCapacity, &[]) };
        for request in [other, ended] {
            assert!(!request.is_active() && request.due(second(1001)) == Due::Nothing);
            assert_eq!(request.step(&Finding::Fits, second(1001)), []);
        }
    }

    #[test]
    fn capacity_is_provisioned_in_the_words_of_cluster_autoscaler() {
        let mut request = request(Class::AtomicScaleUp, &[]);
        assert_eq!(request.due(second(1001)), Due::Capacity(Class::AtomicScaleUp));
        let step = |request: &ProvisioningRequest, finding| request.step(&finding, second(1001));
        assert_eq!(step(&request, Finding::NotEvaluated), []);
        let none = step(&request, Finding::NotFound("limits".into()));
        assert_eq!(reasons(&none), [ACCEPTED, ("Provisioned", false, "CapacityIsNotFound")]);
        assert_eq!(none[1].message, "limits");
        let launching = step(&request, Finding::Launching { pods: 4, fitting: 1 });
        assert_eq!(reasons(&launching), [ACCEPTED, ("Provisioned", false, "CapacityIsLaunching")]);
        assert!(launching[1].message.starts_with("1 of 4 pods"));
        let found = step(&request, Finding::Fits);
        assert_eq!(reasons(&found), [ACCEPTED, ("Provisioned", true, "CapacityIsFound")]);
        request.progress = Progress::Launching;
        let launched = step(&request, Finding::Fits);
        assert_eq!(reasons(&launched), [ACCEPTED, ("Provisioned", true, "CapacityIsProvisioned")]);
    }

    #[test]
    fn without_retry_a_check_fails_at_once() {
        let not_found = Finding::NotFound("no capacity".into());
        for (class, value, expected) in [
            (Class::CheckCapacity, "true", ("Failed", true, "CapacityIsNotFound")),
            (Class::CheckCapacity, "false", ("Provisioned", false, "CapacityIsNotFound")),
            (Class::AtomicScaleUp, "true", ("Provisioned", false, "CapacityIsNotFound")),
        ] {
            let verdicts = request(class, &[("noRetry", value)]).step(&not_found, second(1001));
            assert_eq!(reasons(&verdicts), [ACCEPTED, expected]);
        }
    }

    #[test]
    fn a_request_expires_after_its_time_or_a_week() {
        let week = 7 * 24 * 3600;
        for (parameters, last) in [(vec![], week), (vec![("ValidUntilSeconds", "600")], 600)] {
            let request = request(Class::AtomicScaleUp, &parameters);
            assert_eq!(request.due(second(1000 + last)), Due::Capacity(Class::AtomicScaleUp), "{parameters:?}");
            assert_eq!(request.due(second(1001 + last)), Due::Nothing, "{parameters:?}");
            let verdicts = request.step(&Finding::NotEvaluated, second(1001 + last));
            assert_eq!(reasons(&verdicts), [("Failed", true, "Expired")]);
        }
    }

    #[test]
    fn a_time_that_is_no_number_of_seconds_fails_the_request() {
        for value in ["soon", "0", "-1", "10m"] {
            let request = request(Class::AtomicScaleUp, &[("ValidUntilSeconds", value)]);
            let error = request.virtual_pods(&[PodShape::default()], std::iter::empty(), 1).unwrap_err();
            assert!(error.to_string().contains(value), "{error}");
            assert_eq!(
                reasons(&request.step(&Finding::Invalid(error), second(1001))),
                [("Failed", true, "FailedToCreatePods")]
            );
        }
    }

    #[test]
    fn a_missing_template_fails_the_request_unless_it_is_new() {
        let request = request(Class::AtomicScaleUp, &[]);
        let missing = RequestError::TemplateNotFound { name: "worker".into(), namespace: "team".into() };
        let missing = Finding::Invalid(missing);
        assert_eq!(request.step(&missing, second(1059)), []);
        let failed = request.step(&missing, second(1060));
        assert_eq!(reasons(&failed), [("Failed", true, "FailedToCreatePods")]);
        assert!(failed[0].message.contains("PodTemplate worker does not exist in namespace team"), "{failed:?}");
        let invalid = Finding::Invalid(RequestError::Invalid("no quantity".into()));
        assert_eq!(reasons(&request.step(&invalid, second(1001))), [("Failed", true, "FailedToCreatePods")]);
    }

    #[test]
    fn a_booking_ends_after_ten_minutes_or_with_its_last_pod() {
        let mut request = request(Class::CheckCapacity, &[("ValidUntilSeconds", "4000")]);
        request.progress = Progress::Provisioned { since: second(5000) };
        assert_eq!((request.due(second(5600)), request.due(second(5601))), (Due::Booking, Due::Nothing));
        assert_eq!(request.step(&Finding::Booked, second(5600)), []);
        let expired = request.step(&Finding::NotEvaluated, second(5601));
        assert_eq!(reasons(&expired), [("BookingExpired", true, "CapacityReservationTimeExpired")]);
        let consumed = request.step(&Finding::Consumed, second(5001));
        assert_eq!(reasons(&consumed), [("BookingExpired", true, "CapacityBookingConsumed")]);
        let error = RequestError::TemplateNotFound { name: "worker".into(), namespace: "team".into() };
        let failed = request.step(&Finding::Invalid(error), second(5001));
        assert_eq!(reasons(&failed), [("Failed", true, "FailedToBookCapacity")]);
    }

    #[test]
    fn each_pod_that_exists_takes_the_place_of_a_virtual_pod() {
        let request = request(Class::CheckCapacity, &[]);
        let templates = [shape(4), shape(1)];
        let names = |consumers: &[Pod]| -> Vec<String> {
            let pods = request.virtual_pods(&templates, consumers.iter(), 3).unwrap();
            assert!(pods.iter().all(|pod| pod.is_virtual()
                && request_of(pod) == Some(("team", "train"))
                && consumed_by(pod).is_none()));
            assert!(pods.iter().all(|pod| pod.is_provisionable() && pod.template.priority == i32::MIN + 3));
            pods.iter().map(Pod::key).collect()
        };
        let prefix = "team/provisioning-request-train";
        let expected = |sets: &[(usize, usize)]| -> Vec<String> {
            sets.iter().map(|(set, index)| format!("{prefix}-{set}-{index}")).collect()
        };
        assert_eq!(names(&[]), expected(&[(0, 0), (1, 0), (1, 1), (1, 2)]));
        assert_eq!(names(&[template(1)]), expected(&[(0, 0), (1, 0), (1, 1)]));
        assert_eq!(names(&[template(4), template(1)]), expected(&[(1, 0), (1, 1)]));
        assert_eq!(
            names(&[template(9)]),
            expected(&[(0, 0), (1, 0), (1, 1)]),
            "of another size, as a webhook makes it"
        );
        assert_eq!(names(&[template(1), template(1), template(1), template(1)]), expected(&[]));
        assert_eq!(names(&vec![template(1); 9]), expected(&[]));
    }

    #[test]
    fn real_pods_name_their_request_by_either_annotation() {
        for key in [labels::CONSUMES_REQUEST, labels::CONSUMES_REQUEST_DEPRECATED] {
            let pod = template(1)
                .with_template(|it| it.annotations = StringMap::from([(key.to_owned(), "train".to_owned())]));
            assert_eq!((consumed_by(&pod), request_of(&pod)), (Some("train"), None));
        }
        assert_eq!(consumed_by(&template(1)), None);
    }

    #[test]
    fn the_pods_of_a_request_can_be_kept_in_one_zone() {
        let of = |domain: &str, progress: Progress| {
            let request = request(Class::AtomicScaleUp, &[(SINGLE_TOPOLOGY, domain)]);
            let request = ProvisioningRequest { progress, ..request };
            request.virtual_pods(&[shape(4), shape(1)], std::iter::empty(), 1)
        };
        let pods = of(labels::ZONE, Progress::Launching).unwrap();
        for pod in &pods {
            let [term] = &pod.template.required_pod_affinity[..] else { panic!("{pod:?}") };
            assert_eq!(term.topology_key, labels::ZONE);
            assert!(pods.iter().all(|other| term.selector.as_ref().unwrap().matches(&other.template.labels)));
        }
        let held = of(labels::ZONE, Progress::Provisioned { since: second(5000) }).unwrap();
        assert!(held.iter().all(|pod| pod.template.required_pod_affinity.is_empty()));
        let error = of("kubernetes.io/hostname", Progress::Waiting).unwrap_err();
        assert!(error.to_string().contains("topology.kubernetes.io/zone"), "{error}");
    }

    #[test]
    fn only_existing_pods_of_the_same_size_are_not_to_come() {
        let request = request(Class::AtomicScaleUp, &[]);
        let templates = [shape(4), shape(1)];
        let to_come =
            |consumers: &[Pod], existing: &[Pod]| request.pods_to_come(&templates, consumers.iter(), existing.iter());
        assert_eq!(to_come(&[], &[]), [1, 3]);
        assert_eq!(to_come(&[], &[template(1), template(4), template(4)]), [0, 2]);
        assert_eq!(to_come(&[], &[template(2), template(0)]), [1, 3], "small pods would hide large ones from a quota");
        assert_eq!(to_come(&[template(2)], &[template(1)]), [1, 1], "capacity is held for one pod less");
    }

    #[test]
    fn a_booking_begins_no_later_than_its_nodes_can_have_been_launched() {
        const MINUTE: i64 = 60;
        let created = 1000;
        let is_held = |valid_for: Option<&str>, since: i64, minutes: i64| {
            let parameters: Vec<(&str, &str)> =
                valid_for.map(|value| (VALID_UNTIL_SECONDS, value)).into_iter().collect();
            let progress = Progress::Provisioned { since: second(since) };
            let request = ProvisioningRequest { progress, ..request(Class::AtomicScaleUp, &parameters) };
            let now = second(created + minutes * MINUTE);
            let is_booked = request.due(now) == Due::Booking;
            assert_eq!(is_booked, request.step(&Finding::Booked, now).is_empty(), "{since} {minutes}");
            is_booked
        };
        let in_2099 = 4_070_908_800;
        for (since, minutes, expected) in [
            (in_2099, 25, true),
            (in_2099, 26, false),
            // Provisioned two days after its creation.
            (created + 2880 * MINUTE, 2890, true),
            (created + 2880 * MINUTE, 2891, false),
            // The clock of the writer is half a minute ahead.
            (created + 2880 * MINUTE + 30, 2880, true),
            (created + 2880 * MINUTE + 90, 2880, false),
        ] {
            assert_eq!(is_held(None, since, minutes), expected, "{since} after {minutes} minutes");
        }
        let late = created + 30 * MINUTE;
        assert!(is_held(None, late, 36) && is_held(Some("600"), late, 35));
        assert!(!is_held(Some("600"), late, 36), "it would have failed before");
        assert!(is_held(Some("9223372036854775807"), late, 36), "no overflow");
    }

    #[test]
    fn a_request_of_too_many_pods_is_refused() {
        let mut request = request(Class::AtomicScaleUp, &[]);
        request.pod_sets[1].count = 10_000;
        let error = request.virtual_pods(&[shape(1), shape(1)], std::iter::empty(), 1).unwrap_err();
        assert!(error.to_string().contains("10001 pods"), "{error}");
    }
}
