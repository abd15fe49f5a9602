//! v1alpha5 Provisioner to v1 NodePool.

use crate::Options;
use crate::duration;
use crate::metadata;
use crate::node_pool::WHEN_EMPTY_OR_UNDERUTILIZED;
use crate::node_template;
use crate::object::{self, AWS};
use crate::report::Log;
use crate::yaml::{Item, Map, MapEntry, Seq, YamlNode};

/// Labels of which one in the requirements replaces the default categories and generations.
const TYPE_LABELS: [&str; 4] = [
    "node.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-generation",
];

/// Earlier names of labels.
const EARLIER: [(&str, &str); 3] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Converts a Provisioner. The result includes the EC2NodeClass of `spec.provider`, if there is one. The kubelet stays in the
/// template, for [`crate::kubelet`].
pub(crate) fn convert(object: &mut Map, options: &Options, log: &mut Log) -> Option<YamlNode> {
    object.set("apiVersion", YamlNode::text("karpenter.sh/v1"));
    object.set("kind", YamlNode::text("NodePool"));
    log.changed("kind", "a v1alpha5 Provisioner is a v1 NodePool");
    metadata::clean(object, log);
    let name = object::name(object);
    let Some(old) = object.get_mut("spec").and_then(YamlNode::as_map_mut) else {
        log.problem("spec", "it is missing");
        return None;
    };
    let mut old = std::mem::take(old);
    let node_class = provider(&mut old, &name, options, log);
    let mut spec = Map { tail: std::mem::take(&mut old.tail), ..Map::default() };
    let expire_after = expire_after(&mut old, log);
    spec.entries.push(template(&mut old, &name, node_class.is_some(), expire_after, options, log));
    spec.entries.push(disruption(&mut old, log));
    spec.entries.extend(limits(&mut old, log));
    spec.entries.extend(old.take("weight"));
    for entry in old.entries {
        log.problem(&format!("spec.{}", entry.key.text), "it is not a field of a v1alpha5 Provisioner");
    }
    object.set("spec", YamlNode::Map(spec));
    node_class
}

fn template(
    old: &mut Map,
    name: &str,
    has_provider: bool,
    expire_after: MapEntry,
    options: &Options,
    log: &mut Log,
) -> MapEntry {
    let mut metadata = Map::default();
    let mut moved = Vec::new();
    for (key, rename) in
        [("labels", metadata::node_labels as fn(&mut Map, &str, &mut Log)), ("annotations", metadata::node_annotations)]
    {
        let Some(mut entry) = old.take(key) else { continue };
        moved.push(key);
        if let Some(map) = entry.value.as_map_mut() {
            rename(map, &format!("spec.{key}"), log);
        }
        metadata.entries.push(entry);
    }
    if !moved.is_empty() {
        let fields = moved.iter().map(|key| format!("spec.{key}")).collect::<Vec<_>>().join(", ");
        log.changed(&fields, "moved to spec.template.metadata");
    }
    let mut spec = Map::default();
    spec.entries.extend(node_class_ref(old, name, has_provider, log));
    spec.entries.push(requirements(old, options, log));
    for key in ["taints", "startupTaints"] {
        if let Some(entry) = old.take(key) {
            log.changed(&format!("spec.{key}"), format!("moved to spec.template.spec.{key}"));
            spec.entries.push(entry);
        }
    }
    spec.entries.push(expire_after);
    if let Some(entry) = old.take("kubeletConfiguration") {
        spec.entries.push(entry.renamed("kubelet"));
    }
    let mut template = Map::default();
    if !metadata.entries.is_empty() {
        template.entries.push(MapEntry::new("metadata", YamlNode::Map(metadata)));
    }
    template.entries.push(MapEntry::new("spec", YamlNode::Map(spec)));
    MapEntry::new("template", YamlNode::Map(template))
}

/// The EC2NodeClass of `spec.provider`.
fn provider(old: &mut Map, name: &str, options: &Options, log: &mut Log) -> Option<YamlNode> {
    let entry = old.take("provider").filter(|entry| !entry.value.is_null())?;
    if old.get("providerRef").is_some() {
        log.problem(
            "spec.provider",
            "spec.providerRef exists as well, which v1alpha5 does not allow; remove one of them",
        );
    }
    let YamlNode::Map(mut spec) = entry.value else {
        log.problem("spec.provider", "it is not a mapping");
        return None;
    };
    log.changed("spec.provider", format!("is EC2NodeClass {name}"));
    node_template::convert_spec(&mut spec, "spec.provider", options, log);
    Some(YamlNode::map([
        ("apiVersion", YamlNode::text("karpenter.k8s.aws/v1")),
        ("kind", YamlNode::text("EC2NodeClass")),
        ("metadata", YamlNode::map([("name", YamlNode::text(name))])),
        ("spec", YamlNode::Map(spec)),
    ]))
}

