//! Launches: RunInstances and CreateFleet, the checks of each, and what is left of quotas and capacity.

pub(crate) mod create_fleet;
pub(crate) mod fleet_allocation;
pub(crate) mod launch;
pub(crate) mod placement;
pub(crate) mod quotas;
pub(crate) mod run;
