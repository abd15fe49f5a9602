//! nodeless in one process, at work in a simulated cluster and account: what `nodeless demo`, `nodeless local` and
//! `nodeless simulate` run.
//!
//! - [`Driver`]: the operations of the Lambda functions over the ports of a world, woken as EventBridge, SQS and the webhook
//!   wake them in AWS.
//! - [`scenarios`]: the form of scenario files, the built-in scenarios, and their actions.
//! - [`invariants`]: the oracle, which checks from outside what must hold. It shares no code with what decides.
//! - [`simulation`]: a run of a scenario under the eyes of the oracle, and its report.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod driver;
pub mod invariants;
mod lines;
pub mod scenarios;
pub mod simulation;

pub use driver::{Driver, DriverError, Functions, Outcome, Schedule};
