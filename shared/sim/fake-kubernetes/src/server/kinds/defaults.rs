//! The defaults of built-in kinds that clients and controllers rely on.

use crate::server::path::{Path as _, text};
use serde_json::{Map, Value, json};

use crate::server::definition::Definition;

/// Sets a field if it is missing or null. Does nothing if the parent is not an object.
fn default(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        let slot = map.entry(field.to_owned()).or_insert(Value::Null);
        if slot.is_null() {
            *slot = value;
        }
    }
}

fn defaults(object: &mut Value, values: Value) {
    if let Value::Object(values) = values {
        for (field, value) in values {
            default(object, &field, value);
        }
    }
}

/// Applies the defaults of the object's kind.
pub(crate) fn apply(definition: &Definition, object: &mut Value) {
    if definition.custom.is_some() {
        return;
    }
    let kind = definition.resource.kind.as_ref();
    if matches!(kind, "Pod" | "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "CronJob" | "Service")
    {
        default(object, "spec", json!({}));
    }
    match kind {
        "Pod" => {
            pod_spec(&mut object["spec"]);
            default(object, "status", json!({}));
            pod_status(object);
        }
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" => workload(kind, object),
        "Job" => job(object),
        "CronJob" => {
            let values = json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1});
            defaults(&mut object["spec"], values);
        }
        "Service" => service(&mut object["spec"]),
        "Node" => {
            default(object, "spec", json!({}));
            default(object, "status", json!({}));
        }
        "Namespace" => namespace(object),
        "Secret" => secret(object),
        "StorageClass" => {
            defaults(object, json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}));
        }
        "PersistentVolume" => {
            default(object, "status", json!({"phase": "Pending"}));
            let values = json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"});
            defaults(&mut object["spec"], values);
        }
        "PersistentVolumeClaim" => {
            default(object, "status", json!({"phase": "Pending"}));
            default(&mut object["spec"], "volumeMode", json!("Filesystem"));
        }
        "HorizontalPodAutoscaler" => {
            default(object, "spec", json!({}));
            default(&mut object["spec"], "minReplicas", json!(1));
            let target = json!({"type": "Utilization", "averageUtilization": 80});
            let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
            default(&mut object["spec"], "metrics", metrics);
        }
        "NetworkPolicy" => {
            default(object, "spec", json!({}));
            let egress =
                object["spec"].get("egress").is_some_and(|rules| rules.as_array().is_some_and(|it| !it.is_empty()));
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            default(&mut object["spec"], "policyTypes", types);
        }
        "PriorityClass" => {
            defaults(object, json!({"preemptionPolicy": "PreemptLowerPriority", "globalDefault": false}));
        }
        "LimitRange" => limit_range(object),
        "ResourceClaim" => resource_claim(object),
        "ResourceClaimTemplate" => device_requests(object.pointer_mut("/spec/spec/devices/requests")),
        "ValidatingWebhookConfiguration" => webhooks(object),
        "CustomResourceDefinition" => custom_resource_definition(object),
        "Event" => event(object),
        _ => {}
    }
}

/// The default limit of a resource is its maximum, and its default request that limit or its minimum.
fn limit_range(object: &mut Value) {
    for item in object.pointer_mut("/spec/limits").and_then(Value::as_array_mut).into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            if let Some(values) = item.get(from).filter(|values| values.is_object()).cloned() {
                default(item, to, json!({}));
                defaults(&mut item[to], values);
            }
        }
    }
}

fn resource_claim(object: &mut Value) {
    default(object, "status", json!({}));
    device_requests(object.pointer_mut("/spec/devices/requests"));
}

/// A request for devices, and each of its alternatives, is for one device, unless it is for all.
fn device_requests(requests: Option<&mut Value>) {
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            device_request(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(device_request);
    }
}

fn device_request(request: &mut Value) {
    default(request, "allocationMode", json!("ExactCount"));
    if request["allocationMode"] == "ExactCount" {
        default(request, "count", json!(1));
    }
}

