//! Measures the live view of a large cluster: `cargo run --release -p nodeless-view --example large [NODES PODS]`.
//!
//! Prints the time of decoding all objects, of making one picture, of making the lines of the table, and of JSON. The figures
//! in docs/benchmarks/README.md come from here.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use nodeless_catalog::Catalog;
use nodeless_view::{Cluster, Object, Picture, Screen, ShownKind, Update, table};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TYPES: [&str; 5] = ["m5.large", "m5.xlarge", "c5.2xlarge", "r5.xlarge", "m6i.4xlarge"];

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (nodes, pods) = (numbers.next().unwrap_or(5_000), numbers.next().unwrap_or(100_000));
    let objects = objects(nodes, pods);
    let mut cluster = Cluster::default();
    let decoding = once(|| {
        for (kind, namespace, name, json) in &objects {
            let object = Object::decode(*kind, json);
            assert!(object.is_ok(), "{object:?}");
            let (kind, namespace, name) = (*kind, namespace.clone(), name.clone());
            cluster.apply(Update::Present { kind, namespace, name, object });
        }
    });
    let catalog = Catalog::embedded().unwrap();
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let picture = Picture::new(&cluster, &catalog, now);
    assert_eq!((picture.totals.nodes, picture.totals.pods + picture.totals.pending_pods), (nodes, pods));
    println!("{nodes} nodes, {pods} pods");
    println!("decoding all objects   {decoding:>10.1?}");
    println!("making a picture       {:>10.1?}", median(|| drop(Picture::new(&cluster, &catalog, now))));
    let screen = Screen::default();
    println!("the lines of the table {:>10.1?}", median(|| drop(table::body(&picture, &screen, 160))));
    println!("JSON                   {:>10.1?}", median(|| drop(serde_json::to_string(&picture).unwrap())));
}

fn once(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..11).map(|_| once(&mut work)).collect();
    times.sort_unstable();
    times[5]
}

fn objects(nodes: usize, pods: usize) -> Vec<(ShownKind, String, String, String)> {
    let named =
        |kind, namespace: &str, name: String, object: Value| (kind, namespace.to_owned(), name, object.to_string());
    let node_name =
        |index: usize| format!("ip-10-{}-{}-{}.ec2.internal", index / 65_536, index / 256 % 256, index % 256);
    let mut all = Vec::new();
    for index in 0..nodes {
        let name = node_name(index);
        let claim = format!("default-{index:05}");
        let labels = json!({
            "karpenter.sh/nodepool": format!("pool-{}", index % 20), "karpenter.sh/capacity-type": "spot",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "node.kubernetes.io/instance-type": TYPES[index % TYPES.len()], "karpenter.sh/initialized": "true",
            "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"
        });
        let ready = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" }]);
        let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "58" });
        let status = json!({ "allocatable": resources, "capacity": resources, "conditions": ready });
        let metadata =
            json!({ "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels });
        all.push(named(ShownKind::Node, "", name.clone(), json!({ "metadata": metadata, "status": status })));
        let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Consolidatable"]
            .map(|kind| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:01:00Z" }))
            .to_vec();
        let metadata = json!({ "name": claim, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels });
        let status = json!({ "nodeName": name, "conditions": conditions });
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        let spec = json!({ "expireAfter": "720h", "nodeClassRef": class });
        all.push(named(
            ShownKind::NodeClaim,
            "",
            claim,
            json!({ "metadata": metadata, "spec": spec, "status": status }),
        ));
    }
    for index in 0..pods {
        let (name, namespace) = (format!("web-7d4b9c6f5-{index:06}"), format!("team-{}", index % 50));
        let node = (index % 100 != 0).then(|| node_name(index % nodes.max(1)));
        let object = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "app": "web", "pod-template-hash": "7d4b9c6f5", "team": namespace }
            },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "250m", "memory": "512Mi" } } }],
                "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" }]
            },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" } }
        });
        all.push(named(ShownKind::Pod, &namespace, name, object));
    }
    all
}
