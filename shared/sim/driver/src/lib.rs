//! nodeless in one process with a simulated cluster and account: what `nodeless demo`, `nodeless local` and `nodeless simulate`
//! run.
//!
//! - [`Driver`]: the operations of the Lambda functions over the ports of a world, woken as EventBridge, SQS and the webhook
//!   wake them in AWS.
//! - [`scenarios`]: the format of scenario files, the built-in scenarios, and their actions.
//! - [`invariants`]: the oracle, which checks the invariants from outside. It shares no code with the operations.
//! - [`simulation`]: a run of a scenario that the oracle checks, and its report.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod driver;
pub mod invariants;
mod log_lines;
pub mod scenarios;
pub mod simulation;

pub use driver::{AccountConcurrency, Driver, DriverError, FunctionSettings, Functions, Outcome, Schedule};
