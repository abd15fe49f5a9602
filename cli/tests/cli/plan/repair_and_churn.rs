//! `nodeless plan --disruption`: node repair and the churn breaker.

use crate::support::objects::{Objects, events, kept};
use serde_json::{Value, json};
use std::fs;

/// More than half an hour before the latest time of the cluster, and less than that.
const LONG_AGO: &str = "2026-01-10T11:20:00Z";
const RECENTLY: &str = "2026-01-10T11:45:00Z";

/// Nodes with a do-not-disrupt pod each, of which the first are not ready since the given times.
fn unhealthy(count: usize, since: &[&str]) -> Objects {
    let mut objects = Objects::new();
    for number in 0..count {
        let name = format!("node-{number}");
        let node = objects.node(&name, "m5.large", "on-demand");
        if let Some(since) = since.get(number) {
            let condition = &mut node["status"]["conditions"][0];
            (condition["status"], condition["lastTransitionTime"]) = (json!("Unknown"), json!(since));
        }
        objects.pod(&format!("pod-{number}"), Some(&name), "1")["metadata"]["annotations"] =
            json!({ "karpenter.sh/do-not-disrupt": "true" });
    }
    objects
}

fn actions(plan: &Value) -> Vec<(&str, &str)> {
    let repairs = plan["repairs"].as_array().unwrap().iter();
    repairs.map(|one| (one["node"].as_str().unwrap(), one["action"].as_str().unwrap())).collect()
}

