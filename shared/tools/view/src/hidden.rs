//! What a selector hides.

use crate::objects::claim::ClaimRow;
use crate::objects::cluster::Cluster;
use crate::objects::node::NodeRow;
use crate::objects::pool::PoolRow;
use crate::text::{counted, dollars};
use nodeless_model::StringMap;
use nodeless_model::label_query::LabelQuery;
use serde::Serialize;

/// What a selector hides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hidden {
    /// The selector.
    pub selector: String,
    /// The number of nodes that it hides.
    pub nodes: usize,
    /// The number of all nodes.
    pub of_nodes: usize,
    /// The number of pods on the hidden nodes.
    pub pods: usize,
    /// The number of NodeClaims without a node that it hides.
    pub claims: usize,
    /// The price of the hidden nodes in dollars an hour, as far as it is known.
    pub price_per_hour: f64,
}

impl Hidden {
    /// The line about it.
    pub(crate) fn text(&self) -> String {
        let claims = match self.claims {
            0 => String::new(),
            some => format!(" and {} on the way", counted(some, "NodeClaim")),
        };
        let of = counted(self.of_nodes, "node");
        let (pods, price) = (counted(self.pods, "pod"), dollars(self.price_per_hour));
        format!("The selector {} hides {} of {of} with {pods}, {price}{claims}", self.selector, self.nodes)
    }
}

/// Removes the nodes and NodeClaims that the selector does not match. The limits, the budget and the conditions of a NodePool
/// remain those of all its nodes; a NodePool of which nothing is left is removed.
pub(crate) fn hide(
    cluster: &Cluster,
    selector: &LabelQuery,
    nodes: &mut Vec<NodeRow>,
    claims: &mut Vec<ClaimRow>,
    pools: &mut Vec<PoolRow>,
) -> Hidden {
    let key = |name: &str| (String::new(), name.to_owned());
    let matches = |labels: Option<&StringMap>| selector.matches(|key| labels?.get(key).map(String::as_str));
    let before: Vec<&NodeRow> = nodes.iter().collect();
    let (all, all_claims) = (PoolRow::new(&before), claims.len());
    nodes.retain(|node| matches(cluster.nodes.get(&key(&node.name)).map(|node| &node.labels)));
    claims.retain(|claim| matches(cluster.claims.get(&key(&claim.name)).map(|claim| &claim.labels)));
    for pool in pools.iter_mut() {
        let own: Vec<&NodeRow> = nodes.iter().filter(|node| node.node_pool == pool.name).collect();
        let PoolRow { nodes, pods, price_per_hour, price_per_month, nodes_without_price, load, .. } =
            PoolRow::new(&own);
        pool.claims = claims.iter().filter(|claim| claim.node_pool == pool.name).count();
        let settings = std::mem::take(pool);
        *pool = PoolRow { nodes, pods, price_per_hour, price_per_month, nodes_without_price, load, ..settings };
    }
    pools.retain(|pool| pool.nodes + pool.claims > 0);
    let left = PoolRow::new(&nodes.iter().collect::<Vec<_>>());
    Hidden {
        selector: selector.to_string(),
        nodes: all.nodes - left.nodes,
        of_nodes: all.nodes,
        pods: all.pods - left.pods,
        claims: all_claims - claims.len(),
        price_per_hour: all.price_per_hour - left.price_per_hour,
    }
}
