//! The validation of the API server by the generated definitions, rule by rule.

use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_fake_kubernetes::schema::{FieldError, Schema};
use serde_json::{Value, json};

pub(crate) fn schema(name: &str) -> Schema {
    let crd = nodeless_api::crds().unwrap().into_iter().find(|crd| crd.spec.names.kind == name).unwrap();
    let version = crd.spec.versions[0].name.clone();
    Schema::from_crd(&crd, &version).unwrap()
}

/// Prunes, defaults and validates, as on creation.
pub(crate) fn create(schema: &Schema, object: &Value) -> Result<Value, Vec<FieldError>> {
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, None);
    if errors.is_empty() { Ok(object) } else { Err(errors) }
}

pub(crate) fn update(schema: &Schema, old: &Value, new: &Value) -> Vec<FieldError> {
    let old = create(schema, old).unwrap();
    let mut new = new.clone();
    schema.default(&mut new);
    schema.validate(&new, Some(&old))
}

/// The object with a value at a JSON pointer, whose parents are made as needed; `null` removes.
pub(crate) fn with(base: &Value, pointer: &str, value: Value) -> Value {
    let mut object = base.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let mut at = &mut object;
    for part in parent.split('/').skip(1) {
        at = match part.parse::<usize>() {
            Ok(index) => at.get_mut(index).unwrap(),
            Err(_) => at.as_object_mut().unwrap().entry(part.replace("~1", "/")).or_insert_with(|| json!({})),
        };
    }
    let key = key.replace("~1", "/");
    if value.is_null() {
        at.as_object_mut().unwrap().remove(&key);
    } else if let Ok(index) = key.parse::<usize>() {
        at[index] = value;
    } else {
        at[&key] = value;
    }
    object
}

fn node_pool() -> Value {
    node_pool_manifest("default", &requirement("karpenter.sh/capacity-type", "In", &["spot", "on-demand"]), &json!({}))
}

fn node_class() -> Value {
    ec2_node_class_manifest("default", "example", &json!({}))
}

pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!([{ "key": key, "operator": operator, "values": values }])
}

const REQUIREMENTS: &str = "/spec/template/spec/requirements";

const LABELS: &str = "/spec/template/metadata/labels";

const TAINTS: &str = "/spec/template/spec/taints";

const BUDGETS: &str = "/spec/disruption/budgets";

