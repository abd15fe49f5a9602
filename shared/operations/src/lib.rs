//! What the operations of nodeless share. An operation runs the pure crates over the ports:
//!
//! | Operation | Crate | Woken by | Does |
//! |---|---|---|---|
//! | `Planner` | `nodeless-planner` | pending pods, every minute | decides what to launch and what to remove, writes claims |
//! | `Reconciler` | `nodeless-reconciler` | a message for a shard of claims | steps of each claim of the shard that is due, until it has to wait |
//! | `Sweeper` | `nodeless-reconciler` | every minute | compares all claims with EC2 and the cluster, adopts and collects; reads zonal shifts |
//! | `Interrupter` | `nodeless-reconciler` | EC2 and Health events | terminates claims whose instance is about to end |
//! | `Refresher` | `nodeless-refresher` | a schedule | reads what EC2 offers, resolves EC2NodeClasses |
//! | `CostReporter` | `nodeless-refresher` | a weekly schedule | sends a report of what nodes cost to a topic |
//! | `Validator` | `nodeless-refresher` | a message for an EC2NodeClass | checks by EC2 dry runs whether instances can be launched from the class |
//!
//! Each is level-triggered and idempotent: a message only requests a run, and a lost, late or duplicated one does no harm.
//! A failed read results in an error or a wait, never in a destructive action.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod at_once;
pub mod events;
pub mod gates;
pub mod leaving;
pub mod log_lines;
pub mod names;
pub mod node_class;
pub mod offers;
pub mod ownership;
pub mod shards;
mod stored;
pub mod unadopted;
mod unread;

pub use events::EventRate;
pub use nodeless_catalog::stored::{CapacitySettings, MemoryOverhead};
pub use nodeless_telemetry::Context;
pub use offers::{CatalogCache, CatalogError};
pub use stored::{records, refused_stops, registrations, reported_memory, zonal_shift};
pub use unread::Unread;
