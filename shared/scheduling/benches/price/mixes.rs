//! The mixes of pods, drawn by a fixed rule.

use crate::embedded::ZONES;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, VolumeClaim};
use nodeless_model::*;
use nodeless_scheduling::VolumeTopology;
use std::collections::BTreeMap;

/// Pods and what belongs to them.
#[derive(Default)]
pub struct Mix {
    pub name: &'static str,
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub volumes: BTreeMap<String, VolumeTopology>,
    /// Whether the NodePool also allows the categories g and p.
    pub accelerated: bool,
}

/// A small generator of numbers that look random and are always the same.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.next()).unwrap() % values.len()]
    }

    /// Between 0 and 1.
    fn share(&mut self) -> f64 {
        (self.next() as f64 + 0.5) / (1_u64 << 31) as f64
    }

    /// With this median and this spread of the logarithm.
    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let (radius, angle) = ((-2.0 * self.share().ln()).sqrt(), self.share() * std::f64::consts::TAU);
        median * (sigma * radius * angle.cos()).exp()
    }
}

fn pod(name: String, cpu_milli: i64, memory_mib: i64) -> Pod {
    Pod {
        namespace: "default".into(),
        uid: name.clone(),
        name,
        requests: ResourceList::new()
            .with("cpu", Quantity::from_milli(cpu_milli))
            .with("memory", Quantity::from_mebibytes(memory_mib))
            .with("pods", Quantity::from_units(1)),
        ..Pod::default()
    }
}

fn web(name: String, draw: &mut Draw) -> Pod {
    pod(name, draw.one_of(&[50, 100, 150, 200, 250]), draw.one_of(&[64, 128, 192, 256, 384, 512]))
}

fn labelled(key: &str, value: &str) -> StringMap {
    StringMap::from([(key.into(), value.into())])
}

fn near(key: &str, labels: StringMap) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(LabelSelector::from_labels(labels)),
        topology_key: key.into(),
        ..PodAffinityTerm::default()
    }
}

