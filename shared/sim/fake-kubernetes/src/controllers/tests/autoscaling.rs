//! HorizontalPodAutoscalers.

use super::{Cluster, spec, workload};
use crate::controllers::object::{condition, int, list, text};
use crate::server::metrics::USAGE;
use crate::server::resource::{DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS};
use serde_json::{Value, json};

fn autoscaler(minimum: i64, maximum: i64) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "minReplicas": minimum, "maxReplicas": maximum,
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } } })
}

fn replicas(cluster: &Cluster) -> i64 {
    int(&cluster.get(&DEPLOYMENTS, "web"), "/spec/replicas").unwrap()
}

/// The status and the reason of a condition.
fn state(cluster: &Cluster, kind: &str) -> String {
    let autoscaler = cluster.get(&HORIZONTAL_POD_AUTOSCALERS, "web");
    condition(&autoscaler, kind)
        .map_or_else(String::new, |it| format!("{} {}", text(it, "/status"), text(it, "/reason")))
}

#[test]
fn replicas_stay_within_the_bounds() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    let mut web = workload("web", 1, "100m");
    web["spec"]["template"]["metadata"]["annotations"] = json!({ USAGE: "10%" });
    cluster.create(&DEPLOYMENTS, web);
    cluster.create(&HORIZONTAL_POD_AUTOSCALERS, autoscaler(2, 4));
    cluster.run(0);
    assert_eq!((replicas(&cluster), state(&cluster, "AbleToScale")), (2, "True SucceededRescale".to_owned()));
    cluster.run(60);
    // 10% of the requests are used, and 80% are the target: one replica would do.
    assert_eq!((replicas(&cluster), cluster.running()), (2, 2));
    assert_eq!(state(&cluster, "ScalingActive"), "True ValidMetricFound");
    assert_eq!(state(&cluster, "ScalingLimited"), "True TooFewReplicas");
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 9 } }));
    cluster.run(15);
    assert_eq!(replicas(&cluster), 4);
    let reasons: Vec<String> = cluster.list(&EVENTS).iter().map(|event| text(event, "/message").to_owned()).collect();
    for reason in ["New size: 2; reason: Current number of replicas below Spec.MinReplicas", "above Spec.MaxReplicas"] {
        assert!(reasons.iter().any(|message| message.contains(reason)), "{reason}: {reasons:?}");
    }
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
    cluster.run(15);
    assert_eq!((replicas(&cluster), state(&cluster, "ScalingActive")), (0, "False ScalingDisabled".to_owned()));
}

#[test]
fn replicas_follow_the_usage() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    let mut web = workload("web", 1, "100m");
    web["spec"]["template"]["metadata"]["annotations"] = json!({ USAGE: "200%" });
    cluster.create(&DEPLOYMENTS, web);
    cluster.run(10);
    cluster.create(&HORIZONTAL_POD_AUTOSCALERS, autoscaler(1, 9));
    cluster.run(0);
    // 200 / 80 of one replica.
    assert_eq!(replicas(&cluster), 3);
    let autoscaler = cluster.get(&HORIZONTAL_POD_AUTOSCALERS, "web");
    let current = &list(&autoscaler, "/status/currentMetrics")[0]["resource"]["current"];
    assert_eq!(current, &json!({ "averageUtilization": 200, "averageValue": "200m" }));
    cluster.run(120);
    assert_eq!((replicas(&cluster), state(&cluster, "ScalingLimited")), (9, "True TooManyReplicas".to_owned()));
    // Fewer replicas are recommended at once, and applied after five minutes.
    cluster.patch(
        &DEPLOYMENTS,
        "web",
        &json!({ "spec": { "template": { "metadata": { "annotations": { USAGE: "10%" } } } } }),
    );
    cluster.run(120);
    assert_eq!((replicas(&cluster), state(&cluster, "AbleToScale")), (9, "True ScaleDownStabilized".to_owned()));
    cluster.run(360);
    assert_eq!(replicas(&cluster), 2);
}

#[test]
fn what_cannot_be_computed_changes_nothing() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    let mut web = workload("web", 3, "100m");
    web["spec"]["template"]["spec"] = spec("100m");
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    cluster.create(&HORIZONTAL_POD_AUTOSCALERS, autoscaler(1, 5));
    cluster.run(0);
    assert_eq!(state(&cluster, "AbleToScale"), "False FailedGetScale");
    cluster.create(&DEPLOYMENTS, web);
    cluster.run(30);
    assert_eq!((replicas(&cluster), state(&cluster, "ScalingActive")), (3, "False FailedGetResourceMetric".to_owned()));
    let events = cluster.list(&EVENTS);
    let message = "missing request for cpu in container main of Pod web-";
    assert!(events.iter().any(|event| text(event, "/message").contains(message)), "{events:?}");
}
