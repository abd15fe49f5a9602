//! The savings that a consolidation command needs at least: the annotation `nodeless.sh/min-savings-per-hour`.

use crate::reasons::KeptReason;
use nodeless_model::{NodePool, Setting};

/// The difference of prices, in dollars per hour, that counts as rounding: prices have millionths.
const ROUNDING: f64 = 1e-7;

/// Whether a command that removes nodes of these NodePools saves enough for each of them. `saving` is in dollars per hour.
pub(crate) fn check<'p>(pools: impl Iterator<Item = &'p NodePool>, saving: f64) -> Result<(), KeptReason> {
    let mut highest: Option<(&NodePool, f64)> = None;
    for pool in pools {
        let refused = |min_saving| KeptReason::MinSavings { node_pool: pool.name.clone(), saving, min_saving };
        let min_saving = match &pool.options.min_savings {
            Setting::Unset => continue,
            Setting::Valid(min_saving) => *min_saving,
            Setting::Invalid(_) => return Err(refused(None)),
        };
        if highest.is_none_or(|(_, known)| min_saving > known) {
            highest = Some((pool, min_saving));
        }
    }
    match highest {
        Some((pool, min_saving)) if saving < min_saving - ROUNDING => {
            Err(KeptReason::MinSavings { node_pool: pool.name.clone(), saving, min_saving: Some(min_saving) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::labels::MIN_SAVINGS;
    use nodeless_model::test_support::node_pool;

    fn pool(name: &str, value: &str) -> NodePool {
        let mut pool = node_pool(name);
        pool.options.set(MIN_SAVINGS, Some(value));
        pool
    }

    #[test]
    fn the_highest_minimum_of_the_node_pools_applies() {
        let (low, high, none) = (pool("low", "0.05"), pool("high", "0.1"), node_pool("none"));
        let check = |pools: &[&NodePool], saving| check(pools.iter().copied(), saving);
        assert_eq!(check(&[&none], 0.0), Ok(()));
        assert_eq!(check(&[&low, &none], 0.05), Ok(()));
        let refused = KeptReason::MinSavings { node_pool: "high".into(), saving: 0.07, min_saving: Some(0.1) };
        for pools in [[&low, &high, &none], [&high, &none, &low]] {
            assert_eq!(check(&pools, 0.07), Err(refused.clone()));
            // As the difference of two prices.
            assert_eq!(check(&pools, 0.3 - 0.2), Ok(()));
        }
        assert!(matches!(
            check(&[&low, &pool("invalid", "much")], 9.0),
            Err(KeptReason::MinSavings { min_saving: None, .. })
        ));
    }
}