#[test]
fn defaults_are_filled_in_and_unknown_fields_go() {
    let pool = with(&with(&node_pool(), "/spec/unknown", json!(1)), "/metadata/custom", json!("kept"));
    let pool = create(&schema("NodePool"), &pool).unwrap();
    assert_eq!(
        pool["spec"]["disruption"],
        json!({ "consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{ "nodes": "10%" }] })
    );
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(pool["spec"].get("unknown"), None);
    assert_eq!(pool["metadata"]["custom"], "kept");

    let class = with(&node_class(), "/spec/kubelet", json!({ "anything": { "at": ["all"] } }));
    let class = create(&schema("EC2NodeClass"), &class).unwrap();
    assert_eq!(
        class["spec"]["metadataOptions"],
        json!({ "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required" })
    );
    assert_eq!(class["spec"]["kubelet"]["anything"]["at"][0], "all");
    let partly = with(&node_class(), "/spec/metadataOptions", json!({ "httpPutResponseHopLimit": 2 }));
    assert_eq!(create(&schema("EC2NodeClass"), &partly).unwrap()["spec"]["metadataOptions"]["httpTokens"], "required");
}

#[test]
fn node_pools_that_are_refused() {
    let many = |count: usize, item: Value| Value::Array(vec![item; count]);
    let one = json!({ "key": "team", "operator": "Exists" });
    let labels = |count: usize| (0..count).map(|i| (format!("l{i}"), json!("x"))).collect::<Value>();
    let cases = [
        (REQUIREMENTS, Value::Null, "Required value"),
        (REQUIREMENTS, many(101, one), "at most 100"),
        (REQUIREMENTS, requirement("team", "gt", &["1"]), "supported values"),
        (REQUIREMENTS, json!([{ "key": "team", "operator": "Exists", "minValues": 0 }]), "greater than or equal to 1"),
        (REQUIREMENTS, json!([{ "key": "team", "operator": "Exists", "minValues": 51 }]), "less than or equal to 50"),
        (REQUIREMENTS, json!([{ "key": "team", "operator": "In", "values": ["a"], "minValues": 2 }]), "'minValues'"),
        (REQUIREMENTS, requirement("team", "In", &[]), "must have a value"),
        (REQUIREMENTS, json!([{ "key": "team", "operator": "In" }]), "values"),
        (REQUIREMENTS, requirement("team", "Gt", &["a"]), ""),
        (REQUIREMENTS, requirement("team", "Gt", &["-1"]), "single positive integer"),
        (REQUIREMENTS, requirement("team", "Lte", &["1", "2"]), "single positive integer"),
        (REQUIREMENTS, requirement("karpenter.sh/foo", "Exists", &[]), "domain \"karpenter.sh\""),
        (REQUIREMENTS, requirement("my.karpenter.sh/foo", "Exists", &[]), "domain \"karpenter.sh\""),
        (REQUIREMENTS, requirement("karpenter.k8s.aws/foo", "Exists", &[]), "domain \"karpenter.k8s.aws\""),
        (REQUIREMENTS, requirement("kubernetes.io/hostname", "Exists", &[]), "kubernetes.io/hostname"),
        (REQUIREMENTS, requirement("karpenter.sh/nodepool", "Exists", &[]), "karpenter.sh/nodepool"),
        (REQUIREMENTS, requirement(&"a".repeat(317), "Exists", &[]), "316"),
        (REQUIREMENTS, requirement("-team", "Exists", &[]), "should match"),
        (LABELS, json!({ "karpenter.sh/initialized": "true" }), "domain \"karpenter.sh\""),
        (LABELS, json!({ "karpenter.sh/nodepool": "x" }), "karpenter.sh/nodepool"),
        (LABELS, json!({ "kubernetes.io/hostname": "x" }), "kubernetes.io/hostname"),
        (LABELS, json!({ "team": "a".repeat(64) }), "63"),
        (LABELS, labels(101), "at most 100"),
        (TAINTS, json!([{ "key": "team", "effect": "" }]), "supported values"),
        (TAINTS, json!([{ "key": "team", "effect": "Foo" }]), "supported values"),
        (TAINTS, json!([{ "key": "", "effect": "NoSchedule" }]), "at least 1"),
        (TAINTS, json!([{ "key": "team", "value": "", "effect": "NoSchedule" }]), "should match"),
        ("/spec/disruption", json!({ "consolidateAfter": "1d" }), "should match"),
        (
            "/spec/disruption",
            json!({ "consolidateAfter": "0s", "consolidationPolicy": "WhenUnderutilized" }),
            "supported values",
        ),
        (BUDGETS, json!([{ "nodes": "101%" }]), "should match"),
        (BUDGETS, json!([{ "nodes": "-1" }]), "should match"),
        (BUDGETS, json!([{ "nodes": "1", "reasons": ["Expired"] }]), "supported values"),
        (BUDGETS, json!([{ "nodes": "1", "reasons": ["Empty", "Empty"] }]), "Duplicate"),
        (BUDGETS, json!([{ "nodes": "1", "schedule": "@daily" }]), "'schedule' must be set with 'duration'"),
        (BUDGETS, json!([{ "nodes": "1", "schedule": "@daily", "duration": "30s" }]), "should match"),
        (BUDGETS, many(51, json!({ "nodes": "1" })), "at most 50"),
        ("/spec/weight", json!(0), "greater than"),
        ("/spec/weight", json!(101), "less than"),
        ("/spec/weight", json!("10"), "must be of type integer"),
        ("/spec/template/spec/expireAfter", json!("30d"), "should match"),
        ("/spec/template/spec/terminationGracePeriod", json!("Never"), "should match"),
        ("/spec/replicas", json!(-1), "greater than"),
        ("/spec/template/spec/nodeClassRef/group", json!("karpenter.k8s.aws/v1"), "should match"),
        ("/spec/template/spec/nodeClassRef/name", json!(""), "name may not be empty"),
        ("/spec/limits", json!({ "cpu": "many" }), "should match"),
        ("/spec/limits", json!({ "cpu": true }), "integer or a string"),
    ];
    let schema = schema("NodePool");
    for (pointer, value, message) in cases {
        let mut base = node_pool();
        if pointer == BUDGETS {
            base = with(&base, "/spec/disruption/consolidateAfter", json!("0s"));
        }
        let errors = create(&schema, &with(&base, pointer, value.clone())).expect_err(&format!("{pointer} = {value}"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(message)), "{pointer} = {value}: {texts:?}");
    }
}

#[test]
fn static_node_pools() {
    let schema = schema("NodePool");
    let fixed = with(&node_pool(), "/spec/replicas", json!(3));
    create(&schema, &fixed).unwrap();
    create(&schema, &with(&fixed, "/spec/limits", json!({ "nodes": 5 }))).unwrap();
    create(&schema, &with(&fixed, "/spec/weight", json!(10))).unwrap_err();
    create(&schema, &with(&fixed, "/spec/limits", json!({ "cpu": 5 }))).unwrap_err();
    assert_eq!(update(&schema, &fixed, &with(&fixed, "/spec/replicas", json!(4))), []);
    assert_eq!(update(&schema, &node_pool(), &fixed).len(), 1);
    assert_eq!(update(&schema, &fixed, &node_pool()).len(), 1);
}

#[test]
fn node_pools_that_are_taken() {
    let cases = [
        (REQUIREMENTS, requirement("example.com/team", "NotIn", &["a"])),
        (REQUIREMENTS, requirement("kubernetes.io/anything", "Exists", &[])),
        (
            REQUIREMENTS,
            json!([{ "key": "team", "operator": "Exists", "minValues": 3 }, { "key": "team", "operator": "In", "values": ["a"] }]),
        ),
        (REQUIREMENTS, requirement("karpenter.k8s.aws/instance-generation", "Gte", &["5"])),
        (LABELS, json!({ "team": "", "karpenter.k8s.aws/instance-family": "c7" })),
        (TAINTS, json!([{ "key": "example.com/special", "value": "yes", "effect": "NoExecute" }])),
        ("/spec/disruption", json!({ "budgets": [{ "nodes": "0" }] })),
        ("/spec/disruption/consolidateAfter", json!("Never")),
        ("/spec/disruption/consolidateAfter", json!("1h30m")),
        (
            BUDGETS,
            json!([{ "nodes": "0" }, { "nodes": "100%" }, { "nodes": "5", "schedule": "0 9 * * mon-fri", "duration": "8h30m" }]),
        ),
        ("/spec/limits", json!({})),
        ("/spec/limits", json!({ "cpu": 1000, "memory": "1000Gi", "nvidia.com/gpu": "2", "nodes": "10" })),
        ("/spec/weight", json!(100)),
        ("/spec/template/spec/expireAfter", json!("Never")),
        ("/spec/template/spec/terminationGracePeriod", json!("48h")),
    ];
    let schema = schema("NodePool");
    for (pointer, value) in cases {
        let base = with(&node_pool(), "/spec/disruption/consolidateAfter", json!("0s"));
        let object = create(&schema, &with(&base, pointer, value.clone()));
        let object = object.unwrap_or_else(|errors| panic!("{pointer} = {value}: {errors:?}"));
        serde_json::from_value::<nodeless_api::NodePool>(object).unwrap();
    }
}

#[test]
fn the_node_class_of_a_pool_changes_only_its_name() {
    let schema = schema("NodePool");
    let change = |field: &str| {
        update(
            &schema,
            &node_pool(),
            &with(&node_pool(), &format!("/spec/template/spec/nodeClassRef/{field}"), json!("other")),
        )
    };
    assert_eq!(change("name"), []);
    assert_eq!(change("group")[0].message, "nodeClassRef.group is immutable");
    assert_eq!(change("kind")[0].path, "spec.template.spec.nodeClassRef");
}

#[test]
fn node_claims_never_change() {
    let schema = schema("NodeClaim");
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "default-abcde" },
        "spec": {
            "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"] }],
            "resources": { "requests": { "cpu": "1", "pods": 3 } },
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
        },
    });
    create(&schema, &claim).unwrap();
    assert_eq!(update(&schema, &claim, &claim), []);
    let errors = update(&schema, &claim, &with(&claim, "/spec/expireAfter", json!("1h")));
    assert_eq!(errors, [FieldError { path: "spec".into(), message: "spec is immutable".into() }]);
    let bare =
        json!([{ "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": "2026-01-02T03:04:05Z" }]);
    create(&schema, &with(&claim, "/status/conditions", bare)).unwrap();
    let doubled = json!([
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" },
        { "type": "Ready", "status": "False", "lastTransitionTime": "yesterday" },
    ]);
    assert_eq!(create(&schema, &with(&claim, "/status/conditions", doubled)).unwrap_err().len(), 2);
    create(&schema, &with(&claim, "/spec/requirements/0/key", json!("karpenter.k8s.aws/foo"))).unwrap_err();
}

