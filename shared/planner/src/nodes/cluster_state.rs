//! The cluster and its claims combined: which claim belongs to which node, and what is done with the pods that need a node.

use crate::nodes::place::{Others, Place, may_join};
use crate::nodes::promised::promised;
use crate::pools::EvaluatedPool;
use crate::standing::{PendingPods, PodStanding};
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::DisruptionBudgetIndex;
use nodeless_model::claim::condition;
use nodeless_model::{Node, NodeClaim, Phase, Pod, hashed};
use nodeless_ports::ShiftedZone;
use nodeless_ports::cluster::{ClusterView, InvalidObject};
use nodeless_scheduling::{BoundPods, ClusterFacts, ExistingNode, ExistingNodes, Problem};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How long a registered node may be missing from the snapshot of the cluster. The next heartbeats read it again.
const BEHIND: SignedDuration = SignedDuration::from_mins(2);

pub(crate) struct ClusterState<'a> {
    pub(crate) view: &'a ClusterView,
    pub(crate) records: &'a [NodeClaim],
    pub(crate) places: Vec<Place<'a>>,
    /// The pods that are bound to Nodes which are not in the view.
    pub(crate) orphans: Vec<&'a Pod>,
    /// The nodes that other controllers launch, and that have not joined.
    others_on_the_way: Vec<&'a NodeClaim>,
    pub(crate) pending: PendingPods<'a>,
    /// The virtual pods for which nodes are launched.
    pub(crate) virtual_pods: Vec<&'a Pod>,
    /// The virtual pods, `namespace/name`, for which a command is about to launch nodes.
    pub(crate) awaited: BTreeSet<String>,
    /// Claims whose pods need another node although their termination has not begun: a command is about to drain them.
    replaced: BTreeSet<String>,
    /// The zones that are shifted away from.
    pub(crate) shifted: &'a [ShiftedZone],
}

impl<'a> ClusterState<'a> {
    pub(crate) fn new(view: &'a ClusterView, records: &'a [NodeClaim]) -> Self {
        // The map is never iterated in order, and hashing a hundred thousand names is faster than comparing them.
        let mut pods: hashed::HashMap<&str, Vec<&Pod>> = hashed::HashMap::default();
        let mut pending = PendingPods::default();
        for pod in &view.pods {
            match &pod.node_name {
                Some(node) => pods.entry(node).or_default().push(pod),
                None => pending.add(view, pod),
            }
        }
        let mut on = |node: &Node| pods.remove(node.name.as_str()).unwrap_or_default();
        let mut undecoded: BTreeMap<&str, Vec<&InvalidObject>> = BTreeMap::new();
        for object in &view.invalid {
            if let Some(node) = object.node_of_pod() {
                undecoded.entry(node).or_default().push(object);
            }
        }
        let by_instance: BTreeMap<&str, &NodeClaim> =
            records.iter().filter_map(|claim| Some((claim.status.instance.as_ref()?.id.as_str(), claim))).collect();
        // Exports may lack the instance, and nodes of other providers have no EC2 instance.
        let without_instance = WithoutInstance::new(records, view);
        let others = Others::new(view);
        let mut joined = BTreeSet::new();
        let mut places = Vec::new();
        for node in &view.nodes {
            let claim = node.instance_id().and_then(|id| by_instance.get(id).copied());
            let claim = claim.or_else(|| without_instance.of_node(node));
            joined.extend(claim.map(|claim| claim.name.as_str()));
            let undecoded = undecoded.remove(node.name.as_str()).unwrap_or_default();
            let counts_as_claim = claim.is_none() && without_instance.may_have_launched(node);
            let other = if claim.is_none() { others.of_node(node) } else { None };
            let (pods, counted) = (on(node), Vec::new());
            places.push(Place { node: Some(node), claim, other, pods, counted, undecoded, counts_as_claim });
        }
        // Claims whose node has not joined count as their future nodes, so that a plan never launches twice for the same pods. A
        // claim that lost its node cannot run pods.
        let on_the_way =
            records.iter().filter(|claim| !joined.contains(claim.name.as_str()) && claim.phase < Phase::Registered);
        places.extend(on_the_way.map(|claim| Place { claim: Some(claim), ..Place::default() }));
        let mut orphans: Vec<&Pod> = pods.into_values().flatten().collect();
        orphans.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self {
            view,
            records,
            places,
            orphans,
            others_on_the_way: others.on_the_way(view),
            pending,
            virtual_pods: Vec::new(),
            awaited: BTreeSet::new(),
            replaced: BTreeSet::new(),
            shifted: &[],
        }
    }

