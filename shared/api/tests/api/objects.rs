//! Objects as they come from a cluster or a manifest, up to the values that planning uses, and back.

use nodeless_api::convert::validate;
use nodeless_api::test_support::ec2_node_class;
use nodeless_api::{EC2NodeClass, NodePool, hash, labels, slim};
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_model as model;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

pub(crate) fn validated(object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap();
    let crd = nodeless_api::crds().unwrap().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = Schema::from_crd(&crd, "v1").unwrap();
    let mut defaulted = object.clone();
    schema.prune(&mut defaulted);
    assert_eq!(&defaulted, object, "a field is unknown");
    schema.default(&mut defaulted);
    assert_eq!(schema.validate(&defaulted, None), [], "{object}");
    defaulted
}

fn examples() -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/nodepools");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .flat_map(|file| serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

#[test]
fn the_example_manifests_are_valid_and_lose_nothing() {
    let examples = examples();
    assert_eq!(examples.len(), 4);
    for example in &examples {
        let object = validated(example);
        if object["kind"] == "NodePool" {
            let pool: NodePool = serde_json::from_value(object).unwrap();
            assert_eq!(validate::node_pool(&pool), Vec::<String>::new());
            let _: model::NodePool = (&pool).into();
        } else {
            let class: EC2NodeClass = serde_json::from_value(object.clone()).unwrap();
            nodeless_api::nodeclass::kubelet::parse(&class.spec.kubelet).unwrap();
            assert_eq!(serde_json::to_value(&class.spec).unwrap(), object["spec"]);
        }
    }
}

pub(crate) fn pool(name: &str) -> NodePool {
    let found = examples().into_iter().find(|it| it["kind"] == "NodePool" && it["metadata"]["name"] == name).unwrap();
    serde_json::from_value(validated(&found)).unwrap()
}

#[test]
fn a_node_pool_becomes_the_models() {
    let mut object = pool("gpu");
    let pool = model::NodePool::from(&object);
    assert_eq!((pool.name.as_str(), pool.weight, pool.limit_dollars_per_hour), ("gpu", 10, Some(40.0)));
    assert_eq!(pool.ready, Ok(()));
    assert_eq!(pool.limits.get("nvidia.com/gpu"), model::Quantity::from_units(8));
    assert_eq!(pool.template.termination_grace_period, Some(Duration::from_secs(86_400)));
    assert_eq!(pool.template.expire_after, Some(model::NillableDuration::Never));
    assert_eq!(pool.template.requirements.get(labels::NODE_POOL).unwrap().single(), Some("gpu"));
    assert_eq!(pool.template.requirements.get("team").unwrap().single(), Some("research"));
    assert_eq!(pool.template.requirements.get(labels::INSTANCE_FAMILY).unwrap().min_values(), Some(2));
    assert_eq!(pool.disruption.budgets[0].window.as_ref().unwrap().duration, Duration::from_secs(36_000));
    assert_eq!(pool.disruption.budgets[1].nodes, model::node_pool::BudgetNodes::Count(1));

    object.spec.template.spec.requirements[0].key = "sub.karpenter.sh/x".into();
    assert!(model::NodePool::from(&object).ready.unwrap_err().to_string().contains("restricted"));
}

/// The GPU pool of the examples with these limits and this annotation, as the API server accepts it.
fn priced(limits: Value, annotation: Option<&str>) -> model::NodePool {
    let mut object =
        examples().into_iter().find(|it| it["kind"] == "NodePool" && it["metadata"]["name"] == "gpu").unwrap();
    object["spec"]["limits"] = limits;
    object["metadata"]["annotations"] = json!({});
    if let Some(text) = annotation {
        object["metadata"]["annotations"]["nodeless.sh/dollars-per-hour"] = json!(text);
    }
    let object: NodePool = serde_json::from_value(validated(&object)).unwrap();
    model::NodePool::from(&object)
}