/// Refuses an EC2NodeClass with each value at a path, with a message that contains a text.
fn node_class_is_refused(cases: &[(&str, Value, &str)]) {
    let schema = schema("EC2NodeClass");
    for (pointer, value, message) in cases {
        let errors =
            create(&schema, &with(&node_class(), pointer, value.clone())).expect_err(&format!("{pointer} = {value}"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(message)), "{pointer} = {value}: {texts:?}");
    }
}

#[test]
fn node_classes_whose_selectors_and_tags_are_refused() {
    node_class_is_refused(&[
        ("/spec/role", Value::Null, "exactly one of"),
        ("/spec/role", json!(""), "role cannot be empty"),
        ("/spec/instanceProfile", json!("profile"), "exactly one of"),
        ("/spec/subnetSelectorTerms", Value::Null, "Required value"),
        ("/spec/subnetSelectorTerms", json!([]), "subnetSelectorTerms cannot be empty"),
        ("/spec/subnetSelectorTerms", json!([{}]), "at least one"),
        ("/spec/subnetSelectorTerms", json!([{ "tags": { "a": "" } }]), "empty tag keys or values"),
        ("/spec/subnetSelectorTerms", json!([{ "id": "subnet-1", "tags": { "a": "b" } }]), "mutually exclusive"),
        ("/spec/subnetSelectorTerms", json!([{ "id": "vpc-1" }]), "should match"),
        ("/spec/subnetSelectorTerms", Value::Array(vec![json!({ "id": "subnet-1" }); 31]), "at most 30"),
        ("/spec/securityGroupSelectorTerms", json!([]), "cannot be empty"),
        ("/spec/securityGroupSelectorTerms", json!([{ "id": "sg-1", "name": "a" }]), "mutually exclusive"),
        ("/spec/amiSelectorTerms", json!([]), "at least 1 items"),
        ("/spec/amiSelectorTerms", json!([{ "owner": "self" }]), "at least one"),
        ("/spec/amiSelectorTerms", json!([{ "alias": "al2023" }]), "improperly formatted"),
        ("/spec/amiSelectorTerms", json!([{ "alias": "ubuntu@latest" }]), "family is not supported"),
        ("/spec/amiSelectorTerms", json!([{ "alias": "windows2022@2024-01" }]), "windows families"),
        ("/spec/amiSelectorTerms", json!([{ "alias": "al2023@latest" }, { "id": "ami-1" }]), "mutually exclusive"),
        ("/spec/amiSelectorTerms", json!([{ "alias": "al2023@latest", "name": "x" }]), "mutually exclusive"),
        ("/spec/amiSelectorTerms", json!([{ "id": "ami-1", "owner": "self" }]), "mutually exclusive"),
        ("/spec/amiSelectorTerms", json!([{ "id": "ami-1" }]), "must specify amiFamily"),
        ("/spec/amiFamily", json!("AL2"), "if set, amiFamily must be 'AL2023' or 'Custom'"),
        ("/spec/amiFamily", json!("Ubuntu"), "supported values"),
        ("/spec/tags", json!({ "kubernetes.io/cluster/x": "owned" }), "kubernetes.io/cluster/"),
        ("/spec/tags", json!({ "karpenter.sh/nodeclaim": "x" }), "karpenter.sh/nodeclaim"),
        ("/spec/tags", json!({ "eks:eks-cluster-name": "x" }), "eks:eks-cluster-name"),
        ("/spec/tags", json!({ "": "x" }), "empty tag keys"),
        ("/spec/placementGroupSelector", json!({}), "at least one"),
        ("/spec/placementGroupSelector", json!({ "name": "a", "id": "pg-1" }), "mutually exclusive"),
        ("/spec/capacityReservationSelectorTerms", json!([{ "ownerID": "123456789012" }]), "at least one"),
        (
            "/spec/capacityReservationSelectorTerms",
            json!([{ "id": "cr-1", "ownerID": "123456789012" }]),
            "mutually exclusive",
        ),
    ]);
}

