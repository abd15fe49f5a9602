//! Classes of pods that are equal in everything that affects scheduling.

use crate::Reason;
use crate::claim_needs::{self, Need};
use crate::claims::{self, Claims};
use crate::constraints::groups::{GroupId, Kind, Owned, Relations};
use crate::constraints::{self, Alternative, AlternativeId, LevelSpec};
use crate::dense::Amounts;
use crate::local_volumes::LocalVolumes;
use crate::pools::{ClassNeeds, Daemons};
use crate::problem::excess::{self, Excess};
use crate::problem::reason::PodFault;
use crate::problem::{ClusterFacts, Options, Problem};
use crate::topology::daemon_pods::KeptOff;
use crate::topology::{Target, Topology};
use crate::volumes::{Mounts, PendingVolumes, Volume};
use nodeless_model::hashed::HashMap;
use nodeless_model::pod::{HostPort, VolumeClaim, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{ByTemplate, Pod, ResourceIndex, ResourceList, StringMap, Toleration, resources};
use std::cmp::Reverse;
use std::rc::Rc;

/// The number of constraints that are evaluated in a unit of work.
pub(crate) const CONSTRAINTS_PER_UNIT: usize = 8;

/// Pods that are equal for scheduling.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    /// A pod of the class.
    pub(crate) example: &'a Pod,
    /// The indices in the problem's pods, the oldest first.
    pub(crate) pods: Vec<usize>,
    /// The requests of one of them, with the volumes that no other pod mounts.
    pub(crate) requests: Amounts,
    /// The other volumes of one of them of which nodes attach a limited number.
    pub(crate) shared_volumes: Box<[Volume]>,
    /// Host ports of one of them.
    pub(crate) host_ports: &'a [HostPort],
    /// From the most to the least preferred. Empty if the pods are rejected.
    pub(crate) levels: Vec<Level>,
    /// Why the pods are rejected.
    pub(crate) refused: Option<Reason>,
    /// The topology groups that select them, ascending.
    pub(crate) selected: Vec<GroupId>,
    /// The groups of `selected` over the host name.
    pub(crate) selected_hosts: Vec<GroupId>,
    /// The groups of their required constraints, ascending.
    pub(crate) required: Vec<GroupId>,
    pub(crate) spread: Option<Spread>,
    /// The new nodes that the pods cannot be on because of DaemonSets, and why.
    pub(crate) kept_off: Vec<KeptOff>,
    /// The DaemonSets of these nodes.
    kept_off_daemons: Vec<Rc<Daemons>>,
}

impl Class<'_> {
    /// What the class with this index needs of an instance type.
    pub(crate) fn needs(&self, index: usize) -> ClassNeeds<'_> {
        ClassNeeds { class: index, requests: &self.requests, kept_off: &self.kept_off_daemons }
    }

    /// What its pods request and mount.
    pub(crate) fn mounts(&self) -> Mounts<'_> {
        Mounts { requests: &self.requests, shared: &self.shared_volumes }
    }
}

/// A required spread over zones, or other domains of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The number of pods on one node that it lets the kube-scheduler bind while all of them are nominated for that node: it counts the
    /// other nominated pods of the node.
    pub(crate) bound_together: u32,
    /// The number of known domains.
    pub(crate) domains: usize,
}

/// A level of preferences.
#[derive(Debug)]
pub(crate) struct Level {
    /// Equally preferred alternatives.
    pub(crate) alternatives: Vec<AlternativeId>,
    /// The topology groups of the constraints, over the host name.
    pub(crate) hosts: Vec<GroupId>,
    /// The topology groups of the constraints, over other keys.
    pub(crate) bounded: Vec<GroupId>,
    /// The keys for which pods have to be assigned to a domain: those of `bounded` and of the groups that select them.
    pub(crate) keys: Vec<usize>,
    /// The keys of `keys` that the node must have as labels: spread and affinity need the label, anti-affinity does not.
    /// Ascending.
    labels: Vec<usize>,
}

impl Level {
    /// Whether the node must have the label.
    pub(crate) fn needs_label(&self, key: usize) -> bool {
        self.labels.binary_search(&key).is_ok()
    }

