//! The cost of a rule for an object, before it is evaluated.
//!
//! The evaluator cannot be interrupted. So the cost is an upper bound: every loop runs to its end, and every branch is taken. A unit is at
//! most about a microsecond of the evaluator, which copies the values that a rule selects or passes to functions. The limits are those of
//! the API server, whose units are similar.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

/// The most units of one rule for one value (`PerCallLimit` of the API server).
const MAX_FOR_RULE: u64 = 1_000_000;
/// Nodes that are copied for one unit.
const COPIED_NODES: u64 = 8;
/// Bytes that are copied for one unit.
const COPIED_BYTES: u64 = 512;
/// Bytes that functions on texts read or write for one unit, as in the API server.
const READ_BYTES: u64 = 10;
/// The most units to compile a regular expression: larger ones fail by the limit of their compiled size.
const MAX_FOR_PATTERN: u64 = 100_000;

/// A rule costs more than the limit for one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded;

/// The units of a rule for a value, and the value that it replaces.
pub(super) fn rule_cost(rule: &IdedExpr, new: &Value, old: Option<&Value>) -> Result<u64, Exceeded> {
    let variable = |name: &'static str, value| (name.to_owned(), Values { refs: vec![value], ..Values::default() });
    let variables = std::iter::once(variable("self", new)).chain(old.map(|old| variable("oldSelf", old)));
    let mut estimate = Estimate { variables: variables.collect(), spent: 0, times: 1 };
    estimate.values(&rule.expr)?;
    Ok(estimate.spent)
}

/// An upper bound of all values that an expression can have: values in the object, and computed ones.
#[derive(Clone, Debug, Default)]
struct Values<'a> {
    refs: Vec<&'a Value>,
    /// Bytes of the longest computed text.
    bytes: u64,
    /// The elements of computed lists and maps: their number, and all of them.
    elements: Option<(u64, Box<Values<'a>>)>,
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: u64,
    bytes: u64,
}

impl Size {
    fn new(value: &Value) -> Self {
        let own = |bytes: usize| Self { nodes: 1, bytes: bytes as u64 };
        match value {
            Value::Object(map) => {
                map.iter().fold(own(0), |sum, (name, value)| sum + own(name.len()) + Self::new(value))
            }
            Value::Array(list) => list.iter().fold(own(0), |sum, value| sum + Self::new(value)),
            Value::String(text) => own(text.len()),
            _ => own(0),
        }
    }

    fn max(self, other: Self) -> Self {
        Self { nodes: self.nodes.max(other.nodes), bytes: self.bytes.max(other.bytes) }
    }

    fn times(self, count: u64) -> Self {
        Self { nodes: self.nodes.saturating_mul(count), bytes: self.bytes.saturating_mul(count) }
    }

