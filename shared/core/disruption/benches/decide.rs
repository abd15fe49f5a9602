//! The time of whole decisions, and the price of a fragmented cluster after them relative to its lower bound.
//!
//! `cargo bench -p nodeless-disruption` prints a table. Times are processor time of this one thread, the best of three; the
//! numbers are drawn by a fixed rule, so every run decides the same. With an argument, only the cases are run whose name
//! has it in it.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/disruption/support/mod.rs"]
mod support;

use nodeless_disruption::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::*;
use std::time::Duration;
use support::*;

/// A small generator of numbers that look random and are always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }
}

/// Families of three ratios of memory to cpu, each generation a little cheaper or dearer, in sizes that double.
fn families(count: usize) -> InstanceTypes {
    const SIZES: [(&str, i64); 8] = [
        ("large", 2),
        ("xlarge", 4),
        ("2xlarge", 8),
        ("4xlarge", 16),
        ("8xlarge", 32),
        ("12xlarge", 48),
        ("16xlarge", 64),
        ("24xlarge", 96),
    ];
    (0..count)
        .flat_map(|family| {
            SIZES.iter().map(move |&(size, cpu)| {
                let ratio = [2, 4, 8][family % 3];
                let price = cpu as f64 * (0.0305 + 0.005 * ratio as f64) * (1.0 + (family / 3) as f64 * 0.013);
                let letter = ["c", "m", "r"][family % 3];
                instance_type(&format!("{letter}{}", family / 3 + 1), size, cpu, cpu * ratio, price)
            })
        })
        .collect()
}

fn pool() -> NodePool {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    pool
}

/// Spot nodes, each with fifteen pods and no capacity for another.
fn tight(nodes: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![pool()]);
    world.types = families(30);
    world.options.spot_to_spot = true;
    let mut draw = Draw(7);
    for node in 0..nodes {
        let pods = (0..15).map(|index| {
            let (cpu, memory) = (draw.one_of(&[1000, 1030, 1060]), draw.one_of(&[4096, 4196, 4296]));
            pod(&format!("pod-{node:05}-{index:02}"), cpu, memory)
        });
        let pods = pods.collect();
        world.node("default", "m1.4xlarge", CapacityType::Spot, ZONES[node % 3], pods);
    }
    world
}

/// On-demand nodes of several types, filled to a given percentage with twenty pods on average.
fn wasteful(nodes: usize, percent: i64, related: bool) -> TestCluster {
    let mut pool = pool();
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]))]);
    let mut world = TestCluster::new(vec![pool]);
    world.types = families(30);
    let mut draw = Draw(11);
    for node in 0..nodes {
        let (kind, cpu, ratio) =
            draw.one_of(&[("m1.4xlarge", 16, 4), ("c1.8xlarge", 32, 2), ("m2.8xlarge", 32, 4), ("r1.4xlarge", 16, 8)]);
        let limit = cpu * 10 * percent;
        let mut used = 0;
        let mut pods = Vec::new();
        while pods.len() < 40 {
            let asked = draw.one_of(&[250, 500, 750, 1000, 1500]) * cpu / 23;
            if used + asked > limit {
                break;
            }
            used += asked;
            let memory = asked * ratio * 1024 / 1000 * draw.one_of(&[60, 80, 100]) / 100;
            let mut pod = pod(&format!("pod-{node:05}-{:02}", pods.len()), asked, memory);
            if related && draw.below(20) == 0 {
                relate(&mut pod, &mut draw);
            }
            pods.push(pod);
        }
        world.node("default", kind, CapacityType::OnDemand, ZONES[node % 3], pods);
    }
    world
}

/// Makes the pod one of 400 workloads, which are spread over the zones or have one pod on a node.
fn relate(pod: &mut Pod, draw: &mut Draw) {
    let app = draw.below(400);
    pod.template_mut().labels.insert("app".into(), format!("app-{app}"));
    let selector = LabelSelector::from_labels(pod.template.labels.clone());
    if app.is_multiple_of(2) {
        pod.template_mut().topology_spread =
            vec![TopologySpread { max_skew: 5, ..topology_spread(labels::ZONE, selector) }];
    } else {
        let (selector, topology_key) = (Some(selector), labels::HOSTNAME.into());
        pod.template_mut().required_pod_anti_affinity =
            vec![PodAffinityTerm { selector, topology_key, ..PodAffinityTerm::default() }];
    }
}