    /// The number of its constraints and keys: what one evaluation of it takes work for.
    pub(crate) fn size(&self) -> usize {
        self.hosts.len() + self.bounded.len() + self.keys.len()
    }
}

impl Class<'_> {
    /// The maximum number of pods of the class on one node by their host ports.
    pub(crate) fn max_per_node(&self) -> u32 {
        if self.host_ports.is_empty() { u32::MAX } else { 1 }
    }

    /// Whether a pod of the class fits on a node with these used host ports.
    pub(crate) fn ports_free(&self, taken: &[HostPort]) -> bool {
        self.host_ports.iter().all(|port| !taken.iter().any(|other| port.conflicts_with(other)))
    }

    /// The requirements at a level; those of the last level if there are no more.
    pub(crate) fn level(&self, level: usize) -> Option<&Level> {
        self.levels.get(level).or(self.levels.last())
    }

    pub(crate) fn is_selected_by(&self, group: GroupId) -> bool {
        self.selected.binary_search(&group).is_ok()
    }

    /// Whether any topology group concerns the class.
    pub(crate) fn is_related(&self) -> bool {
        !self.selected.is_empty()
            || self.levels.first().is_some_and(|level| !level.hosts.is_empty() || !level.bounded.is_empty())
    }

    /// Whether the pending pods are tried at a level, for the first time or again: without topology constraints nothing
    /// changes between attempts.
    pub(crate) fn is_tried(&self, level: usize, first: bool) -> bool {
        !self.levels.is_empty() && ((first && level < self.levels.len()) || self.is_related())
    }

    /// The work of comparing them with one domain or node, beyond that of pods with few constraints.
    pub(crate) fn extra_work(&self, level: usize) -> usize {
        (self.selected.len() + self.level(level).map_or(0, Level::size)) / CONSTRAINTS_PER_UNIT
    }

    /// Whether all pods of the class have to share a node, at a level.
    pub(crate) fn gathers(&self, level: usize, topology: &Topology<'_>) -> bool {
        self.level(level).is_some_and(|level| level.hosts.iter().any(|group| topology.kind(*group) == Kind::Affinity))
    }
}

/// All classes in the order in which they are placed, and the alternatives that their levels refer to.
#[derive(Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) list: Vec<Class<'a>>,
    pub(crate) alternatives: Vec<Alternative>,
    /// Whether higher priorities come first.
    pub(crate) by_priority: bool,
    /// The number of constraints and alternatives of all levels.
    pub(crate) size: usize,
    pub(crate) volumes: PendingVolumes<'a>,
    ids: HashMap<Alternative, AlternativeId>,
    bound_for: HashMap<(AlternativeId, Target), Option<AlternativeId>>,
}

/// All properties that distinguish two pods. Its order breaks ties between classes of the same size.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key<'a> {
    requests: &'a ResourceList,
    priority: Reverse<i32>,
    node_selector: &'a StringMap,
    required_node_affinity: &'a [Vec<RequirementTerm>],
    preferred_node_affinity: &'a [Weighted<Vec<RequirementTerm>>],
    has_match_fields: bool,
    tolerations: &'a [Toleration],
    host_ports: &'a [HostPort],
    volumes: Option<(&'a str, &'a [VolumeClaim])>,
    claims: Vec<Need<'a>>,
    relations: Relations,
    /// The topology constraints of such a pod are in no group.
    excess: Option<(Excess, usize)>,
}

impl<'a> Key<'a> {
    fn new(pod: &'a Pod, relations: Relations, facts: &ClusterFacts<'a>) -> Self {
        let volumes = (!pod.template.volume_claims.is_empty())
            .then_some((pod.namespace.as_str(), &pod.template.volume_claims[..]));
        Self {
            requests: pod.template.next_requests(),
            priority: Reverse(pod.template.priority),
            node_selector: &pod.template.node_selector,
            required_node_affinity: &pod.template.required_node_affinity,
            preferred_node_affinity: &pod.template.preferred_node_affinity,
            has_match_fields: pod.template.has_match_fields,
            tolerations: &pod.template.tolerations,
            host_ports: &pod.template.host_ports,
            volumes,
            claims: claim_needs::needs(pod, facts),
            relations,
            excess: excess::excess(pod),
        }
    }
}

