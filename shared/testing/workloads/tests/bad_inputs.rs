//! Inputs that exceed a work limit: a plan places what it can and leaves the rest, and the next plans continue with it. Inputs that
//! take more work than others of their size take a bounded multiple of it.
#![allow(missing_docs, clippy::unwrap_used)]

use nodeless_disruption::plan;
use nodeless_scheduling::{Options, Reason, Solution, solve};
use nodeless_workloads::search::{self, Combination, worst};
use nodeless_workloads::{Mix, Workload};
use std::collections::BTreeSet;

/// The maximum number of plans until all pods are placed.
const MAX_PLANS: usize = 40;

/// The maximum work of a plan, in work limits and in readings of the input ([`Options::max_work`]).
const MAX_LIMITS: f64 = 1.25;
const MAX_READINGS: f64 = 4.0;

/// The maximum counted work of an input, as a multiple of that of plain pods of its size: the plan, its refinement and the decision
/// about existing nodes.
const MAX_RATIO: f64 = 20.0;

/// The pods that a plan leaves because of the work limit.
fn left(solution: &Solution) -> BTreeSet<usize> {
    let out_of_work = |reasons: &[Reason]| reasons.iter().any(|reason| matches!(reason, Reason::OutOfWork));
    solution.unschedulable.iter().filter(|pod| out_of_work(&pod.reasons)).map(|pod| pod.pod).collect()
}

/// Plans with this fraction of the work that placing all pods takes, beside reading the input, until no pod is left. Pods that were
/// placed are no longer pending in the next plan.
fn plan_in_parts(name: &str, mut workload: Workload, fraction: u64) {
    let whole = solve(&workload.problem(), &Options::default());
    let reading = solve(&workload.problem(), &Options { max_work: Some(0), ..Options::default() }).work;
    assert_eq!(left(&whole).len(), 0, "{name}: without a limit no pod is left");
    let schedulable = workload.pending.len() - whole.unschedulable.len();
    assert!(schedulable > 0, "{name}");
    let limit = (whole.work - reading) / fraction;
    let options = Options { max_work: Some(limit), ..Options::default() };
    let mut placed = 0;
    for number in 1..=MAX_PLANS {
        let solution = plan(&workload.problem(), &options, true);
        let most = limit as f64 * MAX_LIMITS + reading as f64 * MAX_READINGS;
        assert!(solution.work as f64 <= most, "{name}: plan {number} did {} of {most}", solution.work);
        let left = left(&solution);
        let now = workload.pending.len() - solution.unschedulable.len();
        placed += now;
        if left.is_empty() {
            assert!(number > 1, "{name}: one plan is enough");
            assert!(placed >= schedulable, "{name}: {placed} of {schedulable} placed in {number} plans");
            println!("{name}: {number} plans; reading {reading}, limit {limit}, whole {}", whole.work);
            return;
        }
        assert!(now > 0 && !solution.launches.is_empty(), "{name}: plan {number} places none of {}", left.len());
        let unplaced: BTreeSet<usize> = solution.unschedulable.iter().map(|pod| pod.pod).collect();
        let mut index = 0;
        workload.pending.retain(|_| {
            index += 1;
            unplaced.contains(&(index - 1))
        });
    }
    panic!("{name}: {placed} of {schedulable} placed in {MAX_PLANS} plans");
}

fn combination(line: &str) -> (&str, Workload) {
    (line, line.parse::<Combination>().unwrap().workload())
}

#[test]
fn hundreds_of_thousands_of_pods_are_placed_by_several_plans() {
    plan_in_parts("200,000 plain pods", Mix::Plain.pending(200_000, 1), 3);
    plan_in_parts("20,000 pods of StatefulSets", Mix::Stateful.pending(20_000, 1), 3);
}

#[test]
fn hundreds_of_node_pools_and_terms_leave_pods_for_the_next_plan() {
    for line in [
        "seed=1 pods=2000 pools=500",
        "seed=1 pods=2000 pools=500 weights=1 taints=3 tolerates=50",
        "seed=1 pods=2000 terms=100 apart_host=50",
        "seed=1 pods=2000 terms=100 rather_near_zone=50",
    ] {
        let (name, workload) = combination(line);
        plan_in_parts(name, workload, 3);
    }
}

#[test]
fn thousands_of_distinct_workloads_leave_pods_for_the_next_plan() {
    for line in [
        "seed=1 pods=10000 group=1 sizes=3 hard_zone=100",
        "seed=1 pods=10000 group=1 sizes=3 soft_zone=100 rather_apart_host=100",
    ] {
        let (name, workload) = combination(line);
        plan_in_parts(name, workload, 3);
    }
}

#[test]
fn no_stored_input_takes_more_than_twenty_times_the_work_of_plain_pods() {
    for input in worst() {
        let (work, plain) = (search::work(&input.workload()), search::work(&input.plain_of_its_size().workload()));
        let ratio = work as f64 / plain as f64;
        println!("{ratio:5.1} {input}: {work} and {plain}");
        assert!(ratio <= MAX_RATIO, "{input}: {ratio:.1} times the work of plain pods");
    }
}
