//! v1beta1 EC2NodeClass to v1, and what a class from v1alpha1 needs as well.

use crate::metadata;
use crate::report::Log;
use crate::yaml::{Map, MapEntry, YamlNode};

/// The annotation in which Karpenter 1.0 keeps the version of an alias for v1beta1.
const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";
/// The hop limit of v1beta1 where none is set. The default of v1 is 1.
const HOP_LIMIT: i64 = 2;

/// Converts an EC2NodeClass.
pub(crate) fn convert(object: &mut Map, log: &mut Log) {
    object.set("apiVersion", YamlNode::text("karpenter.k8s.aws/v1"));
    log.changed("apiVersion", "karpenter.k8s.aws/v1beta1 is karpenter.k8s.aws/v1");
    let version = alias_version(object, log);
    metadata::clean(object, log);
    let Some(spec) = object.get_mut("spec").and_then(YamlNode::as_map_mut) else {
        return log.problem("spec", "it is missing");
    };
    if spec.take("kubelet").is_some() {
        log.problem(
            "spec.kubelet",
            "it is not a field of v1beta1, which has it in the NodePool; move it there, or set v1",
        );
    }
    images(spec, "spec", "spec.amiSelectorTerms", version.as_deref().unwrap_or("latest"), log);
    metadata_options(spec, "spec", log);
    if spec.get("role").is_none_or(YamlNode::is_empty) && spec.get("instanceProfile").is_none_or(YamlNode::is_empty) {
        log.problem("spec.role", "it is missing, and so is spec.instanceProfile; set one of them");
    }
}

fn alias_version(object: &mut Map, log: &mut Log) -> Option<String> {
    let annotations = object.get_mut("metadata")?.as_map_mut()?.get_mut("annotations")?.as_map_mut()?;
    let entry = annotations.take(ALIAS_VERSION)?;
    log.changed(&format!("metadata.annotations[{ALIAS_VERSION}]"), "is the version of the alias");
    entry.value.as_str().map(str::to_owned)
}

/// Sets amiFamily and amiSelectorTerms as v1 has them.
pub(crate) fn images(spec: &mut Map, at: &str, terms_field: &str, version: &str, log: &mut Log) {
    let field = format!("{at}.amiFamily");
    let has_terms = spec.get("amiSelectorTerms").is_some_and(|terms| !terms.is_empty());
    let family = spec.get("amiFamily").and_then(YamlNode::as_str).map(str::to_owned);
    match family.as_deref() {
        Some("AL2" | "AL2023" | "Bottlerocket" | "Windows2019" | "Windows2022") if has_terms => {}
        Some(family @ ("AL2" | "AL2023" | "Bottlerocket" | "Windows2019" | "Windows2022")) => {
            let alias = format!("{}@{version}", family.to_lowercase());
            log.changed(&field, format!("is spec.amiSelectorTerms: alias {alias}"));
            if family == "AL2" {
                log.check(&field, "AWS publishes no AL2 images from Kubernetes 1.33 on; al2023@latest needs user data of its own format");
            }
            set_alias(spec, &alias);
        }
        Some("Ubuntu") if has_terms => ubuntu(spec, &field, log),
        Some("Ubuntu") => log.problem(
            &field,
            format!("v1 finds no Ubuntu images by itself; set {terms_field}, and the images are used with amiFamily AL2"),
        ),
        Some("Custom") | None if !has_terms => {
            log.problem(terms_field, "it is missing, and amiFamily names no family whose images are found by themselves");
        }
        Some("Custom") => unregistered(&field, log),
        None => {
            spec.set("amiFamily", YamlNode::text("Custom"));
            log.changed(&field, "it is missing, so it is Custom, as in Karpenter's conversion");
            unregistered(&field, log);
        }
        Some(other) => log.problem(
            &field,
            format!("{other:?} is not known; there are AL2, AL2023, Bottlerocket, Custom, Ubuntu, Windows2019 and Windows2022"),
        ),
    }
}

fn unregistered(field: &str, log: &mut Log) {
    log.check(field, "with Custom, the user data must register nodes with the taint karpenter.sh/unregistered:NoExecute, which v1 expects");
}

/// Replaces amiFamily by an alias, in its place.
fn set_alias(spec: &mut Map, alias: &str) {
    spec.take("amiSelectorTerms");
    let terms = YamlNode::seq([YamlNode::map([("alias", YamlNode::text(alias))])]);
    if let Some(position) = spec.position("amiFamily") {
        let family = spec.entries.remove(position);
        let mut entry = family.renamed("amiSelectorTerms");
        entry.value = terms;
        spec.entries.insert(position, entry);
    }
}

/// Ubuntu's images with AL2's user data, which is the same. Disks are Ubuntu's.
fn ubuntu(spec: &mut Map, field: &str, log: &mut Log) {
    spec.set("amiFamily", YamlNode::text("AL2"));
    log.changed(
        field,
        "Ubuntu is AL2, whose user data has the same format; spec.amiSelectorTerms selects Ubuntu's images",
    );
    log.check(
        field,
        "whether later Ubuntu images boot with AL2's user data is not certain; with Custom the user data is yours",
    );
    if spec.get("blockDeviceMappings").is_none_or(YamlNode::is_null) {
        let disk = YamlNode::map([
            (
                "encrypted",
                YamlNode::Scalar(crate::yaml::Scalar { text: "true".to_owned(), form: crate::yaml::Form::Bare }),
            ),
            ("volumeType", YamlNode::text("gp3")),
            ("volumeSize", YamlNode::text("20Gi")),
        ]);
        let root = YamlNode::Scalar(crate::yaml::Scalar { text: "true".to_owned(), form: crate::yaml::Form::Bare });
        let mapping = YamlNode::map([("deviceName", YamlNode::text("/dev/sda1")), ("rootVolume", root), ("ebs", disk)]);
        spec.set("blockDeviceMappings", YamlNode::seq([mapping]));
        log.changed("spec.blockDeviceMappings", "added /dev/sda1 with 20Gi, the default of Ubuntu");
    }
}

/// Sets the hop limit that v1beta1 has where none is set.
pub(crate) fn metadata_options(spec: &mut Map, at: &str, log: &mut Log) {
    let field = format!("{at}.metadataOptions.httpPutResponseHopLimit");
    let Some(options) = spec.child("metadataOptions") else {
        return log.problem(&format!("{at}.metadataOptions"), "it is not a mapping");
    };
    if options.get("httpPutResponseHopLimit").is_none_or(YamlNode::is_null) {
        options.take("httpPutResponseHopLimit");
        options.entries.push(MapEntry::new("httpPutResponseHopLimit", YamlNode::number(HOP_LIMIT)));
        log.changed(&field, "added 2, the default before v1; the default of v1 is 1, with which pods do not reach the instance metadata");
    }
}
