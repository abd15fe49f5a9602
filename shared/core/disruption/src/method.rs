//! The interface of the methods of disruption, and the state of a decision that they share.

use crate::cluster::{Cluster, Options};
use crate::output::Command;
use crate::pods::DisruptionBudgetIndex;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::Expected;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// A decision while its methods run.
pub(crate) struct Progress<'r, 'a> {
    pub(crate) input: &'r Cluster<'a>,
    pub(crate) expected: &'r Expected<'a>,
    pub(crate) budget_index: &'r DisruptionBudgetIndex<'a>,
    pub(crate) options: &'r Options,
    pub(crate) now: Timestamp,
    /// The remaining disruption budgets.
    pub(crate) budgets: Budgets,
    /// Why nodes stay, by node.
    pub(crate) kept: BTreeMap<String, Vec<KeptReason>>,
    /// The nodes that the work limit left out.
    pub(crate) not_evaluated: BTreeSet<String>,
    /// The work of the methods until now.
    pub(crate) work: u64,
}

/// A method of disruption, as Karpenter's `Method` interface in `pkg/controllers/disruption/types.go`. It has the nodes that it may
/// disrupt.
pub(crate) trait DisruptionMethod<'a> {
    /// The commands for its nodes, within the budgets. Adds to the progress why the other nodes stay.
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command>;

    /// Adds to the progress that its nodes wait, because a method before it proposes commands.
    fn wait(&self, progress: &mut Progress<'_, 'a>);

    /// What remains of a command of the method on a new snapshot of the cluster; the method has those nodes of the command that it may
    /// still disrupt. `None` if the command has to be dropped: by default, if the method does not propose it for all its nodes again.
    fn validate(&self, command: &Command, progress: &mut Progress<'_, 'a>) -> Option<Command>
    where
        Self: Sized,
    {
        let same = |fresh: &Command| fresh.method == command.method && fresh.candidates == command.candidates;
        progress.first(&[self]).into_iter().find(same)
    }
}

impl<'r, 'a> Progress<'r, 'a> {
    pub(crate) fn new(
        input: &'r Cluster<'a>,
        expected: &'r Expected<'a>,
        budget_index: &'r DisruptionBudgetIndex<'a>,
        options: &'r Options,
        now: Timestamp,
    ) -> Self {
        Self {
            input,
            expected,
            budget_index,
            options,
            now,
            budgets: Budgets::new(input, now),
            kept: BTreeMap::new(),
            not_evaluated: BTreeSet::new(),
            work: 0,
        }
    }

    pub(crate) fn keep(&mut self, reasons: impl IntoIterator<Item = (String, KeptReason)>) {
        for (node, reason) in reasons {
            let reasons = self.kept.entry(node).or_default();
            // What blocks drift may have been noted for consolidation.
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }

    /// The commands of the first method that proposes any.
    pub(crate) fn first(&mut self, methods: &[&dyn DisruptionMethod<'a>]) -> Vec<Command> {
        let mut commands = Vec::new();
        for method in methods {
            if commands.is_empty() {
                commands = method.propose(self);
                let input = self.input;
                commands.retain(|command| {
                    let Some(why) = input.launches_wait(command) else { return true };
                    for candidate in &command.candidates {
                        // Before what keeps the node from another method, so that its event has this reason.
                        self.kept.entry(candidate.node.clone()).or_default().insert(0, why.clone());
                    }
                    false
                });
            } else {
                method.wait(self);
            }
        }
        commands
    }
}
