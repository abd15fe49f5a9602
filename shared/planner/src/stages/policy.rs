//! The scheduling problem of the cluster, and the policy of its plan.

use crate::facts::Facts;
use crate::launches::stopped;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::instances;
use crate::settings::Mechanism;
use nodeless_disruption::{Command, OnDemandMinimums};
use nodeless_placement::{Committed, Policy, StoppedInstances};
use nodeless_scheduling::{Options, Problem, Solution};

/// The scheduling problem of the cluster, and its plan, within the work budget. `whole` are pods, by uid, that all get nodes or none.
pub(crate) fn solve<'a>(
    facts: Facts<'a>,
    cluster_state: &ClusterState<'a>,
    whole: Vec<Vec<&'a str>>,
) -> (Problem<'a>, Solution) {
    let problem = cluster_state.problem(facts.evaluated, facts.snapshot.now);
    let policy = Policy { whole, ..policy(facts, cluster_state, &problem) };
    let solution = nodeless_placement::plan(&problem, &policy);
    (problem, solution)
}

fn policy<'a>(facts: Facts<'a>, cluster_state: &ClusterState<'a>, problem: &Problem<'_>) -> Policy<'a> {
    let snapshot = facts.snapshot;
    let under_way: Vec<&Command> = facts.commands.records.iter().map(|record| &record.command).collect();
    Policy {
        options: Options { max_work: snapshot.work.provisioning, ..snapshot.settings.scheduling },
        refine: snapshot.is_whole(),
        exchange: snapshot.settings.without != Some(Mechanism::Exchange),
        whole: Vec::new(),
        stopped: StoppedInstances::new(stopped::startable(facts)),
        minimums: OnDemandMinimums::new(&problem.node_pools, facts.claims, &under_way),
        interruptions: snapshot.recent_interruptions(facts.claims),
        committed: committed(facts, cluster_state),
    }
}

/// The commitments of the account, and the instances that stay; `None` without commitments.
pub(crate) fn committed<'a>(facts: Facts<'a>, cluster_state: &ClusterState<'a>) -> Option<Committed<'a>> {
    let commitments = facts.snapshot.commitments.as_ref()?;
    Some(Committed { commitments, current: instances::staying(cluster_state, &facts.snapshot.catalog) })
}
