//! Volumes, CapacityBuffers and NodeOverlays from end to end, in virtual time.

use crate::support::{create, list, picture, running, start, within};
use futures::FutureExt as _;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_driver::Driver;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::resource::{
    DEPLOYMENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_TEMPLATES, STATEFUL_SETS, STORAGE_CLASSES,
};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType, Resource};
use nodeless_model::claim::Charge;
use nodeless_model::{CapacityType, StringMap, labels};
use nodeless_telemetry::Null;
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS};
use serde_json::{Value, json};
use std::sync::Arc;

fn container(cpu: &str) -> Value {
    json!({ "name": "main", "image": "registry.k8s.io/pause:3.9",
        "resources": { "requests": { "cpu": cpu, "memory": "256Mi" } } })
}

fn alive(driver: &Driver) -> Vec<String> {
    let instances = driver.world().ec2().instances();
    let alive =
        instances.into_iter().filter(|it| !matches!(it.state, InstanceState::Terminated | InstanceState::ShuttingDown));
    alive.map(|it| it.offering.instance_type).collect()
}

fn deployment(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [container(cpu)] } },
        },
    })
}

/// Waits for a condition, and reports the state if it does not become true.
fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

#[test]
fn a_stateful_set_gets_its_nodes_in_the_zone_of_its_volume() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    // The class allows one of the zones, so that this test cannot pass by chance.
    create(
        &driver,
        &STORAGE_CLASSES,
        json!({ "metadata": { "name": "gp3" }, "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{ "matchLabelExpressions": [
                { "key": "topology.ebs.csi.aws.com/zone", "values": ["us-east-1b"] } ] }] }),
    );
    create(
        &driver,
        &STATEFUL_SETS,
        json!({
            "metadata": { "name": "db" },
            "spec": {
                "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [container("1")] } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
                    "resources": { "requests": { "storage": "1Gi" } } } }],
            },
        }),
    );
    wait(&mut driver, 180, "it runs", |it| running(it) == 1);
    let zone = |it: &Driver| list(it, &NODES)[0]["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    assert_eq!(zone(&driver), "us-east-1b");
    assert_eq!(list(&driver, &PERSISTENT_VOLUME_CLAIMS)[0]["status"]["phase"], "Bound");

    // The class no longer limits the zone; now the volume does. Its node is deleted, and the next one is in the same zone.
    let options = DeleteOptions::default();
    let api = driver.world().api();
    api.delete(&STORAGE_CLASSES, "", "gp3", &options).unwrap();
    let claim = list(&driver, &NODE_CLAIMS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    api.delete(&NODE_CLAIMS, "", &claim, &options).unwrap();
    wait(&mut driver, 400, "it runs again elsewhere", |it| {
        let claims = list(it, &NODE_CLAIMS);
        running(it) == 1 && claims.len() == 1 && claims[0]["metadata"]["name"] != claim.as_str()
    });
    assert_eq!(zone(&driver), "us-east-1b");
    assert_eq!(list(&driver, &PERSISTENT_VOLUMES).len(), 1, "the same volume");
}

#[test]
fn a_buffer_keeps_a_node_that_real_pods_take_and_that_is_made_up_for() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    create(
        &driver,
        &POD_TEMPLATES,
        json!({ "metadata": { "name": "chunk" }, "template": { "spec": { "containers": [container("1")] } } }),
    );
    create(
        &driver,
        &CAPACITY_BUFFERS,
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": { "name": "spare", "namespace": "default" },
            "spec": { "podTemplateRef": { "name": "chunk" }, "replicas": 1 },
        }),
    );
    wait(&mut driver, 240, "a node is there", |it| !list(it, &NODES).is_empty());
    let fits = |it: &Driver| {
        let buffer = &list(it, &CAPACITY_BUFFERS)[0];
        (buffer["status"]["replicas"].clone(), buffer["status"]["conditions"][1]["reason"].clone())
    };
    wait(&mut driver, 240, "the buffer reports it", |it| fits(it) == (json!(1), json!("FitsExistingCapacity")));
    driver.advance_to(within(&driver, 900)).unwrap();
    assert_eq!(list(&driver, &NODES).len(), 1, "it stays: {}", picture(&mut driver));
    let first = list(&driver, &NODES)[0]["metadata"]["name"].clone();

    // A real pod does not wait: the capacity is there.
    create(&driver, &DEPLOYMENTS, deployment("web", 1, "1"));
    wait(&mut driver, 15, "the pod runs at once", |it| running(it) == 1);
    wait(&mut driver, 300, "the buffer is filled again", |it| {
        list(it, &NODES).len() == 2 && fits(it).1 == "FitsExistingCapacity"
    });
    assert!(list(&driver, &NODES).iter().any(|node| node["metadata"]["name"] == first));

    let options = DeleteOptions::default();
    driver.world().api().delete(&CAPACITY_BUFFERS, "default", "spare", &options).unwrap();
    wait(&mut driver, 600, "the empty node is removed", |it| alive(it).len() == 1 && running(it) == 1);
}

