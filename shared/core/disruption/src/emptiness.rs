//! Emptiness: nodes that no pod needs.

use crate::candidates::{self, Eligible};
use crate::method::{DisruptionMethod, Progress};
use crate::output::{Command, Method};
use crate::policy::budgets::Budgets;
use crate::policy::on_demand_minimum::OnDemandMinimums;
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::DisruptionReason;

/// Emptiness of these nodes.
pub(crate) struct Emptiness<'c, 'a>(pub(crate) Vec<Eligible<'c, 'a>>);

impl<'a> DisruptionMethod<'a> for Emptiness<'_, 'a> {
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        let mut minimums = OnDemandMinimums::of_cluster(progress.input);
        let (command, reasons) = find(self.0.clone(), &mut minimums, &mut progress.budgets, progress.now);
        progress.keep(reasons);
        command.into_iter().collect()
    }

    fn wait(&self, progress: &mut Progress<'_, 'a>) {
        progress.keep(self.0.iter().map(|one| (one.node.name.clone(), KeptReason::EmptinessWaits)));
    }

    /// The nodes that are still empty, as far as the budgets allow.
    fn validate(&self, _: &Command, progress: &mut Progress<'_, 'a>) -> Option<Command> {
        progress.first(&[self]).pop()
    }
}

/// The command that removes as many of these empty nodes as the budgets allow, the most expensive first, and those that a
/// minimum on demand counts after the others; and why the others stay.
fn find(
    mut empty: Vec<Eligible<'_, '_>>,
    minimums: &mut OnDemandMinimums,
    budgets: &mut Budgets,
    now: Timestamp,
) -> (Option<Command>, Vec<(String, KeptReason)>) {
    let mut kept = Vec::new();
    let counted = |one: &Eligible<'_, '_>| minimums.counts(one.claim);
    empty.sort_by(|a, b| {
        counted(a)
            .cmp(&counted(b))
            .then_with(|| b.price.total_cmp(&a.price))
            .then_with(|| a.node.name.cmp(&b.node.name))
    });
    let mut taken = Vec::new();
    for one in empty {
        let going = [one.claim.name.as_str()];
        let allowed = minimums.check(&going, std::iter::empty(), &[]);
        match allowed.and_then(|()| budgets.take(&one.offer.pool.name, DisruptionReason::Empty)) {
            Ok(()) => {
                minimums.apply(&going, std::iter::empty(), &[]);
                taken.push(one);
            }
            Err(why) => kept.push((one.node.name.clone(), why)),
        }
    }
    // The removal of a node that was launched for pods and took none saves nothing: without the launch, nothing would be paid.
    let saved = taken.iter().filter(|one| !one.claim.took_no_pod()).map(|one| one.price).sum();
    let command = (!taken.is_empty()).then(|| {
        let command = candidates::command(Method::Emptiness, DisruptionReason::Empty, &taken, Vec::new(), now);
        Command { savings_per_hour: saved, ..command }
    });
    (command, kept)
}
