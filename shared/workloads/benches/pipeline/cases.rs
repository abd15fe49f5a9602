//! The cases and what they are to reach.

use nodeless_workloads::{Mix, Running, Workload};

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

    pub fn all() -> Vec<Self> {
        let mut cases = pending();
        cases.extend(running());
        cases
    }
}

/// Pods that wait in empty clusters.
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

/// Clusters that run, of which some part is waste, and a thousand pods that wait.
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
