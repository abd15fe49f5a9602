//! ProvisioningRequests: their virtual pods in a plan, and their conditions afterwards.

use crate::action::Action;
use crate::pools::conditions::{limited_by_quotas, with_status};
use crate::standing::PodStanding;
use jiff::Timestamp;
use nodeless_api::{Condition, ConditionStatus, ProvisioningRequestStatus};
use nodeless_model::provisioning_request::{Class, Due, Finding, Verdict, consumed_by};
use nodeless_model::{Pod, PodShape, QuotaBalance, RequestError};
use nodeless_ports::cluster::{ClusterView, RequestView};
use std::collections::HashMap;
use std::time::Duration;

/// How soon requests are evaluated again.
const AGAIN: Duration = Duration::from_secs(30);
/// The same while their nodes launch.
const AGAIN_WHILE_LAUNCHING: Duration = Duration::from_secs(10);

/// A request, and its virtual pods.
pub(super) struct Requested<'a> {
    view: &'a RequestView,
    /// What this plan does with it.
    pub(super) due: Due,
    /// The pending pods that use its capacity and that the kube-scheduler has evaluated.
    pub(super) pending: Vec<&'a Pod>,
    /// How many pods that use its capacity are bound.
    bound: usize,
    /// Which of its pods do not exist yet, each shape with their number: those that count against ResourceQuotas.
    to_come: Vec<(&'a PodShape, u32)>,
    /// Why ResourceQuotas do not allow its pods, if so.
    refused: Option<String>,
    /// One virtual pod for each pod of the request that is neither bound nor, once the capacity is held for it, pending.
    pub(super) pods: Result<Vec<Pod>, RequestError>,
}

/// The pods that use the capacity of a request.
#[derive(Clone, Default)]
struct Consumers<'a> {
    bound: Vec<&'a Pod>,
    pending: Vec<&'a Pod>,
    /// Pods that the kube-scheduler has not evaluated.
    unevaluated: Vec<&'a Pod>,
}

impl Requested<'_> {
    /// Whether capacity is to be found for its pods in this way.
    pub(super) fn needs(&self, class: Class) -> bool {
        self.due == Due::Capacity(class) && self.pods.is_ok() && self.refused.is_none()
    }

    /// Its virtual pods; none if they cannot be made.
    pub(super) fn virtual_pods(&self) -> &[Pod] {
        self.pods.as_deref().unwrap_or_default()
    }

    fn is_consumed(&self) -> bool {
        u64::try_from(self.bound).is_ok_and(|bound| bound >= self.view.request.pods())
    }
}

/// All active requests, in the order of their creation. The virtual pods of older requests have a higher priority. Those of provisioned
/// requests, and then those of older ones, come first for ResourceQuotas too.
pub(super) fn requested<'a>(
    view: &'a ClusterView,
    quotas: &mut QuotaBalance<'_>,
    now: Timestamp,
) -> Vec<Requested<'a>> {
    let mut requests: Vec<&RequestView> = view.provisioning_requests.iter().collect();
    if requests.is_empty() {
        return Vec::new();
    }
    requests.sort_by_key(|one| (one.request.created, &one.request.namespace, &one.request.name));
    let mut consumers = consumers(view);
    let ranks = (1..=i32::try_from(requests.len()).unwrap_or(i32::MAX)).rev();
    let with_consumers = |(view, rank): (&'a RequestView, i32)| {
        let key = (view.request.namespace.as_str(), view.request.name.as_str());
        make_requested(view, consumers.remove(&key).unwrap_or_default(), rank, now)
    };
    let mut requested: Vec<Requested<'_>> = requests.into_iter().zip(ranks).map(with_consumers).collect();
    let mut ordered: Vec<&mut Requested<'_>> = requested.iter_mut().collect();
    ordered.sort_by_key(|one| one.due != Due::Booking);
    ordered.into_iter().for_each(|one| charge(one, quotas));
    requested
}

/// Takes what the pods of a request use of ResourceQuotas. Nothing is held or launched for a request that exceeds one.
fn charge(one: &mut Requested<'_>, quotas: &mut QuotaBalance<'_>) {
    if one.due == Due::Nothing || one.pods.is_err() {
        return;
    }
    one.refused = quotas.take(&one.view.request.namespace, &one.to_come).err();
    if one.refused.is_some() {
        one.pods = Ok(Vec::new());
    }
}

