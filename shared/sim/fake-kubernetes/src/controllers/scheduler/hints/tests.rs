//! The plugins that a change may help.

use super::{Event, events};
use crate::controllers::scheduler::info::PodInfo;
use crate::controllers::scheduler::queue::Plugin;
use crate::server::resource::{
    NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource,
    STORAGE_CLASSES,
};
use crate::server::{Change, ChangeKind};
use serde_json::{Value, json};
use std::sync::Arc;

const PLUGINS: [Plugin; 9] = [
    Plugin::NodeUnschedulable,
    Plugin::TaintToleration,
    Plugin::NodeAffinity,
    Plugin::NodePorts,
    Plugin::NodeResourcesFit,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::VolumeBinding,
    Plugin::DynamicResources,
];
const ZONE: &str = "topology.kubernetes.io/zone";

/// The plugins whose rejection of a pod a change from one object to another may have ended.
fn helped(pod: &Value, resource: Resource, old: Option<&Value>, new: Option<&Value>) -> Vec<Plugin> {
    let kind = match (old, new) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    let object = Arc::new(new.or(old).unwrap().clone());
    let previous = old.cloned().map(Arc::new);
    let change = Change { revision: 1, kind, resource, object, previous, user: None, encoded: Arc::default() };
    let (events, pod) = (events(&change), PodInfo::new(pod).unwrap());
    let helped = |plugin: &Plugin| events.iter().any(|event: &Event| event.may_help(*plugin, &pod));
    PLUGINS.into_iter().filter(helped).collect()
}

/// A node of two CPUs in the zone `a`.
fn node(change: impl Fn(&mut Value)) -> Value {
    let mut node = json!({
        "metadata": { "name": "n1", "labels": { ZONE: "a" } },
        "spec": {}, "status": { "allocatable": { "cpu": "2", "pods": "10" } },
    });
    change(&mut node);
    node
}

/// A pod that every plugin may reject: with requests, a node selector, a host port, a spread constraint, affinity and a volume.
fn pod(name: &str, change: impl Fn(&mut Value)) -> Value {
    let term = |app: &str| json!([{ "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": app } } }]);
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
        "spec": {
            "containers": [{
                "name": "main", "ports": [{ "containerPort": 80, "hostPort": 80 }],
                "resources": { "requests": { "cpu": "1" } },
            }],
            "nodeSelector": { ZONE: "a" },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": "web" } },
            }],
            "affinity": {
                "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term("cache") },
                "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term("batch") },
            },
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        },
        "status": { "phase": "Pending" },
    });
    change(&mut pod);
    pod
}

