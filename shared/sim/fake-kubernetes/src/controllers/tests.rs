//! The controllers together, on a clock that the tests advance.

mod autoscaling;
mod devices;
mod groups;
mod jobs;
mod nominations;
mod queue;
mod quotas;
mod scores;
mod sets;

use super::{Controllers, Machine};
use crate::server::resource::{
    DEPLOYMENTS, EVENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS,
    STATEFUL_SETS, STORAGE_CLASSES, VOLUME_ATTACHMENTS,
};
use crate::server::{ApiServer, CreateOptions, DeleteOptions, ListOptions, Options, PatchOptions, PatchType, Resource};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{Quantity, ResourceList, StringMap, Taint};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

struct Cluster {
    api: ApiServer,
    controllers: Controllers,
    clock: Arc<AtomicI64>,
}

impl Cluster {
    fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let read = clock.clone();
        let now = move || Timestamp::from_second(read.load(Ordering::SeqCst)).unwrap();
        let api = ApiServer::new(Options::with_clock(Arc::new(now))).unwrap();
        Self { api, controllers: Controllers::default(), clock }
    }

    fn with_nodes(names: &[&str]) -> Self {
        let mut cluster = Self::new();
        for (index, name) in names.iter().enumerate() {
            let zone = ["us-east-1a", "us-east-1b"][index % 2];
            cluster.start(name, &[("topology.kubernetes.io/zone", zone)], Vec::new());
        }
        cluster.run(5);
        cluster
    }

    fn start(&mut self, name: &str, labels: &[(&str, &str)], taints: Vec<Taint>) {
        let machine = Machine { taints, ..self.machine(name, labels) };
        self.controllers.kubelets.start(machine);
    }

    /// A machine that joins now.
    fn machine(&self, name: &str, labels: &[(&str, &str)]) -> Machine {
        let mut all = StringMap::from([("kubernetes.io/hostname".to_owned(), name.to_owned())]);
        all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let resources = ResourceList::from([
            ("cpu", Quantity::from_units(2)),
            ("memory", Quantity::from_mebibytes(4096)),
            ("pods", Quantity::from_units(10)),
        ]);
        Machine {
            name: name.to_owned(),
            provider_id: format!("aws:///us-east-1a/i-{name}"),
            internal_ip: "10.0.0.1".to_owned(),
            labels: all,
            taints: Vec::new(),
            capacity: resources.clone(),
            allocatable: resources,
            version: "v1.36.0".to_owned(),
            os_image: "Test".to_owned(),
            registers: self.now(),
            ready: self.now().saturating_add(SignedDuration::from_secs(2)).unwrap(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.clock.load(Ordering::SeqCst)).unwrap()
    }

    /// Advances time, and stops whenever something is due.
    fn run(&mut self, seconds: i64) {
        let end = self.clock.load(Ordering::SeqCst) + seconds;
        loop {
            self.controllers.converge(&self.api, self.now()).unwrap();
            let now = self.clock.load(Ordering::SeqCst);
            let next = self.controllers.next_wakeup().map_or(end, |next| next.as_second().max(now + 1));
            if now >= end {
                return;
            }
            self.clock.store(next.min(end), Ordering::SeqCst);
        }
    }

    fn create(&self, resource: &Resource, object: Value) {
        self.api.create(resource, object, &CreateOptions::default()).unwrap();
    }

    fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.api.list(resource, &ListOptions::namespace("default")).unwrap().items
    }

    fn get(&self, resource: &Resource, name: &str) -> Arc<Value> {
        let namespace = if resource.namespaced { "default" } else { "" };
        self.api.get(resource, namespace, name).unwrap()
    }

    fn patch(&self, resource: &Resource, name: &str, patch: &Value) {
        let namespace = if resource.namespaced { "default" } else { "" };
        let options = PatchOptions::default();
        self.api.patch(resource, namespace, name, None, PatchType::Merge, patch, &options).unwrap();
    }

    /// The nodes of the pods, in the order of the pods' names; empty for pods without a node.
    fn placed(&self) -> Vec<String> {
        self.list(&PODS).iter().map(|pod| super::object::text(pod, "/spec/nodeName").to_owned()).collect()
    }

    fn running(&self) -> usize {
        self.list(&PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }
}

