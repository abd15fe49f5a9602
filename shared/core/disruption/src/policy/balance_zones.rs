//! NodePools whose pods are balanced over zones: the annotation `nodeless.sh/balance-zones`.

use crate::cluster::Cluster;
use nodeless_model::NodePool;
use std::collections::BTreeSet;

/// The NodePools whose pods are balanced.
pub(crate) fn balanced<'c>(cluster: &'c Cluster<'_>) -> BTreeSet<&'c str> {
    let pools = cluster.node_pools.iter().map(|offer| offer.pool).filter(|pool| is_balanced(pool));
    pools.map(|pool| pool.name.as_str()).collect()
}

/// Whether the pods of a NodePool are balanced.
pub(crate) const fn is_balanced(pool: &NodePool) -> bool {
    pool.options.balance_zones.valid().is_some()
}
