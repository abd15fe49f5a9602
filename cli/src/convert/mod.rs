//! Converts manifests, and checks the result against the CustomResourceDefinitions.

mod check;

use crate::error::CliError;
use crate::input_files;
use crate::output::{self, report};
use nodeless_convert::{Conversion, Options, SourceFile};
use std::path::PathBuf;

/// Converts files, prints the result to standard output, and what became of fields to standard error.
///
/// # Errors
/// When a file cannot be read or converted. Then nothing is printed to standard output.
pub(crate) fn run(paths: &[PathBuf], options: &Options) -> Result<(), CliError> {
    let sources = read(paths)?;
    let mut conversion = nodeless_convert::convert(&sources, options);
    if conversion.read == 0 && conversion.problems.is_empty() {
        return Err(CliError::NothingToConvert { input: input_files::named(paths) });
    }
    if conversion.problems.is_empty() {
        conversion.problems = check::problems(&conversion.objects)?;
    }
    if !conversion.problems.is_empty() {
        for problem in &conversion.problems {
            report!("error: {problem}");
        }
        return Err(CliError::NotConverted { problems: conversion.problems.len() });
    }
    for note in &conversion.notes {
        report!("{note}");
    }
    if conversion.notes.is_empty() {
        report!("note: the input has nothing to convert; it is printed as it is");
    }
    output::print(text(&conversion)).map(drop)
}

fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, CliError> {
    let mut sources = Vec::new();
    for (name, bytes) in input_files::contents(paths)? {
        let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: PathBuf::from(&name) })?;
        let text = text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned);
        sources.push(SourceFile { name, text });
    }
    Ok(sources)
}

/// All files as one stream of documents.
fn text(conversion: &Conversion) -> String {
    let mut text = String::new();
    for file in conversion.files.iter().filter(|file| !file.text.trim().is_empty()) {
        if !text.is_empty() {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            if !file.text.starts_with("---") {
                text.push_str("---\n");
            }
        }
        text.push_str(&file.text);
    }
    text
}
