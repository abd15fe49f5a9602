//! Topology constraints, pod by pod, as the kube-scheduler reads them.

use super::{accepts_labels, first_untolerated, fits_fresh};
use crate::problem::{PoolOffer, Problem};
use crate::solution::Solution;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::{LabelSelector, Pod, Requirement, Requirements, StringMap, Taint, labels};
use std::collections::{BTreeMap, BTreeSet};

/// A node that exists or is launched, and its pods.
struct Site<'p> {
    name: String,
    labels: Requirements,
    taints: &'p [Taint],
    running: Vec<&'p Pod>,
    placed: Vec<&'p Pod>,
}

/// All nodes with all their pods, once a solution has come about.
pub(super) struct World<'p> {
    problem: &'p Problem<'p>,
    sites: Vec<Site<'p>>,
}

impl<'p> World<'p> {
    pub(super) fn of(problem: &'p Problem<'p>, solution: &Solution) -> Self {
        let moving: BTreeSet<(&str, &str)> = problem.pods.iter().map(|pod| (&*pod.namespace, &*pod.name)).collect();
        let mut sites: Vec<Site<'p>> = Vec::new();
        for (index, node) in problem.nodes.iter().enumerate() {
            let placed = solution.placements.iter().filter(|placement| placement.node == index);
            sites.push(Site {
                name: node.name.clone(),
                labels: node.requirements.clone(),
                taints: &node.taints,
                running: Vec::new(),
                placed: placed.map(|placement| problem.pods[placement.pod]).collect(),
            });
        }
        for node in &problem.bound_pods {
            let counted = |pod: &&&Pod| pod.is_active() && !moving.contains(&(&*pod.namespace, &*pod.name));
            let running: Vec<&Pod> = node.pods.iter().filter(counted).copied().collect();
            match sites.iter_mut().find(|site| site.name == node.name) {
                Some(site) => site.running = running,
                None => sites.push(Site {
                    name: node.name.to_owned(),
                    labels: Requirements::from_labels(node.labels),
                    taints: node.taints,
                    running,
                    placed: Vec::new(),
                }),
            }
        }
        for (index, launch) in solution.launches.iter().enumerate() {
            let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
            sites.push(Site {
                name: format!("launch {index}"),
                labels: launch.requirements.clone(),
                taints: offer.map_or(&[][..], |offer| &offer.pool.template.taints),
                running: Vec::new(),
                placed: launch.pods.iter().map(|pod| problem.pods[*pod]).collect(),
            });
        }
        Self { problem, sites }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (place, site) in self.sites.iter().enumerate() {
            for pod in &site.placed {
                wrong.extend(self.near_violations(place, pod));
                for spread in pod.topology_spread.iter().filter(|spread| spread.hard && is_host(&spread.topology_key)) {
                    let here = site.pods().filter(|other| spread_selects(spread, pod, other)).count();
                    if here > spread.max_skew.max(1) as usize {
                        wrong.push(format!("{}: {here} pods break the spread of {}", site.name, pod.key()));
                    }
                }
            }
        }
        wrong.extend(self.spread_violations());
        wrong
    }

    /// Whether a further pod may be on a further node.
    pub(super) fn accepts(&self, pod: &'p Pod, node: &Requirements, offer: &'p PoolOffer<'p>) -> bool {
        let mut sites: Vec<Site<'p>> = self
            .sites
            .iter()
            .map(|site| Site {
                name: site.name.clone(),
                labels: site.labels.clone(),
                taints: site.taints,
                running: site.pods().collect(),
                placed: Vec::new(),
            })
            .collect();
        sites.push(Site {
            name: "fresh".into(),
            labels: node.clone(),
            taints: &offer.pool.template.taints,
            running: Vec::new(),
            placed: vec![pod],
        });
        Self { problem: self.problem, sites }.violations().is_empty()
    }