#[test]
fn dollars_per_hour_are_a_limit_in_the_spec_and_as_an_annotation() {
    for (limits, annotation, expected) in [
        (json!({ "cpu": 4 }), None, None),
        (json!({ "nodeless.sh/dollars-per-hour": "12.50" }), None, Some(12.5)),
        (json!({ "nodeless.sh/dollars-per-hour": 12 }), None, Some(12.0)),
        (json!({ "nodeless.sh/dollars-per-hour": "250m" }), None, Some(0.25)),
        (json!({ "nodeless.sh/dollars-per-hour": "1k" }), None, Some(1000.0)),
        (json!({ "nodeless.sh/dollars-per-hour": "2e-1" }), None, Some(0.2)),
        // Finer than the thousandths of other resources.
        (json!({ "nodeless.sh/dollars-per-hour": "0.0042" }), None, Some(0.0042)),
        (json!({ "nodeless.sh/dollars-per-hour": "0" }), None, Some(0.0)),
        (json!({}), Some("12.50"), Some(12.5)),
        (json!({}), Some("500m"), Some(0.5)),
        // The smaller one, whichever it is.
        (json!({ "nodeless.sh/dollars-per-hour": "3" }), Some("2"), Some(2.0)),
        (json!({ "nodeless.sh/dollars-per-hour": "2" }), Some("3"), Some(2.0)),
    ] {
        let pool = priced(limits.clone(), annotation);
        assert_eq!((pool.ready, pool.limit_dollars_per_hour), (Ok(()), expected), "{limits} {annotation:?}");
        // Dollars are no resource: no node has any.
        assert!(!pool.limits.contains("nodeless.sh/dollars-per-hour"));
    }
}

#[test]
fn an_invalid_limit_is_reported_and_allows_nothing() {
    let digits = "9".repeat(50);
    for (limits, annotation, field) in [
        (json!({}), Some("cheap"), "metadata.annotations[nodeless.sh/dollars-per-hour]"),
        (json!({}), Some("-1"), "metadata.annotations[nodeless.sh/dollars-per-hour]"),
        (json!({}), Some("NaN"), "metadata.annotations[nodeless.sh/dollars-per-hour]"),
        (json!({ "nodeless.sh/dollars-per-hour": "-1" }), Some("3"), "spec.limits[nodeless.sh/dollars-per-hour]"),
        (json!({ "nodeless.sh/dollars-per-hour": digits }), None, "spec.limits[nodeless.sh/dollars-per-hour]"),
    ] {
        let pool = priced(limits, annotation);
        let why = pool.ready.unwrap_err().to_string();
        assert!(why.starts_with(field) && why.contains("12.50"), "{why}");
        assert_eq!(pool.limit_dollars_per_hour, Some(0.0));
    }
    // The API server's pattern lets exponents with a fraction through.
    for text in ["1e.5", digits.as_str()] {
        let pool = priced(json!({ "cpu": text }), None);
        assert!(pool.ready.clone().unwrap_err().to_string().starts_with("spec.limits[cpu]: "), "{:?}", pool.ready);
        assert_eq!(pool.limits.iter().collect::<Vec<_>>(), [("cpu", model::Quantity::ZERO)]);
    }
}

#[test]
fn a_pool_whose_disruption_cannot_be_read_is_there_and_disrupts_nothing() {
    let mut object = pool("gpu");
    object.spec.disruption.budgets[0].nodes = "some".to_owned();
    let pool = model::NodePool::from(&object);
    assert!(pool.ready.unwrap_err().to_string().starts_with("spec.disruption.budgets[0].nodes: "));
    assert!(pool.disruption.budgets.iter().all(|budget| budget.nodes.allowed(100) == 0 && budget.window.is_none()));
    assert_eq!(pool.disruption.consolidate_after, model::NillableDuration::Never);
}

