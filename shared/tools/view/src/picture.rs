//! The rows that are shown.

use crate::attention::{Attention, Rows};
use crate::commitments::Committed;
use crate::disruption::{Disruption, Replacing};
use crate::group::{GroupRow, groups};
use crate::hidden::{Hidden, hide};
use crate::objects::amount::Load;
use crate::objects::claim::{ClaimFacts, ClaimRow};
use crate::objects::cluster::Cluster;
use crate::objects::cluster_settings::{ClusterRow, SYSTEM};
use crate::objects::event::{BUDGET_EXCEEDED, DISRUPTION_LAUNCHING, EventRow};
use crate::objects::node::{NodeRow, NodeSource};
use crate::objects::node_class::NodeClassRow;
use crate::objects::node_state::{Blocking, NodeState};
use crate::objects::pending::{PendingRow, Reasons};
use crate::objects::pod::PodFacts;
use crate::objects::pool::{BudgetRow, PoolFacts, PoolRow};
use crate::reservation::{ReservationRow, reservations};
use crate::timeline::reasons::is_name;
use crate::timeline::{TimelineEntry, TimelineRows, timeline};
use crate::viewing::{GroupBy, Viewing};
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_commitments::Commitments;
use nodeless_disruption::command::replaced_nodes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The number of Events that are shown.
const EVENTS: usize = 200;

/// A cluster at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// The time from which ages are computed.
    pub at: Timestamp,
    /// What needs attention, the most urgent first.
    pub attention: Vec<Attention>,
    /// What the selector hides; `null` without one.
    pub hidden: Option<Hidden>,
    /// Sums over the nodes that are shown.
    pub totals: Totals,
    /// What commitments cover of the nodes, with `--commitments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commitments: Option<Committed>,
    /// The settings of the whole cluster.
    pub cluster: ClusterRow,
    /// The NodePools by name, and at the end the nodes that belong to none.
    pub node_pools: Vec<PoolRow>,
    /// The EC2NodeClasses by name.
    pub node_classes: Vec<NodeClassRow>,
    /// What the nodes of a group have in common.
    pub group_by: GroupBy,
    /// The groups, the most expensive first.
    pub groups: Vec<GroupRow>,
    /// The keys of the labels that are shown of each node.
    pub label_columns: Vec<String>,
    /// The nodes, by NodePool and name.
    pub nodes: Vec<NodeRow>,
    /// The NodeClaims whose node has not joined.
    pub claims: Vec<ClaimRow>,
    /// The pods without a node, the oldest first.
    pub pending: Vec<PendingRow>,
    /// Disruption in progress.
    pub disruption: Disruption,
    /// The capacity reservations of the whole cluster, by EC2NodeClass and id.
    pub reservations: Vec<ReservationRow>,
    /// What happened and was decided, the newest first.
    pub timeline: Vec<TimelineEntry>,
    /// The latest Events of nodeless and Karpenter, the newest first.
    pub events: Vec<EventRow>,
    /// The kinds that cannot be read, the objects that cannot be decoded, and the prices that are derived.
    pub warnings: Vec<String>,
}

/// Sums over a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// The number of Nodes.
    pub nodes: usize,
    /// The number of Nodes by state.
    pub states: BTreeMap<NodeState, usize>,
    /// The number of NodeClaims without a Node.
    pub claims: usize,
    /// The number of pods that are bound to a node and have not ended.
    pub pods: usize,
    /// The number of pods without a node.
    pub pending_pods: usize,
    /// The price of the nodes in dollars an hour, as far as it is known.
    pub price_per_hour: f64,
    /// The same for a month of 730 hours.
    pub price_per_month: f64,
    /// The number of nodes whose price is not known.
    pub nodes_without_price: usize,
    /// The allocatable and used resources of the nodes.
    pub load: Load,
}

