//! Pods with ResourceClaims get devices.

use super::{Cluster, pod};
use crate::controllers::object::{condition, list, text};
use crate::server::resource::{
    DEVICE_CLASSES, EVENTS, NODES, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES,
};
use crate::server::{DeleteOptions, ListOptions};
use nodeless_model::Quantity;
use serde_json::{Value, json};

const DRIVER: &str = "gpu.nvidia.com";

/// A cluster with a node of two GPUs, and one without.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.start("cpu", &[("node.kubernetes.io/instance-type", "m5.xlarge")], Vec::new());
    let mut machine = cluster.machine("gpu", &[("node.kubernetes.io/instance-type", "g6.2xlarge")]);
    machine.capacity.set("nvidia.com/gpu", Quantity::from_units(2));
    cluster.controllers.kubelets.start(machine);
    let expression = format!("device.driver == '{DRIVER}'");
    let selectors = json!([{ "cel": { "expression": expression } }]);
    cluster.create(&DEVICE_CLASSES, json!({ "metadata": { "name": DRIVER }, "spec": { "selectors": selectors } }));
    let requests = json!([{ "name": "gpu", "exactly": { "deviceClassName": DRIVER } }]);
    let spec = json!({ "devices": { "requests": requests } });
    let template =
        json!({ "metadata": { "name": "one" }, "spec": { "metadata": { "labels": { "a": "b" } }, "spec": spec } });
    cluster.create(&RESOURCE_CLAIM_TEMPLATES, template);
    cluster.create(&RESOURCE_CLAIMS, json!({ "metadata": { "name": "shared" }, "spec": spec }));
    cluster.run(5);
    cluster
}

/// The driver runs on the node with GPUs.
fn run_driver(cluster: &mut Cluster) {
    let mut driver = pod("driver", "10m");
    driver["spec"]["nodeName"] = json!("gpu");
    driver["spec"]["containers"][0]["image"] = json!("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0");
    cluster.create(&PODS, driver);
    cluster.run(5);
}

fn claiming(name: &str, claim: &Value) -> Value {
    let mut pod = pod(name, "100m");
    let mut claim = claim.clone();
    claim["name"] = json!("gpu");
    pod["spec"]["resourceClaims"] = json!([claim]);
    pod
}

fn of_template(name: &str) -> Value {
    claiming(name, &json!({ "resourceClaimTemplateName": "one" }))
}

fn node(cluster: &Cluster, name: &str) -> String {
    text(&cluster.get(&PODS, name), "/spec/nodeName").to_owned()
}

fn remove(cluster: &mut Cluster, name: &str) {
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(&PODS, "default", name, &options).unwrap();
    cluster.run(5);
}

/// The devices of all claims, by the name of the pod that has them first.
fn given(cluster: &Cluster) -> Vec<(String, String)> {
    let of_claim = |claim: &Value| {
        let user = text(claim, "/status/reservedFor/0/name").to_owned();
        let results = list(claim, "/status/allocation/devices/results").to_vec();
        results.into_iter().map(move |it| (user.clone(), text(&it, "/device").to_owned())).collect::<Vec<_>>()
    };
    let mut given: Vec<_> = cluster.list(&RESOURCE_CLAIMS).iter().flat_map(|claim| of_claim(claim)).collect();
    given.sort();
    given
}

fn pair(pod: &str, device: &str) -> (String, String) {
    (pod.to_owned(), device.to_owned())
}

#[test]
fn pods_get_the_devices_of_claims_that_are_made_for_them_until_they_end() {
    let mut cluster = cluster();
    cluster.create(&PODS, of_template("a"));
    cluster.run(5);
    let why = cluster.get(&PODS, "a");
    let why = condition(&why, "PodScheduled").map(|it| text(it, "/message").to_owned());
    assert_eq!(why.as_deref(), Some("0/2 nodes are available: 2 cannot allocate all claims."));
    run_driver(&mut cluster);
    let slice = cluster.get(&RESOURCE_SLICES, "gpu-gpu.nvidia.com");
    assert_eq!((text(&slice, "/spec/nodeName"), list(&slice, "/spec/devices").len()), ("gpu", 2));
    for name in ["b", "c"] {
        cluster.create(&PODS, of_template(name));
        cluster.run(5);
    }
    assert_eq!(["a", "b", "c"].map(|name| node(&cluster, name)), ["gpu", "gpu", ""]);
    assert_eq!(given(&cluster), [pair("a", "gpu-0"), pair("b", "gpu-1")]);
    let made = text(&cluster.get(&PODS, "a"), "/status/resourceClaimStatuses/0/resourceClaimName").to_owned();
    let claim = cluster.get(&RESOURCE_CLAIMS, &made);
    assert!(made.starts_with("a-gpu-") && claim["metadata"]["labels"]["a"] == "b", "{claim}");
    let field = "/status/allocation/nodeSelector/nodeSelectorTerms/0/matchFields/0/values/0";
    assert_eq!(claim.pointer(field).unwrap(), "gpu");
    remove(&mut cluster, "a");
    assert!(cluster.api.get(&RESOURCE_CLAIMS, "default", &made).is_err());
    cluster.run(15);
    assert_eq!(
        (node(&cluster, "c"), given(&cluster)),
        ("gpu".to_owned(), vec![pair("b", "gpu-1"), pair("c", "gpu-0")])
    );
}

