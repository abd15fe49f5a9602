//! CEL rules, by kube's own implementation of Kubernetes' dialect.

use super::compile::Problem;
use super::{FieldError, cost, join};
use kube_cel::cel::Program;
use kube_cel::{CompilationResult, CompiledSchema, ValidationError, compile_schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::error::Error as _;

/// The most operators, fields and calls of a rule: the parser and the evaluator recurse for each of a chain, and exhaust the stack. It is
/// the deepest nesting that the API server parses.
const MAX_OPERATORS: usize = 250;
/// The most units of all rules for one object (`RuntimeCELCostBudget` of the API server).
const MAX_FOR_OBJECT: u64 = 10_000_000;

/// The rules of a schema, compiled: those of each top-level field separately, because no rule there can refer to other fields.
pub(super) struct Rules {
    /// Fields that have rules. The evaluation of a field without any would convert its values for nothing.
    fields: Vec<(String, CompiledSchema)>,
    /// All of them together, if there are rules about the object as a whole.
    whole: Option<CompiledSchema>,
}

/// The functions that rules may call: CEL's own operators, macros and functions, and Kubernetes' libraries for lists, strings and
/// regular expressions.
const FUNCTIONS: [&str; 33] = [
    "all",
    "bool",
    "charAt",
    "contains",
    "double",
    "duration",
    "endsWith",
    "exists",
    "exists_one",
    "filter",
    "find",
    "findAll",
    "has",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "map",
    "matches",
    "max",
    "min",
    "replace",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "timestamp",
    "trim",
    "uint",
    "upperAscii",
    "isSorted",
];

impl Rules {
    /// Compiles every rule of a schema, and rejects rules that cannot be parsed or that call unsupported functions.
    pub(super) fn compile(schema: &Value) -> Result<Self, Problem> {
        check(schema, "", false)?;
        if schema.get("x-kubernetes-validations").is_some() {
            return Ok(Self { fields: Vec::new(), whole: Some(compile_schema(schema)) });
        }
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let properties = properties.filter(|(_, schema)| has_rules(schema));
        let alone = |(name, schema): (&String, &Value)| {
            (name.clone(), compile_schema(&json!({ "type": "object", "properties": { name: schema } })))
        };
        Ok(Self { fields: properties.map(alone).collect(), whole: None })
    }

    /// Evaluates every rule about changed fields. A rule that fails to evaluate counts as violated, as in the API server.
    pub(super) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut budget = MAX_FOR_OBJECT;
        if let Some(whole) = &self.whole {
            return evaluate(whole, new, old, &mut budget);
        }
        let mut errors = Vec::new();
        for (name, rules) in &self.fields {
            let (Some(value), before) = (new.get(name), old.and_then(|old| old.get(name))) else { continue };
            if before != Some(value) {
                let before = before.map(|before| json!({ name: before }));
                errors.extend(evaluate(rules, &json!({ name: value }), before.as_ref(), &mut budget));
            }
        }
        errors
    }
}

fn evaluate(rules: &CompiledSchema, new: &Value, old: Option<&Value>, budget: &mut u64) -> Vec<FieldError> {
    if let Err(error) = charge(rules, new, old, "", budget) {
        return vec![error];
    }
    let errors = kube_cel::validate_compiled(rules, new, old).err().into_iter().flatten();
    errors.map(|error| FieldError { message: message(rules, &error), path: error.field_path }).collect()
}

/// The message of an error. For a rule that cannot be evaluated it has what the rule requires, as that of the API server.
fn message(rules: &CompiledSchema, error: &ValidationError) -> String {
    let Some(cause) = error.source() else { return error.message.clone() };
    let mut stated = BTreeSet::new();
    messages(rules, &error.rule, &mut stated);
    match (stated.pop_first(), stated.is_empty()) {
        (Some(requirement), true) => format!("{cause} evaluating rule: {requirement}"),
        // The rule has no message, or several fields have the same rule with different messages.
        _ => format!("{cause} evaluating rule: failed rule: {}", error.rule),
    }
}

