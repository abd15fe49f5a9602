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
pub mod collect;
mod conditions;
pub mod effect;
mod events;
mod joining;
mod launch;
mod leaving;
mod needs;
pub mod reboot;
mod reservation;
mod seen;
pub mod settings;
mod step;
mod time;
pub mod warm;

pub use collect::{Collection, World, collect, is_proved_gone};
pub use effect::{Effect, LaunchResult, Learned, Step};
pub use events::transitions;
pub use joining::daemon_sets::Awaited;
use joining::registration;
pub use joining::registration::{stale_hashes, unreported_resources};
pub use joining::registration_health::{Registration, RegistrationHealth};
pub use joining::{consistency, daemon_sets, registration_health};
pub use launch::{absorb, moved, prepare, result_for};
pub use leaving::begin_termination::{begin_termination, begin_termination_within};
pub use leaving::charge::{charge_when_written, leaves_by_force};
pub use leaving::drain;
pub use leaving::earlier_cluster::of_earlier_cluster;
pub use leaving::surge::asking;
use leaving::{begin_termination, surge, termination, without_instance};
pub use needs::Needs;
pub use reservation::{demoted, has_left_its_reservation};
pub use seen::observation::{NodeClassState, Observation, Seen, SeenGroup, SeenOwners};
pub use seen::opening::{Member, Nominations};
use seen::prospect;
pub use seen::prospect::{Prospect, prospect};
pub use seen::{group, observation, opening};
pub use settings::Settings;
pub use step::step;

#[cfg(test)]
mod tests;
