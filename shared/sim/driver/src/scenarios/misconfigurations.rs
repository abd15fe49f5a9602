//! Wrong edits and deletions of NodePools and EC2NodeClasses by a user, who corrects them later.

use super::active_faults::{ActiveFaults, End};
use super::edit::{Edit, name_of, patch_spec};
use super::objects::{refused, resource};
use super::other_objects::is_of_other;
use super::selection::{listed, some_of};
use super::timeline::after;
use super::{Misconfiguration, Misconfigure, Recreate, ScenarioError};
use crate::Driver;
use nodeless_fake_kubernetes::{DeleteOptions, ListOptions};
use nodeless_world::random::Random;
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The objects of a kind that are not being deleted and that no other edit concerns, in the order of their names, without those of another
/// controller.
fn present(driver: &Driver, kind: &str, active: &ActiveFaults) -> Result<Vec<Arc<Value>>, ScenarioError> {
    let resource = resource(kind)?;
    let list = driver.world().api().list(&resource, &ListOptions::default());
    let mut objects = list.map(|list| list.items).unwrap_or_default();
    objects.retain(|object| {
        let edited = active.edits().any(|edit| edit.concerns(kind, name_of(object)));
        object.pointer("/metadata/deletionTimestamp").is_none() && !edited && !is_of_other(&resource, object)
    });
    Ok(objects)
}

/// The fields of the spec that a wrong edit of this object sets.
fn wrong(fault: Misconfiguration, object: &Value) -> Value {
    let requires = |key: &str, operator: &str, value: &str| {
        let mut all = object.pointer("/spec/template/spec/requirements").cloned().unwrap_or_else(|| json!([]));
        if let Some(all) = all.as_array_mut() {
            all.push(json!({ "key": key, "operator": operator, "values": [value] }));
        }
        json!({ "template": { "spec": { "requirements": all } } })
    };
    let by_tag = json!([{ "tags": { "karpenter.sh/discovery": "no-such-cluster" } }]);
    match fault {
        Misconfiguration::UnknownInstanceType => requires("node.kubernetes.io/instance-type", "In", "m6i.tiny"),
        Misconfiguration::NoInstanceType => requires("karpenter.k8s.aws/instance-cpu", "Gt", "100000"),
        Misconfiguration::NoSubnets => json!({ "subnetSelectorTerms": by_tag }),
        Misconfiguration::NoSecurityGroups => json!({ "securityGroupSelectorTerms": by_tag }),
        Misconfiguration::NoAmis => json!({ "amiFamily": "AL2023", "amiSelectorTerms": by_tag }),
    }
}

impl Misconfiguration {
    fn kind(self) -> &'static str {
        match self {
            Self::UnknownInstanceType | Self::NoInstanceType => "NodePool",
            Self::NoSubnets | Self::NoSecurityGroups | Self::NoAmis => "EC2NodeClass",
        }
    }
}

/// The values that an object has of the fields of a patch; `null` if absent.
fn before(object: &Value, patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => {
            let values: Map<String, Value> =
                fields.iter().map(|(key, value)| (key.clone(), before(&object[key], value))).collect();
            Value::Object(values)
        }
        _ => object.clone(),
    }
}

/// A user makes an object unusable.
pub(super) fn misconfigure(
    driver: &Driver,
    Misconfigure { fault, lasts }: &Misconfigure,
    random: &mut Random,
    active: &mut ActiveFaults,
) -> Result<String, ScenarioError> {
    let kind = fault.kind();
    let Some(object) = some_of(present(driver, kind, active)?, 1, random).pop() else {
        return Ok(format!("no {kind} is misconfigured, because there is none that is not"));
    };
    let name = name_of(&object).to_owned();
    let spec = wrong(*fault, &object);
    let correction = before(&object["spec"], &spec);
    patch_spec(driver, kind, &name, &spec)?;
    let note = format!("{kind} {name} is misconfigured for {lasts:#}: {fault:?}");
    active.add(after(driver.world().now(), *lasts), End::Edit(Edit::Wrong { kind, name, correction }));
    Ok(note)
}

/// An object as its author wrote it.
fn written(object: &Value) -> Value {
    let metadata: Map<String, Value> = ["name", "labels", "annotations"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object["metadata"].get(field)?.clone())))
        .collect();
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"],
    })
}

/// A user deletes NodePools.
pub(super) fn recreate(
    driver: &Driver,
    Recreate { count, lasts }: &Recreate,
    random: &mut Random,
    active: &mut ActiveFaults,
) -> Result<String, ScenarioError> {
    let chosen = some_of(present(driver, "NodePool", active)?, *count, random);
    for pool in &chosen {
        let deleted = driver.world().api().delete(&NODE_POOLS, "", name_of(pool), &DeleteOptions::default());
        deleted.map_err(|status| refused(&format!("delete NodePool {}", name_of(pool)), &status))?;
        active.add(after(driver.world().now(), *lasts), End::Edit(Edit::Deleted(written(pool))));
    }
    let names: Vec<String> = chosen.iter().map(|pool| name_of(pool).to_owned()).collect();
    Ok(format!("NodePool deleted for {lasts:#} by a person: {}", listed(&names)))
}
