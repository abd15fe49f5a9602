//! The cases of Karpenter's test suites in `tests/upstream`, planned by the code of `nodeless plan`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may fail by panic")]

mod case;
mod catalogs;
mod counts;
mod definitions;
mod expect;
mod names;
mod nodes;
mod outcome;
mod plan;
mod pods;
mod pools;
mod reservations;
mod table;
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use table::{Table, TableEntry};

/// What is wrong with a case of the table.
fn evaluate(entry: &TableEntry) -> Option<String> {
    let mut wrong: Vec<String> = match plan::run(&entry.case) {
        Ok(outcome) => entry.case.expect.differences(&outcome),
        Err(error) => return Some(entry.message(&[error])),
    };
    if let Some(reason) = &entry.case.fails {
        let now_holds = format!("it holds now, so remove `fails: {reason}`");
        wrong = if wrong.is_empty() { vec![now_holds] } else { Vec::new() };
    }
    (!wrong.is_empty()).then(|| entry.message(&wrong))
}

/// What is wrong with these cases, in their order. The cases are planned on all processors.
fn evaluate_all(entries: &[&TableEntry]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(place) else { break found };
            found.extend(evaluate(entry).map(|message| (place, message)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, String)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        started.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    found.sort();
    found.into_iter().map(|(_, message)| message).collect()
}

/// `UPSTREAM=TEXT` selects the cases whose file or sentence contains the text, and prints what each of them results in.
#[test]
fn every_case_of_the_table_holds() {
    let table = Table::read(&table::folder()).unwrap();
    let chosen = std::env::var("UPSTREAM").unwrap_or_default();
    let is_chosen = |entry: &&TableEntry| entry.file.contains(&chosen) || entry.case.case.contains(&chosen);
    let entries: Vec<&TableEntry> = table.entries.iter().filter(is_chosen).collect();
    if !chosen.is_empty() {
        for entry in &entries {
            println!("{}:{} {}\n{:#?}\n", entry.file, entry.line, entry.case.case, plan::run(&entry.case));
        }
    }
    let failed = evaluate_all(&entries);
    assert!(failed.is_empty(), "{} of {} cases:\n\n{}", failed.len(), entries.len(), failed.join("\n\n"));
}

/// `UPSTREAM_WRITE=1` writes the counts.
#[test]
fn the_comparison_has_the_counts_of_the_table() {
    let table = Table::read(&table::folder()).unwrap();
    let path = table::folder().join("../../docs/compare.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let expected = counts::replaced(&document, &counts::rows(&table)).unwrap();
    if std::env::var_os("UPSTREAM_WRITE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            document == expected,
            "docs/compare.md has other counts than the table; write them with UPSTREAM_WRITE=1"
        );
    }
}
