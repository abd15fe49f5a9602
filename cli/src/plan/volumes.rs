//! What the volumes of planned and of stopped nodes cost: EC2 bills them beside the instances, also while these are stopped.

use super::wording::parts::{Launch, rounded};
use crate::plural::counted;
use nodeless_api::view::ClusterView;
use nodeless_launch::volume_prices;
use nodeless_model::money::HOURS_PER_MONTH;
use serde::Serialize;

/// The volumes of nodes, by list prices of us-east-1.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Volumes {
    /// Those of new nodes, of static NodePools too, in dollars a month.
    pub(crate) dollars_per_month: f64,
    /// How many stopped instances NodePools keep by their annotation.
    pub(crate) warm_nodes: usize,
    /// Their volumes, in dollars a month.
    pub(crate) warm_dollars_per_month: f64,
    /// The number of these nodes whose volumes have the size of a snapshot, which is not known.
    pub(crate) without_price: usize,
}

impl Volumes {
    /// The volumes of these new nodes and of the warm nodes of all NodePools. `added` is what a root volume of the size that its NodePool
    /// determines costs beyond that of the EC2NodeClass, in dollars per hour.
    pub(crate) fn new<'n>(
        view: &ClusterView,
        new_nodes: impl Iterator<Item = &'n Launch>,
        added: impl Fn(&Launch) -> f64,
    ) -> Self {
        let price = |pool: &str| {
            let pool = view.node_pools.iter().find(|known| known.name == pool)?;
            volume_prices::dollars_per_month(&view.node_classes.get(&pool.template.node_class)?.spec)
        };
        let mut volumes = Self::default();
        for launch in new_nodes {
            match price(&launch.node_pool) {
                Some(dollars) => volumes.dollars_per_month += dollars + added(launch) * HOURS_PER_MONTH,
                None => volumes.without_price += 1,
            }
        }
        for pool in &view.node_pools {
            let warm = pool.warm_nodes().valid().copied().unwrap_or_default();
            volumes.warm_nodes += warm;
            // A NodePool keeps 100 at most.
            let number = f64::from(u8::try_from(warm).unwrap_or(u8::MAX));
            match price(&pool.name) {
                Some(dollars) => volumes.warm_dollars_per_month += dollars * number,
                None => volumes.without_price += warm,
            }
        }
        volumes.dollars_per_month = rounded(volumes.dollars_per_month);
        volumes.warm_dollars_per_month = rounded(volumes.warm_dollars_per_month);
        volumes
    }

    /// A line for people, if there are such nodes.
    pub(crate) fn line(&self, new_nodes: usize) -> Option<String> {
        let mut parts = Vec::new();
        let new = (new_nodes > 0).then_some((self.dollars_per_month, counted(new_nodes, "new node")));
        let warm =
            (self.warm_nodes > 0).then_some((self.warm_dollars_per_month, counted(self.warm_nodes, "warm node")));
        for (dollars, nodes) in [new, warm].into_iter().flatten() {
            parts.push(format!("${dollars:.2} a month for {nodes}"));
        }
        let unknown = match self.without_price {
            0 => String::new(),
            some => format!(", without {} whose volumes have the size of a snapshot", counted(some, "node")),
        };
        let prices = "not in the prices above, by list prices of us-east-1";
        (!parts.is_empty()).then(|| format!("Volumes: {}{unknown}, {prices}.", parts.join(", ")))
    }
}