fn node_class_ref(old: &mut Map, name: &str, has_provider: bool, log: &mut Log) -> Option<MapEntry> {
    const FIELD: &str = "spec.providerRef";
    let mut reference = YamlNode::map([("group", YamlNode::text(AWS)), ("kind", YamlNode::text("EC2NodeClass"))]);
    let of = reference.as_map_mut()?;
    if has_provider {
        of.set("name", YamlNode::text(name));
        return Some(MapEntry::new("nodeClassRef", reference));
    }
    let Some(mut entry) = old.take("providerRef").filter(|entry| !entry.value.is_null()) else {
        log.problem(FIELD, "it is missing, and so is spec.provider; set the name of an AWSNodeTemplate");
        return None;
    };
    let old = entry.value.as_map_mut().map(std::mem::take).unwrap_or_default();
    for field in old.entries {
        match (field.key.text.as_str(), field.value.as_str()) {
            ("name", Some(_)) => of.entries.push(field),
            ("kind", None | Some("" | "AWSNodeTemplate"))
            | ("apiVersion", None | Some("" | "karpenter.k8s.aws/v1alpha1")) => {}
            (key, value) => log.problem(
                &format!("{FIELD}.{key}"),
                format!(
                    "{:?} is not known; a v1alpha5 Provisioner refers to a v1alpha1 AWSNodeTemplate",
                    value.unwrap_or_default()
                ),
            ),
        }
    }
    if of.get("name").is_none() {
        log.problem(&format!("{FIELD}.name"), "it is missing");
    }
    log.changed(FIELD, "is spec.template.spec.nodeClassRef with group, kind and name");
    entry.value = reference;
    Some(entry.renamed("nodeClassRef"))
}

