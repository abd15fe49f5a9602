//! NodeOverlays as planning uses them.

use crate::{Requirements, ResourceList, Unusable};
use serde::{Deserialize, Serialize};

/// A NodeOverlay, validated and decoded: how it changes instance types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlay {
    /// The name.
    pub name: String,
    /// NodeOverlays with a greater weight take precedence.
    pub weight: i32,
    /// The instance types and offerings that it selects.
    pub requirements: Requirements,
    /// The change of their price; none if absent.
    pub price: Option<PriceChange>,
    /// Extended resources of the types in addition to what EC2 reports.
    pub capacity: ResourceList,
    /// Why it is invalid in a way that the API server cannot validate, if it is. An invalid overlay is not applied.
    pub valid: Result<(), Unusable>,
}

/// The change of an offering's price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PriceChange {
    /// A price in dollars per hour.
    Absolute(f64),
    /// A difference in dollars per hour.
    Add(f64),
    /// A difference in per cent.
    Percent(f64),
}

impl PriceChange {
    /// The price after the change, in dollars per hour, never below zero.
    #[must_use]
    pub fn apply(self, price: f64) -> f64 {
        let changed = match self {
            Self::Absolute(dollars) => dollars,
            Self::Add(dollars) => price + dollars,
            Self::Percent(percent) => price * (1.0 + percent / 100.0),
        };
        changed.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_prices_as_karpenter_does() {
        for (change, expected) in [
            (PriceChange::Percent(-10.0), 0.36),
            (PriceChange::Add(0.05), 0.45),
            (PriceChange::Add(-1.0), 0.0),
            (PriceChange::Absolute(0.10), 0.10),
            (PriceChange::Percent(-100.0), 0.0),
        ] {
            assert!((change.apply(0.40) - expected).abs() < 1e-9, "{change:?}");
        }
    }
}
