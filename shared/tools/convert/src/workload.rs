//! Labels, annotations and taints of Karpenter in workloads, whose names changed.

use crate::metadata::{DO_NOT, DO_NOT_DISRUPT, NODE_POOL, PROVISIONER_NAME};
use crate::report::Log;
use crate::yaml::{Map, Scalar, YamlNode};
use std::collections::BTreeSet;

const OLD_TAINT: &str = "karpenter.sh/disruption";
const TAINT: &str = "karpenter.sh/disrupted";

/// Renames them in a workload. The result is whether anything changed.
pub(crate) fn convert(object: &mut Map, log: &mut Log) -> bool {
    let mut found = Found::default();
    let mut node = YamlNode::Map(std::mem::take(object));
    rename(&mut node, "", &mut found);
    if let YamlNode::Map(map) = node {
        *object = map;
    }
    for (field, old, new) in &found.renamed {
        log.changed(field, format!("{old} is {new}"));
    }
    !found.renamed.is_empty()
}

/// Renames what is only another word in the text of a document, so that everything else stays as it is.
pub(crate) fn in_text(text: &str) -> String {
    let words = [(PROVISIONER_NAME, NODE_POOL), (DO_NOT[0], DO_NOT_DISRUPT), (DO_NOT[1], DO_NOT_DISRUPT)];
    words.into_iter().fold(text.to_owned(), |text, (old, new)| replace_word(&text, old, new))
}

fn replace_word(text: &str, old: &str, new: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '/');
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(old) {
        let (before, after) = (&rest[..start], &rest[start + old.len()..]);
        let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        result.push_str(before);
        result.push_str(if whole { new } else { old });
        rest = after;
    }
    result.push_str(rest);
    result
}

#[derive(Default)]
struct Found {
    renamed: BTreeSet<(String, String, &'static str)>,
}

fn rename(node: &mut YamlNode, field: &str, found: &mut Found) {
    let below = |key: &str| if field.is_empty() { key.to_owned() } else { format!("{field}.{key}") };
    match node {
        YamlNode::Scalar(_) => {}
        YamlNode::Seq(seq) => {
            let items = seq.items.iter_mut().enumerate();
            items.for_each(|(index, item)| rename(&mut item.value, &format!("{field}[{index}]"), found));
        }
        YamlNode::Map(map) => {
            let last = field.rsplit('.').next().unwrap_or_default();
            match last {
                "annotations" => DO_NOT.into_iter().for_each(|old| key(map, old, DO_NOT_DISRUPT, field, found)),
                "nodeSelector" => key(map, PROVISIONER_NAME, NODE_POOL, field, found),
                _ if last.starts_with("matchExpressions[") => value(map, "key", field, found),
                _ if last.starts_with("topologySpreadConstraints[") => value(map, "topologyKey", field, found),
                "podAffinityTerm" => value(map, "topologyKey", field, found),
                _ if last.starts_with("requiredDuringSchedulingIgnoredDuringExecution[") => {
                    value(map, "topologyKey", field, found);
                }
                _ if last.starts_with("tolerations[") => toleration(map, field, found),
                _ => {}
            }
            for entry in &mut map.entries {
                let field = below(&entry.key.text);
                rename(&mut entry.value, &field, found);
            }
        }
    }
}

fn key(map: &mut Map, old: &str, new: &'static str, field: &str, found: &mut Found) {
    let Some(position) = map.position(old) else { return };
    found.renamed.insert((format!("{field}[{old}]"), old.to_owned(), new));
    if map.position(new).is_some() {
        map.entries.remove(position);
    } else {
        map.entries[position].key = Scalar::text(new);
    }
}

fn value(map: &mut Map, name: &str, field: &str, found: &mut Found) {
    if let Some(value) = map.get_mut(name).filter(|value| value.as_str() == Some(PROVISIONER_NAME)) {
        found.renamed.insert((format!("{field}.{name}"), PROVISIONER_NAME.to_owned(), NODE_POOL));
        *value = YamlNode::text(NODE_POOL);
    }
}

/// The taint of nodes that are disrupted has another key, and no value.
fn toleration(map: &mut Map, field: &str, found: &mut Found) {
    if map.get("key").and_then(YamlNode::as_str) != Some(OLD_TAINT) {
        return;
    }
    found.renamed.insert((format!("{field}.key"), OLD_TAINT.to_owned(), TAINT));
    map.set("key", YamlNode::text(TAINT));
    map.take("value");
    map.set("operator", YamlNode::text("Exists"));
}
