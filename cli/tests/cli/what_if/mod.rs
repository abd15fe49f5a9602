//! `nodeless plan --what-if`: what a cluster costs, and what it would cost otherwise.

mod moved;

use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_catalog::{Catalog, Location};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

/// The hours of a month.
const HOURS: f64 = 730.0;

/// A NodePool of on-demand instances of amd64.
fn pool(name: &str, more: &[Value]) -> Value {
    let mut requirements = vec![
        json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }),
        json!({ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }),
        json!({ "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] }),
    ];
    requirements.extend(more.iter().cloned());
    let disruption = json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m" });
    node_pool_manifest(name, &json!(requirements), &json!({ "disruption": disruption }))
}

/// The cluster without nodes.
fn empty() -> Objects {
    Objects(vec![pool("default", &[]), ec2_node_class_manifest("default", "example", &json!({}))])
}

/// A node of the NodePool, with the resources that EKS reports.
fn node(objects: &mut Objects, name: &str, zone: &str) {
    let node = objects.node(name, "m5.2xlarge", "on-demand");
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
    let amounts = json!({ "cpu": "7910m", "memory": "30500Mi", "pods": "58" });
    (node["status"]["allocatable"], node["status"]["capacity"]) = (amounts.clone(), amounts);
}

/// Twelve nodes that are 29% full. The four pods of a database may not be evicted.
fn example() -> Objects {
    let mut objects = empty();
    for index in 0..12 {
        let name = format!("ip-10-0-0-{index}.ec2.internal");
        node(&mut objects, &name, ["us-east-1a", "us-east-1b", "us-east-1c"][index % 3]);
        for pod in 0..4 {
            owned(objects.pod(&format!("web-{}", index * 4 + pod), Some(&name), "500m"), "web");
        }
        if index < 4 {
            owned(objects.pod(&format!("db-{index}"), Some(&name), "1"), "db");
        }
    }
    objects.budget("db", "db", 0);
    objects
}

/// Makes a pod one of a Deployment.
fn owned(pod: &mut Value, app: &str) {
    pod["metadata"]["labels"] = json!({ "app": app });
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7d9f"), "uid": "1", "controller": true }]);
}

fn run(objects: &Objects, arguments: &[&str]) -> Ended {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 });
    let mut command = nodeless();
    command.args(["plan", "--what-if", "--cluster", "-"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn text(objects: &Objects, arguments: &[&str]) -> String {
    let ended = run(objects, arguments);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

fn compared(objects: &Objects, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(objects, &[&["-o", "json"], arguments].concat())).unwrap()
}

/// The alternative of this kind.
fn alternative<'v>(report: &'v Value, kind: &str) -> &'v Value {
    let all = report["alternatives"].as_array().unwrap();
    all.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {report:#}"))
}

/// A file with manifests.
fn written(folder: &Folder, name: &str, manifests: &[Value]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, json!({ "apiVersion": "v1", "kind": "List", "items": manifests }).to_string()).unwrap();
    path
}

fn dollars(value: &Value) -> i64 {
    value["dollarsPerMonth"].as_i64().unwrap_or_else(|| panic!("{value:#}"))
}