/// A bound pod with this value of the label `app`.
fn bound(app: &str) -> Value {
    json!({
        "metadata": { "name": app, "namespace": "default", "labels": { "app": app } },
        "spec": { "nodeName": "n1", "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }] },
        "status": { "phase": "Running" },
    })
}

fn same(_: &mut Value) {}

#[test]
fn a_new_node_helps_the_plugins_that_accept_it() {
    let added = |node: &Value| helped(&pod("a", same), NODES, None, Some(node));
    let every_time = [Plugin::NodePorts, Plugin::InterPodAffinity, Plugin::VolumeBinding, Plugin::DynamicResources];
    let suitable = added(&node(same));
    let not = |plugin| PLUGINS.into_iter().filter(|it| *it != plugin).collect::<Vec<_>>();
    assert_eq!(suitable, PLUGINS);
    let tainted = node(|it| it["spec"]["taints"] = json!([{ "key": "new", "effect": "NoSchedule" }]));
    assert_eq!(added(&tainted), not(Plugin::TaintToleration));
    let cordoned = node(|it| it["spec"]["unschedulable"] = json!(true));
    assert_eq!(added(&cordoned), not(Plugin::NodeUnschedulable));
    let small = node(|it| it["status"]["allocatable"]["cpu"] = json!("500m"));
    assert_eq!(added(&small), not(Plugin::NodeResourcesFit));
    let elsewhere = node(|it| it["metadata"]["labels"][ZONE] = json!("b"));
    assert_eq!(added(&elsewhere), not(Plugin::NodeAffinity));
    let nowhere = added(&node(|it| it["metadata"]["labels"] = json!({})));
    assert!(every_time.iter().all(|plugin| nowhere.contains(plugin)), "{nowhere:?}");
    assert!(!nowhere.contains(&Plugin::PodTopologySpread), "{nowhere:?}");
}

#[test]
fn a_new_node_does_not_help_a_pod_that_only_others_repel() {
    let plain = pod("a", |it| it["spec"]["affinity"] = json!({}));
    assert!(!helped(&plain, NODES, None, Some(&node(same))).contains(&Plugin::InterPodAffinity));
}

#[test]
fn a_changed_node_helps_the_plugins_that_rejected_it_before() {
    let changed = |old: &Value, new: &Value| helped(&pod("a", same), NODES, Some(old), Some(new));
    assert!(changed(&node(same), &node(|it| it["status"]["conditions"] = json!([]))).is_empty());
    let tainted = node(|it| it["spec"]["taints"] = json!([{ "key": "new", "effect": "NoSchedule" }]));
    assert_eq!(changed(&tainted, &node(same)), [Plugin::TaintToleration, Plugin::PodTopologySpread]);
    assert_eq!(changed(&node(same), &tainted), [Plugin::PodTopologySpread]);
    let cordoned = node(|it| it["spec"]["unschedulable"] = json!(true));
    assert_eq!(changed(&cordoned, &node(same)), [Plugin::NodeUnschedulable]);
    let small = node(|it| it["status"]["allocatable"]["cpu"] = json!("500m"));
    assert_eq!(changed(&small, &node(same)), [Plugin::NodeResourcesFit]);
    assert!(changed(&node(same), &small).is_empty());
    let larger = node(|it| it["status"]["allocatable"]["memory"] = json!("1Gi"));
    assert!(changed(&node(same), &larger).is_empty(), "the pod requests no memory");
    let unlabelled = node(|it| it["metadata"]["labels"] = json!({}));
    let of_labels = [
        Plugin::NodeAffinity,
        Plugin::PodTopologySpread,
        Plugin::InterPodAffinity,
        Plugin::VolumeBinding,
        Plugin::DynamicResources,
    ];
    assert_eq!(changed(&unlabelled, &node(same)), of_labels);
    assert_eq!(changed(&node(same), &unlabelled), &of_labels[1..]);
    let labelled = node(|it| it["metadata"]["labels"]["other"] = json!("label"));
    assert_eq!(changed(&node(same), &labelled), [Plugin::VolumeBinding, Plugin::DynamicResources]);
}

#[test]
fn devices_help_the_pods_that_claim_them() {
    let waits = pod("a", |it| it["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "own" }]));
    let claim =
        |name: &str, status: Value| json!({ "metadata": { "name": name, "namespace": "default" }, "status": status });
    let allocated = |name: &str| claim(name, json!({ "allocation": {} }));
    let devices = [Plugin::DynamicResources];
    assert_eq!(helped(&waits, RESOURCE_CLAIMS, None, Some(&claim("own", json!({})))), devices);
    assert!(helped(&waits, RESOURCE_CLAIMS, None, Some(&claim("other", json!({})))).is_empty());
    let free = claim("other", json!({}));
    assert_eq!(helped(&waits, RESOURCE_CLAIMS, Some(&allocated("other")), Some(&free)), devices);
    assert!(helped(&waits, RESOURCE_CLAIMS, Some(&free), Some(&allocated("other"))).is_empty());
    let slice = json!({ "metadata": { "name": "n1-gpu" }, "spec": {} });
    assert_eq!(helped(&waits, RESOURCE_SLICES, None, Some(&slice)), devices);
    assert!(helped(&waits, RESOURCE_SLICES, Some(&slice), None).is_empty());
}

#[test]
fn a_deleted_node_helps_spread_constraints_alone() {
    assert_eq!(helped(&pod("a", same), NODES, Some(&node(same)), None), [Plugin::PodTopologySpread]);
}

#[test]
fn a_bound_pod_helps_those_that_it_attracts_or_that_count_it() {
    let waits = pod("a", same);
    let bind = |app: &str| {
        let mut waiting = bound(app);
        waiting["spec"]["nodeName"] = json!("");
        helped(&waits, PODS, Some(&waiting), Some(&bound(app)))
    };
    assert_eq!(bind("cache"), [Plugin::InterPodAffinity]);
    assert_eq!(bind("web"), [Plugin::PodTopologySpread]);
    assert!(bind("batch").is_empty() && bind("other").is_empty());
    assert_eq!(helped(&waits, PODS, None, Some(&bound("web"))), [Plugin::PodTopologySpread]);
}

#[test]
fn a_deleted_or_ended_pod_helps_those_that_it_was_in_the_way_of() {
    let waits = pod("a", same);
    let delete = |other: &Value| helped(&waits, PODS, Some(other), None);
    assert_eq!(delete(&bound("other")), [Plugin::NodeResourcesFit]);
    assert_eq!(delete(&bound("web")), [Plugin::NodeResourcesFit, Plugin::PodTopologySpread]);
    assert_eq!(delete(&bound("batch")), [Plugin::NodeResourcesFit, Plugin::InterPodAffinity]);
    let twin = pod("b", |it| it["spec"]["nodeName"] = json!("n1"));
    let both = [Plugin::NodePorts, Plugin::NodeResourcesFit, Plugin::PodTopologySpread];
    assert_eq!(delete(&twin), both);
    let mut ended = bound("other");
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(helped(&waits, PODS, Some(&bound("other")), Some(&ended)), [Plugin::NodeResourcesFit]);
    assert!(delete(&ended).is_empty(), "it ended before");
    let mut waiting = bound("other");
    waiting["spec"]["nodeName"] = json!("");
    assert!(delete(&waiting).is_empty(), "it was not bound");
}

#[test]
fn a_changed_bound_pod_helps_by_its_labels_and_by_smaller_requests() {
    let change = |old: &Value, new: &Value| helped(&pod("a", same), PODS, Some(old), Some(new));
    let relabelled = |app: &str| {
        let mut pod = bound("other");
        pod["metadata"]["labels"]["app"] = json!(app);
        pod
    };
    assert_eq!(change(&bound("other"), &relabelled("cache")), [Plugin::InterPodAffinity]);
    assert_eq!(change(&relabelled("batch"), &bound("other")), [Plugin::InterPodAffinity]);
    assert_eq!(change(&relabelled("web"), &bound("other")), [Plugin::PodTopologySpread]);
    assert!(change(&bound("other"), &relabelled("batch")).is_empty());
    let mut smaller = bound("other");
    smaller["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
    assert_eq!(change(&bound("other"), &smaller), [Plugin::NodeResourcesFit]);
    assert!(change(&smaller, &bound("other")).is_empty());
}

#[test]
fn a_pod_is_helped_by_its_own_labels_tolerations_and_requests_but_not_by_a_nomination() {
    let change = |waits: &str, new: &dyn Fn(&mut Value)| {
        let old = pod("a", same);
        helped(&pod(waits, same), PODS, Some(&old), Some(&pod("a", new)))
    };
    let relabel = |it: &mut Value| it["metadata"]["labels"]["app"] = json!("other");
    assert_eq!(change("a", &relabel), [Plugin::PodTopologySpread, Plugin::InterPodAffinity]);
    assert!(change("b", &relabel).is_empty(), "the labels of another pod that waits");
    let tolerate = |it: &mut Value| it["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    assert_eq!(change("a", &tolerate), [Plugin::NodeUnschedulable, Plugin::TaintToleration]);
    let shrink = |it: &mut Value| it["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
    assert_eq!(change("a", &shrink), [Plugin::NodeResourcesFit]);
    assert!(change("a", &|it| it["status"]["nominatedNodeName"] = json!("n1")).is_empty());
    assert!(change("a", &|it| it["metadata"]["annotations"] = json!({ "a": "b" })).is_empty());
}

#[test]
fn a_removed_nomination_helps_pods_of_no_higher_priority() {
    let of = |priority: i64| {
        let nominated = pod("b", |it| {
            it["spec"]["priority"] = json!(5);
            it["status"]["nominatedNodeName"] = json!("n1");
        });
        let waits = pod("a", |it| it["spec"]["priority"] = json!(priority));
        let cleared = pod("b", |it| it["spec"]["priority"] = json!(5));
        [Some(&cleared), None].map(|new| helped(&waits, PODS, Some(&nominated), new))
    };
    let both = vec![Plugin::NodePorts, Plugin::NodeResourcesFit, Plugin::PodTopologySpread];
    assert_eq!(of(5), [both.clone(), both]);
    assert_eq!(of(6), [vec![], vec![]]);
}

#[test]
fn volumes_help_volume_binding() {
    let waits = pod("a", same);
    let by = |resource, old: Option<&Value>, new: &Value| helped(&waits, resource, old, Some(new));
    let claim = |name: &str| json!({ "metadata": { "name": name, "namespace": "default" } });
    assert_eq!(by(PERSISTENT_VOLUME_CLAIMS, None, &claim("data")), [Plugin::VolumeBinding]);
    assert!(by(PERSISTENT_VOLUME_CLAIMS, None, &claim("other")).is_empty());
    let named = json!({ "metadata": { "name": "any" } });
    assert_eq!(by(PERSISTENT_VOLUMES, None, &named), [Plugin::VolumeBinding]);
    assert_eq!(by(STORAGE_CLASSES, None, &named), [Plugin::VolumeBinding]);
    assert!(by(STORAGE_CLASSES, Some(&named), &named).is_empty());
    let mut topologies = named.clone();
    topologies["allowedTopologies"] = json!([]);
    assert_eq!(by(STORAGE_CLASSES, Some(&named), &topologies), [Plugin::VolumeBinding]);
}
