//! The planner's outcome for pending pods, and for a probe of each NodePool.

use crate::plan::input::catalog::location;
use crate::plan::report::Report;
use jiff::Timestamp;
use nodeless_api::view::ClusterView;
use nodeless_catalog::Catalog;
use nodeless_doctor::{Placed, Planned, ProbeOutcome, Read};
use nodeless_model::labels::SLEEP;
use nodeless_model::resources::name;
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{NodeClaim, NodePool, Pod, PodTemplate, Quantity, ResourceList, Toleration};
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_scheduling::{DaemonSetEffect, Effect, advise};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The namespace of probes, which exist only in this process.
const PROBES: &str = "nodeless-doctor";

/// Plans the cluster as it is, and for each NodePool a cluster without nodes that has a probe.
pub(super) fn planned(view: &ClusterView, claims: &[NodeClaim], catalog: &Catalog, now: Timestamp) -> Read<Planned> {
    if let Some(region) = other_region(view, catalog) {
        return Read::Not(format!("the cluster is in {region}, and the catalog is of {}", catalog.region));
    }
    let run = dry_run(view.clone(), claims.to_vec(), catalog, now);
    let (pending, of_launches) = unscheduled(&run);
    let large: Vec<DaemonSetEffect> = run.large_daemon_sets();
    let mut daemon_sets = findings(of_launches.iter().chain(&large));
    let probes = view.node_pools.iter().map(|pool| {
        let (refused, effects) = unscheduled(&dry_run(probing(view, pool), Vec::new(), catalog, now));
        // A DaemonSet may take most of the small node for a probe.
        daemon_sets.extend(findings(effects.iter().filter(|found| !matches!(found.effect, Effect::Large(_)))));
        let outcome = refused.into_iter().next().map_or(ProbeOutcome::Placed, |refused| refused.outcome);
        Placed { name: pool.name.clone(), outcome }
    });
    let probes = probes.collect();
    Read::Done(Planned { probes, pending, daemon_sets })
}

/// The region of the cluster, if it is not that of the catalog.
fn other_region(view: &ClusterView, catalog: &Catalog) -> Option<String> {
    location(view).region().filter(|region| *region != catalog.region).map(str::to_owned)
}

/// A cluster with this NodePool only, without nodes, and with a small pod. Replicas and the schedule on which the NodePool has no nodes
/// are left out: they keep pods away, and do not show whether a node can be launched.
fn probing(view: &ClusterView, pool: &NodePool) -> ClusterView {
    let requests = [(name::CPU, Quantity::from_milli(1)), (name::PODS, Quantity::from_units(1))];
    let template = PodTemplate {
        tolerations: vec![Toleration { operator: TolerationOperator::Exists, ..Toleration::default() }],
        requests: ResourceList::from(requests),
        ..PodTemplate::default()
    };
    let pod = Pod {
        namespace: PROBES.to_owned(),
        name: pool.name.clone(),
        uid: pool.name.clone(),
        marked_unschedulable: true,
        template: Arc::new(template),
        ..Pod::default()
    };
    let mut pool = NodePool { replicas: None, ..pool.clone() };
    pool.options.set(SLEEP, None);
    ClusterView {
        pods: vec![Arc::new(pod)],
        node_pools: vec![pool],
        nodes: Vec::new(),
        node_claims: Vec::new(),
        other_node_claims: Vec::new(),
        capacity_buffers: Vec::new(),
        provisioning_requests: Vec::new(),
        ..view.clone()
    }
}

/// The names of DaemonSets, and what each takes. The same DaemonSet is left out for every pod, with another number of nodes.
fn findings<'f>(effects: impl Iterator<Item = &'f DaemonSetEffect>) -> BTreeSet<(String, String)> {
    effects.map(|found| (found.daemon_set.to_string(), found.event_message())).collect()
}

fn dry_run(view: ClusterView, claims: Vec<NodeClaim>, catalog: &Catalog, now: Timestamp) -> DryRun {
    DryRun::new(DryRunInput {
        view,
        claims,
        catalog: catalog.clone(),
        now,
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: None,
    })
}

/// The pods that cannot be scheduled, and the DaemonSets that decide what is launched.
fn unscheduled(run: &DryRun) -> (Vec<Placed>, Vec<DaemonSetEffect>) {
    let (problem, solution) = run.place();
    let advice = advise(&problem, &solution, &solution.unschedulable, &PlanSettings::default().scheduling).advice;
    let report = Report::new(&problem, &solution, &run.faulty(), &advice);
    let placed = report.unschedulable.into_iter().map(|refused| Placed {
        name: refused.pod,
        outcome: ProbeOutcome::Unschedulable {
            reasons: refused.reasons.into_iter().chain(refused.obstacle).collect(),
            remedies: refused.remedies,
        },
    });
    (placed.collect(), report.daemon_sets)
}
