//! The dependence of pods on where other pods run, by topology constraints.

use super::Mover;
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::{ByTemplate, Pod, StringMap, labels};
use nodeless_scheduling::BoundPods;
use std::collections::BTreeMap;

/// The required anti-affinity of all running pods. It excludes other pods, whether or not those have constraints.
#[derive(Debug, Default)]
pub(crate) struct Repelling<'a> {
    by_namespace: HashMap<&'a str, Terms<'a>>,
    /// Terms that select namespaces by their labels.
    anywhere: Terms<'a>,
}

/// Terms by a label that they require, so that not every term is compared with every pod.
#[derive(Debug, Default)]
struct Terms<'a> {
    by_label: HashMap<(&'a str, &'a str), HashSet<&'a PodAffinityTerm>>,
    /// Terms that require no label by its value.
    others: HashSet<&'a PodAffinityTerm>,
}

impl<'a> Terms<'a> {
    fn push(&mut self, term: &'a PodAffinityTerm) {
        let label = term.selector.as_ref().and_then(|selector| selector.match_labels.first_key_value());
        match label {
            Some((key, value)) => self.by_label.entry((key, value)).or_default().insert(term),
            None => self.others.insert(term),
        };
    }

    fn select(&self, pod: &Pod) -> bool {
        let selects =
            |terms: &HashSet<&PodAffinityTerm>| terms.iter().any(|term| selects_labels(term, &pod.template.labels));
        let mut labels = pod.template.labels.iter();
        selects(&self.others)
            || labels.any(|(key, value)| self.by_label.get(&(key.as_str(), value.as_str())).is_some_and(selects))
    }
}

impl<'a> Repelling<'a> {
    pub(crate) fn new(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut all = Self::default();
        let mut known: ByTemplate<'a, ()> = ByTemplate::default();
        let restricting = pods.filter(|pod| !pod.template.required_pod_anti_affinity.is_empty() && pod.is_active());
        for pod in restricting {
            if known.insert(pod, ()).is_some() {
                continue;
            }
            for term in &pod.template.required_pod_anti_affinity {
                if term.namespace_selector.is_some() {
                    all.anywhere.push(term);
                    continue;
                }
                let named = term.namespaces.iter().map(String::as_str);
                let own = term.namespaces.is_empty().then_some(pod.namespace.as_str());
                for namespace in named.chain(own) {
                    all.by_namespace.entry(namespace).or_default().push(term);
                }
            }
        }
        all
    }

    /// May be true although no constraint applies: match label keys are not evaluated.
    pub(crate) fn concern(&self, pod: &Pod) -> bool {
        let own = !pod.template.required_pod_affinity.is_empty()
            || !pod.template.required_pod_anti_affinity.is_empty()
            || pod.template.topology_spread.iter().any(|spread| spread.hard);
        let of_namespace = || self.by_namespace.get(pod.namespace.as_str());
        own || self.anywhere.select(pod) || of_namespace().is_some_and(|terms| terms.select(pod))
    }
}

fn selects_labels(term: &PodAffinityTerm, labels: &StringMap) -> bool {
    term.selector.as_ref().is_some_and(|selector| selector.matches(labels))
}

/// Everything that decides how a pod depends on others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RelationKey<'a> {
    namespace: &'a str,
    labels: &'a StringMap,
    affinity: &'a [PodAffinityTerm],
    anti: &'a [PodAffinityTerm],
    spread: &'a [TopologySpread],
    /// Whether the pod has no requirements for nodes, so that all nodes count for its spread.
    any_node: bool,
}

impl<'a> RelationKey<'a> {
    pub(super) fn new(pod: &'a Pod) -> Self {
        Self {
            namespace: &pod.namespace,
            labels: &pod.template.labels,
            affinity: &pod.template.required_pod_affinity,
            anti: &pod.template.required_pod_anti_affinity,
            spread: &pod.template.topology_spread,
            any_node: pod.template.node_selector.is_empty() && pod.template.required_node_affinity.is_empty(),
        }
    }
}

/// Whether a term selects a pod by its labels and namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selects {
    No,
    /// The labels of namespaces or match label keys decide, which only the scheduler evaluates.
    Perhaps,
    Yes,
}

