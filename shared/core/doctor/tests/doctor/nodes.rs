//! Nodes that are not ready.

use crate::checks::{found, one, ready};
use nodeless_doctor::{Check, Severity, check};
use nodeless_model::{Pod, labels};

#[test]
fn nodes_that_are_not_ready() {
    let node = |since: &str, pool: bool| {
        let labels =
            ["karpenter.sh/registered", "karpenter.sh/initialized"].map(|key| (key.to_owned(), "true".to_owned()));
        let of_pool = [("karpenter.sh/nodepool", "web"), ("karpenter.k8s.aws/ec2nodeclass", "default")];
        let of_pool = of_pool.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().filter(|_| pool);
        let since = Some(since.parse().unwrap());
        nodeless_model::Node {
            name: "ip-1".to_owned(),
            provider_id: Some("aws:///us-east-1a/i-1".to_owned()),
            labels: labels.into_iter().chain(of_pool).collect(),
            conditions: vec![nodeless_model::node::NodeCondition {
                kind: "Ready".to_owned(),
                status: None,
                since,
                reason: String::new(),
            }],
            ..nodeless_model::Node::default()
        }
    };
    let facts = |node: nodeless_model::Node, pods: &[&str]| {
        let mut facts = ready();
        facts.view.nodes = vec![node];
        let pod = |name: &&str| Pod {
            namespace: "shop".to_owned(),
            name: (*name).to_owned(),
            node_name: Some("ip-1".to_owned()),
            ..Pod::default()
        };
        facts.view.pods = pods.iter().map(|name| pod(name).into()).collect();
        facts
    };
    assert_eq!(check(&facts(node("2026-01-10T11:59:00Z", true), &[])), [], "it may be ready again soon");
    let late = facts(node("2026-01-10T11:46:00Z", true), &["db", "web"]);
    found(
        &late,
        Severity::Warning,
        Check::Nodes,
        "not been ready for 14 minutes, and shop/db and 1 more of its pods are on it",
    );
    assert!(one(&late).object == "Node ip-1" && one(&late).advice.contains("NodeRepair"), "{:?}", one(&late));
    let other = facts(node("2026-01-10T11:46:00Z", false), &[]);
    found(&other, Severity::Warning, Check::Nodes, "no pod is on it");
    assert!(one(&other).advice.contains("does not manage it"));
}

#[test]
fn nodes_that_lack_a_certificate_authority_are_counted() {
    let node = |name: &str, trusted: Option<&str>, class: &str| nodeless_model::Node {
        name: name.to_owned(),
        labels: [(labels::EC2_NODE_CLASS.to_owned(), class.to_owned())].into_iter().collect(),
        annotations: trusted.map(|it| (labels::CERTIFICATE_AUTHORITY.to_owned(), it.to_owned())).into_iter().collect(),
        ..nodeless_model::Node::default()
    };
    let mut facts = ready();
    facts.view.nodes = vec![
        node("ip-1", Some("1"), "default"),
        node("ip-2", Some("2"), "default"),
        node("ip-3", None, "default"),
        node("ip-4", Some("1"), "other"),
    ];
    assert_eq!(check(&facts), [], "the class states none");
    let class = facts.view.node_classes.get_mut("default").unwrap();
    let annotations = class.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::CERTIFICATE_AUTHORITY.to_owned(), "2.3".to_owned());
    facts.view.nodes[1].annotations.insert(labels::CERTIFICATE_AUTHORITY.to_owned(), "1.2.3".to_owned());
    found(&facts, Severity::Warning, Check::NodeClasses, "when it is activated: 1");
}
