//! Removing every node before nodeless is uninstalled, because instances that run without the functions would keep running and
//! cost money.

use super::{InstallError, Outcome, Report, Step, owner};
use crate::api;
use crate::connection::Connection;
use nodeless_api::resources::{CustomResource, NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use nodeless_api::{NodeClaim, NodePool, managed};
use nodeless_cluster::merge::string;
use nodeless_cluster::unless_gone;
use nodeless_ports::PortError;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Whether an object is of nodeless.
type IsManaged = fn(&Value) -> bool;

const OPERATION: &str = "Kubernetes remove nodes";
/// The interval at which the objects are listed until they are deleted. Nodes take minutes.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of objects in an error.
const NAMED: usize = 5;

/// Deletes all NodePools of nodeless, so that nothing is launched any more, then all its NodeClaims, whose nodes are drained and whose
/// instances are terminated, and finally all EC2NodeClasses. Waits until all objects of a kind are deleted, which requires that the
/// functions run. Those of other controllers stay. Everything is kept if the deployment with another table than `table` serves the cluster.
///
/// # Errors
/// When the API server rejects a request, or objects still exist after `timeout`. A repeated call continues.
pub async fn remove_nodes(connection: &Connection, table: &str, timeout: Duration) -> Result<Report, InstallError> {
    if let Err(other) = owner::check(connection, Some(table)).await? {
        return Ok(owner::kept(&other));
    }
    let deadline = Instant::now() + timeout;
    let mut steps = Vec::new();
    let removed: [(CustomResource, IsManaged); 3] = [
        (NODE_POOLS, managed::is_managed::<NodePool>),
        (NODE_CLAIMS, managed::is_managed::<NodeClaim>),
        (NODE_CLASSES, |_| true),
    ];
    for (resource, is_managed) in removed {
        if definition(connection, &resource).await?.is_none() {
            continue;
        }
        steps.extend(remove_all(connection, &resource, is_managed, deadline).await?);
    }
    Ok(Report { steps })
}

async fn definition(connection: &Connection, resource: &CustomResource) -> Result<Option<Value>, PortError> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    Ok(connection.find(OPERATION, &api::object(definitions, resource.definition)).await?)
}

/// Deletes the objects of a kind that nodeless manages, also those that are created in the meantime, and waits until none exists.
async fn remove_all(
    connection: &Connection,
    resource: &CustomResource,
    is_managed: IsManaged,
    deadline: Instant,
) -> Result<Vec<Step>, InstallError> {
    let mut steps: Vec<Step> = Vec::new();
    loop {
        let present = list(connection, resource, is_managed).await?;
        if present.is_empty() {
            return Ok(steps);
        }
        for object in present.iter().filter(|object| string(object, "/metadata/deletionTimestamp").is_none()) {
            let name = string(object, "/metadata/name").unwrap_or_default();
            let path = api::object(resource.path, name);
            let same = json!({ "preconditions": { "uid": string(object, "/metadata/uid") } });
            unless_gone(connection.delete(OPERATION, &path, &same).await).map_err(PortError::from)?;
            let object = format!("{} {name}", resource.kind);
            if !steps.iter().any(|step| step.object == object) {
                steps.push(Step { object, outcome: Outcome::Removed, note: String::new() });
            }
        }
        if Instant::now() + LOOK_EVERY > deadline {
            let present = list(connection, resource, is_managed).await?;
            return if present.is_empty() { Ok(steps) } else { Err(left(resource, &present)) };
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn list(
    connection: &Connection,
    resource: &CustomResource,
    is_managed: IsManaged,
) -> Result<Vec<Value>, PortError> {
    let list = connection.find(OPERATION, resource.path).await?;
    let items = list.and_then(|mut list| list.get_mut("items").map(Value::take));
    let Some(Value::Array(mut items)) = items else { return Ok(Vec::new()) };
    items.retain(is_managed);
    Ok(items)
}

/// The error for the remaining objects, with the reasons from their conditions.
fn left(resource: &CustomResource, present: &[Value]) -> InstallError {
    let named: Vec<String> = present.iter().take(NAMED).map(waits).collect();
    let more = if present.len() > NAMED { ", and others" } else { "" };
    InstallError::Left { count: present.len(), kind: resource.kind, objects: format!("{}{more}", named.join(", ")) }
}

fn waits(object: &Value) -> String {
    let name = string(object, "/metadata/name").unwrap_or_default();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ending = ["Drained", "VolumesDetached", "InstanceTerminating"];
    let open = conditions.filter(|condition| {
        let field = |pointer| string(condition, pointer).unwrap_or_default();
        ending.contains(&field("/type")) && field("/status") != "True"
    });
    let why: Vec<&str> =
        open.filter_map(|condition| string(condition, "/message")).filter(|why| !why.is_empty()).collect();
    if why.is_empty() { name.to_owned() } else { format!("{name} ({})", why.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_objects_report_what_they_wait_for() {
        let conditions = json!([
            { "type": "Ready", "status": "True", "message": "fine" },
            { "type": "Drained", "status": "False", "message": "pod default/web-0 is held by a PodDisruptionBudget" },
        ]);
        let held = json!({ "metadata": { "name": "default-abc12" }, "status": { "conditions": conditions } });
        let mut objects = vec![held];
        objects.extend((0..7).map(|number| json!({ "metadata": { "name": format!("other-{number}") } })));
        let message = left(&NODE_CLAIMS, &objects).to_string();
        assert!(message.starts_with("not deleted yet: 8 objects of kind NodeClaim: "), "{message}");
        assert!(
            message.contains("default-abc12 (pod default/web-0 is held by a PodDisruptionBudget), other-0"),
            "{message}"
        );
        assert!(message.contains("and others"), "{message}");
    }
}