#[test]
fn node_classes_whose_instances_are_refused() {
    let interface = |card: i32, device: i32, kind: &str| json!({ "networkCardIndex": card, "deviceIndex": device, "interfaceType": kind });
    let ebs = |ebs: Value| json!([{ "deviceName": "/dev/xvda", "ebs": ebs }]);
    node_class_is_refused(&[
        ("/spec/blockDeviceMappings", ebs(json!({ "volumeSize": "60000Gi" })), "should match"),
        ("/spec/blockDeviceMappings", ebs(json!({ "volumeSize": "Ti" })), "should match"),
        ("/spec/blockDeviceMappings", ebs(json!({ "volumeType": "gp3" })), "snapshotID or volumeSize"),
        (
            "/spec/blockDeviceMappings",
            ebs(json!({ "volumeSize": "1Gi", "volumeInitializationRate": 100 })),
            "snapshotID must be set",
        ),
        ("/spec/blockDeviceMappings", ebs(json!({ "volumeSize": "1Gi", "volumeType": "gp9" })), "supported values"),
        ("/spec/blockDeviceMappings", json!([{ "rootVolume": true }, { "rootVolume": true }]), "only one"),
        ("/spec/networkInterfaces", json!([interface(0, 1, "interface")]), "primary interface"),
        ("/spec/networkInterfaces", json!([interface(0, 0, "interface"), interface(0, 0, "interface")]), "duplicate"),
        (
            "/spec/networkInterfaces",
            json!([interface(0, 0, "interface"), interface(1, 0, "efa-only"), interface(1, 1, "efa-only")]),
            "efa",
        ),
        (
            "/spec/networkInterfaces",
            json!([interface(0, 0, "interface"), interface(-1, 0, "interface")]),
            "greater than",
        ),
        ("/spec/connectionTracking", json!({}), "at least one of"),
        ("/spec/connectionTracking", json!({ "udpTimeout": 61 }), "less than"),
        ("/spec/ipPrefixCount", json!(-1), "greater than"),
        ("/spec/metadataOptions", json!({ "httpPutResponseHopLimit": 65 }), "less than"),
        ("/spec/metadataOptions", json!({ "httpTokens": "never" }), "supported values"),
        ("/spec/instanceStorePolicy", json!("RAID1"), "supported values"),
        ("/spec/enclaveOptions", json!({}), "spec.enclaveOptions.enabled: Required value"),
        ("/spec/cpuOptions", json!({ "nestedVirtualization": "on" }), "supported values"),
    ]);
}