    /// Counts nodes that registered a moment ago and are missing from the snapshot as launching nodes. Claims are read before the
    /// cluster, so these nodes exist unless they were deleted since: the API server's answer is out of date, and pods that are bound
    /// to them still look pending.
    pub(crate) fn with_unseen(mut self, now: Timestamp) -> Self {
        let placed: BTreeSet<&str> =
            self.places.iter().filter_map(|place| place.claim).map(|claim| claim.name.as_str()).collect();
        let lately = |claim: &NodeClaim| {
            let registered = claim.condition(condition::REGISTERED).map(|it| it.last_transition_time);
            registered.is_some_and(|since| now.duration_since(since) < BEHIND)
        };
        let unseen = self.records.iter().filter(|claim| {
            (Phase::Registered..Phase::Draining).contains(&claim.phase)
                && !placed.contains(claim.name.as_str())
                && lately(claim)
        });
        let unseen: Vec<_> = unseen.map(|claim| Place { claim: Some(claim), ..Place::default() }).collect();
        self.places.extend(unseen);
        self
    }

    /// Counts the pending pods that are about to be bound on their nodes, except those that are planned with further requirements.
    pub(crate) fn hold_promised(&mut self, now: Timestamp) {
        let planned = self.pending.iter().filter(|one| one.standing == PodStanding::Planned);
        let planned: HashMap<String, &Pod> = planned.map(|one| (one.pod.key(), one.pod)).collect();
        if planned.is_empty() {
            return;
        }
        let stays = |place: &&Place<'_>| !self.moves(place) && !place.failed_to_initialize(now);
        let places: Vec<&Place<'_>> = self.places.iter().filter(stays).collect();
        let promised = promised(&places, planned, &self.view.daemon_sets, now);
        self.hold(promised);
    }

    /// Counts these pods on the nodes of these names: virtual pods hold capacity there, pending pods are about to be bound.
    pub(crate) fn hold(&mut self, pods: Vec<(String, &'a Pod)>) {
        if pods.is_empty() {
            return;
        }
        let places = self.places.iter_mut();
        let mut places: HashMap<&str, (&'a Node, &mut Place<'a>)> =
            places.filter_map(|place| place.node.map(|node| (node.name.as_str(), (node, place)))).collect();
        let mut promised = HashMap::new();
        for (name, pod) in pods {
            let Some((node, place)) = places.get_mut(name.as_str()) else { continue };
            place.counted.push(pod);
            if !pod.is_virtual() {
                promised.insert(pod.uid.as_str(), PodStanding::Promised { node: &node.name });
            }
        }
        self.pending.set(&promised);
    }

    /// All virtual pods for which capacity is kept.
    pub(crate) fn kept_virtual_pods(&self) -> Vec<&'a Pod> {
        let held = self.places.iter().flat_map(|place| &place.counted).filter(|pod| pod.is_virtual());
        self.virtual_pods.iter().chain(held).copied().collect()
    }

    /// Treats these claims as about to be drained by commands.
    pub(crate) fn with_replaced(self, replaced: BTreeSet<String>) -> Self {
        Self { replaced, ..self }
    }

    /// Sets the zones that the cluster is shifted away from.
    pub(crate) fn with_shifted(self, shifted: &'a [ShiftedZone]) -> Self {
        Self { shifted, ..self }
    }

    /// The scheduling problem: pending pods, pods that have to leave their node, and after them virtual pods. The use of a node is
    /// unknown if one of its pods could not be decoded, so no pod is placed there.
    pub(crate) fn problem(&self, evaluated: &'a [EvaluatedPool], now: Timestamp) -> Problem<'a> {
        let budget_index = DisruptionBudgetIndex::new(&self.view.disruption_budgets);
        let moving = self.places.iter().filter(|place| self.moves(place)).flat_map(|place| {
            let budget_index = &budget_index;
            // The successor of a surge is a pod of its own.
            let surged = move |pod: &Pod| place.claim.is_some_and(|claim| claim.status.replaces_pod(&pod.uid));
            let leaves =
                move |pod: &&Pod| pod.is_reschedulable() && !surged(pod) && !budget_index.holds(pod, place.claim, now);
            place.pods.iter().copied().filter(leaves)
        });
        let virtual_pods = self.virtual_pods.iter().copied();
        let virtual_pods = virtual_pods.filter(|pod| self.awaited.is_empty() || !self.awaited.contains(&pod.key()));
        self.problem_of(self.pending.planned().chain(moving).chain(virtual_pods).collect(), evaluated, now)
    }

    /// The scheduling problem of these pods.
    pub(crate) fn problem_of(&self, pods: Vec<&'a Pod>, evaluated: &'a [EvaluatedPool], now: Timestamp) -> Problem<'a> {
        let mut problem = Problem {
            pods,
            nodes: self.existing_nodes(now),
            node_pools: evaluated.iter().map(EvaluatedPool::offer).collect(),
            daemon_sets: &self.view.daemon_sets,
            facts: self.facts(),
            bound_pods: Vec::new(),
        };
        if !problem.pods.is_empty() {
            problem.bound_pods = self.bound_pods();
        }
        problem
    }

