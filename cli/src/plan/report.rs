//! The JSON and YAML output of a plan. `docs/reference/plan.schema.json` is its schema; change both together.

use super::cluster_limits::{self, ClusterLimit};
use super::disruption::{DisruptionReport, NodeExplanation, StaticReport};
use super::explain::{Explainer, Explanation, Target};
use super::volumes::Volumes;
use super::wording::parts::{Launch, Placement, rounded, sorted};
use crate::commitments::Summary;
use nodeless_catalog::Catalog;
use nodeless_commitments::Instance;
use nodeless_disruption::{NodeDetails, StaticChange};
use nodeless_model::{CapacityType, Pod, ResourceList};
use nodeless_planner::{CurrentCluster, DryRun};
use nodeless_scheduling::{Advice, DaemonSetEffect, Problem, Solution, daemon_set_effects};
use serde::Serialize;
use std::collections::BTreeSet;

/// The plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Nodes to launch.
    pub(crate) launches: Vec<Launch>,
    /// Pods that fit on existing or in-flight nodes, by name.
    pub(crate) placements: Vec<Placement>,
    /// Unschedulable pods, by name.
    pub(crate) unschedulable: Vec<Unschedulable>,
    /// The DaemonSets that take more than half of a new node, and those that new nodes are planned without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) daemon_sets: Vec<DaemonSetEffect>,
    /// What static NodePools launch to reach their `replicas`; with `--disruption`, or if there are such NodePools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) static_launches: Option<Vec<StaticReport>>,
    /// The price per hour of the offerings chosen for all launches, those of static NodePools too, in dollars.
    pub(crate) price_per_hour: f64,
    /// The instance types of the nodes and launches whose on-demand price is derived and not published, by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) derived_prices: BTreeSet<String>,
    /// What volumes cost beside these prices.
    pub(crate) volumes: Volumes,
    /// The cluster before the plan.
    pub(crate) current: Current,
    /// What is paid with commitments, with `--commitments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commitments: Option<Summary>,
    /// The limits of the cluster, if it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cluster_limits: Vec<ClusterLimit>,
    /// With `--disruption`.
    #[serde(flatten)]
    pub(crate) disruption: Option<DisruptionReport>,
    pub(crate) statistics: Statistics,
    /// The explanations that `--explain` asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) explanations: Vec<Explained>,
}

/// The nodes of the cluster before the plan.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Current {
    /// The number of existing and in-flight nodes, those of other provisioners included.
    pub(crate) nodes: usize,
    /// The dollars per hour of the nodes whose price is known.
    pub(crate) price_per_hour: f64,
    /// The number of nodes whose price is unknown.
    pub(crate) without_price: usize,
    /// The requests of the pods on the nodes.
    pub(crate) requested: ResourceList,
    /// The allocatable resources of the nodes.
    pub(crate) allocatable: ResourceList,
    /// For the text output.
    #[serde(skip)]
    pub(crate) shares: Vec<(&'static str, f64)>,
}

impl From<CurrentCluster> for Current {
    fn from(current: CurrentCluster) -> Self {
        let share = |resource: &'static str| Some((resource, current.share(resource)?));
        let shares = ["cpu", "memory", "nvidia.com/gpu"].into_iter().filter_map(share).collect();
        let CurrentCluster { nodes, price_per_hour, without_price, requested, allocatable } = current;
        Self { nodes, price_per_hour: rounded(price_per_hour), without_price, requested, allocatable, shares }
    }
}

/// The explanations that `--explain` asks for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Explained {
    Pod(Explanation),
    Node(Box<NodeExplanation>),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Unschedulable {
    pub(crate) pod: String,
    pub(crate) reasons: Vec<String>,
    /// Changes that make the pod schedulable, as tried in the planner.
    pub(crate) remedies: Vec<String>,
    /// What limits the pod, if no change of its constraints makes it schedulable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) obstacle: Option<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Statistics {
    /// The number of pods to schedule.
    pub(crate) pods: usize,
    /// The number of existing and in-flight nodes.
    pub(crate) nodes: usize,
    /// The number of instance types in the catalog.
    pub(crate) instance_types: usize,
    /// The counted work of the scheduling simulation: the unit of the limits of the planner function.
    pub(crate) work: u64,
    /// The time of the scheduling simulation, without input and output.
    pub(crate) elapsed_milliseconds: f64,
    /// The peak memory of the process; null if the system does not report it.
    pub(crate) peak_memory_bytes: Option<u64>,
    /// With `--disruption`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disruption: Option<DisruptionStatistics>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionStatistics {
    /// The number of consecutive decisions.
    pub(crate) decisions: usize,
    /// The counted work of these decisions.
    pub(crate) work: u64,
    /// The total time of these decisions.
    pub(crate) elapsed_milliseconds: f64,
    /// Whether Ctrl-C ended the decisions, so that more may follow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
}

