//! The number of pods of each group in each domain, during a plan.
//!
//! Domains of every key except the host name are counted here; the pods of a single node are counted with the node
//! ([`crate::packing::hosts`]).

pub(crate) mod daemon_pods;
pub(crate) mod dependences;
pub(crate) mod offered_domains;

use crate::constraints::groups::{GroupId, Groups, Kind, NodeFilter};
use crate::constraints::{covers, first_repelling};
use crate::pools::Pool;
use crate::problem::{BoundPods, Problem};
use daemon_pods::DaemonPods;
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::{Pod, Requirement, Requirements, Taint, labels};
use std::collections::BTreeSet;

/// A value of a topology key: an index into the table of that key's values. The first means that the label is absent.
pub(crate) type Domain = usize;

/// No such label.
pub(crate) const ABSENT: Domain = 0;

/// For each relevant key, the domain that pods are assigned to, in the order of the keys.
pub(crate) type Target = Vec<(usize, Domain)>;

/// Whether a pod with a target counts for a spread that excludes some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The pod counts on all nodes of the target.
    Counts,
    /// Whether the pod counts depends on the node.
    Perhaps,
    /// The pod counts on no node of the target.
    Not,
}

impl Standing {
    /// The conjunction of both.
    pub(crate) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Counts, Self::Counts) => Self::Counts,
            (Self::Not, Self::Not) => Self::Not,
            _ => Self::Perhaps,
        }
    }
}

/// The groups for which pods do not always count, in their order. Pods count for all other groups.
pub(crate) type Standings = Vec<(GroupId, Standing)>;

/// The groups, their domains and their counts.
#[derive(Debug)]
pub(crate) struct Topology<'a> {
    pub(crate) groups: Groups<'a>,
    /// The topology keys other than the host name.
    pub(crate) keys: Vec<String>,
    /// By key, the values.
    pub(crate) domains: Vec<Vec<String>>,
    /// By group, its key; `None` is the host name.
    key_of: Vec<Option<usize>>,
    /// By group and domain, the number of selected pods, including those that may not count.
    matching: Vec<Vec<u32>>,
    /// By group and domain, how many of them may not count.
    uncertain: Vec<Vec<u32>>,
    /// By anti-affinity group and domain, the pods that own it.
    owners: Vec<Vec<u32>>,
    /// By spread group and domain, whether a counted node exists.
    present: Vec<Vec<bool>>,
    /// By group over the host name, the number of selected pods anywhere.
    host_total: Vec<u32>,
    /// The pods of DaemonSets on new nodes.
    pub(crate) daemon_pods: DaemonPods,
    /// The number of changes of the counts of domains.
    changes: u64,
    /// By group, the revision at which one of its counts last changed.
    changed: Vec<u64>,
}

