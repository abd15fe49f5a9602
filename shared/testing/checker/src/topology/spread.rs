//! Topology spread: whether there is an order in which kube-scheduler can place all pods.

use super::{Occupancy, is_host, spread_selects};
use crate::{accepts_labels, first_untolerated, may_accept_labels, own_labels, template_labels, usable};
use nodeless_model::pod::TopologySpread;
use nodeless_model::{Pod, Requirement, Requirements, labels};
use nodeless_scheduling::PoolOffer;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The number of evaluations of a pod after which the search for an order ends.
const MAX_ORDER_STEPS: usize = 10_000;

/// The progress of the search for an order.
struct Search {
    offered: Offered,
    /// The waiting pods of unsatisfiable states.
    dead: BTreeSet<Vec<usize>>,
    left: usize,
    /// The smallest set of waiting pods so far.
    best: Option<Vec<usize>>,
}

/// The domains in which nodes can be launched, by pod, key and the node inclusion policies of a spread.
type Offered = BTreeMap<(String, String, bool, bool), BTreeSet<String>>;

impl<'p> Occupancy<'p> {
    /// Searches for an order in which kube-scheduler can place all pods.
    ///
    /// Equal pods with the same node are one step. First some heuristic orders are tried, in which each pod is placed as soon
    /// as possible. If none of them succeeds, orders are searched depth first, with the pods in the emptiest domains first;
    /// unsatisfiable states are not tried again. After [`MAX_ORDER_STEPS`] the search ends, and the spread is treated as
    /// violated.
    pub(super) fn spread_violations(&self) -> Vec<String> {
        let mut kinds: Vec<(usize, &'p Pod, usize)> = Vec::new();
        let mut counted: Vec<(usize, &'p Pod)> = Vec::new();
        for (place, site) in self.sites.iter().enumerate() {
            for &pod in &site.placed {
                match kinds.iter_mut().find(|(other, one, _)| *other == place && alike(one, pod)) {
                    Some((_, _, count)) => *count += 1,
                    None => kinds.push((place, pod, 1)),
                }
            }
            counted.extend(site.running.iter().map(|pod| (place, *pod)));
        }
        // Pods that no spread selects may be placed at any time.
        let matters = |pod: &Pod| {
            let spreads =
                |one: &&'p Pod| one.template.topology_spread.iter().any(|spread| spread_selects(spread, one, pod));
            !pod.template.topology_spread.is_empty() || kinds.iter().map(|(_, one, _)| one).any(spreads)
        };
        let steps: Vec<(usize, &'p Pod, usize)> = kinds.iter().filter(|(_, pod, _)| matters(pod)).copied().collect();
        let mut search = Search { offered: BTreeMap::new(), dead: BTreeSet::new(), left: MAX_ORDER_STEPS, best: None };
        let waiting: Vec<usize> = steps.iter().map(|(_, _, count)| *count).collect();
        let in_order = |order: &[usize], search: &mut Search| self.place_in(order, &steps, counted.clone(), search);
        if plain_orders(&steps).iter().any(|order| in_order(order, &mut search)) {
            return Vec::new();
        }
        if self.place_all(&steps, waiting.clone(), &mut counted, &mut search) {
            return Vec::new();
        }
        let stuck = search.best.unwrap_or(waiting);
        let broken = steps.iter().zip(stuck).filter(|(_, waiting)| *waiting > 0);
        broken
            .map(|((place, pod, _), _)| format!("{}: the spread of {} is violated", self.sites[*place].name, pod.key()))
            .collect()
    }

    /// Visits the pods in an order repeatedly, and places those that may be placed.
    fn place_in(
        &self,
        order: &[usize],
        steps: &[(usize, &'p Pod, usize)],
        mut counted: Vec<(usize, &'p Pod)>,
        search: &mut Search,
    ) -> bool {
        let mut waiting: Vec<usize> = steps.iter().map(|(_, _, count)| *count).collect();
        loop {
            let before: usize = waiting.iter().sum();
            for &step in order {
                let (place, pod, _) = steps[step];
                while waiting[step] > 0 && self.spread_allows(place, pod, &counted, &mut search.offered) {
                    waiting[step] -= 1;
                    counted.push((place, pod));
                }
            }
            match waiting.iter().sum::<usize>() {
                0 => return true,
                after if after == before => return false,
                _ => {}
            }
        }
    }

    /// Places the waiting pods in some order. `counted` is not changed if there is none.
    fn place_all(
        &self,
        steps: &[(usize, &'p Pod, usize)],
        waiting: Vec<usize>,
        counted: &mut Vec<(usize, &'p Pod)>,
        search: &mut Search,
    ) -> bool {
        let total: usize = waiting.iter().sum();
        if total == 0 {
            return true;
        }
        if search.best.as_ref().is_none_or(|best| total < best.iter().sum()) {
            search.best = Some(waiting.clone());
        }
        if search.dead.contains(&waiting) {
            return false;
        }
        let mut open: Vec<((bool, usize), usize)> = Vec::new();
        for (step, (place, pod, _)) in steps.iter().enumerate().filter(|(step, _)| waiting[*step] > 0) {
            if search.left == 0 {
                return false;
            }
            search.left -= 1;
            if self.spread_allows(*place, pod, counted, &mut search.offered) {
                let spreads = |one: &TopologySpread| one.hard && !is_host(&one.topology_key);
                let free = !pod.template.topology_spread.iter().any(spreads);
                open.push(((free, self.fullness(*place, pod, steps, counted)), step));
            }
        }
        open.sort_unstable();
        for (_, step) in open {
            let mut fewer = waiting.clone();
            fewer[step] -= 1;
            counted.push((steps[step].0, steps[step].1));
            if self.place_all(steps, fewer, counted, search) {
                return true;
            }
            counted.pop();
        }
        search.dead.insert(waiting);
        false
    }

    /// The number of pods in the domain of a pod, for the spreads that select it.
    fn fullness(
        &self,
        place: usize,
        pod: &Pod,
        steps: &[(usize, &'p Pod, usize)],
        counted: &[(usize, &'p Pod)],
    ) -> usize {
        let mut seen: Vec<(&str, &TopologySpread)> = Vec::new();
        for (_, other, _) in steps {
            let own = other.template.topology_spread.iter().filter(|one| one.hard && !is_host(&one.topology_key));
            for spread in own.filter(|spread| spread_selects(spread, other, pod)) {
                if !seen.contains(&(&other.namespace, spread)) {
                    seen.push((&other.namespace, spread));
                }
            }
        }
        let here = |spread: &TopologySpread| {
            let near = |site: usize| self.share(place, site, &spread.topology_key);
            counted.iter().filter(|(site, one)| near(*site) && spread_selects(spread, pod, one)).count()
        };
        seen.into_iter().map(|(_, spread)| here(spread)).sum()
    }

    fn spread_allows(&self, place: usize, pod: &Pod, counted: &[(usize, &Pod)], offered: &mut Offered) -> bool {
        let hard = pod.template.topology_spread.iter().filter(|one| one.hard && !is_host(&one.topology_key));
        hard.into_iter().all(|spread| {
            let key = &spread.topology_key;
            let Some(here) = self.domain(place, key) else { return false };
            // By domain: the pods that certainly count, and those that may.
            let mut counts: BTreeMap<String, (i32, i32)> = BTreeMap::new();
            // Launched nodes that count are only in domains in which such nodes can be launched, which are counted below.
            let existing = (0..self.sites.len()).filter(|site| !self.sites[*site].is_new());
            for site in existing.filter(|site| self.counts(*site, spread, pod) == Some(true)) {
                counts.extend(self.domain(site, key).map(|domain| (domain, (0, 0))));
            }
            let of_spread = (pod.key(), key.clone(), spread.honor_node_affinity, spread.honor_node_taints);
            let fresh = offered.entry(of_spread).or_insert_with(|| self.offered(pod, spread));
            counts.extend(fresh.iter().map(|domain| (domain.clone(), (0, 0))));
            for (site, _) in counted.iter().filter(|(_, other)| spread_selects(spread, pod, other)) {
                let standing = self.counts(*site, spread, pod);
                let known = self.domain(*site, key);
                for (domain, count) in &mut counts {
                    // A launched node that may be in several domains is possible in each of them.
                    let sure = known.as_ref() == Some(domain);
                    let perhaps = sure || (known.is_none() && self.may_lie_in(*site, key, domain));
                    count.0 += i32::from(sure && standing == Some(true));
                    count.1 += i32::from(perhaps && standing != Some(false));
                }
            }
            let enough = counts.len() >= spread.min_domains.unwrap_or(1).max(1) as usize;
            let least = if enough { counts.values().map(|(sure, _)| *sure).min().unwrap_or(0) } else { 0 };
            let itself = i32::from(spread_selects(spread, pod, pod));
            counts.get(&here).map_or(0, |(_, perhaps)| *perhaps) + itself - least <= spread.max_skew.max(1)
        })
    }

    /// Whether a node counts for a pod's spread; `None` if that depends on the labels with which it is launched.
    fn counts(&self, place: usize, spread: &TopologySpread, pod: &Pod) -> Option<bool> {
        let site = &self.sites[place];
        if spread.honor_node_taints && first_untolerated(site.taints, pod).is_some() {
            return Some(false);
        }
        if !spread.honor_node_affinity || accepts_labels(pod, &site.labels) {
            return Some(true);
        }
        if may_accept_labels(pod, &site.labels, !site.is_new()) { None } else { Some(false) }
    }

    /// The domains in which a node that counts for a pod's spread can be launched, for any pods. Domains that the pod excludes count only
    /// if they have a node.
    fn offered(&self, pod: &Pod, spread: &TopologySpread) -> BTreeSet<String> {
        let mut domains = BTreeSet::new();
        for offer in self.problem.node_pools.iter().filter(|offer| usable(offer)) {
            if spread.honor_node_taints && first_untolerated(&offer.pool.template.taints, pod).is_some() {
                continue;
            }
            for kind in offer.instance_types.iter() {
                for offering in kind.offerings.iter().filter(|offering| offering.available) {
                    let node = own_labels(self.problem, offer, kind, offering, pod);
                    let counts = |node: &Requirements| !spread.honor_node_affinity || accepts_labels(pod, node);
                    let Some(node) = node.filter(counts) else { continue };
                    domains.extend(possible_domains(&node, offer, &spread.topology_key));
                }
            }
        }
        domains.retain(|domain| self.may_use(pod, &spread.topology_key, domain));
        domains
    }

    /// Whether the pod and its volumes allow a node with the label of a domain.
    fn may_use(&self, pod: &Pod, key: &str, domain: &str) -> bool {
        let mut alone = pod.clone();
        let of_key = |other: &str| labels::normalize(other) == labels::normalize(key);
        alone.template_mut().node_selector.retain(|other, _| of_key(other));
        alone.template_mut().required_node_affinity.retain(|term| !term.is_empty());
        for term in &mut alone.template_mut().required_node_affinity {
            term.retain(|expression| of_key(&expression.key));
        }
        // A term without a requirement for the domain allows all.
        if alone.template.required_node_affinity.iter().any(Vec::is_empty) {
            alone.template_mut().required_node_affinity.clear();
        }
        let node = Requirements::from([(key, Requirement::one_of([domain]))]);
        let allowed = |place: &Requirements| place.get(key).is_none_or(|allowed| allowed.has(domain));
        let volumes = pod.template.volume_claims.iter().all(|volume| {
            let known = self.problem.facts.volumes.get(&format!("{}/{}", pod.namespace, volume.claim_name));
            known.is_some_and(|known| known.is_empty() || known.iter().any(allowed))
        });
        accepts_labels(&alone, &node) && volumes
    }
}

/// The domains in which a node may be: if its NodePool allows several values of a label, all of them.
fn possible_domains(node: &Requirements, offer: &PoolOffer<'_>, key: &str) -> Vec<String> {
    let of_pool = template_labels(offer).get(key).and_then(Requirement::values).cloned();
    match node.get(key).and_then(Requirement::values) {
        Some(values) if labels::is_well_known(key) => values.iter().cloned().collect(),
        Some(values) => of_pool.unwrap_or_else(|| values.clone()).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Heuristic orders: the largest pods first, those that count for their own spread first, those that do so last, and those
/// without spread last.
fn plain_orders(steps: &[(usize, &Pod, usize)]) -> [Vec<usize>; 4] {
    let hard = |pod: &Pod, itself: bool| {
        let own = pod.template.topology_spread.iter().filter(|one| one.hard && !is_host(&one.topology_key));
        own.into_iter().any(|one| !itself || spread_selects(one, pod, pod))
    };
    let size = |step: usize| {
        let requests = &steps[step].1.template.requests;
        Reverse((requests.get("cpu"), requests.get("memory")))
    };
    let mut orders = [(); 4].map(|()| (0..steps.len()).collect::<Vec<usize>>());
    orders[0].sort_by_key(|step| size(*step));
    orders[1].sort_by_key(|step| (!hard(steps[*step].1, true), size(*step)));
    orders[2].sort_by_key(|step| (hard(steps[*step].1, true), size(*step)));
    orders[3].sort_by_key(|step| (!hard(steps[*step].1, false), size(*step)));
    orders
}

/// Whether two pods are equal in everything that a spread evaluates.
fn alike(a: &Pod, b: &Pod) -> bool {
    a.namespace == b.namespace
        && a.template.labels == b.template.labels
        && a.template.topology_spread == b.template.topology_spread
        && a.template.node_selector == b.template.node_selector
        && a.template.required_node_affinity == b.template.required_node_affinity
        && a.template.tolerations == b.template.tolerations
        && a.template.requests == b.template.requests
        && a.template.host_ports == b.template.host_ports
        && a.template.volume_claims == b.template.volume_claims
}
