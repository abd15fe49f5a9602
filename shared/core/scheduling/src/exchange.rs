//! Exchanges equal pods of a plan, so that the kube-scheduler can bind them where they are planned.
//!
//! The kube-scheduler checks `maxSkew` for one pod after another, in the order of its queue: priority, then age. A plan satisfies a
//! spread with all pods in place, but if its first three pods are planned for one zone, the second is not bound there. Which of
//! several equal pods is where makes no difference to the plan.

use crate::classes::equal_pods;
use crate::constraints::groups::{GroupId, Groups, Kind};
use crate::problem::solution::{Placement, Solution};
use crate::problem::{ExistingNode, Problem};
use crate::topology::Topology;
use nodeless_model::hashed::HashMap;
use nodeless_model::{Pod, Requirement, labels};
use std::collections::{BTreeMap, VecDeque};

/// Where a pod is planned: an index of nodes or of launches. Pods on existing nodes are bound first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    Node(usize),
    Launch(usize),
}

/// Assigns the sites of equal pods to these pods anew; every site keeps its number of equal pods. A pod stays on the node that was
/// launched for it, so that a later plan agrees with an earlier one. Of the others, the oldest are on existing nodes; and those with a
/// required spread are planned, in the order of the queue, for the domain that has the least counted pods by then.
pub fn exchange_equal_pods(problem: &Problem<'_>, solution: &mut Solution) {
    let is_known = problem.nodes.iter().any(|node| !node.nominated.is_empty());
    if problem.pods.len() < 2 || (solution.launches.len() < 2 && !is_known) {
        return;
    }
    let topology = Topology::new(problem, Groups::new(problem, true), &mut []);
    let is_spread =
        |group: &&GroupId| topology.key(**group).is_some() && matches!(topology.kind(**group), Kind::Spread { .. });
    let sites = sites(solution);
    let launched_for = launched_for(problem);
    let mut exchanged: BTreeMap<usize, Site> = BTreeMap::new();
    for mut pods in equal_pods(problem, &topology.groups.relations) {
        // Pods of buffers do not exist, and must not take the place of others.
        pods.retain(|pod| sites.contains_key(pod) && !problem.pods[*pod].is_virtual());
        let Some(first) = pods.first().filter(|_| pods.len() > 1) else { continue };
        let owned = &topology.groups.owned[topology.groups.relations[*first].owned];
        let spreads: Vec<GroupId> = owned.required.iter().filter(is_spread).copied().collect();
        let mut left: BTreeMap<Site, usize> = BTreeMap::new();
        pods.iter().for_each(|pod| *left.entry(sites[pod]).or_default() += 1);
        let (mut kept, mut others) = (Vec::new(), Vec::new());
        for pod in pods {
            let site = launched_for.get(&name(problem.pods[pod])).map(|node| Site::Node(*node));
            match site.and_then(|site| left.get_mut(&site)).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    kept.extend(site.map(|site| (pod, site)));
                }
                None => others.push(pod),
            }
        }
        let mut order = Order::new(problem, solution, &topology, spreads);
        for (_, site) in &kept {
            let domains = order.domains(*site);
            order.count(&domains);
        }
        let ordered = order.ordered(left);
        exchanged.extend(kept.into_iter().chain(others.into_iter().zip(ordered)));
    }
    apply(exchanged, solution);
}

fn name(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}

/// The nodes that were launched for pods, by the names of the pods.
fn launched_for<'p>(problem: &'p Problem<'_>) -> HashMap<(&'p str, &'p str), usize> {
    let nodes = problem.nodes.iter().enumerate();
    let of_node = |(index, node): (usize, &'p ExistingNode)| {
        node.nominated.iter().filter_map(move |pod| Some((pod.split_once('/')?, index)))
    };
    nodes.flat_map(of_node).collect()
}

/// The sites of all pods that are scheduled.
fn sites(solution: &Solution) -> HashMap<usize, Site> {
    let existing = solution.placements.iter().map(|placement| (placement.pod, Site::Node(placement.node)));
    let launches = solution.launches.iter().enumerate();
    let new = launches.flat_map(|(index, launch)| launch.pods.iter().map(move |pod| (*pod, Site::Launch(index))));
    existing.chain(new).collect()
}