    /// The nodes on which pods may be placed, those of other controllers included.
    pub(super) fn existing_nodes(&self, now: Timestamp) -> Vec<ExistingNode> {
        let mut converted = ExistingNodes::new(&self.view.daemon_sets);
        let takes_pods = |place: &&Place<'_>| {
            !place.failed_to_initialize(now) && place.undecoded.is_empty() && !place.counts_as_claim
        };
        let places = self.places.iter().filter(takes_pods);
        let mut nodes: Vec<_> = places.filter_map(|place| place.existing(&place.all_pods(), &mut converted)).collect();
        for claim in self.others_on_the_way.iter().copied().filter(|claim| may_join(claim, now)) {
            nodes.extend(Place { other: Some(claim), ..Place::default() }.existing(&[], &mut converted));
        }
        nodes
    }

    pub(super) fn moves(&self, place: &Place<'_>) -> bool {
        (place.is_leaving() && !place.is_of_other())
            || place.claim.is_some_and(|claim| self.replaced.contains(&claim.name))
    }

    /// The pods that run or are about to be bound, by node, for topology constraints.
    fn bound_pods(&self) -> Vec<BoundPods<'a>> {
        let nodes = self.places.iter().filter_map(|place| Some((place.node?, place.all_pods())));
        nodes.map(|(node, pods)| BoundPods::on(node, pods)).collect()
    }

    /// The volumes, namespaces and devices of the snapshot.
    pub(crate) fn facts(&self) -> ClusterFacts<'a> {
        ClusterFacts {
            volumes: &self.view.volumes,
            volume_hosts: &self.view.volume_hosts,
            volume_drivers: &self.view.volume_drivers,
            volume_limits: &self.view.volume_limits,
            namespaces: &self.view.namespaces,
            devices: &self.view.devices,
            pod_groups: &self.view.pod_groups,
            any_invalid_node_pool: self.view.invalid.iter().any(|object| object.kind == "NodePool"),
        }
    }
}

/// The claims whose records have no instance. Those that launch have one as soon as lifecycle has written it: their nodes may join before
/// that, or between the reads of the records and of the cluster.
struct WithoutInstance<'a> {
    /// By the name of the Node in the record.
    by_node: BTreeMap<&'a str, &'a NodeClaim>,
    /// By the instance in the NodeClaim object.
    by_instance: BTreeMap<&'a str, &'a NodeClaim>,
    /// When the first of those that launch for each NodePool was created.
    launching: BTreeMap<&'a str, Timestamp>,
}

impl<'a> WithoutInstance<'a> {
    fn new(records: &'a [NodeClaim], view: &'a ClusterView) -> Self {
        let all = || records.iter().filter(|claim| claim.status.instance.is_none());
        let by_name: BTreeMap<&str, &NodeClaim> = all().map(|claim| (claim.name.as_str(), claim)).collect();
        let objects = view.node_claims.iter().filter(|_| !by_name.is_empty());
        let by_instance = objects.filter_map(|object| {
            let claim =
                by_name.get(object.name.as_str()).filter(|claim| object.record_uid.as_ref() == Some(&claim.uid));
            Some((object.instance_id()?, *claim?))
        });
        let mut launching: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for claim in all().filter(|claim| claim.phase < Phase::Launched) {
            let Some(pool) = &claim.node_pool else { continue };
            let first = launching.entry(pool).or_insert(claim.created);
            *first = claim.created.min(*first);
        }
        Self {
            by_node: all().filter_map(|claim| Some((claim.status.node_name.as_deref()?, claim))).collect(),
            by_instance: by_instance.collect(),
            launching,
        }
    }

