use super::*;
use crate::fixtures::{at, claim_value, event_value, node_value, pod_value, pool_value};
use serde_json::{Value, json};

fn measured(objects: &[(ShownKind, Value)]) -> Measured {
    let mut measured = Measured::default();
    for (kind, object) in objects {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let decoded = Measured::decode(*kind, &object.to_string());
        let (namespace, name) = (text("namespace"), text("name"));
        measured.apply(Update::Present { kind: *kind, namespace, name, object: decoded });
    }
    measured
}

fn exposition(measured: &Measured) -> Exposition {
    with_catalog(measured, &Catalog::embedded().unwrap(), true)
}

fn with_catalog(measured: &Measured, catalog: &Catalog, lists_catalog: bool) -> Exposition {
    measured.exposition(&Inputs { catalog, lists_catalog, answered: &BTreeMap::new(), clock: at(10) })
}

/// The samples of a family, without its name and in order.
fn samples(measured: &Measured, family: &str) -> Vec<String> {
    let text = exposition(measured).text;
    let of_family = |line: &&str| line.split(['{', ' ']).next() == Some(family);
    let mut all: Vec<String> =
        text.lines().filter(of_family).map(|line| line.trim_start_matches(family).trim().to_owned()).collect();
    all.sort();
    all
}

fn daemon(name: &str, node: &str) -> Value {
    let mut pod = pod_value(name, Some(node));
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true
    }]);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "1Gi" } });
    pod
}

fn example() -> Measured {
    let mut node = node_value("a", "m5.xlarge");
    node["status"]["capacity"]["cpu"] = json!("4500m");
    node["metadata"]["labels"]["karpenter.k8s.aws/instance-family"] = json!("m5");
    node["metadata"]["labels"]["karpenter.k8s.aws/ec2nodeclass"] = json!("default");
    node["status"]["conditions"][0]["reason"] = json!("KubeletReady");
    measured(&[
        (ShownKind::NodePool, pool_value("default")),
        (ShownKind::Node, node),
        (ShownKind::NodeClaim, claim_value("claim-a", Some("a"), &["Initialized", "Consolidatable"])),
        (ShownKind::Pod, pod_value("web", Some("a"))),
        (ShownKind::Pod, daemon("agent-a", "a")),
        (ShownKind::Pod, pod_value("late", None)),
    ])
}

#[test]
fn nodes_have_the_sums_of_their_pods_and_their_well_known_labels() {
    let measured = example();
    let labels = "{node_name=\"a\",managed=\"true\",nodepool=\"default\",capacity_type=\"spot\",zone=\"us-east-1a\",instance_type=\"m5.xlarge\",instance_family=\"m5\"";
    let of = |resource: &str, value: &str| format!("{labels},resource_type=\"{resource}\"}} {value}");
    let requests = [of("cpu", "1.1"), of("memory", "3221225472"), of("pods", "2")];
    assert_eq!(samples(&measured, "karpenter_nodes_total_pod_requests"), requests);
    let daemons = [of("cpu", "0.1"), of("memory", "1073741824"), of("pods", "1")];
    assert_eq!(samples(&measured, "karpenter_nodes_total_daemon_requests"), daemons);
    let limits = [of("memory", "1073741824"), of("pods", "1")];
    assert_eq!(samples(&measured, "karpenter_nodes_total_daemon_limits"), limits);
    let overhead = [of("cpu", "0.5"), of("memory", "0"), of("pods", "0")];
    assert_eq!(samples(&measured, "karpenter_nodes_system_overhead"), overhead);
    assert_eq!(samples(&measured, "karpenter_nodes_current_lifetime_seconds"), [format!("{labels}}} 600")]);
    assert_eq!(samples(&measured, "karpenter_cluster_utilization_percent")[1], "{resource_type=\"memory\"} 18.75");
    assert_eq!(samples(&measured, "karpenter_cluster_state_node_count"), ["1"]);
}