impl Picture {
    /// The picture of a cluster.
    #[must_use]
    pub fn new(cluster: &Cluster, prices: &Catalog, now: Timestamp) -> Self {
        Self::viewed(cluster, prices, now, &Viewing::default())
    }

    /// The picture of the nodes that the user chose.
    #[must_use]
    pub fn viewed(cluster: &Cluster, prices: &Catalog, now: Timestamp, viewing: &Viewing) -> Self {
        let replacing: Replacing<'_> = cluster
            .events
            .values()
            .filter(|event| event.row.reason == DISRUPTION_LAUNCHING && event.is_decision())
            .map(|event| {
                let nodes = replaced_nodes(&event.row.message).filter(|node| is_name(node));
                (event.row.name.as_str(), nodes.collect())
            })
            .collect();
        let (mut nodes, unbound) = nodes(cluster, prices, now, &viewing.label_columns);
        let joined: HashSet<&str> = nodes.iter().filter_map(|node| node.node_claim.as_deref()).collect();
        let on_their_way = cluster.claims.values().filter(|claim| !joined.contains(claim.name.as_str()));
        let mut claims: Vec<ClaimRow> =
            on_their_way.map(|claim| claim.row(prices, replacing.contains_key(claim.name.as_str()))).collect();
        let reasons = Reasons::new(cluster.events.values());
        let mut pending: Vec<PendingRow> = unbound.into_iter().map(|pod| reasons.row(pod)).collect();
        pending.sort_by_key(|pod| pod.created);
        let mut node_pools = pools(cluster, &nodes, &claims);
        let node_classes: Vec<NodeClassRow> = cluster.classes.values().cloned().collect();
        let settings = settings(cluster, &node_pools, now);
        let rows = TimelineRows { nodes: &nodes, node_pools: &node_pools, settings: &settings, prices };
        let (timeline, failed_launches) = timeline(cluster, rows);
        let rows = Rows {
            at: now,
            cluster: &settings,
            node_pools: &node_pools,
            node_classes: &node_classes,
            nodes: &nodes,
            pending: &pending,
            failed_launches: &failed_launches,
        };
        // A selector hides no problem.
        let attention = Attention::find(rows);
        let hidden = (!viewing.selector.is_empty())
            .then(|| hide(cluster, &viewing.selector, &mut nodes, &mut claims, &mut node_pools));
        Self {
            at: now,
            attention,
            disruption: Disruption::new(&nodes, &claims, &replacing),
            totals: Totals::new(&nodes, claims.len(), pending.len()),
            commitments: None,
            reservations: reservations(cluster, now),
            timeline,
            hidden,
            group_by: viewing.group_by,
            groups: groups(&nodes, viewing.group_by),
            label_columns: viewing.label_columns.clone(),
            events: events(cluster),
            warnings: warnings(cluster).chain(derived_prices(&nodes)).collect(),
            cluster: settings,
            node_pools,
            node_classes,
            nodes,
            claims,
            pending,
        }
    }

    /// The picture with what commitments cover of all nodes of the cluster, hidden or not.
    #[must_use]
    pub fn with_commitments(self, cluster: &Cluster, commitments: &Commitments, prices: &Catalog) -> Self {
        let committed = match &self.hidden {
            None => Committed::new(&self.nodes, cluster, commitments, prices),
            Some(_) => Committed::new(&Self::new(cluster, prices, self.at).nodes, cluster, commitments, prices),
        };
        Self { commitments: Some(committed), ..self }
    }

