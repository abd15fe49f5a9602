//! What happens to claims: their steps, the sweep over all of them, and notices about their instances.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capacity_blocks;
mod health;
pub mod interrupt;
pub mod reconcile;
pub mod sweep;

pub use interrupt::{Interrupter, Interruption, ParseInterruptionError};
pub use reconcile::{NominationSwitch, ReconcileError, Reconciled, Reconciler};
pub use sweep::{SweepError, SweepReport, Sweeper};
