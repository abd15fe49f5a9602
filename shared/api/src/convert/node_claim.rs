//! NodeClaims: conversion between the record, which is authoritative, and the object in the cluster, which mirrors it.

use super::{
    ConvertError, FieldError, duration, nillable_duration, quantities, requirements, resource_list, taints, validate,
};
use crate::custom::common::{Condition, ConditionStatus, NodeClassReference, Requirement};
use crate::custom::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
use crate::{NodePool, labels, slim};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use model::claim::{self, CapacityType, Charge, LaunchedInstance, Phase, Termination, TerminationReason, condition};
use model::duration::format_go_duration;
use model::node_pool::NodeTemplate;
use model::object::{MirroredClaim, StandaloneNode};
use nodeless_model as model;

/// The annotations that nodeless writes to a NodeClaim object of a user.
const LAUNCH_ANNOTATIONS: [&str; 4] = [
    labels::EC2_NODE_CLASS_HASH,
    labels::EC2_NODE_CLASS_HASH_VERSION,
    labels::INSTANCE_PROFILE_NAME,
    labels::MIN_VALUES_RELAXED,
];

/// The annotation that `kubectl apply` writes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object that mirrors a claim: `kubectl get nodeclaims` shows it, and deleting it terminates the claim.
///
/// `pool` is the NodePool, if it still exists; it then owns the object. The object has the finalizer
/// `karpenter.sh/termination`, and a status, which is written separately through the status subresource.
///
/// Create the object with the spec, but never send the spec again: it is immutable, and the spec of an adopted claim may have
/// another form here with the same meaning (`Gte 5` instead of `Gt 4`).
#[must_use]
pub fn mirror(claim: &model::NodeClaim, pool: Option<&NodePool>) -> NodeClaim {
    let mut all_labels = claim.node_labels();
    let mut annotations = claim.spec.annotations.clone();
    match &claim.node_pool {
        Some(name) => drop(all_labels.insert(labels::NODE_POOL.to_owned(), name.clone())),
        // The object has the user's labels and annotations, which the user may change.
        None => {
            let of_launch = |key: &str| model::labels::OF_A_RESERVATION.contains(&key);
            all_labels.retain(|key, _| of_launch(key) || !claim.spec.labels.contains_key(key));
            annotations.retain(|key, _| LAUNCH_ANNOTATIONS.contains(&key.as_str()));
        }
    }
    all_labels.insert(labels::EC2_NODE_CLASS.to_owned(), claim.node_class.clone());
    if let Some(deadline) = claim.status.termination.as_ref().and_then(|termination| termination.deadline) {
        annotations.insert(labels::TERMINATION_TIMESTAMP.to_owned(), deadline.to_string());
    }
    if let Some(price) = claim.status.instance.as_ref().map(|instance| instance.price).filter(|price| *price > 0.0) {
        annotations.insert(labels::PRICE_PER_HOUR.to_owned(), model::money::quantity_of(price));
    }
    let metadata = ObjectMeta {
        name: Some(claim.name.clone()),
        labels: Some(all_labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        finalizers: Some(vec![labels::TERMINATION_FINALIZER.to_owned()]),
        owner_references: pool.and_then(owner).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    NodeClaim { metadata, spec: spec(claim), status: Some(status(claim)) }
}

impl TryFrom<&slim::NodeClaim> for MirroredClaim {
    type Error = ConvertError;

    fn try_from(object: &slim::NodeClaim) -> Result<Self, ConvertError> {
        let slim::NodeClaim { metadata, spec, status } = object;
        let lasts = |text: &Option<String>, field: &str| {
            let duration = text.as_deref().map(|text| nillable_duration(text, field)).transpose();
            let named = |error: FieldError| {
                error.for_object(format!("NodeClaim {}", metadata.name.as_deref().unwrap_or_default()))
            };
            Ok(duration.map_err(named)?.and_then(model::NillableDuration::duration))
        };
        let text = |map: &Option<_>, key| map.as_ref().and_then(|map: &model::StringMap| map.get(key)).cloned();
        let mut owners = metadata.owner_references.iter().flatten();
        Ok(Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            provider_id: status.provider_id.clone().filter(|id| !id.is_empty()),
            record_uid: text(&metadata.annotations, model::labels::RECORD_UID),
            node_pool: text(&metadata.labels, model::labels::NODE_POOL),
            capacity_type: text(&metadata.labels, model::labels::CAPACITY_TYPE)
                .and_then(|value: String| CapacityType::from_label(&value)),
            owner: owners.find(|owner| owner.kind == "NodePool").map(|owner| owner.uid.clone()),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            expire_after: lasts(&spec.expire_after, "spec.expireAfter")?,
            termination_grace_period: lasts(&spec.termination_grace_period, "spec.terminationGracePeriod")?,
            conditions: status
                .conditions
                .iter()
                .map(|one| (one.kind.clone(), (one.status.clone(), one.reason.clone())))
                .collect(),
            hashes: hashes(metadata),
            standalone: standalone(object),
        })
    }
}

/// The annotations by which drift is found.
fn hashes(metadata: &ObjectMeta) -> model::StringMap {
    let annotations = metadata.annotations.iter().flatten();
    let hashes = annotations.filter(|(key, _)| labels::HASHES.contains(&key.as_str()));
    hashes.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The node that a NodeClaim without a NodePool describes, or why it is invalid.
fn standalone(object: &slim::NodeClaim) -> Option<Box<Result<StandaloneNode, model::Unusable>>> {
    let slim::NodeClaim { metadata, spec, .. } = object;
    let of_a_pool = metadata.labels.iter().flatten().any(|(key, _)| key == labels::NODE_POOL)
        || metadata.owner_references.iter().flatten().any(|owner| owner.kind == "NodePool");
    if of_a_pool {
        return None;
    }
    let problems = validate::standalone(spec);
    let node = if problems.is_empty() {
        standalone_node(metadata, spec).map_err(|error| error.to_string().into())
    } else {
        Err(problems.join("; ").into())
    };
    Some(Box::new(node))
}

fn standalone_node(metadata: &ObjectMeta, spec: &slim::NodeClaimSpec) -> Result<StandaloneNode, FieldError> {
    let node_class = spec.node_class_ref.clone().unwrap_or_default().name;
    let mut node_labels = metadata.labels.clone().unwrap_or_default();
    node_labels.insert(labels::EC2_NODE_CLASS.to_owned(), node_class.clone());
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    annotations.remove(labels::RECORD_UID);
    let mut all = requirements(&spec.requirements, "spec.requirements")?;
    // Labels that no requirement may have, such as those of the object's owner, are labels of the node, and nothing else.
    let defining = node_labels.iter().filter(|(key, _)| !model::labels::is_restricted(key));
    let defining = defining.map(|(key, value)| (key.clone(), value.clone())).collect();
    all.add_all(&model::Requirements::from_labels(&defining));
    let requests = spec.resources.as_ref().map(|resources| &resources.requests);
    let grace = spec.termination_grace_period.as_deref();
    Ok(StandaloneNode {
        template: NodeTemplate {
            node_class,
            requirements: all,
            labels: node_labels,
            annotations,
            taints: taints(&spec.taints),
            startup_taints: taints(&spec.startup_taints),
            expire_after: spec
                .expire_after
                .as_deref()
                .map(|text| nillable_duration(text, "spec.expireAfter"))
                .transpose()?,
            termination_grace_period: grace.map(|text| duration(text, "spec.terminationGracePeriod")).transpose()?,
        },
        requests: requests.map(|list| resource_list(list, "spec.resources.requests")).transpose()?.unwrap_or_default(),
    })
}

fn owner(pool: &NodePool) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: pool.metadata.name.clone()?,
        uid: pool.metadata.uid.clone()?,
        controller: None,
        block_owner_deletion: Some(true),
    })
}

