//! Detects whether a node still matches its NodePool and EC2NodeClass.

use crate::cluster::{ClassImage, NodeClassFacts};
use crate::reasons::drift::{Drift, DriftReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::certificate_authorities::lacks_any;
use nodeless_model::claim::condition;
use nodeless_model::{CapacityType, InstanceType, NodeClaim, Requirement, Requirements, StringMap, labels};
use nodeless_scheduling::PoolOffer;
use std::collections::BTreeSet;

/// Younger claims are not compared with the instance types: the catalog may be older.
const INSTANCE_TYPE_GRACE: SignedDuration = SignedDuration::from_hours(1);

/// The drift of a launched claim, if there is any. The checks run in Karpenter's order, and the first that finds drift counts.
///
/// `hash_version` is the version of the hash function for the hashes of NodePool and EC2NodeClass: hashes of different
/// versions are not compared, so that a cluster adopted from Karpenter does not drift at once.
#[must_use]
pub fn drift(
    claim: &NodeClaim,
    offer: &PoolOffer<'_>,
    class: Option<&NodeClassFacts>,
    hash_version: &str,
    now: Timestamp,
) -> Option<Drift> {
    claim.status.instance.as_ref()?;
    let found = |reason, message| Some(Drift { reason, message });
    let annotations = &claim.spec.annotations;
    let hash = &offer.pool.hash;
    if hash_differs(annotations, labels::NODE_POOL_HASH, labels::NODE_POOL_HASH_VERSION, hash, hash_version) {
        let message = format!("the template of NodePool {} changed", offer.pool.name);
        return found(DriftReason::NodePoolDrifted, message);
    }
    if let Some(message) = unmet_requirement(claim, offer) {
        return found(DriftReason::RequirementsDrifted, message);
    }
    if let Some(message) = missing_offering(claim, offer, now) {
        return found(DriftReason::InstanceTypeNotFound, message);
    }
    if let Some(message) = smaller_root_volume(claim, offer) {
        return found(DriftReason::NodePoolDrifted, message);
    }
    let class = class?;
    let hash = &class.hash;
    if hash_differs(annotations, labels::EC2_NODE_CLASS_HASH, labels::EC2_NODE_CLASS_HASH_VERSION, hash, hash_version) {
        return found(DriftReason::NodeClassDrift, format!("EC2NodeClass {} changed", claim.node_class));
    }
    if lacks_authority(claim, class) {
        let message = "its user data lacks a certificate authority of the cluster".to_owned();
        return found(DriftReason::NodeClassDrift, message);
    }
    let looks = [
        (DriftReason::AMIDrift, other_image(claim, offer, class)),
        (DriftReason::SecurityGroupDrift, other_security_groups(claim, class)),
        (DriftReason::SubnetDrift, other_subnet(claim, class)),
        (DriftReason::CapacityReservationDrift, other_reservation(claim, class)),
        (DriftReason::PlacementGroupDrift, other_placement_group(claim, offer)),
    ];
    looks.into_iter().find_map(|(reason, message)| Some(Drift { reason, message: message? }))
}

/// A node without a size of its own has the root volume of its EC2NodeClass, whose hash would differ otherwise.
fn smaller_root_volume(claim: &NodeClaim, offer: &PoolOffer<'_>) -> Option<String> {
    let instance_type = &claim.status.instance.as_ref()?.instance_type;
    let kind = offer.instance_types.iter().find(|kind| kind.name == *instance_type)?;
    let volumes = kind.root_volume?;
    let own = claim.status.root_volume.map_or(volumes.class_gib, |volume| volume.gib);
    (own < volumes.least_gib).then(|| {
        format!(
            "its root volume has {own} GiB, and {} of NodePool {} states {} for {instance_type}",
            labels::ROOT_VOLUME,
            offer.pool.name,
            volumes.least_gib
        )
    })
}

/// Whether the cluster has another certificate authority since the launch. What a node trusts that nodeless did not launch is not known.
fn lacks_authority(claim: &NodeClaim, class: &NodeClassFacts) -> bool {
    let trusted = claim.status.instance.as_ref().and_then(|instance| instance.certificate_authority.as_ref());
    trusted.zip(class.certificate_authority.as_ref()).is_some_and(|(trusted, present)| lacks_any(trusted, present))
}

fn other_image(claim: &NodeClaim, offer: &PoolOffer<'_>, class: &NodeClassFacts) -> Option<String> {
    let instance = claim.status.instance.as_ref().filter(|instance| !instance.image_id.is_empty())?;
    if class.images.is_empty() {
        return None;
    }
    let image = &instance.image_id;
    let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == instance.instance_type) else {
        let selected = class.images.iter().any(|one| one.id == *image);
        return (!selected).then(|| format!("AMI {image} is not one of those that {} selects", named(claim)));
    };
    // If no AMI supports the type, nothing could be launched instead.
    let present = image_for(kind, class)?;
    (present.id != *image)
        .then(|| format!("its AMI is {image}, and that of {} for {} is {}", named(claim), kind.name, present.id))
}

/// The AMI that nodes of an instance type get.
fn image_for<'c>(kind: &InstanceType, class: &'c NodeClassFacts) -> Option<&'c ClassImage> {
    let of_type = Requirements::from_labels(&kind.requirements.single_values());
    class.images.iter().find(|one| of_type.first_incompatible(&one.requirements, |_| false).is_none())
}

