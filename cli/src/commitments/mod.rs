//! Savings Plans and Reserved Instances of the command line: their files, and what is shown of them.

mod arguments;
mod summary;

pub(crate) use arguments::{CommitmentArguments, Exported};
pub(crate) use summary::{Paid, Summary, Used, without_rate};
