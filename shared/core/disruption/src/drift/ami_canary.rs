//! Drift to a new AMI begins with one node of a NodePool: the annotation `nodeless.sh/ami-canary`.
//!
//! The state is computed from the nodes that use the new AMI, whatever they were launched for: how long they have been running,
//! and whether they and their pods are healthy. So there is no record, and each decision computes it again.

use crate::candidates::{Eligible, initialized_since};
use crate::cluster::{Cluster, ClusterNode};
use crate::drift::detection::selected_image;
use crate::pods::{Workload, workload};
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, DriftReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::events::ami_canary_failed;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{DisruptionReason, Node, Pod, Setting};
use nodeless_scheduling::PoolOffer;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The time after which a pod or node that is not ready counts as failing.
const MAY_TAKE: SignedDuration = SignedDuration::from_mins(5);

/// The first nodes with each new AMI.
#[derive(Debug, Default)]
pub(crate) struct Canaries {
    /// By NodePool and AMI; only for nodes that drifted because of their AMI.
    states: BTreeMap<(String, String), State>,
    /// The AMI that would replace that of a claim, by claim, if it has to wait for one.
    images: BTreeMap<String, (String, String)>,
}

/// The progress of the replacement by an AMI.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// No node uses the AMI: one may be replaced.
    First,
    /// The annotation is invalid.
    Invalid(String),
    /// The first node is being launched.
    Launching(String),
    /// The first node has not been running for long enough.
    Running { node: String, until: Timestamp },
    /// A node with the AMI, or one of its pods, fails.
    Failed(String),
    /// All nodes may be replaced.
    Passed,
}

impl Canaries {
    /// From the nodes that drifted. `cluster` has all nodes, and the commands in progress.
    pub(crate) fn new(cluster: &Cluster<'_>, drifted: &[(&Eligible<'_, '_>, Drift)], now: Timestamp) -> Self {
        let mut canaries = Self::default();
        for (one, _) in drifted.iter().filter(|(_, drift)| drift.reason == DriftReason::AMIDrift) {
            let period = &one.offer.pool.options.ami_canary;
            let Some(image) = selected_image(one.claim, one.offer, cluster.node_classes.get(&one.claim.node_class))
            else {
                continue;
            };
            let key = (one.offer.pool.name.clone(), image);
            if !canaries.states.contains_key(&key) {
                let state = match period {
                    Setting::Unset => continue,
                    Setting::Valid(period) => state(cluster, &key.0, &key.1, *period, now),
                    Setting::Invalid(why) => State::Invalid(why.to_string()),
                };
                canaries.states.insert(key.clone(), state);
            }
            canaries.images.insert(one.claim.name.clone(), key);
        }
        canaries
    }

    /// Whether a drifted node may be replaced now, or what it waits for.
    pub(crate) fn check(&self, one: &Eligible<'_, '_>, drift: &Drift) -> Result<(), KeptReason> {
        let Some(key) = self.images.get(&one.claim.name) else { return Ok(()) };
        let (node_pool, image) = key;
        let (why, until) = match self.states.get(key) {
            None | Some(State::First | State::Passed) => return Ok(()),
            Some(State::Invalid(why)) => (why.clone(), None),
            Some(State::Launching(node)) => {
                let why = format!(
                    "it waits for {node}, the first node of NodePool {node_pool} with AMI {image}, which is not initialized yet"
                );
                (why, None)
            }
            Some(State::Running { node, until }) => {
                let why = format!(
                    "it waits for {node}, the first node of NodePool {node_pool} with AMI {image}, until {until:.0}"
                );
                (why, Some(*until))
            }
            Some(State::Failed(why)) => {
                (format!("nodes are not replaced by ones with AMI {image}, because {why}"), None)
            }
        };
        Err(KeptReason::AmiCanary { drift: drift.clone(), why, until })
    }

    /// Counts the replacement of a node: no other one may be the first.
    pub(crate) fn replaced(&mut self, one: &Eligible<'_, '_>) {
        let state = self.images.get(&one.claim.name).and_then(|key| self.states.get_mut(key));
        if let Some(state) = state.filter(|state| **state == State::First) {
            *state = State::Launching(format!("the replacement of {}", one.node.name));
        }
    }

    /// The NodePools where the replacement has stopped.
    pub(crate) fn failed(&self) -> BTreeSet<String> {
        let failed = self.states.iter().filter(|(_, state)| matches!(state, State::Failed(_)));
        failed.map(|((node_pool, _), _)| node_pool.clone()).collect()
    }

