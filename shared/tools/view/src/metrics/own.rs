//! Metrics that Karpenter does not have.

use super::pods::is_unschedulable;
use super::text::{Labels, Writer};
use super::{Sources, count};
use crate::objects::decode::ShownKind;
use crate::objects::pending::PendingRow;
use nodeless_model::labels;
use std::collections::BTreeMap;

/// The states of pods without a node.
const STATES: [&str; 4] = ["gated", "nominated", "unschedulable", "waiting"];

pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    prices(sources, writer);
    states(sources, writer);
    pods(sources, writer);
    reading(sources, writer);
}

fn prices(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "The price of a node in dollars per hour: that of its launch, or else that of the catalog. A node without a known price has none.";
    if !writer.gauge("nodeless_node_price_dollars_per_hour", help, &[ShownKind::Node, ShownKind::NodeClaim]) {
        return;
    }
    let claims: BTreeMap<&str, Option<f64>> =
        sources.cluster.claims.values().map(|claim| (claim.name.as_str(), claim.price)).collect();
    for row in &sources.picture.nodes {
        let Some(node) = sources.cluster.nodes.get(&(String::new(), row.name.clone())) else { continue };
        let recorded = row.node_claim.as_deref().and_then(|claim| claims.get(claim).copied().flatten());
        let Some(price) = sources.price(recorded, &node.labels) else { continue };
        let labels = [
            ("node_name", Some(&node.name)),
            ("nodepool", row.node_pool.as_ref()),
            ("capacity_type", row.capacity_type.as_ref()),
            ("instance_type", row.instance_type.as_ref()),
            ("zone", node.labels.get(labels::ZONE)),
        ];
        let labels = labels
            .into_iter()
            .fold(Labels::default(), |all, (name, value)| all.with(name, value.map_or("", String::as_str)));
        writer.sample(&labels, price);
    }
}

fn states(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "The number of nodes by state: terminating, draining, disrupted, joining, not ready, cordoned or ready.";
    if !writer.gauge("nodeless_nodes", help, &[ShownKind::Node, ShownKind::NodeClaim]) {
        return;
    }
    let mut nodes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in &sources.picture.nodes {
        *nodes.entry((row.node_pool.as_deref().unwrap_or_default(), row.state.as_str())).or_default() += 1;
    }
    for ((pool, state), nodes) in nodes {
        writer.sample(&Labels::default().with("nodepool", pool).with("state", state), count(nodes));
    }
}

fn pods(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "The number of pods without a node by state: gated (scheduling gates), nominated (a node is on its way), unschedulable (no NodePool can schedule it), or waiting (for a decision).";
    if !writer.gauge("nodeless_pods_without_node", help, &[ShownKind::Pod, ShownKind::Event]) {
        return;
    }
    let state = |pod: &PendingRow| {
        let key = (pod.namespace.clone(), pod.name.clone());
        if sources.cluster.pods.get(&key).is_some_and(|facts| !facts.gates.is_empty()) {
            "gated"
        } else if pod.nominated {
            "nominated"
        } else if is_unschedulable(pod) {
            "unschedulable"
        } else {
            "waiting"
        }
    };
    for one in STATES {
        let pods = sources.picture.pending.iter().filter(|pod| state(pod) == one).count();
        writer.sample(&Labels::default().with("state", one), count(pods));
    }
}

fn reading(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "When the API server last answered with objects of a kind, or that none has changed, in seconds since 1970. In a quiet cluster it answers about once a minute.";
    writer.gauge("nodeless_last_read_timestamp_seconds", help, &[]);
    for (kind, answered) in sources.answered {
        let labels = Labels::default().with("kind", kind.name());
        writer.sample(&labels, answered.duration_since(jiff::Timestamp::UNIX_EPOCH).as_secs_f64());
    }
    let help = "The number of objects that cannot be decoded, and are missing in all other metrics.";
    writer.gauge("nodeless_invalid_objects", help, &[]);
    for kind in ShownKind::ALL {
        let invalid = sources.cluster.invalid.keys().filter(|(of, _)| *of == kind).count();
        writer.sample(&Labels::default().with("kind", kind.name()), count(invalid));
    }
}
