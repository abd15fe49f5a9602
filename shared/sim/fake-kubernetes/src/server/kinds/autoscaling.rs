//! HorizontalPodAutoscalers of autoscaling/v1, which has fields for the utilization of CPU, and annotations for everything else. They are
//! stored as autoscaling/v2 (`pkg/apis/autoscaling/v1/conversion.go` of Kubernetes).

use serde_json::{Map, Value, json};

use crate::server::path::text;

/// The prefix of the annotations.
const ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/";
/// The annotations that are not lists of metrics, and the fields of v2 that they have.
const COPIED: [(&str, &str, &str); 2] = [("behavior", "spec", "behavior"), ("conditions", "status", "conditions")];
/// The annotations with metrics, the fields of v2, and how the values of metrics are named in them.
const METRICS: [(&str, &str, &str, &str); 2] =
    [("metrics", "spec", "metrics", "target"), ("current-metrics", "status", "currentMetrics", "current")];
/// The fields with the utilization of CPU.
const CPU: [(&str, &str, &str, &str); 2] = [
    ("spec", "targetCPUUtilizationPercentage", "metrics", "target"),
    ("status", "currentCPUUtilizationPercentage", "currentMetrics", "current"),
];
/// The fields of metrics: the source, the name in v1, and the path in v2. `*` stands for `target` or `current`.
const FIELDS: [(&str, &str, &str); 19] = [
    ("resource", "name", "name"),
    ("resource", "*AverageUtilization", "*/averageUtilization"),
    ("resource", "*AverageValue", "*/averageValue"),
    ("containerResource", "name", "name"),
    ("containerResource", "container", "container"),
    ("containerResource", "*AverageUtilization", "*/averageUtilization"),
    ("containerResource", "*AverageValue", "*/averageValue"),
    ("pods", "metricName", "metric/name"),
    ("pods", "selector", "metric/selector"),
    ("pods", "*AverageValue", "*/averageValue"),
    ("object", "target", "describedObject"),
    ("object", "metricName", "metric/name"),
    ("object", "selector", "metric/selector"),
    ("object", "*Value", "*/value"),
    ("object", "averageValue", "*/averageValue"),
    ("external", "metricName", "metric/name"),
    ("external", "metricSelector", "metric/selector"),
    ("external", "*Value", "*/value"),
    ("external", "*AverageValue", "*/averageValue"),
];

/// An object of autoscaling/v2 in the form of autoscaling/v1.
pub(crate) fn to_v1(mut object: Value) -> Value {
    object["apiVersion"] = json!("autoscaling/v1");
    drop_annotations(&mut object);
    let mut annotations = Map::new();
    for (annotation, part, field, values) in METRICS {
        let metrics = taken(&mut object, part, field);
        let metrics = metrics.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let cpu = metrics.iter().find_map(|metric| cpu_utilization(metric, values));
        if let (Some(cpu), Some((_, name, ..))) = (cpu, CPU.iter().find(|(of, ..)| *of == part)) {
            object[part][name] = cpu.clone();
        }
        // The status has everything twice, as in Kubernetes.
        let kept = metrics.iter().filter(|metric| part == "status" || cpu_utilization(metric, values).is_none());
        let kept: Vec<Value> = kept.map(|metric| renamed(metric, values, true)).collect();
        if !kept.is_empty() {
            annotations.insert(format!("{ANNOTATION}{annotation}"), json!(json!(kept).to_string()));
        }
    }
    for (annotation, part, field) in COPIED {
        if let Some(value) = taken(&mut object, part, field) {
            annotations.insert(format!("{ANNOTATION}{annotation}"), json!(value.to_string()));
        }
    }
    if !annotations.is_empty() {
        match object["metadata"]["annotations"].as_object_mut() {
            Some(own) => own.extend(annotations),
            None => object["metadata"]["annotations"] = Value::Object(annotations),
        }
    }
    object
}

/// An object of autoscaling/v1 in the form of autoscaling/v2. An annotation that cannot be read is dropped, as in Kubernetes.
pub(crate) fn to_v2(mut object: Value) -> Value {
    if !object.is_object() {
        return object;
    }
    object["apiVersion"] = json!("autoscaling/v2");
    let annotations = drop_annotations(&mut object);
    let read = |name: &str| {
        let value = annotations.get(&format!("{ANNOTATION}{name}"))?.as_str()?;
        serde_json::from_str::<Value>(value).ok()
    };
    for (part, name, field, values) in CPU {
        let Some(percentage) = taken(&mut object, part, name) else { continue };
        let mut value = json!({ "averageUtilization": percentage });
        if values == "target" {
            value["type"] = json!("Utilization");
        }
        object[part][field] = json!([{ "type": "Resource", "resource": { "name": "cpu", values: value } }]);
    }
    for (annotation, part, field, values) in METRICS {
        let Some(Value::Array(metrics)) = read(annotation) else { continue };
        let mut all: Vec<Value> = metrics.iter().map(|metric| renamed(metric, values, false)).collect();
        // Those of the status include the utilization of CPU.
        if let (Value::Array(cpu), "spec") = (object[part][field].take(), part) {
            all.extend(cpu);
        }
        object[part][field] = Value::Array(all);
    }
    for (annotation, part, field) in COPIED {
        if let Some(value) = read(annotation) {
            object[part][field] = value;
        }
    }
    object
}

/// Removes the annotations that the conversion makes, and returns all that the object had.
fn drop_annotations(object: &mut Value) -> Map<String, Value> {
    let Some(Value::Object(own)) = object.pointer_mut("/metadata/annotations") else { return Map::new() };
    let all = own.clone();
    let is_made = |key: &str| {
        let name = key.strip_prefix(ANNOTATION).unwrap_or_default();
        METRICS.iter().any(|it| it.0 == name) || COPIED.iter().any(|it| it.0 == name)
    };
    own.retain(|key, _| !is_made(key));
    if let (true, Some(Value::Object(metadata))) = (own.is_empty(), object.get_mut("metadata")) {
        metadata.remove("annotations");
    }
    all
}

fn taken(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

fn cpu_utilization<'a>(metric: &'a Value, values: &str) -> Option<&'a Value> {
    let is_cpu = text(metric, "/type") == "Resource" && text(metric, "/resource/name") == "cpu";
    metric.pointer(&format!("/resource/{values}/averageUtilization")).filter(|_| is_cpu)
}

/// A metric of v2 with the names of v1, or the reverse.
fn renamed(metric: &Value, values: &str, is_to_v1: bool) -> Value {
    let mut made = json!({ "type": metric["type"] });
    for (source, old, new) in FIELDS {
        let (old, new) = (old.replace('*', values), new.replace('*', values));
        let (from, to) = if is_to_v1 { (&new, &old) } else { (&old, &new) };
        let Some(value) = metric.get(source).and_then(|of| of.pointer(&format!("/{from}"))) else { continue };
        match to.split_once('/') {
            Some((outer, inner)) => made[source][outer][inner] = value.clone(),
            None => made[source][to] = value.clone(),
        }
    }
    if is_to_v1 || values != "target" {
        return made;
    }
    for source in ["resource", "containerResource", "pods", "object", "external"] {
        let Some(target) = made.get_mut(source).and_then(|of| of.get_mut("target")) else { continue };
        let kinds = [("averageUtilization", "Utilization"), ("averageValue", "AverageValue"), ("value", "Value")];
        if let Some((_, kind)) = kinds.iter().find(|(field, _)| target.get(field).is_some()) {
            target["type"] = json!(kind);
        }
    }
    made
}