#[test]
fn unhealthy_nodes_are_repaired_when_they_are_due_and_the_gate_is_on() {
    let objects = unhealthy(10, &[LONG_AGO, RECENTLY]);
    let gates = ["--feature-gates", "NodeRepair=true"];
    let plan = objects.plan(0, &gates);
    assert_eq!(actions(&plan), [("node-0", "repair"), ("node-1", "wait")]);
    assert_eq!(plan["repairs"][1]["due"], "2026-01-10T12:15:00Z");
    assert_eq!(plan["repairs"][0]["drainWithin"], "10m");
    let [command] = plan["commands"].as_array().unwrap().as_slice() else { panic!("{plan:#}") };
    assert_eq!((&command["method"], &command["nodes"]), (&json!("Repair"), &json!(["node-0"])));
    assert_eq!(command["replacements"].as_array().unwrap().len(), 1, "its pod gets a node first: {command:#}");

    let off = objects.plan(0, &[]);
    assert_eq!(actions(&off), [("node-0", "off"), ("node-1", "off")]);
    assert_eq!(off["commands"], json!([]));

    let text = objects.run(&gates).stdout;
    for line in [
        "2 nodes are unhealthy",
        "; it is repaired: its pods get other nodes first, and its drain ends by force after 10m",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let explained = objects.run(&[&gates[..], &["--explain", "node-1"]].concat()).stdout;
    let health = "  health          its condition Ready has been Unknown since 2026-01-10T11:45:00Z; it is repaired if it is still unhealthy at \
                  2026-01-10T12:15:00Z";
    assert!(explained.contains(health), "{explained}");
}

#[test]
fn nothing_is_repaired_while_too_many_nodes_are_unhealthy() {
    let objects = unhealthy(10, &[LONG_AGO, RECENTLY, RECENTLY]);
    let plan = objects.plan(0, &["--feature-gates", "NodeRepair=true"]);
    assert_eq!(actions(&plan)[0], ("node-0", "blocked"));
    let blocked = "3 of 10 nodes of NodePool default are unhealthy, more than 20%: none is repaired";
    assert_eq!(plan["repairs"][0]["blocked"], blocked);
    for (kind, name) in [("Node", "node-0"), ("NodePool", "default")] {
        assert!(events(&plan, kind, name).contains(&format!("NodeRepairBlocked: {blocked}")), "{kind}");
    }
    assert_eq!(plan["commands"], json!([]));
    let off = objects.plan(0, &[]);
    assert!(!events(&off, "NodePool", "default").contains("NodeRepairBlocked"), "the event requires the feature gate");
}

#[test]
fn an_unreadable_node_blocks_repair() {
    let mut objects = unhealthy(10, &[LONG_AGO]);
    objects.node("odd", "m5.large", "on-demand")["status"]["allocatable"] = json!({ "cpu": "many" });
    let ended = objects.run(&["--feature-gates", "NodeRepair=true"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("warning: no node is repaired: Node odd: "), "{}", ended.stderr);
    assert!(!ended.stdout.contains("it is repaired"), "{}", ended.stdout);
}

/// A node that is much larger than its pods need.
fn oversized(pods: usize) -> Objects {
    let mut objects = Objects::new();
    objects.node("wasted", "m5.8xlarge", "on-demand");
    for number in 0..pods {
        objects.pod(&format!("web-{number}"), Some("wasted"), "100m");
    }
    objects
}

/// Writes an item of the claims table to a file, as `aws dynamodb query` prints it.
fn table(name: &str, entries: &Value) -> String {
    let record = json!({ "entries": entries }).to_string();
    let item = json!({
        "pk": { "S": "prod" }, "sk": { "S": "churn#default" }, "version": { "N": "3" }, "expires": { "N": "1768050000" },
        "record": { "S": record }
    });
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, json!({ "Items": [item], "Count": 1, "ScannedCount": 1 }).to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn the_churn_breaker_stops_evictions_that_do_not_lower_the_price() {
    let objects = oversized(2);
    let unknown = objects.run(&["-o", "json"]);
    assert!(unknown.stderr.contains("only the claims table stores"), "{}", unknown.stderr);
    let plan: Value = serde_json::from_str(&unknown.stdout).unwrap();
    let none = json!(null);
    assert_eq!((&plan["churn"][0]["evictions"], &plan["churn"][0]["most"]), (&none, &json!(4)));
    assert_eq!(plan["commands"].as_array().unwrap().len(), 1, "{plan:#}");
    // m5.8xlarge costs 1.536 dollars for 0.4 of load: two pods of 0.1 vCPU and 1 GiB.
    let price = plan["churn"][0]["priceNow"].as_f64().unwrap();
    assert!((price - 3.84).abs() < 1e-9, "{price}");

    let entry = |at: &str, price: f64| json!([{ "command": "a", "at": at, "evictions": 121, "price": price }]);
    let stops = table("stops.json", &entry("2026-01-10T11:30:00Z", 3.84));
    let ended = objects.run(&["--churn", &stops, "-o", "json"]);
    assert!(!ended.stderr.contains("claims table"), "{}", ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(plan["commands"], json!([]));
    assert_eq!(plan["churn"][0]["evictions"], 121);
    let why = kept(&plan, "wasted");
    assert!(why.starts_with("disruption of NodePool default evicted 121 pods within an hour, more than 4"), "{why}");
    assert!(events(&plan, "NodePool", "default").starts_with("DisruptionStopped: "));
    let text = objects.run(&["--churn", &stops]).stdout;
    let line = "NodePool default: 121 pods, 121 without a lower price of 4 allowed; its price per unit of load has changed by +0.0% since; \
                disruption is stopped";
    assert!(text.contains(line), "{text}");

    for (name, entry) in
        [("fell.json", entry("2026-01-10T11:30:00Z", 4.0)), ("over.json", entry("2026-01-10T10:59:00Z", 3.84))]
    {
        let plan = objects.plan(0, &["--churn", &table(name, &entry)]);
        assert_eq!(plan["commands"].as_array().unwrap().len(), 1, "{name}: {plan:#}");
        assert!(plan["churn"][0]["stopped"].is_null());
    }
}

#[test]
fn commands_of_the_plan_count_for_the_churn_breaker() {
    // Nodes of three pods in a NodePool whose price falls by less than 1% when four of them are removed. With the fourth the
    // evictions exceed the annotation.
    let mut objects = Objects::new();
    objects.pool()["metadata"]["annotations"] = json!({ "nodeless.sh/churn-evictions-per-hour": "10" });
    objects.pool()["spec"]["disruption"]["budgets"] = json!([{ "nodes": "100%" }]);
    for number in 0..40 {
        let name = format!("large-{number}");
        objects.node(&name, "m5.8xlarge", "on-demand");
        objects.pod(&format!("fixed-{number}"), Some(&name), "20")["metadata"]["annotations"] =
            json!({ "karpenter.sh/do-not-disrupt": "true" });
    }
    for number in 0..10 {
        let name = format!("node-{number}");
        objects.node(&name, "m5.large", "on-demand");
        for pod in 0..3 {
            objects.pod(&format!("pod-{number}-{pod}"), Some(&name), "300m");
        }
    }
    let plan = objects.plan(0, &[]);
    let commands = plan["commands"].as_array().unwrap();
    let evictions: u64 = commands.iter().map(|command| command["evictions"].as_u64().unwrap()).sum();
    assert_eq!((commands.len(), evictions), (4, 12), "{:#}", plan["commands"]);
    let blocked = (0..10).filter(|number| kept(&plan, &format!("node-{number}")).contains("evicted 12 pods")).count();
    assert_eq!(blocked, 6, "{:#}", plan["kept"]);
}

#[test]
fn an_error_about_a_churn_file_names_the_expected_format() {
    let objects = oversized(1);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let other = json!({ "Items": [{ "sk": { "S": "nodeclaim#a" } }] }).to_string();
    for (name, text, expected) in [
        ("no-json", "hello", "it is not JSON"),
        ("no-items", "{\"Item\": {}}", "it has no list Items"),
        ("no-key", "{\"Items\": [{}]}", "an item has no attribute sk"),
        ("another-kind", other.as_str(), "item nodeclaim#a: it is not an item churn#NODEPOOL"),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        let ended = objects.run(&["--churn", &path.display().to_string()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected) && ended.stderr.contains("aws dynamodb query"), "{}", ended.stderr);
    }
}