fn spec(claim: &model::NodeClaim) -> NodeClaimSpec {
    let from = &claim.spec;
    let requests = quantities(&from.requests);
    NodeClaimSpec {
        taints: from.taints.iter().map(Into::into).collect(),
        startup_taints: from.startup_taints.iter().map(Into::into).collect(),
        requirements: from.requirements.to_terms().into_iter().map(requirement).collect(),
        resources: Some(ResourceRequirements { requests }).filter(|resources| !resources.requests.is_empty()),
        node_class_ref: NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: claim.node_class.clone(),
        },
        termination_grace_period: from.termination_grace_period.map(format_go_duration),
        expire_after: from.expire_after.map_or_else(|| "Never".to_owned(), format_go_duration),
    }
}

fn requirement(term: model::requirement::RequirementTerm) -> Requirement {
    Requirement {
        key: term.key,
        operator: term.operator.into(),
        values: term.values,
        min_values: term.min_values.and_then(|count| i32::try_from(count).ok()),
    }
}

fn status(claim: &model::NodeClaim) -> NodeClaimStatus {
    let from = &claim.status;
    let mut conditions: Vec<Condition> = from.conditions.iter().map(to_condition).collect();
    if claim.condition(condition::READY).is_none() {
        conditions.push(ready(claim));
    }
    NodeClaimStatus {
        node_name: from.node_name.clone(),
        provider_id: claim.provider_id(),
        image_id: from.instance.as_ref().map(|instance| instance.image_id.clone()).filter(|id| !id.is_empty()),
        capacity: quantities(&from.capacity),
        allocatable: quantities(&from.allocatable),
        conditions,
        last_pod_event_time: from.last_pod_event.map(Time),
    }
}

