//! Selectors of v1alpha1, which are maps, to the terms of v1.

use crate::report::Log;
use crate::yaml::{Map, MapEntry, YamlNode};

/// The keys of a selector that are no tags, with the field of a term that each is.
pub(crate) type Special = &'static [(&'static str, &'static str)];

/// The keys for subnets and security groups.
pub(crate) const IDS: Special = &[("aws-ids", "id"), ("aws::ids", "id")];
/// The keys for AMIs.
pub(crate) const AMIS: Special =
    &[("aws-ids", "id"), ("aws::ids", "id"), ("aws::name", "name"), ("aws::owners", "owner")];

/// The terms of a selector. Values with commas are alternatives, each of which becomes a term of its own.
pub(crate) fn terms(selector: &Map, special: Special, field: &str, log: &mut Log) -> Option<YamlNode> {
    let mut terms = vec![Vec::<(&str, bool, String)>::new()];
    let mut keys = selector.entries.iter().collect::<Vec<_>>();
    // The order of upstream's tool: owners first, then ids, names and tags in the order of their keys.
    let rank = |entry: &MapEntry| match field_of(&entry.key.text, special) {
        Some("owner") => 0,
        Some("id") => 1,
        Some(_) => 2,
        None => 3,
    };
    keys.sort_by(|a, b| (rank(a), &a.key.text).cmp(&(rank(b), &b.key.text)));
    for entry in keys {
        let key = entry.key.text.as_str();
        let Some(text) = entry.value.as_str().filter(|text| !text.is_empty()) else {
            log.problem(&format!("{field}[{key}]"), "it has no value; \"*\" selects every value of a tag");
            return None;
        };
        let found = field_of(key, special);
        if found == Some("id") && selector.entries.len() > 1 {
            log.problem(&format!("{field}[{key}]"), "ids cannot be combined with other keys; remove the other keys");
            return None;
        }
        let values = text.split(',').map(str::trim).filter(|value| !value.is_empty()).collect::<Vec<_>>();
        terms = terms
            .iter()
            .flat_map(|term| {
                values.iter().map(move |value| {
                    let mut term = term.clone();
                    term.push((found.unwrap_or(key), found.is_none(), (*value).to_owned()));
                    term
                })
            })
            .collect();
    }
    Some(YamlNode::seq(terms.into_iter().map(|term| node(&term))))
}

/// The comments within a selector, which its terms have above them.
pub(crate) fn comments(selector: &Map) -> Vec<String> {
    let of_entries = selector.entries.iter().flat_map(|entry| {
        let lines = entry.comments.above.iter().chain(&entry.comments.right);
        lines.filter(|line| !line.is_empty()).cloned()
    });
    of_entries.chain(selector.tail.iter().cloned()).collect()
}

fn field_of(key: &str, special: Special) -> Option<&'static str> {
    special.iter().find(|(name, _)| *name == key).map(|(_, field)| *field)
}

fn node(term: &[(&str, bool, String)]) -> YamlNode {
    let mut map = Map::default();
    for field in ["id", "name", "owner"] {
        if let Some((_, _, value)) = term.iter().find(|(key, is_tag, _)| !is_tag && *key == field) {
            map.set(field, YamlNode::text(value));
        }
    }
    let tags = term.iter().filter(|(_, is_tag, _)| *is_tag);
    let tags = tags.map(|(key, _, value)| MapEntry::new(key, YamlNode::text(value))).collect::<Vec<_>>();
    if !tags.is_empty() {
        map.set("tags", YamlNode::Map(Map { entries: tags, ..Map::default() }));
    }
    YamlNode::Map(map)
}
