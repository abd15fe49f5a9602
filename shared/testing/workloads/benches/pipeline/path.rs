//! The complete path of a plan.

use nodeless_planner::{Action, DryRun, DryRunInput, PlanSettings, Snapshot};
use nodeless_workloads::{NOW, PlannerInput, Workload};
use std::time::Duration;

/// The result of a workload, and the time of each part.
pub struct PipelineOutcome {
    /// The time of the whole path.
    pub all: Duration,
    /// The time without the decision about disruption.
    pub planned: Duration,
    pub launches: usize,
    pub left: usize,
    pub going: usize,
}

/// The workload as the planner reads it, after plans that brought the statuses of NodePools and claims up to date.
pub fn snapshot(workload: Workload) -> Snapshot {
    let PlannerInput { view, claims, catalog } = workload.into_input().unwrap();
    let (shifted, settings, disruption) = (Vec::new(), PlanSettings::default(), Some(Vec::new()));
    let input = DryRunInput { view, claims, catalog, now: NOW, shifted, settings, commitments: None, disruption };
    let mut snapshot = DryRun::new(input).into_snapshot();
    for action in without_disruption(&mut snapshot, |snapshot| snapshot.replay().batches)
        .into_iter()
        .flat_map(|batch| batch.actions)
    {
        match action {
            Action::WriteNodePoolStatus(name, status) => drop(snapshot.view.node_pool_statuses.insert(name, *status)),
            Action::UpdateClaim(updated) => {
                let known = snapshot.claims.iter_mut().find(|claim| claim.name == updated.name);
                *known.unwrap() = *updated;
            }
            _ => {}
        }
    }
    snapshot
}

/// Makes the plan: bookkeeping, provisioning with refinement, the decision about existing nodes, and the decision records.
pub fn pipeline(snapshot: &mut Snapshot) -> PipelineOutcome {
    let start = spent();
    let report = snapshot.replay().outcome.report;
    let all = spent() - start;
    let planned = without_disruption(snapshot, |snapshot| {
        let start = spent();
        drop(snapshot.replay());
        spent() - start
    });
    let (launches, left, going) = (report.created.len(), report.unschedulable.len(), report.proposed.len());
    PipelineOutcome { all, planned, launches, left, going }
}

/// Without time for the decision about existing nodes.
fn without_disruption<T>(snapshot: &mut Snapshot, run: impl FnOnce(&Snapshot) -> T) -> T {
    let work = std::mem::take(&mut snapshot.work.disruption);
    let result = run(snapshot);
    snapshot.work.disruption = work;
    result
}

/// Processor time of this thread.
pub fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}
