//! Selectors of devices: [expressions](nodeless_expressions) over one variable, `device`.

mod published;

use crate::slices::attribute::Attribute;
use crate::slices::slice::Device;
use nodeless_expressions::{Library, Program};
use nodeless_model::Quantity;
use published::Published;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

pub use nodeless_expressions::{CompileError, EvaluationError};

/// A compiled selector.
#[derive(Clone, Debug)]
pub struct Selector {
    program: Program,
}

/// An attribute or a capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read {
    /// Whether it is a capacity.
    pub is_capacity: bool,
    /// The domain, which is that of the driver for most names.
    pub domain: String,
    /// The name in the domain.
    pub id: String,
}

impl Read {
    /// The text of the value of a device; `None` if it does not have it, or it is not known yet.
    #[must_use]
    pub fn text(&self, driver: &str, device: &Device) -> Option<String> {
        if self.is_capacity {
            return device.capacity(driver, &self.domain, &self.id).map(Quantity::to_binary_string);
        }
        Some(match device.attribute(driver, &self.domain, &self.id)? {
            Attribute::String(text) => format!("{text:?}"),
            Attribute::Version(version) => version.clone(),
            Attribute::Int(number) => number.to_string(),
            Attribute::Bool(value) => value.to_string(),
            Attribute::Unknown => return None,
        })
    }
}

/// `attribute gpu.example.com/model`.
impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_capacity { "capacity" } else { "attribute" };
        write!(f, "{kind} {}/{}", self.domain, self.id)
    }
}

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Where it is not valid, or uses what is not supported.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        Program::compile(expression, Library::Selector).map(|program| Self { program })
    }

    /// Whether it selects a device of a driver.
    ///
    /// # Errors
    /// Where it has no value for the device.
    pub fn matches(&self, driver: &str, device: &Device) -> Result<bool, EvaluationError> {
        self.evaluate(driver, device).0
    }

    /// The attributes and capacities that it names.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<Read> {
        let read = |path: Vec<&str>| match path[..] {
            [_, kind @ ("attributes" | "capacity"), domain, id, ..] => {
                Some(Read { is_capacity: kind == "capacity", domain: domain.to_owned(), id: id.to_owned() })
            }
            _ => None,
        };
        self.program.paths().into_iter().filter_map(read).collect()
    }

    /// [`Self::matches`], and the number of steps that this takes.
    pub(crate) fn evaluate(&self, driver: &str, device: &Device) -> (Result<bool, EvaluationError>, u32) {
        let (value, steps) = self.program.evaluate(&Published { driver, device });
        (value.and_then(|value| value.as_bool()), steps)
    }
}

/// Compiled expressions: claims that are made from one template have the same.
#[derive(Debug, Default)]
pub struct Selectors {
    compiled: RefCell<HashMap<String, Compiled>>,
}

/// The number of an expression among those of [`Selectors`], and what it compiles to.
type Compiled = (usize, Result<Rc<Selector>, CompileError>);

impl Selectors {
    /// Compiles an expression, once.
    pub(crate) fn compile(&self, expression: &str) -> Compiled {
        if let Some(known) = self.compiled.borrow().get(expression) {
            return known.clone();
        }
        let compiled = Selector::compile(expression).map(Rc::new);
        let mut known = self.compiled.borrow_mut();
        let numbered = (known.len(), compiled);
        known.insert(expression.to_owned(), numbered.clone());
        numbered
    }
}
