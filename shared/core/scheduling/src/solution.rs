//! What a plan consists of.

use crate::Reason;
use nodeless_model::claim::Charge;
use nodeless_model::{CapacityType, Requirements, ResourceList};
use serde::{Deserialize, Serialize};

/// A plan: where each pod runs, or why it cannot be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Solution {
    /// Nodes to launch.
    pub launches: Vec<Launch>,
    /// Pods that fit on nodes that exist or are on their way, in the order of the pods.
    pub placements: Vec<Placement>,
    /// Unschedulable pods, in the order of the pods.
    pub unschedulable: Vec<Unschedulable>,
    /// The work that the plan took, as a count: one unit is about one comparison of a pod with a node, an instance type
    /// or another class of pods. The same problem always takes the same work.
    pub work: u64,
}

impl Solution {
    /// Dollars per hour that the chosen offerings of all launches cost.
    #[must_use]
    pub fn price_per_hour(&self) -> f64 {
        // The sum of no floats is -0.0.
        self.launches.iter().map(|launch| launch.offering.price).fold(0.0, |sum, price| sum + price)
    }
}

/// A node to launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The NodePool.
    pub node_pool: String,
    /// Its EC2NodeClass.
    pub node_class: String,
    /// The pods that it is for: indices into [`crate::Problem::pods`], ascending.
    pub pods: Vec<usize>,
    /// What these pods need together, with the least that the DaemonSets take on any of the instance types.
    pub requests: ResourceList,
    /// The instance types that may be launched, the cheapest first.
    pub instance_types: Vec<PricedType>,
    /// The cheapest of what may be launched.
    pub offering: ChosenOffering,
    /// What the node's labels may be: the NodePool's requirements narrowed by the pods', with the instance types, the
    /// zones and the capacity types that may be launched.
    pub requirements: Requirements,
    /// What the launch takes of the NodePool's limits: the greatest capacity and the highest price of what may be
    /// launched.
    pub charge: Charge,
    /// Whether `minValues` had to be lowered (only with [`crate::MinValuesPolicy::BestEffort`]).
    pub min_values_relaxed: bool,
}

/// An instance type that may be launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PricedType {
    /// The name.
    pub name: String,
    /// Dollars per hour of its cheapest offering that may be launched.
    #[serde(rename = "pricePerHour")]
    pub price: f64,
}

/// An offering, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChosenOffering {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone.
    pub zone: String,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    #[serde(rename = "pricePerHour")]
    pub price: f64,
}

/// A pod that fits on a node that exists or is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Placement {
    /// The index into [`crate::Problem::pods`].
    pub pod: usize,
    /// The index into [`crate::Problem::nodes`].
    pub node: usize,
}

/// An unschedulable pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unschedulable {
    /// The index into [`crate::Problem::pods`].
    pub pod: usize,
    /// Why: what is wrong with the pod, or one reason for each NodePool.
    pub reasons: Vec<Reason>,
}