fn spec(cpu: &str) -> Value {
    let requests = json!({ "cpu": cpu, "memory": "128Mi" });
    json!({ "containers": [{ "name": "main", "image": "pause:3.9", "resources": { "requests": requests } }] })
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app": "web" } }, "spec": spec(cpu) })
}

fn workload(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "replicas": replicas, "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": spec(cpu) },
    } })
}

#[test]
fn a_machine_registers_and_becomes_ready() {
    let mut cluster = Cluster::new();
    cluster.start("n1", &[], vec![Taint::unregistered()]);
    cluster.run(0);
    let taints = |cluster: &Cluster| -> Vec<String> {
        let node = cluster.get(&NODES, "n1");
        super::object::list(&node, "/spec/taints").iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(taints(&cluster), ["karpenter.sh/unregistered", "node.kubernetes.io/not-ready"]);
    cluster.run(2);
    assert!(super::object::is_true(&cluster.get(&NODES, "n1"), "Ready"));
    assert_eq!(taints(&cluster), ["karpenter.sh/unregistered"]);
}

#[test]
fn pods_are_spread_over_nodes_and_run() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&PODS, pod("a", "500m"));
    cluster.create(&PODS, pod("b", "500m"));
    cluster.run(0);
    assert_eq!(cluster.placed(), ["n1", "n2"]);
    assert_eq!(cluster.running(), 0);
    cluster.run(3);
    assert_eq!(cluster.running(), 2);
}

#[test]
fn an_unschedulable_pod_gets_one_event_with_the_reason() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.patch(&NODES, "n2", &json!({ "spec": { "unschedulable": true } }));
    cluster.create(&PODS, pod("big", "3"));
    cluster.run(5);
    let pod = cluster.get(&PODS, "big");
    let scheduled = super::object::condition(&pod, "PodScheduled").unwrap();
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.";
    assert_eq!((&scheduled["reason"], &scheduled["message"]), (&json!("Unschedulable"), &json!(message)));
    let events_of = |cluster: &Cluster| -> Vec<Arc<Value>> {
        cluster.list(&EVENTS).into_iter().filter(|event| event["reason"] == "FailedScheduling").collect()
    };
    assert_eq!(events_of(&cluster).len(), 1);
    assert_eq!((&events_of(&cluster)[0]["message"], &events_of(&cluster)[0]["count"]), (&json!(message), &json!(1)));
    cluster.run(300);
    assert_eq!(events_of(&cluster)[0]["count"], 2);
}

#[test]
fn pods_on_a_node_that_is_being_deleted_count_for_spread_constraints() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    for (node, zone) in [("n1", "a"), ("n2", "b"), ("n3", "a")] {
        cluster.patch(
            &NODES,
            node,
            &json!({ "metadata": { "labels": { "zone": zone }, "finalizers": ["test/stay"] } }),
        );
    }
    let on = |name: &str, node: Option<&str>| {
        let mut pod = pod(name, "100m");
        pod["spec"]["nodeName"] = json!(node);
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "web" } },
        }]);
        pod
    };
    cluster.create(&PODS, on("p1", Some("n1")));
    cluster.create(&PODS, on("p2", Some("n2")));
    for node in ["n1", "n3"] {
        cluster.patch(&NODES, node, &json!({ "spec": { "unschedulable": true } }));
    }
    cluster.api.delete(&NODES, "", "n1", &DeleteOptions::default()).unwrap();
    cluster.create(&PODS, on("p3", None));
    cluster.run(5);
    assert_eq!(cluster.placed(), ["n1", "n2", "n2"]);
}

#[test]
fn priority_comes_first() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&PODS, pod("a", "1500m"));
    let mut critical = pod("b", "1500m");
    critical["spec"]["priorityClassName"] = json!("system-cluster-critical");
    cluster.create(&PODS, critical);
    cluster.run(0);
    assert_eq!(cluster.placed(), ["", "n1"]);
}

