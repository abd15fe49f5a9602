//! `--capacity-reservations`: plans with the reservations of an account.

use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

/// A NodePool that may use reservations which the tag `team: search` selects, and pending pods, one for each m5.large.
fn cluster(pods: usize, pinned: bool) -> Objects {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    let terms = json!({ "capacityReservationSelectorTerms": [{ "tags": { "team": "search" } }] });
    let mut objects = Objects(vec![
        node_pool_manifest("default", &requirements, &json!({})),
        ec2_node_class_manifest("default", "example", &terms),
    ]);
    for index in 0..pods {
        objects.pod(&format!("web-{index}"), None, "1500m");
        if pinned {
            let pod = objects.0.last_mut().unwrap();
            pod["spec"]["nodeSelector"] = json!({ "karpenter.sh/capacity-type": "reserved" });
        }
    }
    objects
}

fn reservation(id: &str, available: u32) -> Value {
    json!({
        "CapacityReservationId": id, "OwnerId": "111122223333", "InstanceType": "m5.large", "AvailabilityZone": "us-east-1b",
        "TotalInstanceCount": 10, "AvailableInstanceCount": available, "State": "active", "InstanceMatchCriteria": "targeted",
        "Tags": [{ "Key": "team", "Value": "search" }],
    })
}

fn export(folder: &Folder, reservations: &[Value]) -> String {
    let path = folder.path().join("reservations.json");
    fs::write(&path, json!({ "CapacityReservations": reservations }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(objects: &Objects, arguments: &[&str]) -> Ended {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 });
    let mut command = nodeless();
    command.args(["plan", "--cluster", "-", "-o", "json"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// How many launches of a plan have each capacity type, and the pods that it does not place.
fn outcome(ended: &Ended) -> (usize, usize, usize) {
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    let launches = plan["launches"].as_array().unwrap();
    let of = |kind: &str| launches.iter().filter(|launch| launch["offering"]["capacityType"] == kind).count();
    (of("reserved"), of("on-demand"), plan["unschedulable"].as_array().unwrap().len())
}

#[test]
fn nodes_are_planned_in_the_available_instances_of_a_reservation_and_then_elsewhere() {
    let folder = Folder::new();
    let file = export(&folder, &[reservation("cr-1", 2)]);
    let with = ["--capacity-reservations", &file];
    let without = run(&cluster(5, false), &[]);
    assert_eq!(outcome(&without), (0, 5, 0), "without the file, reservations count as full");
    assert!(without.stderr.contains("--capacity-reservations"), "{}", without.stderr);
    assert_eq!(outcome(&run(&cluster(5, false), &with)), (2, 3, 0));
    assert_eq!(outcome(&run(&cluster(5, true), &with)), (2, 0, 3), "pods that require reserved capacity get no other");
}

#[test]
fn a_class_that_selects_nothing_and_a_file_of_another_command_are_named() {
    let folder = Folder::new();
    let mut other = reservation("cr-1", 2);
    other["Tags"] = json!([]);
    let file = export(&folder, &[other]);
    let ended = run(&cluster(1, false), &["--capacity-reservations", &file]);
    assert_eq!(outcome(&ended), (0, 1, 0));
    assert!(ended.stderr.contains("EC2NodeClass default selects no active capacity reservation"), "{}", ended.stderr);

    fs::write(folder.path().join("reservations.json"), r#"{"Reservations": []}"#).unwrap();
    let ended = run(&cluster(1, false), &["--capacity-reservations", &file]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("aws ec2 describe-capacity-reservations"), "{}", ended.stderr);
}

#[test]
fn what_if_uses_the_reservations_too() {
    let folder = Folder::new();
    let file = export(&folder, &[reservation("cr-1", 2)]);
    let cost = |arguments: &[&str]| {
        let ended = run(&cluster(5, false), &[&["--what-if"], arguments].concat());
        let compared: Value = serde_json::from_str(&ended.stdout).unwrap();
        compared["alternatives"][0]["dollarsPerMonth"].as_f64().unwrap_or_else(|| panic!("{compared:#}"))
    };
    let (without, with) = (cost(&[]), cost(&["--capacity-reservations", &file]));
    assert!((with / without - 0.6).abs() < 0.01, "two of five nodes are paid for already: {with} of {without}");
}

/// A drifted node with a pod in a reservation, and a NodePool that allows only reserved capacity.
fn drifted() -> Objects {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"] },
        { "key": "team", "operator": "In", "values": ["new"] },
    ]);
    let terms = json!({ "capacityReservationSelectorTerms": [{ "tags": { "team": "search" } }] });
    let mut objects = Objects(vec![
        node_pool_manifest("default", &requirements, &json!({})),
        ec2_node_class_manifest("default", "example", &terms),
    ]);
    let node = objects.node("n0", "m5.large", "reserved");
    let labels = &mut node["metadata"]["labels"];
    labels["team"] = json!("old");
    labels["topology.kubernetes.io/zone"] = json!("us-east-1b");
    labels["karpenter.k8s.aws/capacity-reservation-id"] = json!("cr-1");
    let amounts = json!({ "cpu": "1930m", "memory": "7000Mi", "pods": "29" });
    (node["status"]["allocatable"], node["status"]["capacity"]) = (amounts.clone(), amounts);
    objects.pod("web", Some("n0"), "1200m");
    objects
}

#[test]
fn a_drifted_node_in_a_full_reservation_is_terminated_first_where_the_node_pool_asks_for_it() {
    let folder = Folder::new();
    let with_instances = |total: u32| {
        let mut full = reservation("cr-1", 0);
        full["TotalInstanceCount"] = json!(total);
        export(&folder, &[full])
    };
    let plan = |objects: &Objects, total: u32| -> Value {
        let file = with_instances(total);
        let ended = run(objects, &["--disruption", "--at", "2026-01-10T12:00:00Z", "--capacity-reservations", &file]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let stays = |plan: &Value, part: &str| {
        let kept = plan["kept"][0]["reasons"].to_string();
        assert!(plan["commands"] == json!([]) && kept.contains(part), "{part}: {plan:#}");
    };
    let mut objects = drifted();
    stays(&plan(&objects, 1), "set the annotation nodeless.sh/terminate-first: drift on NodePool default");
    objects.pool()["metadata"]["annotations"] = json!({ "nodeless.sh/terminate-first": "drift" });
    let decided = plan(&objects, 1);
    let command = &decided["commands"][0];
    assert_eq!((&command["nodes"], &command["drainsFirst"]), (&json!(["n0"]), &json!(true)), "{decided:#}");
    assert_eq!(command["replacements"], json!([]));
    stays(&plan(&objects, 2), "others could take its place");
    objects.budget("web", "web", 0);
    stays(&plan(&objects, 1), "PodDisruptionBudget default/web");
}
