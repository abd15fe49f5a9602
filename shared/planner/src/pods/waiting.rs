//! Pods that stay pending although every plan places them on a node that is ready for pods: the kube-scheduler decides otherwise, so
//! they are planned again without the nodes that they did not go to. What is launched for an owner's pods in vain, whatever the cause is,
//! is counted in [`unused_launches`](super::unused_launches).

use super::expected::Expectations;
use super::unused_launches::{self, Launches, Trials, owner};
use crate::action::{Action, Batch, Stage};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::place::Place;
use crate::pods::placed::Placed;
use crate::records::report::Outcome;
use crate::snapshot::Snapshot;
use crate::standing::RestrictedPod;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::events::not_scheduled_as_planned;
use nodeless_model::object::ObjectEvent;
use nodeless_model::requirement::{Operator, RequirementTerm};
use nodeless_model::{Node, NodeClaim, Pod, PodTemplate, labels};
use nodeless_ports::cluster::ClusterView;
use nodeless_state::{RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// How long a pod may wait for a node that is ready for pods. The kube-scheduler attempts an unschedulable pod again after at most five
/// and a half minutes, even if nothing changes (`podMaxInUnschedulablePodsDuration` and its check every 30 s).
const EXPECTED_WITHIN: SignedDuration = SignedDuration::from_mins(6);
/// Younger pods are not recorded: most go to their node within seconds.
const RECORDED_FROM: SignedDuration = SignedDuration::from_mins(1);
/// The host name of no node.
const NO_HOST: &str = "";
/// At most this number of pods is recorded, so that the record stays far below the size of an item.
const MAX_RECORDED: usize = 1_000;

/// The record of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    /// The node that the last plan placed it on.
    node: String,
    /// Since when every plan has placed it on nodes that are ready for pods; `None` if the last one did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// The pod is not planned for nodes that were initialized before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
}

impl Waiting {
    /// The time since which the pod has waited, if that is too long.
    fn too_long(&self, now: Timestamp) -> Option<Timestamp> {
        self.since.filter(|since| now.duration_since(*since) >= EXPECTED_WITHIN)
    }
}

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    /// The pods that wait, by their uid.
    pods: BTreeMap<String, Waiting>,
    /// The nodes that were launched for pods and that none of these took.
    launches: Launches,
    /// The pods that workloads are about to create, or did not create.
    expected: Expectations,
}

impl Record {
    /// A record of another version is replaced.
    fn decode(stored: &StoredRecord) -> Self {
        serde_json::from_str(&stored.encoded).unwrap_or_default()
    }
}

/// The pods that wait, by their uid.
pub(crate) struct WaitingPods {
    stored: StoredRecord,
    before: Record,
    pods: BTreeMap<String, Waiting>,
    launches: Launches,
    events: Vec<ObjectEvent>,
}

impl WaitingPods {
    /// The pods that earlier plans recorded, updated for those that have waited too long. `None` if the record cannot be read.
    pub(crate) fn new(snapshot: &Snapshot, claims: &[NodeClaim]) -> Option<Self> {
        let stored = snapshot.waiting_pods.as_ref().ok()?.clone();
        let before = Record::decode(&stored);
        let launches = unused_launches::counted(&before.launches, &snapshot.view, claims, snapshot.now);
        let (mut pods, mut events) = (before.pods.clone(), Vec::new());
        if !pods.is_empty() {
            for pod in snapshot.view.pods().filter(|pod| pod.is_provisionable()) {
                let Some(waiting) = pods.get_mut(&pod.uid) else { continue };
                if let Some(since) = waiting.too_long(snapshot.now) {
                    events.push(not_scheduled_as_planned(pod, &waiting.node, since));
                    *waiting =
                        Waiting { since: None, not_before: Some(since), node: std::mem::take(&mut waiting.node) };
                }
            }
        }
        Some(Self { stored, before, pods, launches, events })
    }

    /// What earlier plans expected.
    pub(crate) const fn expectations(&self) -> &Expectations {
        &self.before.expected
    }

