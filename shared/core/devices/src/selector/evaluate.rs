//! Evaluates expressions for a device.

use super::EvaluationError;
use super::compile::{Binary, Comprehension, Expression};
use super::functions::{self, Function};
use super::steps::Steps;
use super::value::{Kind, Value, wrong};
use crate::attribute::Attribute;
use crate::slice::{Device, qualified};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::rc::Rc;

/// This many bytes of a text cost as much as a step.
const BYTES_PER_STEP: usize = 16;

type Evaluated = Result<Value, EvaluationError>;

/// Whether an expression selects a device, and the number of steps that this takes.
pub(super) fn matches(expression: &Expression, driver: &str, device: &Device) -> (Result<bool, EvaluationError>, u32) {
    let mut evaluation = Evaluation { driver, device, variables: Vec::new(), steps: Steps::default() };
    let matches = evaluation.value(expression).and_then(|value| value.as_bool());
    (matches, evaluation.steps.0)
}

/// An evaluation.
struct Evaluation<'a> {
    driver: &'a str,
    device: &'a Device,
    /// The result of a loop may be an error, which a later element can make irrelevant.
    variables: Vec<(Rc<str>, Evaluated)>,
    steps: Steps,
}

impl Evaluation<'_> {
    fn value(&mut self, expression: &Expression) -> Evaluated {
        self.steps.spend(1)?;
        match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Device => Ok(Value::Device),
            Expression::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map_or_else(|| Err(EvaluationError::Type(format!("{name} has no value"))), |(_, it)| it.clone())
            }
            Expression::Select(operand, field) => {
                let operand = self.value(operand)?;
                self.member(&operand, field)
            }
            Expression::Has(operand, field) => {
                let operand = self.value(operand)?;
                self.has(&operand, &Value::String(Rc::clone(field))).map(Value::Bool)
            }
            Expression::Index(target, key) => {
                let (target, key) = (self.value(target)?, self.value(key)?);
                self.index(&target, &key)
            }
            Expression::Not(operand) => Ok(Value::Bool(!self.value(operand)?.as_bool()?)),
            Expression::NotStrictlyFalse(operand) => {
                let is_false = matches!(self.value(operand), Ok(Value::Bool(false)));
                Ok(Value::Bool(!is_false))
            }
            Expression::Negate(operand) => negated(&self.value(operand)?),
            Expression::And(left, right) => self.logical(left, right, false),
            Expression::Or(left, right) => self.logical(left, right, true),
            Expression::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let chosen = if self.value(condition)?.as_bool()? { yes } else { no };
                self.value(chosen)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(*operator, &left, &right)
            }
            Expression::Call(function, target, arguments) => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for argument in target.as_deref().into_iter().chain(arguments) {
                    values.push(self.value(argument)?);
                }
                match (function, &values[..]) {
                    (Function::Size, [value]) => self.size(value).map(Value::Int),
                    _ => function.call(&values, &mut self.steps),
                }
            }
            Expression::List(elements) => {
                let elements: Result<Vec<Value>, _> = elements.iter().map(|element| self.value(element)).collect();
                Ok(Value::List(Rc::new(elements?)))
            }
            Expression::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Ok((self.value(key)?, self.value(value)?)));
                Ok(Value::Map(Rc::new(entries.collect::<Result<_, EvaluationError>>()?)))
            }
            Expression::Bind(name, value, body) => {
                let value = self.value(value);
                self.variables.push((Rc::clone(name), value));
                let result = self.value(body);
                self.variables.pop();
                result
            }
            Expression::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// `&&` or `||`: the value that decides does so even if the other operand has none.
    fn logical(&mut self, left: &Expression, right: &Expression, deciding: bool) -> Evaluated {
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
            self.variables.push((Rc::clone(&it.result), result));
            self.variables.push((Rc::clone(&it.variable), Ok(element)));
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
        self.variables.push((Rc::clone(&it.result), result));
        let end = self.value(&it.end);
        self.variables.pop();
        end
    }

    /// The elements of a list, or the keys of a map.
    fn elements(&mut self, range: &Value) -> Result<Vec<Value>, EvaluationError> {
        let elements: Vec<Value> = match range {
            Value::List(list) => list.to_vec(),
            Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
            Value::Domains(kind) => {
                let names = self.names(*kind)?;
                let domains: BTreeSet<&str> = names.into_iter().map(|(domain, _)| domain).collect();
                domains.into_iter().map(Value::string).collect()
            }
            Value::Domain(kind, domain) => {
                let names = self.names(*kind)?.into_iter().filter(|(of, _)| *of == &**domain);
                names.map(|(_, id)| Value::string(id)).collect()
            }
            other => return Err(wrong("list or map", other)),
        };
        self.steps.spend(elements.len())?;
        Ok(elements)
    }

    /// The names of attributes or capacities, as domain and id.
    fn names(&self, kind: Kind) -> Result<Vec<(&str, &str)>, EvaluationError> {
        if self.device.is_predicted {
            let what = match kind {
                Kind::Attributes => "the list of attributes",
                Kind::Capacity => "the list of capacities",
            };
            return Err(EvaluationError::NotPublished { what: what.to_owned() });
        }
        let split = |name| qualified(name, self.driver);
        Ok(match kind {
            Kind::Attributes => self.device.attributes.keys().map(|name| split(name)).collect(),
            Kind::Capacity => self.device.capacity.keys().map(|name| split(name)).collect(),
        })
    }

    /// The number of elements, or of characters of a text.
    fn size(&self, value: &Value) -> Result<i64, EvaluationError> {
        let size = match value {
            Value::String(text) => text.chars().count(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Domains(kind) => {
                let domains: BTreeSet<&str> = self.names(*kind)?.into_iter().map(|(domain, _)| domain).collect();
                domains.len()
            }
            Value::Domain(kind, domain) => self.names(*kind)?.into_iter().filter(|(of, _)| *of == &**domain).count(),
            other => return Err(wrong("string, list or map", other)),
        };
        Ok(i64::try_from(size).unwrap_or(i64::MAX))
    }

    fn member(&self, operand: &Value, field: &str) -> Evaluated {
        match (operand, field) {
            (Value::Device, "driver") => Ok(Value::string(self.driver)),
            (Value::Device, "attributes") => Ok(Value::Domains(Kind::Attributes)),
            (Value::Device, "capacity") => Ok(Value::Domains(Kind::Capacity)),
            (Value::Device, "allowMultipleAllocations") => {
                Ok(Value::Bool(self.device.allow_multiple_allocations == Some(true)))
            }
            (Value::Device, _) => Err(EvaluationError::Missing { what: format!("field {field}") }),
            _ => self.index(operand, &Value::string(field)),
        }
    }

    fn index(&self, target: &Value, key: &Value) -> Evaluated {
        match target {
            Value::Domains(kind) => Ok(Value::Domain(*kind, Rc::clone(key.as_str()?))),
            Value::Domain(kind, domain) => {
                let id = key.as_str()?;
                let missing = || EvaluationError::Missing { what: kind.named(domain, id) };
                self.published(*kind, domain, id)?.ok_or_else(missing)
            }
            Value::List(list) => {
                let element = match key {
                    Value::Int(index) => usize::try_from(*index).ok().and_then(|index| list.get(index)),
                    other => return Err(wrong("int", other)),
                };
                element.cloned().ok_or_else(|| EvaluationError::Type("the list has fewer elements".to_owned()))
            }
            Value::Map(map) => {
                let entry = map.iter().find(|(known, _)| known.equals(key));
                let entry = entry.map(|(_, value)| value.clone());
                entry.ok_or_else(|| EvaluationError::Type("the map does not have the key".to_owned()))
            }
            other => Err(wrong("list or map", other)),
        }
    }

    /// An attribute or a capacity; `None` if the device does not have it.
    fn published(&self, kind: Kind, domain: &str, id: &str) -> Result<Option<Value>, EvaluationError> {
        let not_published = || EvaluationError::NotPublished { what: kind.named(domain, id) };
        let value = match kind {
            Kind::Capacity => self.device.capacity(self.driver, domain, id).map(Value::Quantity),
            Kind::Attributes => match self.device.attribute(self.driver, domain, id) {
                None => None,
                Some(Attribute::String(text)) => Some(Value::string(text)),
                Some(Attribute::Int(value)) => Some(Value::Int(*value)),
                Some(Attribute::Bool(value)) => Some(Value::Bool(*value)),
                Some(Attribute::Version(text)) => Some(functions::version(text)?),
                Some(Attribute::Unknown) if self.device.is_predicted => return Err(not_published()),
                Some(Attribute::Unknown) => {
                    let what = kind.named(domain, id);
                    return Err(EvaluationError::Type(format!("{what} has a type that is not supported")));
                }
            },
        };
        if value.is_none() && self.device.is_predicted { Err(not_published()) } else { Ok(value) }
    }

    fn has(&self, container: &Value, key: &Value) -> Result<bool, EvaluationError> {
        match container {
            Value::List(list) => Ok(list.iter().any(|element| element.equals(key))),
            Value::Map(map) => Ok(map.iter().any(|(known, _)| known.equals(key))),
            Value::Domains(kind) => {
                let domain = key.as_str()?;
                Ok(self.names(*kind)?.iter().any(|(known, _)| *known == &**domain))
            }
            Value::Domain(kind, domain) => Ok(self.published(*kind, domain, key.as_str()?)?.is_some()),
            Value::Device => Ok(self.member(container, key.as_str()?).is_ok()),
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
        let result = match (operator, left, right) {
            (Binary::Add, Value::String(a), Value::String(b)) => {
                self.steps.spend((a.len() + b.len()) / BYTES_PER_STEP)?;
                return Ok(Value::string(&format!("{a}{b}")));
            }
            (Binary::Add, Value::List(a), Value::List(b)) => {
                self.steps.spend(a.len() + b.len())?;
                return Ok(Value::List(Rc::new(a.iter().chain(b.iter()).cloned().collect())));
            }
            (_, Value::Int(a), Value::Int(b)) => match operator {
                Binary::Add => a.checked_add(*b),
                Binary::Subtract => a.checked_sub(*b),
                Binary::Multiply => a.checked_mul(*b),
                Binary::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .map(Value::Int),
            (_, Value::Double(a), Value::Double(b)) => match operator {
                Binary::Add => Some(a + b),
                Binary::Subtract => Some(a - b),
                Binary::Multiply => Some(a * b),
                Binary::Divide => Some(a / b),
                _ => None,
            }
            .map(Value::Double),
            _ => None,
        };
        result.ok_or_else(|| {
            let (left, right) = (left.kind(), right.kind());
            EvaluationError::Type(format!("the operator has no value for a {left} and a {right}"))
        })
    }
}

fn negated(value: &Value) -> Evaluated {
    match value {
        Value::Int(it) => it.checked_neg().map(Value::Int).ok_or_else(|| wrong("smaller number", value)),
        Value::Double(it) => Ok(Value::Double(-it)),
        other => Err(wrong("number", other)),
    }
}
