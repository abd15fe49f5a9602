//! CEL rules, by kube's own implementation of Kubernetes' dialect.

use super::compile::Problem;
use super::{FieldError, join};
use kube_cel::cel::Program;
use kube_cel::{CompiledSchema, compile_schema};
use serde_json::{Value, json};

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
        if let Some(whole) = &self.whole {
            return evaluate(whole, new, old);
        }
        let mut errors = Vec::new();
        for (name, rules) in &self.fields {
            let (Some(value), before) = (new.get(name), old.and_then(|old| old.get(name))) else { continue };
            if before != Some(value) {
                let before = before.map(|before| json!({ name: before }));
                errors.extend(evaluate(rules, &json!({ name: value }), before.as_ref()));
            }
        }
        errors
    }
}

fn evaluate(rules: &CompiledSchema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let errors = kube_cel::validate_compiled(rules, new, old).err().into_iter().flatten();
    errors.map(|error| FieldError { path: error.field_path, message: error.message }).collect()
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

fn check_rule(rule: &Value, in_list: bool) -> Result<(), String> {
    if let Some(key) = ["messageExpression", "optionalOldSelf"].into_iter().find(|key| rule.get(*key).is_some()) {
        return Err(format!("{key} of a rule is not supported"));
    }
    let text = rule.get("rule").and_then(Value::as_str).ok_or("a rule lacks its expression")?;
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