fn workload(kind: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    if kind != "DaemonSet" {
        default(spec, "replicas", json!(1));
    }
    let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    match kind {
        "Deployment" => {
            defaults(spec, json!({"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}}));
            default(&mut spec["strategy"], "type", json!("RollingUpdate"));
            if spec["strategy"]["type"] == "RollingUpdate" {
                default(&mut spec["strategy"], "rollingUpdate", json!({}));
                defaults(&mut spec["strategy"]["rollingUpdate"], rolling);
            }
        }
        "StatefulSet" => {
            let values = json!({"revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}});
            defaults(spec, values);
        }
        "DaemonSet" => {
            let values = json!({"revisionHistoryLimit": 10, "updateStrategy":
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
            defaults(spec, values);
        }
        _ => {}
    }
    if spec.get("template").is_some_and(Value::is_object) {
        template(&mut spec["template"]);
    }
}

fn template(template: &mut Value) {
    default(template, "metadata", json!({}));
    if template.get("spec").is_some_and(Value::is_object) {
        pod_spec(&mut template["spec"]);
    }
}

fn job(object: &mut Value) {
    let uid = text(object, "/metadata/uid").to_owned();
    let name = text(object, "/metadata/name").to_owned();
    let spec = &mut object["spec"];
    let values = json!({"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed", "manualSelector": false});
    defaults(spec, values);
    if spec["parallelism"] == 1 {
        default(spec, "completions", json!(1));
    }
    if spec["manualSelector"] != true && spec.get("selector").is_none() && !uid.is_empty() {
        spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
        if spec.get("template").is_some_and(Value::is_object) {
            default(&mut spec["template"], "metadata", json!({}));
            default(&mut spec["template"]["metadata"], "labels", json!({}));
            let labels = json!({"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
                "controller-uid": uid, "job-name": name});
            defaults(&mut spec["template"]["metadata"]["labels"], labels);
        }
    }
    if spec.get("template").is_some_and(Value::is_object) {
        template(&mut spec["template"]);
    }
}

/// Defaults of a pod's specification.
fn pod_spec(spec: &mut Value) {
    let values = json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler", "securityContext": {}});
    defaults(spec, values);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container_defaults(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for (source, mode) in [("secret", 420), ("configMap", 420), ("projected", 420), ("downwardAPI", 420)] {
            if let Some(source) = volume.get_mut(source) {
                default(source, "defaultMode", json!(mode));
            }
        }
        if let Some(path) = volume.get_mut("hostPath") {
            default(path, "type", json!(""));
        }
    }
}

fn container_defaults(container: &mut Value) {
    let image = text(container, "/image");
    let tag = image.rsplit('/').next().unwrap_or_default().split_once(':').map(|(_, tag)| tag);
    let policy = if tag.is_none_or(|tag| tag == "latest") && !image.contains('@') { "Always" } else { "IfNotPresent" };
    let values = json!({"imagePullPolicy": policy, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "resources": {}});
    defaults(container, values);
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        default(port, "protocol", json!("TCP"));
    }
    if let Some(limits) = container.at("/resources/limits").and_then(Value::as_object).cloned() {
        default(&mut container["resources"], "requests", json!({}));
        defaults(&mut container["resources"]["requests"], Value::Object(limits));
    }
}

/// Gives the containers of a new pod the requests and limits of an item of a LimitRange that they have none for, as the admission plugin
/// LimitRanger does.
pub(crate) fn of_limit_range(pod: &mut Value, item: &Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(resources) = container.get_mut("resources") else { continue };
            for (from, to) in [("default", "limits"), ("defaultRequest", "requests")] {
                let Some(values) = item.get(from).filter(|values| values.is_object()) else { continue };
                default(resources, to, json!({}));
                if let Some(own) = resources.get_mut(to) {
                    defaults(own, values.clone());
                }
            }
        }
    }
    let class = quality_of_service(spec);
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("qosClass".to_owned(), json!(class));
    }
}

fn pod_status(object: &mut Value) {
    let class = quality_of_service(&object["spec"]);
    default(&mut object["status"], "phase", json!("Pending"));
    default(&mut object["status"], "qosClass", json!(class));
    if list_is_filled(&object["spec"]["schedulingGates"]) {
        let gated = json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": object["metadata"]["creationTimestamp"], "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
        default(&mut object["status"], "conditions", gated);
    }
}

fn list_is_filled(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty())
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from the requests and limits of cpu and memory.
fn quality_of_service(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.get(list).and_then(Value::as_array).into_iter().flatten());
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let request = container.at(&format!("/resources/requests/{resource}"));
            let limit = container.at(&format!("/resources/limits/{resource}"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn service(spec: &mut Value) {
    let values = json!({"type": "ClusterIP", "sessionAffinity": "None"});
    defaults(spec, values);
    if spec["type"] != "ExternalName" {
        let values = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster"});
        defaults(spec, values);
        if let Some(address) = spec.get("clusterIP").cloned() {
            default(spec, "clusterIPs", json!([address]));
        }
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port.get("port").cloned().unwrap_or_default();
        defaults(port, json!({"protocol": "TCP", "targetPort": number}));
    }
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    default(&mut object["metadata"], "labels", json!({}));
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    default(object, "spec", json!({}));
    if object.at("/metadata/deletionTimestamp").is_none() {
        default(&mut object["spec"], "finalizers", json!(["kubernetes"]));
    }
    default(object, "status", json!({}));
    default(&mut object["status"], "phase", json!("Active"));
}

fn secret(object: &mut Value) {
    use base64::Engine as _;
    default(object, "type", json!("Opaque"));
    let plain = object.as_object_mut().and_then(|map| map.remove("stringData"));
    if let Some(Value::Object(plain)) = plain {
        default(object, "data", json!({}));
        for (key, value) in plain {
            let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
            object["data"][key] = json!(encoded);
        }
    }
}

fn webhooks(object: &mut Value) {
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let values = json!({"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
            "namespaceSelector": {}, "objectSelector": {}});
        defaults(webhook, values);
        for rule in webhook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            default(rule, "scope", json!("*"));
        }
    }
}

fn custom_resource_definition(object: &mut Value) {
    default(&mut object["spec"], "conversion", json!({"strategy": "None"}));
    let kind = text(object, "/spec/names/kind").to_owned();
    let names = &mut object["spec"]["names"];
    default(names, "singular", json!(kind.to_lowercase()));
    default(names, "listKind", json!(format!("{kind}List")));
}

fn event(object: &mut Value) {
    for field in ["source", "involvedObject"] {
        default(object, field, Value::Object(Map::new()));
    }
    for field in ["reportingComponent", "reportingInstance"] {
        default(object, field, json!(""));
    }
}
