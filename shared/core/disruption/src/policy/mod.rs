//! The users' settings that limit voluntary disruption, and whether a node may be disrupted now.

pub(crate) mod balance_zones;
pub(crate) mod budgets;
pub mod maintenance;
pub(crate) mod min_savings;
pub(crate) mod on_demand_minimum;
pub(crate) mod pause;
pub mod schedules;
