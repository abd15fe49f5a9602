//! Expressions in `spec.kubelet` of an EC2NodeClass, with the variables of Karpenter (`pkg/cel/environment.go`).
//!
//! Karpenter checks the types of an expression before it evaluates it. Here a new expression is evaluated for a sample instance
//! type, which finds the same errors except in the branch of a conditional that the sample does not take; these are found for the
//! instance types that take it.

use super::{CompileError, EvaluationError, Facts, Library, Program, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The variables that an expression may use.
pub(super) const VARIABLES: [&str; 6] =
    ["default_enis", "instance_type", "ips_per_eni", "max_pods", "memory_mib", "vcpus"];
/// The instance type that a new expression is evaluated for.
const SAMPLE: Variables<'static> = Variables {
    instance_type: "m5.large",
    vcpus: 2,
    memory_mib: 8_192,
    default_enis: 3,
    ips_per_eni: 10,
    max_pods: 29,
};

/// The values of the variables for an instance type.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// The name of the instance type.
    pub instance_type: &'a str,
    /// The number of vCPUs.
    pub vcpus: i64,
    /// The memory in MiB, as EC2 reports it.
    pub memory_mib: i64,
    /// The maximum number of interfaces of the default network card.
    pub default_enis: i64,
    /// The number of IPv4 addresses of an interface.
    pub ips_per_eni: i64,
    /// The maximum number of pods: of the AMI family for an expression in `maxPods`, and otherwise of the node.
    pub max_pods: i64,
}

/// An expression that can be evaluated. Two expressions are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    program: Arc<Program>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Facts for Variables<'_> {
    fn value(&self, path: &[&str]) -> Result<Option<Value>, EvaluationError> {
        Ok(Some(Value::Int(match path {
            ["instance_type"] => return Ok(Some(Value::string(self.instance_type))),
            ["vcpus"] => self.vcpus,
            ["memory_mib"] => self.memory_mib,
            ["default_enis"] => self.default_enis,
            ["ips_per_eni"] => self.ips_per_eni,
            ["max_pods"] => self.max_pods,
            _ => return Err(EvaluationError::Missing { what: path.join(".") }),
        })))
    }

    fn names(&self, _: &[&str]) -> Result<BTreeSet<&str>, EvaluationError> {
        Ok(BTreeSet::new())
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It cannot be compiled.
    #[error("{text:?} is neither a quantity nor a CEL expression that is supported: {error}")]
    Invalid {
        /// The expression.
        text: String,
        /// Why.
        error: CompileError,
    },
    /// The result is not a number.
    #[error("{text:?} results in a {result}, and it must result in an int or a double")]
    NotANumber {
        /// The expression.
        text: String,
        /// The type of the result.
        result: &'static str,
    },
    /// It cannot be evaluated.
    #[error("{text:?} cannot be evaluated for {instance_type}: {error}")]
    Evaluation {
        /// The expression.
        text: String,
        /// The instance type.
        instance_type: String,
        /// The error.
        error: EvaluationError,
    },
}

impl Expression {
    /// Parses an expression, and evaluates it once to find errors of types.
    ///
    /// # Errors
    /// See [`ExpressionError`].
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let compiled = Program::compile(text, Library::Kubelet);
        let program = compiled.map_err(|error| ExpressionError::Invalid { text: text.to_owned(), error })?;
        let expression = Self { text: text.to_owned(), program: Arc::new(program) };
        match expression.evaluate(&SAMPLE) {
            Err(ExpressionError::Evaluation { error: EvaluationError::Value(_), .. }) | Ok(_) => Ok(expression),
            Err(error) => Err(error),
        }
    }

    /// The value for an instance type. A double is truncated, as in Karpenter.
    ///
    /// # Errors
    /// If the evaluation fails, as for a division by zero, or if the result is not a finite number.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<i64, ExpressionError> {
        let failed = |error| ExpressionError::Evaluation {
            text: self.text.clone(),
            instance_type: variables.instance_type.to_owned(),
            error,
        };
        match self.program.evaluate(variables).0.map_err(failed)? {
            Value::Int(number) => Ok(number),
            Value::Double(number) if !number.is_finite() => {
                Err(failed(EvaluationError::Value("the result is no finite number")))
            }
            #[expect(clippy::cast_possible_truncation, reason = "truncated on purpose; the cast saturates")]
            Value::Double(number) => Ok(number as i64),
            other => Err(ExpressionError::NotANumber { text: self.text.clone(), result: other.kind() }),
        }
    }
}

#[cfg(test)]
mod tests;
