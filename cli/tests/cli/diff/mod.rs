//! `nodeless plan --diff`: what a change of manifests does to nodes, costs and pods.

mod charts;
mod cluster;
mod fields;
mod input;
mod markdown;
mod properties;

use crate::support::{Ended, Folder, nodeless, run};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A NodePool of on-demand instances of amd64 with four vCPUs, each of which runs one pod of three.
fn pool(name: &str, more: &[Value]) -> Value {
    let mut requirements = vec![
        json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }),
        json!({ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }),
        json!({ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"] }),
        json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"] }),
    ];
    requirements.extend(more.iter().cloned());
    node_pool_manifest(name, &json!(requirements), &json!({}))
}

/// A Deployment with these replicas, each with the CPU.
fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    let template = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }] },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": template },
    })
}

/// A NodePool with its EC2NodeClass, and these objects.
fn set(more: &[Value]) -> Vec<Value> {
    let mut all = vec![pool("default", &[]), ec2_node_class_manifest("default", "example", &json!({}))];
    all.extend(more.iter().cloned());
    all
}

/// A directory with a set of manifests, and one below it.
fn written(folder: &Folder, name: &str, manifests: &[Value]) -> PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.join("charts/web")).unwrap();
    let (first, others) = manifests.split_at(manifests.len().min(1));
    for (file, part) in [("pool.json", first), ("charts/web/others.json", others)] {
        fs::write(path.join(file), json!({ "apiVersion": "v1", "kind": "List", "items": part }).to_string()).unwrap();
    }
    path
}

/// Compares two sets.
fn ended(folder: &Folder, [base, head]: [&[Value]; 2], arguments: &[&str]) -> Ended {
    let paths = [written(folder, "base", base), written(folder, "head", head)];
    between([&paths[0], &paths[1]], arguments)
}

fn between(paths: [&Path; 2], arguments: &[&str]) -> Ended {
    run(nodeless().args(["plan", "--diff"]).args(paths).args(arguments))
}

/// Compares two sets, expects this exit code, and returns the comparison.
fn compared(code: i32, sets: [&[Value]; 2], arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let ended = ended(&folder, sets, &[&["-o", "json"], arguments].concat());
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn dollars(report: &Value) -> i64 {
    report["difference"]["dollarsPerMonth"].as_i64().unwrap()
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn more_replicas_are_more_nodes_and_dollars() {
    let (base, head) = (set(&[deployment("web", 2, "3")]), set(&[deployment("web", 5, "3")]));
    let report = compared(0, [&base, &head], &[]);
    assert_eq!(report["headline"], format!("+3 nodes, +${} a month", dollars(&report)), "{report:#}");
    assert_eq!((&report["before"]["nodes"], &report["after"]["nodes"]), (&json!(2), &json!(5)));
    // Nodes of c5.xlarge cost $0.17 an hour, and each sum is rounded.
    let month = |nodes: f64| (nodes * 0.17 * 730.0).round() as i64;
    assert_eq!(dollars(&report), month(5.0) - month(2.0));
    let changed = &report["objects"]["changed"];
    assert_eq!(
        changed[0],
        json!({ "kind": "Deployment", "namespace": "default", "name": "web", "pods": 5, "podsBefore": 2, "fields": ["spec.replicas"] })
    );
    assert_eq!((report["objects"]["added"].clone(), report["region"].clone()), (json!([]), json!("us-east-1")));
    let row = &report["groups"][0];
    assert_eq!((&row["nodePool"], &row["instanceType"]), (&json!("default"), &json!("c5.xlarge")));
    assert_eq!((&row["before"]["nodes"], &row["after"]["nodes"]), (&json!(2), &json!(5)));
    let shown = ended(&Folder::new(), [&base, &head], &[]).stdout;
    assert!(shown.contains("  changed Deployment default/web: 2 to 5 pods; spec.replicas\n"), "{shown}");
    assert!(shown.contains("Prices: us-east-1, on-demand prices of "), "{shown}");
}

#[test]
fn objects_are_added_and_removed_with_their_pods() {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "maxUnavailable": 1, "selector": {} },
    });
    let base = set(&[deployment("web", 2, "1"), budget]);
    let mut image = deployment("web", 2, "1");
    image["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    let head = set(&[deployment("api", 3, "1"), image]);
    let report = compared(0, [&base, &head], &[]);
    let objects = &report["objects"];
    assert_eq!(
        (names(&objects["added"]), names(&objects["removed"])),
        (vec!["api".to_owned()], vec!["web".to_owned()])
    );
    assert_eq!((&objects["added"][0]["pods"], &objects["removed"][0]["namespace"]), (&json!(3), &json!("shop")));
    assert_eq!(objects["changed"][0]["fields"], json!(["spec.template.spec.containers[0].image"]));
    assert!(dollars(&report) > 0);
}

