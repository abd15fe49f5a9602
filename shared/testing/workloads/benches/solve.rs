//! Measures plans, for the mixes of pods of Karpenter's scheduling benchmark and some larger ones.
//!
//! `cargo bench -p nodeless-workloads --bench solve` prints a table of the processor time of one thread, the best of three
//! runs of each case. The numbers are generated from a fixed seed, so every run makes the same plans. With an argument, only
//! the cases run whose names contain it.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod clock;

use clock::Clock;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::pod::Weighted;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, Options, PoolOffer, Problem, existing_node, solve};
use nodeless_workloads::build::{labelled, near};
use nodeless_workloads::catalog::{ZONES, embedded, one_shape, sized};
use nodeless_workloads::{Draw, Mix};
use std::time::Duration;

/// Types as in EC2: families with three ratios of memory to cpu, in sizes that double.
fn families(count: usize) -> InstanceTypes {
    let sizes = [2_i64, 4, 8, 16, 32, 48, 64, 96, 128, 192];
    (0..count)
        .map(|index| {
            let (family, cpu) = (index / sizes.len(), sizes[index % sizes.len()]);
            let ratio = [2, 4, 8][family % 3];
            let price = cpu as f64 * (0.025 + 0.005 * ratio as f64) * (1.0 + (family / 3) as f64 * 0.013);
            sized(format!("f{family:03}.{cpu:03}"), cpu, cpu * ratio * 1024, 110 + cpu, price)
        })
        .collect()
}

fn pod(name: String, draw: &mut Draw) -> Pod {
    let (cpu, memory) = (draw.one_of(&[100, 250, 500, 1000, 1500]), draw.one_of(&[100, 256, 512, 1024, 2048, 4096]));
    nodeless_workloads::build::pod(name, cpu, memory)
}

fn diverse(count: usize) -> Vec<Pod> {
    Mix::Diverse.pods(count, 42)
}

const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Pods with preferred node affinity and preferred anti-affinity, most of which cannot be satisfied.
fn preferring(count: usize) -> Vec<Pod> {
    let mut draw = Draw::new(7);
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
            pod.template_mut().labels = labelled("app", "nginx");
            pod.template_mut().preferred_node_affinity = vec![prefer(1, ZONES[0]), prefer(50, "elsewhere")];
            let term = near(labels::ZONE, labelled("app", "none"));
            pod.template_mut().preferred_pod_affinity = vec![Weighted { weight: 10, preference: term }];
            let term = near(labels::ZONE, labelled("app", "nginx"));
            pod.template_mut().preferred_pod_anti_affinity = vec![Weighted { weight: 10, preference: term }];
            pod
        })
        .collect()
}

fn identical(count: usize) -> Vec<Pod> {
    let first = pod(String::new(), &mut Draw::new(1));
    (0..count)
        .map(|index| {
            let name = format!("pod-{index:06}");
            Pod { uid: name.clone(), name, ..first.clone() }
        })
        .collect()
}

/// Nodes with running pods.
fn running(nodes: usize, pods_each: usize) -> Vec<(Node, Vec<Pod>)> {
    let mut draw = Draw::new(3);
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
                pod.template_mut().labels = labelled("my-label", draw.one_of(&VALUES));
                pod
            });
            let pods = pods.collect();
            (node, pods)
        })
        .collect()
}

struct Case {
    name: &'static str,
    pods: Vec<Pod>,
    types: InstanceTypes,
    nodes: Vec<(Node, Vec<Pod>)>,
}

fn run(case: &Case) {
    let pool = nodeless_model::test_support::node_pool("default");
    let place = |(node, pods): &(Node, Vec<Pod>)| {
        existing_node(Some(node), None, &pods.iter().collect::<Vec<_>>(), &[]).unwrap()
    };
    let problem = Problem {
        pods: case.pods.iter().collect(),
        nodes: case.nodes.iter().map(place).collect(),
        node_pools: vec![PoolOffer {
            pool: &pool,
            instance_types: case.types.clone(),
            usage: PoolUsage::default(),
            cluster: None,
        }],
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
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let all = |name: &str| filters.is_empty() || filters.iter().any(|part| name.contains(part.as_str()));
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
        ("100,000 identical, all types of us-east-1", || (identical(100_000), embedded())),
        (ON_NODES, || (diverse(1000), one_shape(400))),
    ];
    for (name, make) in makes.into_iter().filter(|(name, _)| all(name)) {
        let (pods, types) = make();
        let nodes = if name == ON_NODES { running(5000, 20) } else { Vec::new() };
        run(&Case { name, pods, types, nodes });
    }
    if let Some(peak) = peak_memory() {
        println!("peak memory of the process, including the pods and nodes of the cases: {peak}");
    }
}

/// Creates the pods and types of a case, only for the cases that run.
type Make = fn() -> (Vec<Pod>, InstanceTypes);

const ON_NODES: &str = "1,000 diverse onto 5,000 nodes, 100,000 run";

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|peak| peak.trim().to_owned())
}
