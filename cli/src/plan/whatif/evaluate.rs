//! Plans today's cluster and its alternatives, and compares what they cost. No I/O and no clock.

use super::blocked::{self, Blocked};
use super::changes::{Widening, claims_of, repacked};
use super::compare::{Difference, NodePoolChange, changes, difference, lost};
use super::cost::{Cost, PodWithoutNode, PricedNode, after, unschedulable};
use super::moved::{self, Moved};
use crate::error::CliError;
use crate::plan::input::offline::Offline;
use nodeless_api::view::ClusterView;
use nodeless_model::NodeClaim;
use nodeless_planner::CurrentNode;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What every plan has in common.
#[derive(Clone, Copy)]
pub(super) struct Settings<'s> {
    pub(super) claims: &'s [NodeClaim],
    pub(super) offline: Offline<'s>,
}

/// What is compared with today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum AlternativeKind {
    /// The nodes that nodeless would launch for the same pods.
    Repacked,
    /// The same with arm64 in all NodePools.
    Arm64,
    /// The same with spot in all NodePools.
    Spot,
    /// The same, also for the pods on nodes of no NodePool.
    Moved,
    /// The same with the manifests of a file.
    Manifests { file: String },
}

/// An alternative, compared with today.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Alternative {
    #[serde(flatten)]
    pub(crate) kind: AlternativeKind,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    pub(crate) difference: Difference,
    pub(crate) changes: Vec<NodePoolChange>,
    /// The NodePools whose requirement is widened.
    pub(crate) widened: Vec<String>,
    /// What blocks disruption on the way; null if nothing does.
    pub(crate) blocked: Option<Blocked>,
    /// Which pods move, of the alternative for those on nodes of no NodePool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved: Option<Moved>,
}

/// Today's cluster.
pub(super) struct Today<'t> {
    settings: Settings<'t>,
    view: &'t ClusterView,
    nodes: Vec<CurrentNode>,
    /// The names of the nodes that stay in every alternative: of no NodePool, or of a static one.
    stays: BTreeSet<String>,
    pub(super) cost: Cost,
    /// What is assumed, and which NodePools cannot be used.
    pub(super) assumptions: Vec<String>,
}

impl<'t> Today<'t> {
    /// Evaluates the cluster as it is.
    pub(super) fn new(view: &'t ClusterView, settings: Settings<'t>) -> Self {
        let run = settings.offline.dry_run(view.clone(), settings.claims.to_vec(), true);
        let nodes = run.current_nodes();
        let is_static = |name: &str| view.node_pools.iter().any(|pool| pool.name == name && pool.replicas.is_some());
        let stays = nodes.iter().filter(|node| node.node_pool.as_deref().is_none_or(is_static));
        let stays: BTreeSet<String> = stays.map(|node| node.name.clone()).collect();
        let mut pending: Vec<PodWithoutNode> = view
            .pods
            .iter()
            .filter(|pod| pod.awaits_node())
            .map(|pod| PodWithoutNode { pod: pod.key(), reasons: Vec::new() })
            .collect();
        pending.sort();
        let priced: Vec<PricedNode> =
            nodes.iter().map(|node| PricedNode::current(node, settings.offline.catalog)).collect();
        let unusable = run.unusable().map(|(pool, why)| format!("NodePool {pool} cannot be used: {why}"));
        let assumptions =
            run.assumptions().iter().cloned().chain(unusable).chain(unknown_nodes(view, &nodes)).collect();
        Self {
            settings,
            view,
            cost: Cost::new(&priced, pending, settings.offline.commitments),
            nodes,
            stays,
            assumptions,
        }
    }

    /// The number of nodes that stay in every alternative.
    pub(super) fn staying(&self) -> usize {
        self.stays.len()
    }

    /// What nodeless would launch for the same pods, and the same with wider requirements.
    pub(super) fn standard(&self) -> Vec<Alternative> {
        let repacked = self.alternative(AlternativeKind::Repacked, self.view, Vec::new(), true);
        let widen = |kind: AlternativeKind, widening: Widening| {
            let mut view = self.view.clone();
            let widened = widening.apply(&mut view);
            self.alternative(kind, &view, widened, false)
        };
        vec![repacked, widen(AlternativeKind::Arm64, Widening::Arm64), widen(AlternativeKind::Spot, Widening::Spot)]
    }