    /// Affinity and anti-affinity of one placed pod, and the anti-affinity of others against it.
    fn near_violations(&self, place: usize, pod: &Pod) -> Vec<String> {
        let mut wrong = Vec::new();
        let others = || {
            self.sites.iter().enumerate().flat_map(|(place, site)| {
                site.pods().filter(|other| !std::ptr::eq(*other, pod)).map(move |other| (place, other))
            })
        };
        let name = &self.sites[place].name;
        for term in &pod.required_pod_anti_affinity {
            let mut near = others().filter(|(other, _)| self.may_share(place, *other, &term.topology_key));
            if let Some((_, other)) = near.find(|(_, other)| self.selects(term, pod, other)) {
                wrong.push(format!("{name}: pod {} wants to be away from {}", pod.key(), other.key()));
            }
        }
        for (other_place, other) in others() {
            let term = other
                .required_pod_anti_affinity
                .iter()
                .find(|term| self.may_share(place, other_place, &term.topology_key) && self.selects(term, other, pod));
            if term.is_some() {
                wrong.push(format!("{name}: pod {} wants {} away", other.key(), pod.key()));
            }
        }
        for term in &pod.required_pod_affinity {
            let wanted = || others().filter(|(_, other)| self.selects(term, pod, other));
            let near = wanted().any(|(other, _)| self.share(place, other, &term.topology_key));
            let running = self.sites.iter().any(|site| site.running.iter().any(|other| self.selects(term, pod, other)));
            let rival = wanted().any(|(_, other)| other.required_pod_affinity.contains(term));
            let first = self.selects(term, pod, pod) && !running && !rival;
            if !near && !first {
                wrong.push(format!("{name}: pod {} is not near what it wants", pod.key()));
            }
        }
        wrong
    }

    fn domain(&self, place: usize, key: &str) -> Option<String> {
        if is_host(key) {
            Some(place.to_string())
        } else {
            self.sites[place].labels.get(key)?.single().map(str::to_owned)
        }
    }

    fn share(&self, a: usize, b: usize, key: &str) -> bool {
        self.domain(a, key).is_some_and(|domain| Some(domain) == self.domain(b, key))
    }

    /// Whether two nodes can turn out to lie in one domain.
    fn may_share(&self, a: usize, b: usize, key: &str) -> bool {
        if a == b || is_host(key) {
            return a == b;
        }
        let labels = |place: usize| self.sites[place].labels.get(key).cloned().filter(|one| !one.is_empty());
        let nowhere = || Requirement::does_not_exist();
        let both = labels(a).unwrap_or_else(nowhere).intersection(&labels(b).unwrap_or_else(nowhere));
        !both.is_empty()
    }