#[test]
fn rules_that_no_schema_can_express() {
    let broken = |pointer: &str, value: Value| {
        let mut object = serde_json::to_value(pool("gpu")).unwrap();
        *object.pointer_mut(pointer).unwrap() = value;
        validate::node_pool(&serde_json::from_value(object).unwrap()).join("; ")
    };
    let requirements = |key: &str, value: &str| {
        broken("/spec/template/spec/requirements", json!([{ "key": key, "operator": "In", "values": [value] }]))
    };
    assert!(requirements("karpenter.sh/capacity-type", "ondemand").contains("none of"));
    assert!(requirements("karpenter.k8s.aws/instance-tenancy", "host").contains("none of"));
    assert!(requirements("sub.karpenter.sh/x", "y").contains("restricted"));
    assert!(requirements("team", "not a value").contains("no label value"));
    assert_eq!(requirements("topology.kubernetes.io/zone", "us-east-1a"), "");
    let twice = json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "value": "b", "effect": "NoSchedule" }]);
    assert!(broken("/spec/template/spec/taints", twice).contains("duplicate taint"));
}

#[test]
fn hashes_follow_what_makes_nodes_drift() {
    let base = pool("gpu");
    let mut same = base.clone();
    same.spec.weight = None;
    same.spec.template.spec.requirements.clear();
    same.spec.template.spec.termination_grace_period = Some("1440m".into());
    assert_eq!(hash::node_pool(&base), hash::node_pool(&same));
    let mut other = base.clone();
    other.spec.template.spec.taints.clear();
    assert_ne!(hash::node_pool(&base), hash::node_pool(&other));
    let pinned: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "pinned" },
        "spec": { "template": { "metadata": { "labels": { "team": "a" } }, "spec": {
            "requirements": [], "taints": [{ "key": "a", "effect": "NoSchedule" }],
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
        } } },
    }))
    .unwrap();
    assert_eq!(hash::node_pool(&pinned), "4966787408306121209", "a changed way of hashing needs a new VERSION");

    let class: EC2NodeClass = serde_json::from_value(validated(&examples()[0])).unwrap();
    let mut same = class.clone();
    same.spec.subnet_selector_terms.clear();
    same.spec.ami_family = class.spec.resolved_ami_family();
    assert_eq!(hash::ec2_node_class(&class), hash::ec2_node_class(&same));
    let mut other = class.clone();
    other.spec.associate_public_ip_address = Some(false);
    assert_ne!(hash::ec2_node_class(&class), hash::ec2_node_class(&other));
    // As in Karpenter, absent is not the same as disabled.
    let enclaves = |options: Value| hash::ec2_node_class(&ec2_node_class("default", "example", &options));
    let variants = [
        json!({}),
        json!({ "enclaveOptions": { "enabled": false } }),
        json!({ "enclaveOptions": { "enabled": true } }),
    ];
    let distinct: std::collections::BTreeSet<String> = variants.into_iter().map(enclaves).collect();
    assert_eq!(distinct.len(), 3);
}

#[test]
fn what_is_resolved_is_hashed_apart_from_what_launches_take_from_the_spec() {
    let class = ec2_node_class("default", "example", &json!({}));
    let hash_with = |fields: Value| hash::resolved_fields(&ec2_node_class("default", "example", &fields).spec);
    let before = hash::resolved_fields(&class.spec);
    for same in [
        json!({ "tags": { "team": "search" } }),
        json!({ "userData": "#!/bin/sh" }),
        json!({ "kubelet": { "maxPods": 20 }, "enclaveOptions": { "enabled": true } }),
        json!({ "detailedMonitoring": true, "context": "c", "ipPrefixCount": 1, "associatePublicIPAddress": false }),
        json!({ "metadataOptions": { "httpTokens": "optional" }, "instanceStorePolicy": "RAID0" }),
        json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "50Gi" } }] }),
        // The alias implies it.
        json!({ "amiFamily": "AL2023" }),
    ] {
        assert_eq!(hash_with(same.clone()), before, "{same}");
    }
    for other in [
        json!({ "subnetSelectorTerms": [{ "id": "subnet-1" }] }),
        json!({ "securityGroupSelectorTerms": [{ "id": "sg-1" }] }),
        json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1" }] }),
        json!({ "placementGroupSelector": { "name": "close" } }),
        json!({ "amiSelectorTerms": [{ "alias": "al2023@v20260105" }] }),
        json!({ "amiFamily": "Custom" }),
        json!({ "role": "other" }),
        json!({ "role": null, "instanceProfile": "own" }),
    ] {
        assert_ne!(hash_with(other.clone()), before, "{other}");
    }
}

