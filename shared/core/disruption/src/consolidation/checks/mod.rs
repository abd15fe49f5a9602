//! What validation of a command checks beside capacity: spread over hosts and zones, and taints that only prefer.

pub(super) mod host_spread;
pub(super) mod prefer_no_schedule;
pub(super) mod zone_checks;
