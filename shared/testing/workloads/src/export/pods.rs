//! Pods as manifests.

use nodeless_model::pod::{PodAffinityTerm, PodPhase, TopologySpread, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::resources::format_quantity;
use nodeless_model::{Pod, ResourceList};
use serde_json::{Map, Value, json};

pub(super) fn pod(pod: &Pod) -> Value {
    let mut metadata =
        json!({ "name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": pod.template.labels });
    if let Some(kind) = &pod.owner_kind {
        let name = pod.owner_name.as_deref().unwrap_or("owner");
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true
        }]);
    }
    if !pod.template.annotations.is_empty() {
        metadata["annotations"] = json!(pod.template.annotations);
    }
    let mut status = json!({ "phase": if pod.phase == PodPhase::Running { "Running" } else { "Pending" } });
    if let Some(start) = pod.start_time {
        status["startTime"] = json!(start.to_string());
    }
    if pod.marked_unschedulable {
        status["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(pod), "status": status })
}

/// The spec of a pod or of a template.
pub(super) fn spec(pod: &Pod) -> Value {
    let mut container = json!({ "name": "main", "resources": { "requests": requests(&pod.template.requests) } });
    if !pod.template.requests.get("nvidia.com/gpu").is_zero() {
        container["resources"]["limits"] =
            json!({ "nvidia.com/gpu": format_quantity("nvidia.com/gpu", pod.template.requests.get("nvidia.com/gpu")) });
    }
    if !pod.template.host_ports.is_empty() {
        let port = |port: &nodeless_model::pod::HostPort| json!({ "containerPort": port.port, "hostPort": port.port, "hostIP": port.ip, "protocol": port.protocol });
        container["ports"] = pod.template.host_ports.iter().map(port).collect();
    }
    let mut spec = Map::from_iter([("containers".to_owned(), json!([container]))]);
    let mut set = |key: &str, value: Value| {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            spec.insert(key.to_owned(), value);
        }
    };
    set("nodeName", json!(pod.node_name));
    set("nodeSelector", json!(pod.template.node_selector));
    set("tolerations", json!(pod.template.tolerations));
    set("affinity", affinity(pod));
    set("topologySpreadConstraints", pod.template.topology_spread.iter().map(topology_spread).collect());
    let volume = |claim: &nodeless_model::pod::VolumeClaim| json!({ "name": claim.claim_name, "persistentVolumeClaim": { "claimName": claim.claim_name } });
    set("volumes", pod.template.volume_claims.iter().map(volume).collect());
    Value::Object(spec)
}

fn requests(list: &ResourceList) -> Value {
    let written = list.iter().filter(|(name, _)| *name != "pods");
    written.map(|(name, quantity)| (name.to_owned(), json!(format_quantity(name, quantity)))).collect()
}

fn affinity(pod: &Pod) -> Value {
    let mut affinity = Map::new();
    let terms = |terms: &[Vec<RequirementTerm>]| terms.iter().map(|term| node_term(term)).collect::<Vec<_>>();
    let preferred: Vec<Value> = pod
        .template
        .preferred_node_affinity
        .iter()
        .map(|term| json!({ "weight": term.weight, "preference": node_term(&term.preference) }))
        .collect();
    let mut node = Map::new();
    if !pod.template.required_node_affinity.is_empty() {
        node.insert(REQUIRED.into(), json!({ "nodeSelectorTerms": terms(&pod.template.required_node_affinity) }));
    }
    if !preferred.is_empty() {
        node.insert(PREFERRED.into(), json!(preferred));
    }
    if !node.is_empty() {
        affinity.insert("nodeAffinity".into(), Value::Object(node));
    }
    for (key, required, preferred) in [
        ("podAffinity", &pod.template.required_pod_affinity, &pod.template.preferred_pod_affinity),
        ("podAntiAffinity", &pod.template.required_pod_anti_affinity, &pod.template.preferred_pod_anti_affinity),
    ] {
        if !required.is_empty() || !preferred.is_empty() {
            affinity.insert(key.into(), pod_affinity(required, preferred));
        }
    }
    Value::Object(affinity)
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn pod_affinity(required: &[PodAffinityTerm], preferred: &[Weighted<PodAffinityTerm>]) -> Value {
    let mut affinity = Map::new();
    if !required.is_empty() {
        affinity.insert(REQUIRED.into(), required.iter().map(pod_term).collect());
    }
    if !preferred.is_empty() {
        let term = |term: &Weighted<PodAffinityTerm>| json!({ "weight": term.weight, "podAffinityTerm": pod_term(&term.preference) });
        affinity.insert(PREFERRED.into(), preferred.iter().map(term).collect());
    }
    Value::Object(affinity)
}

fn node_term(terms: &[RequirementTerm]) -> Value {
    let one =
        |term: &RequirementTerm| json!({ "key": term.key, "operator": term.operator.as_str(), "values": term.values });
    json!({ "matchExpressions": terms.iter().map(one).collect::<Vec<_>>() })
}

fn pod_term(term: &PodAffinityTerm) -> Value {
    let mut written = json!({ "topologyKey": term.topology_key });
    if let Some(selector) = &term.selector {
        written["labelSelector"] = json!(selector);
    }
    if let Some(selector) = &term.namespace_selector {
        written["namespaceSelector"] = json!(selector);
    }
    for (key, values) in [
        ("namespaces", &term.namespaces),
        ("matchLabelKeys", &term.match_label_keys),
        ("mismatchLabelKeys", &term.mismatch_label_keys),
    ] {
        if !values.is_empty() {
            written[key] = json!(values);
        }
    }
    written
}

fn topology_spread(spread: &TopologySpread) -> Value {
    let policy = |honor: bool| if honor { "Honor" } else { "Ignore" };
    let mut written = json!({
        "maxSkew": spread.max_skew,
        "topologyKey": spread.topology_key,
        "whenUnsatisfiable": if spread.hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        "nodeAffinityPolicy": policy(spread.honor_node_affinity),
        "nodeTaintsPolicy": policy(spread.honor_node_taints),
    });
    if let Some(selector) = &spread.selector {
        written["labelSelector"] = json!(selector);
    }
    if !spread.match_label_keys.is_empty() {
        written["matchLabelKeys"] = json!(spread.match_label_keys);
    }
    if let Some(domains) = spread.min_domains {
        written["minDomains"] = json!(domains);
    }
    written
}
