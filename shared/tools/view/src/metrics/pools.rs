//! Metrics of NodePools, and of nodes by the disruption budgets of their NodePools: `pkg/controllers/metrics/nodepool/controller.go` and
//! `pkg/controllers/disruption` of Karpenter.

use super::text::{Labels, Writer};
use super::{Sources, amount, count, resource_type};
use crate::objects::decode::ShownKind;
use crate::objects::node::NodeRow;
use crate::objects::node_state::{Blocking, NodeState};
use crate::objects::pool::PoolFacts;
use jiff::Timestamp;
use nodeless_disruption::allowed_disruptions;
use nodeless_model::labels::DOLLARS_PER_HOUR;
use nodeless_model::{ConsolidationPolicy, DisruptionReason, Node, Quantity, labels};
use std::collections::BTreeMap;

const REASONS: [DisruptionReason; 3] =
    [DisruptionReason::Drifted, DisruptionReason::Empty, DisruptionReason::Underutilized];
/// The number that Karpenter reports if no budget is active: the largest of 32 bits.
const UNLIMITED: u32 = i32::MAX.unsigned_abs();

pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    amounts(sources, writer);
    cost(sources, writer);
    budgets(sources, writer);
    eligible(sources, writer);
}

fn amounts(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let labels = |pool: &PoolFacts, resource: &str| {
        Labels::default().with("resource_type", &resource_type(resource)).with("nodepool", &pool.pool.name)
    };
    let help = "Limits specified on the nodepool that restrict the quantity of resources provisioned. Labeled by nodepool name and resource type.";
    if writer.gauge("karpenter_nodepools_limit", help, &[ShownKind::NodePool]) {
        for pool in sources.cluster.pools.values() {
            for (resource, limit) in pool.pool.limits.iter().filter(|(name, _)| *name != DOLLARS_PER_HOUR) {
                writer.sample(&labels(pool, resource), amount(resource, limit));
            }
            if let Some(limit) = pool.pool.limit_dollars_per_hour {
                writer.sample(&labels(pool, DOLLARS_PER_HOUR), limit);
            }
        }
    }
    let help = "The amount of resources that have been provisioned for a nodepool. Labeled by nodepool name and resource type.";
    if writer.gauge("karpenter_nodepools_usage", help, &[ShownKind::NodePool]) {
        for pool in sources.cluster.pools.values() {
            let resources = &pool.status.resources;
            for resource in resources.keys().filter(|name| *name != DOLLARS_PER_HOUR) {
                writer.sample(&labels(pool, resource), amount(resource, pool.used(resource)));
            }
            if !resources.contains_key("nodes") {
                writer.sample(&labels(pool, "nodes"), amount("nodes", Quantity::from_units(pool.status.nodes)));
            }
            if resources.contains_key(DOLLARS_PER_HOUR) {
                writer.sample(&labels(pool, DOLLARS_PER_HOUR), pool.charged(0.0));
            }
        }
    }
}

fn cost(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "Total cost of the nodepool from Karpenter's perspective. Units are determined by the cloud provider. Not an authoritative source for billing. Includes modifications due to NodeOverlays";
    if !writer.gauge("karpenter_nodepools_cost_total", help, &[ShownKind::NodePool, ShownKind::NodeClaim]) {
        return;
    }
    let mut costs: BTreeMap<&str, f64> =
        sources.cluster.pools.values().map(|pool| (pool.pool.name.as_str(), 0.0)).collect();
    for claim in sources.cluster.claims.values().filter(|claim| !claim.is_stopped()) {
        let cost = claim.node_pool.as_deref().and_then(|pool| costs.get_mut(pool));
        if let (Some(cost), Some(price)) = (cost, sources.price(claim.price, &claim.labels)) {
            *cost += price;
        }
    }
    for (pool, cost) in costs {
        writer.sample(&Labels::default().with("nodepool", pool), cost);
    }
}

/// The nodes of a NodePool that its budgets count, and those of them that are disrupted or not ready.
#[derive(Clone, Copy, Default)]
struct Counted {
    nodes: u32,
    disrupted: u32,
}

fn counted<'s>(sources: &Sources<'s>) -> BTreeMap<&'s str, Counted> {
    let mut all: BTreeMap<&str, Counted> = BTreeMap::new();
    for (node, row) in managed(sources).filter(|(_, row)| row.state != NodeState::Terminating) {
        let counted = all.entry(node.node_pool().unwrap_or_default()).or_default();
        counted.nodes += 1;
        let leaves = matches!(row.state, NodeState::Draining | NodeState::Disrupted);
        counted.disrupted += u32::from(leaves || !node.is_ready());
    }
    all
}

/// The initialized nodes with a NodeClaim.
fn managed<'s>(sources: &Sources<'s>) -> impl Iterator<Item = (&'s Node, &'s NodeRow)> {
    let nodes = &sources.cluster.nodes;
    let rows = sources.picture.nodes.iter().filter(|row| row.node_claim.is_some());
    rows.filter_map(|row| Some((nodes.get(&(String::new(), row.name.clone()))?, row)))
        .filter(|(node, _)| node.is_initialized())
}