impl<'a> Classes<'a> {
    /// Groups the pods. The largest classes by cpu, then memory, come first; with `by_priority` those of higher priority
    /// before them.
    pub(crate) fn new(
        problem: &Problem<'a>,
        options: &Options,
        resources: &ResourceIndex,
        topology: &Topology<'a>,
        order: Order,
        claims: Option<&Claims>,
    ) -> Self {
        let (places, mut members) = grouped(problem, &topology.groups.relations);
        let keyed = ordered(places, order.by_priority);
        let mut classes = Self {
            list: Vec::with_capacity(keyed.len()),
            alternatives: Vec::new(),
            by_priority: order.by_priority,
            size: 0,
            volumes: PendingVolumes::new(problem, resources),
            ids: HashMap::default(),
            bound_for: HashMap::default(),
        };
        let shared = claims.map(|_| claim_needs::shared(problem)).unwrap_or_default();
        let local_volumes = LocalVolumes::new(problem);
        let owners = Owners::new(keyed.iter().map(|(key, _)| (key.relations.owned, key.priority.0)), topology);
        for (key, place) in keyed {
            let pods = oldest_first(std::mem::take(&mut members[place]), &problem.pods);
            let example = problem.pods[pods[0]];
            let owned = &topology.groups.owned[key.relations.owned];
            let specs = constraints::levels(
                example,
                problem.facts.volumes,
                options.preferences,
                order.some_taint_prefers,
                owned,
            );
            let mut requests = resources.amounts(example.template.next_requests());
            let shared_volumes = classes.volumes.request(example, &mut requests);
            let pins = match claims {
                Some(claims) if !key.claims.is_empty() => {
                    claims.request(problem, &shared, &key.claims, resources, &mut requests)
                }
                _ => Ok(Vec::new()),
            };
            let specs = pins.and_then(|pins| claims::pinned(specs?, &pins));
            let specs = match claims {
                Some(claims) if !key.claims.is_empty() => {
                    specs.map(|specs| claims.in_order(problem, &key.claims, specs))
                }
                _ => specs,
            };
            let specs = specs.and_then(|specs| local_volumes.pinned(problem, example, specs));
            let related = related(example, &key.relations, topology);
            let mut class = Class { requests, shared_volumes, pods, ..related };
            match specs {
                Ok(specs) => {
                    let free = can_come_last(&class, &specs, owned, &owners, topology);
                    let selected = if free { &[][..] } else { &class.selected[..] };
                    class.levels = classes.levels(specs, selected, topology);
                }
                Err(fault) => class.refused = Some(Reason::Pod(fault)),
            }
            classes.list.push(class);
        }
        classes
    }

    /// Leaves out pods with a fault.
    pub(crate) fn refuse(&mut self, fault: impl Fn(&Pod) -> Option<PodFault>) {
        for class in &mut self.list {
            if let Some(fault) = fault(class.example) {
                class.refused = Some(Reason::Pod(fault));
                class.levels.clear();
            }
        }
    }

    /// The levels of pods that count for these groups in every domain.
    fn levels(&mut self, specs: Vec<LevelSpec>, selected: &[GroupId], topology: &Topology<'_>) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::with_capacity(specs.len());
        let mut last: Option<Rc<[Alternative]>> = None;
        for spec in specs {
            let shared = last.as_ref().is_some_and(|last| Rc::ptr_eq(last, &spec.alternatives));
            let alternatives = match levels.last() {
                Some(level) if shared => level.alternatives.clone(),
                _ => spec.alternatives.iter().map(|one| self.id(one)).collect(),
            };
            let level = level(spec.groups, alternatives, selected, topology);
            self.size += level.size() + level.alternatives.len();
            levels.push(level);
            last = Some(spec.alternatives);
        }
        levels
    }

    /// Numbers the different alternatives, so that results are computed once for each.
    fn id(&mut self, alternative: &Alternative) -> AlternativeId {
        if let Some(id) = self.ids.get(alternative) {
            return *id;
        }
        let id = self.alternatives.len();
        self.alternatives.push(alternative.clone());
        self.ids.insert(alternative.clone(), id);
        id
    }

