//! Savings Plans and Reserved Instances, and what instances cost with them.
//!
//! [`Exports`] reads what the AWS CLI exports, and [`Exports::in_effect`] selects the [`Commitments`] that apply at a time in a region;
//! [`of_account`] selects them of those that the API listed.
//! [`apply()`] applies them to the instances of an hour as AWS does, and returns the [`Bill`]. [`Prepaid`] offers what is left of them to
//! a plan. `docs/commitments.md` explains each number to users.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod apply;
mod bill;
mod export;
mod instance;
mod model;
mod prepaid;
mod size;

pub use apply::{Usage, apply};
pub use bill::{Bill, CommitmentBill, InstanceBill};
pub use export::{
    ExportError, Exports, Rate, RateProperty, UnusableCommitment, check_plan, check_reserved, may_apply, of_account,
    rates_by_type,
};
pub use instance::{Instance, Instances, bill};
pub use model::{Commitments, ReservedInstances, SavingsPlan, Share, ShareError};
pub use prepaid::Prepaid;
