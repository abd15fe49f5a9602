//! Nodes that consolidation removes although they have the data of a claim.

use super::nodes::Nodes;
use super::text;
use crate::Driver;
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use nodeless_model::{NodeClaim, labels};
use serde_json::Value;

/// A PersistentVolumeClaim, `namespace/name`, whose volume is local to the node of a NodeClaim.
pub(super) fn lost(driver: &Driver, nodes: &Nodes, claim: &NodeClaim) -> Option<String> {
    let api = driver.world().api();
    let volumes = api.list(&PERSISTENT_VOLUMES, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
    let mut local = volumes.iter().filter(|volume| volume.pointer("/spec/local").is_some()).peekable();
    local.peek()?;
    let hosts: Vec<&str> =
        nodes.of_claim(claim).filter_map(|node| node["metadata"]["labels"][labels::HOSTNAME].as_str()).collect();
    let of_node = |volume: &&std::sync::Arc<Value>| {
        let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms").and_then(Value::as_array);
        let expressions = terms.into_iter().flatten().filter_map(|term| term["matchExpressions"].as_array()).flatten();
        let mut values =
            expressions.filter(|one| one["key"] == labels::HOSTNAME).filter_map(|one| one["values"].as_array());
        values.any(|values| values.iter().filter_map(Value::as_str).any(|value| hosts.contains(&value)))
    };
    local.filter(of_node).find_map(|volume| {
        let (namespace, name) = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
        let exists = api.get(&PERSISTENT_VOLUME_CLAIMS, namespace, name).is_ok();
        exists.then(|| format!("{namespace}/{name}"))
    })
}