#[test]
fn anti_affinity_and_zone_spread_are_kept() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    let selector = json!({ "matchLabels": { "app": "web" } });
    for name in ["a", "b", "c", "d"] {
        let mut lonely = pod(name, "10m");
        lonely["spec"]["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" },
        ] } });
        cluster.create(&PODS, lonely);
    }
    cluster.run(0);
    let placed = cluster.placed();
    assert_eq!(placed.iter().filter(|node| !node.is_empty()).collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(placed[3], "");
    let message = cluster.get(&PODS, "d")["status"]["conditions"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.");

    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    for name in ["a", "b", "c", "d", "e", "f"] {
        let mut spread = pod(name, "10m");
        spread["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }]);
        cluster.create(&PODS, spread);
    }
    cluster.run(0);
    assert_eq!(cluster.placed().iter().filter(|node| *node == "n2").count(), 3);
}

#[test]
fn a_volume_is_made_where_its_first_pod_goes_and_ties_the_next_one_to_that_zone() {
    let mut cluster = Cluster::new();
    cluster.start("n1", &[("topology.kubernetes.io/zone", "a")], Vec::new());
    cluster.start("n2", &[("topology.kubernetes.io/zone", "b")], Vec::new());
    cluster.run(2);
    let mut set = workload("db", 1, "100m");
    set["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": { "requests": { "storage": "1Gi" } } } }]);
    cluster.create(&STATEFUL_SETS, set);
    cluster.run(0);
    let why = |cluster: &Cluster| cluster.get(&PODS, "db-0")["status"]["conditions"][0]["message"].clone();
    assert_eq!(why(&cluster), "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
    cluster.create(
        &STORAGE_CLASSES,
        json!({ "metadata": { "name": "gp3" }, "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{ "matchLabelExpressions": [
                { "key": "topology.ebs.csi.aws.com/zone", "values": ["b"] }] }] }),
    );
    cluster.run(1);
    assert_eq!(cluster.placed(), ["n2"]);
    let claim = cluster.get(&PERSISTENT_VOLUME_CLAIMS, "data-db-0");
    assert_eq!(claim["status"]["phase"], "Bound");
    let volume = cluster.list(&PERSISTENT_VOLUMES);
    assert_eq!(claim["spec"]["volumeName"], volume[0]["metadata"]["name"]);
    let zone = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    assert_eq!(volume[0].pointer(zone), Some(&json!("b")));
    let attached = |cluster: &Cluster| {
        let attachments = cluster.list(&VOLUME_ATTACHMENTS);
        let of =
            |it: &Arc<Value>| (it["spec"]["nodeName"].clone(), it["spec"]["source"]["persistentVolumeName"].clone());
        attachments.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(attached(&cluster), [(json!("n2"), volume[0]["metadata"]["name"].clone())]);
    assert_eq!(cluster.list(&VOLUME_ATTACHMENTS)[0]["status"]["attached"], true);

    cluster.patch(&NODES, "n2", &json!({ "spec": { "unschedulable": true } }));
    let now = crate::DeleteOptions { grace_period_seconds: Some(0), ..crate::DeleteOptions::default() };
    cluster.api.delete(&PODS, "default", "db-0", &now).unwrap();
    cluster.run(7);
    assert_eq!(attached(&cluster).len(), 1, "detaching takes some seconds");
    cluster.run(1);
    assert_eq!(attached(&cluster), []);
    cluster.run(60);
    let message = "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable.";
    assert_eq!(why(&cluster), message);
}

#[test]
fn a_pod_with_a_node_name_runs_without_the_scheduler() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    let mut pinned = spec("100m");
    pinned["nodeName"] = json!("n1");
    cluster.create(&PODS, json!({ "metadata": { "name": "pinned" }, "spec": pinned }));
    cluster.run(5);
    let pod = cluster.get(&PODS, "pinned");
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(super::object::is_true(&pod, "PodScheduled") && super::object::is_true(&pod, "Ready"), "{pod}");
}

#[test]
fn the_pod_of_a_helm_test_completes() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    let mut once = spec("100m");
    once["restartPolicy"] = json!("Never");
    let metadata = json!({ "name": "web-test", "annotations": { "helm.sh/hook": "test" } });
    cluster.create(&PODS, json!({ "metadata": metadata, "spec": once }));
    cluster.run(30);
    assert_eq!(cluster.get(&PODS, "web-test")["status"]["phase"], "Succeeded");
}

