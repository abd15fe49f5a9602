//! The mixes of pods: those of the library, and some with other constraints.

use nodeless_model::pod::VolumeClaim;
use nodeless_model::{CapacityType, DaemonSet, Pod, Requirement, Requirements, labels};
use nodeless_workloads::build::{daemon_set, five_daemon_sets, labelled, near, pod};
use nodeless_workloads::catalog::ZONES;
use nodeless_workloads::{Draw, Mix, Workload, node_pool};
use std::collections::BTreeMap;

/// The seed of each mix.
const SEED: u64 = 1;

/// Pods with their volumes and DaemonSets.
pub struct Priced {
    pub name: &'static str,
    pub categories: &'static [&'static str],
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub volumes: BTreeMap<String, Vec<Requirements>>,
}

impl Priced {
    fn new(name: &'static str, pods: Vec<Pod>) -> Self {
        Self { name, categories: Mix::Plain.categories(), pods, daemon_sets: Vec::new(), volumes: BTreeMap::new() }
    }

    fn from(mix: Mix, count: usize) -> Self {
        Self { categories: mix.categories(), ..Self::new(mix.name(), mix.pods(count, SEED)) }
    }

    fn with(self, daemon_sets: Vec<DaemonSet>) -> Self {
        Self { daemon_sets, ..self }
    }

    /// An empty cluster with the pods pending, and one NodePool for the embedded catalog.
    pub fn workload(&self, bought: &[CapacityType]) -> Workload {
        Workload {
            node_pools: vec![node_pool("default", self.categories, bought)],
            instance_types: nodeless_workloads::catalog::embedded(),
            pending: self.pods.clone(),
            daemon_sets: self.daemon_sets.clone(),
            volumes: self.volumes.clone(),
            ..Workload::default()
        }
    }
}

pub fn all(count: usize) -> Vec<Priced> {
    vec![
        Priced::from(Mix::Plain, count),
        Priced::new("lopsided", lopsided(count)),
        Priced::new("log_normal", log_normal(count)),
        Priced::from(Mix::GpuAndWeb, count),
        with_volumes(count),
        Priced::new("daemons", small_services(count)).with(heavy_daemon_sets()),
        Priced::from(Mix::Stateful, count),
        Priced::from(Mix::Soft, count).with(five_daemon_sets()),
        Priced::from(Mix::Enterprise, count).with(five_daemon_sets()),
        Priced::from(Mix::Diverse, count),
    ]
}

/// Half of the pods request much cpu, half much memory.
fn lopsided(count: usize) -> Vec<Pod> {
    let mut draw = Draw::new(SEED);
    let pods = (0..count).map(|index| {
        let name = format!("heavy-{index:05}");
        if index.is_multiple_of(2) {
            pod(name, draw.one_of(&[1000, 2000, 3000, 4000]), draw.one_of(&[256, 512, 1024]))
        } else {
            pod(name, draw.one_of(&[100, 250, 500]), draw.one_of(&[4096, 8192, 12_288, 16_384]))
        }
    });
    pods.collect()
}

/// Pods that are nearly all different.
fn log_normal(count: usize) -> Vec<Pod> {
    let mut draw = Draw::new(SEED);
    let pods = (0..count).map(|index| {
        let cpu = draw.log_normal(300.0, 1.0).clamp(10.0, 16_000.0);
        let memory = draw.log_normal(700.0, 1.1).clamp(16.0, 65_536.0);
        pod(format!("any-{index:05}"), cpu as i64, memory as i64)
    });
    pods.collect()
}

fn small_services(count: usize) -> Vec<Pod> {
    let mut draw = Draw::new(SEED);
    let pods = (0..count).map(|index| {
        let (cpu, memory) = (draw.one_of(&[100, 250, 500, 1000]), draw.one_of(&[256, 512, 1024, 2048]));
        pod(format!("app-{index:05}"), cpu, memory)
    });
    pods.collect()
}

/// Four DaemonSets, of which one uses a large part of a small node.
fn heavy_daemon_sets() -> Vec<DaemonSet> {
    let sizes = [("network", 50, 64), ("logs", 200, 512), ("metrics", 100, 256), ("security", 500, 1024)];
    sizes.map(|(name, cpu, memory)| daemon_set(name, cpu, memory)).into()
}

/// Web pods, and the same number of pods of StatefulSets with three pods, each with a volume in another zone. Half of the
/// StatefulSets also have anti-affinity over hosts, which the zones satisfy.
fn with_volumes(count: usize) -> Priced {
    let mut pods = Mix::Plain.pods(count.div_ceil(2), SEED);
    let mut volumes = BTreeMap::new();
    for index in 0..count / 2 {
        let (set, ordinal) = (index / 3, index % 3);
        let name = format!("set-{set:05}-{ordinal}");
        let mut size = Draw::new(1000 + set as u64);
        let mut pod = pod(name.clone(), size.one_of(&[250, 500, 1000, 2000]), size.one_of(&[1024, 2048, 4096, 8192]));
        pod.template_mut().labels = labelled("app", &format!("set-{set:05}"));
        if set.is_multiple_of(2) {
            pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, pod.template.labels.clone())];
        }
        let claim = format!("data-{name}");
        pod.template_mut().volume_claims = vec![VolumeClaim { claim_name: claim.clone(), ephemeral: false }];
        let zone = Requirement::one_of([ZONES[(set + ordinal) % 3]]);
        let topology = vec![Requirements::from([(labels::ZONE, zone)])];
        volumes.insert(format!("{}/{claim}", pod.namespace), topology);
        pods.push(pod);
    }
    Priced { volumes, ..Priced::new("volumes", pods) }
}
