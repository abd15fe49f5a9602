//! Topology constraints, evaluated for each pod as in kube-scheduler.

mod spread;

use super::daemon_sets_on;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::{LabelSelector, Pod, Requirement, Requirements, StringMap, Taint, labels};
use nodeless_scheduling::{PoolOffer, Problem, Solution};
use std::collections::BTreeSet;

/// A node that exists or is launched, and its pods.
struct Site<'p> {
    name: String,
    labels: Requirements,
    taints: &'p [Taint],
    running: Vec<&'p Pod>,
    placed: Vec<&'p Pod>,
}

/// All nodes with all their pods after a solution has been carried out.
pub(super) struct Occupancy<'p> {
    problem: &'p Problem<'p>,
    sites: Vec<Site<'p>>,
}

/// The pods of these DaemonSets, by their indices.
fn expected<'p>(problem: &Problem<'p>, sets: &[usize]) -> Vec<&'p Pod> {
    sets.iter().map(|set| &problem.daemon_sets[*set].template).collect()
}

/// The pods of the DaemonSets of a new node.
fn daemon_pods<'p>(
    problem: &Problem<'p>,
    offer: &PoolOffer<'_>,
    node: &Requirements,
    instance_type: &str,
) -> Vec<&'p Pod> {
    let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == instance_type) else { return Vec::new() };
    let sets = daemon_sets_on(problem, offer, kind, &node.with(&kind.requirements)).into_iter();
    let sets = sets.filter(|(_, has_capacity)| *has_capacity == Some(true)).map(|(set, _)| &set.template);
    sets.filter(|template| template.template.scheduling_gates.is_empty()).collect()
}

impl<'p> Occupancy<'p> {
    pub(super) fn new(problem: &'p Problem<'p>, solution: &Solution) -> Self {
        let moving: BTreeSet<(&str, &str)> = problem.pods.iter().map(|pod| (&*pod.namespace, &*pod.name)).collect();
        let mut sites: Vec<Site<'p>> = Vec::new();
        for (index, node) in problem.nodes.iter().enumerate() {
            let placed = solution.placements.iter().filter(|placement| placement.node == index);
            sites.push(Site {
                name: node.name.clone(),
                labels: node.requirements.clone(),
                taints: &node.taints,
                running: expected(problem, &node.daemon_sets),
                placed: placed.map(|placement| problem.pods[placement.pod]).collect(),
            });
        }
        for node in &problem.bound_pods {
            let counted = |pod: &&&Pod| pod.is_active() && !moving.contains(&(&*pod.namespace, &*pod.name));
            let running: Vec<&Pod> = node.pods.iter().filter(counted).copied().collect();
            match sites.iter_mut().find(|site| site.name == node.name) {
                Some(site) => site.running.extend(running),
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
                running: offer.map_or(Vec::new(), |offer| {
                    daemon_pods(problem, offer, &launch.requirements, &launch.offering.instance_type)
                }),
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
                for spread in
                    pod.template.topology_spread.iter().filter(|spread| spread.hard && is_host(&spread.topology_key))
                {
                    let here = site.pods().filter(|other| spread_selects(spread, pod, other)).count();
                    if here > spread.max_skew.max(1) as usize {
                        wrong.push(format!("{}: {here} pods violate the spread of {}", site.name, pod.key()));
                    }
                }
            }
        }
        wrong.extend(self.affinity_violations());
        wrong.extend(self.spread_violations());
        wrong
    }

