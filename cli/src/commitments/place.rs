//! Plans that use what is left of commitments.

use super::Instance;
use nodeless_catalog::Catalog;
use nodeless_commitments::{Bill, Commitments, Prepaid, Usage, apply};
use nodeless_model::InstanceType;
use nodeless_operations::{DryRun, OtherOfferings};
use nodeless_scheduling::{Problem, Solution};

/// A plan for the pending pods of a cluster.
pub(crate) struct Placed<'d> {
    pub(crate) problem: Problem<'d>,
    pub(crate) solution: Solution,
    /// What the nodes of the cluster and of the plan cost with the commitments, the launches last.
    pub(crate) bill: Option<Bill>,
}

/// The plan without commitments, or one for which less is paid in total: the scheduler gets the hours that are left of the commitments
/// as prepaid capacity. That is an estimate, so each plan is priced as AWS would bill it, and the cheapest is taken. It leaves no more
/// pods without a node than the plan without commitments, and never costs more.
pub(crate) fn place<'d>(run: &'d DryRun, catalog: &Catalog, commitments: Option<&Commitments>) -> Placed<'d> {
    let (problem, solution) = run.place();
    let Some(commitments) = commitments else { return Placed { problem, solution, bill: None } };
    let current: Vec<Instance> = run.current_nodes().iter().map(|node| Instance::of_node(node, catalog)).collect();
    let bill_of = |solution: &Solution| {
        let launched = solution.launches.iter().map(|launch| Instance::of_launch(launch, &problem, catalog));
        bill(&current.iter().cloned().chain(launched).collect::<Vec<_>>(), commitments)
    };
    let mut best = (bill_of(&solution), solution);
    let pods = best.1.unschedulable.len();
    for prepaid in offers(&Prepaid::left(commitments, &bill(&current, commitments))) {
        for refine in [true, false] {
            let offered = |kind: &InstanceType| prepaid.offered(kind);
            let other = OtherOfferings { offered: &offered, list: &Prepaid::at_list_price, refine };
            let other = run.place_with(&problem, other);
            let bill = bill_of(&other);
            if other.unschedulable.len() <= pods && is_better(&bill, &best.0) {
                best = (bill, other);
            }
        }
    }
    let (bill, solution) = best;
    Placed { problem, solution, bill: Some(bill) }
}

/// What instances cost with commitments.
pub(super) fn bill(instances: &[Instance], commitments: &Commitments) -> Bill {
    apply(&instances.iter().map(Instance::usage).collect::<Vec<Usage<'_>>>(), commitments)
}

/// All that is left, and Reserved Instances alone: Savings Plans apply to whatever a plan launches.
fn offers<'c>(left: &Prepaid<'c>) -> Vec<Prepaid<'c>> {
    let reserved = left.clone().reserved_only();
    let mut all = vec![left.clone()];
    all.extend(Some(reserved).filter(|reserved| reserved != left));
    all.retain(|prepaid| !prepaid.is_empty());
    all
}

/// Whether less is paid, or as much and more is left of the commitments for others.
fn is_better(bill: &Bill, than: &Bill) -> bool {
    let (paid, other) = (bill.paid(), than.paid());
    is_less(paid, other) || (!is_less(other, paid) && is_less(than.unused(), bill.unused()))
}

/// Whether an amount is lower by more than the rounding of sums.
fn is_less(amount: f64, than: f64) -> bool {
    amount < than - 1e-9
}