#[test]
fn a_cluster_that_is_a_third_full_costs_less_repacked() {
    let report = compared(&example(), &[]);
    let today = &report["today"];
    assert_eq!((today["nodes"].as_u64(), dollars(today)), (Some(12), (12.0 * 0.384 * HOURS).round() as i64));
    let full = today["requested"]["cpu"].as_f64().unwrap();
    assert!((0.29..0.31).contains(&full), "{full}");

    let repacked = alternative(&report, "repacked");
    let difference = &repacked["difference"];
    assert_eq!(difference["kind"], "exact");
    assert_eq!(dollars(difference), dollars(repacked) - dollars(today));
    assert!(difference["percent"].as_f64().unwrap() < -50.0, "{difference}");
    assert!(repacked["requested"]["cpu"].as_f64().unwrap() > 0.8, "{repacked:#}");
    let change = &repacked["changes"][0];
    assert_eq!(change["removed"][0]["nodes"], 12);
    assert_eq!(change["removed"][0]["instanceType"], "m5.2xlarge");

    let (arm64, spot) = (alternative(&report, "arm64"), alternative(&report, "spot"));
    assert_eq!((&arm64["widened"], &spot["widened"]), (&json!(["default"]), &json!(["default"])));
    assert!(dollars(arm64) < dollars(repacked) && dollars(spot) < dollars(repacked), "{report:#}");
    let shown = text(&example(), &[]);
    assert!(shown.contains("NodePool default: 12 m5.2xlarge on-demand, 29% full, become "), "{shown}");
    assert!(shown.contains("images have to be multi-architecture"), "{shown}");
    assert!(shown.contains("spot prices are synthetic"), "{shown}");
    assert!(shown.contains("the EKS control plane, volumes, traffic"), "{shown}");
}

#[test]
fn a_budget_that_blocks_disruption_is_named_with_what_it_costs() {
    let report = compared(&example(), &[]);
    let repacked = alternative(&report, "repacked");
    let blocked = &repacked["blocked"];
    assert_eq!(blocked["nodes"].as_array().unwrap().len(), 4, "{blocked:#}");
    assert_eq!(blocked["causes"], json!([{ "why": "PodDisruptionBudget default/db allows no eviction", "nodes": 4 }]));
    assert!(dollars(blocked) > dollars(repacked), "{blocked:#}");
    assert!(dollars(blocked) >= (4.0 * 0.384 * HOURS).round() as i64, "{blocked:#}");

    let mut open = example();
    open.0.last_mut().unwrap()["spec"]["maxUnavailable"] = json!(1);
    assert_eq!(alternative(&compared(&open, &[]), "repacked")["blocked"], Value::Null);
}

#[test]
fn nodes_of_unknown_price_are_named_and_in_no_sum() {
    let mut objects = example();
    let before = compared(&objects, &[]);
    objects.node("strange", "x99.mega", "on-demand")["status"]["allocatable"] =
        json!({ "cpu": "8", "memory": "30Gi", "pods": "58" });
    let report = compared(&objects, &[]);
    assert_eq!(report["today"]["withoutPrice"], json!([{ "node": "strange", "instanceType": "x99.mega" }]));
    assert_eq!(dollars(&report["today"]), dollars(&before["today"]));
    let difference = &alternative(&report, "repacked")["difference"];
    assert_eq!(difference["kind"], "atMost", "{difference}");
    let shown = text(&objects, &[]);
    assert!(shown.contains("The price of 1 node is unknown and in no sum: strange (x99.mega)."), "{shown}");

    // In every alternative, a node that no NodePool manages costs the same as today.
    objects.0.last_mut().unwrap()["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    let report = compared(&objects, &[]);
    let difference = &alternative(&report, "repacked")["difference"];
    assert_eq!((&difference["kind"], &difference["percent"]), (&json!("exact"), &Value::Null));
    assert_eq!(alternative(&report, "repacked")["withoutPrice"], report["today"]["withoutPrice"]);
}

#[test]
fn an_empty_cluster_costs_nothing() {
    let report = compared(&empty(), &[]);
    for one in std::iter::once(&report["today"]).chain(report["alternatives"].as_array().unwrap()) {
        assert_eq!((one["nodes"].as_u64(), dollars(one)), (Some(0), 0), "{one:#}");
        assert_eq!(one["requested"], json!({ "cpu": null, "memory": null }));
    }
    assert_eq!(
        alternative(&report, "repacked")["difference"],
        json!({ "kind": "exact", "dollarsPerMonth": 0, "percent": null })
    );
}

#[test]
fn an_alternative_that_leaves_pods_without_a_node_is_no_saving() {
    let folder = Folder::new();
    let small =
        pool("default", &[json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["1"] })]);
    let path = written(&folder, "small.yaml", &[small]);
    let report = compared(&example(), &["--if", path.to_str().unwrap()]);
    let manifests = alternative(&report, "manifests");
    let lost: Vec<&str> =
        manifests["podsWithoutNode"].as_array().unwrap().iter().map(|one| one["pod"].as_str().unwrap()).collect();
    assert_eq!(lost, ["default/db-0", "default/db-1", "default/db-2", "default/db-3"]);
    assert!(dollars(manifests) < dollars(&report["today"]));
    assert_eq!(manifests["difference"]["kind"], "unknown", "{:#}", manifests["difference"]);
    let shown = text(&example(), &["--if", path.to_str().unwrap()]);
    let row = shown.lines().find(|line| line.starts_with("with ") && line.contains("small.yaml")).unwrap();
    assert!(row.contains("no comparison") && !row.contains("-$"), "{row}");
    assert!(shown.contains("4 pods would be unschedulable: default/db-0, "), "{shown}");
}