#[test]
fn node_classes_whose_kubelet_is_refused() {
    node_class_is_refused(&[
        ("/spec/kubelet", json!([]), "must be of type object"),
        (
            "/spec/kubelet",
            json!({ "maxPods": 1.5 }),
            "spec.kubelet.maxPods: Invalid value: 1.5: must be an integer or a string",
        ),
        ("/spec/kubelet", json!({ "podsPerCore": -1 }), "greater than or equal to 0"),
        ("/spec/kubelet", json!({ "imageGCHighThresholdPercent": 101 }), "less than or equal to 100"),
        (
            "/spec/kubelet",
            json!({ "imageGCHighThresholdPercent": 60, "imageGCLowThresholdPercent": 60 }),
            "imageGCHighThresholdPercent must be greater",
        ),
        ("/spec/kubelet", json!({ "evictionHard": { "disk": "5%" } }), "valid keys for evictionHard"),
        ("/spec/kubelet", json!({ "evictionHard": { "memory.available": "101%" } }), "should match"),
        ("/spec/kubelet", json!({ "evictionSoft": { "pid.available": "5%" } }), "that evictionSoftGracePeriod lacks"),
        ("/spec/kubelet", json!({ "evictionSoftGracePeriod": { "pid.available": "1m" } }), "that evictionSoft lacks"),
        ("/spec/kubelet", json!({ "kubeReserved": { "gpu": "1" } }), "valid keys for kubeReserved"),
        ("/spec/kubelet", json!({ "systemReserved": { "cpu": "-1" } }), "cannot be a negative"),
    ]);
}