#[test]
fn a_pod_that_becomes_unschedulable_is_explained_with_remedies() {
    let mut big = deployment("web", 2, "1");
    big["spec"]["template"]["spec"]["nodeSelector"] = json!({ "karpenter.k8s.aws/instance-family": "r5" });
    let (base, head) = (set(&[deployment("web", 2, "1")]), set(&[big]));
    let report = compared(2, [&base, &head], &[]);
    let refused = &report["becomeUnschedulable"];
    assert_eq!((&refused[0]["pod"], &refused[1]["pod"]), (&json!("default/web-0"), &json!("default/web-1")));
    assert!(refused[0]["reasons"][0].as_str().unwrap().contains("karpenter.k8s.aws/instance-family"), "{refused:#}");
    assert!(!refused[0]["remedies"].as_array().unwrap().is_empty(), "{refused:#}");
    let headline = report["headline"].as_str().unwrap();
    assert!(headline.ends_with("; 2 pods become unschedulable"), "{headline}");
    let shown = ended(&Folder::new(), [&base, &head], &[]);
    assert!(
        shown.stdout.contains("  default/web-0, default/web-1\n") && shown.stdout.contains("    to schedule: "),
        "{shown:?}"
    );
    assert!(
        shown.stdout.contains("The costs include no nodes for unschedulable pods: 0 before, 2 after."),
        "{shown:?}"
    );

    // What is unschedulable in both is no change, and what becomes schedulable is none that fails.
    assert_eq!(compared(0, [&head, &head], &[])["headline"], "no change of nodes");
    let back = compared(0, [&head, &base], &[]);
    assert_eq!(back["becomeSchedulable"], json!(["default/web-0", "default/web-1"]));
    let removed = compared(0, [&head, &set(&[])], &[]);
    assert_eq!(removed["removedUnschedulable"], json!(["default/web-0", "default/web-1"]));
}

#[test]
fn an_increase_over_the_limit_has_an_exit_code_of_its_own() {
    let (base, head) = (set(&[deployment("web", 2, "3")]), set(&[deployment("web", 5, "3")]));
    let increase = dollars(&compared(0, [&base, &head], &[]));
    for (limit, code) in [(increase, 0), (increase - 1, 3), (0, 3)] {
        let report = compared(code, [&base, &head], &["--max-increase", &limit.to_string()]);
        assert_eq!(report["exceedsLimit"], json!(code == 3), "{limit}");
        let headline = report["headline"].as_str().unwrap();
        assert_eq!(headline.ends_with(&format!("; the increase is more than the limit of ${limit}")), code == 3);
    }
    assert_eq!(compared(0, [&head, &base], &["--max-increase", "0"])["exceedsLimit"], json!(false));
    // Pods that are unschedulable are more urgent.
    let head = set(&[deployment("web", 5, "3"), deployment("huge", 1, "5000")]);
    compared(2, [&base, &head], &["--max-increase", "0"]);
}

#[test]
fn replicas_of_static_node_pools_are_nodes() {
    let fixed = |replicas: u32| {
        let mut fixed = pool(
            "fixed",
            &[json!({ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"] })],
        );
        fixed["spec"]["replicas"] = json!(replicas);
        set(&[fixed])
    };
    let report = compared(0, [&fixed(1), &fixed(4)], &[]);
    assert_eq!(
        (&report["difference"]["nodes"], dollars(&report)),
        (&json!(3), (4.0_f64 * 0.192 * 730.0).round() as i64 - 140)
    );
    assert_eq!(report["objects"]["changed"][0]["fields"], json!(["spec.replicas"]));
}

#[test]
fn another_node_pool_changes_the_groups() {
    let cheap = [json!({ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c5"] })];
    let web = deployment("web", 4, "3");
    let (base, mut head) = (set(std::slice::from_ref(&web)), set(&[web]));
    head[0] = pool("cheap", &cheap);
    let report = compared(0, [&base, &head], &[]);
    assert_eq!(report["headline"], "the same number of nodes at the same cost");
    let objects = &report["objects"];
    assert_eq!(
        (names(&objects["added"]), names(&objects["removed"])),
        (vec!["cheap".to_owned()], vec!["default".to_owned()])
    );
    assert_eq!(report["groups"].as_array().unwrap().len(), 2, "{report:#}");
}

#[test]
fn nothing_is_a_set_too() {
    let folder = Folder::new();
    let head = written(&folder, "head", &set(&[deployment("web", 1, "1")]));
    let ended = between([Path::new("/dev/null"), &head], &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("note: BASE has no object that planning uses"), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["before"]["nodes"], &report["after"]["nodes"]), (&json!(0), &json!(1)));
}

#[test]
fn the_region_is_that_of_the_objects_or_as_given() {
    let zone = |zone: &str| {
        pool("default", &[json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] })])
    };
    let with = |name: &str| {
        let mut set = set(&[deployment("web", 1, "1")]);
        set[0] = zone(name);
        set
    };
    let of = |sets: [&[Value]; 2], arguments: &[&str]| compared(0, sets, arguments)["region"].clone();
    let here = with("eu-central-1a");
    assert_eq!(of([&here, &here], &[]), "eu-central-1");
    assert_eq!(of([&set(&[]), &set(&[])], &["--region", "eu-west-1"]), "eu-west-1");
    let folder = Folder::new();
    let shown = ended(&folder, [&here, &here], &["-o", "markdown"]).stdout;
    assert!(
        shown.contains("Prices of `eu-central-1`.") && shown.contains("Prices: eu-central-1, on-demand prices of "),
        "{shown}"
    );
}

#[test]
fn pods_of_jobs_count_and_that_is_stated() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "report" },
        "spec": { "schedule": "0 * * * *", "jobTemplate": { "spec": { "template": deployment("report", 1, "1")["spec"]["template"] } } },
    });
    let report = compared(0, [&set(&[]), &set(&[job])], &[]);
    assert!(dollars(&report) > 0);
    assert!(
        report["assumptions"].to_string().contains("Pods of Jobs and CronJobs count as if they always ran."),
        "{report:#}"
    );
}