    /// What nodeless would launch also for the pods on nodes of no NodePool. `None` if there are none.
    pub(super) fn moved(&self) -> Result<Option<Alternative>, CliError> {
        let origins = moved::candidates(&self.nodes);
        if origins.is_empty() {
            return Ok(None);
        }
        let (mut view, mut assumed) = (self.view.clone(), None);
        if view.node_pools.is_empty() {
            let (pool, described) = moved::assumed_pool(&self.nodes, &origins)?;
            view.node_pools.push(pool);
            assumed = Some(described);
        }
        let mut staying = BTreeMap::new();
        let cost = loop {
            let stays = |name: &&String| !origins.contains_key(name.as_str()) || staying.contains_key(*name);
            let cost = self.repack(&view, &self.stays.iter().filter(stays).cloned().collect());
            // A node stays with all its pods, and its free capacity may be enough for others.
            let mut more = moved::staying(&view, &origins, &lost(&self.cost, &cost));
            more.retain(|node, _| !staying.contains_key(node));
            if more.is_empty() {
                break cost;
            }
            staying.extend(more);
        };
        let (difference, changes) = (difference(&self.cost, &cost), changes(&self.cost, &cost));
        let from = moved::sources(&view, &self.nodes, &origins);
        let moved = Some(Moved { from, stays: staying.into_values().collect(), assumed });
        let (kind, widened, blocked) = (AlternativeKind::Moved, Vec::new(), None);
        Ok(Some(Alternative { kind, cost, difference, changes, widened, blocked, moved }))
    }

    /// The cluster with the manifests of a file.
    pub(super) fn with_manifests(&self, file: &str, view: &ClusterView) -> Alternative {
        self.alternative(AlternativeKind::Manifests { file: file.to_owned() }, view, Vec::new(), true)
    }

    /// `with_blocked` also finds what blocks disruption, which takes another plan.
    fn alternative(
        &self,
        kind: AlternativeKind,
        view: &ClusterView,
        widened: Vec<String>,
        with_blocked: bool,
    ) -> Alternative {
        let cost = self.repack(view, &self.stays);
        let blocked = if with_blocked { self.blocked(view) } else { None };
        let (difference, changes) = (difference(&self.cost, &cost), changes(&self.cost, &cost));
        Alternative { kind, cost, difference, changes, widened, blocked, moved: None }
    }

    /// The cost of the nodes that would be launched in place of today's, besides those that stay.
    fn repack(&self, view: &ClusterView, stays: &BTreeSet<String>) -> Cost {
        let names: BTreeSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let stays = |node: &&CurrentNode| stays.contains(&node.name);
        let staying: BTreeMap<&str, &CurrentNode> =
            self.nodes.iter().filter(stays).map(|node| (node.name.as_str(), node)).collect();
        let claims = staying.values().filter_map(|node| node.node_claim.as_deref()).collect();
        let view = repacked(view, &names, &staying.keys().copied().collect());
        let run = self.settings.offline.dry_run(view, claims_of(self.settings.claims, &claims), false);
        let Offline { catalog, commitments, .. } = self.settings.offline;
        let (problem, solution) = run.place();
        // A node costs what it costs today, and runs the pods that it has in this alternative.
        let priced = |node: &CurrentNode| PricedNode {
            price: staying.get(node.name.as_str()).and_then(|today| today.price_per_hour),
            ..PricedNode::current(node, catalog)
        };
        let nodes = after(run.current_nodes().iter().map(priced).collect(), &problem, &solution);
        Cost::new(&nodes, unschedulable(&problem, &solution, &run.faulty()), commitments)
    }

    /// The nodes that disruption does not replace until something is changed.
    fn blocked(&self, view: &ClusterView) -> Option<Blocked> {
        let run = self.settings.offline.dry_run(view.clone(), self.settings.claims.to_vec(), true);
        let (_, solution) = run.place();
        let mut blocked = blocked::nodes(&run.disruption(&solution, 1).kept);
        blocked.retain(|node, _| !self.stays.contains(node));
        if blocked.is_empty() {
            return None;
        }
        let nodes: BTreeSet<String> = blocked.keys().cloned().collect();
        let dollars_per_month = self.repack(view, &(&self.stays | &nodes)).dollars_per_month;
        Some(Blocked { nodes, causes: blocked::causes(&blocked), dollars_per_month })
    }
}

/// What an export lacks that would change the result.
fn unknown_nodes(view: &ClusterView, nodes: &[CurrentNode]) -> Vec<String> {
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let elsewhere = |node: &String| !names.contains(node.as_str());
    let pods = view.pods.iter().filter(|pod| pod.is_reschedulable() && pod.node_name.as_ref().is_some_and(elsewhere));
    let (pods, mut found) = (pods.count(), Vec::new());
    if pods > 0 {
        let run = if pods == 1 { "1 pod runs".to_owned() } else { format!("{pods} pods run") };
        found.push(format!("{run} on nodes that the input does not contain; no alternative has them"));
    }
    if view.daemon_sets.is_empty() && view.pods().any(nodeless_model::Pod::is_owned_by_daemon_set) {
        found.push("the input has pods of DaemonSets and no DaemonSet, so launched nodes have no overhead".to_owned());
    }
    found
}
