//! Topology constraints as groups: which pods are counted, by which label of their nodes.
//!
//! Constraints that say the same are one group, whichever pods they come from. A pod *owns* the groups of its own
//! constraints, and a group *selects* the pods that it counts.

use crate::problem::Problem;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::{LabelSelector, Pod, StringMap, Toleration, labels};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The place of a [`Group`] in the table of all.
pub(crate) type GroupId = usize;

/// What a group allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Counts that differ by at most so much, over at least so many domains.
    Spread { max_skew: u32, min_domains: u32 },
    /// Only domains with a counted pod.
    Affinity,
    /// Only domains without one.
    Anti,
}

/// A topology constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// The label of nodes whose values are the domains.
    pub(crate) key: String,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) filter: NodeFilter,
}

/// Which nodes' domains are counted at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeFilter {
    pub(crate) node_selector: StringMap,
    pub(crate) terms: Vec<Vec<RequirementTerm>>,
    /// Only nodes whose taints these tolerate; `None` means all.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl NodeFilter {
    pub(crate) fn is_trivial(&self) -> bool {
        self.node_selector.is_empty() && self.terms.is_empty() && self.tolerations.is_none()
    }
}

/// The groups of a pod's own constraints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owned<G = GroupId> {
    pub(crate) required: Vec<G>,
    /// Preferred pod affinity, the heaviest first.
    pub(crate) affinity: Vec<G>,
    /// Preferred pod anti-affinity, the heaviest first.
    pub(crate) anti: Vec<G>,
    /// `ScheduleAnyway` spread, in its order.
    pub(crate) spread: Vec<G>,
}

impl<G> Owned<G> {
    fn map<H>(&self, change: impl Fn(&G) -> H) -> Owned<H> {
        let all = |list: &Vec<G>| list.iter().map(&change).collect();
        Owned {
            required: all(&self.required),
            affinity: all(&self.affinity),
            anti: all(&self.anti),
            spread: all(&self.spread),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &G> {
        self.required.iter().chain(&self.affinity).chain(&self.anti).chain(&self.spread)
    }
}

/// What a pod has to do with groups: places in the tables of [`Groups`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Relations {
    pub(crate) owned: usize,
    pub(crate) selected: usize,
}

/// All groups of a problem, in an order that depends on nothing but what they say.
#[derive(Debug, Default)]
pub(crate) struct Groups<'a> {
    pub(crate) list: Vec<Group>,
    /// What pods own; the first is nothing.
    pub(crate) owned: Vec<Owned>,
    /// What pods are selected by; the first is nothing.
    pub(crate) selected: Vec<Vec<GroupId>>,
    /// Of each pending pod.
    pub(crate) relations: Vec<Relations>,
    /// By a pair of label and value that their selectors ask for.
    by_label: HashMap<(String, String), Vec<GroupId>>,
    /// Those whose selectors ask for no pair.
    by_none: Vec<GroupId>,
    namespaces: BTreeMap<String, StringMap>,
    signatures: HashMap<(&'a str, &'a StringMap), usize>,
    signature_ids: HashMap<Vec<GroupId>, usize>,
    bound: HashMap<Terms<'a>, Vec<GroupId>>,
}

/// All that the groups of a pod follow from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Terms<'a> {
    namespace: &'a str,
    /// Where some term refers to them by key.
    labels: Option<&'a StringMap>,
    affinity: &'a [PodAffinityTerm],
    anti: &'a [PodAffinityTerm],
    preferred: &'a [Weighted<PodAffinityTerm>],
    preferred_anti: &'a [Weighted<PodAffinityTerm>],
    spread: &'a [TopologySpread],
    /// Where a spread may count only nodes that suit the pod.
    node: Option<NodeTerms<'a>>,
}

/// What a pod asks of nodes: node selector, node affinity and tolerations.
type NodeTerms<'a> = (&'a StringMap, &'a [Vec<RequirementTerm>], &'a [Toleration]);

impl<'a> Terms<'a> {
    fn of(pod: &'a Pod, respect: bool) -> Option<Self> {
        let (preferred, preferred_anti) = if respect {
            (&pod.preferred_pod_affinity[..], &pod.preferred_pod_anti_affinity[..])
        } else {
            (&[][..], &[][..])
        };
        let terms = Self {
            namespace: &pod.namespace,
            labels: None,
            affinity: &pod.required_pod_affinity,
            anti: &pod.required_pod_anti_affinity,
            preferred,
            preferred_anti,
            spread: &pod.topology_spread,
            node: None,
        };
        terms.complete(pod)
    }

    fn of_bound(pod: &'a Pod) -> Option<Self> {
        let terms = Self {
            namespace: &pod.namespace,
            labels: None,
            affinity: &[],
            anti: &pod.required_pod_anti_affinity,
            preferred: &[],
            preferred_anti: &[],
            spread: &[],
            node: None,
        };
        terms.complete(pod)
    }

