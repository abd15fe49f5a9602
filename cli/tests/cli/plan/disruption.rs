//! `nodeless plan --disruption`: its output and explanations.

use crate::support::nodeless;
use crate::support::objects::{LATEST, Objects, events, kept};
use serde_json::{Value, json};

fn keys(value: &Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn commands_list_nodes_replacements_and_savings() {
    let mut objects = Objects::new();
    objects.node("empty", "m5.large", "on-demand");
    objects.node("wasted", "m5.4xlarge", "on-demand");
    objects.pod("web", Some("wasted"), "1500m");
    let plan = objects.plan(0, &[]);
    assert_eq!(
        keys(&plan),
        [
            "at",
            "churn",
            "commands",
            "current",
            "events",
            "kept",
            "launches",
            "placements",
            "pricePerHour",
            "repairs",
            "savingsPerHour",
            "staticLaunches",
            "statistics",
            "unschedulable",
            "volumes"
        ]
    );
    assert_eq!(plan["at"], LATEST);
    let [emptied, replaced] = plan["commands"].as_array().unwrap().as_slice() else { panic!("{plan:#}") };
    assert_eq!(
        keys(emptied),
        ["evictions", "id", "method", "nodes", "placements", "reason", "replacements", "savingsPerHour", "score"]
    );
    assert_eq!((&emptied["method"], &emptied["reason"]), (&json!("Emptiness"), &json!("Empty")));
    assert_eq!((&emptied["nodes"], &emptied["evictions"]), (&json!(["empty"]), &json!(0)));
    assert_eq!((&emptied["replacements"], &emptied["savingsPerHour"]), (&json!([]), &json!(0.096)));
    assert!(emptied["score"].is_null());

    assert_eq!(
        (&replaced["method"], &replaced["reason"]),
        (&json!("SingleNodeConsolidation"), &json!("Underutilized"))
    );
    assert_eq!((&replaced["nodes"], &replaced["evictions"]), (&json!(["wasted"]), &json!(1)));
    let [replacement] = replaced["replacements"].as_array().unwrap().as_slice() else { panic!("{replaced:#}") };
    assert_eq!(keys(replacement), ["instanceTypes", "nodePool", "offering", "pods", "requests", "requirements"]);
    assert_eq!(replacement["pods"], json!(["default/web"]));
    // Where spot is allowed the replacement is a spot node, and the saving uses its price. m5.4xlarge costs 0.768 dollars.
    assert_eq!(replacement["offering"]["capacityType"], "spot");
    let price = replacement["offering"]["pricePerHour"].as_f64().unwrap();
    let saving = replaced["savingsPerHour"].as_f64().unwrap();
    assert!((0.768 - price - saving).abs() < 1e-9, "{price} {saving}");
    assert!((plan["savingsPerHour"].as_f64().unwrap() - saving - 0.096).abs() < 1e-9);
    assert!(replaced["score"].as_f64().unwrap() > 0.0);
    let statistics = &plan["statistics"]["disruption"];
    // The empty node, the replacement, and a decision without commands.
    assert_eq!(statistics["decisions"], 3);
    assert!(statistics["elapsedMilliseconds"].as_f64().unwrap() > 0.0);
    assert!(statistics["work"].as_u64().unwrap() > 0);
}

#[test]
fn reasons_name_budgets_and_policies() {
    let mut objects = Objects::new();
    objects.pool()["spec"]["disruption"]["budgets"] = json!([{ "nodes": "5" }, { "nodes": "1", "reasons": ["Empty"] }]);
    for name in ["a", "b"] {
        objects.node(name, "m5.large", "on-demand");
    }
    let plan = objects.plan(0, &[]);
    assert_eq!(plan["commands"][0]["nodes"], json!(["a"]));
    let why = "the disruption budgets of NodePool default allow 1 at once for Empty (spec.disruption.budgets[1]), and 1 is \
               disrupted or not ready";
    assert_eq!(kept(&plan, "b"), why);

    objects.pool()["metadata"]["annotations"] = json!({ "nodeless.sh/pause-disruption": "2026-01-10T13:00:00Z" });
    let plan = objects.plan(0, &[]);
    assert_eq!(kept(&plan, "a"), "disruption is paused for NodePool default until 2026-01-10T13:00:00Z");
    // The annotation ends at its time.
    let later = objects.plan(0, &["--at", "2026-01-10T14:00:00Z"]);
    assert_eq!((&later["at"], &later["commands"][0]["nodes"]), (&json!("2026-01-10T14:00:00Z"), &json!(["a"])));
    objects.0.push(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "kube-system", "annotations": { "nodeless.sh/pause-disruption": "true" } }
    }));
    assert_eq!(kept(&objects.plan(0, &[]), "b"), "disruption is paused for the cluster");
}

