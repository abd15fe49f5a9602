//! `nodeless plan --disruption --explain`: why nodes stay.

use crate::support::objects::{LATEST, Objects, kept};
use serde_json::{Value, json};

#[test]
fn every_other_node_has_the_exact_reason() {
    let mut objects = Objects::new();
    objects.pool()["spec"]["disruption"]["consolidateAfter"] = json!("30m");
    for name in ["guarded", "twice", "kept", "fresh"] {
        objects.node(name, "m5.4xlarge", "on-demand");
        objects.pod(name, Some(name), "1");
    }
    objects.budget("strict", "guarded", 0);
    objects.budget("one", "twice", 1);
    objects.budget("two", "twice", 1);
    objects.pod("kept-too", Some("kept"), "1")["metadata"]["annotations"] =
        json!({ "karpenter.sh/do-not-disrupt": "true" });
    objects.pod("young", Some("fresh"), "1")["metadata"]["creationTimestamp"] = json!("2026-01-10T11:45:00Z");
    objects.node("annotated", "c5.large", "on-demand")["metadata"]["annotations"] =
        json!({ "karpenter.sh/do-not-disrupt": "true" });
    objects.node("gone", "c5.large", "on-demand")["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("gone");
    let labels = &mut objects.node("other", "m5.large", "on-demand")["metadata"]["labels"];
    labels.as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    objects.node("tight", "m5.large", "on-demand");
    objects.pod("tight", Some("tight"), "1800m")["spec"]["nodeSelector"] =
        json!({ "node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/capacity-type": "on-demand" });
    objects.pod("other", Some("other"), "1500m");
    let plan = objects.plan(0, &[]);
    assert_eq!(plan["commands"], json!([]), "{plan:#}");
    for (node, why) in [
        ("guarded", "PodDisruptionBudget default/strict allows no eviction of pod default/guarded"),
        (
            "twice",
            "PodDisruptionBudgets default/one and default/two cover pod default/twice, and a pod with several cannot be evicted",
        ),
        ("kept", "pod default/kept-too is annotated karpenter.sh/do-not-disrupt"),
        (
            "fresh",
            "its pods changed less than consolidateAfter (30m) ago; it can be consolidated from 2026-01-10T12:15:00Z",
        ),
        ("annotated", "it is annotated karpenter.sh/do-not-disrupt"),
        ("gone", "its NodePool gone does not exist"),
        ("other", "it is not managed by a NodePool"),
    ] {
        assert_eq!(kept(&plan, node), why, "{node}");
    }
    let tight = kept(&plan, "tight");
    assert!(
        tight.contains("pod default/tight fits on no other node: insufficient cpu on 1, labels or taints on 5"),
        "{tight}"
    );
    assert!(tight.contains("it costs $0.0960/h"), "{tight}");
    assert!(tight.contains("m5.large would cost $0.0960/h, which is no less"), "{tight}");
}

/// The processor time of all child processes that have ended, in seconds.
fn seconds_of_children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

#[test]
#[ignore = "five thousand nodes: for release builds"]
fn five_thousand_nodes_are_explained_within_a_gigabyte() {
    let mut objects = Objects::new();
    objects.pool()["spec"]["disruption"]["consolidateAfter"] = json!("0s");
    for number in 0..5_000 {
        let name = format!("ip-{number}");
        objects.node(&name, ["m5.4xlarge", "c5.4xlarge", "m5.2xlarge", "c5.2xlarge"][number % 4], "on-demand");
        // Every third node is half empty.
        let cpu = match (number % 4 < 2, number % 3 == 0) {
            (true, true) => "380m",
            (true, false) => "700m",
            (false, true) => "180m",
            (false, false) => "330m",
        };
        for pod in 0..20 {
            objects.pod(&format!("web-{number}-{pod}"), Some(&name), cpu);
        }
    }
    let before = seconds_of_children();
    let plan = objects.plan(0, &[]);
    let used = seconds_of_children() - before;
    let disrupted: usize =
        plan["commands"].as_array().unwrap().iter().map(|command| command["nodes"].as_array().unwrap().len()).sum();
    let kept = plan["kept"].as_array().unwrap();
    assert_eq!(disrupted + kept.len(), 5_000);
    assert!(disrupted > 500, "{disrupted} nodes");
    assert!(kept.iter().all(|kept| !kept["reasons"].as_array().unwrap().is_empty()));
    let peak = plan["statistics"]["peakMemoryBytes"].as_u64().unwrap();
    assert!(peak < 1 << 30, "{} MiB", peak >> 20);
    println!("{used:.1} s of processor time, {} MB, {disrupted} nodes disrupted", peak / 1_000_000);
}

#[test]
fn all_reasons_of_a_node_are_listed_and_expired_nodes_receive_no_pods() {
    let mut objects = Objects::new();
    objects.node("wasted", "m5.4xlarge", "on-demand");
    objects.pod("web", Some("wasted"), "500m");
    objects.node("old", "m5.large", "on-demand");
    objects.pod("db", Some("old"), "100m");
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "default-old", "uid": "old", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "karpenter.sh/nodepool": "default" }
        },
        "spec": { "nodeClassRef": { "name": "default" }, "expireAfter": "24h" },
        "status": { "nodeName": "old" }
    });
    objects.0.push(claim);
    objects.node("busy", "m5.large", "on-demand");
    objects.pod("job", Some("busy"), "100m")["metadata"]["creationTimestamp"] = json!(LATEST);
    objects.budget("job", "job", 0);
    let plan = objects.plan(0, &[]);
    assert_eq!(kept(&plan, "old"), "it has reached its expireAfter of 24h, so it is removed");
    assert_eq!(
        kept(&plan, "busy"),
        "PodDisruptionBudget default/job allows no eviction of pod default/job; its pods changed less than consolidateAfter \
         (1m) ago; it can be consolidated from 2026-01-10T12:01:00Z; pod default/db is expected to move to it"
    );
    // The plan is as in the cluster, where the sweep terminates the expired NodeClaim before the next plan.
    let moves = json!({ "pod": "default/db", "node": "busy" });
    assert!(plan["placements"].as_array().unwrap().contains(&moves), "{plan:#}");
    // Neither node receives the pod of the oversized node, so a new node does.
    let command = &plan["commands"][0];
    assert_eq!((&command["nodes"], &command["placements"]), (&json!(["wasted"]), &json!([])), "{plan:#}");
    assert_eq!(command["replacements"].as_array().unwrap().len(), 1);
}