fn to_condition(from: &claim::Condition) -> Condition {
    Condition {
        type_: from.kind.clone(),
        status: match from.status {
            claim::ConditionStatus::True => ConditionStatus::True,
            claim::ConditionStatus::False => ConditionStatus::False,
            claim::ConditionStatus::Unknown => ConditionStatus::Unknown,
        },
        reason: from.reason.clone(),
        message: from.message.clone(),
        last_transition_time: Time(from.last_transition_time),
        observed_generation: None,
    }
}

fn from_condition(from: &Condition) -> claim::Condition {
    claim::Condition {
        kind: from.type_.clone(),
        status: match from.status {
            ConditionStatus::True => claim::ConditionStatus::True,
            ConditionStatus::False => claim::ConditionStatus::False,
            ConditionStatus::Unknown => claim::ConditionStatus::Unknown,
        },
        reason: from.reason.clone(),
        message: from.message.clone(),
        last_transition_time: from.last_transition_time.0,
    }
}

/// Ready combines Launched, Registered and Initialized: false if one is false, else unknown if one is unknown, else true.
fn ready(claim: &model::NodeClaim) -> Condition {
    let parts = [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED];
    let of = |kind: &str| claim.condition(kind).map_or(claim::ConditionStatus::Unknown, |part| part.status);
    let with = |expected| parts.iter().find(|kind| of(kind) == expected);
    let (status, reason, message) = match (with(claim::ConditionStatus::False), with(claim::ConditionStatus::Unknown)) {
        (Some(kind), _) => (ConditionStatus::False, "UnhealthyDependents", format!("{kind} is false")),
        (None, Some(kind)) => (ConditionStatus::Unknown, "ReconcilingDependents", format!("{kind} is not known yet")),
        (None, None) => (ConditionStatus::True, "Ready", String::new()),
    };
    let since = parts.iter().filter_map(|kind| claim.condition(kind)).map(|part| part.last_transition_time).max();
    Condition {
        type_: condition::READY.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(since.unwrap_or(claim.created)),
        observed_generation: None,
    }
}

impl TryFrom<&NodeClaim> for model::NodeClaim {
    type Error = ConvertError;

