//! The hashes by which static drift is found, and by which a status is found to hold for a later spec.
//!
//! A NodeClaim carries the hash of the NodePool and EC2NodeClass that it was made from, with the version of the way of
//! hashing. A different hash of the same version means that the node has drifted.
//!
//! The hash is our own: the first 64 bits of the SHA-256 of canonical JSON, in decimal. It covers the fields that
//! Karpenter's covers, and like there the order of lists and empty fields make no difference, but the value is not
//! Karpenter's, and the version reports it. So for a cluster that is taken over from Karpenter, as after an upgrade of
//! Karpenter itself: where the version differs, hashes must not be compared. The claims of a pool get the present hash and
//! version, and only those that had drifted already keep their hash. Karpenter does the same with ours when it is given
//! the cluster back. A change made to a pool between the last run of one and the first run of the other is not seen.

use crate::custom::nodeclass::{EC2NodeClass, EC2NodeClassSpec};
use crate::custom::nodepool::NodePool;
use nodeless_model::labels;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The version of [`node_pool`] and [`ec2_node_class`], for the annotations `…-hash-version`.
pub const VERSION: &str = "nodeless-v1";

/// Hashes what of a NodePool makes its nodes drift when it changes: the template's labels, annotations, taints, class,
/// grace period and expiry. Requirements are compared with nodes one by one, and the rest does not concern a node.
#[must_use]
pub fn node_pool(pool: &NodePool) -> String {
    let template = &pool.spec.template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let spec = &template.spec;
    hash(&json!({
        "labels": value(&metadata.labels),
        "annotations": value(&metadata.annotations),
        "taints": value(&spec.taints),
        "startupTaints": value(&spec.startup_taints),
        "nodeClassRef": value(&spec.node_class_ref),
        "terminationGracePeriod": spec.termination_grace_period.as_deref().map(canonical_duration),
        "expireAfter": canonical_duration(&spec.expire_after),
    }))
}

/// Hashes what of an EC2NodeClass makes nodes drift when it changes: everything but the selector terms, whose results are
/// compared with instances one by one, and `ipPrefixCount`. The AMI family counts as it is resolved.
#[must_use]
pub fn ec2_node_class(class: &EC2NodeClass) -> String {
    let mut spec = value(&class.spec);
    if let Some(object) = spec.as_object_mut() {
        for field in [
            "subnetSelectorTerms",
            "securityGroupSelectorTerms",
            "capacityReservationSelectorTerms",
            "amiSelectorTerms",
            "amiFamily",
            "ipPrefixCount",
        ] {
            object.remove(field);
        }
    }
    hash(&json!({
        "spec": spec,
        "amiFamily": value(&class.spec.resolved_ami_family()),
    }))
}

/// Gives a class that nodeless has annotated before the hash of its present spec. The annotation in the cluster is written with the
/// status, so after a change of the spec it is the hash of the previous one until the class is resolved again.
pub fn renew_ec2_node_class(class: &mut EC2NodeClass) {
    let present = ec2_node_class(class);
    let Some(annotations) = &mut class.metadata.annotations else { return };
    if annotations.get(labels::EC2_NODE_CLASS_HASH_VERSION).is_some_and(|made| made == VERSION) {
        annotations.insert(labels::EC2_NODE_CLASS_HASH.to_owned(), present);
    }
}

/// Hashes what of an EC2NodeClass is resolved to its status: the selectors, the AMI family as it is resolved, and the role or
/// instance profile. A new field has to be assigned to one side here.
#[must_use]
pub fn resolved_fields(spec: &EC2NodeClassSpec) -> String {
    let EC2NodeClassSpec {
        subnet_selector_terms,
        security_group_selector_terms,
        capacity_reservation_selector_terms,
        placement_group_selector,
        ami_selector_terms,
        ami_family: _,
        role,
        instance_profile,
        // Launches take these from the spec.
        associate_public_ip_address: _,
        ip_prefix_count: _,
        user_data: _,
        tags: _,
        kubelet: _,
        block_device_mappings: _,
        instance_store_policy: _,
        network_interfaces: _,
        detailed_monitoring: _,
        metadata_options: _,
        connection_tracking: _,
        context: _,
        cpu_options: _,
        enclave_options: _,
    } = spec;
    hash(&json!({
        "subnetSelectorTerms": value(subnet_selector_terms),
        "securityGroupSelectorTerms": value(security_group_selector_terms),
        "capacityReservationSelectorTerms": value(capacity_reservation_selector_terms),
        "placementGroupSelector": value(placement_group_selector),
        "amiSelectorTerms": value(ami_selector_terms),
        "amiFamily": value(&spec.resolved_ami_family()),
        "role": value(role),
        "instanceProfile": value(instance_profile),
    }))
}

/// Plain data of ours always serialises; `null` would only lose drift for that field.
fn value<T: Serialize>(data: &T) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

/// `90m` and `1h30m` are the same.
fn canonical_duration(text: &str) -> String {
    text.parse::<nodeless_model::NillableDuration>().map_or_else(|_| text.to_owned(), |duration| duration.to_string())
}

fn hash(data: &Value) -> String {
    let digest = Sha256::digest(canonical(data).to_string().as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    first.to_string()
}

/// Without what is empty, and with lists sorted. Objects are sorted by key already.
fn canonical(data: &Value) -> Value {
    match data {
        Value::Object(object) => {
            let fields = object.iter().map(|(key, value)| (key.clone(), canonical(value)));
            let mut sorted: Vec<_> = fields.filter(|(_, value)| !is_empty(value)).collect();
            sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(sorted.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(list) => {
            let mut items: Vec<Value> = list.iter().map(canonical).collect();
            items.sort_by_cached_key(ToString::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// `false`, zero and the empty text are not empty: set, they mean something else than absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