/// The pods that use the capacity of requests, by the request's namespace and name. A pending pod that the kube-scheduler has not
/// evaluated is in no plan, so it takes the place of no virtual pod.
fn consumers(view: &ClusterView) -> HashMap<(&str, &str), Consumers<'_>> {
    let mut consumers: HashMap<(&str, &str), Consumers<'_>> = HashMap::new();
    for pod in &view.pods {
        let Some(request) = consumed_by(pod) else { continue };
        let of = consumers.entry((&pod.namespace, request)).or_default();
        if pod.is_provisionable() {
            of.pending.push(pod);
        } else if pod.node_name.is_some() && pod.is_active() {
            of.bound.push(pod);
        } else if !pod.is_terminal() {
            of.unevaluated.push(pod);
        }
    }
    consumers
}

fn make_requested<'a>(view: &'a RequestView, consumers: Consumers<'a>, rank: i32, now: Timestamp) -> Requested<'a> {
    let RequestView { request, templates, .. } = view;
    let due = request.due(now);
    let Consumers { bound, pending, unevaluated } = consumers;
    let held_for: &[&Pod] = if due == Due::Booking { &pending } else { &[] };
    let pods = match templates {
        Ok(templates) => request.virtual_pods(templates, bound.iter().chain(held_for).copied(), rank),
        Err(error) => Err(error.clone()),
    };
    // ResourceQuotas count every pod that exists.
    let uncounted = pending.iter().filter(|_| due != Due::Booking).chain(&unevaluated).copied();
    let templates = templates.as_deref().unwrap_or_default();
    let consumers = bound.iter().chain(held_for).copied();
    let to_come = templates.iter().zip(request.pods_to_come(templates, consumers, uncounted)).collect();
    Requested { view, due, bound: bound.len(), pending, to_come, refused: None, pods }
}

/// The pending pods, by uid, that get no nodes of their own: nodes are provided for the request whose capacity they use.
pub(super) fn standings<'a>(requests: &[Requested<'a>]) -> HashMap<&'a str, PodStanding<'a>> {
    let mut standings = HashMap::new();
    for one in requests.iter().filter(|one| matches!(one.due, Due::Capacity(_))) {
        let standing = PodStanding::AwaitsRequest { request: &one.view.request };
        standings.extend(one.pending.iter().map(|pod| (pod.uid.as_str(), standing)));
    }
    standings
}

/// What is found for each request before anything is planned.
pub(super) fn findings(requests: &[Requested<'_>]) -> Vec<Finding> {
    let of = |one: &Requested<'_>| match (&one.pods, one.due) {
        (_, Due::Booking) if one.is_consumed() => Finding::Consumed,
        (Err(error), _) => Finding::Invalid(error.clone()),
        (Ok(_), Due::Booking) => Finding::Booked,
        (Ok(_), _) => one.refused.clone().map_or(Finding::NotEvaluated, Finding::NotFound),
    };
    requests.iter().map(of).collect()
}

/// How soon another plan is needed: nodes become ready, and pods are bound, without an event.
pub(super) fn again(requests: &[Requested<'_>], findings: &[Finding]) -> Option<Duration> {
    let launching = findings.iter().any(|finding| matches!(finding, Finding::Launching { .. }));
    let due = requests.iter().any(|one| one.due != Due::Nothing);
    due.then_some(if launching { AGAIN_WHILE_LAUNCHING } else { AGAIN })
}

/// The status of requests where it changes.
pub(super) fn statuses(requests: &[Requested<'_>], findings: &[Finding], now: Timestamp) -> Vec<Action> {
    let changed = |(one, finding): (&Requested<'_>, &Finding)| {
        let RequestView { request, status: before, .. } = one.view;
        let mut status = status(before, request.step(finding, now), now);
        if let Some(limited) = limited_by_quotas(one.refused.as_deref(), &before.conditions, now) {
            replace(&mut status, limited);
        }
        let (namespace, name) = (request.namespace.clone(), request.name.clone());
        (status != *before).then(|| Action::WriteProvisioningRequestStatus(namespace, name, Box::new(status)))
    };
    requests.iter().zip(findings).filter_map(changed).collect()
}

/// The status with these conditions. All others are kept.
fn status(before: &ProvisioningRequestStatus, verdicts: Vec<Verdict>, now: Timestamp) -> ProvisioningRequestStatus {
    let mut status = before.clone();
    for Verdict { kind, holds, reason, message } in verdicts {
        let state = if holds { ConditionStatus::True } else { ConditionStatus::False };
        replace(&mut status, with_status(kind, state, reason, message, &before.conditions, now));
    }
    status
}

/// Sets a condition, unless it states the same already.
fn replace(status: &mut ProvisioningRequestStatus, condition: Condition) {
    let found = status.conditions.iter_mut().find(|old| old.type_ == condition.type_);
    match found {
        Some(old)
            if (old.status, &old.reason, &old.message) == (condition.status, &condition.reason, &condition.message) => {
        }
        Some(old) => *old = condition,
        None => status.conditions.push(condition),
    }
}