    /// Units of a copy.
    fn copied(self) -> u64 {
        self.nodes / COPIED_NODES + self.bytes / COPIED_BYTES
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nodes: self.nodes.saturating_add(other.nodes), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl<'a> Values<'a> {
    fn text(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn list(count: u64, elements: Self) -> Self {
        Self { elements: Some((count, Box::new(elements))), ..Self::default() }
    }

    /// The values of either expression.
    fn or(mut self, other: Self) -> Self {
        self.refs.extend(other.refs);
        self.bytes = self.bytes.max(other.bytes);
        self.elements = match (self.elements, other.elements) {
            (Some((a, mine)), Some((b, theirs))) => Some((a.max(b), Box::new(mine.or(*theirs)))),
            (one, None) | (None, one) => one,
        };
        self
    }

    fn size(&self) -> Size {
        let inner = self.elements.as_ref().map_or(Size::default(), |(count, elements)| elements.size().times(*count));
        let computed = Size { nodes: 1, bytes: self.bytes } + inner;
        self.refs.iter().fold(computed, |most, value| most.max(Size::new(value)))
    }

    /// The most elements.
    fn count(&self) -> u64 {
        let inner = |value: &&Value| match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        let computed = self.elements.as_ref().map_or(0, |(count, _)| *count);
        self.refs.iter().map(inner).max().map_or(computed, |most| computed.max(most as u64))
    }

    /// The elements of lists, and the values of maps.
    fn inner(&self) -> Self {
        let mut inner = self.elements.as_ref().map(|(_, elements)| elements.as_ref().clone()).unwrap_or_default();
        for value in &self.refs {
            match value {
                Value::Object(map) => inner.refs.extend(map.values()),
                Value::Array(list) => inner.refs.extend(list),
                _ => {}
            }
        }
        inner
    }

    /// What a loop over the values visits: the elements of lists, and the keys of maps.
    fn visited(&self) -> Self {
        let mut visited = self.elements.as_ref().map(|(_, elements)| elements.as_ref().clone()).unwrap_or_default();
        for value in &self.refs {
            match value {
                Value::Object(map) => {
                    let longest = map.keys().map(String::len).max().unwrap_or_default();
                    visited.bytes = visited.bytes.max(longest as u64);
                }
                Value::Array(list) => visited.refs.extend(list),
                _ => {}
            }
        }
        visited
    }

    /// The field of maps. Names that are no identifiers are escaped in rules, and count as any field.
    fn field(&self, name: &str) -> Self {
        if name.starts_with("__") {
            return self.inner();
        }
        let computed = self.elements.as_ref().map(|(_, elements)| elements.as_ref().clone()).unwrap_or_default();
        let refs = self.refs.iter().filter_map(|value| value.get(name));
        Values { refs: refs.collect(), ..Self::default() }.or(computed)
    }

    /// Bytes of the longest text.
    fn longest(&self) -> u64 {
        self.size().bytes
    }
}

struct Estimate<'a> {
    variables: Vec<(String, Values<'a>)>,
    spent: u64,
    /// How often the current expression is evaluated.
    times: u64,
}

impl<'a> Estimate<'a> {
    fn spend(&mut self, units: u64) -> Result<(), Exceeded> {
        self.spent = self.spent.saturating_add(self.times.saturating_mul(units));
        if self.spent > MAX_FOR_RULE { Err(Exceeded) } else { Ok(()) }
    }

    /// Adds the cost of an expression, and returns its values.
    fn values(&mut self, expression: &Expr) -> Result<Values<'a>, Exceeded> {
        self.spend(1)?;
        match expression {
            Expr::Literal(LiteralValue::String(text)) => Ok(Values::text(text.inner().len() as u64)),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Ok(Values::text(bytes.inner().len() as u64)),
            Expr::Literal(_) | Expr::Unspecified | Expr::Struct(_) => Ok(Values::default()),
            Expr::Ident(name) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                Ok(found.map(|(_, values)| values.clone()).unwrap_or_default())
            }
            Expr::Select(select) => {
                let operand = self.values(&select.operand.expr)?;
                let field = if select.test { Values::default() } else { operand.field(&select.field) };
                self.spend(field.size().copied())?;
                Ok(field)
            }
            Expr::List(list) => self.collected(list.elements.iter().map(|element| &element.expr), list.elements.len()),
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some([&entry.key.expr, &entry.value.expr]),
                    EntryExpr::StructField(_) => None,
                });
                self.collected(entries.flatten(), map.entries.len())
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn collected<'e>(
        &mut self,
        elements: impl Iterator<Item = &'e Expr>,
        count: usize,
    ) -> Result<Values<'a>, Exceeded> {
        let mut all = Values::default();
        for element in elements {
            let values = self.values(element)?;
            self.spend(values.size().copied())?;
            all = all.or(values);
        }
        Ok(Values::list(count as u64, all))
    }

    fn call(&mut self, call: &CallExpr) -> Result<Values<'a>, Exceeded> {
        let operands = call.target.as_deref().into_iter().chain(&call.args);
        let operands = operands.map(|operand| self.values(&operand.expr)).collect::<Result<Vec<_>, _>>()?;
        match (call.func_name.as_str(), operands.as_slice()) {
            (operators::CONDITIONAL, [_, yes, no]) => Ok(yes.clone().or(no.clone())),
            (operators::INDEX | operators::OPT_INDEX, [values, _]) => Ok(values.inner()),
            (operators::ADD, [left, right]) => {
                let sum = added(left, right);
                self.spend(sum.size().nodes / COPIED_NODES + sum.longest() / READ_BYTES)?;
                Ok(sum)
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, _) => Ok(Values::default()),
            (operators::NOT_STRICTLY_FALSE | operators::NEGATE, _) => Ok(Values::default()),
            (name, _) if name.starts_with('_') || name == operators::IN => {
                // Comparisons of whole values.
                let sizes = operands.iter().map(|values| values.size().copied());
                self.spend(sizes.fold(0, u64::saturating_add))?;
                Ok(Values::default())
            }
            (name, operands) => self.function(name, call, operands),
        }
    }

    /// A function, whose operands are copied.
    fn function(&mut self, name: &str, call: &CallExpr, operands: &[Values<'a>]) -> Result<Values<'a>, Exceeded> {
        let sizes: Vec<Size> = operands.iter().map(Values::size).collect();
        self.spend(sizes.iter().map(|size| size.copied()).fold(1, u64::saturating_add))?;
        let all = sizes.iter().fold(Size::default(), |sum, size| sum + *size);
        let bytes = |index: usize| sizes.get(index).map_or(0, |size| size.bytes);
        match name {
            "size" | "has" | "startsWith" | "endsWith" => Ok(Values::default()),
            "matches" | "find" | "findAll" => {
                let pattern = call.args.last().map_or(MAX_FOR_PATTERN, |pattern| pattern_cost(&pattern.expr));
                self.spend(pattern.saturating_add((bytes(0) / READ_BYTES).saturating_mul(1 + bytes(1) / 4)))?;
                Ok(match name {
                    "findAll" => Values::list(bytes(0) + 1, Values::text(bytes(0))),
                    _ => Values::text(bytes(0)),
                })
            }
            "replace" => {
                // An empty text is found between all characters.
                let replaced = bytes(0).saturating_add((bytes(0) + 1).saturating_mul(bytes(2)));
                self.spend(replaced / READ_BYTES)?;
                Ok(Values::text(replaced))
            }
            "join" => {
                let joined =
                    bytes(0).saturating_add(sizes.first().map_or(0, |size| size.nodes).saturating_mul(bytes(1)));
                self.spend(joined / READ_BYTES)?;
                Ok(Values::text(joined))
            }
            "split" => {
                self.spend(bytes(0) / READ_BYTES)?;
                Ok(Values::list(bytes(0) + 1, Values::text(bytes(0))))
            }
            // The largest element of a list, or the largest argument.
            "max" | "min" => match operands {
                [list] => Ok(list.inner()),
                several => Ok(several.iter().cloned().fold(Values::default(), Values::or)),
            },
            // Functions that return a text, a number or a boolean.
            _ => {
                self.spend(all.nodes / COPIED_NODES + all.bytes / READ_BYTES)?;
                Ok(Values::text(all.bytes))
            }
        }
    }

    /// A loop: `all`, `exists` and `exists_one` compute a value without a size, `map` and `filter` a list.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Values<'a>, Exceeded> {
        let range = self.values(&comprehension.iter_range.expr)?;
        let (count, visited) = (range.count(), range.visited());
        // Each element is copied.
        self.spend(range.size().copied())?;
        let outside = self.times;
        self.times = outside.saturating_mul(count);
        self.variables.push((comprehension.iter_var.clone(), visited));
        self.variables.push((comprehension.accu_var.clone(), Values::default()));
        let step = self.values(&comprehension.loop_step.expr);
        let condition = self.values(&comprehension.loop_cond.expr);
        self.variables.truncate(self.variables.len() - 2);
        self.times = outside;
        condition?;
        let Some((_, elements)) = step?.elements else { return Ok(Values::default()) };
        // Each iteration copies the list so far.
        self.spend(elements.size().times(count).copied().saturating_mul(count) / 2)?;
        Ok(Values::list(count, *elements))
    }
}

