//! Selectors of devices: expressions of the Common Expression Language over one variable, `device`.
//!
//! The crate `cel` parses them. They are evaluated here and not by its interpreter, because a plan needs three things that it does not
//! have: a bound for the cost of an expression, which anyone who may create a ResourceClaim can write; errors rather than panics for
//! every expression; and attributes that are unknown, because no driver has published the device yet. The variables and functions are
//! those of the [kube-scheduler](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/); functions that
//! are not supported are refused when an expression is compiled.

mod compile;
mod evaluate;
mod functions;
mod reads;
mod steps;
mod value;

use crate::slice::Device;
use compile::Expression;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

pub use reads::Read;

/// The longest expression, in bytes, as in the API (`CELSelectorExpressionMaxLength`).
const MAX_LENGTH: usize = 10 * 1024;

/// A compiled selector.
#[derive(Clone, Debug)]
pub struct Selector {
    expression: Expression,
}

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is not valid.
    #[error("the expression is not valid: {0}")]
    Syntax(String),
    /// It is too long, or nested too deeply.
    #[error("the expression is {0}")]
    TooComplex(&'static str),
    /// It uses what is not supported.
    #[error("{0} is not supported in selectors")]
    Unsupported(String),
}

/// Why an expression has no value for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// It reads what the device does not have, such as an attribute that it does not publish.
    #[error("the device has no {what}; test for it first, as in \"name\" in device.attributes[\"domain\"]")]
    Missing {
        /// What.
        what: String,
    },
    /// It reads what is not known before the device is published.
    #[error("{what} is not known before the driver publishes the device")]
    NotPublished {
        /// What.
        what: String,
    },
    /// A value has another type than an operator or function takes, or cannot be converted.
    #[error("{0}")]
    Type(String),
    /// It takes too many steps.
    #[error("the expression takes more than {limit} steps")]
    TooCostly {
        /// The limit.
        limit: u32,
    },
}

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Where it is not valid, or uses what is not supported.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        compile::compile(expression).map(|expression| Self { expression })
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
        let mut found = BTreeSet::new();
        reads::reads(&self.expression, &mut found);
        found
    }

    /// [`Self::matches`], and the number of steps that this takes.
    pub(crate) fn evaluate(&self, driver: &str, device: &Device) -> (Result<bool, EvaluationError>, u32) {
        evaluate::matches(&self.expression, driver, device)
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
