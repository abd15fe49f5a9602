//! The complete path of a plan.

use nodeless_disruption::{decide, plan};
use nodeless_scheduling::Options;
use nodeless_workloads::{NOW, Workload};
use std::time::Duration;

/// The result of a workload, and the time of each part.
pub struct Outcome {
    pub planned: Duration,
    pub decided: Duration,
    pub launches: usize,
    pub left: usize,
    pub going: usize,
}

/// Plans for pending pods with refinement, and decides about existing nodes.
pub fn pipeline(workload: &Workload) -> Outcome {
    let start = spent();
    let options = Options::default();
    let problem = workload.problem();
    let last = plan(&problem, &options, true);
    let planned = spent();
    let cluster = workload.cluster();
    let decision = decide(&cluster, NOW, &nodeless_disruption::Options::default());
    let decided = spent();
    Outcome {
        planned: planned - start,
        decided: decided - planned,
        launches: last.launches.len(),
        left: last.unschedulable.len(),
        going: decision.commands.iter().map(|command| command.candidates.len()).sum(),
    }
}

/// Processor time of this thread.
pub fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}