fn added<'a>(left: &Values<'a>, right: &Values<'a>) -> Values<'a> {
    let longest = |values: &Values<'_>| values.refs.iter().filter_map(|value| value.as_str()).map(str::len).max();
    let bytes = |values: &Values<'_>| values.bytes.max(longest(values).unwrap_or_default() as u64);
    let count = left.count().saturating_add(right.count());
    let elements = (count > 0).then(|| (count, Box::new(left.inner().or(right.inner()))));
    Values { refs: Vec::new(), bytes: bytes(left).saturating_add(bytes(right)), elements }
}

/// Units to compile a regular expression: repetitions multiply its size.
fn pattern_cost(pattern: &Expr) -> u64 {
    let Expr::Literal(LiteralValue::String(text)) = pattern else { return MAX_FOR_PATTERN };
    let numbers = text.inner().split(['{', ',', '}']).skip(1).filter_map(|part| part.parse::<u64>().ok());
    let repeated = numbers.fold(1, |product: u64, number| product.saturating_mul(number.max(1)));
    repeated.saturating_mul(20 + text.inner().len() as u64 / 4).min(MAX_FOR_PATTERN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_cel::cel::Program;
    use serde_json::json;

    fn cost(rule: &str, new: &Value) -> Result<u64, Exceeded> {
        rule_cost(Program::compile(rule).unwrap().expression(), new, None)
    }

    /// A list of objects, each with a key.
    fn items(count: usize) -> Value {
        json!({"items": (0..count).map(|index| json!({"key": index.to_string()})).collect::<Vec<_>>()})
    }

    #[test]
    fn nested_loops_cost_the_product_of_their_elements() {
        let unique = "self.items.all(x, self.items.exists_one(y, x.key == y.key))";
        assert!((10_000..200_000).contains(&cost(unique, &items(100)).unwrap()));
        assert!(cost(unique, &items(1_000)).is_err());
        assert_eq!(cost("self.items.all(x, x.key != '')", &items(50_000)).map(|units| units > 100_000), Ok(true));
        let three = "self.all(x, self.all(y, self.all(z, true)))";
        assert!(cost(three, &json!(vec![0; 200])).is_err());
        assert!(cost("[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, a + b > 0))", &json!(null)).is_ok());
    }

    #[test]
    fn values_that_grow_cost_their_size() {
        let doubled = |times: usize| format!("[self]{}.size() == 1", ".map(x, x + x)".repeat(times));
        assert!(cost(&doubled(3), &json!("text")).is_ok());
        assert!(cost(&doubled(40), &json!("text")).is_err());
        assert!(cost(&doubled(40), &json!([1])).is_err());
        let text = json!("a".repeat(100_000));
        assert!(cost("self.contains('b')", &text).is_ok());
        assert!(cost("self.replace('', self) == ''", &text).is_err());
        assert!(cost("self.split('').join(self) == ''", &text).is_err());
        assert!(cost("self.matches(self)", &text).is_err());
    }

    #[test]
    fn a_regular_expression_costs_its_repetitions() {
        let keys = json!(vec!["key"; 50]);
        let matched = |pattern: &str| cost(&format!("self.all(x, x.matches('{pattern}'))"), &keys);
        assert!(matched("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$").is_ok());
        assert!(matched("(a{100}){100}").is_err());
    }

    #[test]
    fn fields_with_escaped_names_and_values_by_key_count() {
        let namespaced = json!({"namespace": vec![0; 3_000], "labels": {"a": "b"}});
        assert!(cost("self.__namespace__.all(x, self.__namespace__.all(y, x == y))", &namespaced).is_err());
        assert!(cost("self.labels.all(key, self.labels[key] != '')", &namespaced).is_ok());
    }
}
