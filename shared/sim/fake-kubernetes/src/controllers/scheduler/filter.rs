//! Finds the nodes that are feasible for a pod, and why others are not.

use super::cluster::Cluster;
use super::devices::Claimed;
use super::info::{NodeInfo, PodInfo};
use super::queue::Plugin;
use super::score;
use super::topology::{self, Spread};
use super::volumes::Mount;
use nodeless_model::{Taint, TaintEffect};
use std::collections::{BTreeMap, BTreeSet};

/// Why a pod was placed on no node.
#[derive(Debug)]
pub(super) struct Refused {
    /// The reason, as kube-scheduler words it.
    pub(super) message: String,
    /// The plugins that rejected it for some node. Empty without any node.
    pub(super) rejected_by: BTreeSet<Plugin>,
    /// Whether the attempt clears the pod's `status.nominatedNodeName`. kube-scheduler does unless it finds pods to preempt: at once if
    /// there are no nodes, otherwise in the preemption plugin, which does nothing for a pod that never preempts.
    pub(super) clears_nomination: bool,
}

/// Why a node is not feasible.
struct Rejection {
    plugin: Plugin,
    reasons: Vec<String>,
}

impl Rejection {
    fn new(plugin: Plugin, reason: &str) -> Self {
        Self { plugin, reasons: vec![reason.to_owned()] }
    }
}

/// Why nodes are not feasible.
#[derive(Default)]
struct Diagnosis {
    /// The number of nodes by reason against them.
    reasons: BTreeMap<String, usize>,
    rejected_by: BTreeSet<Plugin>,
}

/// The volumes and devices that a pod needs.
struct Needs<'a> {
    mounts: Vec<Mount<'a>>,
    claimed: Claimed<'a>,
}

/// Why there is no node for a pod: the reasons against the nodes, as kube-scheduler words them, and the plugins.
type Unschedulable = (String, BTreeSet<Plugin>);

impl Cluster {
    /// The index of the node for a pod, or why there is none: the node that is nominated for it if that is feasible, and otherwise the
    /// best one.
    pub(super) fn place(&mut self, pod: &PodInfo) -> Result<usize, Refused> {
        if self.nodes.is_empty() {
            let message = "no nodes available to schedule pods".to_owned();
            return Err(Refused { message, rejected_by: BTreeSet::new(), clears_nomination: true });
        }
        let nodes = self.nodes.len();
        self.feasible(pod).map_err(|(reasons, rejected_by)| Refused {
            message: format!("0/{nodes} nodes are available: {reasons}."),
            rejected_by,
            clears_nomination: !pod.never_preempts,
        })
    }

    /// The score of each feasible node by its name, without regard to nominations.
    pub(super) fn scores(&mut self, pod: &PodInfo) -> BTreeMap<String, i64> {
        let storage = std::mem::take(&mut self.storage);
        let devices = std::mem::take(&mut self.devices);
        let scores = storage.mounts(pod).map(|mounts| {
            let spreads = topology::spreads(self, pod);
            let needs = Needs { mounts, claimed: devices.claimed(pod) };
            let (fitting, _) = self.fitting(pod, &spreads, &needs);
            let names = fitting.iter().map(|index| self.nodes[*index].name.clone());
            names.zip(score::scores(self, pod, &fitting)).collect()
        });
        (self.storage, self.devices) = (storage, devices);
        scores.unwrap_or_default()
    }

    fn feasible(&mut self, pod: &PodInfo) -> Result<usize, Unschedulable> {
        let (storage, devices) = (std::mem::take(&mut self.storage), std::mem::take(&mut self.devices));
        let mounts = storage.mounts(pod).map_err(|message| (message, BTreeSet::from([Plugin::VolumeBinding])));
        let claimed = devices.claimed(pod);
        let found = mounts.and_then(|mounts| self.find(pod, &Needs { mounts, claimed }));
        (self.storage, self.devices) = (storage, devices);
        found
    }