impl<'a> Topology<'a> {
    pub(crate) fn new(problem: &Problem<'a>, mut groups: Groups<'a>, pools: &mut [Pool<'_>]) -> Self {
        let keys: BTreeSet<&str> =
            groups.list.iter().map(|group| group.key.as_str()).filter(|key| *key != labels::HOSTNAME).collect();
        let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        let domains: Vec<Vec<String>> = keys.iter().map(|key| values_of(key, problem, pools)).collect();
        let key_of: Vec<Option<usize>> = groups.list.iter().map(|group| keys.binary_search(&group.key).ok()).collect();
        let size = |group: usize| key_of[group].map_or(0, |key: usize| domains[key].len());
        let empty: Vec<Vec<u32>> = (0..groups.list.len()).map(|group| vec![0; size(group)]).collect();
        let sites = Sites::new(problem, &keys, &domains);
        let present = (0..groups.list.len()).map(|group| sites.present(&groups, group, key_of[group])).collect();
        let mut topology = Self {
            host_total: vec![0; groups.list.len()],
            daemon_pods: DaemonPods::new(problem, &mut groups, pools),
            changes: 0,
            changed: vec![0; groups.list.len()],
            matching: empty.clone(),
            uncertain: empty.clone(),
            owners: empty,
            present,
            keys,
            domains,
            key_of,
            groups: Groups::default(),
        };
        topology.count_bound(problem, &mut groups);
        topology.count_expected(problem, &mut groups);
        topology.groups = groups;
        topology
    }

    /// Counts the running pods.
    fn count_bound(&mut self, problem: &Problem<'a>, groups: &mut Groups<'a>) {
        if groups.list.is_empty() {
            return;
        }
        let pending = pending_names(problem);
        for node in &problem.bound_pods {
            let at = self.domains_of_node(node);
            let mut counted: HashMap<GroupId, bool> = HashMap::default();
            for pod in counted_pods(node, &pending) {
                let signature = groups.signature(pod);
                let mut counts = |group: &&GroupId| {
                    *counted.entry(**group).or_insert_with(|| counts_node(&groups.list[**group].filter, node))
                };
                let selecting = groups.selected[signature].iter().filter(&mut counts);
                self.change_running(selecting, groups.owned_by_bound(pod), &at, |number| *number += 1);
            }
        }
    }

    /// Counts the pods of DaemonSets that will run on existing and joining nodes.
    fn count_expected(&mut self, problem: &Problem<'a>, groups: &mut Groups<'a>) {
        if groups.list.is_empty() {
            return;
        }
        for node in problem.nodes.iter().filter(|node| !node.daemon_sets.is_empty()) {
            let domain = |(key, name): (usize, &String)| {
                let value = node.requirements.get(name).and_then(Requirement::single).unwrap_or_default();
                self.domains[key].binary_search_by(|known| known.as_str().cmp(value)).unwrap_or(ABSENT)
            };
            let at: Vec<Domain> = self.keys.iter().enumerate().map(domain).collect();
            for set in node.daemon_sets.iter().filter_map(|set| problem.daemon_sets.get(*set)) {
                let signature = groups.signature(&set.template);
                let counts = |group: &&GroupId| {
                    let filter = &groups.list[**group].filter;
                    filter.is_trivial() || counts(filter, &node.requirements, &node.taints)
                };
                let selecting = groups.selected[signature].iter().filter(counts);
                self.change_running(selecting, groups.owned_by_bound(&set.template), &at, |number| *number += 1);
            }
        }
    }

    /// Changes the counts by a running pod in these domains: of the groups that select it, and of those that it owns.
    pub(crate) fn change_running<'g>(
        &mut self,
        selecting: impl Iterator<Item = &'g GroupId>,
        owned: &[GroupId],
        at: &[Domain],
        change: impl Fn(&mut u32),
    ) {
        for &group in selecting {
            match self.key_of[group] {
                Some(key) => change(&mut self.matching[group][at[key]]),
                None => change(&mut self.host_total[group]),
            }
        }
        for &group in owned {
            if let Some(key) = self.key_of[group] {
                change(&mut self.owners[group][at[key]]);
            }
        }
    }

    /// By key, the domain of a running node.
    pub(crate) fn domains_of_node(&self, node: &BoundPods<'_>) -> Vec<Domain> {
        let domain = |(key, name): (usize, &String)| {
            let value = labels::value(node.labels, name);
            value.and_then(|value| self.domains[key].binary_search(value).ok()).unwrap_or(ABSENT)
        };
        self.keys.iter().enumerate().map(domain).collect()
    }

    /// The key of a group; `None` is the host name.
    pub(crate) fn key(&self, group: GroupId) -> Option<usize> {
        self.key_of[group]
    }

    pub(crate) fn kind(&self, group: GroupId) -> Kind {
        self.groups.list[group].kind
    }

    /// The required labels of a node in these domains.
    pub(crate) fn requirements(&self, target: &[(usize, Domain)]) -> Requirements {
        let mut requirements = Requirements::new();
        for &(key, domain) in target {
            let requirement = match domain {
                ABSENT => Requirement::does_not_exist(),
                domain => Requirement::one_of([self.domains[key][domain].as_str()]),
            };
            requirements.add(&self.keys[key], requirement);
        }
        requirements
    }

    /// Whether each domain already contains a counted node for the group.
    pub(crate) fn present(&self, group: GroupId) -> &[bool] {
        &self.present[group]
    }

    pub(crate) fn matching(&self, group: GroupId, domain: Domain) -> u32 {
        self.matching[group][domain]
    }

    /// Whether any pod that the group selects runs or is planned, in any domain.
    pub(crate) fn matches_anywhere(&self, group: GroupId) -> bool {
        match self.key_of[group] {
            Some(_) => self.matching[group].iter().skip(1).any(|count| *count > 0),
            None => self.host_total[group] > 0,
        }
    }

    /// Whether the group selects no pod of the target's domain, or pods of another domain as well.
    pub(crate) fn matches_beyond(&self, group: GroupId, target: &[(usize, Domain)]) -> bool {
        let Some(key) = self.key_of[group] else { return false };
        let here = domain_in(target, key).unwrap_or(ABSENT);
        let counts = &self.matching[group];
        counts[here] == 0 || counts.iter().enumerate().skip(1).any(|(domain, count)| domain != here && *count > 0)
    }

    /// Whether a pod that owns the anti-affinity group is in the domain.
    pub(crate) fn has_owner(&self, group: GroupId, domain: Domain) -> bool {
        domain != ABSENT && self.owners[group][domain] > 0
    }

    /// Whether the counted nodes of a group depend on more than their domain.
    pub(crate) fn is_particular(&self, group: GroupId) -> bool {
        self.key_of[group].is_some() && !self.groups.list[group].filter.is_trivial()
    }

