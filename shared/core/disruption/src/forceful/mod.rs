//! Disruption to which budgets do not apply, as in Karpenter's forceful methods, and what announces it.

pub(crate) mod expiration;
pub(crate) mod rebalance;
pub mod spot_interruptions;
