//! What EC2 offers, whether instances can be launched from an EC2NodeClass, and what nodes cost.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cost_report;
pub mod refresh;
pub mod validate;

pub use cost_report::{CostReportError, CostReporter};
pub use refresh::{RefreshError, RefreshReport, Refresher};
pub use validate::Validator;
