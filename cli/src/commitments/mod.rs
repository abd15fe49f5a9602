//! Savings Plans and Reserved Instances of the command line: their files, the instances that they apply to, plans that use them, and
//! what is shown of them.

mod arguments;
mod instance;
mod place;
mod summary;

pub(crate) use arguments::{CommitmentArguments, Exported};
pub(crate) use instance::Instance;
pub(crate) use place::{Placed, place};
pub(crate) use summary::{Paid, Summary, Used, without_rate};
