//! The functions that expressions may call.

use super::steps::Steps;
use super::value::{Value, wrong};
use super::{EvaluationError, Library};
use nodeless_model::Quantity;
use std::cmp::Ordering;

/// The most memory of a compiled regular expression, in bytes.
const MAX_REGEX_SIZE: usize = 1 << 16;
/// The cost of a regular expression, in steps.
const REGEX_COST: usize = 100;

/// A function of CEL, or of Kubernetes' libraries for quantities and versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    LowerAscii,
    UpperAscii,
    Int,
    Double,
    String,
    Quantity,
    IsQuantity,
    Version,
    IsVersion,
    CompareTo,
    IsGreaterThan,
    IsLessThan,
    AsInteger,
    AsApproximateFloat,
    IsInteger,
    Sign,
    Add,
    Subtract,
    Major,
    Minor,
    Patch,
    Max,
    Min,
}

impl Function {
    /// The function with this name, called as a method or not, and with this many arguments beside the target.
    pub(super) fn new(name: &str, is_method: bool, arguments: usize) -> Option<Self> {
        Some(match (name, is_method, arguments) {
            ("size", false, 1) | ("size", true, 0) => Self::Size,
            ("contains", true, 1) => Self::Contains,
            ("startsWith", true, 1) => Self::StartsWith,
            ("endsWith", true, 1) => Self::EndsWith,
            ("matches", true, 1) | ("matches", false, 2) => Self::Matches,
            ("lowerAscii", true, 0) => Self::LowerAscii,
            ("upperAscii", true, 0) => Self::UpperAscii,
            ("int", false, 1) => Self::Int,
            ("double", false, 1) => Self::Double,
            ("string", false, 1) => Self::String,
            ("quantity", false, 1) => Self::Quantity,
            ("isQuantity", false, 1) => Self::IsQuantity,
            ("semver", false, 1) => Self::Version,
            ("isSemver", false, 1) => Self::IsVersion,
            ("compareTo", true, 1) => Self::CompareTo,
            ("isGreaterThan", true, 1) => Self::IsGreaterThan,
            ("isLessThan", true, 1) => Self::IsLessThan,
            ("asInteger", true, 0) => Self::AsInteger,
            ("asApproximateFloat", true, 0) => Self::AsApproximateFloat,
            ("isInteger", true, 0) => Self::IsInteger,
            ("sign", true, 0) => Self::Sign,
            ("add", true, 1) => Self::Add,
            ("sub", true, 1) => Self::Subtract,
            ("major", true, 0) => Self::Major,
            ("minor", true, 0) => Self::Minor,
            ("patch", true, 0) => Self::Patch,
            ("max", false, 2) => Self::Max,
            ("min", false, 2) => Self::Min,
            _ => return None,
        })
    }

    /// Whether a library has it; both have the standard functions of CEL.
    pub(super) const fn is_in(self, library: Library) -> bool {
        match self {
            Self::Size | Self::Contains | Self::StartsWith | Self::EndsWith | Self::Matches => true,
            Self::Int | Self::Double | Self::String => true,
            Self::Max | Self::Min => matches!(library, Library::Kubelet),
            _ => matches!(library, Library::Selector),
        }
    }

    /// Its value for the target and the arguments, in this order. [`Function::Size`] depends on the facts, and is not evaluated here.
    pub(super) fn call(self, values: &[Value], steps: &mut Steps) -> Result<Value, EvaluationError> {
        match values {
            [one] => self.unary(one),
            [one, two] => self.binary(one, two, steps),
            _ => Err(EvaluationError::Type("a function has the wrong number of arguments".to_owned())),
        }
    }

    fn unary(self, one: &Value) -> Result<Value, EvaluationError> {
        Ok(match self {
            Self::LowerAscii => Value::string(&one.as_str()?.to_ascii_lowercase()),
            Self::UpperAscii => Value::string(&one.as_str()?.to_ascii_uppercase()),
            Self::Int => int(one)?,
            Self::Double => double(one)?,
            Self::String => string(one)?,
            Self::Quantity => {
                let parsed: Result<Quantity, _> = one.as_str()?.parse();
                Value::Quantity(parsed.map_err(|error| EvaluationError::Type(error.to_string()))?)
            }
            Self::IsQuantity => Value::Bool(one.as_str()?.parse::<Quantity>().is_ok()),
            Self::Version => Value::version(one.as_str()?)?,
            Self::IsVersion => Value::Bool(semver::Version::parse(one.as_str()?).is_ok()),
            Self::AsInteger => {
                let quantity = one.as_quantity()?;
                if quantity.milli() % 1000 != 0 {
                    return Err(EvaluationError::Type("the quantity is not a whole number".to_owned()));
                }
                Value::Int(quantity.units())
            }
            Self::AsApproximateFloat => Value::Double(one.as_quantity()?.as_f64()),
            Self::IsInteger => Value::Bool(one.as_quantity()?.milli() % 1000 == 0),
            Self::Sign => Value::Int(one.as_quantity()?.milli().signum()),
            Self::Major => Value::Int(part(one.as_version()?.major)),
            Self::Minor => Value::Int(part(one.as_version()?.minor)),
            Self::Patch => Value::Int(part(one.as_version()?.patch)),
            _ => return Err(EvaluationError::Type("a function has the wrong number of arguments".to_owned())),
        })
    }

