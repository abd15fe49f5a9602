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

type Messages = HashMap<&'static str, HashMap<u64, Field>>;
type JsonFields = HashMap<&'static str, Vec<Field>>;

/// The messages, with their fields by number.
pub(crate) fn messages() -> &'static Messages {
    static PARSED: OnceLock<Messages> = OnceLock::new();
    PARSED.get_or_init(|| MESSAGES.lines().filter_map(parse_message).collect())
}

/// The fields of the JSON form of a message, by name; `None` if there is no such message.
pub(crate) fn json_fields(message: &str) -> Option<&'static [Field]> {
    static SORTED: OnceLock<JsonFields> = OnceLock::new();
    let all = SORTED.get_or_init(|| messages().iter().map(|(name, fields)| (*name, in_json(fields))).collect());
    all.get(message).map(Vec::as_slice)
}

fn in_json(fields: &HashMap<u64, Field>) -> Vec<Field> {
    let mut all = Vec::new();
    for field in fields.values() {
        match messages().get(field.kind).filter(|_| INLINE.contains(&field.name)) {
            Some(inlined) => all.extend(inlined.values().copied()),
            None => all.push(*field),
        }
    }
    all.sort_by_key(|field| field.name);
    all
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
