//! `nodeless plan`: what is assumed, and messages with what to do.

use crate::support::{Ended, nodeless};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;

fn planned(objects: &[Value], arguments: &[&str]) -> Ended {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let mut command = nodeless();
    command.args(["plan", "--cluster", "-"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn pool(more: &Value) -> Value {
    let on_demand = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }]);
    node_pool_manifest("default", &on_demand, more)
}

fn class(more: &Value) -> Value {
    ec2_node_class_manifest("default", "example", more)
}

fn pod(name: &str, requests: &Value) -> Value {
    let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": { "containers": containers } })
}

#[test]
fn a_placement_group_that_the_catalog_lacks_is_assumed() {
    let mut spread = pod("pz", &json!({ "cpu": "1" }));
    spread["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "karpenter.k8s.aws/placement-group-partition", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "pz" } },
    }]);
    let mut other = spread.clone();
    other["metadata"]["name"] = json!("other");
    let class = class(&json!({ "placementGroupSelector": { "name": "kafka" } }));
    let ended = planned(&[spread, other, pool(&json!({})), class], &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "warning: placement group kafka of EC2NodeClass default is not in the catalog; it is assumed to have 7 partitions\n";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(plan["launches"].as_array().unwrap().len(), 2, "the partitions are spread: {plan:#}");
}

/// The volume that the remedy names is large enough, and one that is a GiB smaller is not.
#[test]
fn a_pod_with_much_ephemeral_storage_gets_a_larger_root_volume_as_remedy() {
    let build = pod("build", &json!({ "cpu": "1", "ephemeral-storage": "100Gi" }));
    let with = |more: &Value, arguments: &[&str]| planned(&[build.clone(), pool(&json!({})), class(more)], arguments);
    let ended = with(&json!({}), &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let (_, found) =
        ended.stdout.split_once("raise the root volume of EC2NodeClass default (blockDeviceMappings) to ").unwrap();
    let gib: u32 = found.split_once("Gi or more").unwrap().0.parse().unwrap();
    let volume = |gib: u32| {
        let ebs = json!({ "volumeSize": format!("{gib}Gi"), "volumeType": "gp3" });
        json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "rootVolume": true, "ebs": ebs }] })
    };
    assert_eq!((with(&volume(gib), &[]).code, with(&volume(gib - 1), &[]).code), (Some(0), Some(2)), "{gib}");
    assert!(!ended.stdout.contains("no change of the pod's constraints helps"), "a remedy follows: {ended:?}");

    let following = |size: &str, more: &Value| {
        let mut pool = pool(&json!({}));
        pool["metadata"]["annotations"] = json!({ "nodeless.sh/root-volume": size });
        planned(&[build.clone(), pool, class(more)], &[])
    };
    let ended = following(&format!("pods max {gib}Gi"), &json!({}));
    // 20 GiB of the EC2NodeClass are $1.60 a month; 100 GiB with 10% below which the kubelet evicts are more.
    assert!(ended.code == Some(0) && ended.stdout.contains("Volumes: $9.04 a month for 1 new node"), "{ended:?}");
    let ended = following(&format!("pods max {}Gi", gib - 1), &json!({}));
    let remedy =
        format!("raise the size in the annotation nodeless.sh/root-volume of NodePool default to {gib}Gi or more");
    assert!(ended.code == Some(2) && ended.stdout.contains(&remedy), "{ended:?}");
    let ended = following("pods max 500Gi", &json!({ "amiFamily": "Custom", "amiSelectorTerms": [{ "id": "ami-1" }] }));
    let why = "annotation nodeless.sh/root-volume: EC2NodeClass default: spec.blockDeviceMappings has no volume";
    assert!(ended.code == Some(2) && ended.stdout.contains(why), "{ended:?}");
}

#[test]
fn a_node_pool_with_an_error_is_to_be_corrected() {
    let invalid = pool(&json!({ "weight": 1000 }));
    let ended = planned(&[pod("web", &json!({ "cpu": "1" })), invalid, class(&json!({}))], &[]);
    assert!(ended.stderr.contains("error: ") && ended.stderr.contains("NodePool default: spec.weight: "), "{ended:?}");
    assert!(
        ended.stdout.contains("there is no NodePool that can be used; create one, or correct one with an error"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("create one\n"), "{ended:?}");
}

#[test]
fn a_misspelled_instance_type_is_named_with_what_was_meant() {
    let requirement =
        json!({ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlrge"] });
    let pool = node_pool_manifest("default", &json!([requirement]), &json!({}));
    let ended = planned(&[pod("web", &json!({ "cpu": "1" })), pool, class(&json!({}))], &[]);
    let expected = "warning: NodePool default: no instance type has the node.kubernetes.io/instance-type \"m5.xlrge\" that it allows; did you \
                    mean m5.xlarge?";
    assert!(ended.code == Some(0) && ended.stderr.contains(expected), "{ended:?}");
}

#[test]
fn a_misspelled_key_of_a_requirement_is_named_with_what_was_meant() {
    let requirement = json!({ "key": "karpenter.sh/capacity-typ", "operator": "In", "values": ["spot"] });
    let pool = node_pool_manifest("default", &json!([requirement]), &json!({}));
    let ended = planned(&[pod("web", &json!({ "cpu": "1" })), pool, class(&json!({}))], &[]);
    let expected =
        "requirements[0].key: label domain \"karpenter.sh\" is restricted; did you mean karpenter.sh/capacity-type?";
    assert!(ended.stderr.contains(expected), "{ended:?}");
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_named_by_what_it_requires() {
    for requirement in [
        json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["four"] }),
        json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "In" }),
    ] {
        let invalid = node_pool_manifest("default", &json!([requirement]), &json!({}));
        let ended = planned(&[pod("web", &json!({ "cpu": "1" })), invalid, class(&json!({}))], &[]);
        let error = ended
            .stderr
            .lines()
            .find(|line| line.contains("NodePool default: spec.template.spec.requirements"))
            .unwrap();
        assert!(error.contains("operator"), "{error}");
        assert!(!error.contains("parse error") && !error.contains("No such key"), "{error}");
    }
}

