//! Inputs that exceed a work limit: a plan places what it can and leaves the rest, and the next plans continue with it. Inputs that
//! take more work than others of their size take a bounded multiple of it.

use nodeless_placement::{Policy, plan};
use nodeless_scheduling::{Options, Reason, Solution, solve};
use nodeless_workloads::combination::{Combination, worst};
use nodeless_workloads::{Mix, Workload};
use std::collections::BTreeSet;

/// The maximum number of plans until all pods are placed, if each may do a third of the work of placing all of them.
const MAX_PLANS: usize = 40;

/// The maximum counted work of an input, as a multiple of that of plain pods of its size. By processor time the ratios are lower, at
/// most 14 at commit 7ca976d5, because half of the time for plain pods is not counted: it does not depend on them.
const MAX_RATIO: f64 = 50.0;

/// The pods that a plan leaves because of the work limit.
fn left(solution: &Solution) -> BTreeSet<usize> {
    let out_of_work = |reasons: &[Reason]| reasons.iter().any(|reason| matches!(reason, Reason::OutOfWork));
    solution.unschedulable.iter().filter(|pod| out_of_work(&pod.reasons)).map(|pod| pod.pod).collect()
}

/// Plans with a third of the work that placing all pods takes, until no pod is left. Pods that were placed are no longer pending in
/// the next plan. Reading the input is done whatever the limit, so an input that takes little more than that is placed by one plan.
fn plan_in_parts(name: &str, mut workload: Workload, min_plans: usize) {
    let whole = solve(&workload.problem(), &Options::default());
    let reading = solve(&workload.problem(), &Options { max_work: Some(0), ..Options::default() }).work;
    assert_eq!(left(&whole).len(), 0, "{name}: without a limit no pod is left");
    let schedulable = workload.pending.len() - whole.unschedulable.len();
    assert!(schedulable > 0, "{name}");
    let options = Options { max_work: Some(reading + (whole.work - reading) / 3), ..Options::default() };
    let mut placed = 0;
    for number in 1..=MAX_PLANS {
        let solution = plan(&workload.problem(), &Policy::new(&options, true));
        let left = left(&solution);
        let now = workload.pending.len() - solution.unschedulable.len();
        placed += now;
        if left.is_empty() {
            assert!(number >= min_plans, "{name}: {number} plans");
            assert!(placed >= schedulable, "{name}: {placed} of {schedulable} placed in {number} plans");
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
    plan_in_parts("200,000 plain pods", Mix::Plain.pending(200_000, 1), 1);
    plan_in_parts("20,000 pods of StatefulSets", Mix::Stateful.pending(20_000, 1), 2);
}

#[test]
fn hundreds_of_node_pools_and_terms_leave_pods_for_the_next_plan() {
    for (line, min_plans) in [
        ("seed=1 pods=2000 pools=500", 1),
        ("seed=1 pods=2000 pools=500 weights=1 taints=3 tolerates=50", 2),
        ("seed=1 pods=2000 terms=100 apart_host=50", 1),
        ("seed=1 pods=2000 terms=100 rather_near_zone=50", 1),
    ] {
        let (name, workload) = combination(line);
        plan_in_parts(name, workload, min_plans);
    }
}

#[test]
fn thousands_of_distinct_workloads_leave_pods_for_the_next_plan() {
    for line in [
        "seed=1 pods=10000 group=1 sizes=3 hard_zone=100",
        "seed=1 pods=10000 group=1 sizes=3 soft_zone=100 rather_apart_host=100",
    ] {
        let (name, workload) = combination(line);
        plan_in_parts(name, workload, 2);
    }
}

#[test]
fn no_stored_input_takes_more_than_fifty_times_the_work_of_plain_pods() {
    let work = |input: &Combination| solve(&input.workload().problem(), &Options::default()).work as f64;
    for input in worst() {
        let ratio = work(&input) / work(&input.plain_of_its_size());
        assert!(ratio <= MAX_RATIO, "{input}: {ratio:.1} times the work of plain pods");
    }
}