/// Collects the messages of a rule, which may be one of several fields.
fn messages<'r>(rules: &'r CompiledSchema, expression: &str, stated: &mut BTreeSet<&'r str>) {
    let own = rules.validations.iter().flatten().filter(|compiled| compiled.rule.rule == expression);
    stated.extend(own.filter_map(|compiled| compiled.rule.message.as_deref()));
    let children =
        rules.properties.values().chain(rules.items.as_deref()).chain(rules.additional_properties.as_deref());
    children.for_each(|child| messages(child, expression, stated));
}

/// Reduces the budget by the cost of every rule, or returns the error of the API server about the rule that exceeds a limit.
fn charge(
    rules: &CompiledSchema,
    new: &Value,
    old: Option<&Value>,
    path: &str,
    budget: &mut u64,
) -> Result<(), FieldError> {
    for rule in rules.validations.iter().flatten() {
        charge_rule(rule, new, old, budget).map_err(|message| FieldError { path: path.to_owned(), message })?;
    }
    match new {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let Some(schema) = rules.properties.get(name).or(rules.additional_properties.as_deref()) else {
                return Ok(());
            };
            charge(schema, value, old.and_then(|old| old.get(name)), &join(path, name), budget)
        }),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            let Some(schema) = &rules.items else { return Ok(()) };
            charge(schema, item, None, &format!("{path}[{index}]"), budget)
        }),
        _ => Ok(()),
    }
}

fn charge_rule(rule: &CompilationResult, new: &Value, old: Option<&Value>, budget: &mut u64) -> Result<(), String> {
    if rule.is_transition_rule && old.is_none() {
        return Ok(());
    }
    let units = cost::rule_cost(rule.program.expression(), new, old).map_err(|cost::Exceeded| {
        let text = rule.rule.message.as_deref().unwrap_or(&rule.rule.rule);
        format!(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
             exceeds limit for rule: {text}"
        )
    })?;
    *budget = budget
        .checked_sub(units)
        .ok_or("validation failed due to running out of cost budget, no further validation rules will be run")?;
    Ok(())
}

/// Whether a schema or one of its children has a rule.
fn has_rules(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    schema.get("x-kubernetes-validations").is_some()
        || properties.map(|(_, property)| property).any(has_rules)
        || ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key)).any(has_rules)
}

/// Checks the rules of a schema and of its children. Items of a list have no counterpart in the old list, so no rule there can
/// use `oldSelf`.
fn check(schema: &Value, path: &str, in_list: bool) -> Result<(), Problem> {
    for rule in schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        check_rule(rule, in_list).map_err(|problem| (path.to_owned(), problem))?;
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &join(path, &format!("properties.{name}")), in_list)?;
    }
    if let Some(items) = schema.get("items") {
        check(items, &join(path, "items"), true)?;
    }
    if let Some(values) = schema.get("additionalProperties") {
        check(values, &join(path, "additionalProperties"), in_list)?;
    }
    Ok(())
}

/// The operators, fields and calls in a rule, without what is in texts and comments. Chains of `&&` and `||` are parsed as balanced trees.
fn operators(rule: &str) -> usize {
    let (mut rest, mut count, mut raw) = (rule, 0, false);
    while let Some(first) = rest.chars().next() {
        let inner = &rest[first.len_utf8()..];
        rest = match first {
            '"' | '\'' => {
                let quote = ["\"\"\"", "'''"].into_iter().find(|quote| rest.starts_with(quote));
                after_text(&rest[quote.map_or(1, str::len)..], quote.unwrap_or(&rest[..1]), raw).unwrap_or(inner)
            }
            '/' if inner.starts_with('/') => inner.split_once('\n').map_or("", |(_, next)| next),
            _ => inner,
        };
        raw = matches!(first, 'r' | 'R');
        count += usize::from(".[({!-+*/%?<>=".contains(first));
    }
    count
}

