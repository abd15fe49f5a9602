//! Topology constraints as groups: which pods are counted, by which label of their nodes.
//!
//! Equal constraints are one group, whichever pods they come from. A pod *owns* the groups of its own constraints, and
//! a group *selects* the pods that it counts.

mod terms;

use crate::problem::{ClusterFacts, Problem};
use nodeless_model::hashed::HashMap;
use nodeless_model::pod::PodAffinityTerm;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{ByTemplate, LabelSelector, Pod, StringMap, Toleration, labels};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use terms::{Table, Terms, bound, near_group, pending};

/// The index of a [`Group`] in the table of all groups.
pub(crate) type GroupId = usize;

/// The rule of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Counts that differ by at most `max_skew`, over at least `min_domains` domains.
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
    /// The ResourceClaim in the namespace that the selected pods share, instead of a selector.
    claim: Option<String>,
}

impl Group {
    /// The group of an affinity term of a pod, for what it selects.
    pub(crate) fn of_term(owner: &Pod, term: &PodAffinityTerm) -> Self {
        near_group(Kind::Affinity, term, &owner.namespace, Some(&owner.template.labels))
    }

    /// Whether the group counts a pod.
    pub(crate) fn selects(&self, facts: &ClusterFacts<'_>, pod: &Pod) -> bool {
        let is_selected = match &self.claim {
            Some(claim) => pod.template.resource_claims.iter().any(|own| own.claim.as_ref() == Some(claim)),
            None => self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.template.labels)),
        };
        is_selected && (self.namespaces.contains(&pod.namespace) || self.namespace_matches(facts, &pod.namespace))
    }

    fn namespace_matches(&self, facts: &ClusterFacts<'_>, namespace: &str) -> bool {
        let Some(selector) = &self.namespace_selector else { return false };
        match facts.namespaces.get(namespace) {
            Some(labels) => selector.matches(labels),
            // The label that every namespace has.
            None => selector.matches(&StringMap::from([(NAMESPACE_NAME.to_owned(), namespace.to_owned())])),
        }
    }
}

/// The nodes whose domains count.
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
pub(crate) struct Owned {
    pub(crate) required: Vec<GroupId>,
    /// Preferred pod affinity, the heaviest first.
    pub(crate) affinity: Vec<GroupId>,
    /// Preferred pod anti-affinity, the heaviest first.
    pub(crate) anti: Vec<GroupId>,
    /// `ScheduleAnyway` spread, in its order.
    pub(crate) spread: Vec<GroupId>,
}

impl Owned {
    fn map(&self, change: impl Fn(&GroupId) -> GroupId) -> Self {
        let all = |list: &Vec<GroupId>| list.iter().map(&change).collect();
        Self {
            required: all(&self.required),
            affinity: all(&self.affinity),
            anti: all(&self.anti),
            spread: all(&self.spread),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &GroupId> {
        self.required.iter().chain(&self.affinity).chain(&self.anti).chain(&self.spread)
    }
}

/// The groups of a pod: indices in the tables of [`Groups`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Relations {
    pub(crate) owned: usize,
    pub(crate) selected: usize,
}

/// All groups of a problem, in an order that depends only on their content.
#[derive(Debug, Default)]
pub(crate) struct Groups<'a> {
    pub(crate) list: Vec<Group>,
    /// The sets of owned groups; the first is empty.
    pub(crate) owned: Vec<Owned>,
    /// The sets of selecting groups; the first is empty.
    pub(crate) selected: Vec<Vec<GroupId>>,
    /// The relations of each pending pod.
    pub(crate) relations: Vec<Relations>,
    /// By a label and then its value that their selectors require.
    by_label: HashMap<String, HashMap<String, Vec<GroupId>>>,
    /// Groups whose selectors require no label and value.
    by_none: Vec<GroupId>,
    /// Groups of pods that share a ResourceClaim.
    by_claim: Vec<GroupId>,
    facts: ClusterFacts<'a>,
    signatures: HashMap<(&'a str, &'a StringMap), usize>,
    signature_of: ByTemplate<'a, usize>,
    signature_ids: HashMap<Vec<GroupId>, usize>,
    /// The anti-affinity groups of running pods.
    bound: HashMap<Terms<'a>, Rc<[GroupId]>>,
    bound_of: ByTemplate<'a, Rc<[GroupId]>>,
}

