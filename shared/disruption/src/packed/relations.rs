//! Which pods have to do with where other pods are.

use super::Mover;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::{Pod, StringMap, labels};
use nodeless_scheduling::BoundPods;
use std::collections::{HashMap, HashSet};

/// The required anti-affinity of all pods that run: it keeps others away, whether those know of it or not.
#[derive(Debug, Default)]
pub(crate) struct Repelling<'a> {
    by_namespace: HashMap<&'a str, Vec<&'a PodAffinityTerm>>,
    /// Terms that select namespaces by their labels.
    anywhere: Vec<&'a PodAffinityTerm>,
}

impl<'a> Repelling<'a> {
    pub(crate) fn of(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut all = Self::default();
        for pod in pods.filter(|pod| pod.is_active()) {
            for term in &pod.required_pod_anti_affinity {
                if term.namespace_selector.is_some() {
                    push(&mut all.anywhere, term);
                    continue;
                }
                let named = term.namespaces.iter().map(String::as_str);
                let own = term.namespaces.is_empty().then_some(pod.namespace.as_str());
                for namespace in named.chain(own) {
                    push(all.by_namespace.entry(namespace).or_default(), term);
                }
            }
        }
        all
    }

    /// Whether a pod's own required topology constraints, or the anti-affinity of any other, may matter to where it goes.
    /// Rather once too often: what match keys narrow is not looked at.
    pub(crate) fn concern(&self, pod: &Pod) -> bool {
        let own = !pod.required_pod_affinity.is_empty()
            || !pod.required_pod_anti_affinity.is_empty()
            || pod.topology_spread.iter().any(|spread| spread.hard);
        let selects = |term: &&&PodAffinityTerm| selects_labels(term, &pod.labels);
        let of_namespace = || self.by_namespace.get(pod.namespace.as_str());
        own || self.anywhere.iter().any(|term| selects(&term))
            || of_namespace().is_some_and(|terms| terms.iter().any(|term| selects(&term)))
    }
}

/// Pods of one workload say the same; most often the last said it too.
fn push<'a>(terms: &mut Vec<&'a PodAffinityTerm>, term: &'a PodAffinityTerm) {
    if !terms.iter().rev().take(8).any(|known| *known == term) {
        terms.push(term);
    }
}

fn selects_labels(term: &PodAffinityTerm, labels: &StringMap) -> bool {
    term.selector.as_ref().is_some_and(|selector| selector.matches(labels))
}

/// Everything that says how a pod has to do with others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RelationKey<'a> {
    namespace: &'a str,
    labels: &'a StringMap,
    affinity: &'a [PodAffinityTerm],
    anti: &'a [PodAffinityTerm],
    spread: &'a [TopologySpread],
    /// Whether any node suits the pod, so that all of them count for its spread.
    any_node: bool,
}

impl<'a> RelationKey<'a> {
    pub(super) fn of(pod: &'a Pod) -> Self {
        Self {
            namespace: &pod.namespace,
            labels: &pod.labels,
            affinity: &pod.required_pod_affinity,
            anti: &pod.required_pod_anti_affinity,
            spread: &pod.topology_spread,
            any_node: pod.node_selector.is_empty() && pod.required_node_affinity.is_empty(),
        }
    }
}

/// What a term says about a pod of which only labels and namespace are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selects {
    No,
    /// It depends on the labels of namespaces, or on match keys: the scheduler knows.
    Perhaps,
    Yes,
}

fn selects(owner: &Pod, term: &PodAffinityTerm, other: &Pod) -> Selects {
    if !selects_labels(term, &other.labels) {
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
        let mut terms = owner.required_pod_anti_affinity.iter().filter(|term| term.topology_key == labels::HOSTNAME);
        terms.any(|term| selects(owner, term, other) == Selects::Yes)
    };
    one(a, b) || one(b, a)
}

/// Whether where `other` is may matter to where `pod` goes.
fn matters(pod: &Pod, other: &Pod) -> bool {
    let own = pod.required_pod_affinity.iter().chain(&pod.required_pod_anti_affinity);
    let spread = pod.topology_spread.iter().filter(|spread| spread.hard && pod.namespace == other.namespace);
    own.into_iter().any(|term| selects(pod, term, other) != Selects::No)
        || spread.into_iter().any(|one| one.selector.as_ref().is_some_and(|known| known.matches(&other.labels)))
        || other.required_pod_anti_affinity.iter().any(|term| selects(other, term, pod) != Selects::No)
}

/// Pods that run, alike in what others may select.
struct Kind<'a> {
    example: &'a Pod,
    /// Where they are: places in the list of bound pods.
    at: Vec<(usize, &'a Pod)>,
}

/// All pods that run, by what matters to those that move.
#[derive(Default)]
pub(crate) struct Neighbours<'a> {
    kinds: Vec<Kind<'a>>,
    ids: HashMap<(&'a str, &'a StringMap, &'a [PodAffinityTerm]), Option<usize>>,
    /// By relation, a pod that has it.
    relations: Vec<&'a Pod>,
    relation_ids: HashMap<RelationKey<'a>, usize>,
    /// By relation, how many pods on a node certainly keep it away; worked out when first asked for.
    blocked: Vec<Option<HashMap<usize, u32>>>,
    /// The node of the row by the place in the list of bound pods.
    leaves: Vec<Option<usize>>,
}

impl<'a> Neighbours<'a> {
    /// The relation of a pod, if others matter to it.
    pub(super) fn relation(&mut self, pod: &'a Pod) -> usize {
        *self.relation_ids.entry(RelationKey::of(pod)).or_insert_with(|| {
            self.relations.push(pod);
            self.blocked.push(None);
            self.relations.len() - 1
        })
    }