/// On-demand nodes of all types, each filled by a tenth to nine tenths.
fn fragmented(nodes: usize) -> TestCluster {
    let mut world = wasteful(0, 0, false);
    let kinds: Vec<(String, i64, i64)> = world
        .types
        .iter()
        .filter(|kind| kind.capacity.get("cpu").units() <= 32)
        .map(|kind| (kind.name.clone(), kind.capacity.get("cpu").milli(), kind.capacity.get("memory").units() >> 20))
        .collect();
    let mut draw = Draw(13);
    for node in 0..nodes {
        let (kind, cpu, memory) = &kinds[usize::try_from(draw.below(kinds.len() as u64)).unwrap()];
        let percent = i64::try_from(10 + draw.below(80)).unwrap();
        let (mut cpu, mut memory) = (cpu * percent / 100, memory * percent / 100);
        let mut pods = Vec::new();
        loop {
            let (asked, need) = (draw.one_of(&[100, 250, 500, 1000, 2000]), draw.one_of(&[128, 512, 1024, 2048, 4096]));
            if asked > cpu || need > memory || pods.len() == 100 {
                break;
            }
            (cpu, memory) = (cpu - asked, memory - need);
            pods.push(pod(&format!("pod-{node:05}-{:02}", pods.len()), asked, need));
        }
        world.node("default", kind, CapacityType::OnDemand, ZONES[node % 3], pods);
    }
    world
}

/// A lower bound of the price of a world's pods, as if fractions of nodes could be launched.
fn bound(world: &TestCluster) -> f64 {
    use microlp::{ComparisonOp, OptimizationDirection, Problem};
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let kinds: Vec<_> = world
        .types
        .iter()
        .map(|kind| {
            let price = offering(kind, CapacityType::OnDemand, ZONES[0]).price;
            (problem.add_var(price, (0.0, f64::INFINITY)), kind.allocatable())
        })
        .collect();
    for resource in ["cpu", "memory", "pods"] {
        let asked: f64 = world
            .places
            .iter()
            .flat_map(|place| &place.pods)
            .map(|pod| pod.template.requests.get(resource).as_f64())
            .sum();
        let row: Vec<_> = kinds.iter().map(|(kind, allocatable)| (*kind, allocatable.get(resource).as_f64())).collect();
        problem.add_constraint(&row[..], ComparisonOp::Ge, asked);
    }
    problem.solve().unwrap().into_solution().unwrap().objective()
}

/// Processor time of this thread.
fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The most memory that this process has had, in MiB.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn timed(name: &str, world: &TestCluster) {
    let cluster = world.cluster();
    let mut best = Duration::MAX;
    let mut decision = Decision::default();
    for _ in 0..3 {
        let before = spent();
        decision = decide(&cluster, now(), &world.options);
        best = best.min(spent() - before);
    }
    let going: usize = decision.commands.iter().map(|command| command.candidates.len()).sum();
    let evicted: usize = decision.commands.iter().map(|command| command.evictions.len()).sum();
    let saved = decision.commands.iter().fold(0.0, |sum, command| sum + command.savings_per_hour);
    println!(
        "{name}: {:.3} s; {} nodes, {} pods: {} commands remove {going} nodes, move {evicted} pods, save {:.1}% of the price; {} \
         nodes not looked at; peak {} MiB",
        best.as_secs_f64(),
        world.places.len(),
        world.pods(),
        decision.commands.len(),
        100.0 * saved / world.price(),
        decision.not_evaluated.len(),
        peak(),
    );
}

fn converged(name: &str, mut world: TestCluster) {
    let (least, before, pods) = (bound(&world), world.price(), world.pods());
    let nodes = world.places.len();
    let mut evicted = 0;
    let mut took = Duration::ZERO;
    let mut rounds = 0;
    loop {
        let start = spent();
        let decision = decide(&world.cluster(), now(), &world.options);
        took += spent() - start;
        if decision.commands.is_empty() {
            break;
        }
        rounds += 1;
        evicted += decision.commands.iter().map(|command| command.evictions.len()).sum::<usize>();
        world.apply(&decision.commands);
        println!("  after {rounds}: {:.3} of the bound, {evicted} evictions", world.price() / least);
    }
    println!(
        "{name}: {nodes} nodes, {pods} pods at {:.3} of the LP bound come to rest with {} nodes at {:.3} of it, after {rounds} \
         decisions and {evicted} evictions; {:.3} s",
        before / least,
        world.places.len(),
        world.price() / least,
        took.as_secs_f64()
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let run = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    if run("tight") {
        timed("tight", &tight(1000));
    }
    if run("wasteful") {
        timed("wasteful", &wasteful(5000, 70, false));
    }
    if run("related") {
        timed("related", &wasteful(5000, 70, true));
    }
    if run("fragmented") {
        converged("fragmented", fragmented(500));
    }
}
