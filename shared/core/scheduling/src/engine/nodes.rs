//! Existing nodes during packing.

use super::Engine;
use super::gathering::Home;
use crate::claims::{Claims, Counted};
use crate::classes::{Class, Classes};
use crate::constraints;
use crate::constraints::AlternativeId;
use crate::dense::{self, Amounts};
use crate::packing::bin::Unit;
use crate::packing::hosts::HostCounts;
use crate::problem::ExistingNode;
use crate::problem::Problem;
use crate::topology::{self, Topology};
use crate::volumes::{Attached, PendingVolumes, SharedVolumes};
use nodeless_model::hashed::HashMap;
use nodeless_model::pod::HostPort;
use nodeless_model::{Pod, ResourceIndex};
use std::cmp::Reverse;

/// An existing node during packing.
#[derive(Clone)]
pub(crate) struct PackedNode<'p> {
    /// The index in the problem.
    pub(crate) index: usize,
    pub(crate) node: &'p ExistingNode,
    pub(super) capacity: Capacity,
    /// The number of resources in a row of amounts; what is behind them are numbers of volumes, and of pods with claims.
    resources: usize,
    /// Classes, and the number of their pending pods that it was launched for.
    nominated: Vec<(usize, u32)>,
    /// The total requests of these; empty if there are none.
    held: Amounts,
}

/// What is free on an existing node, and the pods there that restrict others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    free: Amounts,
    ports: Vec<HostPort>,
    pub(crate) hosts: HostCounts,
    volumes: SharedVolumes,
}

/// The nodes of a problem, in the order in which they are filled, and what it took to count the pods with claims that they hold.
pub(super) fn nodes_of_problem<'a, 'p>(
    input: &'p Problem<'a>,
    resources: &ResourceIndex,
    claims: &Claims,
    classes: &Classes<'_>,
    topology: &mut Topology<'a>,
) -> (Vec<PackedNode<'p>>, Counted) {
    let running = Running::on(input, resources, topology);
    let node = |index| PackedNode {
        index,
        node: &input.nodes[index],
        capacity: running.capacity(input, index, resources, &classes.volumes),
        resources: resources.len() - resources.columns().count(),
        nominated: Vec::new(),
        held: Amounts::default(),
    };
    let mut nodes: Vec<PackedNode<'p>> = (0..input.nodes.len()).map(node).collect();
    let counted = claims.on_nodes(input, resources, nodes.iter_mut().map(|node| (node.node, &mut node.capacity.free)));
    nominate(input, classes, &mut nodes);
    nodes.sort_by_key(|node| (Reverse(node.node.initialized), &node.node.name));
    (nodes, counted)
}

/// What the running pods of a problem use of its nodes, beside resources.
#[derive(Debug, Default)]
pub(crate) struct Running<'a, 'p> {
    /// By the name of a node, its pods by the groups over the host name.
    hosts: HashMap<&'a str, HostCounts>,
    /// The pods of each node, if the number of their volumes is limited.
    pods: HashMap<&'a str, &'p [&'a Pod]>,
    /// By the index of a node, the pods of DaemonSets that will run there.
    expected: HashMap<usize, HostCounts>,
}

impl<'a, 'p> Running<'a, 'p> {
    pub(crate) fn on(input: &'p Problem<'a>, resources: &ResourceIndex, topology: &mut Topology<'a>) -> Self {
        let limited = resources.columns().next().is_some();
        let pods = input.bound_pods.iter().filter(|_| limited).map(|node| (node.name, &node.pods[..])).collect();
        Self { hosts: count_hosts(input, topology), pods, expected: count_expected(input, topology) }
    }

