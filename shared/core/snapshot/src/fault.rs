//! Errors in an export, with the place where they are.

use std::fmt;

/// Where an object stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, or what else it was read from.
    pub source: String,
    /// Which document of it, from 1; documents without content do not count.
    pub document: usize,
    /// The line at which the document begins, from 1.
    pub line: usize,
    /// Which items of Lists lead to it, from 0.
    pub items: Vec<usize>,
}

/// Something that cannot be used. Whatever else the export holds still counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it stands.
    pub place: Place,
    /// Kind and name of the object, as far as they could be read.
    pub object: Option<String>,
    /// The field, such as `spec.containers[0].resources.requests.cpu`; empty when it is the object as a whole.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Place {
    /// An item of the List that stands here.
    pub(crate) fn item(&self, index: usize) -> Self {
        let mut place = self.clone();
        place.items.push(index);
        place
    }

    /// A fault of the text, not of an object.
    pub(crate) fn unreadable(&self, problem: impl fmt::Display) -> Fault {
        Fault { place: self.clone(), object: None, field: String::new(), problem: problem.to_string() }
    }
}

impl fmt::Display for Place {
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
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.problem)
    }
}