#[test]
fn a_pending_pod_is_in_every_alternative_and_is_not_lost() {
    let mut objects = example();
    objects.pod("waits", None, "2");
    objects.pod("huge", None, "5000");
    let report = compared(&objects, &[]);
    assert_eq!(report["today"]["podsWithoutNode"].as_array().unwrap().len(), 2);
    let repacked = alternative(&report, "repacked");
    assert_eq!(repacked["podsWithoutNode"][0]["pod"], "default/huge");
    assert_eq!(repacked["difference"]["kind"], "exact");
    let shown = text(&objects, &[]);
    assert!(shown.contains("1 pending pod of today gets a node, and the price includes it: default/waits"), "{shown}");
}

#[test]
fn a_cluster_of_another_region_has_the_prices_of_that_region() {
    let mut objects = empty();
    for (name, zone) in [("one", "eu-central-1a"), ("two", "eu-central-1b")] {
        node(&mut objects, name, zone);
        objects.pod(&format!("on-{name}"), Some(name), "1");
    }
    let report = compared(&objects, &[]);
    let price = 0.46;
    assert_eq!(dollars(&report["today"]), (2.0 * price * HOURS).round() as i64);
    assert!(dollars(&alternative(&report, "repacked")["difference"]) < 0);
    let assumptions = report["assumptions"].to_string();
    assert!(assumptions.contains("Prices: eu-central-1, on-demand prices of"), "{assumptions}");
}

/// `nodeless view` and `nodeless report` have the same price for a node without a recorded one.
#[test]
fn today_is_the_sum_of_the_prices_of_the_nodes() {
    let catalog = Catalog::synthetic(1, &Location::default().facts(None).unwrap());
    let types = ["m5.large", "c5.xlarge", "r6g.2xlarge", "x99.mega", "t3.medium", "m7i.4xlarge"];
    let zones = ["us-east-1a", "us-east-1b", "us-east-1c", "eu-west-1a"];
    for seed in 1..=6_usize {
        let mut objects = empty();
        let (mut sum, mut unknown) = (0.0, 0);
        for index in 0..10 * seed {
            let draw = (seed * 7919 + index * 104_729) / 13;
            let (kind, zone) = (types[draw % types.len()], zones[(draw / 7) % zones.len()]);
            let bought = if draw % 3 == 0 { "spot" } else { "on-demand" };
            let node = objects.node(&format!("node-{index}"), kind, bought);
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
            if draw % 5 == 0 {
                node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
            }
            let labels = serde_json::from_value(node["metadata"]["labels"].clone()).unwrap();
            match catalog.node_price(&labels) {
                Some(price) => sum += price,
                None => unknown += 1,
            }
        }
        let report = compared(&objects, &["--region", "us-east-1"]);
        let price = report["today"]["pricePerHour"].as_f64().unwrap();
        assert!((price - sum).abs() < 1e-6, "seed {seed}: {price} and {sum}");
        assert_eq!(report["today"]["withoutPrice"].as_array().unwrap().len(), unknown, "seed {seed}");
        assert_eq!(dollars(&report["today"]), (sum * HOURS).round() as i64);
    }
}

