//! Plans the nodes of a set. No I/O and no clock.

use crate::plan::input::offline::Offline;
use crate::plan::report::Unschedulable;
use crate::plan::whatif::changes::repacked;
use crate::plan::whatif::cost::{PricedNode, after};
use nodeless_api::view::ClusterView;
use nodeless_model::Pod;
use nodeless_scheduling::{Advice, Options, Problem, Solution, advise};
use nodeless_snapshot::Snapshot;
use std::collections::BTreeSet;

/// A set as it is planned.
pub(super) struct Planned {
    pub(super) nodes: Vec<PricedNode>,
    /// The pods that are unschedulable, by name.
    pub(super) unschedulable: Vec<Unschedulable>,
    /// All pods, as `namespace/name`.
    pub(super) pods: BTreeSet<String>,
    /// What is assumed, and which NodePools cannot be used.
    pub(super) notes: Vec<String>,
}

impl Planned {
    pub(super) fn pods_without_node(&self) -> BTreeSet<String> {
        self.unschedulable.iter().map(|one| one.pod.clone()).collect()
    }
}

/// Plans the nodes for all pods of a set. Only nodes of no NodePool stay: all others are launched anew, static ones too, so that the
/// free capacity of today's nodes hides no difference. Remedies are searched for unschedulable pods that are not `known`.
pub(super) fn plan(offline: Offline<'_>, set: &Snapshot, known: &BTreeSet<String>) -> Planned {
    let run = offline.dry_run(without_nodes_of_node_pools(offline, set), Vec::new(), true);
    let (problem, solution) = run.place();
    let fixed = run.static_changes();
    let staying = run.current_nodes().iter().map(|node| PricedNode::current(node, offline.catalog)).collect();
    let mut nodes = after(staying, &problem, &solution);
    let of_static = fixed.iter().flat_map(|change| &change.launches);
    nodes.extend(of_static.map(|launch| PricedNode::launched(launch, &problem)));
    let mut notes = run.assumptions().to_vec();
    notes.extend(run.unusable().map(|(pool, why)| format!("NodePool {pool} cannot be used: {why}")));
    notes.extend(fixed.iter().filter_map(|change| {
        let why = change.short.as_ref()?;
        Some(format!("NodePool {} has fewer nodes than replicas: {why}", change.node_pool))
    }));
    Planned {
        nodes,
        unschedulable: unschedulable(offline.options, &problem, &solution, &run.faulty(), known),
        pods: set.view.pods().map(Pod::key).collect(),
        notes,
    }
}

fn unschedulable(
    options: Options,
    problem: &Problem<'_>,
    solution: &Solution,
    faulty: &[(&Pod, &str)],
    known: &BTreeSet<String>,
) -> Vec<Unschedulable> {
    let pod = |index: usize| problem.pods.get(index).copied().filter(|pod| !pod.is_virtual());
    let is_new = |index: usize| pod(index).is_some_and(|pod| !known.contains(&pod.key()));
    let new = solution.unschedulable.iter().filter(|refused| is_new(refused.pod));
    let mut advice = advise(problem, solution, new, &options).advice.into_iter();
    let refused = solution.unschedulable.iter().filter_map(|refused| {
        let advice = if is_new(refused.pod) { advice.next() } else { None };
        let Advice { remedies, obstacle } = advice.unwrap_or_default();
        let reasons = refused.reasons.iter().map(ToString::to_string).collect();
        Some(Unschedulable { pod: pod(refused.pod)?.key(), reasons, remedies, obstacle })
    });
    let mut all: Vec<Unschedulable> = refused.collect();
    all.extend(faulty.iter().map(|(pod, why)| Unschedulable {
        pod: pod.key(),
        reasons: vec![(*why).to_owned()],
        remedies: Vec::new(),
        obstacle: None,
    }));
    all.sort();
    all
}

/// The cluster without the nodes of NodePools, whose pods are pending.
fn without_nodes_of_node_pools(offline: Offline<'_>, set: &Snapshot) -> ClusterView {
    if set.view.nodes.is_empty() && set.claims.is_empty() {
        return set.view.clone();
    }
    let nodes = offline.dry_run(set.view.clone(), set.claims.clone(), false).current_nodes();
    let names = nodes.iter().map(|node| node.name.as_str()).collect();
    let stays = nodes.iter().filter(|node| node.node_pool.is_none()).map(|node| node.name.as_str()).collect();
    let mut view = repacked(&set.view, &names, &stays);
    view.node_claims.clear();
    view.other_node_claims.clear();
    view
}
