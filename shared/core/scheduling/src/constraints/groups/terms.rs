//! Converts the constraints of pods to groups without duplicates.

use super::{Group, GroupId, Kind, NodeFilter, Owned};
use crate::claim_needs::{self, Shared};
use crate::problem::Problem;
use crate::problem::excess;
use nodeless_model::hashed::HashMap;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::{ByTemplate, LabelSelector, Pod, StringMap, Toleration, labels};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The properties of a pod that determine its groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms<'a> {
    namespace: &'a str,
    /// If a term refers to them by key.
    labels: Option<&'a StringMap>,
    affinity: &'a [PodAffinityTerm],
    anti: &'a [PodAffinityTerm],
    preferred: &'a [Weighted<PodAffinityTerm>],
    preferred_anti: &'a [Weighted<PodAffinityTerm>],
    spread: &'a [TopologySpread],
    /// If a spread may count only nodes that match the pod.
    node: Option<NodeTerms<'a>>,
    /// The ResourceClaims that several pods wait for.
    shared: Vec<&'a str>,
}

/// The node constraints of a pod: node selector, node affinity and tolerations.
type NodeTerms<'a> = (&'a StringMap, &'a [Vec<RequirementTerm>], &'a [Toleration]);

impl<'a> Terms<'a> {
    fn new(pod: &'a Pod, respect: bool, shared: &Shared<'a>) -> Option<Self> {
        let (preferred, preferred_anti) = if respect {
            (&pod.template.preferred_pod_affinity[..], &pod.template.preferred_pod_anti_affinity[..])
        } else {
            (&[][..], &[][..])
        };
        let terms = Self {
            namespace: &pod.namespace,
            labels: None,
            affinity: &pod.template.required_pod_affinity,
            anti: &pod.template.required_pod_anti_affinity,
            preferred,
            preferred_anti,
            spread: &pod.template.topology_spread,
            node: None,
            shared: claim_needs::shared_by(pod, shared),
        };
        terms.complete(pod)
    }

    pub(super) fn of_bound(pod: &'a Pod) -> Option<Self> {
        let terms = Self {
            namespace: &pod.namespace,
            labels: None,
            affinity: &[],
            anti: &pod.template.required_pod_anti_affinity,
            preferred: &[],
            preferred_anti: &[],
            spread: &[],
            node: None,
            shared: Vec::new(),
        };
        terms.complete(pod)
    }

    fn complete(mut self, pod: &'a Pod) -> Option<Self> {
        let mut near = self.near();
        let by_key = near.any(|term| !term.match_label_keys.is_empty() || !term.mismatch_label_keys.is_empty())
            || self.spread.iter().any(|spread| !spread.match_label_keys.is_empty());
        drop(near);
        if self.near().next().is_none() && self.spread.is_empty() && self.shared.is_empty() {
            return None;
        }
        self.labels = by_key.then_some(&pod.template.labels);
        self.node = (!self.spread.is_empty()).then_some((
            &pod.template.node_selector,
            &pod.template.required_node_affinity[..],
            &pod.template.tolerations[..],
        ));
        Some(self)
    }

    fn near(&self) -> impl Iterator<Item = &'a PodAffinityTerm> + use<'a> {
        let preferred = self.preferred.iter().chain(self.preferred_anti).map(|weighted| &weighted.preference);
        self.affinity.iter().chain(self.anti).chain(preferred)
    }

    /// The groups of these constraints, as places in the table.
    pub(super) fn owned(&self, respect: bool, table: &mut Table<'a>) -> Owned {
        let mut owned = Owned::default();
        owned.required.extend(self.affinity.iter().map(|term| table.near(Kind::Affinity, self, term)));
        owned.required.extend(self.anti.iter().map(|term| table.near(Kind::Anti, self, term)));
        owned.required.extend(self.shared.iter().map(|claim| table.place(self.claim_group(claim))));
        owned.affinity.extend(heaviest(self.preferred).map(|term| table.near(Kind::Affinity, self, term)));
        owned.anti.extend(heaviest(self.preferred_anti).map(|term| table.near(Kind::Anti, self, term)));
        for spread in self.spread {
            if spread.hard {
                owned.required.push(table.place(self.spread_group(spread)));
            } else if respect {
                owned.spread.push(table.place(self.spread_group(spread)));
            }
        }
        owned
    }

    fn near_group(&self, kind: Kind, term: &PodAffinityTerm) -> Group {
        near_group(kind, term, self.namespace, self.labels)
    }

    /// The pods that share a claim have to be on one node, because its devices are.
    fn claim_group(&self, claim: &str) -> Group {
        Group {
            kind: Kind::Affinity,
            key: labels::HOSTNAME.to_owned(),
            namespaces: BTreeSet::from([self.namespace.to_owned()]),
            namespace_selector: None,
            selector: None,
            filter: NodeFilter::default(),
            claim: Some(claim.to_owned()),
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
            selector: selector(spread.selector.as_ref(), self.labels, &spread.match_label_keys, &[]),
            filter,
            claim: None,
        }
    }
}

