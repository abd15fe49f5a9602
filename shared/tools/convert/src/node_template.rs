//! v1alpha1 AWSNodeTemplate to v1 EC2NodeClass.

use crate::metadata;
use crate::node_class;
use crate::report::Log;
use crate::selectors::{self, Special};
use crate::yaml::{Map, MapEntry, YamlNode};
use crate::{Identity, Options};

/// The fields of a v1alpha1 spec that v1 has under the same name.
const SAME: [&str; 9] = [
    "amiFamily",
    "amiSelectorTerms",
    "blockDeviceMappings",
    "context",
    "detailedMonitoring",
    "instanceProfile",
    "metadataOptions",
    "tags",
    "userData",
];
const CONVERTED: [&str; 3] = ["role", "securityGroupSelectorTerms", "subnetSelectorTerms"];

/// Converts an AWSNodeTemplate.
pub(crate) fn convert(object: &mut Map, options: &Options, log: &mut Log) {
    object.set("apiVersion", YamlNode::text("karpenter.k8s.aws/v1"));
    object.set("kind", YamlNode::text("EC2NodeClass"));
    log.changed("kind", "a v1alpha1 AWSNodeTemplate is a v1 EC2NodeClass");
    metadata::clean(object, log);
    match object.get_mut("spec").and_then(YamlNode::as_map_mut) {
        Some(spec) => convert_spec(spec, "spec", options, log),
        None => log.problem("spec", "it is missing"),
    }
}

/// Converts the spec of a template, or `spec.provider` of a Provisioner.
pub(crate) fn convert_spec(spec: &mut Map, at: &str, options: &Options, log: &mut Log) {
    // The type of the embedded object, which older examples have.
    spec.take("apiVersion");
    spec.take("kind");
    if spec.take("launchTemplate").is_some_and(|entry| !entry.value.is_null()) {
        log.problem(
            &format!("{at}.launchTemplate"),
            "launch templates of your own have no successor; write its settings as fields (amiSelector, blockDeviceMappings, \
             instanceProfile, metadataOptions, securityGroupSelector, userData) and remove it",
        );
        return;
    }
    if spec.take("amiSelectorTerms").is_some() {
        log.problem(&format!("{at}.amiSelectorTerms"), "it is not a field of v1alpha1; amiSelector is");
    }
    if spec.get("amiFamily").is_none_or(YamlNode::is_empty) {
        spec.take("amiFamily");
        spec.entries.insert(0, MapEntry::new("amiFamily", YamlNode::text("AL2")));
        log.changed(&format!("{at}.amiFamily"), "it is not set, so it is AL2, the default of v1alpha1");
    }
    selector(spec, at, "amiSelector", "amiSelectorTerms", selectors::AMIS, log);
    for (old, new) in
        [("subnetSelector", "subnetSelectorTerms"), ("securityGroupSelector", "securityGroupSelectorTerms")]
    {
        if spec.get(old).is_none_or(YamlNode::is_empty) {
            log.problem(&format!("{at}.{old}"), format!("it is missing; v1 requires {new}"));
        }
        selector(spec, at, old, new, selectors::IDS, log);
    }
    node_class::images(spec, at, &format!("{at}.amiSelector"), "latest", log);
    if spec.get("metadataOptions").is_some_and(|options| !options.is_empty() && options.at(&["httpTokens"]).is_none()) {
        let field = format!("{at}.metadataOptions.httpTokens");
        log.changed(&field, "it is not set: it was optional, the default of EC2, and is required from v1beta1 on");
    }
    node_class::metadata_options(spec, at, log);
    identity(spec, at, options, log);
    for entry in &spec.entries {
        let key = entry.key.text.as_str();
        if !SAME.contains(&key) && !CONVERTED.contains(&key) {
            log.problem(&format!("{at}.{key}"), "it is not a field of v1alpha1");
        }
    }
}

fn selector(spec: &mut Map, at: &str, old: &str, new: &str, special: Special, log: &mut Log) {
    let Some(position) = spec.position(old) else { return };
    let field = format!("{at}.{old}");
    let entry = spec.entries.remove(position);
    let Some(map) = entry.value.as_map() else {
        if !entry.value.is_null() {
            log.problem(&field, "it is not a mapping");
        }
        return;
    };
    if map.entries.is_empty() {
        return;
    }
    if let Some(terms) = selectors::terms(map, special, &field, log) {
        let number = terms.as_seq().map_or(0, |seq| seq.items.len());
        log.changed(&field, format!("is spec.{new} with {number} term{}", if number == 1 { "" } else { "s" }));
        let comments = selectors::comments(map);
        let mut entry = entry.renamed(new);
        entry.value = terms;
        entry.comments.above.extend(comments);
        spec.entries.insert(position, entry);
    }
}

/// The role or instance profile of the nodes. v1alpha1 allowed to set it in Karpenter's settings only.
fn identity(spec: &mut Map, at: &str, options: &Options, log: &mut Log) {
    if spec.take("role").is_some() {
        log.problem(&format!("{at}.role"), "it is not a field of v1alpha1; give it with --role");
    }
    let field = format!("{at}.instanceProfile");
    if spec.get("instanceProfile").is_some_and(|profile| !profile.is_empty()) {
        return;
    }
    spec.take("instanceProfile");
    match &options.identity {
        Some(Identity::Role(role)) => {
            spec.set("role", YamlNode::text(role));
            log.changed(&field, format!("it is not set, so spec.role is {role}, as given"));
        }
        Some(Identity::InstanceProfile(profile)) => {
            spec.set("instanceProfile", YamlNode::text(profile));
            log.changed(&field, format!("it is not set, so it is {profile}, as given"));
        }
        None => log.problem(
            &format!("{at}.role"),
            "v1 requires the IAM role of the nodes, which v1alpha1 does not have; give it with --role, or the instance profile \
             of Karpenter's settings (aws.defaultInstanceProfile) with --instance-profile",
        ),
    }
}
