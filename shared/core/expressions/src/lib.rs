//! Expressions in the Common Expression Language (CEL) in `spec.kubelet` of an EC2NodeClass, with the variables and functions of
//! Karpenter (`pkg/cel/environment.go`).
//!
//! Karpenter checks the types of an expression before it evaluates it. Here a new expression is evaluated for a sample instance
//! type, which finds the same errors except in the branch of a conditional that the sample does not take; these are found for the
//! instance types that take it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use cel::extractors::Arguments;
use cel::{Context, ExecutionError, Program, Value};
use std::sync::Arc;

/// The variables that an expression may use.
pub const VARIABLES: [&str; 6] = ["default_enis", "instance_type", "ips_per_eni", "max_pods", "memory_mib", "vcpus"];
/// The functions that an expression may call.
pub const FUNCTIONS: [&str; 8] = ["contains", "double", "endsWith", "int", "max", "min", "size", "startsWith"];
/// The maximum length in bytes. The parser and the evaluation recurse for each operator, so this limits their stacks.
const MAXIMUM_LENGTH: usize = 1_000;
/// The maximum depth of brackets and signs, for each of which the parser recurses through all its rules.
const MAXIMUM_DEPTH: usize = 20;
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

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is too long.
    #[error("the expression has {0} bytes, and at most {MAXIMUM_LENGTH} are supported; shorten it")]
    Long(usize),
    /// It is nested too deeply.
    #[error("the expression nests more than {MAXIMUM_DEPTH} brackets and signs; write it with fewer")]
    Deep,
    /// It is not CEL.
    #[error("{text:?} is neither a quantity nor a CEL expression: {why}")]
    Syntax {
        /// The expression.
        text: String,
        /// The error of the parser.
        why: String,
    },
    /// It is CEL, and the crate `cel` does not evaluate it as CEL does.
    #[error("{text:?} has {what}, which are not supported; write it without them")]
    Unsupported {
        /// The expression.
        text: String,
        /// What it has.
        what: &'static str,
    },
    /// A variable that does not exist.
    #[error("{text:?} uses {name}, which is no variable; there are {}", VARIABLES.join(", "))]
    Variable {
        /// The expression.
        text: String,
        /// The variable.
        name: String,
    },
    /// A function that is not supported.
    #[error("{text:?} calls {name}, which is not supported; there are {}", FUNCTIONS.join(", "))]
    Function {
        /// The expression.
        text: String,
        /// The function.
        name: String,
    },
    /// The result is not a number.
    #[error("{text:?} results in {result}, and it must result in an int or a double")]
    NotANumber {
        /// The expression.
        text: String,
        /// The type of the result.
        result: &'static str,
    },
    /// It cannot be evaluated.
    #[error("{text:?} cannot be evaluated for {instance_type}: {why}")]
    Evaluation {
        /// The expression.
        text: String,
        /// The instance type.
        instance_type: String,
        /// The error.
        why: String,
        /// Whether the error depends on the values of the variables, and not only on their types.
        depends_on_values: bool,
    },
}

impl Expression {
    /// Parses an expression, and evaluates it once to find errors of types.
    ///
    /// # Errors
    /// See [`ExpressionError`].
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > MAXIMUM_LENGTH {
            return Err(ExpressionError::Long(text.len()));
        }
        if depth(text) > MAXIMUM_DEPTH {
            return Err(ExpressionError::Deep);
        }
        if let Some(what) = unsupported(text) {
            return Err(ExpressionError::Unsupported { text: text.to_owned(), what });
        }
        let program = Program::compile(text).map_err(|errors| {
            let why = errors.errors.first().map_or_else(|| errors.to_string(), |error| error.msg.clone());
            ExpressionError::Syntax { text: text.to_owned(), why }
        })?;
        let references = program.references();
        if let Some(name) = first(references.variables(), |name| !VARIABLES.contains(name)) {
            return Err(ExpressionError::Variable { text: text.to_owned(), name });
        }
        // The names of operators do not start with a letter.
        let named = |name: &&str| name.starts_with(|letter: char| letter.is_ascii_alphabetic());
        if let Some(name) = first(references.functions(), |name| named(name) && !FUNCTIONS.contains(name)) {
            return Err(ExpressionError::Function { text: text.to_owned(), name });
        }
        let expression = Self { text: text.to_owned(), program: Arc::new(program) };
        match expression.evaluate(&SAMPLE) {
            Err(ExpressionError::Evaluation { depends_on_values: true, .. }) | Ok(_) => Ok(expression),
            Err(error) => Err(error),
        }
    }

    /// The value for an instance type. A double is truncated, as in Karpenter.
    ///
    /// # Errors
    /// If the evaluation fails, as for a division by zero, or if the result is not a finite number.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<i64, ExpressionError> {
        let failed = |why: String, depends_on_values| ExpressionError::Evaluation {
            text: self.text.clone(),
            instance_type: variables.instance_type.to_owned(),
            why,
            depends_on_values,
        };
        let result = self.program.execute(&context(variables));
        match result.map_err(|error| failed(reason(&error), depends_on_values(&error)))? {
            Value::Int(number) => Ok(number),
            Value::Float(number) if !number.is_finite() => Err(failed(format!("the result is {number}"), true)),
            #[expect(clippy::cast_possible_truncation, reason = "truncated on purpose; the cast saturates")]
            Value::Float(number) => Ok(number as i64),
            other => Err(ExpressionError::NotANumber { text: self.text.clone(), result: kind(&other) }),
        }
    }
}