impl<'a> Groups<'a> {
    /// Finds the groups of all pending pods, and those of the required anti-affinity of running pods and of DaemonSets.
    pub(crate) fn new(problem: &Problem<'a>, respect_preferences: bool) -> Self {
        let mut table = Table::default();
        let (found, spec_of) = pending(problem, respect_preferences, &mut table);
        let bound = bound(problem, &mut table);
        let mut groups = Self { owned: vec![Owned::default()], selected: vec![Vec::new()], ..Self::default() };
        groups.relations = vec![Relations::default(); problem.pods.len()];
        if table.is_empty() {
            return groups;
        }
        let (list, ids) = table.sorted();
        let id = |group: &GroupId| ids[*group];
        groups.list = list;
        let owned: Vec<Owned> = found.iter().map(|owned| owned.map(id)).collect();
        for (pod, terms, owned) in bound {
            let owned: Rc<[GroupId]> = owned.required.iter().map(id).collect();
            let owned = groups.bound.entry(terms).or_insert(owned);
            groups.bound_of.insert(pod, Rc::clone(owned));
        }
        groups.facts = problem.facts;
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

    /// Whether affinity or a spread requires pods to be where other pods are.
    pub(crate) fn has_dependences(&self) -> bool {
        self.owned.iter().flat_map(|owned| &owned.required).any(|group| {
            let group = &self.list[*group];
            group.kind != Kind::Anti && group.key != labels::HOSTNAME
        })
    }

    fn index(&mut self) {
        for (id, group) in self.list.iter().enumerate() {
            if group.claim.is_some() {
                self.by_claim.push(id);
            }
            let Some(selector) = &group.selector else { continue };
            match selector.match_labels.iter().next() {
                Some((key, value)) => {
                    let of_key = self.by_label.entry(key.clone()).or_default();
                    of_key.entry(value.clone()).or_default().push(id);
                }
                None => self.by_none.push(id),
            }
        }
    }

    /// Makes the numbers of signatures depend only on their content.
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
        let known = self.signatures.values_mut().chain(self.signature_ids.values_mut());
        known.chain(self.signature_of.values_mut()).for_each(|id| *id = renumbered[*id]);
    }

    /// The groups that select a pod, as an index into `selected`.
    pub(crate) fn signature(&mut self, pod: &'a Pod) -> usize {
        if let Some(known) = self.signature_of.get(pod) {
            return *known;
        }
        let id = self.signature_of_labels(pod);
        self.signature_of.insert(pod, id);
        id
    }

    fn signature_of_labels(&mut self, pod: &'a Pod) -> usize {
        let by_claim = if pod.template.resource_claims.is_empty() { &[][..] } else { &self.by_claim[..] };
        let is_of_labels = by_claim.is_empty();
        if let Some(known) = self.signatures.get(&(pod.namespace.as_str(), &pod.template.labels))
            && is_of_labels
        {
            return *known;
        }
        let mut selecting: Vec<GroupId> = Vec::new();
        for (key, value) in &pod.template.labels {
            if let Some(groups) = self.by_label.get(key).and_then(|of_key| of_key.get(value)) {
                selecting.extend(groups.iter().filter(|id| self.selects(**id, pod)));
            }
        }
        selecting.extend(self.by_none.iter().chain(by_claim).filter(|id| self.selects(**id, pod)));
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
        if is_of_labels {
            self.signatures.insert((&pod.namespace, &pod.template.labels), id);
        }
        id
    }

    fn selects(&self, id: GroupId, pod: &Pod) -> bool {
        self.list[id].selects(&self.facts, pod)
    }

    /// The anti-affinity groups that a running pod owns.
    pub(crate) fn owned_by_bound(&self, pod: &'a Pod) -> &[GroupId] {
        if pod.template.required_pod_anti_affinity.is_empty() {
            return &[];
        }
        let known = self.bound_of.get(pod);
        known.or_else(|| self.bound.get(&Terms::of_bound(pod)?)).map_or(&[], |groups| &groups[..])
    }
}

/// The label that Kubernetes gives every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