#[test]
fn nodes_of_static_node_pools_are_in_the_total_and_run_pods() {
    let fixed = node_pool_manifest("fixed", &json!([]), &json!({ "replicas": 2 }));
    let objects = [pod("web", &json!({ "cpu": "100m" })), pool(&json!({})), fixed, class(&json!({}))];
    let text = planned(&objects, &[]).stdout;
    assert!(text.contains("NodePool fixed launches 2 nodes to reach its replicas"), "{text}");
    assert!(text.contains("for 2 new nodes, 2 of static NodePools. Of 1 pod: 0 on new nodes, 1 on existing"), "{text}");
    let plan: Value = serde_json::from_str(&planned(&objects, &["-o", "json"]).stdout).unwrap();
    let each = plan["staticLaunches"][0]["launches"][0]["offering"]["pricePerHour"].as_f64().unwrap();
    assert!(each > 0.0 && (plan["pricePerHour"].as_f64().unwrap() - 2.0 * each).abs() < 1e-9, "{plan:#}");
    let without_pods = planned(&objects[1..], &[]).stdout;
    assert!(without_pods.contains("for 2 new nodes, 2 of static NodePools. No pending pods."), "{without_pods}");
    let no_static = planned(&objects[1..2], &["-o", "json"]).stdout;
    assert!(!no_static.contains("staticLaunches"), "{no_static}");
}

#[test]
fn volumes_of_new_and_of_warm_nodes_are_beside_the_total() {
    let fixed = node_pool_manifest("fixed", &json!([]), &json!({ "replicas": 2 }));
    let mut warm = pool(&json!({}));
    warm["metadata"]["annotations"] = json!({ "nodeless.sh/warm": "3" });
    let objects = [pod("web", &json!({ "cpu": "100" })), warm, fixed, class(&json!({}))];
    let text = planned(&objects, &[]).stdout;
    let line = "Volumes: $4.80 a month for 3 new nodes, $4.80 a month for 3 warm nodes, not in the prices above";
    assert!(text.contains(line), "{text}");
    let plan: Value = serde_json::from_str(&planned(&objects, &["-o", "json"]).stdout).unwrap();
    let expected = json!({ "dollarsPerMonth": 4.8, "warmNodes": 3, "warmDollarsPerMonth": 4.8, "withoutPrice": 0 });
    assert_eq!(plan["volumes"], expected);
    let of_snapshot =
        json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": { "snapshotID": "snap-1" } }] });
    let unknown = planned(&[objects[0].clone(), pool(&json!({})), class(&of_snapshot)], &[]).stdout;
    let line = "Volumes: $0.00 a month for 1 new node, without 1 node whose volumes have the size of a snapshot";
    assert!(unknown.contains(line), "{unknown}");
}

#[test]
fn pods_of_other_kinds_are_planned_with_the_option_that_a_note_names() {
    let template = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } });
    let fleet = json!({
        "apiVersion": "example.com/v1", "kind": "Fleet", "metadata": { "name": "f" },
        "spec": { "replicas": 3, "template": template },
    });
    let objects = [fleet, pool(&json!({})), class(&json!({}))];
    let without = planned(&objects, &[]);
    assert!(
        without.stderr.contains("warning: not planned, though pods would be created: Fleet default/f\n")
            && without
                .stderr
                .contains("note: they are planned with --pod-template 'Fleet.example.com=spec.template'\n"),
        "{without:?}"
    );
    let with = planned(&objects, &["--pod-template", "Fleet.example.com=spec.template"]);
    assert!(with.code == Some(0) && with.stdout.contains("Of 3 pods: 3 on new nodes"), "{with:?}");
    let wrong = planned(&objects, &["--pod-template", "fleets"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("write KIND.GROUP=PATH, such as"), "{wrong:?}");
}
