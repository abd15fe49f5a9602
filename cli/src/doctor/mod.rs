//! Checks a cluster and prints the findings.

#[cfg(feature = "kubernetes")]
mod planned;
#[cfg(feature = "kubernetes")]
pub(crate) mod read;
mod text;

use crate::error::CliError;
use crate::output;
use nodeless_doctor::{Facts, Finding, Severity};
use serde::Serialize;
use std::process::ExitCode;

/// The exit code if a finding is an error.
const FOUND_ERRORS: u8 = 3;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
}

/// The findings as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    errors: usize,
    warnings: usize,
    not_checked: usize,
    notes: usize,
    findings: &'a [Finding],
}

/// Checks and prints. The exit code indicates whether a finding is an error.
pub(crate) fn report(facts: &Facts, form: Output) -> Result<ExitCode, CliError> {
    let findings = nodeless_doctor::check(facts);
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let report = Report {
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        not_checked: count(Severity::NotChecked),
        notes: count(Severity::Note),
        findings: &findings,
    };
    match form {
        Output::Text => output::print(text::render(&report, text::width()))?,
        Output::Json => output::json(&report)?,
    };
    Ok(if report.errors > 0 { ExitCode::from(FOUND_ERRORS) } else { ExitCode::SUCCESS })
}
