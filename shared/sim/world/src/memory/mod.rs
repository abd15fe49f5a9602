//! The claims table, the queues and ARC in memory, with the semantics of the real ones. `fault_injection` wraps them to make
//! calls fail.

mod claims;
mod queue;
mod zonal_shifts;

pub use claims::MemoryClaims;
pub(crate) use claims::record_operations;
pub use queue::MemoryQueue;
pub use zonal_shifts::MemoryZonalShifts;

#[cfg(test)]
mod tests;