#[test]
fn a_node_is_explained_in_full() {
    let mut objects = Objects::new();
    objects.pool()["spec"]["disruption"]["budgets"] = json!([{ "nodes": "2" }]);
    objects.node("full", "m5.large", "on-demand");
    objects.pod("a", Some("full"), "1700m")["spec"]["nodeSelector"] =
        json!({ "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.large" });
    objects.node("half", "m5.large", "on-demand");
    objects.pod("b", Some("half"), "1");
    objects.budget("b", "b", 0);
    let plan = objects.plan(0, &["--explain", "full", "--explain", "half", "--explain", "default/a"]);
    let [full, half, pod] = plan["explanations"].as_array().unwrap().as_slice() else { panic!("{plan:#}") };
    assert_eq!((&full["node"], &full["outcome"]), (&json!("full"), &json!("stays")));
    assert_eq!((&full["instanceType"], &full["pricePerHour"]), (&json!("m5.large"), &json!(0.096)));
    assert_eq!(full["consolidatable"], "2026-01-02T00:01:00Z");
    let budgets = json!([
        { "reason": "Underutilized", "allowed": 2, "disrupting": 0 },
        { "reason": "Empty", "allowed": 2, "disrupting": 0 },
        { "reason": "Drifted", "allowed": 2, "disrupting": 0 },
    ]);
    let sorted = |value: &Value| {
        let mut all: Vec<String> = value.as_array().unwrap().iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&full["budgets"]), sorted(&budgets));
    assert_eq!(full["elsewhere"]["pod"], "default/a");
    assert_eq!(
        full["elsewhere"]["nodes"],
        json!([{ "node": "half", "why": "insufficient cpu: 1.7 requested, 0.93 free" }])
    );
    assert_eq!(
        half["pods"][0]["blockedBy"],
        json!(["PodDisruptionBudget default/b allows no eviction of pod default/b"])
    );
    assert!(half["events"].to_string().contains("never allows an eviction"), "{half:#}");
    assert_eq!((&pod["pod"], &pod["outcome"]), (&json!("default/a"), &json!("notPending")));

    let none = objects.run(&["--explain", "unknown"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(1), ""));
    assert!(none.stderr.contains("with --disruption the name of a Node or NodeClaim"), "{}", none.stderr);
}