fn selects(owner: &Pod, term: &PodAffinityTerm, other: &Pod) -> Selects {
    if !selects_labels(term, &other.template.labels) {
        return Selects::No;
    }
    let own = term.namespaces.is_empty() && owner.namespace == other.namespace;
    let named = own || term.namespaces.contains(&other.namespace);
    if term.namespace_selector.is_some() {
        return Selects::Perhaps;
    }
    match (named, term.match_label_keys.is_empty() && term.mismatch_label_keys.is_empty()) {
        (false, _) => Selects::No,
        (true, false) => Selects::Perhaps,
        (true, true) => Selects::Yes,
    }
}

/// Whether two pods certainly cannot share a node.
fn repel(a: &Pod, b: &Pod) -> bool {
    let one = |owner: &Pod, other: &Pod| {
        let mut terms =
            owner.template.required_pod_anti_affinity.iter().filter(|term| term.topology_key == labels::HOSTNAME);
        terms.any(|term| selects(owner, term, other) == Selects::Yes)
    };
    one(a, b) || one(b, a)
}

/// Whether the node of `other` may restrict where `pod` can move.
fn matters(pod: &Pod, other: &Pod) -> bool {
    let own = pod.template.required_pod_affinity.iter().chain(&pod.template.required_pod_anti_affinity);
    let spread = pod.template.topology_spread.iter().filter(|spread| spread.hard && pod.namespace == other.namespace);
    own.into_iter().any(|term| selects(pod, term, other) != Selects::No)
        || spread
            .into_iter()
            .any(|one| one.selector.as_ref().is_some_and(|known| known.matches(&other.template.labels)))
        || other.template.required_pod_anti_affinity.iter().any(|term| selects(other, term, pod) != Selects::No)
}

/// Running pods that are equal for all selectors.
struct Kind<'a> {
    example: &'a Pod,
    /// The relations to which they matter.
    relations: Vec<usize>,
    /// The pods and their nodes: indices in the list of bound pods.
    at: Vec<(usize, &'a Pod)>,
}

/// All running pods, by the relations of the moving pods.
#[derive(Default)]
pub(crate) struct Neighbours<'a> {
    kinds: Vec<Kind<'a>>,
    ids: HashMap<(&'a str, &'a StringMap, &'a [PodAffinityTerm]), Option<usize>>,
    by_template: ByTemplate<'a, Option<usize>>,
    /// By relation, a pod that has it.
    relations: Vec<&'a Pod>,
    relation_ids: HashMap<RelationKey<'a>, usize>,
    /// By relation, how many pods on a node certainly exclude it; computed on demand.
    blocked: Vec<Option<HashMap<usize, u32>>>,
    /// By relation, the kinds that matter to it.
    kinds_of: Vec<Vec<usize>>,
    index: Index<'a>,
    /// The packed node by the index in the list of bound pods.
    leaves: Vec<Option<usize>>,
}

