//! The built-in admission plugins: LimitRanger, Priority, RuntimeClass, DefaultStorageClass, ServiceAccount and
//! DefaultTolerationSeconds, and the addresses of Services.

use crate::server::path::text;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::defaults;
use super::definition::Definition;
use super::pod_resources::list;
use super::resource::{
    LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES, SERVICES, STORAGE_CLASSES,
};
use super::status::Status;
use super::store::Store;

/// The annotations that make a StorageClass the default one.
const IS_DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The earlier form of a claim's `storageClassName`.
const CLASS_OF_CLAIM: &str = "volume.beta.kubernetes.io/storage-class";

/// The changes of the built-in admission plugins to a new object.
pub(super) fn admit(store: &mut Store, definition: &Definition, object: &mut Value) -> Result<(), Status> {
    if definition.resource == PODS {
        limit_ranges(store, object);
        priority(store, object)?;
        runtime_class(store, object)?;
        let spec = &mut object["spec"];
        if spec.get("serviceAccountName").is_none() {
            spec["serviceAccountName"] = json!("default");
        }
        default_tolerations(spec);
    }
    if definition.resource == PERSISTENT_VOLUME_CLAIMS {
        storage_class(store, object);
    }
    if definition.resource == SERVICES {
        let spec = &mut object["spec"];
        let wants = spec["type"] != "ExternalName" && text(spec, "/clusterIP").is_empty();
        if wants {
            let number = store.iter(&SERVICES.storage_key(), None).count() + 100;
            let address = format!("10.100.{}.{}", number / 250, number % 250 + 1);
            spec["clusterIP"] = json!(address);
            spec["clusterIPs"] = json!([address]);
        }
    }
    Ok(())
}

/// Gives containers the defaults of the LimitRanges of their namespace.
fn limit_ranges(store: &Store, pod: &mut Value) {
    let namespace = text(pod, "/metadata/namespace").to_owned();
    for (_, range) in store.iter(&LIMIT_RANGES.storage_key(), Some(&namespace)) {
        let items = list(range, "/spec/limits").iter().filter(|item| item["type"] == "Container");
        items.for_each(|item| defaults::of_limit_range(pod, item));
    }
}

fn priority(store: &Store, pod: &mut Value) -> Result<(), Status> {
    let key = PRIORITY_CLASSES.storage_key();
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        store.iter(&key, None).map(|(_, class)| class).find(|class| class["globalDefault"] == true).cloned()
    } else {
        let class = store.get(&key, &(String::new(), name.clone())).cloned();
        if class.is_none() {
            let detail = format!("no PriorityClass with name {name} was found");
            return Err(Status::forbidden(&PODS, text(pod, "/metadata/name"), &detail));
        }
        class
    };
    let spec = &mut pod["spec"];
    spec["priority"] = class.as_ref().map_or(json!(0), |class| class["value"].clone());
    spec["preemptionPolicy"] =
        class.as_ref().map_or(json!("PreemptLowerPriority"), |class| class["preemptionPolicy"].clone());
    if let Some(class) = class {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
    }
    Ok(())
}

/// Gives a claim that names no StorageClass the default one, the newest of several, as the admission plugin DefaultStorageClass does. An
/// empty name asks for a volume without a class.
fn storage_class(store: &Store, claim: &mut Value) {
    let annotations = |object: &Value, key: &str| object["metadata"]["annotations"].get(key).cloned();
    if !claim["spec"]["storageClassName"].is_null() || annotations(claim, CLASS_OF_CLAIM).is_some() {
        return;
    }
    let classes = store.iter(&STORAGE_CLASSES.storage_key(), None).map(|(_, class)| class);
    let defaults =
        classes.filter(|class| IS_DEFAULT_CLASS.iter().any(|key| annotations(class, key) == Some(json!("true"))));
    let order = |class: &&Arc<Value>| {
        let name = std::cmp::Reverse(text(class, "/metadata/name").to_owned());
        (text(class, "/metadata/creationTimestamp").to_owned(), name)
    };
    if let Some(class) = defaults.max_by_key(order) {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

fn default_tolerations(spec: &mut Value) {
    let mut list = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|toleration| {
            let (own, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = Value::Array(list);
}

/// Gives a pod the overhead of its RuntimeClass, and the node selector and tolerations of the nodes that support it.
fn runtime_class(store: &Store, pod: &mut Value) -> Result<(), Status> {
    let rejected = |pod: &Value, why: &str| Err(Status::forbidden(&PODS, text(pod, "/metadata/name"), why));
    let overhead = pod["spec"].get("overhead").filter(|overhead| !is_empty(overhead)).cloned();
    let name = text(pod, "/spec/runtimeClassName").to_owned();
    if name.is_empty() {
        return match overhead {
            Some(_) => {
                rejected(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
            }
            None => Ok(()),
        };
    }
    let Some(class) = store.get(&RUNTIME_CLASSES.storage_key(), &(String::new(), name.clone())).cloned() else {
        return rejected(pod, &format!("pod rejected: RuntimeClass \"{name}\" not found"));
    };
    match (overhead, class.pointer("/overhead/podFixed").filter(|fixed| !is_empty(fixed))) {
        (Some(_), None) => {
            return rejected(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        }
        (Some(own), Some(fixed)) if own != *fixed => {
            return rejected(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
        (_, Some(fixed)) => pod["spec"]["overhead"] = fixed.clone(),
        (None, None) => {}
    }
    for (key, value) in class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        let own = pod["spec"]["nodeSelector"].get(key).cloned();
        if let Some(own) = own.filter(|own| own != value) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                own.as_str().unwrap_or_default()
            );
            return rejected(pod, &why);
        }
        pod["spec"]["nodeSelector"][key.as_str()] = value.clone();
    }
    let tolerated = list(pod, "/spec/tolerations").to_vec();
    let more = list(&class, "/scheduling/tolerations").iter().filter(|one| !tolerated.contains(one));
    let all: Vec<Value> = tolerated.iter().chain(more).cloned().collect();
    if !all.is_empty() {
        pod["spec"]["tolerations"] = Value::Array(all);
    }
    Ok(())
}

fn is_empty(map: &Value) -> bool {
    map.as_object().is_none_or(Map::is_empty)
}