    fn find(&mut self, pod: &PodInfo, needs: &Needs<'_>) -> Result<usize, Unschedulable> {
        let spreads = topology::spreads(self, pod);
        let nominated = self.nodes.iter().position(|node| pod.nominated_node.as_ref() == Some(&node.name));
        if let Some(index) = nominated.filter(|index| self.against(pod, *index, &spreads, needs).is_none()) {
            return Ok(index);
        }
        let (fitting, Diagnosis { reasons, rejected_by }) = self.fitting(pod, &spreads, needs);
        score::best(self, pod, &fitting).ok_or_else(|| {
            let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            parts.sort();
            (parts.join(", "), rejected_by)
        })
    }

    /// The indices of the feasible nodes, and why the others are not.
    fn fitting(&mut self, pod: &PodInfo, spreads: &[Spread<'_>], needs: &Needs<'_>) -> (Vec<usize>, Diagnosis) {
        let mut diagnosis = Diagnosis::default();
        let mut fitting = Vec::new();
        for index in 0..self.nodes.len() {
            let Some(against) = self.against(pod, index, spreads, needs) else {
                fitting.push(index);
                continue;
            };
            diagnosis.rejected_by.insert(against.plugin);
            for reason in against.reasons {
                *diagnosis.reasons.entry(reason).or_default() += 1;
            }
        }
        (fitting, diagnosis)
    }

    /// Why a node is not feasible for the pod: the reasons of the first filter that rejects it. The node has to be feasible both with the
    /// pods that are nominated for it and without them, as in kube-scheduler.
    fn against(&mut self, pod: &PodInfo, index: usize, spreads: &[Spread<'_>], needs: &Needs<'_>) -> Option<Rejection> {
        let nominated = self.nodes[index].nominated_before(pod);
        if !nominated.is_empty() {
            nominated.iter().for_each(|other| self.nodes[index].add(other.clone()));
            let counted = topology::spreads(self, pod);
            let against = self.filter(pod, &self.nodes[index], &counted, needs);
            self.nodes[index].remove_last(&nominated);
            if against.is_some() {
                return against;
            }
        }
        self.filter(pod, &self.nodes[index], spreads, needs)
    }

    fn filter(&self, pod: &PodInfo, node: &NodeInfo, spreads: &[Spread<'_>], needs: &Needs<'_>) -> Option<Rejection> {
        let by = |plugin, reason: &str| Some(Rejection::new(plugin, reason));
        if self.refused.iter().any(|(key, value)| pod.labels.get(key) == Some(value)) {
            return by(Plugin::OutOfTree, "node(s) were refused by a plugin");
        }
        if node.unschedulable && !tolerates_cordon(pod) {
            return by(Plugin::NodeUnschedulable, "node(s) were unschedulable");
        }
        if let Some(taint) = node.first_untolerated(pod, false) {
            let reason = format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
            return by(Plugin::TaintToleration, &reason);
        }
        if !pod.selects(node) {
            return by(Plugin::NodeAffinity, "node(s) didn't match Pod's node affinity/selector");
        }
        if pod.host_ports.iter().any(|port| node.ports.iter().any(|taken| port.conflicts_with(taken))) {
            return by(Plugin::NodePorts, "node(s) didn't have free ports for the requested pod ports");
        }
        let reasons = insufficient(pod, node);
        if !reasons.is_empty() {
            return Some(Rejection { plugin: Plugin::NodeResourcesFit, reasons });
        }
        if let Some(reason) = topology::against_spread(node, spreads) {
            return by(Plugin::PodTopologySpread, reason);
        }
        if let Some(reason) = topology::against_affinity(self, pod, node) {
            return by(Plugin::InterPodAffinity, reason);
        }
        if let Some(reason) = needs.mounts.iter().find_map(|mount| mount.against(node)) {
            return by(Plugin::VolumeBinding, reason);
        }
        by(Plugin::DynamicResources, needs.claimed.against(node)?)
    }
}

/// Whether a pod tolerates that a node is cordoned.
pub(super) fn tolerates_cordon(pod: &PodInfo) -> bool {
    pod.tolerates(&Taint::new("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule))
}

/// The resources that are insufficient on the node.
pub(super) fn insufficient(pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
    let mut short = Vec::new();
    for (name, asked) in pod.requests.iter() {
        if asked.is_zero() || asked + node.requested.get(name) <= node.allocatable.get(name) {
            continue;
        }
        short.push(if name == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {name}") });
    }
    short
}