/// Relations by a label, so that not each of them has to be compared with each kind.
#[derive(Default)]
struct Index<'a> {
    /// By a label that one of their selectors requires.
    selecting: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// The relations with a selector that requires no label by its value.
    selecting_any: Vec<usize>,
    /// By each label that they have.
    having: HashMap<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(relations: &[&'a Pod]) -> Self {
        let mut index = Self::default();
        for (id, pod) in relations.iter().enumerate() {
            let near = pod.template.required_pod_affinity.iter().chain(&pod.template.required_pod_anti_affinity);
            let spread = pod.template.topology_spread.iter().filter(|spread| spread.hard);
            let selectors = near.map(|term| &term.selector).chain(spread.map(|spread| &spread.selector));
            for selector in selectors.flatten() {
                match selector.match_labels.first_key_value() {
                    Some((key, value)) => index.selecting.entry((key, value)).or_default().push(id),
                    None => index.selecting_any.push(id),
                }
            }
            for (key, value) in &pod.template.labels {
                index.having.entry((key, value)).or_default().push(id);
            }
        }
        index
    }

    /// The relations that a pod may affect, ascending. `count` is the number of relations.
    fn candidates(&self, pod: &Pod, count: usize) -> Vec<usize> {
        let mut found = self.selecting_any.clone();
        for (key, value) in &pod.template.labels {
            found.extend(self.selecting.get(&(key.as_str(), value.as_str())).into_iter().flatten());
        }
        for selector in pod.template.required_pod_anti_affinity.iter().filter_map(|term| term.selector.as_ref()) {
            match selector.match_labels.first_key_value() {
                Some((key, value)) => {
                    found.extend(self.having.get(&(key.as_str(), value.as_str())).into_iter().flatten());
                }
                None => return (0..count).collect(),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl<'a> Neighbours<'a> {
    /// The relation of a pod, if others matter to it.
    pub(super) fn relation(&mut self, pod: &'a Pod) -> usize {
        *self.relation_ids.entry(RelationKey::new(pod)).or_insert_with(|| {
            self.relations.push(pod);
            self.blocked.push(None);
            self.relations.len() - 1
        })
    }

    /// Adds the running pods; `leaves` maps each node of the list to its node in the packed cluster.
    pub(super) fn add_bound(&mut self, bound: &[BoundPods<'a>], leaves: Vec<Option<usize>>) {
        self.leaves = leaves;
        if self.relations.is_empty() {
            return;
        }
        self.index = Index::new(&self.relations);
        self.kinds_of = vec![Vec::new(); self.relations.len()];
        for (place, node) in bound.iter().enumerate() {
            for pod in node.pods.iter().copied().filter(|pod| pod.is_active()) {
                if let Some(kind) = self.kind(pod) {
                    self.kinds[kind].at.push((place, pod));
                }
            }
        }
    }

    /// The kind of a pod, if it affects a relation.
    fn kind(&mut self, pod: &'a Pod) -> Option<usize> {
        if let Some(known) = self.by_template.get(pod) {
            return *known;
        }
        let kind = self.find_kind(pod);
        self.by_template.insert(pod, kind);
        kind
    }

    fn find_kind(&mut self, pod: &'a Pod) -> Option<usize> {
        let key = (pod.namespace.as_str(), &pod.template.labels, &pod.template.required_pod_anti_affinity[..]);
        let (kinds, all, index, kinds_of) = (&mut self.kinds, &self.relations, &self.index, &mut self.kinds_of);
        *self.ids.entry(key).or_insert_with(|| {
            let mut relations = index.candidates(pod, all.len());
            relations.retain(|relation| matters(all[*relation], pod));
            (!relations.is_empty()).then(|| {
                relations.iter().for_each(|relation| kinds_of[*relation].push(kinds.len()));
                kinds.push(Kind { example: pod, relations, at: Vec::new() });
                kinds.len() - 1
            })
        })
    }

    /// Moves a pod to another node; `None` removes it from all nodes.
    pub(super) fn moved(&mut self, pod: &'a Pod, to: Option<usize>) {
        if self.relations.is_empty() {
            return;
        }
        let Some(kind) = self.kind(pod) else { return };
        let at = &mut self.kinds[kind].at;
        if let Some(known) = at.iter().position(|(_, known)| std::ptr::eq(*known, pod)) {
            at.swap_remove(known);
        }
        let Some(place) = to else { return };
        at.push((place, pod));
        let Some(leaf) = self.leaves.get(place).copied().flatten() else { return };
        for &relation in &self.kinds[kind].relations {
            if let Some(blocked) = &mut self.blocked[relation]
                && repel(self.relations[relation], pod)
            {
                *blocked.entry(leaf).or_default() += 1;
            }
        }
    }

    /// The nodes whose pods certainly exclude a relation.
    pub(super) fn blocked(&mut self, relation: usize) -> &HashMap<usize, u32> {
        let (kinds, leaves, example) = (&self.kinds, &self.leaves, self.relations[relation]);
        let own = self.kinds_of.get(relation).into_iter().flatten().map(|kind| &kinds[*kind]);
        self.blocked[relation].get_or_insert_with(|| {
            let mut blocked: HashMap<usize, u32> = HashMap::default();
            for (place, _) in own.filter(|kind| repel(example, kind.example)).flat_map(|kind| &kind.at) {
                if let Some(leaf) = leaves[*place] {
                    *blocked.entry(leaf).or_default() += 1;
                }
            }
            blocked
        })
    }

    /// Whether pods on a node are known to exclude a relation. Relations that were not computed yet are not.
    pub(super) fn is_blocked(&self, relation: usize, leaf: usize) -> bool {
        self.blocked[relation].as_ref().is_some_and(|blocked| blocked.contains_key(&leaf))
    }

    /// Whether two moving pods certainly cannot share a node.
    pub(super) fn repel(a: &Pod, b: &Pod) -> bool {
        repel(a, b)
    }

    /// The nodes with only those pods that may affect some movers, and the number of these pods. Nodes without such pods are left
    /// out unless their domains count; `zones` has one node of each zone.
    pub(super) fn relevant(
        &self,
        bound: &[BoundPods<'a>],
        zones: &[usize],
        movers: &[Mover<'a>],
        relation: impl Fn(&Mover<'a>) -> Option<usize>,
    ) -> (Vec<BoundPods<'a>>, usize) {
        let mut related: Vec<usize> = movers.iter().filter_map(relation).collect();
        related.sort_unstable();
        related.dedup();
        let mut kinds: Vec<usize> = related.iter().flat_map(|one| &self.kinds_of[*one]).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut pods: BTreeMap<usize, Vec<&'a Pod>> = BTreeMap::new();
        let mut count = 0;
        for (place, pod) in kinds.iter().flat_map(|kind| &self.kinds[*kind].at) {
            pods.entry(*place).or_default().push(pod);
            count += 1;
        }
        match related.iter().map(|one| domains(self.relations[*one])).max().unwrap_or(Domains::None) {
            Domains::None => {}
            Domains::Zones => pods = with_empty(pods, zones.iter().copied()),
            Domains::All => pods = with_empty(pods, 0..bound.len()),
        }
        let node = |(place, pods): (usize, Vec<&'a Pod>)| {
            let node = &bound[place];
            BoundPods { name: node.name, labels: node.labels, taints: node.taints, pods }
        };
        (pods.into_iter().map(node).collect(), count)
    }
}

/// Adds nodes without relevant pods.
fn with_empty(mut pods: BTreeMap<usize, Vec<&Pod>>, nodes: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<&Pod>> {
    for place in nodes {
        pods.entry(place).or_default();
    }
    pods
}

/// For which nodes without relevant pods it matters that they exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domains {
    /// For none: affinity and anti-affinity are about pods.
    None,
    /// For one node in each zone.
    Zones,
    /// For all nodes.
    All,
}

fn domains(pod: &Pod) -> Domains {
    let one = |spread: &TopologySpread| match spread.topology_key.as_str() {
        // A new node could always be launched, so the host with the fewest pods counts as empty.
        labels::HOSTNAME => Domains::None,
        labels::ZONE
            if pod.template.node_selector.is_empty()
                && pod.template.required_node_affinity.is_empty()
                && !spread.honor_node_taints =>
        {
            Domains::Zones
        }
        _ => Domains::All,
    };
    pod.template.topology_spread.iter().filter(|spread| spread.hard).map(one).max().unwrap_or(Domains::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support;

    fn pod(name: &str, app: &str) -> Pod {
        test_support::labelled(test_support::pod(name, 0, 0), "app", app)
    }

    fn against(mut pod: Pod, app: &str, key: &str) -> Pod {
        pod.template_mut().required_pod_anti_affinity.push(PodAffinityTerm {
            selector: Some(test_support::selector("app", app)),
            topology_key: key.into(),
            ..PodAffinityTerm::default()
        });
        pod
    }

    #[test]
    fn anti_affinity_works_both_ways() {
        let (shy, loud) = (against(pod("shy", "shy"), "loud", labels::HOSTNAME), pod("loud", "loud"));
        assert!(repel(&shy, &loud) && repel(&loud, &shy));
        assert!(!repel(&shy, &pod("quiet", "quiet")));
        let elsewhere = Pod { namespace: "other".into(), ..loud.clone() };
        assert!(!repel(&shy, &elsewhere) && !matters(&elsewhere, &shy));
        let zonal = against(pod("shy", "shy"), "loud", labels::ZONE);
        assert!(!repel(&zonal, &loud), "they may share a zone's other nodes");
        assert!(matters(&loud, &zonal) && matters(&zonal, &loud));
        let mut keyed = shy.clone();
        keyed.template_mut().required_pod_anti_affinity[0].match_label_keys = vec!["version".into()];
        assert!(!repel(&keyed, &loud) && matters(&loud, &keyed), "only the scheduler can decide");
        let repelling = Repelling::new([&shy].into_iter());
        assert!(repelling.concern(&loud) && repelling.concern(&shy) && !repelling.concern(&elsewhere));
    }
}
