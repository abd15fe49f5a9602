//! Expected values are those of kube-scheduler's own tests where a test names them, and otherwise computed by its formulas.

use super::resources::{balanced_allocation, least_allocated};
use super::{Cluster, NodeInfo, PodInfo, affinity, images, scores, spread};
use crate::controllers::scheduler::devices::Devices;
use crate::controllers::scheduler::volumes::Storage;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn node(cpu: &str, memory: &str) -> NodeInfo {
    let status = json!({ "allocatable": { "cpu": cpu, "memory": memory } });
    NodeInfo::new(&json!({ "metadata": { "name": "a" }, "status": status })).unwrap()
}

fn asking(requests: &Value) -> PodInfo {
    let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
    PodInfo::new(&json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } })).unwrap()
}

/// A pod in the namespace `default` with a label, and these fields of its spec.
fn pod(app: &str, spec: &Value) -> PodInfo {
    let metadata = json!({ "name": "p", "namespace": "default", "labels": { "app": app } });
    PodInfo::new(&json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// Nodes in zones, each with a number of pods of the app `web`.
fn cluster(nodes: &[(&str, usize)]) -> Cluster {
    let nodes = nodes.iter().enumerate().map(|(index, (zone, pods))| {
        let mut labels = json!({ "kubernetes.io/hostname": format!("n{index}") });
        if !zone.is_empty() {
            labels["topology.kubernetes.io/zone"] = json!(zone);
        }
        let metadata = json!({ "name": format!("n{index}"), "labels": labels });
        let mut node = NodeInfo::new(&json!({ "metadata": metadata })).unwrap();
        (0..*pods).for_each(|_| node.add(Arc::new(pod("web", &json!({})))));
        node
    });
    Cluster {
        nodes: nodes.collect(),
        namespaces: BTreeMap::new(),
        storage: Storage::default(),
        devices: Devices::default(),
        refused: BTreeSet::new(),
    }
}

/// The scores of a plugin for all nodes, or those of these indices.
fn plugin_scores(
    plugin: fn(&Cluster, &PodInfo, &[&NodeInfo]) -> Vec<i64>,
    cluster: &Cluster,
    pod: &PodInfo,
) -> Vec<i64> {
    plugin(cluster, pod, &cluster.nodes.iter().collect::<Vec<_>>())
}

fn soft(key: &str, max_skew: i64) -> Value {
    let selector = json!({ "matchLabels": { "app": "web" } });
    json!({ "topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector })
}

fn spreading(constraints: &[Value]) -> PodInfo {
    pod("web", &json!({ "topologySpreadConstraints": constraints }))
}

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn least_allocated_is_the_mean_of_what_is_left() {
    assert_eq!(least_allocated(&asking(&json!({ "cpu": "1", "memory": "1Gi" })), &node("4", "2Gi")), 62);
    assert_eq!(least_allocated(&asking(&json!({})), &node("1", "400Mi")), 70, "100m and 200Mi by default");
    assert_eq!(least_allocated(&asking(&json!({ "cpu": "1" })), &node("4", "0")), 75, "memory has no weight");
}

#[test]
fn a_pod_that_evens_out_the_fractions_is_preferred() {
    let used = Arc::new(asking(&json!({ "cpu": "2" })));
    let mut uneven = node("4", "4Gi");
    uneven.add(used);
    let evens = asking(&json!({ "memory": "2Gi" }));
    assert_eq!(balanced_allocation(&evens, &uneven), 87, "75 without it, 100 with it");
    assert_eq!(balanced_allocation(&evens, &node("4", "4Gi")), 62, "100 without it, 75 with it");
    assert_eq!(balanced_allocation(&asking(&json!({})), &uneven), 0, "a pod without requests is not scored");
    let truncated = asking(&json!({ "cpu": "680m" }));
    assert_eq!(
        balanced_allocation(&truncated, &node("1", "1Gi")),
        57,
        "(1 - 0.34) * 100 is below 66 in floating point"
    );
}

/// Cases of `podtopologyspread/scoring_test.go` with one constraint over the host name.
#[test]
fn pods_are_spread_as_in_kube_scheduler() {
    let by_host = |counts: &[usize], max_skew| {
        let nodes: Vec<(&str, usize)> = counts.iter().map(|count| ("z", *count)).collect();
        plugin_scores(spread::scores, &cluster(&nodes), &spreading(&[soft(HOST, max_skew)]))
    };
    assert_eq!(by_host(&[0, 0], 1), [100, 100]);
    assert_eq!(by_host(&[1, 1], 1), [100, 100]);
    assert_eq!(by_host(&[2, 1, 0, 3], 1), [20, 60, 100, 0]);
    assert_eq!(by_host(&[2, 1, 0, 3], 2), [33, 66, 100, 16]);
    assert_eq!(by_host(&[4, 3, 2, 1], 3), [44, 66, 77, 100]);
}

#[test]
fn a_spread_counts_the_pods_of_nodes_that_are_not_feasible_and_only_soft_constraints() {
    let cluster = cluster(&[("a", 0), ("a", 4), ("b", 1), ("", 0)]);
    let feasible = [&cluster.nodes[0], &cluster.nodes[2], &cluster.nodes[3]];
    let zoned = spreading(&[soft(ZONE, 1)]);
    // Zone a has 4 pods, b has 1: round(4 ln 4) = 6, round(ln 4) = 1.
    assert_eq!(spread::scores(&cluster, &zoned, &feasible), [16, 100, 0], "a node without the label gets 0");
    let mut hard = soft(ZONE, 1);
    hard["whenUnsatisfiable"] = json!("DoNotSchedule");
    assert_eq!(spread::scores(&cluster, &spreading(&[hard]), &feasible), [0, 0, 0], "the plugin is skipped");
    let mut everything = soft(ZONE, 1);
    everything["labelSelector"] = json!({});
    let without_nodes_that_lack_the_label = [feasible[0], feasible[1]];
    assert_eq!(
        spread::scores(&cluster, &spreading(&[everything]), &without_nodes_that_lack_the_label),
        [100, 100],
        "an empty selector counts no pods"
    );
}

#[test]
fn default_constraints_need_no_labels() {
    let cluster = cluster(&[("a", 3), ("b", 0), ("", 0)]);
    let mut web = pod("web", &json!({}));
    assert_eq!(plugin_scores(spread::scores, &cluster, &web), [0, 0, 0], "there are none");
    web.default_spread = spreading(&[soft(HOST, 3), soft(ZONE, 5)]).topology_spread;
    // Logarithms of 3 hosts and 3 zones, one of which is no zone, and 2: 3 ln 5 + 2 + 3 ln 5 + 4 = 15.66; 2 + 4 = 6; 2.
    assert_eq!(plugin_scores(spread::scores, &cluster, &web), [12, 75, 100]);
}

fn prefers(kind: &str, weight: i64, key: &str, app: &str) -> Value {
    let term = json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } });
    let preferred = json!([{ "weight": weight, "podAffinityTerm": term }]);
    json!({ "affinity": { kind: { "preferredDuringSchedulingIgnoredDuringExecution": preferred } } })
}

#[test]
fn preferences_of_the_pod_for_others_are_summed_by_domain() {
    let cluster = cluster(&[("a", 1), ("a", 0), ("b", 3), ("", 2)]);
    let near = pod("db", &prefers("podAffinity", 10, ZONE, "web"));
    assert_eq!(plugin_scores(affinity::scores, &cluster, &near), [33, 33, 100, 0]);
    let apart = pod("db", &prefers("podAntiAffinity", 10, ZONE, "web"));
    assert_eq!(plugin_scores(affinity::scores, &cluster, &apart), [66, 66, 0, 100]);
    let elsewhere = pod("db", &prefers("podAffinity", 10, ZONE, "other"));
    assert_eq!(plugin_scores(affinity::scores, &cluster, &elsewhere), [0, 0, 0, 0], "equal scores are 0");
}

#[test]
fn preferences_and_requirements_of_others_for_the_pod_count_too() {
    let mut cluster = cluster(&[("a", 0), ("b", 0), ("c", 0)]);
    let mut required = prefers("podAffinity", 1, ZONE, "db");
    let terms = required["affinity"]["podAffinity"].as_object_mut().unwrap();
    let term = terms.remove("preferredDuringSchedulingIgnoredDuringExecution").unwrap()[0]["podAffinityTerm"].clone();
    terms.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!([term]));
    cluster.nodes[0].add(Arc::new(pod("web", &required)));
    cluster.nodes[1].add(Arc::new(pod("web", &prefers("podAffinity", 4, ZONE, "db"))));
    cluster.nodes[2].add(Arc::new(pod("web", &prefers("podAntiAffinity", 4, ZONE, "db"))));
    let db = pod("db", &json!({}));
    assert_eq!(plugin_scores(affinity::scores, &cluster, &db), [62, 100, 0], "1, 4 and -4");
}

