//! A structural schema, compiled once.

use super::join;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The path in the schema, and the error.
pub(super) type Problem = (String, String);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The type of a list (`x-kubernetes-list-type`).
#[derive(Debug)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// One node of a schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(super) kind: Option<Kind>,
    pub(super) int_or_string: bool,
    pub(super) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(super) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(super) required: Vec<String>,
    pub(super) additional: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    pub(super) list: Option<ListKind>,
    pub(super) enumeration: Option<Vec<Value>>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: Option<String>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
}

/// Keywords that are supported here, or that do not apply to a single object.
const KNOWN: [&str; 28] = [
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];
const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

impl Node {
    /// Compiles a schema, and rejects unsupported keywords.
    pub(super) fn compile(schema: &Value, path: &str) -> Result<Self, Problem> {
        let problem = |text: String| (path.to_owned(), text);
        let object = schema.as_object().ok_or_else(|| problem("a schema must be an object".to_owned()))?;
        if let Some(unknown) = object.keys().find(|key| !KNOWN.contains(&key.as_str()) && *key != PRESERVE_UNKNOWN) {
            return Err(problem(format!("the keyword {unknown} is not supported")));
        }
        let flag = |key: &str| object.get(key) == Some(&Value::Bool(true));
        let int_or_string = flag("x-kubernetes-int-or-string");
        if object.contains_key("anyOf") && !int_or_string {
            return Err(problem("anyOf is supported only with x-kubernetes-int-or-string".to_owned()));
        }
        let pattern = object.get("pattern").and_then(Value::as_str).map(Regex::new).transpose();
        let number = |key: &str| object.get(key).and_then(Value::as_f64);
        let count = |key: &str| object.get(key).and_then(Value::as_u64);
        Ok(Self {
            kind: kind(object).map_err(problem)?,
            int_or_string,
            nullable: flag("nullable"),
            preserve_unknown: flag(PRESERVE_UNKNOWN),
            default: object.get("default").cloned(),
            properties: properties(object, path)?,
            required: strings(object.get("required")),
            additional: child(object, "additionalProperties", path)?,
            items: child(object, "items", path)?,
            list: list_kind(object).map_err(problem)?,
            enumeration: object.get("enum").and_then(Value::as_array).cloned(),
            pattern: pattern.map_err(|error| problem(format!("its pattern cannot be read: {error}")))?,
            format: object.get("format").and_then(Value::as_str).map(str::to_owned),
            minimum: number("minimum"),
            maximum: number("maximum"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        })
    }

    /// The schema of a field, if there is one.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}

fn kind(object: &Map<String, Value>) -> Result<Option<Kind>, String> {
    Ok(Some(match object.get("type").and_then(Value::as_str) {
        None | Some("") => return Ok(None),
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        Some(other) => return Err(format!("the type {other} is not supported")),
    }))
}

fn properties(object: &Map<String, Value>, path: &str) -> Result<BTreeMap<String, Node>, Problem> {
    let properties = object.get("properties").and_then(Value::as_object);
    let compiled = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| Ok((name.clone(), Node::compile(schema, &join(path, &format!("properties.{name}")))?)));
    compiled.collect()
}

fn child(object: &Map<String, Value>, key: &str, path: &str) -> Result<Option<Box<Node>>, Problem> {
    match object.get(key) {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(Box::new(Node { preserve_unknown: true, ..Node::default() }))),
        Some(schema) => Ok(Some(Box::new(Node::compile(schema, &join(path, key))?))),
    }
}

fn list_kind(object: &Map<String, Value>) -> Result<Option<ListKind>, String> {
    Ok(Some(match object.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None => return Ok(None),
        Some("atomic") => ListKind::Atomic,
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(strings(object.get("x-kubernetes-list-map-keys"))),
        Some(other) => return Err(format!("the list type {other} is not supported")),
    }))
}

fn strings(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