    /// The node with a name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeRow> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

/// The nodes by NodePool and name, and the pods without a node.
fn nodes<'c>(
    cluster: &'c Cluster,
    prices: &Catalog,
    now: Timestamp,
    label_columns: &[String],
) -> (Vec<NodeRow>, Vec<&'c PodFacts>) {
    let mut by_node: HashMap<&str, Vec<Arc<PodFacts>>> = HashMap::with_capacity(cluster.nodes.len());
    let mut unbound = Vec::new();
    for pod in cluster.pods.values() {
        match &pod.node {
            Some(node) => by_node.entry(node).or_default().push(pod.clone()),
            None if !pod.terminating => unbound.push(&**pod),
            None => {}
        }
    }
    let claims = Claims::new(cluster);
    let budgets = Blocking::new(cluster.budgets.values());
    let mut rows: Vec<NodeRow> = cluster
        .nodes
        .values()
        .map(|node| {
            let source = NodeSource {
                claim: claims.claim_of(&node.name, node.provider_id.as_deref()),
                pods: by_node.remove(node.name.as_str()).unwrap_or_default(),
                used: cluster.usage.as_ref().and_then(|usage| usage.get(&node.name).copied()),
                budgets: &budgets,
                prices,
                now,
                label_columns,
            };
            NodeRow::new(node, source)
        })
        .collect();
    // Nodes of no NodePool are last.
    rows.sort_by(|a, b| {
        (a.node_pool.is_none(), &a.node_pool, &a.name).cmp(&(b.node_pool.is_none(), &b.node_pool, &b.name))
    });
    (rows, unbound)
}

/// The NodeClaims by their nodes.
struct Claims<'c> {
    by_node: HashMap<&'c str, &'c ClaimFacts>,
    by_instance: HashMap<&'c str, &'c ClaimFacts>,
}

impl<'c> Claims<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let all = || cluster.claims.values();
        Self {
            by_node: all().filter_map(|claim| Some((claim.node.as_deref()?, claim))).collect(),
            by_instance: all().filter_map(|claim| Some((claim.provider_id.as_deref()?, claim))).collect(),
        }
    }

    fn claim_of(&self, node: &str, provider_id: Option<&str>) -> Option<&'c ClaimFacts> {
        let by_instance = || self.by_instance.get(provider_id?);
        self.by_node.get(node).or_else(by_instance).copied()
    }
}

/// The settings of the whole cluster.
fn settings(cluster: &Cluster, rows: &[PoolRow], now: Timestamp) -> ClusterRow {
    let Some(options) = cluster.namespaces.get(&(String::new(), SYSTEM.to_owned())) else {
        return ClusterRow::default();
    };
    let price = |facts: &PoolFacts| {
        let row = rows.iter().find(|row| row.name.as_deref() == Some(&facts.pool.name));
        row.map_or(0.0, |row| row.price_per_hour)
    };
    let pools: Vec<_> = cluster.pools.values().map(|facts| (facts, price(facts))).collect();
    let mut row = ClusterRow::new(options, &pools, now);
    if let Some(budget) = &mut row.budget {
        budget.price_per_hour = pools.iter().map(|(_, price)| price).sum();
        budget.reported = is_budget_reported(cluster, "Namespace", SYSTEM);
    }
    row
}

fn pools(cluster: &Cluster, nodes: &[NodeRow], claims: &[ClaimRow]) -> Vec<PoolRow> {
    // The nodes of no NodePool are last.
    let key = |pool: &Option<String>| (pool.is_none(), pool.clone());
    let named = cluster.pools.values().map(PoolFacts::row);
    let mut rows: BTreeMap<(bool, Option<String>), PoolRow> = named.map(|row| (key(&row.name), row)).collect();
    // A NodePool may have been deleted before its nodes.
    let missing = |name: &Option<String>| PoolRow { name: name.clone(), ..PoolRow::default() };
    for node in nodes {
        rows.entry(key(&node.node_pool)).or_insert_with(|| missing(&node.node_pool)).add(node);
    }
    for claim in claims {
        rows.entry(key(&claim.node_pool)).or_insert_with(|| missing(&claim.node_pool)).claims += 1;
    }
    for facts in cluster.pools.values() {
        if let Some(row) = rows.get_mut(&(false, Some(facts.pool.name.clone()))) {
            row.limits = facts.limits(row.price_per_hour);
            row.budget = facts.budget().map(|dollars_per_month| BudgetRow {
                dollars_per_month,
                price_per_hour: row.price_per_hour,
                reported: is_budget_reported(cluster, "NodePool", &facts.pool.name),
            });
        }
    }
    rows.into_values().collect()
}