/// What follows a text that ends with a quote, if it does: three quotes are on the same line or on a later one, a single one is on the same.
fn after_text<'a>(text: &'a str, quote: &str, raw: bool) -> Option<&'a str> {
    let mut rest = text;
    while !(rest.is_empty() || quote.len() == 1 && rest.starts_with('\n')) {
        if let Some(after) = rest.strip_prefix(quote) {
            return Some(after);
        }
        let skipped = if rest.starts_with('\\') && !raw { 2 } else { 1 };
        rest = rest.char_indices().nth(skipped).map_or("", |(at, _)| &rest[at..]);
    }
    None
}

fn check_rule(rule: &Value, in_list: bool) -> Result<(), String> {
    if let Some(key) = ["messageExpression", "optionalOldSelf"].into_iter().find(|key| rule.get(*key).is_some()) {
        return Err(format!("{key} of a rule is not supported"));
    }
    let text = rule.get("rule").and_then(Value::as_str).ok_or("a rule lacks its expression")?;
    if operators(text) > MAX_OPERATORS {
        return Err(format!("a rule has more than {MAX_OPERATORS} operators, fields and calls"));
    }
    let program = Program::compile(text).map_err(|error| format!("the rule {text:?} cannot be parsed: {error}"))?;
    let references = program.references();
    if in_list && references.has_variable("oldSelf") {
        return Err(format!("the rule {text:?} refers to oldSelf within a list, which is not supported"));
    }
    let named = |name: &&&str| name.starts_with(|first: char| first.is_ascii_alphabetic());
    if let Some(unknown) = references.functions().iter().filter(named).find(|name| !FUNCTIONS.contains(name)) {
        return Err(format!("the rule {text:?} calls {unknown}, which is not supported"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_cannot_be_evaluated_is_an_error_with_its_message() {
        let rule = "self.all(one, one.operator == 'In' ? one.values.size() != 0 : true)";
        let item = json!({ "type": "object", "properties": {
            "operator": { "type": "string" }, "values": { "type": "array", "items": { "type": "string" } },
        } });
        let list = |message: &str| json!({ "type": "array", "items": item, "x-kubernetes-validations": [{ "rule": rule, "message": message }] });
        let found = |fields: Value| {
            let rules = Rules::compile(&json!({ "type": "object", "properties": { "spec": {
                "type": "object", "properties": fields,
            } } }));
            let rules = rules.map_err(|(path, problem)| format!("{path}: {problem}")).unwrap();
            let errors = rules.validate(&json!({ "spec": { "a": [{ "operator": "In" }] } }), None);
            errors.into_iter().map(|error| (error.path, error.message)).collect::<Vec<_>>()
        };
        let expected = |requirement: &str| {
            vec![("spec.a".to_owned(), format!("No such key: values evaluating rule: {requirement}"))]
        };
        assert_eq!(found(json!({ "a": list("In must have a value") })), expected("In must have a value"));
        let two = json!({ "a": list("In must have a value"), "b": list("In needs one") });
        assert_eq!(found(two), expected(&format!("failed rule: {rule}")));
    }

    #[test]
    fn operators_are_counted_outside_of_texts_and_comments() {
        for (rule, expected) in [
            ("self.a.b(c)[0] != -1", 7),
            ("a && b || c", 0),
            ("x in ['a.b/c', \"d.e\"]", 1),
            (r"'it\'s.' + 'a.b'", 1),
            (r"r'\' + a.b", 2),
            (r#""""a "quoted". text""" + a.b"#, 2),
            ("// it's\na.b", 2),
            ("'not closed. ", 1),
            ("'not closed.\n a.b'", 2),
        ] {
            assert_eq!(operators(rule), expected, "{rule}");
        }
    }
}