    /// The pods that are planned without the nodes that they did not go to, or without any node, each with that as a requirement.
    pub(crate) fn restricted(&self, view: &ClusterView, claims: &[NodeClaim], now: Timestamp) -> Vec<RestrictedPod> {
        let waits = self.pods.values().any(|waiting| waiting.not_before.is_some());
        let mut restricted = Vec::new();
        if !waits && self.launches.is_empty() {
            return restricted;
        }
        let trials = Trials::new(&self.launches, view, claims);
        let cluster_state = ClusterState::new(view, claims);
        let known = |place: &Place<'_>, at: Timestamp| place.initialized_since().is_some_and(|since| since < at);
        let host_names = |at: Timestamp| {
            let places = cluster_state.places.iter().filter(|place| known(place, at));
            places.filter_map(|place| place.node).map(host_name).collect()
        };
        let mut without_node = WithoutNode::default();
        for pod in view.pods().filter(|pod| pod.is_provisionable()) {
            let not_before = self.pods.get(&pod.uid).and_then(|waiting| waiting.not_before);
            let owner = owner(pod);
            let why = self.launches.waits_because(&owner, pod, now).or_else(|| trials.waits_because(&owner, pod));
            let left_out: Vec<String> = not_before.map(host_names).unwrap_or_default();
            if left_out.is_empty() && why.is_none() {
                continue;
            }
            let mut changed = pod.clone();
            if why.is_some() {
                changed.template = without_node.template(&pod.template);
            } else {
                require(changed.template_mut(), Operator::NotIn, left_out);
            }
            restricted.push(RestrictedPod { pod: changed, without_launch: why });
        }
        restricted
    }

    /// Records where the pods were placed, and reports on those that are planned again.
    pub(crate) async fn note(
        mut self,
        placed: &Placed<'_>,
        facts: Facts<'_>,
        executor: &dyn Execute,
        outcome: &mut Outcome,
    ) {
        let pods = self.placed(placed, facts.snapshot.now);
        let next = Record { pods, launches: self.launches, expected: placed.expectations().clone() };
        outcome.events.extend(self.events);
        let before = &self.before;
        let is_same = (&next.pods, &next.launches) == (&before.pods, &before.launches);
        if !(is_same && next.expected.lacks_only_ended(&before.expected))
            && let Ok(encoded) = serde_json::to_string(&next)
        {
            let record = StoredRecord { encoded, ..self.stored };
            let actions = vec![Action::PutRecord(RecordKind::WaitingPods, record)];
            executor.carry_out(&Batch::each(Stage::Provisioning, actions)).await;
        }
    }

    /// The pods to record, by their uid.
    fn placed(&mut self, placed: &Placed<'_>, now: Timestamp) -> BTreeMap<String, Waiting> {
        let (nodes, left) = (placed.nodes_of_pods(), placed.left_pods());
        let mut next = BTreeMap::new();
        for pod in placed.pending() {
            let known = self.pods.remove(&pod.uid);
            let after = match nodes.get(pod.uid.as_str()) {
                Some((node, true)) => planned_for(node, known, pod, now),
                _ if left.contains(pod.uid.as_str()) => known,
                // The pod waits for a node that joins, or for a launch.
                _ => known.filter(|known| known.not_before.is_some()).map(|known| Waiting { since: None, ..known }),
            };
            if let Some(after) = after.filter(|_| next.len() < MAX_RECORDED) {
                next.insert(pod.uid.clone(), after);
            }
        }
        for (pod, _) in placed.cluster_state.pending.promised() {
            if let Some(known) = self.pods.remove(&pod.uid).filter(|known| known.not_before.is_some()) {
                next.insert(pod.uid.clone(), Waiting { since: None, ..known });
            }
        }
        next
    }
}

/// The workloads of which no pods are expected for a time, by [`Pod::expectation_keys`].
pub(crate) fn not_expected(stored: &StoredRecord, now: Timestamp) -> BTreeSet<String> {
    Record::decode(stored).expected.waiting(now)
}

/// For how many owners nothing is launched because their pods took none of several launches.
pub(crate) fn owners_without_launch(restricted: &[RestrictedPod]) -> usize {
    let waiting = restricted.iter().filter(|one| one.without_launch.is_some());
    waiting.map(|one| owner(&one.pod)).collect::<BTreeSet<_>>().len()
}

/// The record of a pod that a plan places on a node that is ready for pods.
fn planned_for(node: &str, known: Option<Waiting>, pod: &Pod, now: Timestamp) -> Option<Waiting> {
    let node = node.to_owned();
    match known {
        Some(known) => Some(Waiting { since: known.since.or(Some(now)), node, ..known }),
        None => {
            let is_old = pod.created.is_some_and(|created| now.duration_since(created) >= RECORDED_FROM);
            is_old.then_some(Waiting { node, since: Some(now), not_before: None })
        }
    }
}

impl Place<'_> {
    /// Since when its node is ready for pods.
    fn initialized_since(&self) -> Option<Timestamp> {
        let node = self.node?;
        match self.claim {
            Some(claim) => Some(claim.condition(condition::INITIALIZED)?.last_transition_time),
            None => node.created,
        }
    }
}

