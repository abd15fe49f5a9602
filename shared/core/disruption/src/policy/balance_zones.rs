//! What a move toward topology spread over zones may cost: the annotation [`BALANCE_ZONES`].

use super::min_savings::dollars;
use crate::cluster::Cluster;
use nodeless_model::{InvalidAnnotation, NodePool, StringMap};
use std::collections::BTreeSet;

/// The annotation of a NodePool: its pods are balanced over zones by their topology spread constraints, and how many dollars an hour one
/// move may cost at most. `0` allows moves that cost nothing more. Without the annotation nothing is balanced.
pub const BALANCE_ZONES: &str = "nodeless.sh/balance-zones";

/// What a move of pods of a NodePool may cost by its annotations, in dollars per hour; `None` without the annotation.
///
/// # Errors
/// If the annotation is no amount of dollars. No pods of the NodePool are balanced then.
pub fn balance_zones(annotations: &StringMap) -> Result<Option<f64>, InvalidAnnotation> {
    dollars(annotations, BALANCE_ZONES, "and no pods are balanced over zones until it is corrected")
}

/// The NodePools whose pods are balanced.
pub(crate) fn balanced<'c>(cluster: &'c Cluster<'_>) -> BTreeSet<&'c str> {
    let pools = cluster.node_pools.iter().map(|offer| offer.pool).filter(|pool| is_balanced(pool));
    pools.map(|pool| pool.name.as_str()).collect()
}

/// Whether the pods of a NodePool are balanced.
pub(crate) fn is_balanced(pool: &NodePool) -> bool {
    matches!(balance_zones(&pool.disruption.annotations), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_dollars() {
        let stated = |value: &str| balance_zones(&StringMap::from([(BALANCE_ZONES.to_owned(), value.to_owned())]));
        assert_eq!(balance_zones(&StringMap::new()), Ok(None));
        assert_eq!((stated("0.05"), stated("0")), (Ok(Some(0.05)), Ok(Some(0.0))));
        for wrong in ["", "true", "-1", "{{ .Values.balance }}"] {
            let why = stated(wrong).unwrap_err().to_string();
            assert!(why.contains("no pods are balanced over zones until it is corrected"), "{why}");
        }
    }
}