    /// Takes in the pods that run; `leaves` tells the node of the row for each of the list.
    pub(super) fn settle(&mut self, bound: &[BoundPods<'a>], leaves: Vec<Option<usize>>) {
        self.leaves = leaves;
        if self.relations.is_empty() {
            return;
        }
        for (place, node) in bound.iter().enumerate() {
            for pod in node.pods.iter().copied().filter(|pod| pod.is_active()) {
                if let Some(kind) = self.kind(pod) {
                    self.kinds[kind].at.push((place, pod));
                }
            }
        }
    }

    /// The kind of a pod, if it matters to any that may move.
    fn kind(&mut self, pod: &'a Pod) -> Option<usize> {
        let key = (pod.namespace.as_str(), &pod.labels, &pod.required_pod_anti_affinity[..]);
        let (kinds, relations) = (&mut self.kinds, &self.relations);
        *self.ids.entry(key).or_insert_with(|| {
            relations.iter().any(|relation| matters(relation, pod)).then(|| {
                kinds.push(Kind { example: pod, at: Vec::new() });
                kinds.len() - 1
            })
        })
    }

    /// Counts a pod on another node; `None` when it is on none any more.
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
        for (relation, blocked) in self.relations.iter().zip(&mut self.blocked) {
            if let Some(blocked) = blocked
                && repel(relation, pod)
            {
                *blocked.entry(leaf).or_default() += 1;
            }
        }
    }

    /// The nodes of the row where pods certainly keep a relation away.
    pub(super) fn blocked(&mut self, relation: usize) -> &HashMap<usize, u32> {
        let (kinds, leaves, example) = (&self.kinds, &self.leaves, self.relations[relation]);
        self.blocked[relation].get_or_insert_with(|| {
            let mut blocked: HashMap<usize, u32> = HashMap::new();
            for (place, _) in kinds.iter().filter(|kind| repel(example, kind.example)).flat_map(|kind| &kind.at) {
                if let Some(leaf) = leaves[*place] {
                    *blocked.entry(leaf).or_default() += 1;
                }
            }
            blocked
        })
    }

    /// Whether pods on a node certainly keep a relation away, as far as that was asked for before.
    pub(super) fn is_blocked(&self, relation: usize, leaf: usize) -> bool {
        self.blocked[relation].as_ref().is_some_and(|blocked| blocked.contains_key(&leaf))
    }

    /// Whether two pods that move can certainly not share a node.
    pub(super) fn repel(a: &Pod, b: &Pod) -> bool {
        repel(a, b)
    }

    /// The nodes with only those pods that may matter to some movers, and how many pods those are. Nodes without such pods
    /// are left out unless their domains count; `zone` tells the zone of each of the list.
    pub(super) fn relevant(
        &self,
        bound: &[BoundPods<'a>],
        zone: &[usize],
        movers: &[Mover<'a>],
        relation: impl Fn(&Mover<'a>) -> Option<usize>,
    ) -> (Vec<BoundPods<'a>>, usize) {
        let mut wanted: Vec<usize> = movers.iter().filter_map(relation).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut pods: HashMap<usize, Vec<&'a Pod>> = HashMap::new();
        let mut count = 0;
        let matter = |kind: &&Kind<'_>| wanted.iter().any(|one| matters(self.relations[*one], kind.example));
        for (place, pod) in self.kinds.iter().filter(matter).flat_map(|kind| &kind.at) {
            pods.entry(*place).or_default().push(pod);
            count += 1;
        }
        let domains = wanted.iter().map(|one| domains(self.relations[*one])).max().unwrap_or(Domains::None);
        let mut seen: HashSet<usize> = HashSet::new();
        let mut kept = |place: usize| match domains {
            Domains::None => false,
            Domains::Zones => seen.insert(zone[place]),
            Domains::All => true,
        };
        let node = |(place, node): (usize, &BoundPods<'a>)| {
            let pods = pods.remove(&place);
            (kept(place) || pods.is_some()).then(|| BoundPods {
                name: node.name,
                labels: node.labels,
                taints: node.taints,
                pods: pods.unwrap_or_default(),
            })
        };
        (bound.iter().enumerate().filter_map(node).collect(), count)
    }
}

/// Of which nodes without pods that matter it counts that they are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domains {
    /// Of none: affinity and anti-affinity are about pods.
    None,
    /// Of one in each zone.
    Zones,
    /// Of all.
    All,
}

fn domains(pod: &Pod) -> Domains {
    let one = |spread: &TopologySpread| match spread.topology_key.as_str() {
        // A node without pods could always be launched, so the emptiest host counts as empty in any case.
        labels::HOSTNAME => Domains::None,
        labels::ZONE
            if pod.node_selector.is_empty() && pod.required_node_affinity.is_empty() && !spread.honor_node_taints =>
        {
            Domains::Zones
        }
        _ => Domains::All,
    };
    pod.topology_spread.iter().filter(|spread| spread.hard).map(one).max().unwrap_or(Domains::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::LabelSelector;

    fn pod(name: &str, app: &str) -> Pod {
        Pod {
            namespace: "default".into(),
            name: name.into(),
            labels: StringMap::from([("app".into(), app.into())]),
            ..Pod::default()
        }
    }

    fn against(mut pod: Pod, app: &str, key: &str) -> Pod {
        pod.required_pod_anti_affinity.push(PodAffinityTerm {
            selector: Some(LabelSelector::from_labels(StringMap::from([("app".into(), app.into())]))),
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
        keyed.required_pod_anti_affinity[0].match_label_keys = vec!["version".into()];
        assert!(!repel(&keyed, &loud) && matters(&loud, &keyed), "only the scheduler knows");
        let repelling = Repelling::of([&shy].into_iter());
        assert!(repelling.concern(&loud) && repelling.concern(&shy) && !repelling.concern(&elsewhere));
    }
}
