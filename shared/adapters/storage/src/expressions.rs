//! Conditions and updates as expressions of DynamoDB:
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html>.

use crate::items::{Raw, encode_value};
use nodeless_ports::table::{Attributes, Condition, Value};
use std::collections::{BTreeMap, HashMap};

/// The placeholders of the expressions of one write.
#[derive(Debug, Default)]
pub(crate) struct Expression {
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: Raw,
}

impl Expression {
    /// The placeholder of an attribute's name, which may be a reserved word.
    fn name(&mut self, attribute: &str) -> String {
        let known = self.names.iter().find(|(_, name)| *name == attribute).map(|(placeholder, _)| placeholder.clone());
        known.unwrap_or_else(|| {
            let placeholder = format!("#n{}", self.names.len());
            self.names.insert(placeholder.clone(), attribute.to_owned());
            placeholder
        })
    }

    fn value(&mut self, value: &Value) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), encode_value(value));
        placeholder
    }

    /// The expression of a condition; `None` if there is no condition.
    pub(crate) fn condition(&mut self, condition: &Condition) -> Option<String> {
        (!condition.is_none()).then(|| self.part(condition))
    }

    fn part(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Missing => "attribute_not_exists(sk)".to_owned(),
            Condition::Lacks(attribute) => format!("attribute_not_exists({})", self.name(attribute)),
            Condition::Is(attribute, value) => self.compare(attribute, "=", value),
            Condition::AtMost(attribute, number) => self.compare(attribute, "<=", &Value::Number(*number)),
            Condition::Below(attribute, number) => self.compare(attribute, "<", &Value::Number(*number)),
            Condition::Above(attribute, number) => self.compare(attribute, ">", &Value::Number(*number)),
            // DynamoDB has no constants.
            Condition::Any(parts) if parts.is_empty() => "attribute_exists(sk) AND attribute_not_exists(sk)".to_owned(),
            Condition::All(parts) if parts.is_empty() => "attribute_exists(sk) OR attribute_not_exists(sk)".to_owned(),
            Condition::Any(parts) => self.joined(parts, " OR "),
            Condition::All(parts) => self.joined(parts, " AND "),
        }
    }

    fn compare(&mut self, attribute: &str, operator: &str, value: &Value) -> String {
        format!("{} {operator} {}", self.name(attribute), self.value(value))
    }

    /// DynamoDB refuses parentheses around a single comparison, and around parentheses.
    fn joined(&mut self, parts: &[Condition], operator: &str) -> String {
        if let [only] = parts {
            return self.part(only);
        }
        let parts = parts.iter().map(|part| {
            let text = self.part(part);
            if is_compound(part) { format!("({text})") } else { text }
        });
        parts.collect::<Vec<_>>().join(operator)
    }

    /// The update that sets these attributes.
    pub(crate) fn set(&mut self, attributes: &Attributes) -> String {
        let parts = attributes.iter().map(|(name, value)| format!("{} = {}", self.name(name), self.value(value)));
        format!("SET {}", parts.collect::<Vec<_>>().join(", "))
    }

    /// The update that adds to these numbers.
    pub(crate) fn add(&mut self, numbers: &BTreeMap<String, i64>) -> String {
        let parts =
            numbers.iter().map(|(name, number)| format!("{} {}", self.name(name), self.value(&Value::Number(*number))));
        format!("ADD {}", parts.collect::<Vec<_>>().join(", "))
    }
}

/// Whether the expression of a condition contains AND or OR outside of parentheses.
fn is_compound(condition: &Condition) -> bool {
    match condition {
        Condition::Any(parts) | Condition::All(parts) => match parts.as_slice() {
            [only] => is_compound(only),
            _ => true,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_are_where_dynamodb_accepts_them() {
        let lacks = |name: &str| Condition::Lacks(name.to_owned());
        let of = |condition| Expression::default().condition(&condition);
        assert_eq!(of(Condition::NONE), None);
        let nested = Condition::All(vec![
            Condition::Any(vec![lacks("a"), Condition::AtMost("a".into(), 3)]),
            Condition::Any(vec![lacks("b")]),
        ]);
        let expected = "(attribute_not_exists(#n0) OR #n0 <= :v0) AND attribute_not_exists(#n1)";
        assert_eq!(of(nested).as_deref(), Some(expected));
        assert_eq!(
            of(Condition::All(vec![Condition::Any(vec![Condition::Missing])])).as_deref(),
            Some("attribute_not_exists(sk)")
        );
    }
}
