//! The lifecycle of a NodeClaim as a pure step: from the record and the observation to the next record and effects.
//!
//! A record is written before the effects of its step are executed, and only if it was not changed meanwhile. Every effect may be
//! repeated. So after a crash the next [`step()`] continues from observation alone:
//!
//! ```text
//! Reserved -> Launched -> Registered -> Initialized -> Draining -> Terminating -> Gone
//!     \__________\____________\______________________/^     a claim may begin termination at any point
//! ```
//!
//! The instance of a warm node is stopped after its node joined, and launched again when it is started: see [`warm`]. That of an
//! unhealthy node may be rebooted: see [`reboot`].
//!
//! Parts that could not be read are [`Seen::Unknown`], and no step does anything destructive on unknown state: it waits.
//! [`collect()`] compares claims, instances and nodes as a whole, and finds what no single claim can detect: orphans, and nodes
//! to adopt.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adopt;
mod begin_termination;
mod charge;
pub mod collect;
mod conditions;
pub mod consistency;
pub mod daemon_sets;
pub mod drain;
mod earlier_cluster;
pub mod effect;
mod events;
pub mod group;
mod launch;
mod needs;
pub mod observation;
pub mod opening;
mod prospect;
pub mod reboot;
mod registration;
pub mod registration_health;
mod reservation;
pub mod settings;
mod step;
mod surge;
mod termination;
mod time;
pub mod warm;
mod without_instance;

pub use begin_termination::{begin_termination, begin_termination_within};
pub use charge::{charge_when_written, leaves_by_force};
pub use collect::{Collection, World, collect, is_proved_gone};
pub use daemon_sets::Awaited;
pub use earlier_cluster::of_earlier_cluster;
pub use effect::{Effect, LaunchResult, Learned, Step};
pub use events::transitions;
pub use launch::{absorb, moved, prepare, result_for};
pub use needs::Needs;
pub use observation::{NodeClassState, Observation, Seen, SeenGroup, SeenOwners};
pub use opening::{Member, Nominations};
pub use prospect::{Prospect, prospect};
pub use registration::{stale_hashes, unreported_resources};
pub use registration_health::{Registration, RegistrationHealth};
pub use reservation::{demoted, has_left_its_reservation};
pub use settings::Settings;
pub use step::step;
pub use surge::asking;

#[cfg(test)]
mod tests;