/// Requirements with the defaults that v1alpha5 added to an object.
fn requirements(old: &mut Map, options: &Options, log: &mut Log) -> MapEntry {
    const FIELD: &str = "spec.requirements";
    let mut entry = match old.take("requirements") {
        Some(entry) => {
            log.changed(FIELD, "moved to spec.template.spec.requirements");
            entry
        }
        None => MapEntry::new("requirements", YamlNode::Seq(Seq::default())),
    };
    if entry.value.is_null() {
        entry.value = YamlNode::Seq(Seq::default());
    }
    let Some(seq) = entry.value.as_seq_mut() else {
        log.problem(FIELD, "it is not a list");
        return entry;
    };
    let has = |label: &str| {
        seq.items.iter().any(|item| {
            let key = item.value.at(&["key"]).and_then(YamlNode::as_str).unwrap_or_default();
            let current = EARLIER.iter().find(|(earlier, _)| *earlier == key).map_or(key, |(_, current)| current);
            current == label
        })
    };
    let mut defaults = vec![
        ("kubernetes.io/os", "In", &["linux"][..]),
        ("kubernetes.io/arch", "In", &["amd64"][..]),
        ("karpenter.sh/capacity-type", "In", &["on-demand"][..]),
    ];
    defaults.retain(|(label, _, _)| !has(label));
    if !TYPE_LABELS.into_iter().any(has) {
        defaults.push(("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]));
        defaults.push(("karpenter.k8s.aws/instance-generation", "Gt", &["2"]));
    }
    for (label, operator, values) in defaults {
        let words = format!("{label} {operator} {}", values.join(", "));
        if options.ignore_defaults {
            log.lost(FIELD, format!("{words}, the default of v1alpha5, is not added: instances are chosen without it"));
            continue;
        }
        log.changed(FIELD, format!("added {words}, the default of v1alpha5"));
        seq.items.push(Item::from(YamlNode::map([
            ("key", YamlNode::text(label)),
            ("operator", YamlNode::text(operator)),
            ("values", YamlNode::texts(values)),
        ])));
    }
    entry
}

fn expire_after(old: &mut Map, log: &mut Log) -> MapEntry {
    const FIELD: &str = "spec.ttlSecondsUntilExpired";
    match seconds(old, "ttlSecondsUntilExpired", log) {
        Some((mut entry, seconds)) => {
            let text = duration::of_seconds(seconds);
            log.changed(FIELD, format!("is spec.template.spec.expireAfter: {text}"));
            entry.value = YamlNode::text(text);
            entry.renamed("expireAfter")
        }
        None => {
            log.changed(FIELD, "it is not set, so spec.template.spec.expireAfter is Never; the default of v1 is 720h");
            MapEntry::new("expireAfter", YamlNode::text("Never"))
        }
    }
}

fn disruption(old: &mut Map, log: &mut Log) -> MapEntry {
    const TTL: &str = "spec.ttlSecondsAfterEmpty";
    const CONSOLIDATION: &str = "spec.consolidation";
    let mut consolidation = old.take("consolidation");
    let mut enabled = false;
    if let Some(map) = consolidation.as_mut().and_then(|entry| entry.value.as_map_mut()) {
        enabled = map.take("enabled").is_some_and(|entry| entry.value.to_value() == serde_json::Value::Bool(true));
        for entry in &map.entries {
            log.problem(&format!("{CONSOLIDATION}.{}", entry.key.text), "it is not a field of a v1alpha5 Provisioner");
        }
    }
    let empty = seconds(old, "ttlSecondsAfterEmpty", log);
    let pair = |policy: &str, after: MapEntry| {
        YamlNode::Map(Map {
            entries: vec![MapEntry::new("consolidationPolicy", YamlNode::text(policy)), after],
            ..Map::default()
        })
    };
    let value = match (enabled, empty) {
        (true, empty) => {
            if empty.is_some() {
                log.problem(TTL, "v1alpha5 does not allow it with spec.consolidation.enabled; remove one of them");
            }
            let what = format!(
                "is spec.disruption.consolidationPolicy: {WHEN_EMPTY_OR_UNDERUTILIZED} with consolidateAfter: 0s"
            );
            log.changed("spec.consolidation.enabled", what);
            pair(WHEN_EMPTY_OR_UNDERUTILIZED, MapEntry::new("consolidateAfter", YamlNode::text("0s")))
        }
        (false, Some((mut entry, seconds))) => {
            let text = duration::of_seconds(seconds);
            log.changed(
                TTL,
                format!("is spec.disruption.consolidationPolicy: WhenEmpty with consolidateAfter: {text}"),
            );
            entry.value = YamlNode::text(text);
            pair("WhenEmpty", entry.renamed("consolidateAfter"))
        }
        (false, None) => {
            log.changed(
                CONSOLIDATION,
                "it is not enabled and spec.ttlSecondsAfterEmpty is not set, so consolidation stays off: \
                 spec.disruption.consolidateAfter: Never; remove spec.disruption for the default of v1, which is on",
            );
            pair("WhenEmpty", MapEntry::new("consolidateAfter", YamlNode::text("Never")))
        }
    };
    let mut entry = MapEntry::new("disruption", value);
    entry.comments = consolidation.map(|entry| entry.comments).unwrap_or_default();
    entry
}

/// A field with a number of seconds.
fn seconds(old: &mut Map, key: &str, log: &mut Log) -> Option<(MapEntry, u64)> {
    let entry = old.take(key).filter(|entry| !entry.value.is_null())?;
    let number = entry.value.to_value().as_u64();
    if number.is_none() {
        log.problem(&format!("spec.{key}"), "it is not a whole number of seconds");
    }
    Some((entry, number.unwrap_or_default()))
}

fn limits(old: &mut Map, log: &mut Log) -> Option<MapEntry> {
    let mut entry = old.take("limits").filter(|entry| !entry.value.is_null())?;
    let Some(limits) = entry.value.as_map_mut() else {
        log.problem("spec.limits", "it is not a mapping");
        return Some(entry);
    };
    let resources = limits.take("resources");
    for entry in &limits.entries {
        log.problem(&format!("spec.limits.{}", entry.key.text), "it is not a field of a v1alpha5 Provisioner");
    }
    let resources = resources.filter(|resources| !resources.value.is_null())?;
    log.changed("spec.limits.resources", "is spec.limits");
    entry.comments.above.extend(resources.comments.above);
    entry.comments.right = entry.comments.right.or(resources.comments.right);
    entry.value = resources.value;
    Some(entry)
}
