//! The requests of a pod, as the kube-scheduler computes them.

use nodeless_api::slim;
use nodeless_model::Pod;
use serde_json::{Value, json};

fn cpu(spec: &Value, status: &Value) -> String {
    let object = json!({ "metadata": { "name": "p", "namespace": "d" }, "spec": spec, "status": status });
    let pod: slim::Pod = serde_json::from_value(object).unwrap();
    Pod::try_from(&pod).unwrap().template.requests.get("cpu").to_string()
}

fn container(name: &str, cpu: &str) -> Value {
    json!({ "name": name, "resources": { "requests": { "cpu": cpu } } })
}

fn sidecar(name: &str, cpu: &str) -> Value {
    let mut container = container(name, cpu);
    container["restartPolicy"] = json!("Always");
    container
}

#[test]
fn requests_add_up_as_in_kubernetes() {
    for (what, spec, expected) in [
        ("containers together", json!({ "containers": [container("a", "1"), container("b", "500m")] }), "1500m"),
        ("nothing asked for", json!({ "containers": [{ "name": "a" }] }), "0"),
        (
            "a limit stands in for a request",
            json!({ "containers": [{ "name": "a", "resources": { "limits": { "cpu": "2" } } }] }),
            "2",
        ),
        (
            "init containers one after another",
            json!({ "containers": [container("a", "1")], "initContainers": [container("i", "3"), container("j", "2")] }),
            "3",
        ),
        (
            "sidecars beside the containers",
            json!({ "containers": [container("a", "1")], "initContainers": [sidecar("s", "500m")] }),
            "1500m",
        ),
        (
            "an init container beside the sidecars that were started before it",
            json!({
                "containers": [container("a", "1")],
                "initContainers": [sidecar("s", "500m"), container("i", "2"), sidecar("t", "250m")],
            }),
            "2500m",
        ),
        ("overhead on top", json!({ "containers": [container("a", "1")], "overhead": { "cpu": "250m" } }), "1250m"),
        (
            "resources of the pod go before those of its containers",
            json!({ "containers": [container("a", "1")], "resources": { "requests": { "cpu": "750m" } }, "overhead": { "cpu": "250m" } }),
            "1",
        ),
    ] {
        assert_eq!(cpu(&spec, &json!({})), expected, "{what}");
    }
}

#[test]
fn a_resize_counts_with_what_is_largest() {
    let spec = json!({ "containers": [container("a", "2")] });
    let status = |allocated: &str, in_force: &str, conditions: Value| {
        json!({ "conditions": conditions, "containerStatuses": [{
            "name": "a", "allocatedResources": { "cpu": allocated }, "resources": { "requests": { "cpu": in_force } },
        }] })
    };
    let infeasible = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
    let deferred = json!([{ "type": "PodResizePending", "status": "True", "reason": "Deferred" }]);
    for (what, status, expected) in [
        ("growing", status("1", "1", json!([])), "2"),
        ("shrinking, set aside still", status("3", "2", json!([])), "3"),
        ("shrinking, in force still", status("2", "4", json!([])), "4"),
        ("deferred", status("1", "1", deferred), "2"),
        ("more than the node has", status("1", "1500m", infeasible), "1500m"),
    ] {
        assert_eq!(cpu(&spec, &status), expected, "{what}");
    }
}

#[test]
fn sidecars_take_ports_too() {
    let with_port = |mut container: Value, port: u16| {
        container["ports"] = json!([{ "containerPort": port, "hostPort": port, "hostIP": "10.0.0.1" }]);
        container
    };
    let object = json!({ "metadata": {}, "spec": {
        "containers": [with_port(container("a", "1"), 80)],
        "initContainers": [with_port(sidecar("s", "1"), 81), with_port(container("i", "1"), 82)],
    } });
    let pod = Pod::try_from(&serde_json::from_value::<slim::Pod>(object).unwrap()).unwrap();
    assert_eq!(pod.template.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80, 81]);
    assert_eq!(
        (pod.template.host_ports[0].ip.as_str(), pod.template.host_ports[0].protocol.as_str()),
        ("10.0.0.1", "TCP")
    );
}