fn budgets(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let needs = [ShownKind::Node, ShownKind::NodePool, ShownKind::NodeClaim];
    let counted = counted(sources);
    let of = |pool: &PoolFacts| counted.get(pool.pool.name.as_str()).copied().unwrap_or_default();
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&PoolFacts, DisruptionReason, Timestamp) -> u32| {
        if !writer.gauge(name, help, &needs) {
            return;
        }
        for pool in sources.cluster.pools.values() {
            for reason in REASONS {
                let labels = Labels::default().with("nodepool", &pool.pool.name).with("reason", &format!("{reason:?}"));
                writer.sample(&labels, f64::from(value(pool, reason, sources.now)));
            }
        }
    };
    gauge(
        "karpenter_nodepools_allowed_disruptions",
        "The number of nodes for a given NodePool that can be concurrently disrupting at a point in time. Labeled by NodePool. Note that allowed disruptions can change very rapidly, as new nodes may be created and others may be deleted at any point.",
        &|pool, reason, now| allowed_disruptions(&pool.pool, reason, of(pool).nodes, now).unwrap_or(UNLIMITED),
    );
    gauge(
        "karpenter_nodepools_nodes_consuming_budgets",
        "The number of nodes consuming the budget of a nodepool at a point in time. Labeled by NodePool.",
        &|pool, _, _| of(pool).disrupted,
    );
}

/// The nodes that Karpenter's methods consider, before budgets and simulations.
fn eligible(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let needs =
        [ShownKind::Node, ShownKind::Pod, ShownKind::NodePool, ShownKind::NodeClaim, ShownKind::PodDisruptionBudget];
    let help = "Number of nodes eligible for disruption by Karpenter. Labeled by disruption reason.";
    if !writer.gauge("karpenter_voluntary_disruption_eligible_nodes", help, &needs) {
        return;
    }
    let blocking = Blocking::new(sources.cluster.budgets.values());
    let candidates: Vec<Candidate<'_>> =
        managed(sources).filter_map(|(node, row)| Candidate::new(sources, &blocking, node, row)).collect();
    for reason in REASONS {
        let eligible = candidates.iter().filter(|candidate| candidate.is_eligible(reason)).count();
        let labels = Labels::default().with("reason", &format!("{reason:?}").to_lowercase());
        writer.sample(&labels, count(eligible));
    }
}

/// A node that no annotation of its own protects and that is not disrupted yet.
struct Candidate<'c> {
    pool: &'c PoolFacts,
    row: &'c NodeRow,
    /// Whether a pod can prevent the disruption, and does.
    blocked: bool,
    /// Whether a terminationGracePeriod limits the drain, so that pods cannot prevent drift from being corrected.
    drain_is_limited: bool,
    reschedulable: bool,
}

impl<'c> Candidate<'c> {
    fn new(sources: &Sources<'c>, blocking: &Blocking<'_>, node: &Node, row: &'c NodeRow) -> Option<Self> {
        let leaves = matches!(row.state, NodeState::Terminating | NodeState::Draining | NodeState::Disrupted);
        let is_protected = node.annotations.get(labels::DO_NOT_DISRUPT).is_some_and(|value| value == "true");
        if leaves || is_protected {
            return None;
        }
        let pool = sources.cluster.pools.get(&(String::new(), node.node_pool()?.to_owned()))?;
        let claim = sources.measured.status(ShownKind::NodeClaim, row.node_claim.as_deref()?)?;
        let more = |pod: &crate::PodFacts| {
            sources.measured.pods.get(&(pod.namespace.clone(), pod.name.clone())).is_some_and(|it| it.reschedulable)
        };
        Some(Self {
            pool,
            row,
            blocked: row.is_protected()
                || row.pods.iter().any(|pod| !pod.stays && !blocking.budgets_for(pod).is_empty()),
            drain_is_limited: claim.has_grace_period,
            reschedulable: row.pods.iter().any(|pod| more(pod)),
        })
    }

    fn is_eligible(&self, reason: DisruptionReason) -> bool {
        let policy = self.pool.pool.disruption.consolidation_policy;
        let is_dynamic = self.pool.pool.replicas.is_none();
        match reason {
            // Whether node repair is enabled is unknown here, and Karpenter's metric does not have the other reason.
            DisruptionReason::Unhealthy | DisruptionReason::Unbalanced => false,
            DisruptionReason::Drifted => self.row.drifted.is_some() && (!self.blocked || self.drain_is_limited),
            DisruptionReason::Empty => is_dynamic && self.row.consolidatable && !self.reschedulable && !self.blocked,
            DisruptionReason::Underutilized => {
                is_dynamic && self.row.consolidatable && !self.blocked && policy != ConsolidationPolicy::WhenEmpty
            }
        }
    }
}