#[test]
fn claims_of_pods_that_have_succeeded_are_released() {
    let mut cluster = cluster();
    run_driver(&mut cluster);
    let mut short = of_template("short");
    short["spec"]["restartPolicy"] = json!("Never");
    short["spec"]["containers"][0]["command"] = json!(["sleep", "5"]);
    cluster.create(&PODS, short);
    cluster.run(5);
    assert_eq!(given(&cluster), [pair("short", "gpu-0")]);
    cluster.run(20);
    assert_eq!(cluster.get(&PODS, "short")["status"]["phase"], "Succeeded");
    assert_eq!(cluster.list(&RESOURCE_CLAIMS).len(), 1, "the one of no pod");
}

#[test]
fn pods_share_the_devices_of_a_claim_on_its_node() {
    let mut cluster = cluster();
    run_driver(&mut cluster);
    for name in ["a", "b"] {
        cluster.create(&PODS, claiming(name, &json!({ "resourceClaimName": "shared" })));
    }
    cluster.run(5);
    assert_eq!((node(&cluster, "a"), node(&cluster, "b")), ("gpu".to_owned(), "gpu".to_owned()));
    assert_eq!(list(&cluster.get(&RESOURCE_CLAIMS, "shared"), "/status/reservedFor").len(), 2);
    let mut elsewhere = claiming("c", &json!({ "resourceClaimName": "shared" }));
    elsewhere["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "cpu" });
    cluster.create(&PODS, elsewhere);
    cluster.run(5);
    let why = cluster.get(&PODS, "c");
    let why = text(condition(&why, "PodScheduled").unwrap(), "/message");
    assert!(why.contains("1 resourceclaim not available on the node"), "{why}");
    remove(&mut cluster, "a");
    assert_eq!(given(&cluster), [pair("b", "gpu-0")]);
    remove(&mut cluster, "b");
    let shared = cluster.get(&RESOURCE_CLAIMS, "shared");
    assert!(
        shared["status"].get("allocation").is_none() && list(&shared, "/metadata/finalizers").is_empty(),
        "{shared}"
    );
}

#[test]
fn pods_wait_for_claims_that_do_not_exist() {
    let mut cluster = cluster();
    run_driver(&mut cluster);
    cluster.create(&PODS, claiming("a", &json!({ "resourceClaimTemplateName": "later" })));
    cluster.create(&PODS, claiming("b", &json!({ "resourceClaimName": "later" })));
    cluster.run(30);
    assert_eq!((condition(&cluster.get(&PODS, "a"), "PodScheduled"), node(&cluster, "b")), (None, String::new()));
    let failed = cluster.list(&EVENTS);
    let failed = failed.iter().find(|event| event["reason"] == "FailedResourceClaimCreation").unwrap();
    assert!(text(failed, "/message").contains("later"), "{failed}");
    let template = cluster.get(&RESOURCE_CLAIM_TEMPLATES, "one");
    let spec = template["spec"].clone();
    cluster.create(&RESOURCE_CLAIM_TEMPLATES, json!({ "metadata": { "name": "later" }, "spec": spec }));
    cluster.create(&RESOURCE_CLAIMS, json!({ "metadata": { "name": "later" }, "spec": spec["spec"] }));
    cluster.run(5);
    assert_eq!((node(&cluster, "a"), node(&cluster, "b")), ("gpu".to_owned(), "gpu".to_owned()));
}

#[test]
fn a_group_that_is_not_complete_takes_no_devices() {
    let mut cluster = cluster();
    run_driver(&mut cluster);
    let policy = json!({ "gang": { "minCount": 3 } });
    let group = json!({ "metadata": { "name": "train" }, "spec": { "schedulingPolicy": policy } });
    cluster.create(&POD_GROUPS, group);
    for name in ["a", "b", "c"] {
        let mut member = of_template(name);
        member["spec"]["schedulingGroup"] = json!({ "podGroupName": "train" });
        cluster.create(&PODS, member);
    }
    // These are attempted after the group, in the same round.
    for name in ["d", "e"] {
        cluster.create(&PODS, of_template(name));
    }
    cluster.run(5);
    assert_eq!(["a", "b", "c"].map(|name| node(&cluster, name)), ["", "", ""]);
    assert_eq!(given(&cluster), [pair("d", "gpu-0"), pair("e", "gpu-1")]);
}

#[test]
fn slices_end_with_their_driver_or_node() {
    let mut cluster = cluster();
    let slices = |cluster: &Cluster| cluster.api.list(&RESOURCE_SLICES, &ListOptions::default()).unwrap().items.len();
    run_driver(&mut cluster);
    assert_eq!(slices(&cluster), 1);
    remove(&mut cluster, "driver");
    assert_eq!(slices(&cluster), 0);
    run_driver(&mut cluster);
    assert_eq!(slices(&cluster), 1);
    cluster.controllers.kubelets.stop("gpu");
    cluster.api.delete(&NODES, "", "gpu", &DeleteOptions::default()).unwrap();
    cluster.run(5);
    assert_eq!(slices(&cluster), 0);
}