    /// The capacity of a node of a problem.
    pub(crate) fn capacity(
        &self,
        input: &Problem<'a>,
        index: usize,
        resources: &ResourceIndex,
        pending: &PendingVolumes<'_>,
    ) -> Capacity {
        let node = &input.nodes[index];
        let name = node.name.as_str();
        let mut made = Capacity {
            free: resources.amounts(&node.available),
            ports: node.host_ports.clone(),
            hosts: self.hosts.get(name).cloned().unwrap_or_default(),
            volumes: SharedVolumes::default(),
        };
        if let Some(expected) = self.expected.get(&index) {
            made.hosts.join(expected);
        }
        if resources.columns().next().is_some() {
            let pods = self.pods.get(name).copied().unwrap_or_default();
            made.attach(Attached::new(input, resources, pending, node, pods));
        }
        made
    }
}

impl Capacity {
    /// The number of pods of a class that fit into what is free, at most `most`.
    pub(super) fn times(
        &self,
        free: &[i64],
        class: &Class<'_>,
        level: usize,
        topology: &Topology<'_>,
        most: u32,
    ) -> u32 {
        let most = most.min(class.max_per_node());
        let times = self.volumes.times(class.mounts(), free, dense::times_fitting(&class.requests, free, most));
        if times == 0 || !class.ports_free(&self.ports) {
            return 0;
        }
        if class.is_related() { times.min(self.hosts.max_added(class, level, topology)) } else { times }
    }

    /// Whether a pod of a class fits.
    pub(crate) fn takes(&self, class: &Class<'_>, level: usize, topology: &Topology<'_>) -> bool {
        dense::fits(&class.requests, &self.free)
            && self.volumes.times(class.mounts(), &self.free, 1) > 0
            && class.ports_free(&self.ports)
            && (!class.is_related() || self.hosts.max_added(class, level, topology) > 0)
    }

    /// The volumes that are attached.
    pub(crate) fn attach(&mut self, attached: Attached) {
        attached.left.into_iter().for_each(|(place, left)| self.free[place] = left);
        self.volumes = attached.volumes;
    }

    /// Uses amounts of resources, and ports.
    pub(crate) fn take(&mut self, amounts: &[i64], ports: &[HostPort]) {
        dense::take(&mut self.free, amounts, 1);
        self.ports.extend(ports.iter().cloned());
    }

    pub(crate) fn put(&mut self, class: &Class<'_>, level: usize, times: u32) {
        self.volumes.take(class.mounts(), &mut self.free);
        self.volumes.attach(class.mounts());
        dense::take(&mut self.free, &class.requests, times);
        self.ports.extend(class.host_ports.iter().cloned());
        self.hosts.add(class, level, times);
        self.hosts.drop_preferences();
    }
}

impl Engine<'_, '_, '_> {
    /// The number of pods of a class that fit on existing nodes.
    pub(super) fn fit_on_existing(&mut self, class: usize, level: usize, alternatives: &[AlternativeId]) -> u32 {
        let pending = self.pending[class];
        let mut fitting = 0;
        for &alternative in alternatives {
            self.allow(alternative);
            let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
            let of_class = &self.classes.list[class];
            let extra = of_class.extra_work(level);
            for (node, _) in self.nodes.iter().zip(allowed).filter(|(_, allowed)| **allowed) {
                self.work.add(1 + extra);
                fitting += node.times(class, of_class, level, &self.topology, pending - fitting);
                if fitting >= pending {
                    return fitting;
                }
            }
        }
        fitting
    }

    /// The number of pods of a class that earlier plans placed on existing nodes that satisfy one of these alternatives.
    pub(super) fn planned_before(&mut self, class: usize, alternatives: &[AlternativeId]) -> u32 {
        let launched_for = self.nodes.iter().enumerate().filter(|(_, node)| node.nominated(class) > 0);
        let places: Vec<usize> = launched_for.map(|(place, _)| place).collect();
        if places.is_empty() {
            return 0;
        }
        self.work.add(places.len());
        alternatives.iter().for_each(|alternative| self.allow(*alternative));
        let may_use = |place: &&usize| {
            alternatives.iter().any(|one| self.allowed[*one].as_ref().is_some_and(|allowed| allowed[**place]))
        };
        places.iter().filter(may_use).map(|place| self.nodes[*place].nominated(class)).sum()
    }