fn make_buffer(driver: &Driver, replicas: u32) {
    create(
        driver,
        &POD_TEMPLATES,
        json!({ "metadata": { "name": "chunk" }, "template": { "spec": { "containers": [container("1")] } } }),
    );
    create(
        driver,
        &CAPACITY_BUFFERS,
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": { "name": "spare", "namespace": "default" },
            "spec": { "podTemplateRef": { "name": "chunk" }, "replicas": replicas },
        }),
    );
}

#[test]
fn nodes_with_the_capacity_of_a_buffer_are_consolidated_and_the_capacity_stays() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    make_buffer(&driver, 2);
    create(&driver, &DEPLOYMENTS, deployment("web", 12, "1500m"));
    let fits = |it: &Driver| {
        let buffers = list(it, &CAPACITY_BUFFERS);
        buffers[0]["status"]["conditions"][1]["reason"] == "FitsExistingCapacity"
    };
    wait(&mut driver, 600, "all of it runs", |it| running(it) == 12 && fits(it));
    let cpus = |it: &Driver| {
        let nodes = list(it, &NODES);
        let of = |node: &Value| node["status"]["capacity"]["cpu"].as_str().unwrap().parse::<u32>().unwrap();
        nodes.iter().map(|node| of(node)).sum::<u32>()
    };
    let (before, launched) = (cpus(&driver), driver.world().ec2().instances().len());
    assert!(before >= 20, "{before}");

    let patch = json!({ "spec": { "replicas": 2 } });
    let api = driver.world().api();
    api.patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &patch, &PatchOptions::default()).unwrap();
    // Two pods of 1.5 and two chunks of 1 fit on 8 CPUs together with what the system reserves.
    wait(&mut driver, 3600, "the surplus nodes are removed", |it| {
        cpus(it) <= 8 && alive(it).len() == list(it, &NODES).len() && running(it) == 2 && fits(it)
    });
    driver.advance_to(within(&driver, 600)).unwrap();
    let (nodes, instances) = (list(&driver, &NODES).len(), driver.world().ec2().instances().len());
    driver.advance_to(within(&driver, 1800)).unwrap();
    assert!(fits(&driver) && running(&driver) == 2, "{}", picture(&mut driver));
    assert_eq!(list(&driver, &NODES).len(), nodes, "it is quiescent: {}", picture(&mut driver));
    assert_eq!(driver.world().ec2().instances().len(), instances, "nothing is launched for the buffer repeatedly");
    assert!(instances - launched <= 4, "{} launches for that", instances - launched);
}

