//! NodeClaims, NodeOverlays, CapacityBuffers and ProvisioningRequests, as the model has them.

use crate::objects::{pool, validated};
use nodeless_api::{NodeClaim, convert, labels, slim};
use nodeless_model as model;
use serde_json::{Value, json};
use std::time::Duration;

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
    assert_eq!(read(&stopped), (model::Phase::Stopped, true, 0));
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
