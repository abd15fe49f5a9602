//! What the time line is made of.

use super::reasons::{is_about_an_object, is_name};
use crate::objects::claim::ClaimFacts;
use crate::objects::cluster::Cluster;
use crate::objects::cluster_settings::ClusterRow;
use crate::objects::event::{DISRUPTION_LAUNCHING, EventFacts, NOMINATED};
use crate::objects::node::NodeRow;
use crate::objects::pool::{LimitRow, PoolRow};
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_disruption::command::replaced_nodes;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The start of the target of a nomination, before the name of the NodeClaim.
const CLAIM: &str = "nodeclaim/";

/// What is known of a cluster besides its Events.
#[derive(Clone, Copy)]
pub(crate) struct TimelineRows<'c> {
    pub(crate) nodes: &'c [NodeRow],
    pub(crate) node_pools: &'c [PoolRow],
    pub(crate) settings: &'c ClusterRow,
    pub(crate) prices: &'c Catalog,
}

/// The objects and Events of a cluster, by what they are about.
pub(super) struct TimelineFacts<'c> {
    /// The Events of nodeless, each with the time when it was first published, the oldest first.
    pub(super) events: Vec<(Timestamp, &'c EventFacts)>,
    pub(super) claims: BTreeMap<&'c str, &'c ClaimFacts>,
    nodes: HashMap<&'c str, &'c NodeRow>,
    nodes_of_claims: HashMap<&'c str, &'c NodeRow>,
    /// The pods that were nominated for each NodeClaim.
    pods: HashMap<&'c str, BTreeSet<(&'c str, &'c str)>>,
    /// The nominations of each pod, by its namespace and name, the oldest first: the NodeClaim, or none where it is a node.
    nominations: BTreeMap<(&'c str, &'c str), Vec<Option<&'c str>>>,
    /// The nodes that each NodeClaim replaces.
    replaced: BTreeMap<&'c str, Vec<&'c str>>,
    rows: TimelineRows<'c>,
}

impl<'c> TimelineFacts<'c> {
    pub(super) fn new(cluster: &'c Cluster, rows: TimelineRows<'c>) -> Self {
        let decisions = cluster.events.values().filter(|event| event.is_decision());
        let decisions = decisions.filter(|event| is_about_an_object(cluster, &event.row));
        let mut events: Vec<_> = decisions.filter_map(|event| Some((event.first?, event))).collect();
        events.sort_by_key(|(time, event)| (*time, event.row.name.as_str(), event.row.reason.as_str()));
        let mut pods = HashMap::<_, BTreeSet<_>>::new();
        let (mut nominations, mut replaced) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
        for (_, EventFacts { row, .. }) in &events {
            if row.reason == NOMINATED {
                let pod = (row.namespace.as_str(), row.name.as_str());
                let target = row.message.split_once(CLAIM).and_then(|(_, target)| target.split([',', ' ']).next());
                let claim = target.filter(|claim| is_name(claim));
                nominations.entry(pod).or_default().push(claim);
                if let Some(claim) = claim {
                    pods.entry(claim).or_default().insert(pod);
                }
            }
            if row.reason == DISRUPTION_LAUNCHING {
                replaced.insert(row.name.as_str(), replaced_nodes(&row.message).filter(|node| is_name(node)).collect());
            }
        }
        Self {
            events,
            claims: cluster.claims.values().map(|claim| (claim.name.as_str(), claim)).collect(),
            nodes: rows.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            nodes_of_claims: rows.nodes.iter().filter_map(|node| Some((node.node_claim.as_deref()?, node))).collect(),
            pods,
            nominations,
            replaced,
            rows,
        }
    }

    /// The limit of a NodePool with a name.
    pub(super) fn limit_of_pool(&self, pool: &str, resource: &str) -> Option<&LimitRow> {
        let pool = self.rows.node_pools.iter().find(|row| row.name.as_deref() == Some(pool))?;
        pool.limits.iter().find(|limit| limit.resource == resource)
    }

    /// The limit of the cluster in an annotation.
    pub(super) fn limit_of_cluster(&self, annotation: &str) -> Option<&LimitRow> {
        self.rows.settings.limits.iter().find(|limit| limit.resource == annotation)
    }

    pub(super) fn node(&self, name: &str) -> Option<&'c NodeRow> {
        self.nodes.get(name).copied()
    }

    pub(super) fn node_of(&self, claim: &str) -> Option<&'c NodeRow> {
        self.nodes_of_claims.get(claim).copied()
    }

    /// The nodes that a NodeClaim replaces; `None` if it was launched for pods.
    pub(super) fn replaced_by(&self, claim: &str) -> Option<&[&'c str]> {
        self.replaced.get(claim).map(Vec::as_slice)
    }

    /// The NodeClaims that replace nodes, each with these nodes.
    pub(super) fn replacements(&self) -> impl Iterator<Item = (&'c str, &[&'c str])> {
        self.replaced.iter().map(|(claim, nodes)| (*claim, nodes.as_slice()))
    }

    /// The pods that were nominated for a NodeClaim.
    pub(super) fn pods_of(&self, claim: &str) -> Option<&BTreeSet<(&'c str, &'c str)>> {
        self.pods.get(claim)
    }

    /// The NodeClaims of the nominations of each pod, the oldest first.
    pub(super) fn nominations(&self) -> impl Iterator<Item = ((&'c str, &'c str), &[Option<&'c str>])> {
        self.nominations.iter().map(|(pod, claims)| (*pod, claims.as_slice()))
    }

    /// The NodeClaims that pods of this NodeClaim were nominated for, too.
    pub(super) fn successors(&self, claim: &str) -> BTreeSet<&'c str> {
        let Some(own) = self.pods_of(claim) else { return BTreeSet::new() };
        let others = self.pods.iter().filter(|(name, pods)| **name != claim && !pods.is_disjoint(own));
        others.map(|(name, _)| *name).collect()
    }

    pub(super) fn price(&self, claim: &ClaimFacts) -> Option<f64> {
        let of_node = || self.node_of(&claim.name).and_then(|node| node.price_per_hour);
        claim.price.or_else(of_node).or_else(|| self.rows.prices.node_price(&claim.labels))
    }

    /// The Events with one of these reasons, each with the time when it was first published. nodeless publishes an Event about a node on
    /// the Node and on its NodeClaim: that on the Node is left out if there is the other one.
    pub(super) fn with_reasons(&self, reasons: &[&str]) -> Vec<(Timestamp, &'c EventFacts)> {
        // The type of a condition is the reason of the Event about its transition.
        let found: Vec<_> = self
            .events
            .iter()
            .filter(|(_, event)| reasons.contains(&event.row.reason.as_str()) && !event.is_transition())
            .copied()
            .collect();
        let on_claims: BTreeSet<(&str, i64)> = found
            .iter()
            .filter(|(_, event)| event.row.kind == "NodeClaim")
            .map(|(time, event)| (event.row.reason.as_str(), time.as_second()))
            .collect();
        let twice = |time: &Timestamp, event: &EventFacts| {
            let near = |offset: i64| on_claims.contains(&(event.row.reason.as_str(), time.as_second() + offset));
            event.row.kind == "Node" && [-1, 0, 1].into_iter().any(near)
        };
        found.into_iter().filter(|(time, event)| !twice(time, event)).collect()
    }
}
