//! Checks that the API server and the planner accept converted objects.

use crate::definitions::schema;
use crate::error::CliError;
use nodeless_api::NodePool;
use nodeless_api::convert::validate;
use nodeless_convert::{Converted, Problem};
use nodeless_fake_kubernetes::fields::{self, UnknownField};
use nodeless_fake_kubernetes::schema::Schema;

/// The problems of converted objects.
pub(super) fn problems(objects: &[Converted]) -> Result<Vec<Problem>, CliError> {
    let mut problems = Vec::new();
    for kind in ["NodePool", "EC2NodeClass"] {
        let mut of_kind = objects.iter().filter(|object| object.kind == kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        let schema = schema(kind)?;
        of_kind.for_each(|object| check(&schema, object, &mut problems));
    }
    Ok(problems)
}

fn check(schema: &Schema, object: &Converted, problems: &mut Vec<Problem>) {
    let mut add = |field: String, problem: String| {
        problems.push(Problem { source: object.source.clone(), object: Some(object.from.clone()), field, problem });
    };
    for UnknownField { path, meant } in fields::custom(schema, &object.value) {
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        add(path, format!("it is not a field of a v1 {}{meant}", object.kind));
    }
    let mut value = object.value.clone();
    schema.prune(&mut value);
    schema.default(&mut value);
    let errors = schema.validate(&value, None);
    for error in &errors {
        add(error.path.clone(), format!("the v1 {} would be refused: {}", object.kind, error.message));
    }
    if errors.is_empty()
        && object.kind == "NodePool"
        && let Ok(pool) = serde_json::from_value::<NodePool>(value)
    {
        for problem in validate::node_pool(&pool) {
            add(String::new(), format!("the v1 NodePool could not be used: {problem}"));
        }
    }
}
