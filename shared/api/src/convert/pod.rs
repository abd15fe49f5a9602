//! Pods.

use super::{ConvertError, FieldError, node, requests, selector, status};
use crate::slim;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as corev1;
use model::pod::{HostPort, PodAffinityTerm, PodPhase, TopologySpread, VolumeClaim, Weighted};
use model::requirement::RequirementTerm;
use nodeless_model as model;
use std::sync::Arc;

/// The scheduler of pods that name no other one.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl TryFrom<&slim::Pod> for model::Pod {
    type Error = ConvertError;

    fn try_from(pod: &slim::Pod) -> Result<Self, ConvertError> {
        let key = || {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("Pod {}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
        };
        convert(pod).map_err(|error| error.for_object(key()))
    }
}

fn convert(pod: &slim::Pod) -> Result<model::Pod, FieldError> {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let affinity = spec.affinity.as_deref();
    let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.clone().find(|owner| owner.controller == Some(true)).or_else(|| owners.next());
    let condition = |kind: &str| pod.status.conditions.iter().find(|condition| condition.type_ == kind);
    let scheduled = condition("PodScheduled");
    let template = model::PodTemplate {
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: read(metadata.annotations.as_ref()),
        scheduling_gates: spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect(),
        requests: requests::of_pod(spec, &pod.status)?,
        requests_again: None,
        node_selector: spec.node_selector.clone(),
        required_node_affinity: required_node_affinity(node_affinity)?,
        preferred_node_affinity: preferred_node_affinity(node_affinity)?,
        has_match_fields: has_match_fields(node_affinity),
        required_pod_affinity: required_terms(
            pod_affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref()),
            "spec.affinity.podAffinity",
        )?,
        preferred_pod_affinity: preferred_terms(
            pod_affinity.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref()),
            "spec.affinity.podAffinity",
        )?,
        required_pod_anti_affinity: required_terms(
            anti_affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref()),
            "spec.affinity.podAntiAffinity",
        )?,
        preferred_pod_anti_affinity: preferred_terms(
            anti_affinity.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref()),
            "spec.affinity.podAntiAffinity",
        )?,
        topology_spread: spec.topology_spread_constraints.iter().map(topology_spread).collect::<Result<_, _>>()?,
        pod_group: spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.clone()),
        scheduler_name: spec.scheduler_name.clone().filter(|name| !matches!(name.as_str(), "" | DEFAULT_SCHEDULER)),
        tolerations: spec.tolerations.iter().map(toleration).collect::<Result<_, _>>()?,
        priority: spec.priority.unwrap_or(0),
        priority_class_name: spec.priority_class_name.clone(),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        host_ports: running(spec).flat_map(|container| &container.ports).filter_map(host_port).collect(),
        volume_claims: volume_claims(pod),
        resource_claims: resource_claims(pod),
    };
    Ok(model::Pod {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        resource_version: metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
        deletion_timestamp: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        owner_kind: owner.map(|owner| owner.kind.clone()),
        owner_name: owner.map(|owner| owner.name.clone()),
        owner_is_custom: owner.is_some_and(|owner| is_custom(&owner.api_version)),
        node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
        nominated_node_name: pod.status.nominated_node_name.clone().filter(|name| !name.is_empty()),
        phase: phase(pod.status.phase.as_deref())?,
        ready: condition("Ready").map(|ready| status(&ready.status) == Some(true)),
        marked_unschedulable: scheduled.is_some_and(|it| it.reason.as_deref() == Some("Unschedulable")),
        reported: scheduled.map(|it| it.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)),
        start_time: pod.status.start_time.as_ref().map(|time| time.0),
        template: Arc::new(template),
        origin: model::PodOrigin::Cluster,
    })
}

/// Whether a version is one of an API group that Kubernetes has no workloads in.
fn is_custom(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| !matches!(group, "apps" | "batch"))
}