/// The group of an affinity term of a pod in this namespace with these labels.
pub(super) fn near_group(kind: Kind, term: &PodAffinityTerm, namespace: &str, labels: Option<&StringMap>) -> Group {
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    if in_own_namespace(term) {
        namespaces.insert(namespace.to_owned());
    }
    Group {
        kind,
        key: labels::normalize(&term.topology_key).to_owned(),
        namespaces,
        namespace_selector: term.namespace_selector.clone(),
        selector: selector(term.selector.as_ref(), labels, &term.match_label_keys, &term.mismatch_label_keys),
        filter: NodeFilter::default(),
        claim: None,
    }
}

/// The selector with the conditions that follow from the pod's own labels.
fn selector(
    base: Option<&LabelSelector>,
    labels: Option<&StringMap>,
    same: &[String],
    other: &[String],
) -> Option<LabelSelector> {
    let mut selector = base?.clone();
    let own = |key: &String| labels?.get(key);
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

/// The terms, the heaviest first.
fn heaviest(list: &[Weighted<PodAffinityTerm>]) -> impl Iterator<Item = &PodAffinityTerm> {
    let mut sorted: Vec<&Weighted<PodAffinityTerm>> = list.iter().collect();
    sorted.sort_by_key(|weighted| Reverse(weighted.weight));
    sorted.into_iter().map(|weighted| &weighted.preference)
}

/// The groups without duplicates.
#[derive(Default)]
pub(super) struct Table<'a> {
    /// By group, its place in the order in which they are found.
    places: HashMap<Group, usize>,
    /// The places of affinity terms that were seen before, so that each becomes a group once.
    near: HashMap<NearKey<'a>, usize>,
}

/// The input of the group of an affinity term: the term, the namespace where the term names none, and the pod's labels where the
/// term refers to them by key.
type NearKey<'a> = (Kind, &'a PodAffinityTerm, Option<&'a str>, Option<&'a StringMap>);

impl<'a> Table<'a> {
    fn near(&mut self, kind: Kind, of: &Terms<'a>, term: &'a PodAffinityTerm) -> usize {
        let by_key = !term.match_label_keys.is_empty() || !term.mismatch_label_keys.is_empty();
        let key = (kind, term, in_own_namespace(term).then_some(of.namespace), of.labels.filter(|_| by_key));
        if let Some(known) = self.near.get(&key) {
            return *known;
        }
        let place = self.place(of.near_group(kind, term));
        self.near.insert(key, place);
        place
    }

    fn place(&mut self, group: Group) -> usize {
        let next = self.places.len();
        *self.places.entry(group).or_insert(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The groups in their order, and by place in this table the place there.
    pub(super) fn sorted(self) -> (Vec<Group>, Vec<GroupId>) {
        let mut ordered: Vec<(Group, usize)> = self.places.into_iter().collect();
        ordered.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut ids = vec![0; ordered.len()];
        ordered.iter().enumerate().for_each(|(id, (_, place))| ids[*place] = id);
        (ordered.into_iter().map(|(group, _)| group).collect(), ids)
    }
}

/// The sets of groups that pending pods own, without duplicates, and the set of each pod.
pub(super) fn pending<'a>(
    problem: &Problem<'a>,
    respect: bool,
    table: &mut Table<'a>,
) -> (Vec<Owned>, Vec<Option<usize>>) {
    let mut specs: HashMap<Terms<'a>, usize> = HashMap::default();
    let mut found: Vec<Owned> = Vec::new();
    let mut known: ByTemplate<'a, Option<usize>> = ByTemplate::default();
    let shared = claim_needs::shared(problem);
    let mut spec = |pod: &'a Pod| {
        // Pods with too many constraints are not placed.
        let terms = Terms::new(pod, respect, &shared).filter(|_| excess::excess(pod).is_none())?;
        Some(*specs.entry(terms).or_insert_with_key(|terms| {
            found.push(terms.owned(respect, table));
            found.len() - 1
        }))
    };
    let spec_of = problem.pods.iter().map(|pod| known.get_or_insert_with(pod, || spec(pod))).collect();
    (found, spec_of)
}

/// The sets of anti-affinity groups of running pods and of those of DaemonSets, each once for every template.
pub(super) fn bound<'a>(problem: &Problem<'a>, table: &mut Table<'a>) -> Vec<(&'a Pod, Terms<'a>, Owned)> {
    let mut known: ByTemplate<'a, ()> = ByTemplate::default();
    let mut found = Vec::new();
    let running = problem.bound_pods.iter().flat_map(|node| &node.pods).copied();
    let of_daemon_sets = problem.daemon_sets.iter().map(|set| &set.template);
    for pod in running
        .chain(of_daemon_sets)
        .filter(|pod| !pod.template.required_pod_anti_affinity.is_empty() && pod.is_active())
    {
        if known.insert(pod, ()).is_none()
            && let Some(terms) = Terms::of_bound(pod)
        {
            let owned = terms.owned(false, table);
            found.push((pod, terms, owned));
        }
    }
    found
}

fn in_own_namespace(term: &PodAffinityTerm) -> bool {
    term.namespaces.is_empty() && term.namespace_selector.is_none()
}
