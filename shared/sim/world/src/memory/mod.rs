//! The claims table, the queues and ARC in memory, with the semantics of the real ones. `fault_injection` wraps them to make
//! calls fail.

mod claims;
mod metered;
mod queue;
mod zonal_shifts;

pub use claims::MemoryClaims;
pub(crate) use claims::record_operations;
pub use metered::{MeteredClaims, PartitionLimits};
pub use queue::MemoryQueue;
pub use zonal_shifts::MemoryZonalShifts;

#[cfg(test)]
mod tests;
