//! v1beta1 NodePool to v1.

use crate::metadata;
use crate::object::AWS;
use crate::report::Log;
use crate::yaml::{Map, MapEntry, YamlNode};

/// v1's name of what v1beta1 called `WhenUnderutilized`.
pub(crate) const WHEN_EMPTY_OR_UNDERUTILIZED: &str = "WhenEmptyOrUnderutilized";

/// Converts a NodePool. The kubelet stays in its template, for [`crate::kubelet`].
pub(crate) fn convert(object: &mut Map, log: &mut Log) {
    object.set("apiVersion", YamlNode::text("karpenter.sh/v1"));
    log.changed("apiVersion", "karpenter.sh/v1beta1 is karpenter.sh/v1");
    metadata::clean(object, log);
    let Some(spec) = object.get_mut("spec").and_then(YamlNode::as_map_mut) else {
        return log.problem("spec", "it is missing");
    };
    let expire_after = disruption(spec, log);
    let Some(template) = spec.get_mut("template").and_then(YamlNode::as_map_mut) else {
        return log.problem("spec.template", "it is missing");
    };
    if let Some(metadata) = template.get_mut("metadata").and_then(YamlNode::as_map_mut) {
        template_metadata(metadata, log);
    }
    let Some(of_claim) = template.get_mut("spec").and_then(YamlNode::as_map_mut) else {
        return log.problem("spec.template.spec", "it is missing");
    };
    if let Some(entry) = expire_after {
        if of_claim.get("expireAfter").is_some() {
            log.problem(
                "spec.disruption.expireAfter",
                "spec.template.spec.expireAfter exists as well; remove one of them",
            );
        }
        log.changed(
            "spec.disruption.expireAfter",
            "moved to spec.template.spec.expireAfter; a change of it is drift in v1",
        );
        of_claim.entries.push(entry);
    }
    if let Some(entry) = of_claim.take("resources") {
        let field = "spec.template.spec.resources";
        if !entry.value.is_empty() {
            log.lost(field, "removed: it is computed from the pods, and had no effect in a NodePool");
        }
    }
    match of_claim.get_mut("nodeClassRef").and_then(YamlNode::as_map_mut) {
        Some(reference) => node_class_ref(reference, log),
        None => log.problem("spec.template.spec.nodeClassRef", "it is missing; v1 requires group, kind and name"),
    }
}

fn template_metadata(metadata: &mut Map, log: &mut Log) {
    if let Some(labels) = metadata.get_mut("labels").and_then(YamlNode::as_map_mut) {
        metadata::node_labels(labels, "spec.template.metadata.labels", log);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(YamlNode::as_map_mut) {
        metadata::node_annotations(annotations, "spec.template.metadata.annotations", log);
    }
}

/// Converts the disruption settings, and returns expireAfter, which moves.
fn disruption(spec: &mut Map, log: &mut Log) -> Option<MapEntry> {
    let disruption = spec.get_mut("disruption").and_then(YamlNode::as_map_mut)?;
    policy(disruption, log);
    let expire_after = disruption.take("expireAfter");
    if disruption.entries.is_empty() && disruption.tail.is_empty() {
        spec.take("disruption");
    }
    expire_after
}

fn policy(disruption: &mut Map, log: &mut Log) {
    const POLICY: &str = "spec.disruption.consolidationPolicy";
    const AFTER: &str = "spec.disruption.consolidateAfter";
    let after = disruption.get("consolidateAfter").and_then(YamlNode::as_str).map(str::to_owned);
    match disruption.get("consolidationPolicy").and_then(YamlNode::as_str) {
        Some("WhenEmpty") if after.is_none() => {
            log.problem(AFTER, "it is missing; v1beta1 and v1 require it with consolidationPolicy: WhenEmpty");
        }
        Some("WhenEmpty") => {}
        Some("WhenUnderutilized") | None => {
            if let Some(value) = disruption.get_mut("consolidationPolicy") {
                *value = YamlNode::text(WHEN_EMPTY_OR_UNDERUTILIZED);
                log.changed(POLICY, format!("WhenUnderutilized is {WHEN_EMPTY_OR_UNDERUTILIZED}"));
            }
            match after.as_deref() {
                None if disruption.entries.iter().all(|entry| entry.key.text == "expireAfter") => {}
                None => {
                    let position = disruption.position("consolidationPolicy").map_or(0, |position| position + 1);
                    disruption.entries.insert(position, MapEntry::new("consolidateAfter", YamlNode::text("0s")));
                    log.changed(AFTER, "added 0s, which is how v1beta1 behaves");
                }
                Some("Never") => log.changed(AFTER, "Never stays, which turns consolidation off in v1beta1 and v1"),
                Some(value) => log.problem(
                    AFTER,
                    format!("v1beta1 does not allow {value} with consolidationPolicy: WhenUnderutilized; remove it"),
                ),
            }
        }
        Some(other) => {
            let problem = format!("{other:?} is not a policy of v1beta1; it has WhenEmpty and WhenUnderutilized");
            log.problem(POLICY, problem);
        }
    }
}

fn node_class_ref(reference: &mut Map, log: &mut Log) {
    const FIELD: &str = "spec.template.spec.nodeClassRef";
    let version = reference.position("apiVersion");
    match version {
        Some(position) => {
            let old = reference.entries[position].value.as_str().unwrap_or_default();
            let group = old.split('/').next().filter(|group| !group.is_empty()).unwrap_or(AWS).to_owned();
            log.changed(&format!("{FIELD}.apiVersion"), format!("is group: {group}"));
            let entry = &mut reference.entries[position];
            entry.key = crate::yaml::Scalar::text("group");
            entry.value = YamlNode::text(group);
        }
        None if reference.get("group").is_none() => {
            reference.entries.insert(0, MapEntry::new("group", YamlNode::text(AWS)));
            log.changed(&format!("{FIELD}.group"), format!("added {AWS}, which v1 requires"));
        }
        None => {}
    }
    if reference.get("kind").is_none_or(YamlNode::is_empty) {
        let position = reference.position("group").map_or(0, |position| position + 1);
        reference.take("kind");
        reference.entries.insert(position, MapEntry::new("kind", YamlNode::text("EC2NodeClass")));
        log.changed(&format!("{FIELD}.kind"), "added EC2NodeClass, which v1 requires");
    }
    if reference.get("name").and_then(YamlNode::as_str).is_none() {
        log.problem(&format!("{FIELD}.name"), "it is missing");
    }
}