    fn complete(mut self, pod: &'a Pod) -> Option<Self> {
        let mut near = self.near();
        let by_key = near.any(|term| !term.match_label_keys.is_empty() || !term.mismatch_label_keys.is_empty())
            || self.spread.iter().any(|spread| !spread.match_label_keys.is_empty());
        drop(near);
        if self.near().next().is_none() && self.spread.is_empty() {
            return None;
        }
        self.labels = by_key.then_some(&pod.labels);
        self.node = (!self.spread.is_empty()).then_some((
            &pod.node_selector,
            &pod.required_node_affinity[..],
            &pod.tolerations[..],
        ));
        Some(self)
    }

    fn near(&self) -> impl Iterator<Item = &'a PodAffinityTerm> + use<'a> {
        let preferred = self.preferred.iter().chain(self.preferred_anti).map(|weighted| &weighted.preference);
        self.affinity.iter().chain(self.anti).chain(preferred)
    }

    fn owned(&self, respect: bool) -> Owned<Group> {
        let near = |kind, term: &PodAffinityTerm| self.near_group(kind, term);
        let heaviest = |kind, list: &[Weighted<PodAffinityTerm>]| {
            let mut sorted: Vec<&Weighted<PodAffinityTerm>> = list.iter().collect();
            sorted.sort_by_key(|weighted| Reverse(weighted.weight));
            sorted.into_iter().map(|weighted| near(kind, &weighted.preference)).collect()
        };
        let spread =
            |hard| self.spread.iter().filter(move |spread| spread.hard == hard).map(|one| self.spread_group(one));
        let affinity = self.affinity.iter().map(|term| near(Kind::Affinity, term));
        let anti = self.anti.iter().map(|term| near(Kind::Anti, term));
        Owned {
            required: affinity.chain(anti).chain(spread(true)).collect(),
            affinity: heaviest(Kind::Affinity, self.preferred),
            anti: heaviest(Kind::Anti, self.preferred_anti),
            spread: if respect { spread(false).collect() } else { Vec::new() },
        }
    }

    fn near_group(&self, kind: Kind, term: &PodAffinityTerm) -> Group {
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
        if own {
            namespaces.insert(self.namespace.to_owned());
        }
        Group {
            kind,
            key: labels::normalize(&term.topology_key).to_owned(),
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            selector: self.selector(term.selector.as_ref(), &term.match_label_keys, &term.mismatch_label_keys),
            filter: NodeFilter::default(),
        }
    }

    fn spread_group(&self, spread: &TopologySpread) -> Group {
        let mut filter = NodeFilter::default();
        if let Some((selector, terms, tolerations)) = self.node {
            if spread.honor_node_affinity {
                filter.node_selector = selector.clone();
                filter.terms = terms.to_vec();
            }
            filter.tolerations = spread.honor_node_taints.then(|| tolerations.to_vec());
        }
        let at_least_one = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
        Group {
            kind: Kind::Spread {
                max_skew: at_least_one(spread.max_skew),
                min_domains: at_least_one(spread.min_domains.unwrap_or(1)),
            },
            key: labels::normalize(&spread.topology_key).to_owned(),
            namespaces: BTreeSet::from([self.namespace.to_owned()]),
            namespace_selector: None,
            selector: self.selector(spread.selector.as_ref(), &spread.match_label_keys, &[]),
            filter,
        }
    }

    /// The selector with the conditions that follow from the pod's own labels.
    fn selector(&self, base: Option<&LabelSelector>, same: &[String], other: &[String]) -> Option<LabelSelector> {
        let mut selector = base?.clone();
        let own = |key: &String| self.labels?.get(key);
        for (key, operator) in
            same.iter().map(|key| (key, LabelOperator::In)).chain(other.iter().map(|key| (key, LabelOperator::NotIn)))
        {
            if let Some(value) = own(key) {
                let expression = LabelExpression { key: key.clone(), operator, values: vec![value.clone()] };
                // From Kubernetes 1.34 on the API server has added it already.
                if !selector.match_expressions.contains(&expression) {
                    selector.match_expressions.push(expression);
                }
            }
        }
        Some(selector)
    }
}

