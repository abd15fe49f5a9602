//! Evaluates expressions.

use super::compile::{Binary, Compiled, Comprehension};
use super::functions::Function;
use super::steps::Steps;
use super::value::{Value, wrong};
use super::{EvaluationError, Facts};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// This many bytes of a text cost as much as a step.
const BYTES_PER_STEP: usize = 16;

type Evaluated = Result<Value, EvaluationError>;

/// The value of an expression, and the number of steps that this takes.
pub(super) fn evaluate(expression: &Compiled, facts: &dyn Facts) -> (Evaluated, u32) {
    let mut evaluation = Evaluation { facts, variables: Vec::new(), steps: Steps::default() };
    let value = evaluation.value(expression);
    (value, evaluation.steps.0)
}

/// An evaluation.
struct Evaluation<'a> {
    facts: &'a dyn Facts,
    /// The result of a loop may be an error, which a later element can make irrelevant.
    variables: Vec<(Arc<str>, Evaluated)>,
    steps: Steps,
}

impl Evaluation<'_> {
    fn value(&mut self, expression: &Compiled) -> Evaluated {
        self.steps.spend(1)?;
        match expression {
            Compiled::Literal(value) => Ok(value.clone()),
            Compiled::Fact(name) => self.below(&[], name),
            Compiled::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map_or_else(|| Err(EvaluationError::Type(format!("{name} has no value"))), |(_, it)| it.clone())
            }
            Compiled::Select(operand, field) => {
                let operand = self.value(operand)?;
                self.index(&operand, &Value::String(Arc::clone(field)))
            }
            Compiled::Has(operand, field) => {
                let operand = self.value(operand)?;
                self.has(&operand, &Value::String(Arc::clone(field))).map(Value::Bool)
            }
            Compiled::Index(target, key) => {
                let (target, key) = (self.value(target)?, self.value(key)?);
                self.index(&target, &key)
            }
            Compiled::Not(operand) => Ok(Value::Bool(!self.value(operand)?.as_bool()?)),
            Compiled::NotStrictlyFalse(operand) => {
                let is_false = matches!(self.value(operand), Ok(Value::Bool(false)));
                Ok(Value::Bool(!is_false))
            }
            Compiled::Negate(operand) => negated(&self.value(operand)?),
            Compiled::And(left, right) => self.logical(left, right, false),
            Compiled::Or(left, right) => self.logical(left, right, true),
            Compiled::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let chosen = if self.value(condition)?.as_bool()? { yes } else { no };
                self.value(chosen)
            }
            Compiled::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(*operator, &left, &right)
            }
            Compiled::Call(function, target, arguments) => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for argument in target.as_deref().into_iter().chain(arguments) {
                    values.push(self.value(argument)?);
                }
                match (function, &values[..]) {
                    (Function::Size, [value]) => self.size(value).map(Value::Int),
                    _ => function.call(&values, &mut self.steps),
                }
            }
            Compiled::List(elements) => {
                let elements: Result<Vec<Value>, _> = elements.iter().map(|element| self.value(element)).collect();
                Ok(Value::List(Arc::new(elements?)))
            }
            Compiled::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Ok((self.value(key)?, self.value(value)?)));
                Ok(Value::Map(Arc::new(entries.collect::<Result<_, EvaluationError>>()?)))
            }
            Compiled::Bind(name, value, body) => {
                let value = self.value(value);
                self.variables.push((Arc::clone(name), value));
                let result = self.value(body);
                self.variables.pop();
                result
            }
            Compiled::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// `&&` or `||`: the value that decides does so even if the other operand has none.
    fn logical(&mut self, left: &Compiled, right: &Compiled, deciding: bool) -> Evaluated {
        let left = self.value(left).and_then(|value| value.as_bool());
        if left == Ok(deciding) {
            return Ok(Value::Bool(deciding));
        }
        let right = self.value(right).and_then(|value| value.as_bool());
        if right == Ok(deciding) {
            return Ok(Value::Bool(deciding));
        }
        left.and(right).map(Value::Bool)
    }

    fn comprehension(&mut self, it: &Comprehension) -> Evaluated {
        let range = self.value(&it.range)?;
        let elements = self.elements(&range)?;
        let mut result = self.value(&it.start);
        for element in elements {
            self.variables.push((Arc::clone(&it.result), result));
            self.variables.push((Arc::clone(&it.variable), Ok(element)));
            let goes_on = self.value(&it.condition).and_then(|value| value.as_bool());
            let next = if goes_on == Ok(true) { Some(self.value(&it.step)) } else { None };
            self.variables.pop();
            let before = self.variables.pop().map_or(Ok(Value::Null), |(_, before)| before);
            goes_on?;
            let Some(next) = next else {
                result = before;
                break;
            };
            result = next;
        }
        self.variables.push((Arc::clone(&it.result), result));
        let end = self.value(&it.end);
        self.variables.pop();
        end
    }

    /// The elements of a list, or the keys of a map.
    fn elements(&mut self, range: &Value) -> Result<Vec<Value>, EvaluationError> {
        let elements: Vec<Value> = match range {
            Value::List(list) => list.to_vec(),
            Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
            Value::Names(path) => self.names(path)?.into_iter().map(Value::string).collect(),
            other => return Err(wrong("list or map", other)),
        };
        self.steps.spend(elements.len())?;
        Ok(elements)
    }

    fn names(&self, path: &[Arc<str>]) -> Result<BTreeSet<&str>, EvaluationError> {
        self.facts.names(&path.iter().map(|name| &**name).collect::<Vec<_>>())
    }

    /// The value at a name below a path.
    fn below(&self, path: &[Arc<str>], name: &Arc<str>) -> Evaluated {
        let path: Arc<[Arc<str>]> = path.iter().chain([name]).cloned().collect();
        let value = self.facts.value(&path.iter().map(|name| &**name).collect::<Vec<_>>())?;
        Ok(value.unwrap_or(Value::Names(path)))
    }

    /// The number of elements, or of characters of a text.
    fn size(&self, value: &Value) -> Result<i64, EvaluationError> {
        let size = match value {
            Value::String(text) => text.chars().count(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Names(path) => self.names(path)?.len(),
            other => return Err(wrong("string, list or map", other)),
        };
        Ok(i64::try_from(size).unwrap_or(i64::MAX))
    }

    fn index(&self, target: &Value, key: &Value) -> Evaluated {
        match target {
            Value::Names(path) => self.below(path, key.as_str()?),
            Value::List(list) => {
                let element = match key {
                    Value::Int(index) => usize::try_from(*index).ok().and_then(|index| list.get(index)),
                    other => return Err(wrong("int", other)),
                };
                element.cloned().ok_or(EvaluationError::Value("the list has fewer elements"))
            }
            Value::Map(map) => {
                let entry = map.iter().find(|(known, _)| known.equals(key));
                let entry = entry.map(|(_, value)| value.clone());
                entry.ok_or(EvaluationError::Value("the map does not have the key"))
            }
            other => Err(wrong("list or map", other)),
        }
    }

    fn has(&self, container: &Value, key: &Value) -> Result<bool, EvaluationError> {
        match container {
            Value::List(list) => Ok(list.iter().any(|element| element.equals(key))),
            Value::Map(map) => Ok(map.iter().any(|(known, _)| known.equals(key))),
            Value::Names(path) => match self.below(path, key.as_str()?) {
                Ok(Value::Names(_)) => Ok(self.names(path)?.contains(&**key.as_str()?)),
                Ok(_) => Ok(true),
                Err(EvaluationError::Missing { .. }) => Ok(false),
                Err(error) => Err(error),
            },
            other => Err(wrong("list or map", other)),
        }
    }

    fn binary(&mut self, operator: Binary, left: &Value, right: &Value) -> Evaluated {
        Ok(match operator {
            Binary::Equals => Value::Bool(left.equals(right)),
            Binary::Differs => Value::Bool(!left.equals(right)),
            Binary::Less => Value::Bool(left.order(right)? == Ordering::Less),
            Binary::LessOrEqual => Value::Bool(left.order(right)? != Ordering::Greater),
            Binary::Greater => Value::Bool(left.order(right)? == Ordering::Greater),
            Binary::GreaterOrEqual => Value::Bool(left.order(right)? != Ordering::Less),
            Binary::In => Value::Bool(self.has(right, left)?),
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
                return self.arithmetic(operator, left, right);
            }
        })
    }

    fn arithmetic(&mut self, operator: Binary, left: &Value, right: &Value) -> Evaluated {
        match (operator, left, right) {
            (Binary::Add, Value::String(a), Value::String(b)) => {
                self.steps.spend((a.len() + b.len()) / BYTES_PER_STEP)?;
                Ok(Value::string(&format!("{a}{b}")))
            }
            (Binary::Add, Value::List(a), Value::List(b)) => {
                self.steps.spend(a.len() + b.len())?;
                Ok(Value::List(Arc::new(a.iter().chain(b.iter()).cloned().collect())))
            }
            (_, Value::Int(a), Value::Int(b)) => match operator {
                Binary::Add => a.checked_add(*b),
                Binary::Subtract => a.checked_sub(*b),
                Binary::Multiply => a.checked_mul(*b),
                Binary::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .map(Value::Int)
            .ok_or(EvaluationError::Value("a number is divided by zero, or the result is out of range")),
            (Binary::Add, Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            (Binary::Subtract, Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
            (Binary::Multiply, Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
            (Binary::Divide, Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
            _ => {
                let both = left.as_double().and(right.as_double());
                let hint = both.map_or("", |_| "; convert an int with double(), or a double with int()");
                let (left, right) = (left.kind(), right.kind());
                Err(EvaluationError::Type(format!("the operator has no value for a {left} and a {right}{hint}")))
            }
        }
    }
}

fn negated(value: &Value) -> Evaluated {
    match value {
        Value::Int(it) => it.checked_neg().map(Value::Int).ok_or_else(|| wrong("smaller number", value)),
        Value::Double(it) => Ok(Value::Double(-it)),
        other => Err(wrong("number", other)),
    }
}
