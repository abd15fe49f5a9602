//! The fields of pods in the output of kubectl that planning does not use.

use serde_json::{Value, json};

pub(super) fn add(item: &mut Value, name: &str) {
    let digest = "sha256:3b7f2e6a41d05c9e8b1f60a7c2d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6";
    let since = "2026-01-09T12:00:00Z";
    let variables: Vec<Value> = (0..32)
        .map(|index| json!({ "name": format!("SERVICE_{index:02}_URL"), "value": format!("http://service-{index}.default.svc:8080") }))
        .collect();
    item["metadata"]["creationTimestamp"] = json!(since);
    item["metadata"]["resourceVersion"] = json!("184467440");
    item["metadata"]["annotations"] = json!({ "prometheus.io/scrape": "true", "checksum/config": digest });
    item["metadata"]["managedFields"] = json!([managed("kube-controller-manager", since), managed("kubelet", since)]);
    let container = &mut item["spec"]["containers"][0];
    container["image"] = json!(format!("111122223333.dkr.ecr.us-east-1.amazonaws.com/{name}@{digest}"));
    container["env"] = json!(variables);
    container["livenessProbe"] = probe("/healthz");
    container["readinessProbe"] = probe("/ready");
    container["volumeMounts"] = json!([{ "mountPath": "/var/run/secrets/tokens", "name": "token", "readOnly": true }]);
    let ready =
        |kind: &str| json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": since });
    if item["spec"]["nodeName"].is_string() {
        item["status"]["conditions"] = json!(["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(ready));
        item["status"]["containerStatuses"] = json!([{
            "name": "main", "ready": true, "restartCount": 0, "started": true, "image": digest, "imageID": digest,
            "containerID": "containerd://0f1e2d3c4b5a69788796a5b4c3d2e1f0", "lastState": {}, "state": { "running": { "startedAt": since } }
        }]);
    }
}

fn probe(path: &str) -> Value {
    json!({
        "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
        "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" }
    })
}

fn managed(manager: &str, since: &str) -> Value {
    let fields =
        ["env", "image", "imagePullPolicy", "livenessProbe", "name", "readinessProbe", "resources", "volumeMounts"];
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| (format!("f:{field}"), json!({ ".": {}, "f:httpGet": {}, "f:port": {} }))).collect();
    json!({
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": manager, "operation": "Update", "time": since,
        "fieldsV1": { "f:metadata": { "f:labels": { "f:app": {} } }, "f:spec": { "f:containers": { "k:{\"name\":\"main\"}": fields } } }
    })
}
