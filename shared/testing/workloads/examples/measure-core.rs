//! Measures the pure core alone, without the stages and adapters of the planner, on clusters of up to tens of thousands of nodes:
//!
//!     cargo run --release -p nodeless-workloads --example measure-core [-- CASE MIX NODES PODS_PER_NODE]
//!
//! Without arguments it prints a table of all cases, each measured in a process of its own. `cold` plans the pods of so many nodes in
//! an empty cluster, `warm` 100 pods in a running cluster, `decide` decides about disruption in a running cluster with 30% waste.
//! The digest is that of what is decided, without the count of the work: two versions of the core with the same digests make the same
//! plans, unless a decision ends at its limit of work.
#![allow(missing_docs, clippy::unwrap_used)]

use nodeless_model::{CapacityType, Requirement, labels};
use nodeless_workloads::{Mix, NOW, Running, ScaledDown, Workload, node_pool};
use std::fmt::{Debug, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

/// Case, mix, nodes and pods on each of them.
const CASES: [(&str, &str, usize, usize); 12] = [
    ("cold", "plain", 5000, 20),
    ("cold", "enterprise", 1000, 20),
    ("cold", "enterprise", 5000, 20),
    ("warm", "plain", 5000, 20),
    ("warm", "enterprise", 1000, 20),
    ("warm", "enterprise", 5000, 20),
    ("warm", "enterprise", 20_000, 20),
    ("decide", "plain", 5000, 15),
    ("decide", "enterprise", 1000, 15),
    ("decide", "enterprise", 5000, 15),
    ("decide", "enterprise", 5000, 20),
    ("decide", "enterprise", 20_000, 20),
];

/// The pending pods in a running cluster.
const NEW_PODS: usize = 100;

/// The most vCPUs of a node that is planned for pending pods, so that a plan has about as many nodes as the cluster would.
const MAX_CPUS: i64 = 8;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [case, mix, nodes, pods] = &words[..] {
        let size = [nodes, pods].map(|number| number.parse::<usize>().unwrap());
        return measure(case, Mix::named(mix).expect("the name of a mix"), size);
    }
    println!(
        "| case | mix | nodes | pods | input | seconds | processor | MiB of the input | peak MiB | result | digest |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|");
    for (case, mix, nodes, pods) in CASES {
        let program = std::env::current_exe().unwrap();
        let sizes = [nodes.to_string(), pods.to_string()];
        let status = Command::new(program).args([case, mix]).args(sizes).status().unwrap();
        assert!(status.success(), "{case} {mix} {nodes} {pods}: {status}");
    }
}

fn measure(case: &str, mix: Mix, [nodes, pods_per_node]: [usize; 2]) {
    let running = |waste| Running { mix, nodes, pods_per_node, waste, seed: 2 }.workload();
    let workload = match case {
        "cold" => cold(mix, nodes * pods_per_node),
        "warm" => Workload { pending: mix.pods(NEW_PODS, 1), ..running(10) },
        "decide" => running(30),
        "scaled-down" => ScaledDown { mix, nodes, fill: 80, seed: 2 }.workload(),
        other => panic!("there is no case {other}"),
    };
    let row = format!("{case} | {} | {nodes} | {}", mix.name(), workload.pods());
    match case {
        "decide" | "scaled-down" => decide(&row, &workload),
        _ => plan(&row, &workload),
    }
}

/// Pods that need about as many nodes as there are pods for each node.
fn cold(mix: Mix, pods: usize) -> Workload {
    let mut pool = node_pool("default", mix.categories(), &[CapacityType::OnDemand, CapacityType::Spot]);
    let sizes = (1..=MAX_CPUS).map(|cpus| cpus.to_string());
    pool.template.requirements.add(labels::INSTANCE_CPU, Requirement::one_of(sizes));
    Workload { node_pools: vec![pool], ..mix.pending(pods, 1) }
}

fn plan(row: &str, workload: &Workload) {
    let before = Before::now();
    let problem = workload.problem();
    let input = before.start.elapsed();
    let solution = nodeless_placement::plan(
        &problem,
        &nodeless_placement::Policy::new(&nodeless_scheduling::Options::default(), true),
    );
    let found = format!(
        "{} launches, {} placed, {} left",
        solution.launches.len(),
        solution.placements.len(),
        solution.unschedulable.len()
    );
    print(row, &before, input, &found, &(&solution.launches, &solution.placements, &solution.unschedulable));
}

fn decide(row: &str, workload: &Workload) {
    let before = Before::now();
    let cluster = workload.cluster();
    let input = before.start.elapsed();
    let decision = nodeless_disruption::decide(&cluster, NOW, &nodeless_disruption::Options::default());
    let nodes: usize = decision.commands.iter().map(|command| command.candidates.len()).sum();
    let saving: f64 = decision.commands.iter().map(|command| command.savings_per_hour).sum();
    let found = format!("{} commands, {nodes} nodes removed, ${saving:.2}/h", decision.commands.len());
    print(row, &before, input, &found, &(&decision.commands, &decision.kept));
}

/// Processor time of this process, the time, and the memory in MiB before a measurement.
struct Before {
    spent: Duration,
    start: Instant,
    memory: u64,
}

impl Before {
    fn now() -> Self {
        // Has the peak memory of this process begin with what it uses now.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self { spent: spent(), start: Instant::now(), memory: peak() }
    }
}

fn print(row: &str, before: &Before, input: Duration, found: &str, result: &impl Debug) {
    let Before { spent: spent_before, start, memory } = before;
    let (seconds, processor, peak) = (start.elapsed().as_secs_f64(), (spent() - *spent_before).as_secs_f64(), peak());
    let input = input.as_secs_f64();
    let digest = digest(result);
    println!("| {row} | {input:.3} | {seconds:.3} | {processor:.3} | {memory} | {peak} | {found} | {digest:016x} |");
}

/// The 64-bit FNV-1a hash of all fields of a value.
fn digest(value: &impl Debug) -> u64 {
    struct Digest(u64);
    impl std::fmt::Write for Digest {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            Ok(())
        }
    }
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    write!(digest, "{value:?}").unwrap();
    digest.0
}

/// Processor time of all threads of this process.
fn spent() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// The peak memory of this process in MiB.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