#[test]
fn a_budget_counts_and_blocks() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&DEPLOYMENTS, workload("web", 2, "100m"));
    let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    cluster.create(&POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    cluster.run(5);
    let status = cluster.get(&POD_DISRUPTION_BUDGETS, "web")["status"].clone();
    assert_eq!((&status["disruptionsAllowed"], &status["currentHealthy"]), (&json!(1), &json!(2)));
    let names: Vec<String> = cluster.list(&PODS).iter().map(|pod| super::object::name(pod).to_owned()).collect();
    cluster.api.evict("default", &names[0], &DeleteOptions::default()).unwrap();
    cluster.run(0);
    let refused = cluster.api.evict("default", &names[1], &DeleteOptions::default()).unwrap_err();
    assert_eq!(refused.code, 429);
    cluster.run(10);
    cluster.api.evict("default", &names[1], &DeleteOptions::default()).unwrap();
}

#[test]
fn a_budget_knows_at_once_of_pods_that_were_deleted() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&DEPLOYMENTS, workload("web", 2, "100m"));
    let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    cluster.create(&POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    cluster.run(5);
    let names: Vec<String> = cluster.list(&PODS).iter().map(|pod| super::object::name(pod).to_owned()).collect();
    let options = DeleteOptions::default();
    // No controller runs in between.
    cluster.api.delete(&PODS, "default", &names[0], &options).unwrap();
    let status = cluster.get(&POD_DISRUPTION_BUDGETS, "web")["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 1, "what the disruption controller wrote last");
    assert_eq!(cluster.api.evict("default", &names[1], &options).unwrap_err().code, 429);
    cluster.api.evict("default", &names[0], &options).unwrap();
}

#[test]
fn a_lost_machine_takes_its_pods_along_in_the_end() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&DEPLOYMENTS, workload("web", 2, "100m"));
    let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    cluster.create(&POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    cluster.run(5);
    let allowed =
        |cluster: &Cluster| cluster.get(&POD_DISRUPTION_BUDGETS, "web")["status"]["disruptionsAllowed"].clone();
    assert_eq!(allowed(&cluster), 1);
    let now = cluster.now();
    cluster.controllers.kubelets.stop("n2");
    cluster.controllers.node_lifecycle.machine_stopped("n2", now);
    cluster.run(39);
    assert!(super::object::is_true(&cluster.get(&NODES, "n2"), "Ready"));
    cluster.run(2);
    let node = cluster.get(&NODES, "n2");
    assert_eq!(super::object::condition(&node, "Ready").unwrap()["status"], "Unknown");
    assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    assert_eq!(allowed(&cluster), 0, "its pod is not healthy any more, and the other one has to stay");
    let ready = cluster.list(&PODS).iter().filter(|pod| super::object::is_true(pod, "Ready")).count();
    assert_eq!((ready, cluster.running()), (1, 2));
    // Tolerated for five minutes, then replaced elsewhere; no kubelet confirms the deletion of the old one.
    cluster.run(310);
    assert_eq!(cluster.running(), 3);
    cluster.controllers.node_lifecycle.instance_terminated("aws:///us-east-1a/i-n2", now);
    cluster.run(60);
    assert!(cluster.api.get(&NODES, "", "n2").is_err());
    assert_eq!(cluster.placed(), ["n1", "n1"]);
}

#[test]
fn rest_costs_nothing_and_two_runs_are_alike() {
    let once = || {
        let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
        cluster.create(&DEPLOYMENTS, workload("web", 5, "100m"));
        cluster.run(60);
        cluster
    };
    let mut cluster = once();
    let before = cluster.api.revision();
    cluster.run(3_000);
    assert_eq!(cluster.api.revision(), before);
    // Only its Events expire.
    let events = cluster.list(&EVENTS).len();
    cluster.run(700);
    assert_eq!(cluster.api.revision(), before + u64::try_from(events).unwrap());
    assert!(events > 0 && cluster.list(&EVENTS).is_empty());
    let (one, two) = (cluster.list(&PODS), once().list(&PODS));
    assert_eq!(one, two);
}
