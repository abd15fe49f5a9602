//! Publishing events about NodeClaims and Nodes, which people find by the uid of the object.

use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_ports::{Cluster, PortError};
use std::collections::{BTreeMap, BTreeSet};

/// Publishes events. Those about a NodeClaim whose uid is not known get it from the object, because `kubectl describe` shows
/// only events with the uid of what it describes.
///
/// # Errors
/// When the objects cannot be read, although the events were published without a uid; or when they cannot be published.
pub(crate) async fn publish(cluster: &dyn Cluster, events: &[ObjectEvent]) -> Result<(), PortError> {
    let mut events = events.to_vec();
    let names: BTreeSet<String> =
        events.iter().filter(|event| nameless(event)).map(|event| event.object.name.clone()).collect();
    for event in events.iter_mut().filter(|event| event.object.kind == "Node" && event.object.uid.is_empty()) {
        // As the kubelet does: `kubectl describe node` looks for both, the uid and the name in its place.
        event.object.uid.clone_from(&event.object.name);
    }
    let uids = uids(cluster, &names).await;
    if let Ok(uids) = &uids {
        for event in events.iter_mut().filter(|event| nameless(event)) {
            if let Some(uid) = uids.get(&event.object.name) {
                event.object.uid.clone_from(uid);
            }
        }
    }
    cluster.publish(&events).await?;
    uids.map(drop)
}

/// The same event about a node.
pub(crate) fn on_node(event: &ObjectEvent, node: String) -> ObjectEvent {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: node,
        uid: String::new(),
    };
    ObjectEvent { object, ..event.clone() }
}

fn nameless(event: &ObjectEvent) -> bool {
    event.object.kind == "NodeClaim" && event.object.uid.is_empty()
}

/// The uids by name: of one claim it is read alone, of several all claims are listed once.
async fn uids(cluster: &dyn Cluster, names: &BTreeSet<String>) -> Result<BTreeMap<String, String>, PortError> {
    let mut few = names.iter();
    let mirrors = match (few.next(), few.next()) {
        (None, _) => return Ok(BTreeMap::new()),
        (Some(name), None) => cluster.mirrored_claim(name).await?.into_iter().collect(),
        _ => cluster.mirrored_claims().await?,
    };
    Ok(mirrors.into_iter().map(|mirror| (mirror.name, mirror.uid)).collect())
}
