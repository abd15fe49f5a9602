//! Objects as they come from a cluster or a manifest, up to the values that planning uses, and back.

use nodeless_api::convert::{self, validate};
use nodeless_api::test_support::ec2_node_class;
use nodeless_api::{EC2NodeClass, NodeClaim, NodePool, hash, labels, slim};
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_model as model;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn validated(object: &Value) -> Value {
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

fn pool(name: &str) -> NodePool {
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
fn a_claim_made_by_karpenter_is_adopted_and_mirrored_again() {
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "default-x7k2p", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m6g.large", "topology.kubernetes.io/zone": "us-east-1a",
            },
            "annotations": { "karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3" },
        },
        "spec": {
            "requirements": [{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6g.large", "m6g.xlarge"] }],
            "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "expireAfter": "720h",
        },
        "status": {
            "providerID": "aws:///us-east-1a/i-0abc", "imageID": "ami-1", "nodeName": "ip-10-0-0-1",
            "capacity": { "cpu": "2", "memory": "8Gi" },
            "conditions": [
                { "type": "Launched", "status": "True", "reason": "Launched", "lastTransitionTime": "2026-01-02T03:04:06Z" },
                { "type": "Registered", "status": "True", "reason": "Registered", "lastTransitionTime": "2026-01-02T03:05:00Z" },
                { "type": "Initialized", "status": "True", "reason": "Initialized", "lastTransitionTime": "2026-01-02T03:05:10Z" },
            ],
        },
    });
    let mut object: NodeClaim = serde_json::from_value(validated(&object)).unwrap();
    let claim = model::NodeClaim::try_from(&object).unwrap();
    assert_eq!((claim.node_pool.as_deref(), claim.phase), (Some("default"), model::Phase::Initialized));
    let instance = claim.status.instance.as_ref().unwrap();
    assert_eq!((instance.id.as_str(), instance.capacity_type), ("i-0abc", model::CapacityType::Spot));
    assert_eq!(claim.spec.expire_after, Some(Duration::from_secs(2_592_000)));
    assert_eq!(claim.spec.charge.resources.get("nodes"), model::Quantity::from_units(1));

    let mirror = convert::mirror(&claim, Some(&pool("default")));
    assert_eq!(mirror.spec, object.spec, "the spec of an object in the cluster can never change");
    assert_eq!(mirror.metadata.labels, object.metadata.labels);
    let status = mirror.status.as_ref().unwrap();
    assert_eq!(status.provider_id, object.status.as_ref().unwrap().provider_id);
    assert_eq!(status.conditions.last().unwrap().type_, "Ready");
    assert_eq!(status.conditions.last().unwrap().status, nodeless_api::ConditionStatus::True);
    let mut written = serde_json::to_value(&mirror).unwrap();
    written["apiVersion"] = json!("karpenter.sh/v1");
    validated(&written);

    // A stopped warm node has no capacity for pods. One that is being started has.
    let mut stopped = object.clone();
    let conditions = &mut stopped.status.as_mut().unwrap().conditions;
    for condition in conditions.iter_mut().filter(|one| one.type_ != "Launched") {
        condition.status = nodeless_api::ConditionStatus::Unknown;
        condition.reason = "Stopped".to_owned();
    }
    let read = |object: &NodeClaim| {
        let claim = model::NodeClaim::try_from(object).unwrap();
        (claim.phase, claim.is_stopped(), claim.spec.charge.resources.get("nodes").units())
    };
    assert_eq!(read(&stopped), (model::Phase::Launched, true, 0));
    stopped.status.as_mut().unwrap().conditions[0].status = nodeless_api::ConditionStatus::Unknown;
    assert_eq!(read(&stopped), (model::Phase::Launched, false, 1));

    object.metadata.labels.as_mut().unwrap().remove(labels::CAPACITY_TYPE);
    let error = model::NodeClaim::try_from(&object).unwrap_err().to_string();
    assert_eq!(error, "NodeClaim default-x7k2p: metadata.labels[karpenter.sh/capacity-type]: it is missing");
}

