//! What a change of manifests does to the nodes and costs of a cluster: `nodeless plan --diff BASE HEAD`.

mod bounded;
mod compare;
mod evaluate;
mod markdown;
mod report;
mod sets;
mod text;
mod words;

pub(crate) use sets::{Sets, read};

use super::input::catalog::LoadedCatalog;
use super::input::offline::Offline;
use super::progress::Stage;
use super::{SOME_UNSCHEDULABLE, held, template_options};
use crate::error::CliError;
use crate::output::{self, report as print_line};
use jiff::Timestamp;
use nodeless_scheduling::Options;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The maximum number of errors of the input that are printed.
const MAX_ERRORS: usize = 10;
/// The exit code if HEAD costs more in addition than `--max-increase` allows.
const TOO_EXPENSIVE: u8 = 3;

/// The input of a comparison.
pub(crate) struct Input {
    pub(crate) sets: Sets,
    pub(crate) catalog: LoadedCatalog,
    pub(crate) options: Options,
    /// The time of the plans.
    pub(crate) at: Timestamp,
    /// The increase that is allowed, in whole dollars a month.
    pub(crate) max_increase: Option<u32>,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
    Yaml,
    Markdown,
}

/// Compares and prints. The exit code indicates whether further pods are unschedulable, and whether the costs increase too much.
pub(crate) fn run(input: &Input, form: Form) -> Result<ExitCode, CliError> {
    let Input { sets, catalog, options, at, max_increase } = input;
    report_input(sets)?;
    catalog.notes.iter().for_each(|note| print_line!("warning: {note}"));
    let offline = Offline { catalog: &catalog.catalog, options: *options, at: *at, commitments: None };
    let stage = Stage::begin("planning both sets");
    let before = evaluate::plan(offline, &sets.base, &BTreeSet::new());
    let after = evaluate::plan(offline, &sets.head, &before.pods_without_node());
    let maximum = sets.maximum.as_ref().filter(|both| both.iter().all(|set| set.faults.is_empty()));
    let maximum = maximum.map(|both| {
        both.each_ref().map(|set| {
            let known = set.view.pods().map(nodeless_model::Pod::key).collect();
            evaluate::plan(offline, set, &known)
        })
    });
    drop(stage);
    let report = compare::report(sets, [before, after], maximum, catalog, *max_increase);
    match form {
        Form::Text => output::text(&text::render(&report)),
        Form::Markdown => output::print(markdown::render(&report)),
        Form::Json => output::json(&report),
        Form::Yaml => output::yaml(&report),
    }?;
    Ok(if !report.become_unschedulable.is_empty() {
        ExitCode::from(SOME_UNSCHEDULABLE)
    } else if report.exceeds_limit {
        ExitCode::from(TOO_EXPENSIVE)
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the errors, warnings and notes about both sets, each once. An error ends the comparison: without an object the difference would
/// be another one.
fn report_input(sets: &Sets) -> Result<(), CliError> {
    let both = [&sets.base, &sets.head];
    let lines = both.iter().flat_map(|set| &set.faults).map(ToString::to_string);
    let mut seen = BTreeSet::new();
    let faults: Vec<String> = lines.filter(|line| seen.insert(line.clone())).collect();
    if !faults.is_empty() {
        faults.iter().take(MAX_ERRORS).for_each(|fault| print_line!("error: {fault}"));
        return Err(CliError::NotCompared { problems: faults.len() });
    }
    let skipped: BTreeSet<&str> = both.iter().flat_map(|set| set.skipped.keys()).map(String::as_str).collect();
    let skipped = skipped.into_iter().collect::<Vec<_>>().join(", ");
    if both.iter().all(|set| set.manifests.is_empty()) {
        return Err(sets.nothing(&skipped));
    }
    let warnings: BTreeSet<&String> = both.iter().flat_map(|set| &set.warnings).collect();
    warnings.into_iter().for_each(|warning| print_line!("warning: {warning}"));
    if !skipped.is_empty() {
        print_line!("note: skipped kinds that planning does not use: {skipped}");
    }
    template_options(both).into_iter().for_each(|note| print_line!("{note}"));
    for (name, set) in ["BASE", "HEAD"].into_iter().zip(both) {
        if set.manifests.is_empty() {
            print_line!("note: {name} has no object that planning uses");
        }
    }
    let held: BTreeSet<String> = both.iter().filter_map(|set| held(set)).collect();
    held.into_iter().for_each(|note| print_line!("{note}"));
    Ok(())
}
