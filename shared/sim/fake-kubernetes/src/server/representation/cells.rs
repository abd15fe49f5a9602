//! The cells of built-in resources in their printer columns.

use crate::server::autoscaling;
use crate::server::path::{Path as _, text};
use crate::server::resource::Resource;
use crate::server::selectors::LabelSelector;
use crate::server::time::Ages;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The cells of an object, in the order of its columns.
pub(crate) fn cells(resource: &Resource, object: &Value, ages: Ages) -> Vec<Value> {
    let plural: &str = resource.plural.as_ref();
    workload_cells(plural, object, ages).unwrap_or_else(|| other_cells(plural, object, ages))
}

fn name_and_age(object: &Value, ages: Ages) -> (Value, Value) {
    (json!(text(object, "/metadata/name")), json!(ages.age(object)))
}

fn words(object: &Value, pointer: &str) -> Value {
    match object.at(pointer) {
        Some(Value::String(value)) => json!(value),
        Some(Value::Null) | None => json!("<none>"),
        Some(value) => json!(value.to_string()),
    }
}

fn count(object: &Value, pointer: &str) -> Value {
    json!(object.at(pointer).and_then(Value::as_i64).unwrap_or_default())
}

/// The number of fields or elements.
fn size(object: &Value, pointer: &str) -> Value {
    json!(
        object
            .at(pointer)
            .map_or(0, |it| it.as_object().map_or_else(|| it.as_array().map_or(0, Vec::len), serde_json::Map::len))
    )
}

/// The cells of nodes, pods, and what creates pods or scales that.
fn workload_cells(plural: &str, object: &Value, ages: Ages) -> Option<Vec<Value>> {
    let (name, age) = name_and_age(object, ages);
    let count = |pointer: &str| count(object, pointer);
    Some(match plural {
        "pods" => pod(object, name, age),
        "nodes" => node(object, name, age),
        "deployments" => {
            let ready = format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"));
            let mut cells =
                vec![name, json!(ready), count("/status/updatedReplicas"), count("/status/availableReplicas"), age];
            cells.extend(template(object, true));
            cells
        }
        "replicasets" | "replicationcontrollers" => {
            let mut cells =
                vec![name, count("/spec/replicas"), count("/status/replicas"), count("/status/readyReplicas"), age];
            cells.extend(template(object, true));
            cells
        }
        "daemonsets" => {
            let status = |field: &str| count(&format!("/status/{field}"));
            let mut cells = vec![
                name,
                status("desiredNumberScheduled"),
                status("currentNumberScheduled"),
                status("numberReady"),
                status("updatedNumberScheduled"),
                status("numberAvailable"),
                json!(label_text(object.at("/spec/template/spec/nodeSelector"))),
                age,
            ];
            cells.extend(template(object, true));
            cells
        }
        "statefulsets" => {
            let ready = format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"));
            let mut cells = vec![name, json!(ready), age];
            cells.extend(template(object, false));
            cells
        }
        "jobs" => job(object, name, age, ages),
        "cronjobs" => cron_job(object, name, age, ages),
        "horizontalpodautoscalers" => autoscaler(object, name, age),
        _ => return None,
    })
}

fn other_cells(plural: &str, object: &Value, ages: Ages) -> Vec<Value> {
    let (name, age) = name_and_age(object, ages);
    let words = |pointer: &str| words(object, pointer);
    let size = |pointer: &str| size(object, pointer);
    match plural {
        "ingresses" => ingress(object, name, age),
        "ingressclasses" => vec![name, words("/spec/controller"), words("/spec/parameters/name"), age],
        "networkpolicies" => vec![name, json!(label_text(object.at("/spec/podSelector/matchLabels"))), age],
        "runtimeclasses" => vec![name, words("/handler"), age],
        "resourceclaims" => vec![name, json!(claim_state(object)), age],
        "resourceslices" => vec![name, words("/spec/nodeName"), words("/spec/driver"), words("/spec/pool/name"), age],
        "poddisruptionbudgets" => {
            let or_none = |pointer: &str| match words(pointer) {
                value if value == "<none>" => json!("N/A"),
                value => value,
            };
            let allowed = count(object, "/status/disruptionsAllowed");
            vec![name, or_none("/spec/minAvailable"), or_none("/spec/maxUnavailable"), allowed, age]
        }
        "events" => event(object, ages),
        "namespaces" => vec![name, words("/status/phase"), age],
        "customresourcedefinitions" => vec![name, words("/metadata/creationTimestamp")],
        "services" => service(object, name, age),
        "configmaps" => vec![name, size("/data"), age],
        "secrets" => vec![name, words("/type"), size("/data"), age],
        "leases" => vec![name, words("/spec/holderIdentity"), age],
        "resourcequotas" => vec![name, json!(quota(object, false)), json!(quota(object, true)), age],
        "priorityclasses" => vec![name, count(object, "/value"), words("/globalDefault"), age],
        "persistentvolumeclaims" => vec![
            name,
            words("/status/phase"),
            words("/spec/volumeName"),
            words("/status/capacity/storage"),
            words("/spec/storageClassName"),
            age,
        ],
        "persistentvolumes" => vec![
            name,
            words("/spec/capacity/storage"),
            words("/spec/persistentVolumeReclaimPolicy"),
            words("/status/phase"),
            words("/spec/storageClassName"),
            age,
        ],
        "storageclasses" => {
            vec![name, words("/provisioner"), words("/reclaimPolicy"), words("/volumeBindingMode"), age]
        }
        "csinodes" => vec![name, size("/spec/drivers"), age],
        "volumeattachments" => vec![
            name,
            words("/spec/attacher"),
            words("/spec/source/persistentVolumeName"),
            words("/spec/nodeName"),
            words("/status/attached"),
            age,
        ],
        "validatingwebhookconfigurations" => vec![name, size("/webhooks"), age],
        _ => vec![name, age],
    }
}

