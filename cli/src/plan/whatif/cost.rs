//! Nodes as plain values: what they cost, and how full they are.

use crate::commitments::{Paid, Used, without_rate};
use crate::plan::wording::parts::rounded;
use nodeless_catalog::Catalog;
use nodeless_commitments::{Commitments, Instance};
use nodeless_model::money::HOURS_PER_MONTH;
use nodeless_model::{CapacityType, Pod, ResourceList, labels};
use nodeless_planner::CurrentNode;
use nodeless_scheduling::{Launch, Problem, Solution};
use serde::Serialize;
use std::collections::BTreeMap;

/// A node that runs, or that would be launched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::plan) struct PricedNode {
    pub(super) name: String,
    pub(in crate::plan) shape: Shape,
    /// Dollars an hour, if known.
    pub(in crate::plan) price: Option<f64>,
    /// The node as commitments see it.
    pub(super) instance: Instance,
    /// The requests of its pods, DaemonSets included.
    pub(super) requested: ResourceList,
    pub(super) allocatable: ResourceList,
}

/// What nodes of a group have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shape {
    /// `None` for a node that no NodePool manages.
    pub(crate) node_pool: Option<String>,
    /// `None` if its labels do not have it.
    pub(crate) instance_type: Option<String>,
    pub(crate) capacity_type: Option<CapacityType>,
}

/// A pod that no node runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct PodWithoutNode {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Why it is unschedulable; empty for a pod that is pending today.
    pub(crate) reasons: Vec<String>,
}

/// What a set of nodes costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cost {
    /// The number of nodes, those whose price is unknown included.
    pub(crate) nodes: usize,
    /// The sum of the known prices, in dollars an hour.
    pub(crate) price_per_hour: f64,
    /// What is paid in a month, in whole dollars: the same, or with commitments these and what they do not cover.
    pub(crate) dollars_per_month: i64,
    /// What is paid with commitments, with `--commitments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commitments: Option<Paid>,
    /// The commitments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) commitments_used: Vec<Used>,
    /// The instance types for which rates are missing, for the assumptions.
    #[serde(skip)]
    pub(super) without_rate: Vec<String>,
    /// The nodes whose price is unknown.
    pub(crate) without_price: Vec<NodeWithoutPrice>,
    pub(crate) requested: Shares,
    /// The pods that no node runs, by name.
    pub(crate) pods_without_node: Vec<PodWithoutNode>,
    /// The nodes, by what they have in common.
    pub(crate) groups: Vec<Group>,
}

/// A node whose price is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeWithoutPrice {
    pub(crate) node: String,
    pub(crate) instance_type: Option<String>,
}

/// The part of the allocatable resources that pods request, from 0 to 1; `None` without nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Shares {
    pub(crate) cpu: Option<f64>,
    pub(crate) memory: Option<f64>,
}

/// Nodes of the same NodePool, instance type and capacity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
    /// The sum of their known prices, in dollars an hour.
    pub(crate) price_per_hour: f64,
    pub(crate) requested: Shares,
}

impl PricedNode {
    /// A node of the cluster.
    pub(in crate::plan) fn current(node: &CurrentNode, catalog: &Catalog) -> Self {
        let capacity_type = node.labels.get(labels::CAPACITY_TYPE).and_then(|value| CapacityType::from_label(value));
        let shape = Shape {
            node_pool: node.node_pool.clone(),
            instance_type: node.labels.get(labels::INSTANCE_TYPE).cloned(),
            capacity_type,
        };
        Self {
            name: node.name.clone(),
            shape,
            price: node.price_per_hour,
            instance: node.instance(catalog),
            requested: node.requested.clone(),
            allocatable: node.allocatable.clone(),
        }
    }

    /// A node to launch, at its cheapest offering.
    pub(in crate::plan) fn launched(launch: &Launch, problem: &Problem<'_>) -> Self {
        let offering = &launch.offering;
        let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
        let kind = offer.and_then(|offer| offer.instance_types.iter().find(|kind| kind.name == offering.instance_type));
        Self {
            name: String::new(),
            shape: Shape {
                node_pool: Some(launch.node_pool.clone()),
                instance_type: Some(offering.instance_type.clone()),
                capacity_type: Some(offering.capacity_type),
            },
            price: Some(offering.price),
            instance: Instance::of_launch(launch, &problem.node_pools),
            requested: launch.requests.clone(),
            allocatable: kind.map(nodeless_model::InstanceType::allocatable).unwrap_or_default(),
        }
    }
}

