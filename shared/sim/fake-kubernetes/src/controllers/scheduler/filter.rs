//! Which nodes are feasible for a pod, and why others are not.

use super::info::{NodeInfo, PodInfo};
use super::score;
use super::topology::{self, Spread};
use super::volumes::Storage;
use crate::server::{ApiServer, Status};
use nodeless_model::{StringMap, Taint, TaintEffect};
use std::collections::BTreeMap;

/// The cluster during one round of scheduling.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<NodeInfo>,
    /// Labels of the namespaces.
    pub(super) namespaces: BTreeMap<String, StringMap>,
    /// The volumes that pending pods may need.
    pub(super) storage: Storage,
}

impl Cluster {
    /// The index of the best node for a pod, or why there is none, as kube-scheduler words it.
    pub(super) fn place(&self, pod: &PodInfo) -> Result<usize, String> {
        if self.nodes.is_empty() {
            return Err("no nodes available to schedule pods".to_owned());
        }
        let refused = |what: String| format!("0/{} nodes are available: {what}.", self.nodes.len());
        if pod.has_resource_claims {
            return Err(refused("resource claims are not supported by this simulated scheduler".to_owned()));
        }
        let mounts = self.storage.mounts(pod).map_err(refused)?;
        let spreads = topology::spreads(self, pod);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut fitting = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let mut against = self.against(pod, node, &spreads);
            if against.is_empty() {
                against.extend(mounts.iter().find_map(|mount| mount.against(node)).map(str::to_owned));
            }
            if against.is_empty() {
                fitting.push(index);
            }
            for reason in against {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        score::best(self, pod, &fitting, &spreads).ok_or_else(|| {
            let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            parts.sort();
            format!("0/{} nodes are available: {}.", self.nodes.len(), parts.join(", "))
        })
    }

    /// Creates the volumes of a pod that wait for its node.
    pub(super) fn provision(&mut self, api: &ApiServer, pod: &PodInfo, index: usize) -> Result<(), Status> {
        for mount in self.storage.mounts(pod).unwrap_or_default() {
            mount.provision(api, &self.nodes[index])?;
        }
        self.storage = Storage::read(api)?;
        Ok(())
    }

    /// Assigns a pod to a node.
    pub(super) fn add(&mut self, index: usize, pod: PodInfo) {
        self.nodes[index].add(pod);
    }

    /// Why a node is not feasible for the pod: the reasons of the first filter that rejects it.
    fn against(&self, pod: &PodInfo, node: &NodeInfo, spreads: &[Spread<'_>]) -> Vec<String> {
        let one = |reason: &str| vec![reason.to_owned()];
        let cordoned = Taint::new("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule);
        if node.unschedulable && !pod.tolerates(&cordoned) {
            return one("node(s) were unschedulable");
        }
        if let Some(taint) = node.first_untolerated(pod, false) {
            return vec![format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value)];
        }
        if !pod.selects(node) {
            return one("node(s) didn't match Pod's node affinity/selector");
        }
        if pod.host_ports.iter().any(|port| node.ports.iter().any(|taken| port.conflicts_with(taken))) {
            return one("node(s) didn't have free ports for the requested pod ports");
        }
        let short = insufficient(pod, node);
        if !short.is_empty() {
            return short;
        }
        if let Some(reason) = topology::against_spread(node, spreads) {
            return one(reason);
        }
        topology::against_affinity(self, pod, node).map(one).unwrap_or_default()
    }
}

/// The resources that are insufficient on the node.
fn insufficient(pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
    let mut short = Vec::new();
    for (name, asked) in pod.requests.iter() {
        if asked.is_zero() || asked + node.requested.get(name) <= node.allocatable.get(name) {
            continue;
        }
        short.push(if name == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {name}") });
    }
    short
}
