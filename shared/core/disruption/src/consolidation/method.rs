//! Consolidation as a method of disruption.

use super::round::Setting;
use super::{Observed, find, validation};
use crate::candidates::{Eligible, Lookup};
use crate::cluster::Options;
use crate::method::{DisruptionMethod, Progress};
use crate::output::Command;
use crate::reasons::KeptReason;
use crate::simulation::preferences;
use nodeless_model::hashed::HashSet;

/// Consolidation of nodes that pods need.
pub(crate) struct Consolidation<'c, 'a>(pub(crate) Vec<Eligible<'c, 'a>>);

impl<'a> DisruptionMethod<'a> for Consolidation<'_, 'a> {
    /// The commands keep the preferences of pods.
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        let Progress { input, expected, now, .. } = *progress;
        let left = progress.options.max_work.saturating_sub(progress.work);
        let options = Options { max_work: left, ..progress.options.clone() };
        let held = preferences::held(input, &options);
        let keeping = preferences::with_held(input, &held);
        let lookup = Lookup::new(&keeping);
        let included: HashSet<&str> = self.0.iter().map(|one| one.of.name()).collect();
        let nodes = keeping.nodes.iter().filter(|node| included.contains(node.name()));
        let full: Vec<Eligible<'_, '_>> = nodes.filter_map(|node| lookup.eligible(node, now).ok()).collect();
        let observed = Observed { cluster: &keeping, declared: input, expected };
        let mut found = find(observed, &full, &lookup, &mut progress.budgets, Setting { options: &options, now });
        preferences::add_reasons(&mut found.kept, &held);
        progress.work = progress.work.saturating_add(found.work);
        for (node, reasons) in found.kept {
            progress.kept.entry(node).or_default().extend(reasons);
        }
        progress.not_evaluated.extend(found.not_evaluated);
        found.commands
    }

    fn wait(&self, progress: &mut Progress<'_, 'a>) {
        // Nodes that no decision has evaluated yet are still evaluated first.
        progress.not_evaluated.extend(progress.input.not_evaluated.iter().cloned());
        for one in &self.0 {
            let reasons = progress.kept.entry(one.node.name.clone()).or_default();
            if reasons.is_empty() {
                reasons.push(KeptReason::ConsolidationWaits);
            }
        }
    }

    /// The command, if all its nodes may still be disrupted within the budgets, and their pods still need exactly the new nodes that it
    /// launches, for a lower price; the placements of the pods are computed again.
    fn validate(&self, command: &Command, progress: &mut Progress<'_, 'a>) -> Option<Command> {
        if self.0.len() != command.candidates.len() {
            return None;
        }
        let input = progress.input;
        let held = preferences::held(input, progress.options);
        let fresh = validation::still_right(command, &preferences::with_held(input, &held), progress);
        fresh.filter(|fresh| input.launches_wait(fresh).is_none())
    }
}
