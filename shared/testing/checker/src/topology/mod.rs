//! Topology constraints, evaluated for each pod as in kube-scheduler.

use super::{
    accepts_labels, daemon_sets_on, first_untolerated, may_accept_labels, own_labels, template_labels, usable,
};
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::{LabelSelector, Pod, Requirement, Requirements, StringMap, Taint, labels};
use nodeless_scheduling::{PoolOffer, Problem, Solution};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A node that exists or is launched, and its pods.
struct Site<'p> {
    name: String,
    labels: Requirements,
    taints: &'p [Taint],
    running: Vec<&'p Pod>,
    placed: Vec<&'p Pod>,
}

/// All nodes with all their pods after a solution has been carried out.
pub(super) struct World<'p> {
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

impl<'p> World<'p> {
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

    /// Searches for an order in which kube-scheduler can place all pods.
    ///
    /// Equal pods with the same node are one step. First some heuristic orders are tried, in which each pod is placed as soon
    /// as possible. If none of them succeeds, orders are searched depth first, with the pods in the emptiest domains first;
    /// unsatisfiable states are not tried again. After [`MAX_ORDER_STEPS`] the search ends, and the spread is treated as
    /// violated.
    fn spread_violations(&self) -> Vec<String> {
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

/// The domains in which nodes can be launched, by pod, key and the node inclusion policies of a spread.
type Offered = BTreeMap<(String, String, bool, bool), BTreeSet<String>>;

/// The domains in which a node may be: if its NodePool allows several values of a label, all of them.
fn possible_domains(node: &Requirements, offer: &PoolOffer<'_>, key: &str) -> Vec<String> {
    let of_pool = template_labels(offer).get(key).and_then(Requirement::values).cloned();
    match node.get(key).and_then(Requirement::values) {
        Some(values) if labels::is_well_known(key) => values.iter().cloned().collect(),
        Some(values) => of_pool.unwrap_or_else(|| values.clone()).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Whether two terms select the same pods for their owners.
fn same_term(a: &Pod, one: &PodAffinityTerm, b: &Pod, other: &PodAffinityTerm) -> bool {
    let mut keys = one.match_label_keys.iter().chain(&one.mismatch_label_keys);
    a.namespace == b.namespace
        && one == other
        && keys.all(|key| a.template.labels.get(key) == b.template.labels.get(key))
}

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