fn spread(key: &str, labels: StringMap) -> TopologySpread {
    TopologySpread {
        max_skew: 1,
        topology_key: key.into(),
        hard: true,
        selector: Some(LabelSelector::from_labels(labels)),
        match_label_keys: Vec::new(),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

pub fn all(count: usize) -> Vec<Mix> {
    vec![
        small(count),
        heavy(count),
        log_normal(count),
        accelerated(count),
        stateful(count),
        with_daemons(count),
        diverse(count),
    ]
}

/// (a) Small web pods.
fn small(count: usize) -> Mix {
    let mut draw = Draw(11);
    let pods = (0..count).map(|index| web(format!("web-{index:05}"), &mut draw)).collect();
    Mix { name: "a small", pods, ..Mix::default() }
}

/// (b) Half of them ask for much cpu, half for much memory.
fn heavy(count: usize) -> Mix {
    let mut draw = Draw(12);
    let pods = (0..count).map(|index| {
        let name = format!("heavy-{index:05}");
        if index % 2 == 0 {
            pod(name, draw.one_of(&[1000, 2000, 3000, 4000]), draw.one_of(&[256, 512, 1024]))
        } else {
            pod(name, draw.one_of(&[100, 250, 500]), draw.one_of(&[4096, 8192, 12_288, 16_384]))
        }
    });
    Mix { name: "b cpu- and memory-heavy", pods: pods.collect(), ..Mix::default() }
}

/// (c) Nearly all different.
fn log_normal(count: usize) -> Mix {
    let mut draw = Draw(13);
    let pods = (0..count).map(|index| {
        let cpu = draw.log_normal(300.0, 1.0).clamp(10.0, 16_000.0);
        let memory = draw.log_normal(700.0, 1.1).clamp(16.0, 65_536.0);
        pod(format!("any-{index:05}"), cpu as i64, memory as i64)
    });
    Mix { name: "c log-normal", pods: pods.collect(), ..Mix::default() }
}

/// (d) One in twenty wants a GPU, the others are web pods.
fn accelerated(count: usize) -> Mix {
    let mut draw = Draw(14);
    let pods = (0..count).map(|index| {
        if index % 20 > 0 {
            return web(format!("web-{index:05}"), &mut draw);
        }
        let mut pod =
            pod(format!("gpu-{index:05}"), draw.one_of(&[1000, 2000, 4000]), draw.one_of(&[4096, 8192, 16_384]));
        pod.requests.set("nvidia.com/gpu", Quantity::from_units(draw.one_of(&[1, 1, 1, 2])));
        pod
    });
    Mix { name: "d gpu and web", pods: pods.collect(), accelerated: true, ..Mix::default() }
}

/// (e) Stateful sets of three, each with a volume in a zone of its own; half the sets keep their pods on nodes apart,
/// which the zones do anyway, and all others are web pods.
fn stateful(count: usize) -> Mix {
    let mut draw = Draw(15);
    let mut volumes = BTreeMap::new();
    let mut pods = Vec::with_capacity(count);
    for index in 0..count {
        if index % 2 == 0 {
            pods.push(web(format!("web-{index:05}"), &mut draw));
            continue;
        }
        let (set, ordinal) = (index / 2 / 3, index / 2 % 3);
        let name = format!("set-{set:05}-{ordinal}");
        let mut size = Draw(1000 + set as u64);
        size.next();
        let mut pod = pod(name.clone(), size.one_of(&[250, 500, 1000, 2000]), size.one_of(&[1024, 2048, 4096, 8192]));
        pod.labels = labelled("app", &format!("set-{set:05}"));
        if set % 2 == 0 {
            pod.required_pod_anti_affinity = vec![near(labels::HOSTNAME, pod.labels.clone())];
        }
        let claim = format!("data-{name}");
        pod.volume_claims = vec![VolumeClaim { claim_name: claim.clone(), ephemeral: false }];
        let zone = Requirement::one_of([ZONES[(set + ordinal) % 3]]);
        let topology = VolumeTopology { alternatives: vec![Requirements::from([(labels::ZONE, zone)])] };
        volumes.insert(format!("default/{claim}"), topology);
        pods.push(pod);
    }
    Mix { name: "e zonal stateful sets", pods, volumes, ..Mix::default() }
}

/// (f) Four DaemonSets, of which one takes a good part of a small node.
fn with_daemons(count: usize) -> Mix {
    let mut draw = Draw(16);
    let pods = (0..count).map(|index| {
        pod(format!("app-{index:05}"), draw.one_of(&[100, 250, 500, 1000]), draw.one_of(&[256, 512, 1024, 2048]))
    });
    let set = |name: &str, cpu, memory| DaemonSet {
        namespace: "kube-system".into(),
        name: name.into(),
        template: pod(name.into(), cpu, memory),
    };
    let daemon_sets =
        vec![set("network", 50, 64), set("logs", 200, 512), set("metrics", 100, 256), set("security", 500, 1024)];
    Mix { name: "f many daemons", pods: pods.collect(), daemon_sets, ..Mix::default() }
}

const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Karpenter's own: a fifth each plain, spread over zones, spread over hosts, affine to themselves in a zone, and one on
/// each host.
fn diverse(count: usize) -> Mix {
    let mut draw = Draw(42);
    let each = count / 5;
    let mut pods = Vec::with_capacity(count);
    for kind in 0..5 {
        for index in 0..each {
            let cpu = draw.one_of(&[100, 250, 500, 1000, 1500]);
            let memory = draw.one_of(&[100, 256, 512, 1024, 2048, 4096]);
            let mut pod = pod(format!("pod-{kind}-{index:06}"), cpu, memory);
            let (own, other) = (draw.one_of(&VALUES), draw.one_of(&VALUES));
            let others = labelled("my-label", other);
            pod.labels = labelled("my-label", own);
            match kind {
                1 => pod.topology_spread = vec![spread(labels::ZONE, others)],
                2 => pod.topology_spread = vec![spread(labels::HOSTNAME, others)],
                3 => {
                    pod.labels = labelled("my-affinity", own);
                    pod.required_pod_affinity = vec![near(labels::ZONE, pod.labels.clone())];
                }
                4 => {
                    pod.labels = labelled("app", "lonely");
                    pod.required_pod_anti_affinity = vec![near(labels::HOSTNAME, pod.labels.clone())];
                }
                _ => {}
            }
            pods.push(pod);
        }
    }
    Mix { name: "g Karpenter's diverse", pods, ..Mix::default() }
}