#[test]
fn a_node_waits_for_the_next_maintenance_window() {
    let mut objects = Objects::new();
    objects.node("a", "m5.large", "on-demand");
    // The clocks in Berlin go forward in the night to the 29th of March.
    objects.0.push(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "kube-system", "annotations": {
            "nodeless.sh/maintenance-windows": "CRON_TZ=Europe/Berlin 0 3 * * sun for 1h",
            "nodeless.sh/max-nodes": "5", "nodeless.sh/max-dollars-per-hour": "1.5"
        } }
    }));
    let plan = objects.plan(0, &["--at", "2026-03-28T12:00:00Z"]);
    assert_eq!(kept(&plan, "a"), "no maintenance window is open, and the next one begins at 2026-03-29T01:00:00Z");
    let limits = plan["clusterLimits"].as_array().unwrap();
    assert_eq!(limits.len(), 2);
    assert_eq!(limits[0], json!({ "annotation": "nodeless.sh/max-nodes", "used": 1.0, "planned": 1.0, "limit": 5.0 }));
    assert_eq!(limits[1]["annotation"], "nodeless.sh/max-dollars-per-hour");
    let open = objects.plan(0, &["--at", "2026-03-29T01:00:00Z"]);
    assert_eq!(open["commands"][0]["nodes"], json!(["a"]));
}

#[test]
fn a_drifted_node_has_placements_and_a_static_node_pool_launches_its_replicas() {
    let mut objects = Objects::new();
    for name in ["drifted", "other"] {
        let node = objects.node(name, "m5.2xlarge", "on-demand");
        let provider_id = format!("aws:///us-east-1a/i-{name}");
        node["spec"] = json!({ "providerID": provider_id });
        if name == "starting" {
            node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/initialized");
        }
        let labels = node["metadata"]["labels"].clone();
        let drifted = if name == "drifted" { "True" } else { "False" };
        objects.0.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": format!("default-{name}"), "uid": name, "labels": labels },
            "spec": { "nodeClassRef": { "name": "default" } },
            "status": { "providerID": provider_id, "nodeName": name, "conditions": [
                { "type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z" },
                { "type": "Drifted", "status": drifted, "reason": "SubnetDrift", "lastTransitionTime": "2026-01-09T00:00:00Z" }
            ] }
        }));
    }
    objects.pod("web", Some("drifted"), "1");
    objects.pod("own", Some("other"), "4")["metadata"]["annotations"] =
        json!({ "karpenter.sh/do-not-disrupt": "true" });
    let mut fixed = objects.pool().clone();
    fixed["metadata"]["name"] = json!("fixed");
    fixed["spec"]["replicas"] = json!(2);
    objects.0.push(fixed);
    let plan = objects.plan(0, &[]);
    let command = &plan["commands"][0];
    assert_eq!((&command["method"], &command["replacements"]), (&json!("Drift"), &json!([])), "{plan:#}");
    assert_eq!(command["placements"], json!([{ "pod": "default/web", "node": "other" }]));
    let launches = &plan["staticLaunches"];
    assert_eq!((&launches[0]["nodePool"], &launches[0]["short"]), (&json!("fixed"), &Value::Null));
    assert_eq!(launches[0]["launches"].as_array().unwrap().len(), 2, "{launches:#}");
    let text = objects.run(&[]).stdout;
    assert!(text.contains("NodePool fixed launches 2 nodes to reach its replicas"), "{text}");
    // New static nodes are not listed among the nodes that are not disrupted.
    assert_eq!(plan["kept"].as_array().unwrap().len(), 1, "{plan:#}");
    assert!(text.contains("evict    1 pod to other"), "{text}");
}

