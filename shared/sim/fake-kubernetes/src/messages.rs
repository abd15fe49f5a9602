//! The messages of Kubernetes' protobuf encoding, from which the fields of every built-in kind are known.
//!
//! `data/kubernetes-messages.txt` has one a line, fields as `number:name:type`, `*` for repeated and `%` for maps.

use std::collections::HashMap;
use std::sync::OnceLock;

const MESSAGES: &str = include_str!("../data/kubernetes-messages.txt");
/// The release of Kubernetes that the messages are of.
pub const KUBERNETES: &str = "Kubernetes 1.36";
/// That release as the API server reports it.
pub(crate) const GIT_VERSION: &str = "v1.36.0";

/// Go embeds these structs, so their fields are in the JSON of the outer message.
pub(crate) const INLINE: &[&str] = &[
    "handler",
    "volumeSource",
    "persistentVolumeSource",
    "localObjectReference",
    "ephemeralContainerCommon",
    "ruleWithOperations",
    "ingressRuleValue",
    "rule",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    One,
    Repeated,
    Map,
}

#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) label: Label,
    /// A scalar, or the name of a message.
    pub(crate) kind: &'static str,
}

/// A message as JSON.
pub(crate) struct JsonMessage {
    pub(crate) name: &'static str,
    /// By name.
    pub(crate) fields: Vec<JsonField>,
    /// Whether it has metadata, as objects have.
    pub(crate) has_metadata: bool,
}

pub(crate) struct JsonField {
    pub(crate) name: &'static str,
    pub(crate) is_list: bool,
    /// The place of its message; `None` for scalars and for what has any form.
    message: Option<usize>,
}

impl JsonField {
    /// The message of the field, or of its elements; `None` for scalars and for what has any form.
    pub(crate) fn message(&self) -> Option<&'static JsonMessage> {
        self.message.and_then(|place| json_messages().list.get(place))
    }
}

struct JsonMessages {
    list: Vec<JsonMessage>,
    by_name: HashMap<&'static str, usize>,
}

type Messages = HashMap<&'static str, HashMap<u64, Field>>;

/// The messages, with their fields by number.
pub(crate) fn messages() -> &'static Messages {
    static PARSED: OnceLock<Messages> = OnceLock::new();
    PARSED.get_or_init(|| MESSAGES.lines().filter_map(parse_message).collect())
}

/// The JSON form of a message; `None` if there is no such message.
pub(crate) fn json_message(name: &str) -> Option<&'static JsonMessage> {
    let all = json_messages();
    all.by_name.get(name).and_then(|place| all.list.get(*place))
}

fn json_messages() -> &'static JsonMessages {
    static MADE: OnceLock<JsonMessages> = OnceLock::new();
    MADE.get_or_init(|| {
        let by_name = messages().keys().enumerate().map(|(place, name)| (*name, place)).collect();
        let list = messages().iter().map(|(name, fields)| in_json(name, fields, &by_name)).collect();
        JsonMessages { list, by_name }
    })
}

fn in_json(name: &'static str, fields: &HashMap<u64, Field>, places: &HashMap<&'static str, usize>) -> JsonMessage {
    let json = |field: &Field| {
        // The JSON form of these is not that of their message.
        let is_open = field.kind.ends_with("FieldsV1") || field.kind.ends_with("RawExtension");
        let message = places.get(field.kind).copied().filter(|_| !is_open && field.label != Label::Map);
        JsonField { name: field.name, is_list: field.label == Label::Repeated, message }
    };
    let mut all = Vec::new();
    for field in fields.values() {
        match messages().get(field.kind).filter(|_| INLINE.contains(&field.name)) {
            Some(inlined) => all.extend(inlined.values().map(json)),
            None => all.push(json(field)),
        }
    }
    all.sort_by_key(|field| field.name);
    JsonMessage { name, has_metadata: all.iter().any(|field| field.name == "metadata"), fields: all }
}

fn parse_message(line: &'static str) -> Option<(&'static str, HashMap<u64, Field>)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let fields = words.filter_map(|word| {
        let mut parts = word.splitn(3, ':');
        let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
        let (label, kind) = match kind.strip_prefix('*') {
            Some(kind) => (Label::Repeated, kind),
            None => kind.strip_prefix('%').map_or((Label::One, kind), |kind| (Label::Map, kind)),
        };
        Some((number, Field { name, label, kind }))
    });
    Some((name, fields.collect()))
}

/// `apps/v1`, `Deployment` is `api.apps.v1.Deployment`.
pub(crate) fn message_name(version: &str, kind: &str) -> String {
    // Options are sent in the group of their resource, and are of the machinery.
    if kind.ends_with("Options") && !kind.starts_with("Pod") {
        return format!("apis.meta.v1.{kind}");
    }
    match version.split_once('/') {
        None => format!("api.core.{version}.{kind}"),
        Some((group, version)) => {
            let group = group.split('.').next().unwrap_or(group);
            format!("api.{group}.{version}.{kind}")
        }
    }
}
