//! The claims table and the queues in memory, by the rules of the real ones, with faults on demand.

mod claims;
mod faults;
mod queue;

pub use claims::MemoryClaims;
pub use faults::Faults;
pub use queue::MemoryQueue;

#[cfg(test)]
mod tests;