#[test]
fn the_hash_annotation_of_nodeless_is_renewed_and_that_of_karpenter_is_not() {
    let mut class = ec2_node_class("default", "example", &json!({}));
    hash::renew_ec2_node_class(&mut class);
    assert_eq!(class.metadata.annotations, None, "it was not resolved yet");
    for (version, renewed) in [(hash::VERSION, true), ("v5", false)] {
        let annotations = [(labels::EC2_NODE_CLASS_HASH, "1"), (labels::EC2_NODE_CLASS_HASH_VERSION, version)];
        class.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        hash::renew_ec2_node_class(&mut class);
        let expected = if renewed { hash::ec2_node_class(&class) } else { "1".to_owned() };
        assert_eq!(class.metadata.annotations.as_ref().unwrap()[labels::EC2_NODE_CLASS_HASH], expected);
    }
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "front-1", "namespace": "web", "uid": "u1", "labels": { "app": "front" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" },
            "managedFields": [{ "manager": "kubectl" }],
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "front", "uid": "u2", "controller": true }],
        },
        "spec": {
            "containers": [
                { "name": "a", "image": "x", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } }, "ports": [{ "containerPort": 80, "hostPort": 8080 }] },
                { "name": "b", "resources": { "limits": { "cpu": 1 } } },
            ],
            "initContainers": [
                { "name": "sidecar", "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } },
                { "name": "setup", "resources": { "requests": { "cpu": "1", "memory": "3Gi" } } },
            ],
            "overhead": { "cpu": "50m" },
            "nodeSelector": { "kubernetes.io/arch": "arm64" },
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "team", "operator": "In", "values": ["a"] }] },
            ] } } },
            "tolerations": [
                { "key": "x", "operator": "Exists", "effect": "NoSchedule" },
                { "key": "sla", "operator": "Gt", "value": "900" },
            ],
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "front" } } }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
                { "name": "config", "configMap": { "name": "c" } },
            ],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }],
        },
    })
}

#[test]
fn the_owner_of_a_pod_is_of_kubernetes_or_of_another_api_group() {
    let is_custom = |version: &str| {
        let mut pod = pod();
        pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(version);
        let slim: slim::Pod = serde_json::from_value(pod).unwrap();
        model::Pod::try_from(&slim).unwrap().owner_is_custom
    };
    let versions = ["v1", "apps/v1", "batch/v1", "apps.kruise.io/v1beta1", "example.com/v1"];
    assert_eq!(versions.map(is_custom), [false, false, false, true, true]);
}

#[test]
fn a_pod_becomes_the_models() {
    let slim: slim::Pod = serde_json::from_value(pod()).unwrap();
    assert_eq!(slim.metadata.managed_fields, None);
    assert_eq!(slim.metadata.annotations.as_ref().unwrap().len(), 1);
    let pod = model::Pod::try_from(&slim).unwrap();
    // Containers and sidecar 1.6 cores; setup beside the sidecar 1.1 cores but 3 GiB; overhead on top.
    assert_eq!(pod.template.requests.get("cpu"), model::Quantity::from_milli(1650));
    assert_eq!(pod.template.requests.get("memory"), model::Quantity::from_mebibytes(3072));
    assert_eq!(pod.template.requests.get("pods"), model::Quantity::from_units(1));
    assert!(pod.is_provisionable());
    assert_eq!(pod.owner_kind.as_deref(), Some("ReplicaSet"));
    assert_eq!(pod.owner_name.as_deref(), Some("front"));
    assert_eq!(pod.template.host_ports[0].port, 8080);
    let claims: Vec<_> =
        pod.template.volume_claims.iter().map(|claim| (claim.claim_name.as_str(), claim.ephemeral)).collect();
    assert_eq!(claims, [("data", false), ("front-1-scratch", true)]);
    assert!(pod.template.topology_spread[0].hard && pod.template.topology_spread[0].honor_node_affinity);
    assert_eq!(pod.template.required_node_affinity[0][0].key, "team");
    let taint =
        |value: &str| model::Taint { value: value.into(), ..model::Taint::new("sla", model::TaintEffect::NoExecute) };
    assert!(
        pod.template.tolerations[1].tolerates(&taint("950")) && !pod.template.tolerations[1].tolerates(&taint("900"))
    );

    let mut bad = slim;
    bad.spec.containers[1].resources.limits.insert("cpu".into(), "much".into());
    let error = model::Pod::try_from(&bad).unwrap_err().to_string();
    assert!(error.starts_with("Pod web/front-1: spec.containers[1].resources.limits.cpu: "), "{error}");
}

