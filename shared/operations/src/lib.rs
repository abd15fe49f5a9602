//! The operations of nodeless: the pure crates, run over the ports.
//!
//! | Operation | Woken by | Does |
//! |---|---|---|
//! | [`Planner`] | pending pods, every minute | decides what to launch and what to remove, writes claims |
//! | [`Reconciler`] | a message for a shard of claims | steps of each claim of the shard that is due, until it has to wait |
//! | [`Sweeper`] | every minute | compares all claims with EC2 and the cluster, adopts and collects; reads zonal shifts |
//! | [`Interrupter`] | EC2 and Health events | terminates claims whose instance is about to end |
//! | [`Refresher`] | a schedule | reads what EC2 offers, resolves EC2NodeClasses |
//! | [`CostReporter`] | a weekly schedule | sends a report of what nodes cost to a topic |
//! | [`Validator`] | a message for an EC2NodeClass | checks by EC2 dry runs whether instances can be launched from the class |
//!
//! Each is level-triggered and idempotent: a message only requests a run, and a lost, late or duplicated one does no harm.
//! A failed read results in an error or a wait, never in a destructive action.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capacity_blocks;
pub mod cost_report;
mod events;
pub mod gates;
mod health;
pub mod interrupt;
mod leaving;
mod log_lines;
mod names;
pub mod node_class;
mod offers;
mod ownership;
pub mod plan;
pub mod reconcile;
mod records;
pub mod refresh;
mod refused_stops;
mod registrations;
mod reported_memory;
mod shards;
pub mod sweep;
mod unadopted;
mod unread;
pub mod validate;
mod zonal_shift;

pub use cost_report::{CostReportError, CostReporter};
pub use events::EventRate;
pub use interrupt::{Interrupter, Interruption, ParseInterruptionError};
pub use nodeless_catalog::stored::{CapacitySettings, MemoryOverhead};
pub use nodeless_telemetry::Context;
pub use offers::{CatalogCache, CatalogError};
pub use plan::{Disruption, DryRun, DryRunInput, PlanError, PlanReport, Planner, PoolChurn, Snapshot};
pub use reconcile::{NominationSwitch, ReconcileError, Reconciled, Reconciler};
pub use refresh::{RefreshError, RefreshReport, Refresher};
pub use sweep::{SweepError, SweepReport, Sweeper};
pub use unread::Unread;
pub use validate::Validator;