    /// Whether pods on such a node count for a group. On a new node, the labels that are not mentioned are unknown yet; an
    /// existing node does not have them.
    pub(crate) fn standing(&self, group: GroupId, node: &Requirements, taints: &[Taint], exists: bool) -> Standing {
        let filter = &self.groups.list[group].filter;
        if !tolerates(filter, taints) {
            return Standing::Not;
        }
        let selector = Requirements::from_labels(&filter.node_selector);
        let terms: Vec<Requirements> =
            filter.terms.iter().filter_map(|term| Requirements::from_terms(term).ok()).collect();
        let any = filter.terms.is_empty();
        let unknown = |key: &str| !exists && labels::is_well_known(key);
        let may_be = |required: &Requirements| node.first_incompatible(required, unknown).is_none();
        if covers(node, &selector) && (any || terms.iter().any(|term| covers(node, term))) {
            Standing::Counts
        } else if may_be(&selector) && (any || terms.iter().any(may_be)) {
            Standing::Perhaps
        } else {
            Standing::Not
        }
    }

    /// Counts pods that are assigned to a domain: those that a group selects, and those that own it.
    pub(crate) fn record(
        &mut self,
        selected: &[GroupId],
        required: &[GroupId],
        standings: &[(GroupId, Standing)],
        target: &[(usize, Domain)],
        count: u32,
    ) {
        self.change(selected, required, standings, target, |number| *number += count);
    }

    /// Reverts a record.
    pub(crate) fn forget(
        &mut self,
        selected: &[GroupId],
        required: &[GroupId],
        standings: &[(GroupId, Standing)],
        target: &[(usize, Domain)],
        count: u32,
    ) {
        self.change(selected, required, standings, target, |number| *number = number.saturating_sub(count));
    }

    fn change(
        &mut self,
        selected: &[GroupId],
        required: &[GroupId],
        standings: &[(GroupId, Standing)],
        target: &[(usize, Domain)],
        change: impl Fn(&mut u32),
    ) {
        let domain = |key: Option<usize>| key.and_then(|key| domain_in(target, key));
        self.changes += 1;
        for &group in selected {
            let Some(domain) = domain(self.key_of[group]) else { continue };
            let place = standings.binary_search_by_key(&group, |(known, _)| *known).ok();
            let standing = place.map(|place| standings[place].1);
            match standing {
                Some(Standing::Not) => continue,
                Some(Standing::Perhaps) => change(&mut self.uncertain[group][domain]),
                Some(Standing::Counts) | None => {}
            }
            change(&mut self.matching[group][domain]);
            self.changed[group] = self.changes;
        }
        for &group in required {
            if let (Kind::Anti, Some(domain)) = (self.kind(group), domain(self.key_of[group])) {
                change(&mut self.owners[group][domain]);
                self.changed[group] = self.changes;
            }
        }
    }

    /// The number of changes of the counts of domains.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a count of any of these groups has changed since this number of changes.
    pub(crate) fn changed_since<'g>(&self, mut groups: impl Iterator<Item = &'g GroupId>, changes: u64) -> bool {
        groups.any(|group| self.changed[*group] > changes)
    }

    /// Counts pods that were placed on a node, for the groups over the host name.
    pub(crate) fn record_host(&mut self, selected: &[GroupId], count: u32) {
        for &group in selected.iter().filter(|group| self.key_of[**group].is_none()) {
            self.host_total[group] += count;
        }
    }

    /// Reverts a record of pods on a node.
    pub(crate) fn forget_host(&mut self, selected: &[GroupId], count: u32) {
        for &group in selected.iter().filter(|group| self.key_of[**group].is_none()) {
            self.host_total[group] = self.host_total[group].saturating_sub(count);
        }
    }

    /// The minimum count over the eligible domains, by which a spread is measured. Pods that may not count are left out, because
    /// the spread has to be satisfied in both cases.
    pub(crate) fn least(&self, group: GroupId, eligible: &[bool], min_domains: u32) -> u32 {
        let domains = || eligible.iter().enumerate().skip(1).filter(|(_, eligible)| **eligible);
        if domains().count() < min_domains as usize {
            return 0;
        }
        domains().map(|(domain, _)| self.matching[group][domain] - self.uncertain[group][domain]).min().unwrap_or(0)
    }
}

/// The domain of a key in a target; `None` without the key.
pub(crate) fn domain_in(target: &[(usize, Domain)], key: usize) -> Option<Domain> {
    target.binary_search_by_key(&key, |(one, _)| *one).ok().map(|place| target[place].1)
}

/// The names of pods that are being placed, which do not count where they run now.
pub(crate) fn pending_names<'a>(problem: &Problem<'a>) -> HashSet<(&'a str, &'a str)> {
    problem.pods.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect()
}