    /// The events on NodePools where the replacement has stopped.
    pub(crate) fn events(&self, offers: &[PoolOffer<'_>]) -> Vec<ObjectEvent> {
        let event = |((node_pool, image), state): (&(String, String), &State)| {
            let State::Failed(why) = state else { return None };
            let pool = offers.iter().find(|offer| offer.pool.name == *node_pool)?.pool;
            Some(ami_canary_failed(pool, image, why))
        };
        self.states.iter().filter_map(event).collect()
    }
}

fn state(cluster: &Cluster<'_>, node_pool: &str, image: &str, period: Duration, now: Timestamp) -> State {
    if let Some(why) = cluster.registration_failures.get(node_pool) {
        return State::Failed(format!("the last nodes of NodePool {node_pool} did not register ({why})"));
    }
    let uses = |node: &&ClusterNode<'_>| {
        node.claim.is_some_and(|claim| {
            let instance = claim.status.instance.as_ref();
            claim.is_of(node_pool)
                && !claim.phase.is_leaving()
                && instance.is_some_and(|instance| instance.image_id == image)
        })
    };
    let own: Vec<&ClusterNode<'_>> = cluster.nodes.iter().filter(uses).collect();
    if let Some(why) = failing(cluster, &own, now) {
        return State::Failed(why);
    }
    let initialized = own.iter().filter(|node| node.is_initialized());
    let first = initialized.filter_map(|node| Some((initialized_since(node.claim?), node.name()))).min();
    if let Some((since, node)) = first {
        let until = SignedDuration::try_from(period).ok().and_then(|period| since.checked_add(period).ok());
        let until = until.unwrap_or(Timestamp::MAX);
        return if until <= now { State::Passed } else { State::Running { node: node.to_owned(), until } };
    }
    let launched = own.iter().map(|node| node.name().to_owned()).min();
    match launched.or_else(|| being_launched(cluster, node_pool)) {
        Some(node) => State::Launching(node),
        None => State::First,
    }
}

/// A claim of a NodePool that is being launched, which uses the new AMI, or a node that a command replaces because of drift.
fn being_launched(cluster: &Cluster<'_>, node_pool: &str) -> Option<String> {
    let launching = cluster
        .nodes
        .iter()
        .filter_map(|node| node.claim)
        .filter(|claim| claim.is_of(node_pool) && !claim.phase.is_leaving() && claim.status.instance.is_none());
    let commands = cluster.under_way.iter().filter(|command| command.reason == DisruptionReason::Drifted);
    let candidates = commands.flat_map(|command| &command.candidates).filter(|one| one.node_pool == node_pool);
    let replaced = candidates.map(|candidate| format!("the replacement of {}", candidate.node)).min();
    launching.map(|claim| claim.name.clone()).min().or(replaced)
}

/// The first failure on these nodes: of the node itself, or of a pod whose workload has ready pods on other nodes.
fn failing(cluster: &Cluster<'_>, own: &[&ClusterNode<'_>], now: Timestamp) -> Option<String> {
    let mut nodes = own.iter().filter_map(|node| node.node.filter(|_| node.is_initialized()));
    if let Some(node) = nodes.find(|node| is_long_unready(node, now)) {
        return Some(format!("node {} is not ready", node.name));
    }
    let mut unready: Vec<(&Pod, &str)> =
        own.iter().flat_map(|node| node.pods.iter().map(|pod| (*pod, node.name()))).collect();
    unready.retain(|(pod, _)| is_long_unready_pod(pod, now));
    if unready.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = own.iter().map(|node| node.name()).collect();
    let others = cluster.nodes.iter().filter(|node| !names.contains(node.name())).flat_map(|node| node.pods.iter());
    let healthy: BTreeSet<Workload<'_>> =
        others.filter(|pod| pod.is_active() && pod.ready == Some(true)).map(|pod| workload(pod)).collect();
    let mut failing: Vec<(String, &str)> = unready
        .into_iter()
        .filter(|(pod, _)| healthy.contains(&workload(pod)))
        .map(|(pod, node)| (pod.key(), node))
        .collect();
    failing.sort();
    let more = failing.len().saturating_sub(1);
    let (pod, node) = failing.first()?;
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    Some(format!(
        "pod {pod} is not ready on {node}, and pods of the same workload are ready on nodes with other AMIs{more}"
    ))
}

fn is_long_unready(node: &Node, now: Timestamp) -> bool {
    let ready = node.conditions.iter().find(|condition| condition.kind == "Ready");
    ready.is_some_and(|ready| {
        ready.status != Some(true) && ready.since.is_some_and(|since| now.duration_since(since) >= MAY_TAKE)
    })
}

fn is_long_unready_pod(pod: &Pod, now: Timestamp) -> bool {
    let started = pod.start_time.is_some_and(|started| now.duration_since(started) >= MAY_TAKE);
    started && pod.is_active() && pod.ready == Some(false)
}