#[test]
fn conditions_of_karpenters_node_claims_are_used() {
    let mut objects = Objects::new();
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:02:00Z" });
    for (name, conditions) in [
        (
            "drifted",
            json!([condition("Initialized", "True"), {
                "type": "Drifted", "status": "True", "reason": "SubnetDrift", "lastTransitionTime": "2026-01-09T00:00:00Z"
            }]),
        ),
        ("starting", json!([condition("Registered", "True"), condition("Initialized", "False")])),
        ("quiet", json!([condition("Initialized", "True"), condition("Consolidatable", "True")])),
        ("busy", json!([condition("Initialized", "True")])),
    ] {
        let node = objects.node(name, "m5.large", "on-demand");
        let provider_id = format!("aws:///us-east-1a/i-{name}");
        node["spec"] = json!({ "providerID": provider_id });
        if name == "starting" {
            node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/initialized");
        }
        let labels = node["metadata"]["labels"].clone();
        let last = if name == "busy" { LATEST } else { "2026-01-03T00:00:00Z" };
        objects.0.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": format!("default-{name}"), "uid": name, "labels": labels },
            "spec": { "nodeClassRef": { "name": "default" } },
            "status": { "providerID": provider_id, "nodeName": name, "conditions": conditions, "lastPodEventTime": last }
        }));
    }
    objects.pod("drifted", Some("drifted"), "1800m");
    objects.pod("busy", Some("busy"), "1");
    objects.pod("starting", Some("starting"), "1");
    let plan = objects.plan(0, &[]);
    let methods: Vec<(&Value, &Value)> =
        plan["commands"].as_array().unwrap().iter().map(|command| (&command["method"], &command["nodes"])).collect();
    assert_eq!(methods, [(&json!("Emptiness"), &json!(["quiet"])), (&json!("Drift"), &json!(["drifted"]))], "{plan:#}");
    assert_eq!(kept(&plan, "starting"), "it is not initialized yet");
    assert!(
        kept(&plan, "busy").contains("it can be consolidated from 2026-01-10T12:01:00Z"),
        "{}",
        kept(&plan, "busy")
    );
    let plan = objects.plan(0, &["--explain", "default-drifted"]);
    assert_eq!(plan["explanations"][0]["drift"], "the condition Drifted of its NodeClaim is true (SubnetDrift)");
}

#[test]
fn spot_to_spot_consolidation_needs_its_feature_gate() {
    let mut objects = Objects::new();
    objects.pool()["spec"]["template"]["spec"]["requirements"] = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    objects.node("spot", "m5.8xlarge", "spot");
    objects.pod("web", Some("spot"), "1");
    let off = objects.plan(0, &[]);
    assert_eq!(off["commands"], json!([]));
    assert!(kept(&off, "spot").contains("spot-to-spot consolidation is disabled"), "{}", kept(&off, "spot"));
    let on = objects.plan(0, &["--spot-to-spot"]);
    assert_eq!(on["commands"][0]["nodes"], json!(["spot"]), "{on:#}");
    assert!(on["commands"][0]["replacements"][0]["instanceTypes"].as_array().unwrap().len() >= 15);
}

/// Nodes that invalid objects concern, and one that none concerns.
fn invalid() -> Objects {
    let mut objects = Objects::new();
    // A NodePool of a cluster, whose definition may be older than the rule about schedules.
    objects.pool()["metadata"]["uid"] = json!("stored");
    objects.pool()["spec"]["disruption"]["budgets"] = json!([
        { "nodes": "100%" },
        { "nodes": "0", "reasons": ["Drifted"], "schedule": "sometimes", "duration": "1h" },
        { "nodes": "0", "reasons": ["Drifted"] },
    ]);
    objects.node("empty", "m5.large", "on-demand");
    objects.node("never", "m5.large", "on-demand");
    objects.pod("never", Some("never"), "100m");
    objects.budget("never", "never", 0);
    objects.node("single", "m5.large", "on-demand");
    objects.pod("single", Some("single"), "100m");
    objects.budget("single", "single", 1);
    let spec = &mut objects.0.last_mut().unwrap()["spec"];
    spec.as_object_mut().unwrap().remove("maxUnavailable");
    spec["minAvailable"] = json!(1);
    objects.node("odd", "m5.large", "on-demand");
    objects.pod("odd", Some("odd"), "100m")["metadata"]["annotations"] =
        json!({ "karpenter.sh/do-not-disrupt": "a while" });
    objects.node("twice", "m5.large", "on-demand");
    objects.pod("twice", Some("twice"), "100m");
    objects.budget("one", "twice", 1);
    objects.budget("two", "twice", 1);
    objects.node("homeless", "m5.large", "on-demand")["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("gone");
    objects.node("unsold", "m5.huge", "on-demand")["status"]["allocatable"] =
        json!({ "cpu": "4", "memory": "8Gi", "pods": "20" });
    objects.pod("unsold", Some("unsold"), "1");
    objects.0.push(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "broken" },
        "spec": { "nodeName": "twice", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "lots" } } }] } }));
    objects
}

