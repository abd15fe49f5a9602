//! The savings that a consolidation command needs at least: the annotation [`MIN_SAVINGS`].

use crate::reasons::KeptReason;
use nodeless_model::{InvalidAnnotation, NodePool, Quantity, StringMap};

/// The annotation of a NodePool: how many dollars an hour a command that consolidates its nodes saves at least. Empty nodes are removed
/// whatever they save.
pub const MIN_SAVINGS: &str = "nodeless.sh/min-savings-per-hour";

/// The difference of prices, in dollars per hour, that counts as rounding: prices have millionths.
const ROUNDING: f64 = 1e-7;

/// The minimum savings by the annotations of a NodePool, in dollars per hour; `None` without the annotation.
///
/// # Errors
/// If the annotation is no amount of dollars. No node of the NodePool is consolidated then.
pub fn min_savings(annotations: &StringMap) -> Result<Option<f64>, InvalidAnnotation> {
    dollars(annotations, MIN_SAVINGS, "and no node is consolidated until it is corrected")
}

/// The dollars per hour of an annotation; `None` without it. `effect` is what an invalid value leads to.
pub(super) fn dollars(
    annotations: &StringMap,
    key: &'static str,
    effect: &'static str,
) -> Result<Option<f64>, InvalidAnnotation> {
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let millionths = Quantity::parse_millionths(text).ok().filter(|millionths| *millionths >= 0);
    let millionths = millionths.ok_or_else(|| InvalidAnnotation::Value {
        key,
        value: text.clone(),
        effect,
        valid: "dollars per hour such as \"0.05\"",
    })?;
    #[expect(clippy::cast_precision_loss, reason = "amounts of money stay far below 2^53 millionths")]
    let dollars = millionths as f64 / 1e6;
    Ok(Some(dollars))
}

/// Whether a command that removes nodes of these NodePools saves enough for each of them. `saving` is in dollars per hour.
pub(crate) fn check<'p>(pools: impl Iterator<Item = &'p NodePool>, saving: f64) -> Result<(), KeptReason> {
    let mut highest: Option<(&NodePool, f64)> = None;
    for pool in pools {
        let refused = |min_saving| KeptReason::MinSavings { node_pool: pool.name.clone(), saving, min_saving };
        let min_saving = min_savings(&pool.disruption.annotations).map_err(|_| refused(None))?;
        let Some(min_saving) = min_saving else { continue };
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
    use nodeless_model::test_support::node_pool;

    fn pool(name: &str, value: &str) -> NodePool {
        let mut pool = node_pool(name);
        pool.disruption.annotations.insert(MIN_SAVINGS.into(), value.into());
        pool
    }

    #[test]
    fn amounts_are_dollars() {
        let stated = |value: &str| min_savings(&pool("default", value).disruption.annotations);
        assert_eq!(min_savings(&StringMap::new()), Ok(None));
        assert_eq!((stated("0.05"), stated("0"), stated("50m")), (Ok(Some(0.05)), Ok(Some(0.0)), Ok(Some(0.05))));
        for wrong in ["", "$1", "-1", "1 dollar", "{{ .Values.saving }}"] {
            let why = stated(wrong).unwrap_err();
            assert!(why.to_string().contains("write dollars per hour such as \"0.05\""), "{why}");
        }
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