    fn binary(self, one: &Value, two: &Value, steps: &mut Steps) -> Result<Value, EvaluationError> {
        Ok(match self {
            Self::Contains => Value::Bool(one.as_str()?.contains(&**two.as_str()?)),
            Self::StartsWith => Value::Bool(one.as_str()?.starts_with(&**two.as_str()?)),
            Self::EndsWith => Value::Bool(one.as_str()?.ends_with(&**two.as_str()?)),
            Self::Matches => {
                let pattern = two.as_str()?;
                steps.spend(REGEX_COST + pattern.len())?;
                let regex = regex::RegexBuilder::new(pattern).size_limit(MAX_REGEX_SIZE).build();
                let regex = regex.map_err(|error| EvaluationError::Type(error.to_string()))?;
                Value::Bool(regex.is_match(one.as_str()?))
            }
            Self::CompareTo => Value::Int(compared(one, two)? as i64),
            Self::IsGreaterThan => Value::Bool(compared(one, two)? == Ordering::Greater),
            Self::IsLessThan => Value::Bool(compared(one, two)? == Ordering::Less),
            Self::Add => Value::Quantity(one.as_quantity()? + amount(two)?),
            Self::Subtract => Value::Quantity(one.as_quantity()? - amount(two)?),
            Self::Max => choose(one, two, i64::max, f64::max)?,
            Self::Min => choose(one, two, i64::min, f64::min)?,
            _ => return Err(EvaluationError::Type("a function has the wrong number of arguments".to_owned())),
        })
    }
}

fn compared(one: &Value, two: &Value) -> Result<Ordering, EvaluationError> {
    match one {
        // semver.org compares versions without their build metadata.
        Value::Version(version) => Ok(version.cmp_precedence(two.as_version()?)),
        Value::Quantity(quantity) => Ok(quantity.cmp(&two.as_quantity()?)),
        other => Err(wrong("quantity or semver", other)),
    }
}

fn amount(value: &Value) -> Result<Quantity, EvaluationError> {
    match value {
        Value::Int(units) => Ok(Quantity::from_units(*units)),
        other => other.as_quantity(),
    }
}

/// The result is an int if both numbers are.
fn choose(
    one: &Value,
    two: &Value,
    ints: fn(i64, i64) -> i64,
    doubles: fn(f64, f64) -> f64,
) -> Result<Value, EvaluationError> {
    if let (Value::Int(one), Value::Int(two)) = (one, two) {
        return Ok(Value::Int(ints(*one, *two)));
    }
    let number = |value: &Value| value.as_double().ok_or_else(|| wrong("number", value));
    Ok(Value::Double(doubles(number(one)?, number(two)?)))
}

fn part(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn int(value: &Value) -> Result<Value, EvaluationError> {
    let out_of_range = || EvaluationError::Type("the number is no int".to_owned());
    Ok(Value::Int(match value {
        Value::Int(it) => *it,
        Value::Unsigned(it) => i64::try_from(*it).map_err(|_| out_of_range())?,
        #[expect(clippy::cast_possible_truncation, reason = "CEL truncates doubles, and the range is checked")]
        Value::Double(it) if it.abs() < 9.0e18 => *it as i64,
        Value::Double(_) => return Err(out_of_range()),
        Value::String(text) => text.parse().map_err(|_| out_of_range())?,
        other => return Err(wrong("number or string", other)),
    }))
}

fn double(value: &Value) -> Result<Value, EvaluationError> {
    if let Value::String(text) = value {
        let parsed = text.parse().map_err(|_| EvaluationError::Type(format!("{text} is no double")));
        return parsed.map(Value::Double);
    }
    value.as_double().map(Value::Double).ok_or_else(|| wrong("number or string", value))
}

fn string(value: &Value) -> Result<Value, EvaluationError> {
    Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(it) => Value::string(&it.to_string()),
        Value::Int(it) => Value::string(&it.to_string()),
        Value::Unsigned(it) => Value::string(&it.to_string()),
        Value::Double(it) => Value::string(&it.to_string()),
        other => return Err(wrong("number, bool or string", other)),
    })
}
