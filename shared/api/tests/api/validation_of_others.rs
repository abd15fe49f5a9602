//! What the schemas of NodeOverlays, CapacityBuffers and ProvisioningRequests take and refuse.

use crate::validation::{create, requirement, schema, update, with};
use serde_json::{Value, json};

fn node_overlay() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "cheap" },
        "spec": {
            "requirements": [{ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g"] }],
            "priceAdjustment": "-10%",
            "capacity": { "example.com/fuse": 10 },
            "weight": 5,
        },
    })
}

#[test]
fn node_overlays_that_are_taken_and_refused() {
    let schema = schema("NodeOverlay");
    create(&schema, &node_overlay()).unwrap();
    let adjustment = "/spec/priceAdjustment";
    for text in ["+0.05", "-1", "+10%", "-99.5%", "-100%", "+250%"] {
        create(&schema, &with(&node_overlay(), adjustment, json!(text))).unwrap();
    }
    let cases = [
        ("/spec/price", json!("0.10"), "cannot set both"),
        (adjustment, json!("5%"), "should match"),
        (adjustment, json!("0.3"), "should match"),
        (adjustment, json!("-101%"), "should match"),
        ("/spec/capacity/cpu", json!("4"), "invalid resource restricted"),
        ("/spec/weight", json!(0), "greater than or equal to 1"),
        ("/spec/weight", json!(10001), "less than or equal to 10000"),
        ("/spec/requirements", Value::Null, "Required value"),
        ("/spec/requirements", requirement("team", "NotIn", &[]), "'NotIn' must have a value"),
        ("/spec/requirements", requirement("team", "In", &[]), "'In' must have a value"),
        ("/spec/requirements", requirement("karpenter.sh/custom", "Exists", &[]), "restricted"),
        ("/spec/requirements", requirement("karpenter.k8s.aws/instance-tenancy", "Exists", &[]), "restricted"),
        ("/spec/requirements", requirement("kubernetes.io/hostname", "Exists", &[]), "restricted"),
    ];
    for (pointer, value, expected) in cases {
        let refused = create(&schema, &with(&node_overlay(), pointer, value.clone())).unwrap_err();
        let text = refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(text.contains(expected), "{pointer} {value}: {text}");
    }
    create(&schema, &with(&node_overlay(), "/spec/requirements", requirement("karpenter.sh/nodepool", "In", &["a"])))
        .unwrap();
}

#[test]
fn capacity_buffers_that_are_taken_and_refused() {
    let schema = schema("CapacityBuffer");
    let base = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": { "name": "spare", "namespace": "web" },
        "spec": { "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "front" }, "percentage": 20 },
    });
    let taken = create(&schema, &base).unwrap();
    assert_eq!(taken["spec"]["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");
    let template = json!({ "podTemplateRef": { "name": "chunk" } });
    let of_template = with(&base, "/spec", template);
    create(&schema, &with(&of_template, "/spec/replicas", json!(0))).unwrap();
    create(&schema, &with(&of_template, "/spec/limits", json!({ "cpu": 4 }))).unwrap();
    for (object, expected) in [
        (of_template, "replicas or limits must also be set"),
        (
            with(&with(&base, "/spec/podTemplateRef", json!({ "name": "chunk" })), "/spec/replicas", json!(1)),
            "but not both",
        ),
        (with(&base, "/spec/replicas", json!(-1)), "greater than or equal to 0"),
        (with(&base, "/spec/percentage", json!(-1)), "greater than or equal to 0"),
        (with(&base, "/spec/scalableRef", json!({ "kind": "Deployment" })), "Required value"),
    ] {
        let refused = create(&schema, &object).unwrap_err();
        let text = refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(text.contains(expected), "{object}: {text}");
    }
}

#[test]
fn provisioning_requests_that_are_taken_and_refused() {
    let schema = schema("ProvisioningRequest");
    let base = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": { "name": "train", "namespace": "team" },
        "spec": {
            "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "parameters": { "ValidUntilSeconds": "600" },
            "podSets": [{ "count": 4, "podTemplateRef": { "name": "worker" } }],
        },
    });
    assert_eq!(create(&schema, &base).unwrap(), base);
    create(&schema, &with(&base, "/spec/parameters", Value::Null)).unwrap();
    let no_template = with(&base, "/spec/podSets", json!([{ "count": 1 }]));
    for (object, expected) in [
        (with(&base, "/spec/podSets", json!([])), "at least 1 items"),
        (with(&base, "/spec/podSets/0/count", json!(0)), "greater than or equal to 1"),
        (with(&base, "/spec/podSets/0/podTemplateRef/name", json!("Worker")), "match"),
        (no_template, "Required value"),
        (with(&base, "/spec/provisioningClassName", json!("Check")), "match"),
        (with(&base, "/spec/parameters/ValidUntilSeconds", json!("9".repeat(256))), "255"),
    ] {
        let refused = create(&schema, &object).unwrap_err();
        let text = refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(text.contains(expected), "{object}: {text}");
    }
    for (pointer, value) in [
        ("/spec/podSets/0/count", json!(5)),
        ("/spec/provisioningClassName", json!("check-capacity.autoscaling.x-k8s.io")),
        ("/spec/parameters/ValidUntilSeconds", json!("700")),
    ] {
        let refused = update(&schema, &base, &with(&base, pointer, value));
        assert!(refused.iter().any(|error| error.to_string().contains("Value is immutable")), "{pointer}: {refused:?}");
    }
}