    /// Converts a NodeClaim object to a record, to adopt a cluster or to rebuild a lost table. Fields that the object does
    /// not have (prices, launch group, the pods that it was launched for) are empty, the version is zero, and its resources
    /// are its charge.
    fn try_from(object: &NodeClaim) -> Result<Self, ConvertError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        adopt(object).map_err(|error| error.for_object(format!("NodeClaim {name}")))
    }
}

/// The node that a NodeClaim of another controller describes: one that joins is used capacity. It has no instance, no NodePool and no
/// class, because those are not of nodeless.
pub(crate) fn capacity_of_other(mut object: NodeClaim) -> Result<model::NodeClaim, ConvertError> {
    let provider_id = object.status.as_mut().and_then(|status| status.provider_id.take());
    // An export may lack them.
    object.metadata.uid.get_or_insert_default();
    object.metadata.creation_timestamp.get_or_insert(Time(Timestamp::UNIX_EPOCH));
    let mut claim = model::NodeClaim::try_from(&object)?;
    if provider_id.is_some() && claim.phase == Phase::Reserved {
        claim.phase = Phase::Launched;
    }
    Ok(model::NodeClaim { node_pool: None, node_class: String::new(), ..claim })
}

fn adopt(object: &NodeClaim) -> Result<model::NodeClaim, FieldError> {
    let metadata = &object.metadata;
    let missing = |field: &str| FieldError::new(field, "it is missing");
    let name = metadata.name.clone().ok_or_else(|| missing("metadata.name"))?;
    let uid = metadata.uid.clone().ok_or_else(|| missing("metadata.uid"))?;
    let created = metadata.creation_timestamp.as_ref().ok_or_else(|| missing("metadata.creationTimestamp"))?.0;
    let all_labels = metadata.labels.clone().unwrap_or_default();
    let conditions: Vec<claim::Condition> =
        object.status.iter().flat_map(|status| &status.conditions).map(from_condition).collect();
    let mut claim = model::NodeClaim {
        name,
        uid,
        node_pool: all_labels.get(labels::NODE_POOL).cloned(),
        node_class: object.spec.node_class_ref.name.clone(),
        created,
        version: 0,
        spec: adopt_spec(object)?,
        phase: Phase::Reserved,
        status: claim::NodeClaimStatus { conditions, labels: all_labels, ..claim::NodeClaimStatus::default() },
    };
    adopt_status(object, &mut claim)?;
    claim.spec.charge = Charge { resources: claim.status.capacity.clone(), dollars_per_hour: 0.0 };
    claim.spec.charge.resources.set("nodes", model::Quantity::from_units(1));
    claim.phase = phase(&claim);
    if claim.phase == Phase::Stopped {
        claim.spec.charge = Charge::default();
    }
    Ok(claim)
}

fn adopt_spec(object: &NodeClaim) -> Result<claim::NodeClaimSpec, FieldError> {
    let spec = &object.spec;
    let requirements = requirements(&spec.requirements, "spec.requirements")?;
    let types = requirements.get(labels::INSTANCE_TYPE).and_then(model::Requirement::values);
    let requests =
        spec.resources.as_ref().map(|resources| resource_list(&resources.requests, "spec.resources.requests"));
    let grace = spec.termination_grace_period.as_deref();
    Ok(claim::NodeClaimSpec {
        instance_types: types.into_iter().flatten().cloned().collect(),
        requirements,
        labels: object.metadata.labels.clone().unwrap_or_default(),
        annotations: spec_annotations(object),
        taints: taints(&spec.taints),
        startup_taints: taints(&spec.startup_taints),
        requests: requests.transpose()?.unwrap_or_default(),
        expire_after: nillable_duration(&spec.expire_after, "spec.expireAfter")?.duration(),
        termination_grace_period: grace.map(|text| duration(text, "spec.terminationGracePeriod")).transpose()?,
        ..claim::NodeClaimSpec::default()
    })
}

