//! Types of the JSON and YAML output of a plan. `docs/reference/plan.schema.json` is the schema; change both together.

use nodeless_model::{CapacityType, Requirements, ResourceList};
use serde::{Deserialize, Serialize};

/// A node to launch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Launch {
    pub(crate) node_pool: String,
    /// `namespace/name`, sorted.
    pub(crate) pods: Vec<String>,
    /// The requests of these pods and of DaemonSets.
    pub(crate) requests: ResourceList,
    /// The instance types that may be launched, the cheapest first.
    pub(crate) instance_types: Vec<PricedType>,
    /// The cheapest offering.
    pub(crate) offering: Offering,
    /// The part of the price that commitments cover, with `--commitments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) covered_per_hour: Option<f64>,
    /// The requirements on the labels of the node.
    pub(crate) requirements: Requirements,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PricedType {
    pub(crate) name: String,
    pub(crate) price_per_hour: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offering {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: CapacityType,
    pub(crate) price_per_hour: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub(crate) pod: String,
    pub(crate) node: String,
}

impl Launch {
    /// A launch for these pods.
    pub(crate) fn new(launch: &nodeless_scheduling::Launch, pods: Vec<String>) -> Self {
        Self {
            node_pool: launch.node_pool.clone(),
            pods: sorted(pods.into_iter()),
            requests: launch.requests.clone(),
            instance_types: PricedType::all_of(launch),
            offering: Offering::new(launch),
            covered_per_hour: None,
            requirements: launch.requirements.clone(),
        }
    }
}

impl Launch {
    /// Whether it has its one instance type because commitments cover it.
    pub(crate) fn is_chosen_by_commitments(&self) -> bool {
        self.instance_types.len() == 1 && self.covered_per_hour.is_some_and(|covered| covered > 0.0)
    }
}

impl PricedType {
    /// The instance types that may be launched.
    pub(crate) fn all_of(launch: &nodeless_scheduling::Launch) -> Vec<Self> {
        let kinds = launch.instance_types.iter();
        kinds.map(|kind| Self { name: kind.name.clone(), price_per_hour: rounded(kind.price) }).collect()
    }
}

impl Offering {
    /// The chosen offering of a launch.
    pub(crate) fn new(launch: &nodeless_scheduling::Launch) -> Self {
        let chosen = &launch.offering;
        Self {
            instance_type: chosen.instance_type.clone(),
            zone: chosen.zone.clone(),
            capacity_type: chosen.capacity_type,
            price_per_hour: rounded(chosen.price),
        }
    }
}

/// A sum of prices. Prices have six decimal places, so further digits are rounding errors. An empty sum is minus zero.
pub(crate) fn rounded(sum: f64) -> f64 {
    (sum * 1e6).round() / 1e6 + 0.0
}

pub(crate) fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort();
    items
}
