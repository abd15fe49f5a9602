//! Errors in an export, with their location.

use nodeless_model::Template;
use nodeless_model::quotes::{with_short_keys, with_short_quotes};
use std::fmt;

/// The maximum number of characters of a problem, which may quote many values.
const MAXIMUM_PROBLEM: usize = 500;

/// The location of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePlace {
    /// The file or other source.
    pub source: String,
    /// The number of the document, from 1; documents without content are not counted.
    pub document: usize,
    /// The first line of the document, from 1.
    pub line: usize,
    /// The indices of the items of nested Lists, from 0.
    pub items: Vec<usize>,
}

/// Why an object cannot be used. The rest of the export is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The location.
    pub place: SourcePlace,
    /// The kind and name of the object, if they could be read.
    pub object: Option<String>,
    /// The field, such as `spec.containers[0].resources.requests.cpu`; empty for the object itself.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

impl SourcePlace {
    /// An item of the List at this location.
    pub(crate) fn item(&self, index: usize) -> Self {
        let mut place = self.clone();
        place.items.push(index);
        place
    }

    /// A fault of the text, not of an object in it.
    pub(crate) fn unreadable(&self, problem: impl fmt::Display) -> Fault {
        Fault { place: self.clone(), object: None, field: String::new(), problem: bounded(&problem.to_string()) }
    }
}

/// A problem of an object: that it has templating left, if it quotes some, or else the problem with no more than the beginnings of values.
pub(crate) fn explained(problem: &str) -> String {
    Template::find(problem).map_or_else(|| bounded(problem), |found| found.to_string())
}

/// A problem with no more than the beginnings of the values that it quotes.
fn bounded(problem: &str) -> String {
    let mut problem = with_short_quotes(problem);
    if let Some((end, _)) = problem.char_indices().nth(MAXIMUM_PROBLEM) {
        problem.replace_range(end.., "…");
    }
    problem
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.source, self.document)?;
        if self.line > 1 {
            write!(f, " (line {})", self.line)?;
        }
        self.items.iter().try_for_each(|index| write!(f, ", items[{index}]"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", with_short_keys(&self.field))?;
        }
        write!(f, ": {}", self.problem)
    }
}