    /// Computes the nodes that satisfy an alternative.
    pub(super) fn allow(&mut self, alternative: AlternativeId) {
        if self.allowed.len() <= alternative {
            self.allowed.resize(alternative + 1, None);
        }
        self.allowed[alternative].get_or_insert_with(|| {
            self.work.add(self.nodes.len());
            let alternative = &self.classes.alternatives[alternative];
            self.nodes.iter().map(|node| may_go_to(alternative, node.node)).collect()
        });
    }

    /// Fills the existing nodes, in their order.
    pub(super) fn fill_existing(&mut self, level: usize, unit: &mut Unit) {
        let class = &self.classes.list[unit.class];
        if self.nodes.is_empty() || class.unmet(level, &unit.target, &self.topology).next().is_some() {
            return;
        }
        let home = self.home(unit.class, level, unit.pending);
        if home == Some(Home::New) {
            return;
        }
        for &alternative in &unit.alternatives {
            self.allow(alternative);
            let class = &self.classes.list[unit.class];
            let extra = class.extra_work(level);
            // Nodes that were launched for these pods come first.
            for first in [true, false] {
                let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
                let nodes = self.nodes.iter_mut().zip(allowed).enumerate().filter(|(_, (_, allowed))| **allowed);
                for (_, (node, _)) in nodes.filter(|(place, _)| home.is_none_or(|home| home == Home::Node(*place))) {
                    if unit.pending == 0 {
                        return;
                    }
                    self.work.add(1 + extra);
                    let most = if first { node.nominated(unit.class).min(unit.pending) } else { unit.pending };
                    if most == 0 {
                        continue;
                    }
                    let times = node.times(unit.class, class, level, &self.topology, most);
                    if times > 0 {
                        node.put(unit.class, class, level, times);
                        self.topology.record_host(&class.selected_hosts, times);
                        unit.pending -= times;
                        self.changes += 1;
                        self.placed.push((unit.class, node.index, times));
                    }
                }
            }
        }
    }

    /// Frees the capacity that is reserved for pods that were not placed on their nominated node.
    pub(super) fn release(&mut self, level: usize, units: &mut [Unit]) {
        let mut any = false;
        for node in self.nodes.iter_mut().filter(|node| !node.nominated.is_empty()) {
            any = true;
            node.nominated.clear();
            node.held.fill(0);
        }
        if any {
            self.changes += 1;
            units.iter_mut().filter(|unit| unit.pending > 0).for_each(|unit| self.fill_existing(level, unit));
        }
    }
}

/// Counts the running pods of existing nodes for the groups over the host name, by the name of the node.
fn count_hosts<'a>(input: &Problem<'a>, topology: &mut Topology<'a>) -> HashMap<&'a str, HostCounts> {
    let mut hosts: HashMap<&'a str, HostCounts> = HashMap::default();
    if topology.groups.list.is_empty() {
        return hosts;
    }
    let pending = topology::pending_names(input);
    for bound in &input.bound_pods {
        for pod in topology::counted_pods(bound, &pending) {
            let signature = topology.groups.signature(pod);
            let groups = &topology.groups;
            let over_hosts = |group: &&usize| topology.key(**group).is_none();
            let counts = |group: &&usize| topology::counts_node(&groups.list[**group].filter, bound);
            let mut selected = groups.selected[signature].iter().filter(over_hosts).filter(counts).peekable();
            let mut owned = groups.owned_by_bound(pod).iter().filter(over_hosts).peekable();
            if selected.peek().is_some() || owned.peek().is_some() {
                hosts.entry(bound.name).or_default().change_bound(selected, owned, |number| *number += 1);
            }
        }
    }
    hosts
}

