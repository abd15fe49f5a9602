//! Which DaemonSets take capacity of a node.
//!
//! The kube-scheduler leaves the pod of a DaemonSet pending on a node that has no space for it, and the node takes other pods. So a
//! DaemonSet without space on an instance type is left out there, in the order of [`ranked`].

use crate::constraints::daemons;
use crate::problem::reason::TakenByDaemonSet;
use nodeless_model::pod::HostPort;
use nodeless_model::resources::name;
use nodeless_model::{DaemonSet, DaemonSetName, Pod, Requirements, ResourceList, Taint};
use std::cmp::Reverse;

/// A DaemonSet in the order of [`ranked`].
#[derive(Clone, Debug)]
pub(crate) struct Ranked<'d> {
    /// The index among all DaemonSets.
    pub(crate) place: usize,
    pub(crate) set: &'d DaemonSet,
    /// The alternatives of the required labels of its nodes.
    pub(crate) labels: Vec<Requirements>,
}

/// Bytes of memory that count as much as one CPU in the size of a DaemonSet, as in general purpose instance types.
const BYTES_PER_CPU: i64 = 4 << 30;

/// DaemonSets in the order in which they get capacity: the highest priority first, as the kube-scheduler places their pods; then the
/// smallest, so that a large one does not take the place of many. Those that a ResourceQuota refuses have no pods.
pub(crate) fn ranked(sets: &[DaemonSet], counts: impl Fn(&DaemonSet) -> bool) -> Vec<Ranked<'_>> {
    let counts = |(_, set): &(usize, &DaemonSet)| set.refused_by.is_none() && counts(set);
    let mut sets: Vec<(usize, &DaemonSet)> = sets.iter().enumerate().filter(counts).collect();
    sets.sort_by_cached_key(|(_, set)| {
        (Reverse(set.template.template.priority), size(set), set.namespace.clone(), set.name.clone())
    });
    let with_labels = |(place, set)| Ranked { place, set, labels: daemons::alternatives(&set.template) };
    sets.into_iter().map(with_labels).collect()
}

/// In thousandths of a CPU.
fn size(set: &DaemonSet) -> i64 {
    let requests = &set.template.template.requests;
    requests.get(name::CPU).milli().max(requests.get(name::MEMORY).milli() / BYTES_PER_CPU)
}

/// The DaemonSets of a node.
pub(crate) struct OnNode<'d> {
    /// Those that have space there, each with its index among all DaemonSets.
    pub(crate) sets: Vec<(usize, &'d DaemonSet)>,
    /// Their requests.
    pub(crate) requests: ResourceList,
    /// Those without space.
    pub(crate) left_out: Vec<&'d DaemonSet>,
}

impl<'d> OnNode<'d> {
    /// Of these DaemonSets, those that run on a node with these labels, taints and capacity.
    pub(crate) fn new(sets: &[Ranked<'d>], labels: &Requirements, taints: &[Taint], capacity: &ResourceList) -> Self {
        let runs = |one: &&Ranked<'d>| daemons::runs_with(&one.set.template, &one.labels, labels, taints);
        let sets: Vec<(usize, &DaemonSet)> = sets.iter().filter(runs).map(|one| (one.place, one.set)).collect();
        let (requests, with_space) = with_space(sets.iter().map(|(_, set)| *set), capacity);
        if !with_space.contains(&false) {
            return Self { sets, requests, left_out: Vec::new() };
        }
        let (with, without): (Vec<_>, Vec<_>) = sets.into_iter().zip(with_space).partition(|(_, has_space)| *has_space);
        Self {
            sets: with.into_iter().map(|(set, _)| set).collect(),
            requests,
            left_out: without.into_iter().map(|((_, set), _)| set).collect(),
        }
    }

    /// The DaemonSets, by their indices, that have no pod among those of the node yet, and whose pods no scheduling gate holds.
    pub(crate) fn expected(&self, pods: &[&Pod]) -> Vec<usize> {
        let present: Vec<&Pod> =
            pods.iter().copied().filter(|pod| pod.is_active() && pod.is_owned_by_daemon_set()).collect();
        let is_expected = |set: &DaemonSet| is_created(set) && !present.iter().any(|pod| controls(set, pod));
        self.sets.iter().filter(|(_, set)| is_expected(set)).map(|(place, _)| *place).collect()
    }

    /// Whether a pod is of a DaemonSet without space, which may have been smaller when the pod was created.
    pub(crate) fn leaves_out(&self, pod: &Pod) -> bool {
        self.left_out.iter().any(|set| controls(set, pod))
    }
}

/// Whether its pods are scheduled as soon as they are created.
pub(crate) fn is_created(set: &DaemonSet) -> bool {
    set.template.template.scheduling_gates.is_empty()
}

fn controls(set: &DaemonSet, pod: &Pod) -> bool {
    pod.namespace == set.namespace && pod.owner_name.as_deref() == Some(set.name.as_str())
}

/// Whether each of these DaemonSets has space on a node beside those before it, and the requests of those that have.
pub(crate) fn with_space<'d>(
    sets: impl Iterator<Item = &'d DaemonSet> + Clone,
    capacity: &ResourceList,
) -> (ResourceList, Vec<bool>) {
    let mut all = ResourceList::new();
    let mut number = 0;
    for set in sets.clone() {
        all.add(&set.template.template.requests);
        number += 1;
    }
    if first_lacking(&all, capacity).is_none() {
        return (all, vec![true; number]);
    }
    let mut taken = ResourceList::new();
    let has_space = |set: &DaemonSet| {
        let mut with = taken.clone();
        with.add(&set.template.template.requests);
        let fits = first_lacking(&with, capacity).is_none();
        if fits {
            taken = with;
        }
        fits
    };
    let with_space = sets.map(has_space).collect();
    (taken, with_space)
}

/// The first resource of which more is requested than a node has.
pub(crate) fn first_lacking<'r>(requests: &'r ResourceList, capacity: &ResourceList) -> Option<&'r str> {
    requests.iter().find(|(name, asked)| *asked > capacity.get(name)).map(|(name, _)| name)
}

/// The DaemonSet that takes most of a resource.
pub(crate) fn most_taken(sets: &[DaemonSet], resource: &str) -> Option<TakenByDaemonSet> {
    let requested = |set: &&DaemonSet| set.template.template.requests.get(resource);
    let most = sets.iter().max_by_key(requested).filter(|set| !requested(set).is_zero())?;
    Some(TakenByDaemonSet { name: most.key(), resource: resource.to_owned(), requested: requested(&most) })
}

/// The first of these host ports that a DaemonSet takes.
pub(crate) fn taken_port<'p>(
    sets: &[DaemonSet],
    mut ports: impl Iterator<Item = &'p HostPort>,
) -> Option<(i32, DaemonSetName)> {
    ports.find_map(|port| {
        let takes = |set: &&DaemonSet| set.template.template.host_ports.iter().any(|own| own.conflicts_with(port));
        sets.iter().find(takes).map(|set| (port.port, set.key()))
    })
}
