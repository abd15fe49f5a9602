//! Checks whether a cluster is ready for nodeless, and for a way back to Karpenter.
//!
//! [`check`] is a function of [`Facts`], which the caller reads from the API server and from AWS. What could not be read is a
//! finding of its own ([`Severity::NotChecked`]), so that the absence of a finding always means that a check was made. The crate is
//! pure: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod facts;
mod finding;
mod quota;

pub use facts::{
    Access, AccessEntry, Definition, DefinitionState, EarlierObjects, Facts, Placed, Planned, ProbeOutcome, Read,
    Surging, Workload,
};
pub use finding::{Check, Finding, Severity};
pub use quota::Quota;

/// The findings of these checks, in the same order.
#[must_use]
pub fn check_some(facts: &Facts, checks: &[Check]) -> Vec<Finding> {
    check(facts).into_iter().filter(|finding| checks.contains(&finding.check)).collect()
}

/// All findings, the most severe first, then by check and object.
#[must_use]
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = checks::all(facts);
    findings.sort();
    findings
}