fn host_name(node: &Node) -> String {
    node.labels.get(labels::HOSTNAME).unwrap_or(&node.name).clone()
}

/// Templates of pods for which nothing is launched.
#[derive(Default)]
struct WithoutNode {
    /// Pods share templates.
    made: HashMap<*const PodTemplate, Arc<PodTemplate>>,
}

impl WithoutNode {
    /// The template with the requirement of a host name that no node has. On a node that is being launched its pods would take the space of
    /// those that it is launched for, and one that is ready would be kept for them although they do not go there.
    fn template(&mut self, template: &Arc<PodTemplate>) -> Arc<PodTemplate> {
        let make = || {
            let mut template = template.as_ref().clone();
            // Two requirements of a label without a common value would be those of a node without the label.
            template.node_selector.remove(labels::HOSTNAME);
            let alternatives = template.required_node_affinity.iter_mut();
            alternatives.for_each(|terms| terms.retain(|term| term.key != labels::HOSTNAME));
            require(&mut template, Operator::In, vec![NO_HOST.to_owned()]);
            Arc::new(template)
        };
        self.made.entry(Arc::as_ptr(template)).or_insert_with(make).clone()
    }
}

/// Adds a requirement of the host name of nodes to each alternative.
fn require(template: &mut PodTemplate, operator: Operator, values: Vec<String>) {
    let term = RequirementTerm { key: labels::HOSTNAME.to_owned(), operator, values, min_values: None };
    if template.required_node_affinity.is_empty() {
        template.required_node_affinity.push(Vec::new());
    }
    template.required_node_affinity.iter_mut().for_each(|terms| terms.push(term.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::without_effects::{Assumed, Recorded};
    use crate::pods::expected::Expected;
    use crate::pods::placed::VirtualPods;
    use crate::stages::provisioning;
    use futures::executor::block_on;
    use nodeless_catalog::Catalog;
    use nodeless_model::{Quantity, Requirement, Requirements, ResourceList};
    use nodeless_operations::Unread;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// A node that nodeless does not manage, with capacity for one pod.
    fn node(name: &str, created: i64) -> Node {
        let allocatable = ResourceList::from([("cpu", Quantity::from_units(1)), ("pods", Quantity::from_units(1))]);
        Node { name: name.into(), allocatable, created: Some(minute(created)), ..Node::default() }
    }

    fn pod() -> Pod {
        Pod {
            namespace: "default".into(),
            name: "db-0".into(),
            uid: "uid".into(),
            created: Some(minute(0)),
            marked_unschedulable: true,
            template: PodTemplate {
                requests: ResourceList::from([("cpu", Quantity::from_units(1)), ("pods", Quantity::from_units(1))]),
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        }
    }

    fn bare() -> Snapshot {
        Snapshot::bare(minute(0), Arc::new(Catalog::embedded().unwrap()))
    }

    /// Makes a plan, and returns the reasons of the events and whether the record was written.
    fn plan(snapshot: &mut Snapshot, now: i64) -> (Vec<String>, bool) {
        snapshot.now = minute(now);
        let mut outcome = Outcome::default();
        let batches = {
            let snapshot = &*snapshot;
            let facts = Facts { snapshot, evaluated: &[], claims: &[], commands: &snapshot.commands };
            let waiting = WaitingPods::new(snapshot, &[]).unwrap();
            let restricted = waiting.restricted(&snapshot.view, &[], snapshot.now);
            let expected = Expected::default();
            let virtual_pods = VirtualPods { reserved: &[], requested: &[], expected: &expected };
            let placed = provisioning::place(facts, virtual_pods, &restricted);
            let assumed = Assumed { snapshot };
            let recorded = Recorded::new(&assumed);
            block_on(waiting.note(&placed, facts, &recorded, &mut outcome));
            recorded.kept().0
        };
        let written = batches.into_iter().flat_map(|batch| batch.actions).next();
        let reasons = outcome.events.into_iter().map(|event| event.reason).collect();
        if let Some(Action::PutRecord(RecordKind::WaitingPods, record)) = written {
            snapshot.waiting_pods = Ok(record);
            return (reasons, true);
        }
        (reasons, false)
    }

    fn waiting(snapshot: &Snapshot) -> BTreeMap<String, Waiting> {
        serde_json::from_str::<Record>(&snapshot.waiting_pods.as_ref().unwrap().encoded).unwrap().pods
    }

    #[test]
    fn a_pod_for_which_nothing_is_launched_fits_no_node() {
        let term = |key: &str, operator, value: &str| RequirementTerm {
            key: key.to_owned(),
            operator,
            values: vec![value.to_owned()],
            min_values: None,
        };
        let template = Arc::new(PodTemplate {
            node_selector: [(labels::HOSTNAME.to_owned(), "node-1".to_owned())].into_iter().collect(),
            required_node_affinity: vec![
                vec![term(labels::HOSTNAME, Operator::NotIn, "node-2"), term(labels::ZONE, Operator::In, "a")],
                vec![term(labels::HOSTNAME, Operator::In, "node-1")],
            ],
            ..PodTemplate::default()
        });
        let changed = WithoutNode::default().template(&template);
        assert!(changed.node_selector.is_empty());
        for alternative in &changed.required_node_affinity {
            let requirements = Requirements::from_terms(alternative).unwrap();
            assert_eq!(requirements.get(labels::HOSTNAME), Some(&Requirement::one_of([NO_HOST])));
        }
        let without = WithoutNode::default().template(&Arc::new(PodTemplate::default()));
        assert_eq!(without.required_node_affinity.len(), 1);
    }

    #[test]
    fn a_pod_that_does_not_go_to_its_node_is_planned_without_it() {
        let mut snapshot = bare();
        snapshot.view.nodes = vec![node("node-1", 0)];
        snapshot.view.pods = vec![pod().into()];
        let reported = vec!["NotScheduledAsPlanned".to_owned()];
        assert_eq!(plan(&mut snapshot, 0), (vec![], false), "most pods go within seconds");
        assert_eq!(plan(&mut snapshot, 1), (vec![], true));
        assert_eq!(plan(&mut snapshot, 6), (vec![], false));
        assert_eq!(plan(&mut snapshot, 7), (reported.clone(), true));
        let known = &waiting(&snapshot)["uid"];
        assert_eq!((known.since, known.not_before), (None, Some(minute(1))));
        assert_eq!(plan(&mut snapshot, 8), (vec![], false), "it is not placed there again");
        // A node that is ready later is tried, too.
        snapshot.view.nodes.push(node("node-2", 9));
        assert_eq!(plan(&mut snapshot, 10), (vec![], true));
        assert_eq!(waiting(&snapshot)["uid"].node, "node-2");
        assert_eq!(plan(&mut snapshot, 15), (vec![], false));
        assert_eq!(plan(&mut snapshot, 16), (reported, true));
        std::sync::Arc::make_mut(&mut snapshot.view.pods[0]).node_name = Some("node-2".into());
        assert_eq!(plan(&mut snapshot, 17), (vec![], true));
        assert!(waiting(&snapshot).is_empty());
        assert_eq!(plan(&mut snapshot, 18), (vec![], false));
    }

    #[test]
    fn the_time_begins_again_with_a_plan_that_places_the_pod_elsewhere() {
        let mut snapshot = bare();
        snapshot.view.nodes = vec![node("node-1", 0)];
        snapshot.view.pods = vec![pod().into()];
        assert_eq!(plan(&mut snapshot, 1), (vec![], true));
        snapshot.view.nodes[0].unschedulable = true;
        assert_eq!(plan(&mut snapshot, 4), (vec![], true));
        snapshot.view.nodes[0].unschedulable = false;
        assert_eq!(plan(&mut snapshot, 5), (vec![], true));
        assert_eq!(plan(&mut snapshot, 10), (vec![], false));
        assert!(plan(&mut snapshot, 11).1);
    }

    #[test]
    fn nothing_is_recorded_while_the_record_is_unknown() {
        let mut snapshot = bare();
        snapshot.waiting_pods = Err(Unread("no answer".to_owned()));
        assert!(WaitingPods::new(&snapshot, &[]).is_none());
    }

    #[test]
    fn a_requirement_is_added_to_every_alternative() {
        let mut pod = pod();
        let requirement = |pod: &Pod| {
            let mut template = pod.template.as_ref().clone();
            require(&mut template, Operator::NotIn, vec!["node-1".into()]);
            let terms = &template.required_node_affinity;
            terms
                .iter()
                .map(|term| term.iter().map(|one| (one.operator, one.values.clone())).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let left_out = (Operator::NotIn, vec!["node-1".to_owned()]);
        assert_eq!(requirement(&pod), [[left_out.clone()]]);
        let zone = |zone: &str| RequirementTerm {
            key: labels::ZONE.into(),
            operator: Operator::In,
            values: vec![zone.into()],
            min_values: None,
        };
        pod.template_mut().required_node_affinity = vec![vec![zone("a")], vec![zone("b")]];
        let within = |zone: &str| (Operator::In, vec![zone.to_owned()]);
        assert_eq!(requirement(&pod), [[within("a"), left_out.clone()], [within("b"), left_out]]);
    }
}