    /// An alternative that is restricted to these domains; `None` if it contradicts them.
    pub(crate) fn bound_for(
        &mut self,
        alternative: AlternativeId,
        target: &Target,
        topology: &Topology<'_>,
    ) -> Option<AlternativeId> {
        let key = (alternative, target.clone());
        if let Some(known) = self.bound_for.get(&key) {
            return *known;
        }
        let base = &self.alternatives[alternative];
        let place = topology.requirements(target);
        let made = base.requirements.intersects(&place).then(|| Alternative {
            requirements: base.requirements.with(&place),
            tolerations: base.tolerations.clone(),
            minds_prefer_no_schedule: base.minds_prefer_no_schedule,
        });
        let id = made.map(|made| self.id(&made));
        self.bound_for.insert(key, id);
        id
    }
}

/// The strictest of the required spreads.
fn spread(required: &[GroupId], topology: &Topology<'_>) -> Option<Spread> {
    let spreads = required.iter().filter_map(|group| match topology.kind(*group) {
        // The first domain is that of nodes without the label.
        Kind::Spread { max_skew, .. } => topology.key(*group).map(|key| Spread {
            bound_together: max_skew,
            domains: topology.domains[key].len().saturating_sub(1).max(1),
        }),
        Kind::Affinity | Kind::Anti => None,
    });
    spreads.min_by_key(|spread| spread.bound_together)
}

/// A level of pods that count for these groups in every domain.
fn level(
    groups: Vec<GroupId>,
    alternatives: Vec<AlternativeId>,
    selected: &[GroupId],
    topology: &Topology<'_>,
) -> Level {
    let (bounded, hosts): (Vec<GroupId>, Vec<GroupId>) =
        groups.into_iter().partition(|group| topology.key(*group).is_some());
    let mut keys: Vec<usize> = bounded.iter().chain(selected).filter_map(|group| topology.key(*group)).collect();
    keys.sort_unstable();
    keys.dedup();
    let needs_label = |group: &&GroupId| topology.kind(**group) != Kind::Anti;
    let mut labels: Vec<usize> = bounded.iter().filter(needs_label).filter_map(|group| topology.key(*group)).collect();
    labels.sort_unstable();
    labels.dedup();
    Level { alternatives, hosts, bounded, keys, labels }
}

/// The pods of a problem that are equal in everything that affects scheduling, the oldest of each group first.
pub(crate) fn equal_pods(problem: &Problem<'_>, relations: &[Relations]) -> Vec<Vec<usize>> {
    let (_, members) = grouped(problem, relations);
    members.into_iter().map(|pods| oldest_first(pods, &problem.pods)).collect()
}

/// The classes in the order in which they are planned.
fn ordered<'a>(places: HashMap<Key<'a>, usize>, by_priority: bool) -> Vec<(Key<'a>, usize)> {
    let size = |key: &Key<'_>, name| Reverse(key.requests.get(name));
    let rank = |key: &Key<'_>| {
        let priority = by_priority.then_some(key.priority);
        (priority, size(key, resources::name::CPU), size(key, resources::name::MEMORY))
    };
    let mut ranked: Vec<_> = places.into_iter().map(|(key, place)| (rank(&key), key, place)).collect();
    ranked.sort_unstable_by(|(a, first, _), (b, second, _)| a.cmp(b).then_with(|| first.cmp(second)));
    ranked.into_iter().map(|(_, key, place)| (key, place)).collect()
}

/// A class without pods, requests and levels, with the groups of its pods.
fn related<'a>(example: &'a Pod, relations: &Relations, topology: &Topology<'a>) -> Class<'a> {
    let selected = topology.groups.selected[relations.selected].clone();
    let mut required = topology.groups.owned[relations.owned].required.clone();
    let spread = spread(&required, topology);
    required.sort_unstable();
    let daemons = Some(&topology.daemon_pods).filter(|daemons| !daemons.is_empty());
    let kept_off = daemons.map_or_else(Vec::new, |daemons| daemons.kept_off(&selected, &required, topology));
    Class {
        example,
        requests: Amounts::default(),
        shared_volumes: Box::default(),
        host_ports: &example.template.host_ports,
        pods: Vec::new(),
        levels: Vec::new(),
        refused: None,
        selected_hosts: selected.iter().filter(|group| topology.key(**group).is_none()).copied().collect(),
        selected,
        required,
        spread,
        kept_off_daemons: kept_off.iter().map(|one| Rc::clone(&one.daemons)).collect(),
        kept_off,
    }
}

