//! Node repair as a method of disruption, as in Karpenter from 1.15: what the pods of an unhealthy node need is launched first, and its
//! drain respects PodDisruptionBudgets until it ends by force.

use super::detection::due;
use crate::candidates::{Eligible, Lookup};
use crate::cluster::Options;
use crate::drift::simulation::DriftSimulation;
use crate::drift::static_nodes;
use crate::method::{DisruptionMethod, Progress};
use crate::output::{Command, Repair};
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, DriftReason};
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use std::time::Duration;

/// Repair of these nodes, in their order.
pub(crate) struct NodeRepair<'c, 'a>(Vec<UnhealthyNode<'c, 'a>>);

struct UnhealthyNode<'c, 'a> {
    one: Eligible<'c, 'a>,
    /// The unhealthy condition. This is not a drift, but handled as one.
    why: Drift,
    drain_within: Duration,
}

impl<'c, 'a> NodeRepair<'c, 'a> {
    /// The nodes that have been unhealthy for too long, and why others of them stay.
    pub(crate) fn new(lookup: &Lookup<'c, 'a>, options: &Options, now: Timestamp) -> (Self, Vec<(String, KeptReason)>) {
        let cluster = lookup.cluster();
        let (mut nodes, mut kept) = (Vec::new(), Vec::new());
        let due = if options.node_repair { due(cluster, options, now) } else { Vec::new() };
        for unhealthy in due {
            let Some(of) = cluster.nodes.iter().find(|of| of.claim.is_some_and(|it| it.name == unhealthy.node_claim))
            else {
                continue;
            };
            match lookup.repairable(of) {
                Err(why) => kept.push((unhealthy.node, why)),
                Ok(one) => {
                    let own = one.claim.spec.termination_grace_period.unwrap_or(unhealthy.drain);
                    let why = Drift { reason: DriftReason::Unhealthy, message: unhealthy.message };
                    nodes.push(UnhealthyNode { one, why, drain_within: unhealthy.drain.min(own) });
                }
            }
        }
        (Self(nodes), kept)
    }

    /// Only the nodes of this command.
    pub(crate) fn only(mut self, command: &Command) -> Self {
        self.0.retain(|node| command.candidates.iter().any(|candidate| candidate.node_claim == node.one.claim.name));
        self
    }

    /// The commands for nodes of static NodePools, whose replacements are launched whatever their pods need.
    fn one_for_one(&self, progress: &mut Progress<'_, 'a>, budgets: &mut Budgets) -> Vec<Command> {
        let Progress { input, budget_index, options, now, .. } = *progress;
        let fixed = self.0.iter().filter(|node| node.one.is_static());
        let fixed: Vec<_> = fixed.map(|node| (&node.one, node.why.clone())).collect();
        let mut admit = |one: &Eligible<'_, '_>, _: &Drift| take(budgets, one);
        let (commands, kept) = static_nodes::find(input, &fixed, budget_index, options, &mut admit, now);
        progress.keep(kept);
        commands
    }

    /// The commands for other nodes, as in drift.
    fn by_pods(&self, progress: &mut Progress<'_, 'a>, budgets: &mut Budgets) -> Vec<Command> {
        let Progress { input, expected, budget_index, options, now, .. } = *progress;
        let mut others = self.0.iter().filter(|node| !node.one.is_static()).peekable();
        if others.peek().is_none() {
            return Vec::new();
        }
        let mut simulation = DriftSimulation::new(input, expected, budget_index, options, now);
        let mut commands = Vec::new();
        for UnhealthyNode { one, why, .. } in others {
            let replaced = budgets.check(&one.offer.pool.name, DisruptionReason::Unhealthy).and_then(|()| {
                if simulation.receives(&one.node.name) {
                    return Err(KeptReason::DriftWaits(why.clone()));
                }
                simulation.leave(one, why)
            });
            match replaced.and_then(|command| take(budgets, one).map(|()| command)) {
                Ok(command) => commands.push(command),
                Err(kept) => progress.keep([(one.node.name.clone(), kept)]),
            }
        }
        progress.work = progress.work.saturating_add(simulation.work());
        commands
    }

    fn repair(&self, command: Command) -> Command {
        let is_candidate = |node: &&UnhealthyNode<'_, '_>| {
            command.candidates.iter().any(|candidate| candidate.node_claim == node.one.claim.name)
        };
        let of = self.0.iter().find(is_candidate);
        let repair = of.map(|node| Repair { why: node.why.message.clone(), drain_within: node.drain_within });
        Command { repair, ..command }
    }
}

impl<'a> DisruptionMethod<'a> for NodeRepair<'_, 'a> {
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        let mut budgets = Budgets::of_repair(progress.input, progress.now);
        let mut commands = self.one_for_one(progress, &mut budgets);
        if commands.is_empty() {
            commands = self.by_pods(progress, &mut budgets);
        } else {
            // The limits of the cluster also count the replacements of static NodePools.
            let others = self.0.iter().filter(|node| !node.one.is_static());
            progress.keep(others.map(|node| (node.one.node.name.clone(), KeptReason::DriftWaits(node.why.clone()))));
        }
        commands.into_iter().map(|command| self.repair(command)).collect()
    }

    /// Repair is the first method, so its nodes never wait.
    fn wait(&self, _: &mut Progress<'_, 'a>) {}
}

fn take(budgets: &mut Budgets, one: &Eligible<'_, '_>) -> Result<(), KeptReason> {
    budgets.take(&one.offer.pool.name, DisruptionReason::Unhealthy)
}
