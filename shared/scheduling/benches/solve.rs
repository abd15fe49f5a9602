//! How long plans take, on mixes of pods that Karpenter's own scheduling benchmark uses, and on some larger ones.
//!
//! `cargo bench -p nodeless-scheduling` prints a table; the best of three runs of each case counts, in time on the cpu of one thread. The
//! numbers are drawn by a fixed rule, so that every run plans the same. With an argument, only the cases are run whose
//! name has it in it.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod clock;
mod embedded;

use clock::Clock;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, Options, PoolOffer, Problem, existing_node, solve};
use std::time::Duration;

const ZONES: [&str; 3] = ["zone-1", "zone-2", "zone-3"];

/// A small generator of numbers that look random and are always the same.
struct Draw(u64);

impl Draw {
    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[usize::try_from(self.0 >> 33).unwrap() % values.len()]
    }
}

fn one(value: &str) -> Requirement {
    Requirement::one_of([value])
}

fn instance_type(name: String, cpu: i64, memory_mib: i64, pods: i64, price: f64) -> InstanceType {
    let mut offerings = Vec::new();
    for zone in ZONES {
        for (capacity_type, share) in [(CapacityType::OnDemand, 1.0), (CapacityType::Spot, 0.6)] {
            offerings.push(Offering {
                zone: zone.into(),
                capacity_type,
                price: price * share,
                available: true,
                lacks_price: false,
                reservation: None,
                requirements: Requirements::new(),
            });
        }
    }
    InstanceType {
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, one(&name)),
            (labels::INSTANCE_CPU, one(&cpu.to_string())),
            (labels::ARCH, one("amd64")),
            (labels::OS, one("linux")),
            (labels::ZONE, Requirement::one_of(ZONES)),
            (labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot"])),
        ]),
        name,
        capacity: ResourceList::new()
            .with("cpu", Quantity::from_units(cpu))
            .with("memory", Quantity::from_mebibytes(memory_mib))
            .with("pods", Quantity::from_units(pods)),
        overhead: Overhead {
            kube_reserved: ResourceList::new().with("cpu", Quantity::from_milli(100)),
            ..Overhead::default()
        },
        offerings,
    }
}

/// Types of one shape and of every size, as in Karpenter's benchmark.
fn one_shape(count: i64) -> InstanceTypes {
    (1..=count)
        .map(|cpu| instance_type(format!("size-{cpu:04}"), cpu, cpu * 2048, cpu * 10, 0.25 * cpu as f64))
        .collect()
}

/// Types as EC2 has them: families of three ratios of memory to cpu, in sizes that double.
fn families(count: usize) -> InstanceTypes {
    let sizes = [2_i64, 4, 8, 16, 32, 48, 64, 96, 128, 192];
    (0..count)
        .map(|index| {
            let (family, cpu) = (index / sizes.len(), sizes[index % sizes.len()]);
            let ratio = [2, 4, 8][family % 3];
            let price = cpu as f64 * (0.025 + 0.005 * ratio as f64) * (1.0 + (family / 3) as f64 * 0.013);
            instance_type(format!("f{family:03}.{cpu:03}"), cpu, cpu * ratio * 1024, 110 + cpu, price)
        })
        .collect()
}

