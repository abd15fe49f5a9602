//! NodePools.

use crate::objects::amount::{Load, share};
use crate::objects::node::NodeRow;
use crate::objects::node_class::not_ready;
use jiff::Timestamp;
use nodeless_api::NodePoolStatus;
use nodeless_model::labels::DOLLARS_PER_HOUR;
use nodeless_model::money::{HOURS_PER_MONTH, amount};
use nodeless_model::{NodePool, OptionFault, Quantity};
use serde::Serialize;

/// A NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFacts {
    pub(crate) pool: NodePool,
    pub(crate) status: NodePoolStatus,
}

/// A NodePool, or the nodes without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// The name; `null` for the nodes that belong to no NodePool.
    pub name: Option<String>,
    /// Why it launches no nodes; `null` if it is ready.
    pub not_ready: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The number of nodes of a static NodePool.
    pub replicas: Option<i64>,
    /// The number of its Nodes.
    pub nodes: usize,
    /// The number of its NodeClaims without a Node.
    pub claims: usize,
    /// The number of pods on its nodes.
    pub pods: usize,
    /// The price of its nodes in dollars an hour, as far as it is known.
    pub price_per_hour: f64,
    /// The same for a month of 730 hours.
    pub price_per_month: f64,
    /// The number of its nodes whose price is not known.
    pub nodes_without_price: usize,
    /// The allocatable and used resources of the nodes.
    pub load: Load,
    /// The limits.
    pub limits: Vec<LimitRow>,
    /// The budget; `null` without one.
    pub budget: Option<BudgetRow>,
    /// The annotations of nodeless that are invalid or have no effect, and what to do.
    pub invalid: Vec<String>,
}

/// A budget of a NodePool or of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetRow {
    /// The budget in dollars a month.
    pub dollars_per_month: f64,
    /// The price of the nodes in dollars an hour, as far as it is known.
    pub price_per_hour: f64,
    /// Whether an Event in the name of nodeless states that it is exceeded, or will be.
    pub reported: bool,
}

/// A limit of a NodePool or of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitRow {
    /// The resource, `nodes`, or `nodeless.sh/dollars-per-hour`; of the cluster, the annotation.
    pub resource: String,
    /// The usage, as a quantity or a price.
    pub used: String,
    /// The limit, as a quantity or a price.
    pub limit: String,
    /// The share that is used, 0 to 1 or more.
    pub share: f64,
}

impl PoolRow {
    /// The sums over nodes.
    pub(crate) fn new(nodes: &[&NodeRow]) -> Self {
        let mut sum = Self::default();
        nodes.iter().for_each(|node| sum.add(node));
        sum
    }

    pub(crate) fn add(&mut self, node: &NodeRow) {
        self.nodes += 1;
        self.pods += node.pods.len();
        self.load.add(&node.load);
        match node.price_per_hour {
            Some(price) => {
                self.price_per_hour += price;
                self.price_per_month += price * HOURS_PER_MONTH;
            }
            None => self.nodes_without_price += 1,
        }
    }
}

impl LimitRow {
    /// A limit in dollars per hour.
    pub(crate) fn of_price(resource: &str, charged: f64, limit: f64) -> Self {
        Self {
            resource: resource.to_owned(),
            used: amount(charged),
            limit: amount(limit),
            share: if limit > 0.0 { charged / limit } else { 1.0 },
        }
    }
}

impl PoolFacts {
    /// The NodePool without its nodes.
    pub(crate) fn row(&self) -> PoolRow {
        let pool = &self.pool;
        PoolRow {
            name: Some(pool.name.clone()),
            not_ready: self.not_ready(),
            deleting: pool.deleting,
            replicas: pool.replicas,
            invalid: OptionFault::of_node_pool(pool).into_iter().map(|fault| fault.message).collect(),
            ..PoolRow::default()
        }
    }

    fn not_ready(&self) -> Option<String> {
        if let Err(why) = &self.pool.ready {
            return Some(why.to_string());
        }
        not_ready(&self.status.conditions)
    }

    /// The limits. The usage is that of the NodePool's status; if there is no price, `price_per_hour` counts.
    pub(crate) fn limits(&self, price_per_hour: f64) -> Vec<LimitRow> {
        let resources = self.pool.limits.iter().filter(|(name, _)| *name != DOLLARS_PER_HOUR).map(|(name, limit)| {
            let used = self.used(name);
            LimitRow {
                resource: name.to_owned(),
                used: nodeless_model::resources::format_quantity(name, used),
                limit: nodeless_model::resources::format_quantity(name, limit),
                share: share(used.milli(), limit.milli()),
            }
        });
        let charged = self.charged(price_per_hour);
        let price = self.pool.limit_dollars_per_hour;
        resources.chain(price.map(|limit| LimitRow::of_price(DOLLARS_PER_HOUR, charged, limit))).collect()
    }

    /// The budget in its annotation. One that is invalid is reported by an Event.
    pub(crate) fn budget(&self) -> Option<f64> {
        self.pool.options.dollars_per_month.valid().copied()
    }

    /// The usage of a resource by the nodes, or the number of nodes.
    pub(crate) fn used(&self, name: &str) -> Quantity {
        match name {
            "nodes" => Quantity::from_units(self.status.nodes),
            _ => self.status.resources.get(name).and_then(|used| used.0.parse().ok()).unwrap_or_default(),
        }
    }

    /// The usage of a limit in dollars per hour: that of the NodePool's status, or else `price_per_hour`.
    pub(crate) fn charged(&self, price_per_hour: f64) -> f64 {
        let of_status = self.status.resources.get(DOLLARS_PER_HOUR).and_then(|used| used.0.parse::<f64>().ok());
        of_status.unwrap_or(price_per_hour)
    }

    /// The latest time in its status.
    pub(crate) fn latest(&self) -> Option<Timestamp> {
        self.status.conditions.iter().map(|condition| condition.last_transition_time.0).max()
    }
}