/// The annotations of the spec, without those that [`mirror`] derives from the status.
fn spec_annotations(object: &NodeClaim) -> model::StringMap {
    let mut annotations = object.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(labels::PRICE_PER_HOUR);
    annotations
}

fn adopt_status(object: &NodeClaim, claim: &mut model::NodeClaim) -> Result<(), FieldError> {
    if let Some(status) = &object.status {
        claim.status.capacity = resource_list(&status.capacity, "status.capacity")?;
        claim.status.allocatable = resource_list(&status.allocatable, "status.allocatable")?;
        claim.status.node_name.clone_from(&status.node_name);
        claim.status.last_pod_event = status.last_pod_event_time.as_ref().map(|time| time.0);
        if let Some(provider_id) = status.provider_id.as_deref().filter(|id| !id.is_empty()) {
            claim.status.instance = Some(instance(claim, provider_id, object)?);
        }
    }
    if let Some(requested) = object.metadata.deletion_timestamp.as_ref() {
        claim.status.termination = Some(Termination {
            reason: TerminationReason::Deleted,
            message: "its NodeClaim object was deleted".to_owned(),
            requested: requested.0,
            deadline: deadline(object)?,
        });
    }
    Ok(())
}

fn deadline(object: &NodeClaim) -> Result<Option<Timestamp>, FieldError> {
    let annotations = object.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(labels::TERMINATION_TIMESTAMP));
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error| FieldError::new(format!("metadata.annotations[{}]", labels::TERMINATION_TIMESTAMP), error))
}

fn instance(claim: &model::NodeClaim, provider_id: &str, object: &NodeClaim) -> Result<LaunchedInstance, FieldError> {
    let id = model::node::instance_id(provider_id)
        .ok_or_else(|| FieldError::new("status.providerID", format!("{provider_id:?} names no EC2 instance")))?;
    let label = |key: &str| {
        claim.status.labels.get(key).ok_or_else(|| FieldError::new(format!("metadata.labels[{key}]"), "it is missing"))
    };
    let capacity_type = label(labels::CAPACITY_TYPE)?;
    let price = object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(labels::PRICE_PER_HOUR));
    let launched = claim.condition(condition::LAUNCHED).map(|condition| condition.last_transition_time);
    Ok(LaunchedInstance {
        id: id.to_owned(),
        instance_type: label(labels::INSTANCE_TYPE)?.clone(),
        zone: label(labels::ZONE)?.clone(),
        capacity_type: CapacityType::from_label(capacity_type).ok_or_else(|| {
            FieldError::new(
                format!("metadata.labels[{}]", labels::CAPACITY_TYPE),
                format!("{capacity_type:?} is unknown"),
            )
        })?,
        // The price is only displayed and compared, so one that a user made unreadable counts as unknown.
        price: price.and_then(|price| price.parse().ok()).filter(|price: &f64| price.is_finite()).unwrap_or_default(),
        image_id: object.status.as_ref().and_then(|status| status.image_id.clone()).unwrap_or_default(),
        private_dns_name: None,
        reservation_id: claim.status.labels.get(labels::CAPACITY_RESERVATION_ID).cloned(),
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: launched.unwrap_or(claim.created),
        certificate_authority: None,
    })
}

fn phase(claim: &model::NodeClaim) -> Phase {
    if claim.has_condition(condition::INSTANCE_TERMINATING) {
        Phase::Terminating
    } else if claim.status.termination.is_some() {
        Phase::Draining
    } else if claim.has_condition(condition::INITIALIZED) {
        Phase::Initialized
    } else if claim.has_condition(condition::REGISTERED) {
        Phase::Registered
    } else if claim.shows_stopped() {
        // One that is being started is launching for pods.
        Phase::Stopped
    } else if claim.has_condition(condition::LAUNCHED) || claim.status.instance.is_some() {
        Phase::Launched
    } else {
        Phase::Reserved
    }
}