#[test]
fn an_instance_that_leaves_its_reservation_is_shown_and_charged_on_demand() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    let on_demand = json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "reserved"] },
    ] } } } });
    let merge = |it: &Driver, resource: &Resource, name: &str, to: &Value| {
        it.world().api().patch(resource, "", name, None, PatchType::Merge, to, &PatchOptions::default()).unwrap();
    };
    merge(&driver, &NODE_POOLS, "default", &on_demand);
    create(&driver, &DEPLOYMENTS, deployment("web", 1, "1"));
    wait(&mut driver, 300, "it runs", |it| running(it) == 1);
    driver.advance_to(within(&driver, 90)).unwrap();
    let only = |it: &Driver| it.claims().list().now_or_never().unwrap().unwrap().remove(0);
    let mut claim = only(&driver);
    let price = claim.status.instance.as_ref().unwrap().price;
    assert!(price > 0.0);

    // The record of a launch into a reservation that has ended: EC2 no longer lists it.
    let launched = claim.status.instance.as_mut().unwrap();
    (launched.capacity_type, launched.price) = (CapacityType::Reserved, 0.0);
    launched.reservation_id = Some("cr-0a000000000000001".into());
    let marks = json!({
        labels::CAPACITY_TYPE: "reserved", labels::CAPACITY_RESERVATION_ID: "cr-0a000000000000001",
        labels::CAPACITY_RESERVATION_TYPE: "default", labels::CAPACITY_RESERVATION_INTERRUPTIBLE: "false",
    });
    let texts: StringMap = serde_json::from_value(marks.clone()).unwrap();
    claim.status.labels.extend(texts);
    let charge = Charge { dollars_per_hour: 0.0, ..claim.spec.charge.clone() };
    driver.claims().update(&claim, Some(&charge)).now_or_never().unwrap().unwrap();
    let marked = json!({ "metadata": { "labels": marks } });
    let node = claim.status.node_name.clone().unwrap();
    merge(&driver, &NODES, &node, &marked);
    merge(&driver, &NODE_CLAIMS, &claim.name, &marked);

    driver.advance_to(within(&driver, 180)).unwrap();
    let after = only(&driver);
    let launched = after.status.instance.as_ref().unwrap();
    assert_eq!((launched.capacity_type, launched.reservation_id.as_deref()), (CapacityType::OnDemand, None));
    assert!((launched.price - price).abs() < 1e-9 && (after.spec.charge.dollars_per_hour - price).abs() < 1e-9);
    for resource in [NODES, NODE_CLAIMS] {
        let shown = list(&driver, &resource)[0]["metadata"]["labels"].clone();
        assert_eq!(shown[labels::CAPACITY_TYPE], "on-demand", "{}", resource.kind);
        assert!(labels::OF_A_RESERVATION.iter().all(|key| shown.get(*key).is_none()), "{}: {shown}", resource.kind);
    }
    assert_eq!(alive(&driver).len(), 1, "and the machine runs on");
}

#[test]
fn an_overlay_changes_which_type_is_launched() {
    let launched = |overlay: Option<Value>| {
        let mut driver = start();
        driver.advance_to(within(&driver, 5)).unwrap();
        // Without spot, whose prices are the market's.
        let only = json!({ "spec": { "template": { "spec": { "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m6i.large", "c5.large"] },
        ] } } } });
        let api = driver.world().api();
        let options = PatchOptions::default();
        api.patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &only, &options).unwrap();
        if let Some(overlay) = overlay {
            create(&driver, &NODE_OVERLAYS, overlay);
        }
        create(&driver, &DEPLOYMENTS, deployment("web", 1, "500m"));
        wait(&mut driver, 180, "it runs", |it| running(it) == 1);
        let reported = list(&driver, &NODE_OVERLAYS);
        (alive(&driver), reported.first().map(|overlay| overlay["status"]["conditions"].clone()))
    };
    assert_eq!(launched(None).0, ["c5.large"], "the cheapest");
    let (types, conditions) = launched(Some(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "discount" },
        "spec": {
            "requirements": [{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.large"] }],
            "priceAdjustment": "-50%",
        },
    })));
    assert_eq!(types, ["m6i.large"]);
    assert_eq!(conditions.unwrap()[1]["status"], "True");
}