    fn selects(&self, term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none() && owner.namespace == pod.namespace;
        let unnamed = StringMap::from([("kubernetes.io/metadata.name".to_owned(), pod.namespace.clone())]);
        let labels = self.problem.namespaces.get(&pod.namespace).unwrap_or(&unnamed);
        let selected = || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels));
        let differs = |key: &String| owner.labels.get(key).is_none_or(|value| pod.labels.get(key) != Some(value));
        (own || term.namespaces.contains(&pod.namespace) || selected())
            && selects(term.selector.as_ref(), &term.match_label_keys, owner, pod)
            && term.mismatch_label_keys.iter().all(differs)
    }

    /// Looks for an order in which the kube-scheduler could place all pods: those that count for their own spread as soon
    /// as they may; when nothing else goes on, one that spreads by others, or one that does not spread.
    fn spread_violations(&self) -> Vec<String> {
        let mut waiting: Vec<(usize, &'p Pod)> = Vec::new();
        let mut counted: Vec<(usize, &'p Pod)> = Vec::new();
        for (place, site) in self.sites.iter().enumerate() {
            waiting.extend(site.placed.iter().map(|pod| (place, *pod)));
            counted.extend(site.running.iter().map(|pod| (place, *pod)));
        }
        let hard = |pod: &'p Pod| pod.topology_spread.iter().filter(|one| one.hard && !is_host(&one.topology_key));
        let spreads = |pod: &'p Pod| hard(pod).next().is_some();
        let itself = |pod: &'p Pod| hard(pod).any(|spread| spread_selects(spread, pod, pod));
        let mut launchable = BTreeMap::new();
        loop {
            let before = waiting.len();
            let mut kept = Vec::new();
            for (place, pod) in waiting {
                if itself(pod) && self.spread_allows(place, pod, &counted, &mut launchable) {
                    counted.push((place, pod));
                } else {
                    kept.push((place, pod));
                }
            }
            waiting = kept;
            if waiting.len() == before {
                // Those that fill the emptiest domains leave most room for the others.
                let blocked = waiting.iter().find(|(_, pod)| spreads(pod)).copied();
                let mut free: Vec<(bool, usize, usize)> = Vec::new();
                for (index, (place, pod)) in waiting.iter().enumerate() {
                    if !spreads(pod) || self.spread_allows(*place, pod, &counted, &mut launchable) {
                        let fullness = self.fullness(*place, pod, blocked.map(|(_, pod)| pod), &counted);
                        free.push((!spreads(pod), fullness, index));
                    }
                }
                let next = free.into_iter().min().map(|(_, _, index)| index);
                match next {
                    Some(place) => counted.push(waiting.remove(place)),
                    None => break,
                }
            }
        }
        waiting
            .iter()
            .map(|(place, pod)| format!("{}: the spread of {} is broken", self.sites[*place].name, pod.key()))
            .collect()
    }

    /// How many pods that count for the spreads of another are where this one is, if it counts for them too.
    fn fullness(&self, place: usize, pod: &Pod, other: Option<&Pod>, counted: &[(usize, &Pod)]) -> usize {
        let spreads = other.into_iter().flat_map(|other| other.topology_spread.iter().map(move |one| (other, one)));
        let counting = spreads.filter(|(other, spread)| spread.hard && spread_selects(spread, other, pod));
        let here = counting.map(|(other, spread)| {
            let near = |site: usize| self.share(place, site, &spread.topology_key);
            counted.iter().filter(|(site, one)| near(*site) && spread_selects(spread, other, one)).count()
        });
        here.sum()
    }

    fn spread_allows(
        &self,
        place: usize,
        pod: &Pod,
        counted: &[(usize, &Pod)],
        launchable: &mut BTreeMap<(String, String), BTreeSet<String>>,
    ) -> bool {
        let hard = pod.topology_spread.iter().filter(|one| one.hard && !is_host(&one.topology_key));
        hard.into_iter().all(|spread| {
            let key = &spread.topology_key;
            let Some(here) = self.domain(place, key) else { return false };
            let mut counts: BTreeMap<String, i32> = BTreeMap::new();
            // What is launched can lie only where something can be launched, which is counted below.
            let existing = (0..self.sites.len()).filter(|site| !self.sites[*site].name.starts_with("launch"));
            for site in existing.filter(|site| self.counts(*site, spread, pod)) {
                counts.extend(self.domain(site, key).map(|domain| (domain, 0)));
            }
            let fresh = launchable.entry((pod.key(), key.clone())).or_insert_with(|| self.launchable(pod, key));
            counts.extend(fresh.iter().map(|domain| (domain.clone(), 0)));
            for (site, other) in counted {
                if self.counts(*site, spread, pod)
                    && spread_selects(spread, pod, other)
                    && let Some(count) = self.domain(*site, key).and_then(|domain| counts.get_mut(&domain))
                {
                    *count += 1;
                }
            }
            let enough = counts.len() >= spread.min_domains.unwrap_or(1).max(1) as usize;
            let least = if enough { counts.values().copied().min().unwrap_or(0) } else { 0 };
            let itself = i32::from(spread_selects(spread, pod, pod));
            counts.get(&here).copied().unwrap_or(0) + itself - least <= spread.max_skew.max(1)
        })
    }

    /// Whether a node counts for a pod's spread.
    fn counts(&self, place: usize, spread: &TopologySpread, pod: &Pod) -> bool {
        let site = &self.sites[place];
        (!spread.honor_node_affinity || accepts_labels(pod, &site.labels))
            && (!spread.honor_node_taints || first_untolerated(site.taints, pod).is_none())
    }

    /// The domains in which a node can be launched for a pod.
    fn launchable(&self, pod: &Pod, key: &str) -> BTreeSet<String> {
        let mut domains = BTreeSet::new();
        for offer in &self.problem.node_pools {
            fits_fresh(self.problem, offer, pod, |_, node| {
                domains.extend(node.get(key).and_then(Requirement::single).map(str::to_owned));
                false
            });
        }
        domains
    }
}

impl<'p> Site<'p> {
    fn pods(&self) -> impl Iterator<Item = &'p Pod> + '_ {
        self.running.iter().chain(&self.placed).copied()
    }
}

fn is_host(key: &str) -> bool {
    key == labels::HOSTNAME
}

fn spread_selects(spread: &TopologySpread, owner: &Pod, pod: &Pod) -> bool {
    owner.namespace == pod.namespace && selects(spread.selector.as_ref(), &spread.match_label_keys, owner, pod)
}

fn selects(selector: Option<&LabelSelector>, keys: &[String], owner: &Pod, pod: &Pod) -> bool {
    let same = |key: &String| owner.labels.get(key).is_none_or(|value| pod.labels.get(key) == Some(value));
    selector.is_some_and(|selector| selector.matches(&pod.labels)) && keys.iter().all(same)
}