/// The nodes after a plan: those that stay, with the pods that are placed on them, and those that are launched.
pub(in crate::plan) fn after(stays: Vec<PricedNode>, problem: &Problem<'_>, solution: &Solution) -> Vec<PricedNode> {
    let mut nodes = stays;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    places.extend(nodes.iter().enumerate().map(|(place, node)| (node.name.clone(), place)));
    for placement in &solution.placements {
        let place = problem.nodes.get(placement.node).and_then(|node| places.get(&node.name));
        let node = place.and_then(|place| nodes.get_mut(*place));
        if let (Some(node), Some(pod)) = (node, problem.pods.get(placement.pod)) {
            node.requested.add(&pod.template.requests);
        }
    }
    nodes.extend(solution.launches.iter().map(|launch| PricedNode::launched(launch, problem)));
    nodes
}

/// The pods that are unschedulable, by name. `faulty` are those with a volume that cannot be used.
pub(super) fn unschedulable(
    problem: &Problem<'_>,
    solution: &Solution,
    faulty: &[(&Pod, &str)],
) -> Vec<PodWithoutNode> {
    let refused = solution.unschedulable.iter().filter_map(|refused| {
        let pod = problem.pods.get(refused.pod).filter(|pod| !pod.is_virtual())?;
        let reasons = refused.reasons.iter().map(ToString::to_string).collect();
        Some(PodWithoutNode { pod: pod.key(), reasons })
    });
    let faulty = faulty.iter().map(|(pod, why)| PodWithoutNode { pod: pod.key(), reasons: vec![(*why).to_owned()] });
    let mut all: Vec<PodWithoutNode> = refused.chain(faulty).collect();
    all.sort();
    all
}

impl Cost {
    /// The cost of these nodes, with commitments if there are some.
    pub(in crate::plan) fn new(
        nodes: &[PricedNode],
        pods_without_node: Vec<PodWithoutNode>,
        commitments: Option<&Commitments>,
    ) -> Self {
        let instances = || nodes.iter().map(|node| node.instance.clone()).collect::<Vec<_>>();
        let (paid, used) = commitments.map(|all| Paid::for_instances(&instances(), all)).unzip();
        let mut all = Sum::default();
        let mut groups: BTreeMap<&Shape, Sum> = BTreeMap::new();
        for node in nodes {
            all.add(node);
            groups.entry(&node.shape).or_default().add(node);
        }
        let without_price = nodes
            .iter()
            .filter(|node| node.price.is_none())
            .map(|node| NodeWithoutPrice { node: node.name.clone(), instance_type: node.shape.instance_type.clone() });
        let group = |(shape, sum): (&Shape, Sum)| Group {
            shape: shape.clone(),
            nodes: sum.nodes,
            price_per_hour: rounded(sum.price),
            requested: sum.shares(),
        };
        Self {
            nodes: all.nodes,
            price_per_hour: rounded(all.price),
            dollars_per_month: month(paid.map_or(all.price, |paid: Paid| paid.paid_per_hour)),
            commitments: paid,
            commitments_used: used.unwrap_or_default(),
            without_rate: commitments.map(|all| without_rate(&instances(), all)).unwrap_or_default(),
            without_price: without_price.collect(),
            requested: all.shares(),
            pods_without_node,
            groups: groups.into_iter().map(group).collect(),
        }
    }
}

/// Dollars a month, of dollars an hour.
pub(in crate::plan) fn month(dollars_per_hour: f64) -> i64 {
    (dollars_per_hour * HOURS_PER_MONTH).round() as i64
}

/// The sum over nodes.
#[derive(Default)]
struct Sum {
    nodes: usize,
    price: f64,
    requested: ResourceList,
    allocatable: ResourceList,
}

impl Sum {
    fn add(&mut self, node: &PricedNode) {
        self.nodes += 1;
        self.price += node.price.unwrap_or_default();
        self.requested.add(&node.requested);
        self.allocatable.add(&node.allocatable);
    }

    fn shares(&self) -> Shares {
        let share = |resource: &str| {
            let allocatable = self.allocatable.get(resource).as_f64();
            (allocatable > 0.0).then(|| self.requested.get(resource).as_f64() / allocatable)
        };
        Shares { cpu: share("cpu"), memory: share("memory") }
    }
}

impl Shares {
    /// The larger of the two, which limits how many further pods fit.
    pub(super) fn full(&self) -> Option<f64> {
        [self.cpu, self.memory].into_iter().flatten().reduce(f64::max)
    }
}