/// Names and fields of invalid EC2NodeClasses, each with the condition, the reason and a part of the message that it gets.
fn invalid_classes(arm: &str) -> [(&'static str, Value, &'static str, &'static str, &'static str); 8] {
    [
        (
            "release",
            json!({ "amiSelectorTerms": [{ "alias": "al2023@v19990101" }] }),
            "AMIsReady",
            "AMINotFound",
            "spec.amiSelectorTerms",
        ),
        (
            "arm",
            json!({ "amiFamily": "AL2023", "amiSelectorTerms": [{ "id": arm }] }),
            "ValidationSucceeded",
            "AMINotFound",
            "spec.amiSelectorTerms",
        ),
        (
            "no-subnet",
            json!({ "subnetSelectorTerms": [{ "id": "subnet-0123456789abcdef0" }] }),
            "SubnetsReady",
            "SubnetsNotFound",
            "spec.subnetSelectorTerms",
        ),
        (
            "groupless",
            json!({ "securityGroupSelectorTerms": [{ "name": "other" }] }),
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "spec.securityGroupSelectorTerms",
        ),
        (
            "long",
            json!({ "userData": "#!/bin/sh\n".repeat(2000) }),
            "ValidationSucceeded",
            "UserDataSizeLimitExceeded",
            "spec.userData",
        ),
        (
            "pods",
            json!({ "kubelet": { "maxPodz": 20 } }),
            "ValidationSucceeded",
            "InvalidKubeletConfiguration",
            "maxPodz",
        ),
        (
            "expression",
            json!({ "kubelet": { "maxPods": "pods * 2" } }),
            "ValidationSucceeded",
            "KubeletExpressionInvalid",
            "spec.kubelet.maxPods",
        ),
        (
            "division",
            json!({ "kubelet": { "kubeReserved": { "cpu": "100 / (vcpus - 2)" } } }),
            "ValidationSucceeded",
            "KubeletExpressionEvaluationFailed",
            "spec.kubelet.kubeReserved.cpu",
        ),
    ]
}

#[test]
fn each_invalid_class_gets_the_reason_and_the_others_are_processed() {
    let mut driver = start();
    let images = driver.world().ec2().account().images;
    let arm = images.iter().find(|image| image.architecture == "arm64").unwrap().id.clone();
    let wrong = invalid_classes(&arm);
    // The NodePool `arm` allows only amd64, and its AMI is for arm64.
    let amd64 = json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }]);
    let mut arm = node_pool_manifest("arm", &amd64, &json!({}));
    arm["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("arm");
    create(&driver, &NODE_POOLS, arm);
    // The NodePool `gone` allows only an instance type that EC2 does not list, which is no fault of its class.
    let tiny = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m1.tiny"] }]);
    create(&driver, &NODE_POOLS, node_pool_manifest("gone", &tiny, &json!({ "weight": 90 })));
    for (name, fields, ..) in &wrong {
        create(&driver, &NODE_CLASSES, ec2_node_class_manifest(name, "nodeless", fields));
    }
    create(&driver, &DEPLOYMENTS, deployment("web", 1, "1"));
    wait(&mut driver, 600, "the pod runs", |driver| running(driver) == 1);
    let classes = list(&driver, &NODE_CLASSES);
    for (name, _, kind, reason, stated) in &wrong {
        let class = classes.iter().find(|class| class["metadata"]["name"] == *name).unwrap();
        let conditions = class["status"]["conditions"].as_array().unwrap();
        let condition = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        let found = condition(kind);
        assert!(found["status"] == "False" && found["reason"] == *reason, "{name}: {found}");
        assert!(found["message"].as_str().unwrap().contains(stated), "{name}: {found}");
        assert_eq!(condition("Ready")["status"], "False", "{name}");
    }
}

/// The capacity of a buffer is kept while spot is interrupted, calls fail and processes end; the invariants of every simulation
/// hold, and the cluster becomes quiescent.
#[test]
fn nothing_is_lost_when_all_else_goes_wrong_beside_a_buffer() {
    for (name, seed) in [("faults", 1), ("faults-all-features", 2)] {
        let mut scenario = Scenario::built_in(name).unwrap();
        scenario.objects.extend([
            json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "chunk" },
                "template": { "metadata": { "labels": { "app": "chunk" } }, "spec": { "containers": [container("700m")] } },
            }),
            json!({
                "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": { "name": "spare" },
                "spec": { "podTemplateRef": { "name": "chunk" }, "replicas": 3 },
            }),
        ]);
        let report = Run::new(scenario, seed, Some(1), Arc::new(Null)).unwrap().finish().unwrap();
        assert!(report.violations.is_empty(), "{name} {seed}: {:#?}", report.violations);
        assert!(report.launched > 0 && report.plans.0 > 50, "the scenario covers too little");
    }
}