fn cron_job(object: &Value, name: Value, age: Value, ages: Ages) -> Vec<Value> {
    let last = object.at("/status/lastScheduleTime").and_then(Value::as_str);
    let last = last.map_or("<none>".to_owned(), |time| ages.since(time));
    let suspend = title(&words(object, "/spec/suspend"));
    vec![name, words(object, "/spec/schedule"), suspend, size(object, "/status/active"), json!(last), age]
}

fn autoscaler(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let current = &autoscaling::to_v2(object.clone());
    let target = |field: &str| text(current, &format!("/spec/scaleTargetRef/{field}"));
    let reference = format!("{}/{}", target("kind"), target("name"));
    vec![
        name,
        json!(reference),
        json!(targets(current)),
        words(object, "/spec/minReplicas"),
        words(object, "/spec/maxReplicas"),
        count(object, "/status/currentReplicas"),
        age,
    ]
}

/// The current value and the target of the first two metrics of a HorizontalPodAutoscaler.
fn targets(autoscaler: &Value) -> String {
    let current = list(autoscaler, "/status/currentMetrics");
    let metrics = list(autoscaler, "/spec/metrics");
    let shown: Vec<String> = metrics.iter().take(2).map(|metric| target(metric, current)).collect();
    match metrics.len() {
        0 => "<none>".to_owned(),
        1 | 2 => shown.join(", "),
        more => format!("{} + {} more...", shown.join(", "), more - 2),
    }
}

fn target(metric: &Value, current: &[Value]) -> String {
    let field = if metric["type"] == "ContainerResource" { "containerResource" } else { "resource" };
    let source = &metric[field];
    let known = current
        .iter()
        .map(|status| &status[field])
        .find(|status| status["name"] == source["name"] && status["container"] == source["container"]);
    let of = |value: Option<&Value>, unit: &str| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => format!("{number}{unit}"),
        _ => "<unknown>".to_owned(),
    };
    let (kind, unit) = if source.at("/target/averageUtilization").is_some() {
        ("averageUtilization", "%")
    } else {
        ("averageValue", "")
    };
    let now = known.and_then(|known| known["current"].get(kind));
    let name = source["name"].as_str().map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{name}{}/{}", of(now, unit), of(source["target"].get(kind), unit))
}

