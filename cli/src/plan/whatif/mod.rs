//! What a cluster costs today, and what it would cost otherwise: `nodeless plan --what-if`.

mod blocked;
pub(super) mod changes;
mod compare;
pub(super) mod cost;
mod evaluate;
mod html;
pub(crate) mod manifests;
pub(super) mod moved;
mod report;
mod text;
pub(super) mod words;

use super::input::catalog::LoadedCatalog;
use super::input::offline::Offline;
use super::{Output, progress::Stage, report_input};
use crate::error::CliError;
use crate::output::{self, report as print_line};
use crate::output_file::OutputFile;
use evaluate::{Settings, Today};
use jiff::Timestamp;
use manifests::Changed;
use nodeless_commitments::Commitments;
use nodeless_scheduling::Options;
use nodeless_snapshot::Snapshot;
use report::WhatIfReport;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The input of a comparison.
pub(crate) struct Input {
    pub(crate) snapshot: Snapshot,
    /// The cluster with the manifests of each `--if`.
    pub(crate) changed: Vec<Changed>,
    pub(crate) catalog: LoadedCatalog,
    /// The commitments that are in effect, if exports of them are given.
    pub(crate) commitments: Option<Commitments>,
    pub(crate) synthetic_spot: bool,
    pub(crate) options: Options,
    /// The time of the plans.
    pub(crate) at: Timestamp,
    /// Where to write the page, if requested.
    pub(crate) html: Option<OutputFile>,
}

/// Compares and prints. Unschedulable pods are part of the output, and no error.
pub(crate) fn run(input: Input, form: Output) -> Result<ExitCode, CliError> {
    let Input { snapshot, changed, catalog, commitments, synthetic_spot, options, at, html: target } = input;
    let mut faulty = report_input(&snapshot);
    for one in &changed {
        faulty |= report_input(&one.alone);
    }
    if faulty && snapshot.objects == 0 {
        return Err(CliError::AlreadyReported);
    }
    catalog.notes.iter().for_each(|note| print_line!("warning: {note}"));
    let settings = Settings {
        claims: &snapshot.claims,
        offline: Offline { catalog: &catalog.catalog, options, at, commitments: commitments.as_ref() },
    };
    let stage = Stage::begin("planning alternatives");
    let today = Today::new(&snapshot.view, settings);
    let mut alternatives = today.standard();
    alternatives.extend(today.moved()?);
    alternatives.extend(changed.iter().map(|one| today.with_manifests(&one.file, &one.snapshot.view)));
    drop(stage);
    let mut found = today.assumptions.clone();
    found.extend(commitments.iter().flat_map(|all| all.notes.iter().cloned()));
    let costs = [&today.cost].into_iter().chain(alternatives.iter().map(|one| &one.cost));
    found.extend(costs.flat_map(|cost| &cost.without_rate).cloned().collect::<BTreeSet<_>>());
    let moves = alternatives.iter().any(|one| one.moved.is_some());
    let assumptions = report::assumptions(&today, moves, &catalog.described, &found);
    let report = WhatIfReport { today: today.cost, alternatives, assumptions };
    if let Some(target) = target {
        target.write(&html::page(&report, synthetic_spot))?;
    }
    match form {
        Output::Text => output::text(&text::render(&report, synthetic_spot)),
        Output::Json => output::json(&report),
        Output::Yaml => output::yaml(&report),
    }?;
    Ok(if faulty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