/// Counts the pods of DaemonSets that will run on existing and joining nodes for the groups over the host name, by the index of the node.
fn count_expected<'a>(input: &Problem<'a>, topology: &mut Topology<'a>) -> HashMap<usize, HostCounts> {
    let mut hosts: HashMap<usize, HostCounts> = HashMap::default();
    if topology.groups.list.is_empty() {
        return hosts;
    }
    for (index, node) in input.nodes.iter().enumerate() {
        for set in node.daemon_sets.iter().filter_map(|set| input.daemon_sets.get(*set)) {
            let signature = topology.groups.signature(&set.template);
            let over_hosts = |group: &&usize| topology.key(**group).is_none();
            let counts = |group: &&usize| {
                let filter = &topology.groups.list[**group].filter;
                filter.is_trivial() || topology::counts(filter, &node.requirements, &node.taints)
            };
            let mut selected = topology.groups.selected[signature].iter().filter(over_hosts).filter(counts).peekable();
            let mut owned = topology.groups.owned_by_bound(&set.template).iter().filter(over_hosts).peekable();
            if selected.peek().is_some() || owned.peek().is_some() {
                hosts.entry(index).or_default().change_bound(selected, owned, |number| *number += 1);
            }
        }
    }
    hosts
}

/// Counts for each node the pending pods that it was launched for.
fn nominate(input: &Problem<'_>, classes: &Classes<'_>, nodes: &mut [PackedNode<'_>]) {
    if nodes.iter().all(|node| node.node.nominated.is_empty()) {
        return;
    }
    let mut class_of: HashMap<(&str, &str), usize> = HashMap::default();
    for (index, class) in classes.list.iter().enumerate() {
        let names = class.pods.iter().map(|pod| (input.pods[*pod].namespace.as_str(), input.pods[*pod].name.as_str()));
        class_of.extend(names.map(|name| (name, index)));
    }
    for node in nodes {
        for pod in &node.node.nominated {
            // A pod counts for one node, even if two were launched for it.
            let Some(class) = pod.split_once('/').and_then(|name| class_of.remove(&name)) else { continue };
            match node.nominated.iter_mut().find(|(known, _)| *known == class) {
                Some((_, count)) => *count += 1,
                None => node.nominated.push((class, 1)),
            }
            let requests = &classes.list[class].requests;
            if node.held.is_empty() {
                node.held = vec![0; requests.len()].into();
            }
            dense::add(&mut node.held, requests, 1);
        }
    }
}

impl PackedNode<'_> {
    /// The number of pending pods of a class for which the node was launched.
    pub(super) fn nominated(&self, class: usize) -> u32 {
        self.nominated.iter().find(|(known, _)| *known == class).map_or(0, |(_, count)| *count)
    }

    /// The number of pods of a class that fit in addition to the present and nominated pods, at most `most`.
    pub(super) fn times(
        &self,
        index: usize,
        class: &Class<'_>,
        level: usize,
        topology: &Topology<'_>,
        most: u32,
    ) -> u32 {
        if self.nominated.is_empty() {
            return self.capacity.times(&self.capacity.free, class, level, topology, most);
        }
        self.capacity.times(&self.free_for(&[(index, class)]), class, level, topology, most)
    }

    /// What is free for pods of these classes beside the nominated pods of others.
    pub(super) fn free_for(&self, classes: &[(usize, &Class<'_>)]) -> Amounts {
        let mut free = self.capacity.free.clone();
        if self.nominated.is_empty() {
            return free;
        }
        dense::take(&mut free, &self.held, 1);
        // The limit of volumes may be lower than it was when the node was planned: as many of the nominated pods as it allows stay.
        free[self.resources..].iter_mut().for_each(|left| *left = (*left).max(0));
        for (index, class) in classes {
            dense::add(&mut free, &class.requests, self.nominated(*index));
        }
        let present = self.capacity.free.iter().zip(&mut free).skip(self.resources);
        present.for_each(|(present, left)| *left = (*left).min(*present));
        free
    }

    pub(super) fn put(&mut self, index: usize, class: &Class<'_>, level: usize, times: u32) {
        self.capacity.put(class, level, times);
        if let Some((_, count)) = self.nominated.iter_mut().find(|(known, _)| *known == index) {
            let expected = times.min(*count);
            *count -= expected;
            dense::take(&mut self.held, &class.requests, expected);
        }
    }
}

/// Whether labels and taints of a node satisfy an alternative.
pub(crate) fn may_go_to(alternative: &constraints::Alternative, node: &ExistingNode) -> bool {
    alternative.first_repelling(&node.taints).is_none()
        && constraints::covers(&node.requirements, &alternative.requirements)
}