#[test]
fn invalid_input_is_reported_on_the_object_and_blocks_only_its_nodes() {
    let objects = invalid();
    // The invalid pod is an error, and everything else is reported.
    let plan = objects.plan(1, &[]);
    let pool = events(&plan, "NodePool", "default");
    for expected in [
        "DisruptionBlocked: spec.disruption.budgets[1] admits nothing, because \"sometimes\" is not a schedule",
        "DisruptionBlocked: spec.disruption.budgets[2] admits no node for Drifted at any time",
    ] {
        assert!(pool.contains(expected), "{expected}: {pool}");
    }
    assert!(events(&plan, "PodDisruptionBudget", "never").contains("never allows an eviction"));
    assert!(events(&plan, "PodDisruptionBudget", "single").contains("It requires as many pods as there are"));
    assert!(events(&plan, "Pod", "odd").starts_with("InvalidDoNotDisruptAnnotation: "));
    assert!(
        kept(&plan, "unsold").contains(
            "it drifted (InstanceTypeNotFound): instance type m5.huge is no longer offered; the disruption budgets of NodePool \
             default allow 0 at once for Drifted (spec.disruption.budgets[1])"
        ),
        "{}",
        kept(&plan, "unsold")
    );
    assert!(events(&plan, "Pod", "twice").contains("PodDisruptionBudgets one and two cover this pod"));
    assert!(events(&plan, "Node", "homeless").contains("NodePool gone does not exist"));
    let unsold = objects.plan(1, &["--explain", "unsold"]);
    let drift = &unsold["explanations"][0]["drift"];
    assert_eq!(drift, "it drifted (InstanceTypeNotFound): instance type m5.huge is no longer offered");
    let commands = plan["commands"].as_array().unwrap().iter();
    let disrupted = commands.flat_map(|command| command["nodes"].as_array().unwrap());
    let disrupted: Vec<&str> = disrupted.map(|node| node.as_str().unwrap()).collect();
    assert!(disrupted.contains(&"empty") && disrupted.contains(&"odd"), "{disrupted:?}");
    assert!(
        !disrupted.contains(&"never") && !disrupted.contains(&"twice") && !disrupted.contains(&"homeless"),
        "{disrupted:?}"
    );
    let ended = objects.run(&[]);
    assert!(ended.stderr.contains("Pod default/broken"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("voluntary disruption stops"), "the pod runs on a node: {}", ended.stderr);
}

#[test]
fn pending_pods_are_planned_first_and_set_the_exit_code() {
    let mut objects = Objects::new();
    objects.node("needed", "m5.large", "on-demand");
    objects.node("empty", "m5.large", "on-demand");
    objects.pod("waiting", None, "1500m");
    let plan = objects.plan(0, &[]);
    let node = plan["placements"][0]["node"].as_str().unwrap().to_owned();
    let other = if node == "needed" { "empty" } else { "needed" };
    assert_eq!(kept(&plan, &node), "pending pod default/waiting fits on it");
    assert_eq!(plan["commands"][0]["nodes"], json!([other]));

    objects.pod("huge", None, "5000");
    let plan = objects.plan(2, &[]);
    assert_eq!(
        (&plan["unschedulable"][0]["pod"], plan["commands"].as_array().unwrap().len()),
        (&json!("default/huge"), 1)
    );
}

#[test]
fn a_node_that_receives_pods_keeps_its_own_reasons() {
    let mut objects = Objects::new();
    objects.node("wasted", "m5.4xlarge", "on-demand");
    objects.pod("web", Some("wasted"), "500m");
    objects.node("guarded", "m5.large", "on-demand");
    objects.pod("db", Some("guarded"), "100m");
    objects.budget("db", "db", 0);
    let plan = objects.plan(0, &[]);
    assert_eq!(plan["commands"][0]["placements"], json!([{ "pod": "default/web", "node": "guarded" }]));
    assert_eq!(
        kept(&plan, "guarded"),
        "PodDisruptionBudget default/db allows no eviction of pod default/db; pod default/web is expected to move to it"
    );
}

#[test]
fn the_same_input_gives_the_same_plan_in_any_order() {
    let mut objects = Objects::new();
    for index in 0..12 {
        let name = format!("n{index}");
        objects.node(&name, ["m5.large", "m5.2xlarge", "c5.4xlarge"][index % 3], "on-demand");
        for pod in 0..index % 4 {
            objects.pod(&format!("p{index}-{pod}"), Some(&name), ["250m", "1"][pod % 2]);
        }
    }
    let measured = |plan: Value| {
        let mut plan = plan;
        plan["statistics"] = Value::Null;
        plan
    };
    let forwards = measured(objects.plan(0, &[]));
    assert!(!forwards["commands"].as_array().unwrap().is_empty());
    objects.0.reverse();
    assert_eq!(measured(objects.plan(0, &[])), forwards);
    let yaml = objects.run(&["-o", "yaml"]);
    assert!(yaml.code == Some(0) && yaml.stdout.contains("savingsPerHour: "), "{}", yaml.stdout);
}

#[test]
fn text_lists_commands_and_reasons() {
    let mut objects = Objects::new();
    objects.node("empty-1", "m5.large", "on-demand");
    objects.node("empty-2", "m5.large", "on-demand");
    objects.node("guarded", "m5.large", "on-demand");
    objects.pod("db", Some("guarded"), "100m");
    objects.budget("db", "db", 0);
    let ended = objects.run(&[]);
    for line in [
        "2 of 3 nodes to disrupt, 0 replacements to launch, $0.1920/h saved, 0 pods to evict; as of 2026-01-10T12:00:00Z",
        "  1. Emptiness (Empty): $0.1920/h saved",
        "     disrupt  2 x m5.large on-demand us-east-1a: empty-1, empty-2",
        "     launch   nothing",
        "1 node is not disrupted",
        "  guarded: PodDisruptionBudget default/db allows no eviction of pod default/db",
        "  PodDisruptionBudget default/db: DisruptionBlocked: It never allows an eviction",
    ] {
        assert!(ended.stdout.contains(line), "{line}\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("without a NodeClaim in the input"), "{}", ended.stderr);
    let explained = objects.run(&["--explain", "empty-1"]);
    assert!(explained.stdout.contains("Node empty-1 is disrupted by command 1"), "{}", explained.stdout);
}

#[test]
fn flags_that_require_disruption_are_refused_without_it() {
    for flag in [
        &["--spot-to-spot"][..],
        &["--decisions", "3"],
        &["--feature-gates", "NodeRepair=true"],
        &["--churn", "churn.json"],
    ] {
        let ended = crate::support::run(nodeless().args(["plan", "--cluster", "-"]).args(flag));
        assert!(ended.code == Some(1) && ended.stderr.contains("--disruption"), "{flag:?}: {}", ended.stderr);
    }
}

#[test]
fn a_pod_that_cannot_be_decoded_keeps_only_its_node() {
    let mut objects = Objects::new();
    objects.node("empty", "m5.large", "on-demand");
    objects.node("odd", "m5.large", "on-demand");
    objects.pod("broken", Some("odd"), "100m")["spec"]["tolerations"] =
        json!([{ "key": "a", "operator": "Sometimes" }]);
    objects.pod("pending", None, "lots");
    let plan = objects.plan(1, &[]);
    assert_eq!(plan["commands"][0]["nodes"], json!(["empty"]), "{plan:#}");
    let why = kept(&plan, "odd");
    let expected = "pod default/broken cannot be decoded (spec.tolerations: operator \"Sometimes\" is not supported)";
    assert!(why.contains(expected), "{why}");
    assert!(events(&plan, "Pod", "broken").starts_with("DisruptionBlocked: nodeless cannot decode this pod"));
    let stderr = objects.run(&[]).stderr;
    assert!(stderr.contains("Pod default/broken") && stderr.contains("Pod default/pending"), "{stderr}");
    assert!(!stderr.contains("voluntary disruption stops"), "{stderr}");
    // Without a readable node, the pod may run on any.
    let odd = objects.0.iter_mut().find(|object| object["metadata"]["name"] == "broken").unwrap();
    odd["spec"]["nodeName"] = json!(["odd"]);
    assert!(
        objects.run(&[]).stderr.contains("voluntary disruption stops until this object is fixed: Pod default/broken")
    );
}