#[test]
fn pods_have_the_labels_of_their_nodes() {
    let state = samples(&example(), "karpenter_pods_state");
    let agent = "{name=\"agent-a\",namespace=\"shop\",owner=\"/apis/apps/v1/namespaces/shop/daemonsets/agent\",node=\"a\",scheduled=\"true\",nodepool=\"default\",zone=\"us-east-1a\",capacity_type=\"spot\",instance_type=\"m5.xlarge\",phase=\"Running\",ready=\"false\",managed=\"true\"} 1";
    let late =
        "{name=\"late\",namespace=\"shop\",scheduled=\"false\",phase=\"Pending\",ready=\"false\",managed=\"false\"} 1";
    assert_eq!((state.len(), state[0].as_str(), state[1].as_str()), (3, agent, late));
    let waits = |more: &str| [format!("{{name=\"late\",namespace=\"shop\"{more}}} 600")];
    assert_eq!(samples(&example(), "karpenter_pods_unstarted_time_seconds"), waits(""));
    let unbound = |measured: &Measured| samples(measured, "karpenter_pods_unbound_time_seconds");
    assert_eq!(unbound(&example()), waits(",dynamic_resources=\"false\""));
    let mut claiming = pod_value("late", None);
    claiming["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "gpu" }]);
    assert_eq!(unbound(&measured(&[(ShownKind::Pod, claiming)])), waits(",dynamic_resources=\"true\""));
}

#[test]
fn a_pod_is_unschedulable_if_nodeless_reports_it() {
    let mut objects = vec![(ShownKind::Pod, pod_value("late", None))];
    let count = |objects: &[(ShownKind, Value)]| {
        let measured = measured(objects);
        let own = samples(&measured, "nodeless_pods_without_node");
        let nonzero: Vec<String> = own.into_iter().filter(|line| !line.ends_with(" 0")).collect();
        (samples(&measured, "karpenter_scheduler_unschedulable_pods_count").join(""), nonzero.join(""))
    };
    let expected = |number: u8, state: &str| {
        (format!("{{controller=\"provisioner\"}} {number}"), format!("{{state=\"{state}\"}} 1"))
    };
    assert_eq!(count(&objects), expected(0, "waiting"));
    objects.push((ShownKind::Event, event_value("Pod", "late", "FailedScheduling", "limit of cpu reached")));
    assert_eq!(count(&objects), expected(1, "unschedulable"));
    let mut nominated = event_value("Pod", "late", "Nominated", "Pod should schedule on: nodeclaim/default-a");
    nominated["lastTimestamp"] = json!("2026-01-01T00:04:30Z");
    objects.push((ShownKind::Event, nominated));
    assert_eq!(count(&objects), expected(0, "nominated"));
}

#[test]
fn node_pools_have_limits_usage_cost_and_budgets() {
    let measured = example();
    let pool = |resource: &str, value: &str| format!("{{resource_type=\"{resource}\",nodepool=\"default\"}} {value}");
    let limits = [pool("cpu", "16"), pool("nodeless.sh/dollars_per_hour", "1")];
    assert_eq!(samples(&measured, "karpenter_nodepools_limit"), limits);
    assert_eq!(samples(&measured, "karpenter_nodepools_usage"), [pool("cpu", "8"), pool("nodes", "2")]);
    let allowed = samples(&measured, "karpenter_nodepools_allowed_disruptions");
    // Without budgets, Kubernetes' API server sets one of 10 %, which is rounded up.
    assert_eq!(allowed.len(), 3, "{allowed:?}");
    assert!(allowed[0].starts_with("{nodepool=\"default\",reason=\"Drifted\"} "), "{allowed:?}");
    let consuming = samples(&measured, "karpenter_nodepools_nodes_consuming_budgets");
    assert!(consuming.iter().all(|line| line.ends_with(" 0")), "{consuming:?}");
}

#[test]
fn a_protected_node_is_not_eligible_for_disruption() {
    let eligible = |pod: Value| {
        let measured = measured(&[
            (ShownKind::NodePool, pool_value("default")),
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::NodeClaim, claim_value("claim-a", Some("a"), &["Initialized", "Consolidatable", "Drifted"])),
            (ShownKind::Pod, pod),
        ]);
        let all = samples(&measured, "karpenter_voluntary_disruption_eligible_nodes");
        all.iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    // Drifted, empty, underutilized.
    assert_eq!(eligible(pod_value("web", Some("a"))), "1 0 1");
    assert_eq!(eligible(daemon("agent", "a")), "1 1 1");
    let mut kept = pod_value("web", Some("a"));
    kept["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
    assert_eq!(eligible(kept), "0 0 0");
}

#[test]
fn conditions_have_their_status_reason_and_time() {
    let measured = example();
    let ready = "{karpenter_k8s_aws_ec2nodeclass=\"default\",karpenter_sh_nodepool=\"default\",karpenter_sh_initialized=\"true\",name=\"a\",type=\"Ready\",status=\"True\",reason=\"KubeletReady\"}";
    assert_eq!(samples(&measured, "operator_node_status_condition_count"), [format!("{ready} 1")]);
    let seconds = samples(&measured, "operator_node_status_condition_current_status_seconds");
    assert_eq!(seconds, [format!("{ready} 540")]);
    let claims = samples(&measured, "operator_status_condition_count");
    assert_eq!(claims.len(), 2);
    assert!(
        claims[0].starts_with("{group=\"karpenter.sh\",kind=\"NodeClaim\",name=\"claim-a\",type=\"Consolidatable\"")
    );
    let mut deleted = claim_value("claim-b", None, &[]);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:09:00Z");
    let terminating = samples(
        &super::tests::measured(&[(ShownKind::NodeClaim, deleted)]),
        "operator_nodeclaim_termination_current_time_seconds",
    );
    assert_eq!(
        terminating,
        ["{karpenter_k8s_aws_ec2nodeclass=\"default\",karpenter_sh_nodepool=\"default\",name=\"claim-b\"} 60"]
    );
}

#[test]
fn the_recorded_price_counts_and_synthetic_spot_prices_do_not() {
    let price = |recorded: Option<&str>| {
        let mut claim = claim_value("claim-a", Some("a"), &[]);
        claim["metadata"]["annotations"] =
            recorded.map_or(json!({}), |price| json!({ "nodeless.sh/price-per-hour": price }));
        let objects = [
            (ShownKind::NodePool, pool_value("default")),
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::NodeClaim, claim),
        ];
        let measured = measured(&objects);
        let synthetic = Catalog::synthetic(1, &nodeless_catalog::Location::default().facts(None).unwrap());
        let text = with_catalog(&measured, &synthetic, true).text;
        let of = |family: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{family}{{")));
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        (of("nodeless_node_price_dollars_per_hour"), of("karpenter_nodepools_cost_total"))
    };
    assert_eq!(price(Some("0.125")), (Some("0.125".to_owned()), Some("0.125".to_owned())));
    assert_eq!(price(None), (None, Some("0".to_owned())), "a spot node");
}

#[test]
fn without_the_catalog_only_the_metrics_of_instance_types_are_left_out() {
    let (measured, catalog) = (example(), Catalog::embedded().unwrap());
    let [all, without] = [true, false].map(|lists_catalog| with_catalog(&measured, &catalog, lists_catalog).text);
    let of_objects: Vec<&str> =
        all.lines().filter(|line| !line.contains("karpenter_cloudprovider_instance_type_")).collect();
    assert_eq!(without.lines().collect::<Vec<_>>(), of_objects);
}

#[test]
fn what_cannot_be_read_and_what_is_gone_is_left_out() {
    let mut measured = example();
    assert_eq!(exposition(&measured).left_out, Vec::<String>::new());
    measured.apply(Update::Missing { kind: ShownKind::NodeClaim, why: "forbidden".into() });
    let Exposition { text, left_out } = exposition(&measured);
    assert!(left_out[0].starts_with("NodeClaim objects cannot be read: forbidden; these metrics are left out: "));
    assert!(
        !text.contains("# TYPE operator_nodeclaim") && !text.contains("\nkarpenter_nodepools_cost_total"),
        "{left_out:?}"
    );
    assert!(!text.contains("claim-a") && text.contains("\nkarpenter_nodes_allocatable{node_name=\"a\",nodepool="));
    measured.apply(Update::Absent { kind: ShownKind::Pod, namespace: "shop".into(), name: "web".into() });
    assert_eq!(samples(&measured, "karpenter_pods_state").len(), 2);
    let bad = Measured::decode(
        ShownKind::Pod,
        "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"many\"}}}]}}",
    );
    let (namespace, name) = ("shop".to_owned(), "late".to_owned());
    measured.apply(Update::Present { kind: ShownKind::Pod, namespace, name, object: bad });
    assert_eq!(samples(&measured, "karpenter_pods_state").len(), 1);
    assert!(samples(&measured, "nodeless_invalid_objects").contains(&"{kind=\"Pod\"} 1".to_owned()));
}

#[test]
fn every_family_has_a_help_text_and_samples_of_its_own() {
    let text = exposition(&example()).text;
    let mut family = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap();
            assert!(rest.len() > family.len() + 1, "{line}");
        } else if !line.starts_with("# TYPE ") {
            assert_eq!(line.split(['{', ' ']).next(), Some(family), "{line}");
        }
    }
}
