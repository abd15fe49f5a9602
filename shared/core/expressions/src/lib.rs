//! Expressions in the Common Expression Language (CEL): selectors of devices, and settings of the kubelet ([`Expression`]).
//!
//! The crate `cel` parses them. They are evaluated here and not by its interpreter, because a plan needs three things that it does not
//! have: a bound for the cost of an expression, which anyone who may create a ResourceClaim can write; errors rather than panics for
//! every expression; and values that are unknown, because no driver has published the device yet. What is not supported is refused when
//! an expression is compiled.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod compile;
mod evaluate;
mod functions;
mod kubelet;
mod paths;
mod steps;
mod value;

pub use kubelet::{Expression, ExpressionError, Variables};
pub use value::Value;

use std::collections::BTreeSet;

/// What an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// A selector of a DeviceClass or a ResourceClaim, with the functions of the
    /// [kube-scheduler](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/).
    Selector,
    /// A setting of the kubelet in an EC2NodeClass, with the functions of Karpenter (`pkg/cel/environment.go`).
    Kubelet,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    root: compile::Compiled,
}

/// What an expression is evaluated for.
pub trait Facts {
    /// The value at a path: a variable, and names below it. `None` if it is no value but has names itself.
    ///
    /// # Errors
    /// Where it does not exist ([`EvaluationError::Missing`]), or is not known.
    fn value(&self, path: &[&str]) -> Result<Option<Value>, EvaluationError>;

    /// The names below a path that is no value.
    ///
    /// # Errors
    /// Where they are not known.
    fn names(&self, path: &[&str]) -> Result<BTreeSet<&str>, EvaluationError>;
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
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// Why an expression has no value.
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
    /// There is no result for these values, but there may be one for others of the same types.
    #[error("{0}")]
    Value(&'static str),
    /// It takes too many steps.
    #[error("the expression takes more than {limit} steps")]
    TooCostly {
        /// The limit.
        limit: u32,
    },
}

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Where it is not valid, or uses what is not supported.
    pub fn compile(expression: &str, library: Library) -> Result<Self, CompileError> {
        compile::compile(expression, library).map(|root| Self { root })
    }

    /// Its value, and the number of steps that this takes.
    pub fn evaluate(&self, facts: &dyn Facts) -> (Result<Value, EvaluationError>, u32) {
        evaluate::evaluate(&self.root, facts)
    }

    /// The paths that it names; those with names that it computes are missing.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<Vec<&str>> {
        let mut found = BTreeSet::new();
        paths::named(&self.root, &mut found);
        found
    }
}
