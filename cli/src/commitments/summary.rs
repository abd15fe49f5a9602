//! What is shown of commitments. `docs/commitments.md` describes it; change both together.

use crate::output::report;
use nodeless_commitments::{Bill, CommitmentBill, Commitments, Instance, bill};
use nodeless_model::{CapacityType, DollarsPerHour};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is paid with commitments, in dollars an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paid {
    /// What the commitments cost, used or not.
    pub(crate) committed_per_hour: f64,
    /// The part of on-demand prices that they cover.
    pub(crate) covered_per_hour: f64,
    /// What is paid besides them.
    pub(crate) uncovered_per_hour: f64,
    /// The part of the commitments that nothing uses.
    pub(crate) unused_per_hour: f64,
    /// What is paid in total: the commitments, and what they do not cover.
    pub(crate) paid_per_hour: f64,
}

/// A commitment, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Used {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) committed_per_hour: f64,
    pub(crate) used_per_hour: f64,
    pub(crate) unused_per_hour: f64,
}

/// What is paid now and with a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// For the nodes of the cluster.
    pub(crate) now: Paid,
    /// For these and the launches of the plan.
    pub(crate) planned: Paid,
    /// The commitments with the plan.
    pub(crate) each: Vec<Used>,
    /// Which commitments do not count, and what is assumed.
    pub(crate) notes: Vec<String>,
}

/// Prices have six decimal places, so further digits of sums are rounding errors.
fn rounded(sum: f64) -> f64 {
    (sum * 1e6).round() / 1e6 + 0.0
}

impl Paid {
    /// The sums of a bill.
    pub(crate) fn new(bill: &Bill) -> Self {
        Self {
            committed_per_hour: rounded(bill.committed()),
            covered_per_hour: rounded(bill.covered()),
            uncovered_per_hour: rounded(bill.uncovered()),
            unused_per_hour: rounded(bill.unused()),
            paid_per_hour: rounded(bill.paid()),
        }
    }

    /// The sums for instances, and the commitments one by one.
    pub(crate) fn for_instances(instances: &[Instance], commitments: &Commitments) -> (Self, Vec<Used>) {
        let bill = bill(instances, commitments);
        (Self::new(&bill), bill.commitments.iter().map(Used::new).collect())
    }

    /// `$9.1000/h: $7.5000/h for commitments, of which $0.2000/h is unused, and $1.6000/h uncovered`.
    pub(crate) fn text(&self) -> String {
        let Self { committed_per_hour, covered_per_hour, uncovered_per_hour, unused_per_hour, paid_per_hour } = *self;
        let dollars = DollarsPerHour;
        format!(
            "{} paid: {} for commitments, which cover on-demand prices of {} and of which {} is unused, and {} uncovered",
            dollars(paid_per_hour),
            dollars(committed_per_hour),
            dollars(covered_per_hour),
            dollars(unused_per_hour),
            dollars(uncovered_per_hour)
        )
    }
}

impl Used {
    fn new(bill: &CommitmentBill) -> Self {
        Self {
            id: bill.id.clone(),
            description: bill.described.clone(),
            committed_per_hour: rounded(bill.committed),
            used_per_hour: rounded(bill.used()),
            unused_per_hour: rounded(bill.unused()),
        }
    }

    /// `Compute Savings Plan 8f1c: $7.3000/h of $7.5000/h used`.
    pub(crate) fn text(&self) -> String {
        let Self { id, description, committed_per_hour, used_per_hour, .. } = self;
        format!(
            "{description} {id}: {} of {} used",
            DollarsPerHour(*used_per_hour),
            DollarsPerHour(*committed_per_hour)
        )
    }
}

impl Summary {
    /// The summary of a plan whose bill has the nodes of the cluster first. Prints for which instance types rates are missing.
    pub(crate) fn new(current: &[Instance], launched: &[Instance], commitments: &Commitments) -> Self {
        let all: Vec<Instance> = current.iter().chain(launched).cloned().collect();
        let (now, _) = Paid::for_instances(current, commitments);
        let (planned, each) = Paid::for_instances(&all, commitments);
        let unrated = without_rate(&all, commitments);
        unrated.iter().for_each(|note| report!("warning: {note}"));
        Self { now, planned, each, notes: commitments.notes.iter().cloned().chain(unrated).collect() }
    }

    /// The lines of the text output.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Now with commitments: {}.", self.now.text())];
        if self.planned != self.now {
            lines.push(format!("With this plan: {}.", self.planned.text()));
        }
        lines.extend(self.each.iter().map(|used| format!("  {}", used.text())));
        lines
    }
}

/// The on-demand instance types that a plan would cover if its rates contained them.
pub(crate) fn without_rate(instances: &[Instance], commitments: &Commitments) -> Vec<String> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let usages: Vec<_> = instances.iter().map(Instance::usage).collect();
    let on_demand = usages.iter().filter(|one| one.linux && one.capacity_type != CapacityType::Spot);
    for usage in on_demand.filter(|one| one.price.is_some()) {
        for plan in commitments.plans.iter().filter(|plan| plan.should_cover(usage.instance_type)) {
            if plan.rate(usage.instance_type).is_none() {
                missing.entry(&plan.id).or_default().insert(usage.instance_type);
            }
        }
    }
    let text = |(plan, types): (&str, BTreeSet<&str>)| {
        let types = types.into_iter().collect::<Vec<_>>().join(", ");
        format!("the rates of Savings Plan {plan} do not contain {types}, so it does not cover them here")
    };
    missing.into_iter().map(text).collect()
}