/// The AMI that a node like that of a claim would get now. For an unknown instance type it is the first one.
pub(crate) fn selected_image(
    claim: &NodeClaim,
    offer: &PoolOffer<'_>,
    class: Option<&NodeClassFacts>,
) -> Option<String> {
    let (instance, class) = (claim.status.instance.as_ref()?, class?);
    let kind = offer.instance_types.iter().find(|kind| kind.name == instance.instance_type);
    let image = kind.and_then(|kind| image_for(kind, class)).or_else(|| class.images.first())?;
    Some(image.id.clone())
}

fn other_security_groups(claim: &NodeClaim, class: &NodeClassFacts) -> Option<String> {
    let own: BTreeSet<&str> = claim.status.instance.as_ref()?.security_group_ids.iter().map(String::as_str).collect();
    let desired: BTreeSet<&str> = class.security_group_ids.iter().map(String::as_str).collect();
    let listed = |ids: &BTreeSet<&str>| ids.iter().copied().collect::<Vec<_>>().join(", ");
    (!own.is_empty() && !desired.is_empty() && own != desired)
        .then(|| format!("its security groups are {}, and {} selects {}", listed(&own), named(claim), listed(&desired)))
}

fn other_subnet(claim: &NodeClaim, class: &NodeClassFacts) -> Option<String> {
    let own = claim.status.instance.as_ref()?.subnet_id.as_ref()?;
    (!class.subnet_ids.is_empty() && !class.subnet_ids.contains(own))
        .then(|| format!("its subnet {own} is not one of those that {} selects", named(claim)))
}

/// An instance that EC2 matched with an open reservation is not reserved.
fn other_reservation(claim: &NodeClaim, class: &NodeClassFacts) -> Option<String> {
    let own = claim.status.instance.as_ref()?.reservation_id.as_ref()?;
    let labels = claim.node_labels();
    let reserved = labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == CapacityType::Reserved.as_str());
    (reserved && !class.reservation_ids.contains(own))
        .then(|| format!("its capacity reservation {own} is not one of those that {} selects", named(claim)))
}

/// Another selector changes the hash of the EC2NodeClass; this is about a group that was created again with the same name.
fn other_placement_group(claim: &NodeClaim, offer: &PoolOffer<'_>) -> Option<String> {
    let instance = claim.status.instance.as_ref()?;
    let kind = offer.instance_types.iter().find(|kind| kind.name == instance.instance_type)?;
    let present = kind.requirements.get(labels::PLACEMENT_GROUP_ID).and_then(Requirement::single)?;
    let labels = claim.node_labels();
    let own = labels.get(labels::PLACEMENT_GROUP_ID)?;
    (own != present).then(|| format!("its placement group is {own}, and that of {} is {present}", named(claim)))
}

fn named(claim: &NodeClaim) -> String {
    format!("EC2NodeClass {}", claim.node_class)
}

/// The drift that the condition `Drifted` of a claim reports, if it is true.
pub(crate) fn drifted_condition(claim: &NodeClaim) -> Option<Drift> {
    let condition = claim.condition(condition::DRIFTED).filter(|_| claim.has_condition(condition::DRIFTED))?;
    let stated = [&condition.reason, &condition.message].map(String::as_str);
    let stated: Vec<&str> = stated.into_iter().filter(|text| !text.is_empty()).collect();
    let stated = if stated.is_empty() { String::new() } else { format!(" ({})", stated.join(": ")) };
    Some(Drift {
        reason: DriftReason::ConditionTrue,
        message: format!("the condition Drifted of its NodeClaim is true{stated}"),
    })
}

/// Whether the hash of a claim differs from the current one of the same version.
fn hash_differs(annotations: &StringMap, hash: &str, version: &str, present: &str, hash_version: &str) -> bool {
    annotations.get(version).is_some_and(|made| made == hash_version)
        && annotations.get(hash).is_some_and(|made| made != present)
}

fn unmet_requirement(claim: &NodeClaim, offer: &PoolOffer<'_>) -> Option<String> {
    let node = claim.node_labels();
    offer.pool.template.requirements.iter().find_map(|(key, requirement)| match node.get(key) {
        Some(value) if requirement.has(value) => None,
        Some(value) => Some(format!("label {key} is {value}, and NodePool {} requires {requirement}", offer.pool.name)),
        None if requirement.allows_absence() => None,
        None => Some(format!("label {key} is missing, and NodePool {} requires {requirement}", offer.pool.name)),
    })
}

fn missing_offering(claim: &NodeClaim, offer: &PoolOffer<'_>, now: Timestamp) -> Option<String> {
    let instance = claim.status.instance.as_ref()?;
    // An empty list of instance types means that they are unknown, not that they are gone.
    if offer.instance_types.is_empty() || now.duration_since(claim.created) < INSTANCE_TYPE_GRACE {
        return None;
    }
    let kind = offer.instance_types.iter().find(|kind| kind.name == instance.instance_type);
    let Some(kind) = kind else {
        return Some(format!("instance type {} is no longer offered", instance.instance_type));
    };
    let sold = kind.offerings.iter().any(|offering| {
        let same_kind = offering.capacity_type == instance.capacity_type
            || (instance.capacity_type == CapacityType::Reserved && offering.capacity_type == CapacityType::OnDemand);
        offering.zone == instance.zone && same_kind
    });
    (!sold).then(|| {
        format!("{} is no longer offered as {} in {}", instance.instance_type, instance.capacity_type, instance.zone)
    })
}