/// Whether an Event states that an object is over its budget. It is gone an hour after nodeless has reported it for the last time.
fn is_budget_reported(cluster: &Cluster, kind: &str, name: &str) -> bool {
    let about =
        |row: &&EventRow| (row.reason.as_str(), row.kind.as_str(), row.name.as_str()) == (BUDGET_EXCEEDED, kind, name);
    cluster.events.values().filter(|event| event.is_decision()).map(|event| &event.row).any(|row| about(&row))
}

impl Totals {
    fn new(nodes: &[NodeRow], claims: usize, pending_pods: usize) -> Self {
        let all = PoolRow::new(&nodes.iter().collect::<Vec<_>>());
        let mut states = BTreeMap::new();
        for node in nodes {
            *states.entry(node.state).or_default() += 1;
        }
        let PoolRow { nodes, pods, price_per_hour, price_per_month, nodes_without_price, load, .. } = all;
        Self { nodes, states, claims, pods, pending_pods, price_per_hour, price_per_month, nodes_without_price, load }
    }

    /// The number of nodes in a state.
    #[must_use]
    pub fn in_state(&self, state: NodeState) -> usize {
        self.states.get(&state).copied().unwrap_or_default()
    }
}

fn events(cluster: &Cluster) -> Vec<EventRow> {
    let mut all: Vec<&EventRow> =
        cluster.events.values().filter(|event| event.is_decision()).map(|event| &event.row).collect();
    all.sort_by(|a, b| (b.time, &a.name, &a.reason).cmp(&(a.time, &b.name, &b.reason)));
    all.into_iter().take(EVENTS).cloned().collect()
}

fn warnings(cluster: &Cluster) -> impl Iterator<Item = String> {
    let missing = cluster.missing.iter().map(|(kind, why)| format!("{} are not shown: {why}", plural(kind.name())));
    let invalid = cluster.invalid.iter().map(|((kind, (namespace, name)), why)| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{} {namespace}{slash}{name} is not shown: {why}", kind.name())
    });
    missing.chain(invalid)
}

/// The instance types of nodes whose price is derived, if there are any.
fn derived_prices(nodes: &[NodeRow]) -> Option<String> {
    let derived = nodes.iter().filter(|node| node.derived_price).filter_map(|node| node.instance_type.as_deref());
    let names: Vec<&str> = derived.collect::<BTreeSet<_>>().into_iter().collect();
    let listed = || format!("on-demand prices are derived from those of us-east-1: {}", names.join(", "));
    (!names.is_empty()).then(listed)
}