fn apply(exchanged: BTreeMap<usize, Site>, solution: &mut Solution) {
    for launch in &mut solution.launches {
        launch.pods.retain(|pod| !exchanged.contains_key(pod));
    }
    solution.placements.retain(|placement| !exchanged.contains_key(&placement.pod));
    for (pod, site) in exchanged {
        match site {
            Site::Node(node) => solution.placements.push(Placement { pod, node }),
            Site::Launch(launch) => solution.launches[launch].pods.push(pod),
        }
    }
    solution.placements.sort_unstable();
    solution.launches.iter_mut().for_each(|launch| launch.pods.sort_unstable());
}

/// The domains of nodes for some spreads.
struct Order<'o, 'a> {
    problem: &'o Problem<'a>,
    solution: &'o Solution,
    topology: &'o Topology<'a>,
    spreads: Vec<GroupId>,
    /// By spread, the pods of the plan in each domain so far.
    counts: Vec<HashMap<String, u32>>,
}

impl<'o, 'a> Order<'o, 'a> {
    fn new(
        problem: &'o Problem<'a>,
        solution: &'o Solution,
        topology: &'o Topology<'a>,
        spreads: Vec<GroupId>,
    ) -> Self {
        Self { problem, solution, topology, counts: vec![HashMap::default(); spreads.len()], spreads }
    }

    /// The sites in an order in which each is in the domain with the least pods, as far as there is a choice: first existing nodes,
    /// because others take time to join. Pods of one site follow each other as late as possible.
    fn ordered(&mut self, sites: BTreeMap<Site, usize>) -> Vec<Site> {
        let is_node = |site: &Site| matches!(site, Site::Node(_));
        let (existing, new): (BTreeMap<_, _>, BTreeMap<_, _>) = sites.into_iter().partition(|(site, _)| is_node(site));
        let mut ordered = Vec::new();
        for sites in [existing, new] {
            let mut rounds: Vec<(usize, Site)> =
                sites.into_iter().flat_map(|(site, pods)| (0..pods).map(move |round| (round, site))).collect();
            rounds.sort_unstable();
            let mut waiting: BTreeMap<Vec<String>, VecDeque<Site>> = BTreeMap::new();
            for (_, site) in rounds {
                waiting.entry(self.domains(site)).or_default().push_back(site);
            }
            while let Some(least) = waiting.keys().min_by_key(|domains| self.counted(domains)).cloned()
                && let Some(queue) = waiting.get_mut(&least)
            {
                self.count(&least);
                ordered.extend(queue.pop_front());
                if queue.is_empty() {
                    waiting.remove(&least);
                }
            }
        }
        ordered
    }

    fn count(&mut self, domains: &[String]) {
        for (counts, domain) in self.counts.iter_mut().zip(domains) {
            *counts.entry(domain.clone()).or_insert(0) += 1;
        }
    }

    /// The number of pods in these domains, by spread.
    fn counted(&self, domains: &[String]) -> Vec<u32> {
        let of = |((group, domain), counts): ((&GroupId, &String), &HashMap<String, u32>)| {
            self.running(*group, domain) + counts.get(domain).copied().unwrap_or(0)
        };
        self.spreads.iter().zip(domains).zip(&self.counts).map(of).collect()
    }

    /// The number of running pods that a spread counts in a domain.
    fn running(&self, group: GroupId, domain: &str) -> u32 {
        let known = self.topology.key(group).map_or(&[][..], |key| &self.topology.domains[key][..]);
        let place = known.iter().skip(1).position(|value| value == domain);
        place.map_or(0, |place| self.topology.matching(group, place + 1))
    }

    /// The domains of a site; empty where one is not known.
    fn domains(&self, site: Site) -> Vec<String> {
        let (requirements, zone) = match site {
            Site::Node(node) => (&self.problem.nodes[node].requirements, None),
            Site::Launch(launch) => {
                let launch = &self.solution.launches[launch];
                (&launch.requirements, Some(launch.offering.zone.as_str()))
            }
        };
        let domain = |group: &GroupId| {
            let key = self.topology.groups.list[*group].key.as_str();
            let single = requirements.get(key).and_then(Requirement::single);
            single.or(zone.filter(|_| key == labels::ZONE)).unwrap_or_default().to_owned()
        };
        self.spreads.iter().map(domain).collect()
    }
}