#[test]
fn node_classes_that_are_taken() {
    let cases = [
        ("/spec/amiFamily", json!("AL2023")),
        ("/spec/amiFamily", json!("Custom")),
        // Karpenter's rule asks only that one term is clean; so does ours.
        ("/spec/subnetSelectorTerms", json!([{ "id": "subnet-1", "tags": { "a": "b" } }, { "tags": { "a": "b" } }])),
        ("/spec/amiSelectorTerms", json!([{ "alias": "windows2022@latest" }])),
        (
            "/spec/blockDeviceMappings",
            json!([{ "deviceName": "/dev/xvda", "rootVolume": true, "ebs": { "volumeSize": "100Gi", "volumeType": "gp3", "encrypted": true, "iops": 3000, "throughput": 125, "deleteOnTermination": true } }]),
        ),
        (
            "/spec/blockDeviceMappings",
            json!([{ "ebs": { "snapshotID": "snap-1", "volumeInitializationRate": 300, "volumeSize": "18Ti" } }]),
        ),
        (
            "/spec/networkInterfaces",
            json!([{ "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" }, { "networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only" }]),
        ),
        (
            "/spec/capacityReservationSelectorTerms",
            json!([{ "instanceMatchCriteria": "targeted", "ownerID": "123456789012" }]),
        ),
        ("/spec/placementGroupSelector", json!({ "name": "mine" })),
        ("/spec/connectionTracking", json!({ "tcpEstablishedTimeout": 350 })),
        ("/spec/tags", json!({ "team": "", "Name": "x" })),
        (
            "/spec/kubelet",
            json!({ "maxPods": 20, "clusterDNS": ["10.0.0.10"], "evictionHard": { "memory.available": "5%" } }),
        ),
        (
            "/spec/kubelet",
            json!({ "maxPods": "min(110, max_pods)", "kubeReserved": { "memory": "11 * max_pods + 255", "cpu": "80m" } }),
        ),
        ("/spec/userData", json!("#!/bin/bash\necho hello\n")),
        ("/spec/instanceStorePolicy", json!("RAID0")),
    ];
    let schema = schema("EC2NodeClass");
    for (pointer, value) in cases {
        let object = create(&schema, &with(&node_class(), pointer, value.clone()));
        let object = object.unwrap_or_else(|errors| panic!("{pointer} = {value}: {errors:?}"));
        let class: nodeless_api::EC2NodeClass = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&class.spec).unwrap(), object["spec"], "{pointer}: nothing is lost on the way");
    }
}

#[test]
fn definitions_beyond_what_is_covered_are_refused() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut crd = serde_json::to_value(&nodeless_api::crds().unwrap()[0]).unwrap();
        change(crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap());
        Schema::from_crd(&serde_json::from_value(crd).unwrap(), "v1").unwrap_err().to_string()
    };
    let rule = |rule: &'static str| {
        refused(&move |spec: &mut Value| {
            spec["properties"]["weight"]["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        })
    };
    assert!(refused(&|spec| spec["not"] = json!({ "type": "string" })).contains("the keyword not is not supported"));
    assert!(refused(&|spec| spec["pattern"] = json!("(")).contains("pattern"));
    assert!(rule("self ==").contains("cannot be parsed"));
    assert!(rule("quantity(self) == 1").contains("calls quantity"));
    assert!(Schema::from_crd(&nodeless_api::crds().unwrap()[0], "v2").unwrap_err().to_string().contains("v2"));
}