/// The first name in the order of names that meets a condition.
fn first(mut names: Vec<&str>, meets: impl Fn(&&str) -> bool) -> Option<String> {
    names.sort_unstable();
    names.into_iter().find(|name| meets(name)).map(str::to_owned)
}

/// The most brackets that are open at the same time and adjacent signs, whether or not they are within a text.
fn depth(text: &str) -> usize {
    let (mut open, mut signs, mut deepest) = (0_usize, 0_usize, 0);
    for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
        match letter {
            '(' | '[' | '{' | '?' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        signs = if matches!(letter, '-' | '!') { signs + 1 } else { 0 };
        deepest = deepest.max(open + signs);
    }
    deepest
}

/// What the crate `cel` does not support: it panics for objects (`a{}`), and reads `--5` and `!!a` as `-5` and `!a`.
fn unsupported(text: &str) -> Option<&'static str> {
    // Also in strings, where it is no part of an instance type, so that it does not depend on how strings end.
    if text.contains('{') {
        return Some("maps and objects");
    }
    let (mut quote, mut before) = (None, ['(', '(']);
    for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
        match (quote, letter) {
            (Some(opened), _) if opened == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '!') if before[1] == '!' => return Some("repeated signs"),
            // The first of two minuses may be an operator between two values.
            (None, '-') if before[1] == '-' && !is_end_of_value(before[0]) => return Some("repeated signs"),
            (None, _) => {}
        }
        before = [before[1], letter];
    }
    None
}

const fn is_end_of_value(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | ')' | ']' | '"' | '\'')
}

fn context(variables: &Variables<'_>) -> Context<'static> {
    let mut context = Context::empty();
    for (name, value) in [
        ("default_enis", variables.default_enis),
        ("ips_per_eni", variables.ips_per_eni),
        ("max_pods", variables.max_pods),
        ("memory_mib", variables.memory_mib),
        ("vcpus", variables.vcpus),
    ] {
        context.add_variable_from_value(name, value);
    }
    context.add_variable_from_value("instance_type", variables.instance_type);
    context.add_function("contains", cel::functions::contains);
    context.add_function("double", cel::functions::double);
    context.add_function("endsWith", cel::functions::ends_with);
    context.add_function("int", cel::functions::int);
    context.add_function("max", |Arguments(all): Arguments| choose("max", &all, i64::max, f64::max));
    context.add_function("min", |Arguments(all): Arguments| choose("min", &all, i64::min, f64::min));
    context.add_function("size", cel::functions::size);
    context.add_function("startsWith", cel::functions::starts_with);
    context
}

/// `min` and `max` of two numbers. The result is an int if both are.
fn choose(
    name: &str,
    arguments: &[Value],
    ints: fn(i64, i64) -> i64,
    doubles: fn(f64, f64) -> f64,
) -> Result<Value, ExecutionError> {
    let double = |value: &Value| match value {
        Value::Float(number) => Ok(*number),
        #[expect(clippy::cast_precision_loss, reason = "CEL converts ints so too")]
        Value::Int(number) => Ok(*number as f64),
        other => Err(ExecutionError::function_error(name, format!("{} is not a number", kind(other)))),
    };
    match arguments {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(ints(*a, *b))),
        [a, b] => Ok(Value::Float(doubles(double(a)?, double(b)?))),
        // An argument too many is no error of the crate's own functions.
        _ => Err(ExecutionError::invalid_argument_count(2, arguments.len())),
    }
}

/// The error as text. CEL has no operators for an int and a double.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload | ExecutionError::UnsupportedBinaryOperator(..) => {
            "an operator does not support the types of its values; convert an int with double(), or a double with int()"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// Whether an error may not occur with other values of the same types.
const fn depends_on_values(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::IndexOutOfBounds(_)
            | ExecutionError::NoSuchKey(_)
    )
}

/// CEL's name of the type of a value.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "an int",
        Value::UInt(_) => "a uint",
        Value::Float(_) => "a double",
        Value::Bool(_) => "a bool",
        Value::String(_) => "a string",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        Value::Null => "null",
        _ => "another type",
    }
}

#[cfg(test)]
mod tests;
