//! NodePools, Nodes and other objects of a cluster, as manifests.

use super::pods;
use nodeless_api::test_support::ec2_node_class_manifest;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::resources::format_quantity;
use nodeless_model::{Budget, DaemonSet, Node, NodeClaim, NodePool, PodDisruptionBudget, ResourceList, StringMap};
use serde_json::{Value, json};

pub(super) fn node_class() -> Value {
    ec2_node_class_manifest("default", "example", &json!({}))
}

pub(super) fn node_pool(pool: &NodePool) -> Value {
    let template = &pool.template;
    let mut written = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": pool.name, "uid": pool.uid },
        "spec": {
            "template": {
                "metadata": { "labels": template.labels },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": template.node_class },
                    "requirements": template.requirements.to_terms().iter().map(requirement).collect::<Vec<_>>(),
                    "taints": template.taints, "startupTaints": template.startup_taints
                }
            },
            "limits": quantities(&pool.limits),
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                "budgets": pool.disruption.budgets.iter().map(budget).collect::<Vec<_>>()
            }
        }
    });
    if pool.weight > 0 {
        written["spec"]["weight"] = json!(pool.weight);
    }
    written
}

fn requirement(term: &RequirementTerm) -> Value {
    let mut written = json!({ "key": term.key, "operator": term.operator.as_str(), "values": term.values });
    if let Some(least) = term.min_values {
        written["minValues"] = json!(least);
    }
    written
}

fn budget(budget: &Budget) -> Value {
    let nodes = match budget.nodes {
        BudgetNodes::Count(count) => count.to_string(),
        BudgetNodes::Percent(percent) => format!("{percent}%"),
    };
    json!({ "nodes": nodes })
}

pub(super) fn node(node: &Node) -> Value {
    let since = node.created.map(|created| created.to_string());
    let mut spec = json!({ "providerID": node.provider_id });
    if !node.taints.is_empty() {
        spec["taints"] = json!(node.taints);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": node.name, "uid": node.uid, "labels": node.labels, "creationTimestamp": since },
        "spec": spec,
        "status": {
            "capacity": quantities(&node.capacity), "allocatable": quantities(&node.allocatable),
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": since, "lastHeartbeatTime": crate::NOW.to_string()
            }]
        }
    })
}

pub(super) fn node_claim(claim: &NodeClaim) -> Value {
    let mut written = json!(nodeless_api::convert::mirror(claim, None));
    written["metadata"]["uid"] = json!(claim.uid);
    written["metadata"]["creationTimestamp"] = json!(claim.created.to_string());
    written
}

pub(super) fn daemon_set(set: &DaemonSet) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": set.name, "namespace": set.namespace },
        "spec": {
            "selector": { "matchLabels": set.template.template.labels },
            "template": { "metadata": { "labels": set.template.template.labels }, "spec": pods::spec(&set.template) }
        }
    })
}

pub(super) fn namespace(name: &str, labels: &StringMap) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

pub(super) fn disruption_budget(budget: &PodDisruptionBudget) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": budget.name, "namespace": budget.namespace },
        "spec": { "selector": budget.selector, "maxUnavailable": budget.disruptions_allowed },
        "status": { "disruptionsAllowed": budget.disruptions_allowed }
    })
}

fn quantities(list: &ResourceList) -> Value {
    list.iter().map(|(name, quantity)| (name.to_owned(), json!(format_quantity(name, quantity)))).collect()
}
