//! The paths that an expression names.

use super::compile::{Binary, Compiled};
use super::value::Value;
use std::collections::BTreeSet;

/// Adds the longest path at each place of the expression.
pub(super) fn named<'e>(node: &'e Compiled, found: &mut BTreeSet<Vec<&'e str>>) {
    if let Some(path) = path(node) {
        found.insert(path);
        return;
    }
    let mut inner = |part: &'e Compiled| named(part, found);
    match node {
        Compiled::Select(one, _)
        | Compiled::Has(one, _)
        | Compiled::Not(one)
        | Compiled::NotStrictlyFalse(one)
        | Compiled::Negate(one) => {
            inner(one);
        }
        Compiled::Index(one, two)
        | Compiled::Binary(_, one, two)
        | Compiled::And(one, two)
        | Compiled::Or(one, two)
        | Compiled::Bind(_, one, two) => [one, two].into_iter().for_each(|part| inner(part)),
        Compiled::Conditional(parts) => parts.iter().for_each(inner),
        Compiled::Call(_, target, arguments) => target.as_deref().into_iter().chain(arguments).for_each(inner),
        Compiled::List(elements) => elements.iter().for_each(inner),
        Compiled::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(inner),
        Compiled::Comprehension(it) => {
            [&it.range, &it.start, &it.condition, &it.step, &it.end].into_iter().for_each(inner);
        }
        Compiled::Literal(_) | Compiled::Fact(_) | Compiled::Variable(_) => {}
    }
}

/// The path that the expression is, or that it tests for.
fn path(node: &Compiled) -> Option<Vec<&str>> {
    let (container, name) = match node {
        Compiled::Fact(name) => return Some(vec![name]),
        Compiled::Select(container, name) | Compiled::Has(container, name) => (container, name),
        Compiled::Index(container, key) | Compiled::Binary(Binary::In, key, container) => match &**key {
            Compiled::Literal(Value::String(name)) => (container, name),
            _ => return None,
        },
        _ => return None,
    };
    let mut path = path(container)?;
    path.push(name);
    Some(path)
}