/// The pods of each key, and the keys with their places in that list.
fn grouped<'a>(problem: &Problem<'a>, relations: &[Relations]) -> (HashMap<Key<'a>, usize>, Vec<Vec<usize>>) {
    let mut places: HashMap<Key<'a>, usize> = HashMap::default();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut known: ByTemplate<'a, usize> = ByTemplate::default();
    for (index, pod) in problem.pods.iter().enumerate() {
        let mut place = || {
            *places.entry(Key::new(pod, relations[index], &problem.facts)).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            })
        };
        // Claims of running pods differ from those of pending ones.
        let is_known = pod.template.resource_claims.is_empty();
        let place = if is_known { known.get_or_insert_with(pod, place) } else { place() };
        members[place].push(index);
    }
    (places, members)
}

/// Whether pods can be scheduled after all pods that depend on them, so that they are assigned to no domain and are placed where
/// they cost least.
///
/// Pods can come last if only the spreads of other pods count them: the kube-scheduler checks `maxSkew` for the pod that it
/// schedules, by that pod's own constraints, and never again for scheduled pods. Pods of lower priority are scheduled later, so
/// their spreads need the counts as planned. Pods that restrict the label themselves have few alternatives, and are counted, so
/// that the spread is satisfied in more orders.
fn can_come_last(
    class: &Class<'_>,
    specs: &[LevelSpec],
    owned: &Owned,
    owners: &Owners,
    topology: &Topology<'_>,
) -> bool {
    let lacks = |key: usize| {
        let mut alternatives = specs.iter().flat_map(|spec| spec.alternatives.iter());
        alternatives.all(|one| one.requirements.get(&topology.keys[key]).is_none())
    };
    let only_counted = |group: &GroupId| match topology.kind(*group) {
        Kind::Spread { .. } => {
            owners.min_priority(*group).is_none_or(|least| class.example.template.priority <= least)
                && topology.key(*group).is_none_or(lacks)
        }
        Kind::Affinity => false,
        Kind::Anti => topology.key(*group).is_none(),
    };
    owned.iter().all(|group| topology.key(*group).is_none()) && class.selected.iter().all(only_counted)
}

/// The minimum priority of the pods that own a group.
struct Owners(HashMap<GroupId, i32>);

impl Owners {
    /// By what is owned and the priority of each class.
    fn new(classes: impl Iterator<Item = (usize, i32)>, topology: &Topology<'_>) -> Self {
        let mut least: HashMap<GroupId, i32> = HashMap::default();
        for (owned, priority) in classes {
            for group in topology.groups.owned[owned].iter() {
                let known = least.entry(*group).or_insert(priority);
                *known = priority.min(*known);
            }
        }
        Self(least)
    }

    fn min_priority(&self, group: GroupId) -> Option<i32> {
        self.0.get(&group).copied()
    }
}

/// The order of classes, and its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) by_priority: bool,
    /// Whether any taint that a pod could meet is `PreferNoSchedule`.
    pub(crate) some_taint_prefers: bool,
}

/// The order of the kube-scheduler's queue: creation times are whole seconds, and within one, pods have the order of their last changes,
/// which are those by the first attempts of the kube-scheduler. Sorts only if the pods are not in order already.
fn oldest_first(mut indices: Vec<usize>, pods: &[&Pod]) -> Vec<usize> {
    let age = |index: &usize| {
        let pod = pods[*index];
        (pod.created, pod.resource_version, &pod.namespace, &pod.name, &pod.uid)
    };
    if !indices.is_sorted_by(|a, b| age(a) <= age(b)) {
        indices.sort_by(|a, b| age(a).cmp(&age(b)));
    }
    indices
}