fn plural(kind: &str) -> String {
    format!("{kind}s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
    use crate::objects::cluster::Update;
    use crate::objects::decode::ShownKind;
    use nodeless_catalog::Catalog;
    use serde_json::json;

    fn example() -> Cluster {
        let mut unmanaged = node_value("z", "m5.large");
        unmanaged["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
        cluster(&[
            (ShownKind::NodePool, pool_value("default")),
            (ShownKind::NodePool, pool_value("idle")),
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::Node, node_value("b", "m5.xlarge")),
            (ShownKind::Node, unmanaged),
            (ShownKind::NodeClaim, claim_value("claim-a", Some("a"), &["Initialized", "DisruptionReason"])),
            (ShownKind::NodeClaim, claim_value("claim-new", None, &[])),
            (
                ShownKind::Event,
                event_value(
                    "NodeClaim",
                    "claim-new",
                    "DisruptionLaunching",
                    "Launching NodeClaim: Drifted, replaces a",
                ),
            ),
            (ShownKind::Pod, pod_value("one", Some("a"))),
            (ShownKind::Pod, pod_value("two", Some("a"))),
            (ShownKind::Pod, pod_value("three", None)),
        ])
    }

    #[test]
    fn nodes_and_pods_are_counted_by_node_pool() {
        let catalog = Catalog::embedded().unwrap();
        let picture = Picture::new(&example(), &catalog, at(5));
        let pools: Vec<_> =
            picture.node_pools.iter().map(|pool| (pool.name.as_deref(), pool.nodes, pool.claims, pool.pods)).collect();
        assert_eq!(pools, [(Some("default"), 2, 1, 2), (Some("idle"), 0, 0, 0), (None, 1, 0, 0)]);
        let price = |name: &str| picture.node(name).unwrap().price_per_hour.unwrap();
        assert!((picture.totals.price_per_hour - price("a") - price("b") - price("z")).abs() < 1e-9);
        assert_eq!((picture.totals.pods, picture.totals.pending_pods, picture.totals.claims), (2, 1, 1));
        let load = &picture.node("a").unwrap().load;
        assert_eq!((load.requested.cpu_millicores, load.requested.memory_bytes), (2000, 4 << 30));
        assert!((load.cpu_requested() - 0.5).abs() < 1e-9 && load.cpu_used().is_none());
    }

    #[test]
    fn a_price_that_is_derived_is_marked() {
        let mut catalog = Catalog::embedded().unwrap();
        let kind = catalog.types.iter_mut().find(|kind| kind.facts.name == "m5.large").unwrap();
        kind.derived_price = true;
        let spot = node_value("a", "m5.large");
        let mut on_demand = spot.clone();
        on_demand["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("on-demand");
        let shown = Picture::new(&cluster(&[(ShownKind::Node, on_demand)]), &catalog, at(5));
        assert!(shown.nodes[0].derived_price);
        assert_eq!(shown.warnings, ["on-demand prices are derived from those of us-east-1: m5.large"]);
        let shown = Picture::new(&cluster(&[(ShownKind::Node, spot)]), &catalog, at(5));
        assert!(!shown.nodes[0].derived_price && shown.warnings.is_empty());
    }

    #[test]
    fn limits_show_what_is_used_of_them() {
        let picture = Picture::new(&example(), &Catalog::embedded().unwrap(), at(5));
        let limits = &picture.node_pools[0].limits;
        assert_eq!(
            (limits[0].resource.as_str(), limits[0].used.as_str(), limits[0].limit.as_str()),
            ("cpu", "8", "16")
        );
        assert!((limits[0].share - 0.5).abs() < 1e-9);
        assert_eq!(limits[1].resource, "nodeless.sh/dollars-per-hour");
        assert!((limits[1].share - picture.node_pools[0].price_per_hour).abs() < 1e-9);
    }

    #[test]
    fn the_limits_and_maintenance_windows_of_the_cluster_are_shown() {
        let mut cluster = example();
        assert_eq!(Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5)).cluster, ClusterRow::default());
        let system = json!({ "metadata": { "name": "kube-system", "annotations": {
            "nodeless.sh/max-cpu": "32", "nodeless.sh/max-nodes": "4", "nodeless.sh/max-dollars-per-hour": "cheap",
            "nodeless.sh/maintenance-windows": "0 2 * * sat for 4h"
        } } });
        let (namespace, name, object) = crate::fixtures::decoded(ShownKind::Namespace, &system.to_string());
        cluster.apply(Update::Present { kind: ShownKind::Namespace, namespace, name, object });
        let shown = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5)).cluster;
        let limits: Vec<_> =
            shown.limits.iter().map(|it| (it.resource.as_str(), it.used.as_str(), it.limit.as_str())).collect();
        // Both NodePools have 8 CPUs and 2 nodes in their status.
        assert_eq!(limits[..2], [("nodeless.sh/max-cpu", "16", "32"), ("nodeless.sh/max-nodes", "4", "4")]);
        assert_eq!((limits[2].0, limits[2].2), ("nodeless.sh/max-dollars-per-hour", "0.0000"));
        // The first of January 2026 is a Thursday.
        assert_eq!(
            shown.disruption_waits.as_deref(),
            Some("no maintenance window is open, and the next one begins at 2026-01-03T02:00:00Z")
        );
        assert_eq!(shown.maintenance_until, None);
        assert!(shown.invalid.len() == 1 && shown.invalid[0].contains("\"cheap\""), "{:?}", shown.invalid);
        let open = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(2 * 24 * 60 + 150)).cluster;
        assert_eq!((open.disruption_waits, open.maintenance_until), (None, Some(at(2 * 24 * 60 + 360))));
    }

    #[test]
    fn replacements_of_the_same_nodes_are_of_one_command() {
        let event = |claim: &str, nodes: &str| {
            let message = format!("Launching NodeClaim: Underutilized, replaces {nodes}");
            (ShownKind::Event, event_value("NodeClaim", claim, "DisruptionLaunching", &message))
        };
        let candidate = |claim: &str, node: &str| {
            (ShownKind::NodeClaim, claim_value(claim, Some(node), &["Initialized", "DisruptionReason"]))
        };
        let mut cluster = cluster(&[
            (ShownKind::Node, node_value("a", "m5.large")),
            (ShownKind::Node, node_value("b", "m5.large")),
            (ShownKind::Node, node_value("c", "m5.large")),
            (ShownKind::Node, node_value("new", "m5.large")),
            candidate("claim-a", "a"),
            candidate("claim-b", "b"),
            candidate("claim-c", "c"),
            // The node of the first replacement is initialized, that of the second has not joined, and the others are of an earlier
            // command, without an Event, or gone.
            (ShownKind::NodeClaim, claim_value("claim-1", Some("new"), &["Initialized"])),
            (ShownKind::NodeClaim, claim_value("claim-2", None, &[])),
            (ShownKind::NodeClaim, claim_value("claim-3", None, &[])),
            (ShownKind::NodeClaim, claim_value("claim-4", None, &[])),
            event("claim-1", "a, b"),
            event("claim-2", "a, b"),
            event("claim-3", "z"),
            event("claim-5", "c"),
        ]);
        let shown = |cluster: &Cluster| Picture::new(cluster, &Catalog::embedded().unwrap(), at(5)).disruption.commands;
        let [command] = &shown(&cluster)[..] else { panic!("{:?}", shown(&cluster)) };
        assert_eq!(
            (command.nodes.join(" "), command.replacements.join(" ")),
            ("a b".to_owned(), "claim-1 claim-2".to_owned())
        );
        for name in ["a", "b", "c"] {
            cluster.apply(Update::Absent { kind: ShownKind::Node, namespace: String::new(), name: name.to_owned() });
        }
        assert_eq!(shown(&cluster), [], "the command has ended");
    }

    #[test]
    fn disruption_shows_candidates_and_replacements_and_a_saving_only_if_it_is_known() {
        let catalog = Catalog::embedded().unwrap();
        let mut cluster = example();
        let disruption = Picture::new(&cluster, &catalog, at(5)).disruption;
        assert_eq!(disruption.nodes[0].reason.as_deref(), Some("DisruptionReason"));
        assert_eq!((disruption.nodes.len(), disruption.replacements.clone()), (1, vec!["claim-new".to_owned()]));
        assert_eq!(disruption.saving_per_hour, None, "the replacement is not launched, so its price is not known");
        let [command] = &disruption.commands[..] else { panic!("{disruption:?}") };
        assert_eq!(
            (&command.nodes[..], &command.replacements[..]),
            (&["a".to_owned()][..], &["claim-new".to_owned()][..])
        );
        assert_eq!(command.saving_per_hour, None);
        let mut launched = claim_value("claim-new", None, &["Launched"]);
        launched["metadata"]["labels"] = json!({
            "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a",
            "karpenter.sh/capacity-type": "spot"
        });
        let (namespace, name, object) = crate::fixtures::decoded(ShownKind::NodeClaim, &launched.to_string());
        cluster.apply(Update::Present { kind: ShownKind::NodeClaim, namespace, name, object });
        let picture = Picture::new(&cluster, &catalog, at(5));
        let (before, after) =
            (picture.node("a").unwrap().price_per_hour.unwrap(), picture.claims[0].price_per_hour.unwrap());
        assert!((picture.disruption.saving_per_hour.unwrap() - (before - after)).abs() < 1e-9);
        assert!((picture.disruption.commands[0].saving_per_hour.unwrap() - (before - after)).abs() < 1e-9);
        assert_eq!(picture.claims[0].waits_for, "the node to register");

        // A warm node, whose instance is stopped and costs nothing.
        let registered = json!({ "type": "Registered", "status": "Unknown", "reason": "Stopped" });
        launched["status"]["conditions"].as_array_mut().unwrap().push(registered);
        let (namespace, name, object) = crate::fixtures::decoded(ShownKind::NodeClaim, &launched.to_string());
        cluster.apply(Update::Present { kind: ShownKind::NodeClaim, namespace, name, object });
        let stopped = Picture::new(&cluster, &catalog, at(5)).claims.remove(0);
        assert_eq!((stopped.waits_for, stopped.price_per_hour), ("pods that it is started for", None));
    }

    #[test]
    fn a_recorded_price_is_used_before_that_of_the_catalog() {
        let price = |recorded: &str| {
            let mut claim = claim_value("claim", Some("a"), &["Initialized"]);
            claim["metadata"]["annotations"] = json!({ "nodeless.sh/price-per-hour": recorded });
            let cluster = cluster(&[(ShownKind::Node, node_value("a", "m5.xlarge")), (ShownKind::NodeClaim, claim)]);
            Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5)).nodes[0].price_per_hour
        };
        assert_eq!(price("0.125"), Some(0.125));
        assert!(price("cheap").is_some_and(|price| price > 0.0 && price < 0.125), "the catalog's");
    }

    #[test]
    fn what_cannot_be_read_is_a_warning() {
        let mut cluster = example();
        cluster.apply(Update::Missing { kind: ShownKind::Event, why: "forbidden".into() });
        let picture = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5));
        assert_eq!(picture.warnings, ["Events are not shown: forbidden"]);
    }

    #[test]
    fn the_json_has_quantities_and_pods_without_internal_fields() {
        let picture = Picture::new(&example(), &Catalog::embedded().unwrap(), at(5));
        let json = serde_json::to_value(&picture).unwrap();
        let pod = &json["nodes"][0]["pods"][0];
        assert_eq!(
            *pod,
            json!({
                "namespace": "shop", "name": "one", "phase": "Running", "daemonSet": false, "terminating": false,
                "requests": { "cpuMillicores": 1000, "memoryBytes": 2_147_483_648_u64 },
                "created": "2026-01-01T00:00:00Z"
            })
        );
        assert_eq!(json["nodes"][0]["load"]["extended"], json!({ "allocatable": {}, "requested": {} }));
        assert_eq!((&json["hidden"], &json["groupBy"]), (&json!(null), &json!("nodepool")));
        let prices = [&json["totals"], &json["groups"][0]].map(|sum| {
            let [hour, month] = ["pricePerHour", "pricePerMonth"].map(|key| sum[key].as_f64().unwrap());
            assert!((hour * 730.0 - month).abs() < 1e-6 && hour > 0.0, "{sum}");
            hour
        });
        assert!(prices[0] > prices[1], "the node of no NodePool is a group of its own");
        assert_eq!(json["totals"]["states"], json!({ "disrupted": 1, "ready": 2 }));
        assert_eq!(json["events"][0]["type"], "Normal");
    }
}