impl<'a> Groups<'a> {
    /// Finds the groups of all pending pods, and those of the required anti-affinity of pods that run.
    pub(crate) fn of(problem: &Problem<'a>, respect_preferences: bool) -> Self {
        let mut specs: HashMap<Terms<'a>, usize> = HashMap::new();
        let mut found: Vec<Owned<Group>> = Vec::new();
        let mut spec_of: Vec<Option<usize>> = vec![None; problem.pods.len()];
        for (place, pod) in spec_of.iter_mut().zip(&problem.pods) {
            if let Some(terms) = Terms::of(pod, respect_preferences) {
                *place = Some(*specs.entry(terms).or_insert_with_key(|terms| {
                    found.push(terms.owned(respect_preferences));
                    found.len() - 1
                }));
            }
        }
        let mut bound: HashMap<Terms<'a>, Owned<Group>> = HashMap::new();
        for pod in problem.bound_pods.iter().flat_map(|node| &node.pods).filter(|pod| pod.is_active()) {
            if let Some(terms) = Terms::of_bound(pod) {
                bound.entry(terms).or_insert_with_key(|terms| terms.owned(false));
            }
        }
        let all: BTreeSet<&Group> = found.iter().chain(bound.values()).flat_map(Owned::iter).collect();
        let mut groups = Self { owned: vec![Owned::default()], selected: vec![Vec::new()], ..Self::default() };
        groups.relations = vec![Relations::default(); problem.pods.len()];
        if all.is_empty() {
            return groups;
        }
        let ids: BTreeMap<&Group, GroupId> = all.iter().enumerate().map(|(id, group)| (*group, id)).collect();
        let id = |group: &Group| ids.get(group).copied().unwrap_or_default();
        groups.list = all.iter().map(|group| (*group).clone()).collect();
        let owned: Vec<Owned> = found.iter().map(|owned| owned.map(id)).collect();
        groups.bound = bound.iter().map(|(terms, owned)| (terms.clone(), owned.map(id).required)).collect();
        groups.namespaces.clone_from(&problem.namespaces);
        groups.index();
        let different: BTreeSet<&Owned> = owned.iter().collect();
        groups.owned.extend(different.iter().map(|owned| (*owned).clone()));
        let places: BTreeMap<&Owned, usize> =
            different.iter().enumerate().map(|(place, owned)| (*owned, place + 1)).collect();
        for (index, pod) in problem.pods.iter().enumerate() {
            groups.relations[index] = Relations {
                owned: spec_of[index].and_then(|spec| places.get(&owned[spec]).copied()).unwrap_or_default(),
                selected: groups.signature(pod),
            };
        }
        groups.sort_signatures();
        groups
    }

    fn index(&mut self) {
        for (id, group) in self.list.iter().enumerate() {
            let Some(selector) = &group.selector else { continue };
            match selector.match_labels.iter().next() {
                Some((key, value)) => self.by_label.entry((key.clone(), value.clone())).or_default().push(id),
                None => self.by_none.push(id),
            }
        }
    }

    /// Makes the numbers of signatures depend on nothing but what they are.
    fn sort_signatures(&mut self) {
        let mut order: Vec<usize> = (0..self.selected.len()).collect();
        order.sort_by(|a, b| self.selected[*a].cmp(&self.selected[*b]));
        let mut renumbered = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            renumbered[*old] = new;
        }
        self.selected.sort();
        for relations in &mut self.relations {
            relations.selected = renumbered[relations.selected];
        }
        self.signatures.values_mut().chain(self.signature_ids.values_mut()).for_each(|id| *id = renumbered[*id]);
    }

    /// Which groups select a pod, as a place in `selected`.
    pub(crate) fn signature(&mut self, pod: &'a Pod) -> usize {
        if let Some(known) = self.signatures.get(&(pod.namespace.as_str(), &pod.labels)) {
            return *known;
        }
        let mut selecting: Vec<GroupId> = Vec::new();
        for (key, value) in &pod.labels {
            if let Some(groups) = self.by_label.get(&(key.clone(), value.clone())) {
                selecting.extend(groups.iter().filter(|id| self.selects(**id, pod)));
            }
        }
        selecting.extend(self.by_none.iter().filter(|id| self.selects(**id, pod)));
        selecting.sort_unstable();
        let id = match self.signature_ids.get(&selecting) {
            Some(id) => *id,
            None if selecting.is_empty() => 0,
            None => {
                self.selected.push(selecting.clone());
                self.signature_ids.insert(selecting, self.selected.len() - 1);
                self.selected.len() - 1
            }
        };
        self.signatures.insert((&pod.namespace, &pod.labels), id);
        id
    }

    fn selects(&self, id: GroupId, pod: &Pod) -> bool {
        let group = &self.list[id];
        group.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            && (group.namespaces.contains(&pod.namespace) || self.namespace_matches(group, &pod.namespace))
    }

    fn namespace_matches(&self, group: &Group, namespace: &str) -> bool {
        let Some(selector) = &group.namespace_selector else { return false };
        match self.namespaces.get(namespace) {
            Some(labels) => selector.matches(labels),
            // The label that every namespace has.
            None => selector.matches(&StringMap::from([(NAMESPACE_NAME.to_owned(), namespace.to_owned())])),
        }
    }

    /// The anti-affinity groups that a running pod owns.
    pub(crate) fn owned_by_bound(&self, pod: &'a Pod) -> &[GroupId] {
        Terms::of_bound(pod).and_then(|terms| self.bound.get(&terms)).map_or(&[], |groups| &groups[..])
    }
}

/// The label that Kubernetes gives every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
