//! The invariants of disruption, drains and replacements.

pub(super) mod ami_canary;
pub(super) mod announced_ends;
pub(super) mod certificate_authorities;
pub(super) mod commands;
pub(super) mod disruption_budgets;
pub(super) mod drains;
pub(super) mod lifetimes;
pub(super) mod on_demand_minimum;
pub(super) mod surges;
pub(super) mod unready_replacements;