#[test]
fn images_score_by_size_and_by_how_many_nodes_have_them() {
    let having = |name: &str, images: Value| {
        NodeInfo::new(&json!({ "metadata": { "name": name }, "status": { "images": images } })).unwrap()
    };
    let large = json!([{ "names": ["app:latest", "app@sha256:0"], "sizeBytes": 500 << 20 }]);
    let nodes = vec![having("a", large), having("b", json!([]))];
    let cluster = Cluster {
        nodes,
        namespaces: BTreeMap::new(),
        storage: Storage::default(),
        devices: Devices::default(),
        refused: BTreeSet::new(),
    };
    let with = |image: &str| pod("web", &json!({ "containers": [{ "name": "c", "image": image }] }));
    assert_eq!(plugin_scores(images::scores, &cluster, &with("app")), [23, 0], "(250 - 23) of (1000 - 23) MiB");
    assert_eq!(plugin_scores(images::scores, &cluster, &with("app@sha256:0")), [23, 0]);
    assert_eq!(plugin_scores(images::scores, &cluster, &with("app:v2")), [0, 0], "another tag");
    assert_eq!(plugin_scores(images::scores, &cluster, &with("127.0.0.1:5000/app")), [0, 0], "a port is not a tag");
}

#[test]
fn the_scores_are_weighted() {
    let cluster = cluster(&[("a", 1), ("b", 0)]);
    let near = pod("db", &prefers("podAffinity", 10, ZONE, "web"));
    let of = |pod: &PodInfo| scores(&cluster, pod, &[0, 1]);
    let [with, without] = [of(&near), of(&pod("db", &json!({})))].map(|scores| scores[0] - scores[1]);
    assert_eq!(with - without, 200, "InterPodAffinity has the weight 2");
    let spreads = of(&spreading(&[soft(ZONE, 1)]));
    assert_eq!(spreads[1] - spreads[0], 200, "PodTopologySpread has the weight 2");
}