impl Report {
    /// Explains what `--explain` names. `node` returns the state of a node.
    pub(crate) fn explain(
        &mut self,
        targets: Vec<Target>,
        explainer: &Explainer<'_>,
        node: &dyn Fn(&str) -> Option<NodeDetails>,
    ) {
        for target in targets {
            let explained = match target {
                Target::Pod(pod) => Some(Explained::Pod(explainer.explain(&pod))),
                Target::Node(name) => self.disruption.as_ref().and_then(|disruption| {
                    node(&name).map(|details| Explained::Node(Box::new(disruption.explain(details))))
                }),
            };
            self.explanations.extend(explained);
        }
    }

    /// Sets which part of the price of each launch commitments cover.
    pub(crate) fn set_covered(&mut self, covered: &[f64]) {
        for (launch, covered) in self.launches.iter_mut().zip(covered) {
            launch.covered_per_hour = Some(rounded(*covered));
        }
    }

    /// Adds what static NodePools launch.
    pub(crate) fn set_static(&mut self, changes: Vec<StaticChange>) {
        let price: f64 = changes.iter().flat_map(|change| &change.launches).map(|launch| launch.offering.price).sum();
        self.price_per_hour = rounded(self.price_per_hour + price);
        self.static_launches = Some(changes.into_iter().map(StaticReport::from).collect());
    }

    /// Sets which prices of these instances are derived.
    pub(crate) fn set_derived_prices<'a>(&mut self, catalog: &Catalog, all: impl Iterator<Item = &'a Instance>) {
        let on_demand = all.filter(|one| one.capacity_type == CapacityType::OnDemand).map(|one| &one.instance_type);
        self.derived_prices = on_demand.filter(|name| catalog.has_derived_price(name)).cloned().collect();
    }

    /// Sets what the volumes of all new nodes and of warm nodes cost.
    pub(crate) fn set_volumes(&mut self, dry_run: &DryRun) {
        let of_static = self.static_launches.iter().flatten().flat_map(|change| &change.launches);
        let new_nodes = self.launches.iter().chain(of_static);
        self.volumes = Volumes::new(dry_run.view(), new_nodes, |launch| {
            let volume = dry_run.root_volume(&launch.node_pool, &launch.offering.instance_type, &launch.requests);
            volume.map_or(0.0, |volume| volume.dollars_per_hour)
        });
    }

    /// The number of nodes that static NodePools launch.
    pub(crate) fn static_nodes(&self) -> usize {
        self.static_launches.iter().flatten().map(|change| change.launches.len()).sum()
    }

    /// The plan with names instead of indexes, and the statistics of the problem.
    ///
    /// `faulty` are the pods that cannot be scheduled because of their volumes, and `advice` is for each unschedulable pod of the
    /// solution.
    pub(crate) fn new(problem: &Problem<'_>, solution: &Solution, faulty: &[(&Pod, &str)], advice: &[Advice]) -> Self {
        let pod = |index: usize| problem.pods.get(index).map(|pod| pod.key()).unwrap_or_default();
        let node = |index: usize| problem.nodes.get(index).map(|node| node.name.clone()).unwrap_or_default();
        let placements =
            solution.placements.iter().map(|placed| Placement { pod: pod(placed.pod), node: node(placed.node) });
        let refused = solution.unschedulable.iter().zip(advice).map(|(refused, advice)| Unschedulable {
            pod: pod(refused.pod),
            reasons: refused.reasons.iter().map(ToString::to_string).collect(),
            remedies: advice.remedies.clone(),
            obstacle: advice.obstacle.clone(),
        });
        let faulty_pods = faulty.iter().map(|(pod, why)| Unschedulable {
            pod: pod.key(),
            reasons: vec![(*why).to_owned()],
            remedies: Vec::new(),
            obstacle: None,
        });
        let launch = |launch: &nodeless_scheduling::Launch| {
            Launch::new(launch, launch.pods.iter().map(|index| pod(*index)).collect())
        };
        Self {
            launches: solution.launches.iter().map(launch).collect(),
            placements: sorted(placements),
            unschedulable: sorted(refused.chain(faulty_pods)),
            daemon_sets: daemon_set_effects(problem, &solution.launches),
            static_launches: None,
            price_per_hour: rounded(solution.price_per_hour()),
            derived_prices: BTreeSet::new(),
            volumes: Volumes::default(),
            current: Current::default(),
            commitments: None,
            cluster_limits: cluster_limits::cluster_limits(problem, solution),
            statistics: Statistics { pods: problem.pods.len() + faulty.len(), ..Statistics::default() },
            disruption: None,
            explanations: Vec::new(),
        }
    }
}