#[test]
fn the_marks_of_a_mirror_are_read_from_its_object() {
    let read = |object: Value| {
        let slim: slim::NodeClaim = serde_json::from_value(object).unwrap();
        model::object::MirroredClaim::try_from(&slim)
    };
    let claim = read(json!({
        "metadata": {
            "name": "default-abcde", "uid": "u", "finalizers": ["karpenter.sh/termination"],
            "labels": { "karpenter.sh/nodepool": "default" },
            "ownerReferences": [{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "p" }],
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "annotations": { "nodeless.sh/record-uid": "r" }
        },
        "spec": { "expireAfter": "Never", "terminationGracePeriod": "1h" },
        "status": {
            "providerID": "aws:///us-east-1a/i-1",
            "conditions": [{ "type": "Ready", "status": "False", "reason": "NotInitialized", "message": "m" }]
        }
    }))
    .unwrap();
    assert_eq!((claim.name.as_str(), claim.record_uid.as_deref()), ("default-abcde", Some("r")));
    assert_eq!((claim.node_pool.as_deref(), claim.owner.as_deref()), (Some("default"), Some("p")));
    assert_eq!(claim.provider_id.as_deref(), Some("aws:///us-east-1a/i-1"));
    assert_eq!(claim.finalizers, ["karpenter.sh/termination"]);
    assert!(claim.deletion_timestamp.is_some());
    assert_eq!((claim.expire_after, claim.termination_grace_period), (None, Some(Duration::from_secs(3600))));
    assert_eq!(claim.conditions["Ready"], ("False".to_owned(), "NotInitialized".to_owned()));
    let faulty = read(json!({ "metadata": { "name": "a" }, "spec": { "expireAfter": "soon" } }));
    assert!(faulty.unwrap_err().to_string().starts_with("NodeClaim a: spec.expireAfter: "));
    let fresh =
        read(json!({ "metadata": { "name": "a", "uid": "u" }, "spec": {}, "status": { "providerID": "" } })).unwrap();
    assert_eq!((fresh.record_uid, fresh.provider_id), (None, None));
}

#[test]
fn a_node_claim_without_a_node_pool_describes_a_node() {
    let of = |metadata: Value, change: Value| {
        let mut object = json!({
            "metadata": { "name": "single", "uid": "u" },
            "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }],
                "resources": { "requests": { "cpu": "2" } }, "expireAfter": "24h",
            },
        });
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        object["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let slim: slim::NodeClaim = serde_json::from_value(object).unwrap();
        model::object::MirroredClaim::try_from(&slim).unwrap().standalone.map(|node| *node)
    };
    let labels = json!({ "labels": { "team": "a", "karpenter.sh/do-not-sync-taints": "x" } });
    let node = of(labels, json!({})).unwrap().unwrap();
    assert_eq!(node.requests.get("cpu").units(), 2);
    assert_eq!(
        node.template.expire_after.and_then(model::NillableDuration::duration),
        Some(Duration::from_secs(86_400))
    );
    assert_eq!((node.template.node_class.as_str(), node.template.labels["team"].as_str()), ("default", "a"));
    assert_eq!(node.template.labels["karpenter.sh/do-not-sync-taints"], "x");
    let requirements = &node.template.requirements;
    assert!(requirements.get("team").is_some() && requirements.get("karpenter.sh/do-not-sync-taints").is_none());

    assert_eq!(of(json!({ "labels": { "karpenter.sh/nodepool": "default" } }), json!({})), None);
    let owner = json!([{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "a", "uid": "b" }]);
    assert_eq!(of(json!({ "ownerReferences": owner }), json!({})), None);
    let hostname = json!([{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["a"] }]);
    let pool = json!([{ "key": "karpenter.sh/nodepool", "operator": "Exists" }]);
    for (change, field) in [
        (json!({ "requirements": hostname }), "spec.requirements[0]"),
        (json!({ "requirements": pool }), "spec.requirements[0]"),
        (json!({ "resources": { "requests": { "cpu": "two" } } }), "spec.resources.requests"),
    ] {
        let why = of(json!({}), change).unwrap().unwrap_err().to_string();
        assert!(why.starts_with(field), "{why}");
    }
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

#[test]
fn overlays_become_price_changes_and_report_what_is_wrong() {
    use nodeless_model::PriceChange;
    let overlay = |spec: serde_json::Value| -> nodeless_api::NodeOverlay {
        serde_json::from_value(json!({ "metadata": { "name": "o" }, "spec": spec })).unwrap()
    };
    let arm = json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] }]);
    for (field, text, expected) in [
        ("price", "0.10", PriceChange::Absolute(0.10)),
        ("priceAdjustment", "-10%", PriceChange::Percent(-10.0)),
        ("priceAdjustment", "+0.05", PriceChange::Add(0.05)),
    ] {
        let read =
            nodeless_model::NodeOverlay::try_from(&overlay(json!({ "requirements": arm, field: text }))).unwrap();
        assert_eq!((read.price, read.valid), (Some(expected), Ok(())), "{field} {text}");
    }
    let unsigned = overlay(json!({ "requirements": arm, "priceAdjustment": "5%" }));
    let error = nodeless_model::NodeOverlay::try_from(&unsigned).unwrap_err();
    assert!(error.to_string().starts_with("NodeOverlay o: spec.priceAdjustment"), "{error}");
    let efa = overlay(json!({ "requirements": arm, "capacity": { "vpc.amazonaws.com/efa": 1 } }));
    let refused = nodeless_model::NodeOverlay::try_from(&efa).unwrap().valid.unwrap_err().to_string();
    assert!(refused.contains("spec.capacity.vpc.amazonaws.com/efa"), "{refused}");
    let gpu = overlay(json!({ "requirements": arm, "capacity": { "nvidia.com/gpu": 1 }, "weight": 7 }));
    let read = nodeless_model::NodeOverlay::try_from(&gpu).unwrap();
    assert_eq!((read.valid, read.weight, read.capacity.get("nvidia.com/gpu").units()), (Ok(()), 7, 1));
}

