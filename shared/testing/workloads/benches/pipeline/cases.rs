//! The cases and their targets.

use nodeless_workloads::combination::{Combination, worst};
use nodeless_workloads::{Mix, Running, ScaledDown, Workload};

pub struct Case {
    pub name: String,
    pub make: Box<dyn Fn() -> Workload>,
    /// Seconds.
    pub reach: Option<f64>,
    pub reach_mib: Option<u32>,
}

impl Case {
    fn new(name: String, reach: Option<f64>, make: impl Fn() -> Workload + 'static) -> Self {
        Self { name, make: Box::new(make), reach, reach_mib: None }
    }

    fn combined(kind: &str, input: Combination) -> Self {
        Self::new(format!("{kind}: {input}"), None, move || input.workload())
    }

    pub fn all() -> Vec<Self> {
        let mut cases = pending();
        cases.extend(running());
        cases.extend(scaled_down());
        cases.extend(worst().into_iter().map(|input| Self::combined("worst", input)));
        cases.extend(beyond());
        cases
    }
}

/// Pending pods in empty clusters.
fn pending() -> Vec<Case> {
    let rows = [
        (Mix::Stateful, 50, None),
        (Mix::Stateful, 1000, Some(0.15)),
        (Mix::Stateful, 10_000, Some(1.0)),
        (Mix::Soft, 30, None),
        (Mix::Soft, 300, None),
        (Mix::Soft, 1000, None),
        (Mix::Enterprise, 1000, Some(0.15)),
        (Mix::Enterprise, 10_000, Some(1.0)),
        (Mix::GpuAndWeb, 1000, Some(0.05)),
        (Mix::GpuAndWeb, 10_000, Some(0.2)),
        (Mix::Diverse, 1000, None),
        (Mix::Diverse, 10_000, Some(0.35)),
        (Mix::Plain, 1000, None),
        (Mix::Plain, 10_000, Some(0.1)),
    ];
    let case = |(mix, count, reach): (Mix, usize, _)| {
        Case::new(format!("{} {count}", mix.name()), reach, move || mix.pending(count, 1))
    };
    rows.into_iter().map(case).collect()
}

/// Running clusters with wasted capacity, and a thousand pending pods.
fn running() -> Vec<Case> {
    let rows = [
        (Mix::Enterprise, 1000, 15, 30, 1000, Some(1.5), None),
        (Mix::Enterprise, 5000, 15, 30, 1000, Some(8.0), Some(768)),
        (Mix::Soft, 1000, 14, 30, 0, None, None),
        (Mix::Stateful, 1000, 15, 30, 1000, None, None),
        (Mix::Diverse, 1000, 15, 30, 1000, None, None),
        (Mix::Plain, 1000, 15, 30, 1000, None, None),
    ];
    let case = |(mix, nodes, pods_per_node, waste, count, reach, reach_mib): (Mix, usize, usize, u32, usize, _, _)| {
        let pods = nodes * pods_per_node;
        let name = format!("{} {count} with {nodes} nodes, {pods} pods, {waste}% waste", mix.name());
        let make = move || {
            let mut workload = Running { mix, nodes, pods_per_node, waste, seed: 2 }.workload();
            workload.pending = mix.pods(count, 1);
            workload
        };
        Case { reach_mib, ..Case::new(name, reach, make) }
    };
    rows.into_iter().map(case).collect()
}

/// Running clusters whose workloads were scaled down, and pending pods.
fn scaled_down() -> Vec<Case> {
    let rows = [
        (Mix::Teams, 300, 300, Some(0.3)),
        (Mix::Teams, 1000, 1000, Some(1.5)),
        (Mix::Teams, 1000, 0, Some(1.5)),
        (Mix::ZonalSets, 1000, 0, Some(1.5)),
        (Mix::Teams, 3000, 0, Some(6.0)),
        (Mix::Teams, 5000, 1000, None),
    ];
    let case = |(mix, nodes, count, reach): (Mix, usize, usize, Option<f64>)| {
        let name = format!("{} {count} with {nodes} nodes, scaled down", mix.name());
        let make = move || {
            let running = ScaledDown { mix, nodes, fill: 100, seed: 2 }.workload();
            Workload { pending: mix.pods(count, 1), ..running }
        };
        Case::new(name, reach, make)
    };
    rows.into_iter().map(case).collect()
}

/// Inputs that exceed every work budget and still have to finish.
fn beyond() -> Vec<Case> {
    let many = |mix: Mix| {
        let make = move || mix.pending(200_000, 1);
        Case::new(format!("beyond: 200000 {}", mix.name()), None, make)
    };
    let lines = [
        // 500 NodePools, equal and different ones.
        "seed=1 pods=2000 pools=500",
        "seed=1 pods=2000 pools=500 weights=1 taints=3 tolerates=50",
        "seed=1 pods=2000 pools=500 weights=1 limits=20",
        // Pods with a hundred terms.
        "seed=1 pods=2000 terms=100 apart_host=50",
        "seed=1 pods=2000 terms=100 near_zone=50",
        "seed=1 pods=2000 terms=100 rather_apart_host=50",
        "seed=1 pods=2000 terms=100 rather_near_zone=50",
        // One pod for each workload.
        "seed=1 pods=10000 group=1 sizes=3",
        "seed=1 pods=10000 group=1 sizes=3 hard_zone=100",
        "seed=1 pods=10000 group=1 sizes=3 apart_host=100",
        "seed=1 pods=10000 group=1 sizes=3 soft_zone=100 rather_apart_host=100",
    ];
    let inputs = lines.into_iter().map(|line| Case::combined("beyond", line.parse().unwrap()));
    [Mix::Plain, Mix::Stateful, Mix::Enterprise].into_iter().map(many).chain(inputs).collect()
}
