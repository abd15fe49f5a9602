//! The claims table, the queues, ARC and a topic in memory, with the semantics of the real ones. `fault_injection` wraps them to make
//! calls fail.

mod chain;
mod meter;
mod metered;
mod queue;
mod state;
mod table;
mod topic;
mod zonal_shifts;

pub use chain::{Chain, Function, Message};
pub use meter::PartitionLimits;
pub use metered::MeteredTable;
pub use queue::MemoryQueue;
pub use state::MemoryState;
pub use table::{Backup, MemoryTable};
pub use topic::MemoryTopic;
pub use zonal_shifts::MemoryZonalShifts;

#[cfg(test)]
mod tests;
