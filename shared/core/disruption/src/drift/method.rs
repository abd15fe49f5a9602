//! Drift as methods of disruption: of static NodePools, and of all others.

use crate::candidates::Eligible;
use crate::drift::ami_canary::Canaries;
use crate::drift::simulation::DriftSimulation;
use crate::drift::{replacement, static_nodes};
use crate::method::{DisruptionMethod, Progress};
use crate::output::Command;
use crate::reasons::KeptReason;
use crate::reasons::drift::Drift;
use nodeless_model::DisruptionReason;
use std::cell::RefCell;

/// Drifted nodes of static NodePools. Their replacements are launched by the number of replicas.
pub(crate) struct StaticDrift<'e, 'c, 'a>(DriftedNodes<'e, 'c, 'a>);

/// Drifted nodes of other NodePools, which are replaced one by one.
pub(crate) struct NodeDrift<'e, 'c, 'a>(DriftedNodes<'e, 'c, 'a>);

struct DriftedNodes<'e, 'c, 'a> {
    drifted: Vec<(&'e Eligible<'c, 'a>, Drift)>,
    canaries: &'e RefCell<Canaries>,
}

/// The methods for these drifted nodes, in their order.
pub(crate) fn methods<'e, 'c, 'a>(
    drifted: &[(&'e Eligible<'c, 'a>, Drift)],
    canaries: &'e RefCell<Canaries>,
) -> (StaticDrift<'e, 'c, 'a>, NodeDrift<'e, 'c, 'a>) {
    let (fixed, others): (Vec<_>, Vec<_>) = drifted.iter().cloned().partition(|(one, _)| one.is_static());
    let nodes = |drifted| DriftedNodes { drifted, canaries };
    (StaticDrift(nodes(fixed)), NodeDrift(nodes(others)))
}

impl<'a> DisruptionMethod<'a> for StaticDrift<'_, '_, 'a> {
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        let Progress { input, budget_index, options, now, .. } = *progress;
        let mut canaries = self.0.canaries.borrow_mut();
        let budgets = &mut progress.budgets;
        let mut admit = |one: &Eligible<'_, '_>, drift: &Drift| -> Result<(), KeptReason> {
            canaries.check(one, drift)?;
            replacement::unless_blocked(one, budget_index, now)?;
            budgets.take(&one.offer.pool.name, DisruptionReason::Drifted)?;
            canaries.replaced(one);
            Ok(())
        };
        let (commands, reasons) = static_nodes::find(input, &self.0.drifted, budget_index, options, &mut admit, now);
        progress.keep(reasons);
        self.0.explain(progress);
        commands
    }

    fn wait(&self, progress: &mut Progress<'_, 'a>) {
        self.0.wait(progress);
    }
}

impl<'a> DisruptionMethod<'a> for NodeDrift<'_, '_, 'a> {
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        if self.0.drifted.is_empty() {
            return Vec::new();
        }
        let Progress { input, expected, budget_index, options, now, .. } = *progress;
        let mut simulation = DriftSimulation::new(input, expected, budget_index, options, now);
        let mut canaries = self.0.canaries.borrow_mut();
        let budgets = &mut progress.budgets;
        let (commands, reasons) = replacement::find(&self.0.drifted, &mut simulation, budgets, &mut canaries);
        progress.work = progress.work.saturating_add(simulation.work());
        progress.keep(reasons);
        self.0.explain(progress);
        commands
    }

    fn wait(&self, progress: &mut Progress<'_, 'a>) {
        self.0.wait(progress);
    }
}

impl DriftedNodes<'_, '_, '_> {
    fn wait(&self, progress: &mut Progress<'_, '_>) {
        let waits =
            |(one, drift): &(&Eligible<'_, '_>, Drift)| (one.node.name.clone(), KeptReason::DriftWaits(drift.clone()));
        progress.keep(self.drifted.iter().map(waits));
        self.explain(progress);
    }

    /// Notes the nodes that were not evaluated, and how the nodes drifted that a budget keeps.
    fn explain(&self, progress: &mut Progress<'_, '_>) {
        let of_drift = |why: &KeptReason| matches!(why, KeptReason::Budget { reason: DisruptionReason::Drifted, .. });
        for (one, drift) in &self.drifted {
            let Some(reasons) = progress.kept.get_mut(&one.node.name) else { continue };
            if reasons.contains(&KeptReason::NotEvaluated) {
                progress.not_evaluated.insert(one.node.name.clone());
            }
            if progress.options.explain
                && let Some(place) = reasons.iter().position(of_drift)
            {
                reasons.insert(place, KeptReason::Drifted(drift.clone()));
            }
        }
    }
}