/// What is used and allowed by the resources of a ResourceQuota, those of limits apart.
fn quota(object: &Value, limits: bool) -> String {
    let hard = object.at("/status/hard").and_then(Value::as_object);
    let used = |name: &str| object["status"]["used"][name].as_str().unwrap_or("0").to_owned();
    let shown = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits") == limits);
    let shown = shown.map(|(name, hard)| {
        let hard = hard.as_str().map_or_else(|| hard.to_string(), str::to_owned);
        format!("{name}: {}/{hard}", used(name))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn title(value: &Value) -> Value {
    match value.as_str() {
        Some("true") => json!("True"),
        Some("false") => json!("False"),
        _ => value.clone(),
    }
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn label_text(labels: Option<&Value>) -> String {
    let pairs = labels.and_then(Value::as_object).into_iter().flatten();
    let text = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let text = text.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".into() } else { text }
}

/// Containers, images and, if asked, the selector.
fn template(object: &Value, selector: bool) -> Vec<Value> {
    let containers = list(object, "/spec/template/spec/containers");
    let join = |field: &str| containers.iter().map(|it| text(it, field)).collect::<Vec<_>>().join(",");
    let mut cells = vec![json!(join("/name")), json!(join("/image"))];
    if selector {
        let parsed = LabelSelector::from_object(&object["spec"]["selector"]).ok().flatten();
        cells.push(json!(parsed.map(|selector| selector.to_text()).unwrap_or_default()));
    }
    cells
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn pod(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let statuses = list(object, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status["ready"] == true).count();
    let restarts: i64 = statuses.iter().filter_map(|status| status["restartCount"].as_i64()).sum();
    let mut status = text(object, "/status/reason").to_owned();
    if status.is_empty() {
        status = text(object, "/status/phase").to_owned();
    }
    if list(object, "/status/conditions").iter().any(|it| it["reason"] == "SchedulingGated") {
        status = "SchedulingGated".into();
    }
    for container in statuses.iter().rev() {
        for state in ["/state/waiting/reason", "/state/terminated/reason"] {
            let reason = text(container, state);
            if !reason.is_empty() {
                status = reason.to_owned();
            }
        }
    }
    if object.at("/metadata/deletionTimestamp").is_some() {
        status = if status == "NodeLost" { "Unknown".into() } else { "Terminating".into() };
    }
    let total = list(object, "/spec/containers").len();
    vec![
        name,
        json!(format!("{ready}/{total}")),
        json!(status),
        json!(restarts.to_string()),
        age,
        or_none(text(object, "/status/podIP")),
        or_none(text(object, "/spec/nodeName")),
        or_none(text(object, "/status/nominatedNodeName")),
        json!("<none>"),
    ]
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = list(object, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let labels = object.at("/metadata/labels").and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").iter().find(|address| address["type"] == kind);
        or_none(found.map(|address| text(address, "/address")).unwrap_or_default())
    };
    let info = |field: &str| {
        let value = text(object, &format!("/status/nodeInfo/{field}"));
        json!(if value.is_empty() { "<unknown>" } else { value })
    };
    vec![
        name,
        json!(status),
        or_none(&roles.join(",")),
        age,
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn job(object: &Value, name: Value, age: Value, ages: Ages) -> Vec<Value> {
    let condition =
        |kind: &str| list(object, "/status/conditions").iter().any(|it| it["type"] == kind && it["status"] == "True");
    let status = if condition("Complete") {
        "Complete"
    } else if condition("Failed") {
        "Failed"
    } else if object.at("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if condition("Suspended") {
        "Suspended"
    } else {
        "Running"
    };
    let number = |pointer: &str| object.at(pointer).and_then(Value::as_i64);
    let completions =
        format!("{}/{}", number("/status/succeeded").unwrap_or_default(), number("/spec/completions").unwrap_or(1));
    let time = |pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let duration =
        time("/status/startTime").map(|start| ages.between(start, time("/status/completionTime").unwrap_or(ages.now)));
    vec![name, json!(status), json!(completions), json!(duration.unwrap_or_default()), age]
}

fn event(object: &Value, ages: Ages) -> Vec<Value> {
    let first_of = |pointers: &[&str]| {
        let found = pointers.iter().map(|pointer| text(object, pointer)).find(|time| !time.is_empty());
        found.map_or("<unknown>".to_owned(), |time| ages.since(time))
    };
    let last = first_of(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"]);
    let first = first_of(&["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"]);
    let about =
        format!("{}/{}", text(object, "/involvedObject/kind").to_lowercase(), text(object, "/involvedObject/name"));
    let component = text(object, "/source/component");
    let component = if component.is_empty() { text(object, "/reportingComponent") } else { component };
    let host = text(object, "/source/host");
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    let count = object.at("/series/count").or_else(|| object.get("count")).and_then(Value::as_i64).unwrap_or(1);
    vec![
        json!(last),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(about),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(source),
        json!(text(object, "/message").trim()),
        json!(first),
        json!(count.to_string()),
        json!(text(object, "/metadata/name")),
    ]
}

fn ingress(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let rules = list(object, "/spec/rules").iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty());
    let hosts = rules.collect::<Vec<_>>().join(",");
    let addresses = list(object, "/status/loadBalancer/ingress").iter().map(|one| match text(one, "/ip") {
        "" => text(one, "/hostname"),
        ip => ip,
    });
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name,
        or_none(text(object, "/spec/ingressClassName")),
        json!(if hosts.is_empty() { "*" } else { &hosts }),
        json!(addresses.collect::<Vec<_>>().join(",")),
        json!(ports),
        age,
    ]
}

/// Whether a ResourceClaim is being deleted, has devices, and has pods that use them.
fn claim_state(object: &Value) -> String {
    let is_deleted = object.at("/metadata/deletionTimestamp").is_some();
    let is_allocated = object.at("/status/allocation").is_some();
    let is_reserved = object.at("/status/reservedFor").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && is_reserved, "reserved"),
    ];
    states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect::<Vec<_>>().join(",")
}

fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports = list(object, "/spec/ports").iter().map(|port| {
        let node =
            port["nodePort"].as_i64().filter(|node| *node > 0).map(|node| format!(":{node}")).unwrap_or_default();
        format!("{}{node}/{}", port["port"], text(port, "/protocol"))
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    vec![
        name,
        json!(text(object, "/spec/type")),
        or_none(text(object, "/spec/clusterIP")),
        or_none(text(object, "/spec/externalName")),
        or_none(&ports),
        age,
        json!(label_text(object.at("/spec/selector"))),
    ]
}
