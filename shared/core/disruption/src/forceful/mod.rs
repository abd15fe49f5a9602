//! Disruption to which budgets do not apply, as in Karpenter's forceful methods, and what announces it.

pub mod expiration;
pub mod rebalance;
pub mod repair;
pub mod spot_interruptions;
