//! The Nodes of the cluster and their claims, by the instance. The record of a claim gets the name of its Node later than the Node its
//! labels, and never if a process ends in between.

use super::text;
use crate::Driver;
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::node::instance_id;
use nodeless_model::{NodeClaim, labels};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The Nodes at one time.
pub(super) struct Nodes(Vec<Arc<Value>>);

impl Nodes {
    pub(super) fn read(driver: &Driver) -> Self {
        Self(driver.world().api().list(&NODES, &ListOptions::default()).map(|list| list.items).unwrap_or_default())
    }

    /// The Nodes of a claim's instance.
    pub(super) fn of_claim<'n>(&'n self, claim: &NodeClaim) -> impl Iterator<Item = &'n Value> + use<'n> {
        let id = claim.provider_id();
        let nodes = self.0.iter().map(AsRef::as_ref);
        nodes.filter(move |node| id.as_deref().is_some_and(|id| text(node, "/spec/providerID") == id))
    }

    /// Whether the Nodes of an instance are being deleted, or gone: that cannot be undone.
    pub(super) fn are_ending(&self, instance: &str) -> bool {
        let is_of = |node: &&Arc<Value>| instance_id(text(node, "/spec/providerID")) == Some(instance);
        self.0.iter().filter(is_of).all(|node| node.pointer("/metadata/deletionTimestamp").is_some())
    }

    /// The claim of the instance of a Node.
    pub(super) fn claim_of<'c>(&self, node: &str, claims: &'c [NodeClaim]) -> Option<&'c NodeClaim> {
        claims.iter().find(|claim| self.of_claim(claim).any(|own| text(own, "/metadata/name") == node))
    }

    /// The number of initialized Nodes of each NodePool, to which percentages of budgets refer.
    pub(super) fn sizes(&self) -> BTreeMap<&str, usize> {
        let mut sizes = BTreeMap::new();
        let initialized = self.0.iter().filter(|node| node["metadata"]["labels"][labels::INITIALIZED] == "true");
        for pool in initialized.filter_map(|node| node["metadata"]["labels"][labels::NODE_POOL].as_str()) {
            *sizes.entry(pool).or_default() += 1;
        }
        sizes
    }
}

/// The Nodes that have been open for pods, by uid.
#[derive(Debug, Default)]
pub(super) struct OpenNodes(BTreeSet<String>);

impl OpenNodes {
    /// A Node has changed, or was deleted. Returns what is wrong if it was open and is closed until others join.
    pub(super) fn changed(&mut self, node: &Value, is_deleted: bool) -> Option<String> {
        let uid = text(node, "/metadata/uid");
        if is_deleted {
            self.0.remove(uid);
            return None;
        }
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        let is_closed = taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == labels::JOINING_TAINT));
        if is_closed && self.0.remove(uid) {
            return Some(format!("Node {} was open and has the taint again", text(node, "/metadata/name")));
        }
        if !is_closed && node["metadata"]["labels"][labels::REGISTERED] == "true" {
            self.0.insert(uid.to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support::{launched_instance, node_claim};
    use nodeless_model::{NodeClaimStatus, Phase};
    use serde_json::json;

    fn node(name: &str, instance: &str, initialized: bool) -> Arc<Value> {
        let mut labels = json!({ labels::NODE_POOL: "default" });
        if initialized {
            labels[labels::INITIALIZED] = json!("true");
        }
        Arc::new(json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "providerID": format!("aws:///us-east-1a/{instance}") },
        }))
    }

    /// A claim whose instance is known, and whose record does not have the name of its Node.
    fn claim(name: &str, instance: &str) -> NodeClaim {
        NodeClaim {
            phase: Phase::Launched,
            status: NodeClaimStatus { instance: Some(launched_instance(instance)), ..NodeClaimStatus::default() },
            ..node_claim(name)
        }
    }

    #[test]
    fn a_node_that_was_open_must_not_be_closed_again() {
        let node = |registered: &str, taint: &str| {
            json!({
                "metadata": { "name": "node-1", "uid": "u", "labels": { labels::REGISTERED: registered } },
                "spec": { "taints": [{ "key": taint }] },
            })
        };
        let mut open = OpenNodes::default();
        let mut is_wrong = |node: Value| open.changed(&node, false).is_some();
        assert!(!is_wrong(node("", "other")), "nodeless has not seen it");
        assert!(!is_wrong(node("true", labels::JOINING_TAINT)));
        assert!(!is_wrong(node("true", "other")));
        assert!(is_wrong(node("true", labels::JOINING_TAINT)));
        assert!(!is_wrong(node("true", "other")));
        assert!(open.changed(&node("true", "other"), true).is_none());
        assert!(open.changed(&node("true", labels::JOINING_TAINT), false).is_none(), "it is another one");
    }

    #[test]
    fn nodes_count_when_they_are_initialized_whatever_is_recorded() {
        let nodes = Nodes(vec![node("node-1", "i-1", true), node("node-2", "i-2", false)]);
        assert_eq!(nodes.sizes(), BTreeMap::from([("default", 1)]));
        let claims = [claim("default-a", "i-1"), claim("default-b", "i-3")];
        let names = |claim| nodes.of_claim(claim).map(|node| text(node, "/metadata/name")).collect::<Vec<_>>();
        assert_eq!(names(&claims[0]), ["node-1"]);
        assert!(names(&claims[1]).is_empty());
        assert_eq!(nodes.claim_of("node-1", &claims).map(|claim| claim.name.as_str()), Some("default-a"));
        assert_eq!(nodes.claim_of("node-2", &claims), None);
    }
}
