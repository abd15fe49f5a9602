//! The options that name commitments.

use crate::error::CliError;
use crate::input_files;
use crate::output::report;
use clap::Args;
use jiff::Timestamp;
use nodeless_commitments::{Commitments, Exports, Share};
use std::path::PathBuf;

/// The options that name commitments.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommitmentArguments {
    /// Files, or directories of such files, with the output of `aws savingsplans describe-savings-plans`, of `aws savingsplans
    /// describe-savings-plan-rates` for each plan, and of `aws ec2 describe-reserved-instances`: Savings Plans and Reserved
    /// Instances are applied as AWS does; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    commitments: Vec<PathBuf>,
    /// The part of each commitment that this cluster may use, such as 0.5, if other instances and accounts use the same ones
    #[arg(long, value_name = "FRACTION", default_value = "1", requires = "commitments")]
    commitments_share: Share,
}

impl CommitmentArguments {
    /// Whether files are given.
    pub(crate) fn are_given(&self) -> bool {
        !self.commitments.is_empty()
    }

    /// Reads the files; `None` if none are given.
    pub(crate) fn read(&self) -> Result<Option<Exported>, CliError> {
        if self.commitments.is_empty() {
            return Ok(None);
        }
        let mut exports = Exports::default();
        for (name, bytes) in input_files::contents(&self.commitments)? {
            exports.read(&name, &bytes)?;
        }
        Ok(Some(Exported { exports, share: self.commitments_share }))
    }
}

/// What the files contain.
pub(crate) struct Exported {
    exports: Exports,
    share: Share,
}

impl Exported {
    /// The commitments that are in effect.
    pub(crate) fn at(&self, region: &str, at: Timestamp) -> Result<Commitments, CliError> {
        Ok(self.exports.in_effect(region, at, self.share)?)
    }

    /// The commitments that are in effect. Prints which are not, and what is assumed.
    pub(crate) fn in_effect(&self, region: &str, at: Timestamp) -> Result<Commitments, CliError> {
        let commitments = self.at(region, at)?;
        commitments.notes.iter().for_each(|note| report!("warning: {note}"));
        if commitments.is_empty() {
            report!("warning: no commitment is in effect in {region} at {at:.0}");
        }
        Ok(commitments)
    }
}
