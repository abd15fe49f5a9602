//! The launch template of a launch: image, profile, groups, and user data that the simulated kubelet reads.

use super::fleet::Variant;
use crate::ec2::requests::{IamInstanceProfile, LaunchTemplateData};
use crate::kubernetes::controllers::object::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::AmiFamily;
use nodeless_model::{NodeClaim, StringMap, Taint, labels};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The template's data. Disks, interfaces and metadata options of the class have no effect on a simulated machine and are
/// left out.
pub(super) fn data(claim: &NodeClaim, class: &EC2NodeClass, variant: &Variant) -> Result<LaunchTemplateData, String> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let status = class.status.clone().unwrap_or_default();
    let missing = |what: &str| format!("EC2NodeClass {name} has no {what} in its status");
    if status.security_groups.is_empty() {
        return Err(missing("securityGroups"));
    }
    let profile = status.instance_profile.ok_or_else(|| missing("instanceProfile"))?;
    let text = match class.spec.resolved_ami_family().unwrap_or(AmiFamily::Custom) {
        AmiFamily::AL2023 => node_config(claim, variant).to_string(),
        AmiFamily::Bottlerocket => bottlerocket(claim, variant)?,
        AmiFamily::Custom => class.spec.user_data.clone().unwrap_or_default(),
        other => return Err(format!("EC2NodeClass {name}: amiFamily {} is not simulated", other.name())),
    };
    let specification = match &variant.reservation_id {
        None => json!({ "CapacityReservationPreference": "none" }),
        Some(id) => json!({
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": { "CapacityReservationId": id },
        }),
    };
    Ok(LaunchTemplateData {
        image_id: Some(variant.image_id.clone()),
        user_data: (!text.is_empty()).then(|| STANDARD.encode(text)),
        iam_instance_profile: Some(IamInstanceProfile { name: Some(profile), arn: None }),
        security_group_ids: status.security_groups.into_iter().map(|group| group.id).collect(),
        other: BTreeMap::from([("CapacityReservationSpecification".to_owned(), specification)]),
        ..LaunchTemplateData::default()
    })
}

/// The template's name, made from its content.
pub(super) fn name(prefix: &str, data: &LaunchTemplateData) -> String {
    let content = serde_json::to_string(data).unwrap_or_default();
    format!("{prefix}{:016x}", digest(&[&content]))
}

fn taints(claim: &NodeClaim) -> Vec<Taint> {
    let mut taints = claim.spec.taints.clone();
    taints.extend(claim.spec.startup_taints.iter().cloned());
    taints.push(Taint::unregistered());
    taints
}

/// The labels that a kubelet may set on its own node; the others are set when the claim recognises the node.
fn kubelet_labels(claim: &NodeClaim) -> StringMap {
    let mut kept = claim.node_labels();
    kept.retain(|key, _| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        !["kubernetes.io", "k8s.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
    });
    kept.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    kept
}

fn node_config(claim: &NodeClaim, variant: &Variant) -> Value {
    let labels: Vec<String> = kubelet_labels(claim).iter().map(|(key, value)| format!("{key}={value}")).collect();
    json!({
        "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
        "spec": { "kubelet": {
            "config": { "maxPods": variant.max_pods, "registerWithTaints": taints(claim) },
            "flags": [format!("--node-labels={}", labels.join(","))],
        } },
    })
}

fn bottlerocket(claim: &NodeClaim, variant: &Variant) -> Result<String, String> {
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for taint in taints(claim) {
        by_key.entry(taint.key).or_default().push(format!("{}:{}", taint.value, taint.effect.as_str()));
    }
    let settings = json!({ "settings": { "kubernetes": {
        "max-pods": variant.max_pods, "node-labels": kubelet_labels(claim), "node-taints": by_key,
    } } });
    toml::to_string(&settings).map_err(|error| error.to_string())
}