#[test]
fn other_objects_become_the_models() {
    let node: slim::Node = serde_json::from_value(json!({
        "metadata": { "name": "ip-10-0-0-1" },
        "spec": { "providerID": "aws:///us-east-1a/i-1", "taints": [{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }] },
        "status": { "allocatable": { "cpu": "3920m", "pods": "58" }, "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" }] },
    }))
    .unwrap();
    let node = model::Node::try_from(&node).unwrap();
    assert!(node.is_ready() && node.has_taint(&model::Taint::unregistered()));
    assert_eq!(node.instance_id(), Some("i-1"));

    let template = json!({ "metadata": { "creationTimestamp": null, "labels": { "app": "agent" } }, "spec": { "containers": [{ "name": "a", "resources": { "limits": { "cpu": "100m" } } }] } });
    let daemon_set: slim::DaemonSet = serde_json::from_value(
        json!({ "metadata": { "name": "agent", "namespace": "kube-system" }, "spec": { "template": template } }),
    )
    .unwrap();
    let daemon_set = model::DaemonSet::try_from(&daemon_set).unwrap();
    assert_eq!(daemon_set.template.template.requests.get("cpu"), model::Quantity::from_milli(100));
    assert!(daemon_set.template.is_owned_by_daemon_set());

    let budget = |spec: Value| {
        let object: slim::PodDisruptionBudget =
            serde_json::from_value(json!({ "metadata": { "name": "b", "namespace": "web" }, "spec": spec })).unwrap();
        model::PodDisruptionBudget::try_from(&object).unwrap()
    };
    assert!(budget(json!({ "maxUnavailable": 0, "selector": {} })).blocks_always);
    assert!(budget(json!({ "minAvailable": "100%" })).blocks_always);
    assert!(!budget(json!({ "minAvailable": 1 })).blocks_always);
    let wants_all = |desired: i32, expected: i32| {
        let status = json!({ "desiredHealthy": desired, "expectedPods": expected });
        let object = serde_json::from_value(json!({ "metadata": { "name": "b" }, "status": status })).unwrap();
        model::PodDisruptionBudget::try_from(&object as &slim::PodDisruptionBudget).unwrap().wants_all
    };
    assert!(wants_all(1, 1) && wants_all(3, 2) && !wants_all(1, 2) && !wants_all(0, 0));
    let none: slim::CsiNode =
        serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "drivers": null } })).unwrap();
    assert_eq!(none.spec.drivers, []);
}

#[test]
fn one_faulty_object_does_not_spoil_a_list() {
    use nodeless_api::DeserializeGuard;
    let good = serde_json::to_value(pool("default")).unwrap();
    let mut bad = good.clone();
    bad["metadata"]["name"] = json!("from-the-future");
    bad["spec"]["disruption"]["consolidationPolicy"] = json!("WhenTheMoonIsFull");
    let list: Vec<DeserializeGuard<NodePool>> = serde_json::from_value(json!([good, bad])).unwrap();
    assert!(list[0].0.is_ok());
    assert_eq!(list[1].0.as_ref().unwrap_err().metadata.name.as_deref(), Some("from-the-future"));
}