    /// Whether one more pod may be placed on one more node.
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
            running: node
                .get(labels::INSTANCE_TYPE)
                .and_then(Requirement::single)
                .map_or(Vec::new(), |name| daemon_pods(self.problem, offer, node, name)),
            placed: vec![pod],
        });
        Self { problem: self.problem, sites }.violations().is_empty()
    }

    /// The anti-affinity of one placed pod, and that of others against it.
    fn near_violations(&self, place: usize, pod: &Pod) -> Vec<String> {
        let mut wrong = Vec::new();
        let others = || {
            self.sites.iter().enumerate().flat_map(|(place, site)| {
                site.pods().filter(|other| !std::ptr::eq(*other, pod)).map(move |other| (place, other))
            })
        };
        let name = &self.sites[place].name;
        for term in &pod.template.required_pod_anti_affinity {
            let mut near = others().filter(|(other, _)| self.may_share(place, *other, &term.topology_key));
            if let Some((_, other)) = near.find(|(_, other)| self.selects(term, pod, other)) {
                wrong.push(format!("{name}: pod {} has anti-affinity to {}", pod.key(), other.key()));
            }
        }
        for (other_place, other) in others() {
            let term =
                other.template.required_pod_anti_affinity.iter().find(|term| {
                    self.may_share(place, other_place, &term.topology_key) && self.selects(term, other, pod)
                });
            if term.is_some() {
                wrong.push(format!("{name}: pod {} has anti-affinity to {}", other.key(), pod.key()));
            }
        }
        wrong
    }

    /// Pods whose affinity is not satisfied in any order. If no pod that a term selects runs yet, a pod that selects itself may be placed
    /// anywhere first; the affinity of the others has to be satisfied by the pods placed until then.
    fn affinity_violations(&self) -> Vec<String> {
        let mut terms: Vec<(&'p Pod, &'p PodAffinityTerm)> = Vec::new();
        for pod in self.sites.iter().flat_map(|site| &site.placed) {
            for term in &pod.template.required_pod_affinity {
                if !terms.iter().any(|(owner, known)| same_term(owner, known, pod, term)) {
                    terms.push((pod, term));
                }
            }
        }
        terms.into_iter().flat_map(|(owner, term)| self.far_from(owner, term)).collect()
    }

    /// The pods whose affinity is not satisfied.
    fn far_from(&self, owner: &'p Pod, term: &'p PodAffinityTerm) -> Vec<String> {
        let has = |pod: &'p Pod| pod.template.required_pod_affinity.iter().any(|one| same_term(owner, term, pod, one));
        let selected = |pod: &Pod| self.selects(term, owner, pod);
        let mut there: Vec<usize> = Vec::new();
        let mut waiting: Vec<(usize, &'p Pod)> = Vec::new();
        let mut runs = false;
        for (place, site) in self.sites.iter().enumerate() {
            runs |= site.running.iter().any(|pod| selected(pod));
            there.extend(site.running.iter().filter(|pod| selected(pod)).map(|_| place));
            there.extend(site.placed.iter().filter(|pod| !has(pod) && selected(pod)).map(|_| place));
            waiting.extend(site.placed.iter().filter(|pod| has(pod)).map(|pod| (place, *pod)));
        }
        let converge = |there: &mut Vec<usize>, waiting: &mut Vec<(usize, &'p Pod)>| loop {
            let near = |place: usize| there.iter().any(|other| self.share(place, *other, &term.topology_key));
            let Some(index) = waiting.iter().position(|(place, _)| near(*place)) else { break };
            let (place, pod) = waiting.remove(index);
            there.extend(selected(pod).then_some(place));
        };
        converge(&mut there, &mut waiting);
        let comes_first = |(place, pod): &(usize, &'p Pod)| {
            let (mut there, mut rest) = (there.clone(), waiting.clone());
            there.push(*place);
            rest.retain(|(_, other)| !std::ptr::eq(*other, *pod));
            converge(&mut there, &mut rest);
            selected(pod) && rest.is_empty()
        };
        if !runs && waiting.iter().any(comes_first) {
            return Vec::new();
        }
        let far = waiting.iter();
        far.map(|(place, pod)| {
            format!("{}: the affinity of pod {} is not satisfied", self.sites[*place].name, pod.key())
        })
        .collect()
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

    /// Whether a launched node can be in a domain.
    fn may_lie_in(&self, place: usize, key: &str, domain: &str) -> bool {
        let site = &self.sites[place];
        let known = site.labels.get(key).map(|label| label.has(domain));
        site.is_new() && known.unwrap_or_else(|| labels::is_well_known(key))
    }

    /// Whether two nodes can be in the same domain.
    fn may_share(&self, a: usize, b: usize, key: &str) -> bool {
        if a == b || is_host(key) {
            return a == b;
        }
        let labels = |place: usize| self.sites[place].labels.get(key).cloned().filter(|one| !one.is_empty());
        let no_label = || Requirement::does_not_exist();
        let both = labels(a).unwrap_or_else(no_label).intersection(&labels(b).unwrap_or_else(no_label));
        !both.is_empty()
    }

    fn selects(&self, term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none() && owner.namespace == pod.namespace;
        let unnamed = StringMap::from([("kubernetes.io/metadata.name".to_owned(), pod.namespace.clone())]);
        let labels = self.problem.facts.namespaces.get(&pod.namespace).unwrap_or(&unnamed);
        let selected = || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels));
        let differs = |key: &String| {
            owner.template.labels.get(key).is_none_or(|value| pod.template.labels.get(key) != Some(value))
        };
        (own || term.namespaces.contains(&pod.namespace) || selected())
            && selects(term.selector.as_ref(), &term.match_label_keys, owner, pod)
            && term.mismatch_label_keys.iter().all(differs)
    }
}

/// Whether two terms select the same pods for their owners.
fn same_term(a: &Pod, one: &PodAffinityTerm, b: &Pod, other: &PodAffinityTerm) -> bool {
    let mut keys = one.match_label_keys.iter().chain(&one.mismatch_label_keys);
    a.namespace == b.namespace
        && one == other
        && keys.all(|key| a.template.labels.get(key) == b.template.labels.get(key))
}

impl<'p> Site<'p> {
    fn is_new(&self) -> bool {
        self.name.starts_with("launch") || self.name == "fresh"
    }

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
    let same =
        |key: &String| owner.template.labels.get(key).is_none_or(|value| pod.template.labels.get(key) == Some(value));
    selector.is_some_and(|selector| selector.matches(&pod.template.labels)) && keys.iter().all(same)
}