    fn of_node(&self, node: &Node) -> Option<&'a NodeClaim> {
        let by_instance = || self.by_instance.get(node.instance_id()?).copied();
        self.by_node.get(node.name.as_str()).copied().or_else(by_instance)
    }

    /// Whether a node without a claim may be that of a claim that launches, which counts already.
    fn may_have_launched(&self, node: &Node) -> bool {
        let first = node.node_pool().and_then(|pool| self.launching.get(pool));
        first.is_some_and(|first| node.created.is_none_or(|created| created.as_second() >= first.as_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::claim::NodeClaimSpec;
    use nodeless_model::object::MirroredClaim;
    use nodeless_model::test_support::{launched_instance, node_claim};
    use nodeless_model::{Quantity, ResourceList, StringMap, labels};
    use nodeless_ports::cluster::{Binding, Outline};

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A claim that launches since second 100, for pods with 2 CPUs.
    fn launching() -> NodeClaim {
        NodeClaim {
            uid: "record".into(),
            created: second(100),
            spec: NodeClaimSpec {
                requests: ResourceList::from([("cpu", Quantity::from_units(2))]),
                ..NodeClaimSpec::default()
            },
            ..node_claim("default-aaaaa")
        }
    }

    /// A node with 4 CPUs of the same NodePool, on the instance `i-NAME`.
    fn joined(name: &str, created: i64) -> Node {
        Node {
            name: name.into(),
            provider_id: Some(format!("aws:///us-east-1a/i-{name}")),
            created: Some(second(created)),
            labels: StringMap::from(
                [labels::NODE_POOL, labels::EC2_NODE_CLASS].map(|key| (key.into(), "default".into())),
            ),
            allocatable: ResourceList::from([("cpu", Quantity::from_units(4))]),
            ..Node::default()
        }
    }

    /// The name and the free CPUs of each node on which a plan places pods.
    fn free_cpus(view: &ClusterView, records: &[NodeClaim]) -> Vec<(String, i64)> {
        let problem = ClusterState::new(view, records).problem(&[], second(110));
        problem.nodes.into_iter().map(|node| (node.name, node.available.get("cpu").milli() / 1000)).collect()
    }

    #[test]
    fn a_node_that_joined_before_the_record_has_its_instance_counts_once() {
        let mut view = ClusterView { nodes: vec![joined("a", 105)], ..ClusterView::default() };
        let as_claim = [("default-aaaaa".to_owned(), 2)];
        assert_eq!(free_cpus(&view, &[launching()]), as_claim, "its claim is unknown");
        view.nodes[0].created = Some(second(99));
        assert_eq!(free_cpus(&view, &[launching()]), [("a".to_owned(), 4), as_claim[0].clone()], "it is older");
        view.nodes[0].created = Some(second(105));
        view.nodes[0].labels.insert(labels::NODE_POOL.into(), "other".into());
        assert_eq!(free_cpus(&view, &[launching()]).len(), 2, "it is of another NodePool");
        assert_eq!(free_cpus(&view, &[]), [("a".to_owned(), 4)]);
    }

    #[test]
    fn the_node_claim_object_connects_a_record_without_an_instance_with_its_node() {
        let object = MirroredClaim {
            name: "default-aaaaa".into(),
            provider_id: Some("aws:///us-east-1a/i-a".into()),
            record_uid: Some("record".into()),
            ..MirroredClaim::default()
        };
        let mut view =
            ClusterView { nodes: vec![joined("a", 105)], node_claims: vec![object], ..ClusterView::default() };
        assert_eq!(free_cpus(&view, &[launching()]), [("a".to_owned(), 4)]);
        let mut other = launching();
        (other.name, other.uid) = ("default-bbbbb".into(), "another".into());
        view.nodes.push(joined("b", 104));
        let counted = [("a".to_owned(), 4), ("default-bbbbb".to_owned(), 2)];
        assert_eq!(free_cpus(&view, &[launching(), other.clone()]), counted);
        other.phase = Phase::Launched;
        other.status.instance = Some(launched_instance("i-b"));
        let counted = [("a".to_owned(), 4), ("b".to_owned(), 4)];
        assert_eq!(free_cpus(&view, &[launching(), other]), counted);
    }

    #[test]
    fn no_pod_is_placed_on_a_node_with_a_pod_that_cannot_be_decoded() {
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let odd = |binding| InvalidObject {
            kind: "Pod".into(),
            name: "default/odd".into(),
            message: "spec.tolerations[0].operator: unknown operator".into(),
            outline: Outline { uid: String::new(), binding },
        };
        let mut view = ClusterView { nodes: vec![node("a"), node("b")], ..ClusterView::default() };
        let targets = |view: &ClusterView| -> Vec<String> {
            let problem = ClusterState::new(view, &[]).problem(&[], Timestamp::UNIX_EPOCH);
            problem.nodes.into_iter().map(|node| node.name).collect()
        };
        view.invalid = vec![odd(Binding::Unbound)];
        assert_eq!(targets(&view), ["a", "b"]);
        view.invalid = vec![odd(Binding::Node("a".into()))];
        assert_eq!(targets(&view), ["b"]);
    }
}