/// The pods of a node that count: neither ended nor ending, and not being placed elsewhere.
pub(crate) fn counted_pods<'a, 'n>(
    node: &'n BoundPods<'a>,
    pending: &'n HashSet<(&'a str, &'a str)>,
) -> impl Iterator<Item = &'a Pod> + use<'a, 'n> {
    node.pods
        .iter()
        .copied()
        .filter(move |pod| pod.is_active() && !pending.contains(&(pod.namespace.as_str(), pod.name.as_str())))
}

/// Whether a node's domain counts for a spread.
pub(crate) fn counts_node(filter: &NodeFilter, node: &BoundPods<'_>) -> bool {
    let has = |key: &str| labels::value(node.labels, key);
    filter.is_trivial()
        || (tolerates(filter, node.taints)
            && filter.node_selector.iter().all(|(key, value)| has(labels::normalize(key)) == Some(value))
            && meets_any(filter, |required| {
                required.iter().all(|(key, required)| {
                    has(key).map_or_else(|| required.allows_absence(), |value| required.has(value))
                })
            }))
}

/// Whether a node with these possible labels counts for a spread.
pub(crate) fn counts(filter: &NodeFilter, node: &Requirements, taints: &[Taint]) -> bool {
    let has = |key: &str, value: &str| node.get(labels::normalize(key)).and_then(Requirement::single) == Some(value);
    tolerates(filter, taints)
        && filter.node_selector.iter().all(|(key, value)| has(key, value))
        && meets_any(filter, |required| covers(node, required))
}

/// Whether a node meets any of the terms of a filter. `meets` is called with each term that can be read.
fn meets_any(filter: &NodeFilter, meets: impl Fn(&Requirements) -> bool) -> bool {
    let mut terms = filter.terms.iter().filter_map(|term| Requirements::from_terms(term).ok());
    filter.terms.is_empty() || terms.any(|term| meets(&term))
}

fn tolerates(filter: &NodeFilter, taints: &[Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|known| first_repelling(taints, known, false).is_none())
}

/// All values of a key that nodes have or may have, sorted; the first one represents its absence.
fn values_of(key: &str, problem: &Problem<'_>, pools: &mut [Pool<'_>]) -> Vec<String> {
    let offered: Vec<BTreeSet<String>> = pools.iter_mut().map(|pool| pool.values_of(key).clone()).collect();
    let mut values: BTreeSet<&str> = offered.iter().flatten().map(String::as_str).collect();
    values.extend(problem.nodes.iter().filter_map(|node| node.requirements.get(key)?.single()));
    values.extend(problem.bound_pods.iter().filter_map(|node| labels::value(node.labels, key)).map(String::as_str));
    std::iter::once("").chain(values).map(str::to_owned).collect()
}

/// All nodes that exist, as far as the presence of domains goes.
struct Sites<'s, 'a> {
    problem: &'s Problem<'a>,
    /// By key and node, the domain.
    domains: Vec<Vec<Domain>>,
    sizes: Vec<usize>,
}

impl<'s, 'a> Sites<'s, 'a> {
    fn new(problem: &'s Problem<'a>, keys: &[String], domains: &[Vec<String>]) -> Self {
        let place = |key: usize, value: Option<&str>| {
            value
                .and_then(|value| domains[key].binary_search_by(|known| known.as_str().cmp(value)).ok())
                .unwrap_or(ABSENT)
        };
        let of_key = |(key, name): (usize, &String)| {
            let bound = problem.bound_pods.iter().map(|node| labels::value(node.labels, name).map(String::as_str));
            let known = problem.nodes.iter().map(|node| node.requirements.get(name).and_then(Requirement::single));
            known.chain(bound).map(|value| place(key, value)).collect()
        };
        Self {
            problem,
            domains: keys.iter().enumerate().map(of_key).collect(),
            sizes: domains.iter().map(Vec::len).collect(),
        }
    }

    fn present(&self, groups: &Groups<'_>, group: GroupId, key: Option<usize>) -> Vec<bool> {
        let group = &groups.list[group];
        let (Some(key), Kind::Spread { .. }) = (key, group.kind) else { return Vec::new() };
        let mut present = vec![false; self.sizes[key]];
        for (place, domain) in self.domains[key].iter().enumerate() {
            if *domain != ABSENT && !present[*domain] && self.counts(&group.filter, place) {
                present[*domain] = true;
            }
        }
        present
    }

    fn counts(&self, filter: &NodeFilter, place: usize) -> bool {
        let nodes = &self.problem.nodes;
        match nodes.get(place) {
            Some(node) => filter.is_trivial() || counts(filter, &node.requirements, &node.taints),
            None => counts_node(filter, &self.problem.bound_pods[place - nodes.len()]),
        }
    }
}
