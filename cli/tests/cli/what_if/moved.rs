//! What pods on node groups, EKS Auto Mode and Fargate would cost on NodePools.

use super::{HOURS, alternative, compared, dollars, empty, owned, text};
use crate::support::objects::Objects;
use serde_json::{Value, json};

/// A node of a managed node group, an m5.2xlarge.
fn node_group(objects: &mut Objects, name: &str, group: &str) {
    let node = objects.node(name, "m5.2xlarge", "on-demand");
    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|key, _| !key.starts_with("karpenter"));
    labels.insert("eks.amazonaws.com/nodegroup".to_owned(), json!(group));
    labels.insert("eks.amazonaws.com/capacityType".to_owned(), json!("ON_DEMAND"));
    let amounts = json!({ "cpu": "7910m", "memory": "30500Mi", "pods": "58" });
    (node["status"]["allocatable"], node["status"]["capacity"]) = (amounts.clone(), amounts);
}

fn month(price: f64) -> i64 {
    (price * HOURS).round() as i64
}

#[test]
fn a_node_group_without_node_pools_is_compared_with_an_assumed_one() {
    let mut objects = Objects::default();
    node_group(&mut objects, "ip-1", "ng");
    owned(objects.pod("a", Some("ip-1"), "500m"), "a");
    let report = compared(&objects, &[]);
    let moved = alternative(&report, "moved");
    assert_eq!(dollars(&report["today"]), month(0.384));
    assert!(dollars(moved) < month(0.384) / 2, "{moved:#}");
    assert_eq!(dollars(&moved["difference"]), dollars(moved) - month(0.384));
    let from = &moved["moved"]["from"][0];
    assert_eq!(
        (&from["origin"], &from["nodes"], &from["pods"]),
        (&json!({ "kind": "nodeGroup", "name": "ng" }), &json!(1), &json!(1))
    );
    assert_eq!(dollars(from), month(0.384));
    assert_eq!(moved["moved"]["stays"], json!([]));
    let shown = text(&objects, &[]);
    for expected in [
        "moved to NodePools: repacked, also for the pods of nodes that no NodePool manages\n",
        "  node group ng: 1 node with 1 pod, $280 a month\n",
        "  the input has no NodePool, so one is assumed: on-demand, amd64, instance categories c, m, r of generations above 2\n",
        "with spot: repacked, and every NodePool allows spot\n  no NodePool restricts karpenter.sh/capacity-type, so this is the same as repacked\n",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(shown.matches("the same nodes as today").count(), 1, "{shown}");
}

#[test]
fn a_node_with_a_pod_that_fits_no_node_pool_stays_with_the_reason() {
    let mut objects = empty();
    for name in ["ip-1", "ip-2"] {
        node_group(&mut objects, name, "ng");
    }
    owned(objects.pod("a", Some("ip-1"), "500m"), "a");
    let bound = objects.pod("b", Some("ip-2"), "500m");
    owned(bound, "b");
    bound["spec"]["nodeSelector"] = json!({ "eks.amazonaws.com/nodegroup": "ng" });
    let report = compared(&objects, &[]);
    let moved = alternative(&report, "moved");
    let stays = &moved["moved"]["stays"];
    assert_eq!((stays.as_array().unwrap().len(), &stays[0]["node"]), (1, &json!("ip-2")), "{moved:#}");
    assert_eq!(stays[0]["pods"][0]["pod"], "default/b");
    assert!(stays[0]["pods"][0]["reasons"].to_string().contains("eks.amazonaws.com/nodegroup"), "{stays:#}");
    // The other node is not needed: its pod fits on the one that stays.
    assert_eq!((dollars(moved), &moved["nodes"]), (month(0.384), &json!(1)), "{moved:#}");
    assert_eq!(moved["moved"]["assumed"], Value::Null);
    let shown = text(&objects, &[]);
    assert!(shown.contains("  ip-2 of node group ng stays for default/b: NodePool default: "), "{shown}");
    // In the other alternatives both stay.
    assert_eq!(alternative(&report, "repacked")["nodes"], 2);
}

#[test]
fn auto_mode_and_fargate_move_and_their_prices_are_not_invented() {
    let mut objects = empty();
    node_group(&mut objects, "i-auto", "x");
    let labels = objects.0.last_mut().unwrap()["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("eks.amazonaws.com/nodegroup");
    labels.insert("eks.amazonaws.com/compute-type".to_owned(), json!("auto"));
    node_group(&mut objects, "fargate-1", "x");
    let labels = objects.0.last_mut().unwrap()["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|key, _| key.starts_with("topology") || key.starts_with("kubernetes"));
    labels.insert("eks.amazonaws.com/compute-type".to_owned(), json!("fargate"));
    for (pod, node) in [("a", "i-auto"), ("f", "fargate-1")] {
        owned(objects.pod(pod, Some(node), "500m"), pod);
    }
    objects.0.last_mut().unwrap()["spec"]["schedulerName"] = json!("fargate-scheduler");
    let report = compared(&objects, &[]);
    let moved = alternative(&report, "moved");
    let origins: Vec<&Value> =
        moved["moved"]["from"].as_array().unwrap().iter().map(|one| &one["origin"]["kind"]).collect();
    assert_eq!(origins, ["autoMode", "fargate"]);
    assert_eq!(
        (&moved["moved"]["from"][1]["withoutPrice"], &moved["difference"]["kind"]),
        (&json!(1), &json!("atMost"))
    );
    assert!(moved["podsWithoutNode"].as_array().unwrap().is_empty() && dollars(moved) > 0, "{moved:#}");
    let shown = text(&objects, &[]);
    assert!(
        shown.contains("  Fargate: 1 node with 1 pod, $0 a month without 1 node whose price is unknown\n"),
        "{shown}"
    );
    assert!(shown.contains("the fee of EKS Auto Mode for each instance is not included"), "{shown}");
}