#[test]
fn buffers_take_their_shape_from_workloads_and_templates() {
    use nodeless_api::admission::Admission;
    use nodeless_api::pod_shapes::ReadShape;
    use nodeless_api::slim;
    use nodeless_model::{BufferSource, CapacityBuffer};
    let buffer: nodeless_api::CapacityBuffer = serde_json::from_value(json!({
        "metadata": { "name": "spare", "namespace": "web", "uid": "u" },
        "spec": { "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "front" }, "percentage": 20,
                  "limits": { "cpu": "1500m" } }
    }))
    .unwrap();
    let buffer = CapacityBuffer::try_from(&buffer).unwrap();
    assert!(buffer.is_active());
    let source = BufferSource::Workload { group: "apps".into(), kind: "Deployment".into(), name: "front".into() };
    assert_eq!(buffer.source().unwrap(), &source);
    let template = json!({
        "metadata": { "labels": { "app": "front" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "500m" } } }] }
    });
    let workload: slim::Scalable = serde_json::from_value(
        json!({ "metadata": { "name": "front", "namespace": "web" }, "spec": { "replicas": 30, "template": template } }),
    )
    .unwrap();
    let shape = ReadShape::try_from(&workload).unwrap().admitted(&Admission::default()).unwrap();
    assert_eq!((shape.replicas, buffer.chunks(&shape).unwrap()), (30, 3), "six are a fifth, three fit the limits");
    let pods = buffer.virtual_pods(&shape, 1);
    assert_eq!(
        (pods[0].key().as_str(), pods[0].template.labels["app"].as_str()),
        ("web/capacity-buffer-spare-0", "front")
    );
    let stored: slim::StoredPodTemplate = serde_json::from_value(
        json!({ "metadata": { "name": "chunk", "namespace": "web", "generation": 4 }, "template": template }),
    )
    .unwrap();
    let shape = ReadShape::try_from(&stored).unwrap().admitted(&Admission::default()).unwrap();
    assert_eq!((shape.generation, shape.pod.template.requests.get("cpu").milli()), (Some(4), 500));
    let faulty = json!({ "metadata": { "name": "chunk" }, "template": { "spec": {
        "containers": [{ "name": "c", "resources": { "requests": { "cpu": "many" } } }] } } });
    let faulty: slim::StoredPodTemplate = serde_json::from_value(faulty).unwrap();
    assert!(ReadShape::try_from(&faulty).unwrap_err().field.starts_with("template.spec"));
}

#[test]
fn provisioning_requests_are_decoded_with_their_progress() {
    use nodeless_model::ProvisioningRequest;
    use nodeless_model::provisioning_request::{Class, PodSet, Progress};
    let object = |conditions: serde_json::Value| -> nodeless_api::ProvisioningRequest {
        serde_json::from_value(json!({
            "metadata": { "name": "train", "namespace": "team", "uid": "u", "creationTimestamp": "2026-05-01T12:00:00Z" },
            "spec": {
                "provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "parameters": { "noRetry": "true" },
                "podSets": [{ "count": 4, "podTemplateRef": { "name": "worker" } }],
            },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    };
    let request = ProvisioningRequest::try_from(&object(json!([]))).unwrap();
    assert_eq!((request.key().as_str(), request.class()), ("team/train", Some(Class::CheckCapacity)));
    assert_eq!(request.pod_sets, [PodSet { template: "worker".into(), count: 4 }]);
    assert_eq!((request.parameters["noRetry"].as_str(), request.progress), ("true", Progress::Waiting));
    let since = "2026-05-01T12:05:00Z";
    let provisioned = object(json!([{ "type": "Provisioned", "status": "True", "reason": "CapacityIsFound",
        "message": "", "lastTransitionTime": since, "observedGeneration": 1 }]));
    let progress = ProvisioningRequest::try_from(&provisioned).unwrap().progress;
    assert_eq!(progress, Progress::Provisioned { since: since.parse().unwrap() });
    let mut faulty = object(json!([]));
    faulty.spec.pod_sets[0].count = -1;
    assert_eq!(ProvisioningRequest::try_from(&faulty).unwrap_err().field, "spec.podSets.count");
}