fn pod(name: String, draw: &mut Draw) -> Pod {
    Pod {
        namespace: "default".into(),
        uid: name.clone(),
        name,
        requests: ResourceList::new()
            .with("cpu", Quantity::from_milli(draw.one_of(&[100, 250, 500, 1000, 1500])))
            .with("memory", Quantity::from_mebibytes(draw.one_of(&[100, 256, 512, 1024, 2048, 4096])))
            .with("pods", Quantity::from_units(1)),
        ..Pod::default()
    }
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

const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// A fifth each: plain, spread over zones, spread over hosts, affine to themselves in a zone, and one on each host.
fn diverse(count: usize) -> Vec<Pod> {
    let mut draw = Draw(42);
    let each = count / 5;
    let mut pods = Vec::with_capacity(count);
    for kind in 0..5 {
        for index in 0..each {
            let mut pod = pod(format!("pod-{kind}-{index:06}"), &mut draw);
            let (own, other) = (draw.one_of(&VALUES), draw.one_of(&VALUES));
            let spread = |key: &str| TopologySpread {
                max_skew: 1,
                topology_key: key.into(),
                hard: true,
                selector: Some(LabelSelector::from_labels(labelled("my-label", other))),
                match_label_keys: Vec::new(),
                min_domains: None,
                honor_node_affinity: true,
                honor_node_taints: false,
            };
            match kind {
                1 => (pod.labels, pod.topology_spread) = (labelled("my-label", own), vec![spread(labels::ZONE)]),
                2 => (pod.labels, pod.topology_spread) = (labelled("my-label", own), vec![spread(labels::HOSTNAME)]),
                3 => {
                    pod.labels = labelled("my-affinity", own);
                    pod.required_pod_affinity = vec![near(labels::ZONE, pod.labels.clone())];
                }
                4 => {
                    pod.labels = labelled("app", "lonely");
                    pod.required_pod_anti_affinity = vec![near(labels::HOSTNAME, pod.labels.clone())];
                }
                _ => pod.labels = labelled("my-label", own),
            }
            pods.push(pod);
        }
    }
    pods
}

/// Pods with preferred node affinity and preferred anti-affinity, of which most has to be given up.
fn preferring(count: usize) -> Vec<Pod> {
    let mut draw = Draw(7);
    let prefer = |weight, zone: &str| Weighted {
        weight,
        preference: vec![RequirementTerm {
            key: labels::ZONE.into(),
            operator: Operator::In,
            values: vec![zone.into()],
            min_values: None,
        }],
    };
    (0..count)
        .map(|index| {
            let mut pod = pod(format!("pod-{index:06}"), &mut draw);
            pod.labels = labelled("app", "nginx");
            pod.preferred_node_affinity = vec![prefer(1, "zone-1"), prefer(50, "zone-9")];
            let term = near(labels::ZONE, labelled("app", "none"));
            pod.preferred_pod_affinity = vec![Weighted { weight: 10, preference: term }];
            let term = near(labels::ZONE, labelled("app", "nginx"));
            pod.preferred_pod_anti_affinity = vec![Weighted { weight: 10, preference: term }];
            pod
        })
        .collect()
}

fn identical(count: usize) -> Vec<Pod> {
    let first = pod(String::new(), &mut Draw(1));
    (0..count)
        .map(|index| {
            let name = format!("pod-{index:06}");
            Pod { uid: name.clone(), name, ..first.clone() }
        })
        .collect()
}

/// Nodes with running pods.
fn running(nodes: usize, pods_each: usize) -> Vec<(Node, Vec<Pod>)> {
    let mut draw = Draw(3);
    (0..nodes)
        .map(|index| {
            let mut node = Node { name: format!("node-{index:05}"), ..Node::default() };
            node.labels.insert(labels::ZONE.into(), ZONES[index % 3].into());
            node.labels.insert(labels::HOSTNAME.into(), node.name.clone());
            node.allocatable = ResourceList::new()
                .with("cpu", Quantity::from_units(16))
                .with("memory", Quantity::from_mebibytes(65_536))
                .with("pods", Quantity::from_units(110));
            let pods = (0..pods_each).map(|number| {
                let mut pod = pod(format!("running-{index:05}-{number:02}"), &mut draw);
                pod.labels = labelled("my-label", draw.one_of(&VALUES));
                pod
            });
            let pods = pods.collect();
            (node, pods)
        })
        .collect()
}

fn node_pool() -> NodePool {
    NodePool {
        name: "default".into(),
        uid: "uid".into(),
        generation: 1,
        template: NodeTemplate { node_class: "default".into(), ..NodeTemplate::default() },
        disruption: Disruption::default(),
        limits: ResourceList::new(),
        limit_dollars_per_hour: None,
        weight: 0,
        replicas: None,
        ready: Ok(()),
        deleting: false,
        hash: String::new(),
    }
}

struct Case {
    name: &'static str,
    pods: Vec<Pod>,
    types: InstanceTypes,
    nodes: Vec<(Node, Vec<Pod>)>,
}

fn run(case: &Case) {
    let pool = node_pool();
    let place = |(node, pods): &(Node, Vec<Pod>)| {
        existing_node(Some(node), None, &pods.iter().collect::<Vec<_>>(), &[]).unwrap()
    };
    let problem = Problem {
        pods: case.pods.iter().collect(),
        nodes: case.nodes.iter().map(place).collect(),
        node_pools: vec![PoolOffer { pool: &pool, instance_types: case.types.clone(), usage: PoolUsage::default() }],
        bound_pods: case.nodes.iter().map(|(node, pods)| BoundPods::on(node, pods.iter().collect())).collect(),
        ..Problem::default()
    };
    let mut best = Duration::MAX;
    let mut solution = nodeless_scheduling::Solution::default();
    for _ in 0..3 {
        let start = Clock::start();
        solution = solve(&problem, &Options::default());
        best = best.min(start.elapsed());
    }
    println!(
        "{:<42} {:>8.3} s {:>7} launches {:>7} placed {:>5} left {:>10.2} $/h",
        case.name,
        best.as_secs_f64(),
        solution.launches.len(),
        solution.placements.len(),
        solution.unschedulable.len(),
        solution.price_per_hour()
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let all = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let makes: [(&'static str, Make); 12] = [
        ("1,250 diverse, 400 types", || (diverse(1250), one_shape(400))),
        ("2,500 diverse, 400 types", || (diverse(2500), one_shape(400))),
        ("5,000 diverse, 400 types", || (diverse(5000), one_shape(400))),
        ("10,000 diverse, 400 types", || (diverse(10_000), one_shape(400))),
        ("20,000 diverse, 400 types", || (diverse(20_000), one_shape(400))),
        ("10,000 diverse, 800 types", || (diverse(10_000), one_shape(800))),
        ("10,000 diverse, 1,200 types of families", || (diverse(10_000), families(1200))),
        ("4,000 preferences, 400 types", || (preferring(4000), one_shape(400))),
        ("10,000 identical, 400 types", || (identical(10_000), one_shape(400))),
        ("100,000 identical, 1,200 types of families", || (identical(100_000), families(1200))),
        ("100,000 identical, all types of us-east-1", || (identical(100_000), embedded::catalog())),
        (ON_NODES, || (diverse(1000), one_shape(400))),
    ];
    for (name, make) in makes.into_iter().filter(|(name, _)| all(name)) {
        let (pods, types) = make();
        let nodes = if name == ON_NODES { running(5000, 20) } else { Vec::new() };
        run(&Case { name, pods, types, nodes });
    }
    if let Some(peak) = peak_memory() {
        println!("peak memory of the process, pods and nodes of the cases among it: {peak}");
    }
}

/// Makes the pods and types of a case; only those of the cases that run are made.
type Make = fn() -> (Vec<Pod>, InstanceTypes);

const ON_NODES: &str = "1,000 diverse onto 5,000 nodes, 100,000 run";

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|peak| peak.trim().to_owned())
}
