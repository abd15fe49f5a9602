//! The report of a conversion.

use nodeless_model::quotes::{with_short_keys, with_short_quotes};
use std::fmt;

/// The effect of a conversion on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The field has another place, name or value with the same meaning.
    Changed,
    /// v1 does not have the field. The object is valid without it, and may behave differently.
    Lost,
    /// The field is converted, and a person has to check the result.
    Check,
}

/// A note on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The effect.
    pub effect: Effect,
    /// The file.
    pub source: String,
    /// Kind and name of the object before the conversion.
    pub object: String,
    /// The field before the conversion; empty for the object itself.
    pub field: String,
    /// A sentence without a capital letter and full stop.
    pub what: String,
}

/// Why an input cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub source: String,
    /// Kind and name of the object, if it could be read.
    pub object: Option<String>,
    /// The field, or `line 7` of a file that cannot be read; empty for the object itself.
    pub field: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Lost => "lost",
            Self::Check => "check",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { effect, source, object, field, what } = self;
        write!(f, "{effect}: {source}: {object}: ")?;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", with_short_keys(&self.field))?;
        }
        write!(f, ": {}", with_short_quotes(&self.problem))
    }
}

/// Collects what is reported about one object.
#[derive(Debug)]
pub(crate) struct Log {
    source: String,
    object: String,
    pub(crate) notes: Vec<Note>,
    pub(crate) problems: Vec<Problem>,
}

impl Log {
    pub(crate) fn new(source: &str, object: String) -> Self {
        Self { source: source.to_owned(), object, notes: Vec::new(), problems: Vec::new() }
    }

    pub(crate) fn object(&self) -> &str {
        &self.object
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn changed(&mut self, field: &str, what: impl Into<String>) {
        self.note(Effect::Changed, field, what.into());
    }

    pub(crate) fn lost(&mut self, field: &str, what: impl Into<String>) {
        self.note(Effect::Lost, field, what.into());
    }

    pub(crate) fn check(&mut self, field: &str, what: impl Into<String>) {
        self.note(Effect::Check, field, what.into());
    }

    fn note(&mut self, effect: Effect, field: &str, what: String) {
        let (source, object) = (self.source.clone(), self.object.clone());
        self.notes.push(Note { effect, source, object, field: field.to_owned(), what });
    }

    pub(crate) fn problem(&mut self, field: &str, problem: impl Into<String>) {
        let (source, object) = (self.source.clone(), Some(self.object.clone()));
        self.problems.push(Problem { source, object, field: field.to_owned(), problem: problem.into() });
    }
}
