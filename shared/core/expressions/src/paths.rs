//! The paths that an expression names.

use super::compile::{Binary, Node};
use super::value::Value;
use std::collections::BTreeSet;

/// Adds the longest path at each place of the expression.
pub(super) fn named<'e>(node: &'e Node, found: &mut BTreeSet<Vec<&'e str>>) {
    if let Some(path) = path(node) {
        found.insert(path);
        return;
    }
    let mut inner = |part: &'e Node| named(part, found);
    match node {
        Node::Select(one, _) | Node::Has(one, _) | Node::Not(one) | Node::NotStrictlyFalse(one) | Node::Negate(one) => {
            inner(one);
        }
        Node::Index(one, two)
        | Node::Binary(_, one, two)
        | Node::And(one, two)
        | Node::Or(one, two)
        | Node::Bind(_, one, two) => [one, two].into_iter().for_each(|part| inner(part)),
        Node::Conditional(parts) => parts.iter().for_each(inner),
        Node::Call(_, target, arguments) => target.as_deref().into_iter().chain(arguments).for_each(inner),
        Node::List(elements) => elements.iter().for_each(inner),
        Node::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(inner),
        Node::Comprehension(it) => {
            [&it.range, &it.start, &it.condition, &it.step, &it.end].into_iter().for_each(inner);
        }
        Node::Literal(_) | Node::Fact(_) | Node::Variable(_) => {}
    }
}

/// The path that the expression is, or that it tests for.
fn path(node: &Node) -> Option<Vec<&str>> {
    let (container, name) = match node {
        Node::Fact(name) => return Some(vec![name]),
        Node::Select(container, name) | Node::Has(container, name) => (container, name),
        Node::Index(container, key) | Node::Binary(Binary::In, key, container) => match &**key {
            Node::Literal(Value::String(name)) => (container, name),
            _ => return None,
        },
        _ => return None,
    };
    let mut path = path(container)?;
    path.push(name);
    Some(path)
}