/// The annotations that nodeless reads. Others differ between the pods of a workload, as those of some network plugins do.
fn read(annotations: Option<&model::StringMap>) -> model::StringMap {
    let read = annotations.into_iter().flatten().filter(|(key, _)| model::labels::is_read(key));
    read.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The claims for devices, each with the ResourceClaim that it refers to or that was made for it.
fn resource_claims(pod: &slim::Pod) -> Vec<model::pod::ResourceClaim> {
    let made = |name: &str| {
        let mut made = pod.status.resource_claim_statuses.iter();
        made.find(|made| made.name == name).and_then(|made| made.resource_claim_name.clone())
    };
    let claim = |claim: &slim::PodClaim| model::pod::ResourceClaim {
        name: claim.name.clone(),
        claim: claim.resource_claim_name.clone().or_else(|| made(&claim.name)),
        template: claim.resource_claim_template_name.clone(),
    };
    pod.spec.resource_claims.iter().map(claim).collect()
}

fn phase(text: Option<&str>) -> Result<PodPhase, FieldError> {
    Ok(match text {
        None | Some("" | "Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        Some(other) => return Err(FieldError::new("status.phase", format!("{other:?} is unknown"))),
    })
}

fn required_node_affinity(affinity: Option<&corev1::NodeAffinity>) -> Result<Vec<Vec<RequirementTerm>>, FieldError> {
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.iter().flat_map(|selector| &selector.node_selector_terms).map(node_selector_term).collect()
}

fn preferred_node_affinity(
    affinity: Option<&corev1::NodeAffinity>,
) -> Result<Vec<Weighted<Vec<RequirementTerm>>>, FieldError> {
    let preferred = affinity.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    preferred
        .into_iter()
        .flatten()
        .map(|term| Ok(Weighted { weight: term.weight, preference: node_selector_term(&term.preference)? }))
        .collect()
}

fn has_match_fields(affinity: Option<&corev1::NodeAffinity>) -> bool {
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required
        .iter()
        .flat_map(|selector| &selector.node_selector_terms)
        .any(|term| term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()))
}

fn node_selector_term(term: &corev1::NodeSelectorTerm) -> Result<Vec<RequirementTerm>, FieldError> {
    term.match_expressions.iter().flatten().map(node_expression).collect()
}

fn node_expression(expression: &corev1::NodeSelectorRequirement) -> Result<RequirementTerm, FieldError> {
    use model::Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let field = "spec.affinity.nodeAffinity";
    let operator = [In, NotIn, Exists, DoesNotExist, Gt, Lt]
        .into_iter()
        .find(|operator| operator.as_str() == expression.operator)
        .ok_or_else(|| FieldError::new(field, format!("unknown operator {:?}", expression.operator)))?;
    Ok(RequirementTerm {
        key: expression.key.clone(),
        operator,
        values: expression.values.clone().unwrap_or_default(),
        min_values: None,
    })
}

fn required_terms(
    terms: Option<&Vec<corev1::PodAffinityTerm>>,
    field: &str,
) -> Result<Vec<PodAffinityTerm>, FieldError> {
    terms.into_iter().flatten().map(|term| affinity_term(term, field)).collect()
}

fn preferred_terms(
    terms: Option<&Vec<corev1::WeightedPodAffinityTerm>>,
    field: &str,
) -> Result<Vec<Weighted<PodAffinityTerm>>, FieldError> {
    let weighted = |term: &corev1::WeightedPodAffinityTerm| {
        Ok(Weighted { weight: term.weight, preference: affinity_term(&term.pod_affinity_term, field)? })
    };
    terms.into_iter().flatten().map(weighted).collect()
}

fn affinity_term(term: &corev1::PodAffinityTerm, field: &str) -> Result<PodAffinityTerm, FieldError> {
    let label_selector = term.label_selector.as_ref().map(|it| selector(it, &format!("{field}.labelSelector")));
    let namespaces = term.namespace_selector.as_ref().map(|it| selector(it, &format!("{field}.namespaceSelector")));
    Ok(PodAffinityTerm {
        selector: label_selector.transpose()?,
        match_label_keys: term.match_label_keys.clone().unwrap_or_default(),
        mismatch_label_keys: term.mismatch_label_keys.clone().unwrap_or_default(),
        namespaces: term.namespaces.clone().unwrap_or_default(),
        namespace_selector: namespaces.transpose()?,
        topology_key: term.topology_key.clone(),
    })
}

fn topology_spread(constraint: &corev1::TopologySpreadConstraint) -> Result<TopologySpread, FieldError> {
    let field = "spec.topologySpreadConstraints";
    let label_selector = constraint.label_selector.as_ref().map(|it| selector(it, &format!("{field}.labelSelector")));
    let honors = |policy: &Option<String>, default: &str| policy.as_deref().unwrap_or(default) == "Honor";
    Ok(TopologySpread {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.clone(),
        hard: match constraint.when_unsatisfiable.as_str() {
            "DoNotSchedule" => true,
            "ScheduleAnyway" => false,
            other => return Err(FieldError::new(field, format!("whenUnsatisfiable {other:?} is unknown"))),
        },
        selector: label_selector.transpose()?,
        match_label_keys: constraint.match_label_keys.clone().unwrap_or_default(),
        min_domains: constraint.min_domains,
        honor_node_affinity: honors(&constraint.node_affinity_policy, "Honor"),
        honor_node_taints: honors(&constraint.node_taints_policy, "Ignore"),
    })
}

fn toleration(from: &corev1::Toleration) -> Result<model::Toleration, FieldError> {
    use model::taint::TolerationOperator;
    let field = "spec.tolerations";
    let operator = match from.operator.as_deref() {
        None | Some("" | "Equal") => TolerationOperator::Equal,
        Some("Exists") => TolerationOperator::Exists,
        Some("Lt") => TolerationOperator::Lt,
        Some("Gt") => TolerationOperator::Gt,
        Some(other) => return Err(FieldError::new(field, format!("operator {other:?} is not supported"))),
    };
    let effect = match from.effect.as_deref() {
        None | Some("") => None,
        Some(text) => {
            Some(node::effect(text).ok_or_else(|| FieldError::new(field, format!("effect {text:?} is unknown")))?)
        }
    };
    Ok(model::Toleration {
        key: from.key.clone().unwrap_or_default(),
        operator,
        value: from.value.clone().unwrap_or_default(),
        effect,
        toleration_seconds: from.toleration_seconds,
    })
}

/// The containers that run as long as the pod, including sidecars.
fn running(spec: &slim::PodSpec) -> impl Iterator<Item = &slim::Container> {
    let sidecars =
        spec.init_containers.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars)
}

fn host_port(port: &slim::ContainerPort) -> Option<HostPort> {
    Some(HostPort {
        ip: port.host_ip.clone().unwrap_or_default(),
        port: port.host_port.filter(|port| *port != 0)?,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
    })
}

fn volume_claims(pod: &slim::Pod) -> Vec<VolumeClaim> {
    let name = pod.metadata.name.as_deref();
    pod.spec.volumes.iter().filter_map(|volume| volume_claim(volume, name)).collect()
}

fn volume_claim(volume: &slim::Volume, pod: Option<&str>) -> Option<VolumeClaim> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(VolumeClaim { claim_name: source.claim_name.clone(), ephemeral: false }),
        (None, Some(_)) => {
            let claim_name = format!("{}-{}", pod.unwrap_or_default(), volume.name);
            Some(VolumeClaim { claim_name, ephemeral: true })
        }
        (None, None) => None,
    }
}