#[test]
fn manifests_replace_and_add_objects_by_name() {
    let folder = Folder::new();
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } }] },
    });
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 4, "template": template },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "db" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    });
    let cheap =
        pool("cheap", &[json!({ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c5"] })]);
    let fewer = written(&folder, "fewer.yaml", &[web, budget]);
    let added = written(&folder, "added.yaml", &[cheap]);
    let report = compared(&example(), &["--if", fewer.to_str().unwrap(), "--if", added.to_str().unwrap()]);
    let all = report["alternatives"].as_array().unwrap();
    let (repacked, fewer, added) = (&all[0], &all[3], &all[4]);
    assert!(fewer["file"].as_str().unwrap().ends_with("fewer.yaml"));
    assert!(2 * dollars(fewer) < dollars(repacked), "four pods in place of 48: {fewer:#}");
    assert_eq!((&fewer["blocked"], &fewer["difference"]["kind"]), (&Value::Null, &json!("exact")));
    assert!(dollars(added) <= dollars(repacked), "another NodePool is one more choice");
    assert_eq!(added["blocked"]["nodes"], repacked["blocked"]["nodes"]);
}

#[test]
fn nodes_of_no_node_pool_stay() {
    let mut objects = example();
    objects.node("own", "m5.2xlarge", "on-demand")["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("karpenter.sh/nodepool");
    let report = compared(&objects, &[]);
    let groups = alternative(&report, "repacked")["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["nodePool"].is_null() && group["nodes"] == 1), "{groups:#?}");
    let shown = text(&objects, &[]);
    assert!(shown.contains("1 node of no NodePool or of a static NodePool stays in every alternative"), "{shown}");
}

#[test]
fn combinations_without_a_meaning_are_refused() {
    let folder = Folder::new();
    let node =
        written(&folder, "node.yaml", &[json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } })]);
    let other = written(
        &folder,
        "other.yaml",
        &[json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" } })],
    );
    for (arguments, expected) in [
        (
            vec!["--if", node.to_str().unwrap()],
            "Nodes, NodeClaims and Pods are those of --cluster in every alternative",
        ),
        (vec!["--if", other.to_str().unwrap()], "it has no object that changes the plan"),
        (vec!["--disruption"], "'--what-if' cannot be used with '--disruption'"),
        (vec!["--explain", "a/b"], "cannot be used with"),
        (vec!["--zonal-shift", "us-east-1a"], "cannot be used with"),
    ] {
        let ended = run(&empty(), &arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
    let without = crate::support::run(nodeless().args(["plan", "--cluster", "-", "--if", "file"]));
    assert!(without.code == Some(1) && without.stderr.contains("--what-if"), "{}", without.stderr);
}

#[test]
fn the_page_has_the_same_figures() {
    let folder = Folder::new();
    let path = folder.path().join("page.html");
    let shown = text(&example(), &["--html", path.to_str().unwrap()]);
    let page = fs::read_to_string(path).unwrap();
    let row = shown.lines().find(|line| line.starts_with("repacked ")).unwrap();
    for cell in row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()) {
        assert!(page.contains(&format!("<td>{cell}</td>")), "{cell}: {page}");
    }
    assert!(page.contains("PodDisruptionBudget default/db allows no eviction"), "{page}");
    assert!(page.contains("the EKS control plane, volumes, traffic") && !page.contains("<script"), "{page}");
    let refused = run(&example(), &["--html", "/no/such/folder/page.html"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("/no/such/folder/page.html cannot be written"));
    let plan = crate::support::run(nodeless().args(["plan", "--cluster", "-", "--html", "page.html"]));
    assert!(plan.code == Some(1) && plan.stderr.contains("--what-if"), "{}", plan.stderr);
}

#[test]
fn the_documented_example_is_what_is_printed() {
    let page = fs::read_to_string(nodeless_tests::workspace().join("docs/what-if.md")).unwrap();
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let documented = blocks.iter().find_map(|block| block.strip_prefix("text\n")).unwrap();
    assert_eq!(documented, text(&example(), &[]), "docs/what-if.md has another output");
}
