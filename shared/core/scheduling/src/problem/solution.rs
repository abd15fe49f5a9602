//! The output of a plan.

use crate::Reason;
use nodeless_model::claim::Charge;
use nodeless_model::{CapacityType, Requirement, Requirements, ResourceList, labels};
use serde::{Deserialize, Serialize};

/// A plan: where each pod runs, or why it cannot be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Solution {
    /// Nodes to launch.
    pub launches: Vec<Launch>,
    /// Pods that fit on existing or launching nodes, in the order of the pods.
    pub placements: Vec<Placement>,
    /// Unschedulable pods, in the order of the pods.
    pub unschedulable: Vec<Unschedulable>,
    /// The work that the plan took, as a count: one unit is about one comparison of a pod with a node, an instance type
    /// or another class of pods. The same problem always takes the same work.
    pub work: u64,
}

impl Solution {
    /// The total hourly price of the chosen offerings of all launches, in dollars.
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
    /// The EC2NodeClass.
    pub node_class: String,
    /// The pods: indices into [`crate::Problem::pods`], ascending.
    pub pods: Vec<usize>,
    /// The total requests of these pods, with the minimum requests of the DaemonSets on any of the instance types.
    pub requests: ResourceList,
    /// The possible instance types, the cheapest first.
    pub instance_types: Vec<PricedType>,
    /// The cheapest offering.
    pub offering: ChosenOffering,
    /// The possible labels of the node: the NodePool's requirements narrowed by those of the pods, with the possible instance
    /// types, zones and capacity types.
    pub requirements: Requirements,
    /// The usage of the NodePool's limits: the maximum capacity and the maximum price of the possible offerings.
    pub charge: Charge,
    /// Whether `minValues` had to be relaxed (only with [`crate::MinValuesPolicy::BestEffort`]).
    pub min_values_relaxed: bool,
    /// The stopped instances of which one is started in place of a launch: the id of their offering
    /// ([`nodeless_model::Reservation::STOPPED`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<String>,
}

impl Launch {
    /// The reservation whose capacity the node uses.
    #[must_use]
    pub fn reservation(&self) -> Option<&str> {
        self.requirements.get(labels::CAPACITY_RESERVATION_ID).and_then(Requirement::single)
    }

    /// Whether the node can only be what was planned: of a reservation, or a stopped instance.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.starts.is_some() || self.reservation().is_some()
    }
}

/// A possible instance type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PricedType {
    /// The name.
    pub name: String,
    /// The price of its cheapest possible offering, in dollars per hour.
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
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    #[serde(rename = "pricePerHour")]
    pub price: f64,
}

/// A pod that fits on an existing or launching node.
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
    /// The error of the pod, or one reason for each NodePool.
    pub reasons: Vec<Reason>,
}
