//! Metrics of nodes: `pkg/controllers/metrics/node/controller.go` of Karpenter, with one label for each well-known label of nodes.

use super::text::{Labels, Writer};
use super::{PodMore, Sources, amount, count, resource_type, seconds};
use crate::objects::decode::ShownKind;
use crate::objects::node::NodeRow;
use nodeless_model::{Node, ResourceList, labels};
use std::collections::BTreeMap;

/// A node with its labels, and the sums over its pods; `None` without pods.
struct Measures<'n> {
    node: &'n Node,
    labels: Labels,
    overhead: ResourceList,
    requests: Option<ResourceList>,
    limits: Option<ResourceList>,
    daemon_requests: Option<ResourceList>,
    daemon_limits: Option<ResourceList>,
}

pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let nodes = measures(sources);
    let mut resources = |name: &str, help: &str, of: &dyn Fn(&Measures<'_>) -> Option<ResourceList>| {
        writer.gauge(format_args!("karpenter_nodes_{name}"), help, &[ShownKind::Node]);
        for node in &nodes {
            for (resource, quantity) in of(node).iter().flat_map(ResourceList::iter) {
                let labels = node.labels.clone().with("resource_type", &resource_type(resource));
                writer.sample(&labels, amount(resource, quantity));
            }
        }
    };
    resources("allocatable", "Node allocatable are the resources allocatable by nodes.", &|it| {
        Some(it.node.allocatable.clone())
    });
    resources(
        "total_pod_requests",
        "Node total pod requests are the resources requested by pods bound to nodes, including the DaemonSet pods.",
        &|it| it.requests.clone(),
    );
    resources(
        "total_pod_limits",
        "Node total pod limits are the resources specified by pod limits, including the DaemonSet pods.",
        &|it| it.limits.clone(),
    );
    resources(
        "total_daemon_requests",
        "Node total daemon requests are the resource requested by DaemonSet pods bound to nodes.",
        &|it| it.daemon_requests.clone(),
    );
    resources(
        "total_daemon_limits",
        "Node total daemon limits are the resources specified by DaemonSet pod limits.",
        &|it| it.daemon_limits.clone(),
    );
    resources(
        "system_overhead",
        "Node system daemon overhead are the resources reserved for system overhead, the difference between the node's capacity and allocatable values are reported by the status.",
        &|it| Some(it.overhead.clone()),
    );
    writer.gauge("karpenter_nodes_current_lifetime_seconds", "Node age in seconds", &[ShownKind::Node]);
    for node in &nodes {
        if let Some(created) = node.node.created {
            writer.sample(&node.labels, seconds(created, sources.now));
        }
    }
    utilization(&nodes, writer);
    let nodes_and_claims = [ShownKind::Node, ShownKind::NodeClaim];
    if writer.gauge("karpenter_cluster_state_node_count", "Current count of nodes in cluster state", &nodes_and_claims)
    {
        // Karpenter counts a NodeClaim from its launch.
        let launched =
            |name: &str| sources.cluster.claims.values().any(|it| it.name == name && it.provider_id.is_some());
        let claims = sources.picture.claims.iter().filter(|claim| launched(&claim.name)).count();
        writer.sample(&Labels::default(), count(sources.cluster.nodes.len() + claims));
    }
}

fn measures<'s>(sources: &Sources<'s>) -> Vec<Measures<'s>> {
    let rows: BTreeMap<&str, &NodeRow> = sources.picture.nodes.iter().map(|row| (row.name.as_str(), row)).collect();
    let claims_are_known = !sources.cluster.missing.contains_key(&ShownKind::NodeClaim);
    let nodes = sources.cluster.nodes.values().filter_map(|node| {
        let row = rows.get(node.name.as_str())?;
        let all = || {
            row.pods.iter().filter_map(|pod| {
                let key = (pod.namespace.clone(), pod.name.clone());
                Some((pod.daemon_set, sources.measured.pods.get(&key)?))
            })
        };
        let daemons = || all().filter(|(daemon_set, _)| *daemon_set);
        let mut overhead = node.capacity.clone();
        let others: Vec<String> = node
            .allocatable
            .iter()
            .filter(|(name, _)| !overhead.contains(name))
            .map(|(name, _)| name.to_owned())
            .collect();
        overhead.subtract(&node.allocatable);
        others.iter().for_each(|name| overhead.remove(name));
        let managed = if row.node_claim.is_some() { "true" } else { "false" };
        Some(Measures {
            labels: node_labels(node, if claims_are_known { managed } else { "" }),
            overhead,
            requests: sum(all().map(|(_, pod)| &pod.requests)),
            limits: sum(all().map(|(_, pod): (bool, &PodMore)| &pod.limits)),
            daemon_requests: sum(daemons().map(|(_, pod)| &pod.requests)),
            daemon_limits: sum(daemons().map(|(_, pod)| &pod.limits)),
            node,
        })
    });
    nodes.collect()
}

fn sum<'r>(all: impl Iterator<Item = &'r ResourceList>) -> Option<ResourceList> {
    all.fold(None, |sum, one| {
        let mut sum = sum.unwrap_or_default();
        sum.add(one);
        Some(sum)
    })
}

fn node_labels(node: &Node, managed: &str) -> Labels {
    // The name of the EC2NodeClass is a well-known label of nodeless, and not of Karpenter.
    let well_known = labels::WELL_KNOWN.iter().filter(|key| **key != labels::EC2_NODE_CLASS);
    let named = Labels::default().with("node_name", &node.name).with("managed", managed);
    well_known.fold(named, |all, key| {
        let name = key.split_once('/').map_or(*key, |(_, name)| name);
        let value = match *key {
            labels::NODE_POOL => node.node_pool(),
            key => node.labels.get(key).map(String::as_str),
        };
        all.with(&name.to_lowercase().replace('-', "_"), value.unwrap_or_default())
    })
}

fn utilization(nodes: &[Measures<'_>], writer: &mut Writer<'_>) {
    let help = "Utilization of allocatable resources by pod requests";
    writer.gauge("karpenter_cluster_utilization_percent", help, &[ShownKind::Node]);
    let allocatable = sum(nodes.iter().map(|it| &it.node.allocatable)).unwrap_or_default();
    let requested = sum(nodes.iter().filter_map(|it| it.requests.as_ref())).unwrap_or_default();
    for (resource, quantity) in allocatable.iter().filter(|(_, quantity)| !quantity.is_zero()) {
        let percent = 100.0 * amount(resource, requested.get(resource)) / amount(resource, quantity);
        writer.sample(&Labels::default().with("resource_type", &resource_type(resource)), percent);
    }
}
