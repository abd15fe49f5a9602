//! Voluntary disruption, shared by stages and dry runs.

use crate::facts::Facts;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::instances;
use crate::pools::EvaluatedPool;
use crate::pools::registration_health::HEALTHY;
use jiff::Timestamp;
use nodeless_api::NodePoolStatus;
use nodeless_disruption::command::CommandRecord;
use nodeless_disruption::{Cluster, ClusterNode, Decision, KeptReason, NodeClassFacts, UndecodedPod};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::duration::format_go_duration;
use nodeless_model::{ConditionStatus, DisruptionReason, NodeClaim, Pod};
use nodeless_operations::node_class;
use nodeless_ports::cluster::{Binding, ClusterView, InvalidObject};
use std::collections::BTreeMap;
use std::time::Duration;

/// When the first node that stays only for a limited time may be evaluated again, rounded up to whole seconds.
pub(crate) fn next_change(decision: &Decision, now: Timestamp) -> Option<Duration> {
    let until = decision.kept.iter().flat_map(|kept| &kept.reasons).filter_map(|reason| match reason {
        KeptReason::TooRecent { until, .. }
        | KeptReason::Nominated { until }
        | KeptReason::UnreadyReplacements { until, .. } => Some(*until),
        KeptReason::AmiCanary { until, .. } => *until,
        _ => None,
    });
    let wait = Duration::try_from(until.min()?.duration_since(now)).unwrap_or_default();
    Some(Duration::from_secs(wait.as_secs() + 1))
}

/// Why no node may be disrupted voluntarily now: an object that could not be decoded may forbid it. A pod whose node is known forbids
/// only the disruption of that node.
pub(crate) fn doubt(view: &ClusterView) -> Option<String> {
    let matters = |object: &&InvalidObject| match object.kind.as_str() {
        "Pod" => object.outline.binding == Binding::Unknown,
        kind => ["Node", "PodDisruptionBudget", "DaemonSet", "CapacityBuffer", "ProvisioningRequest"].contains(&kind),
    };
    view.invalid.iter().find(matters).map(undecoded)
}

/// The nodes with a pod that could not be decoded, each with the pod and the reason.
pub(crate) fn undecoded_pods(view: &ClusterView) -> BTreeMap<String, String> {
    let of_nodes = view.invalid.iter().filter_map(|object| Some((object.node_of_pod()?.to_owned(), undecoded(object))));
    of_nodes.collect()
}

fn undecoded(object: &InvalidObject) -> String {
    format!("{} {} cannot be decoded: {}", object.kind, object.name, object.message)
}

/// The properties that drift compares nodes with, by the name of the EC2NodeClass. A class without nodeless' hash is not resolved
/// yet, so nodes cannot be compared with it.
pub(crate) fn class_facts(view: &ClusterView) -> BTreeMap<String, NodeClassFacts> {
    let classes = view.node_classes.iter();
    classes.filter_map(|(name, class)| Some((name.clone(), node_class::facts(class)?))).collect()
}

/// The cluster as decisions see it. A command must not block its own validation: `without` names it.
pub(crate) fn input<'a>(
    cluster_state: &'a ClusterState<'_>,
    evaluated: &'a [EvaluatedPool],
    commands: &'a [CommandRecord],
    without: Option<&str>,
) -> Cluster<'a> {
    let others = || commands.iter().filter(|record| without != Some(record.command.id.as_str()));
    let under_way = others().map(|record| &record.command).collect();
    let commands: BTreeMap<&str, &str> = others()
        .flat_map(|record| {
            let id = record.command.id.as_str();
            record.candidates().iter().map(move |candidate| (candidate.node_claim.as_str(), id))
        })
        .collect();
    Cluster {
        nodes: cluster_state
            .places
            .iter()
            .map(|place| ClusterNode {
                node: place.node,
                claim: place.claim,
                pods: place.pods.clone(),
                undecoded: place.undecoded.iter().map(|object| of_pod(object)).collect(),
                command: place.claim.and_then(|claim| commands.get(claim.name.as_str()).copied()),
                instance: None,
            })
            .collect(),
        node_pools: evaluated.iter().map(EvaluatedPool::offer).collect(),
        node_classes: class_facts(cluster_state.view),
        // A node that kube-scheduler does not place them on is not kept for them.
        pending_pods: cluster_state.pending.iter().map(|one| one.pod).collect(),
        orphans: cluster_state.orphans.clone(),
        virtual_pods: cluster_state.kept_virtual_pods(),
        disruption_budgets: &cluster_state.view.disruption_budgets,
        daemon_sets: &cluster_state.view.daemon_sets,
        facts: cluster_state.facts(),
        options: cluster_state.view.options.clone(),
        under_way,
        registration_failures: registration_failures(cluster_state.view),
        shifted_zones: cluster_state.shifted.iter().map(|shifted| (shifted.zone.clone(), shifted.until)).collect(),
        ..Cluster::default()
    }
}

fn of_pod(object: &InvalidObject) -> UndecodedPod<'_> {
    UndecodedPod { name: &object.name, uid: &object.outline.uid, why: &object.message }
}

/// The cluster with the commitments that apply to its nodes, if plans use any.
pub(crate) fn with_commitments<'a>(
    cluster: Cluster<'a>,
    cluster_state: &ClusterState<'_>,
    facts: Facts<'a>,
) -> Cluster<'a> {
    let Some(commitments) = &facts.snapshot.commitments else { return cluster };
    let instances = cluster_state.places.iter().map(|place| Some(instances::of_place(place, &facts.snapshot.catalog)));
    let nodes = cluster.nodes.into_iter().zip(instances);
    let nodes = nodes.map(|(node, instance)| ClusterNode { instance, ..node }).collect();
    Cluster { nodes, commitments: Some(commitments), ..cluster }
}

/// The NodePools whose last nodes did not register, with the reason.
fn registration_failures(view: &ClusterView) -> BTreeMap<String, String> {
    let failed = |status: &NodePoolStatus| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == HEALTHY)?;
        (condition.status == nodeless_api::ConditionStatus::False)
            .then(|| format!("{}: {}", condition.reason, condition.message))
    };
    view.node_pool_statuses.iter().filter_map(|(name, status)| Some((name.clone(), failed(status)?))).collect()
}

/// The pods that would have to move to another node.
pub(crate) fn reschedulable<'p, 'a>(pods: &'p [&'a Pod]) -> impl Iterator<Item = &'a Pod> + use<'p, 'a> {
    pods.iter().copied().filter(|pod| pod.is_reschedulable())
}

pub(crate) fn termination(reason: DisruptionReason) -> TerminationReason {
    match reason {
        DisruptionReason::Empty => TerminationReason::Empty,
        DisruptionReason::Underutilized => TerminationReason::Underutilized,
        DisruptionReason::Drifted => TerminationReason::Drifted,
        DisruptionReason::Unhealthy => TerminationReason::Repaired,
        DisruptionReason::Unbalanced => TerminationReason::Unbalanced,
    }
}

/// The reason of a command for a node, in a sentence.
pub(crate) fn message(reason: DisruptionReason, claim: &NodeClaim) -> String {
    let stated = |kind: &str| {
        let condition = claim.condition(kind).filter(|condition| condition.status == ConditionStatus::True)?;
        Some(condition.message.clone()).filter(|message| !message.is_empty())
    };
    match reason {
        DisruptionReason::Empty => "its node has no pods".to_owned(),
        DisruptionReason::Underutilized => "its pods fit elsewhere for less".to_owned(),
        DisruptionReason::Unhealthy => "it has been unhealthy for too long".to_owned(),
        DisruptionReason::Unbalanced => "its pods are uneven over zones".to_owned(),
        DisruptionReason::Drifted => stated(condition::DRIFTED)
            .or_else(|| stated(condition::REBALANCE_RECOMMENDED))
            .or_else(|| {
                Some(format!("it reaches its expireAfter of {} soon", format_go_duration(claim.spec.expire_after?)))
            })
            .unwrap_or_else(|| "it no longer matches its NodePool or EC2NodeClass".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::RestrictedPod;
    use nodeless_ports::cluster::Outline;

    #[test]
    fn pods_that_wait_keep_no_node_that_they_are_not_planned_for() {
        let pod = |uid: &str, node: &str| Pod {
            uid: uid.into(),
            template: nodeless_model::PodTemplate {
                node_selector: [("kubernetes.io/hostname".to_owned(), node.to_owned())].into(),
                ..nodeless_model::PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        };
        let view = ClusterView { pods: vec![pod("a", "n").into(), pod("b", "n").into()], ..ClusterView::default() };
        let restricted = [RestrictedPod { pod: pod("a", "none"), without_launch: None }];
        let mut cluster_state = ClusterState::new(&view, &[]);
        cluster_state.pending.restrict(&restricted);
        let pending = input(&cluster_state, &[], &[], None).pending_pods;
        let nodes: Vec<&str> =
            pending.iter().map(|pod| pod.template.node_selector.values().next().unwrap().as_str()).collect();
        assert_eq!(nodes, ["none", "n"]);
    }

    #[test]
    fn a_pod_whose_node_cannot_be_read_forbids_all_voluntary_disruption() {
        let of = |kind: &str, binding| {
            let outline = Outline { binding, ..Outline::default() };
            let object = InvalidObject { kind: kind.into(), name: "odd".into(), message: "why".into(), outline };
            doubt(&ClusterView { invalid: vec![object], ..ClusterView::default() })
        };
        assert_eq!(of("Pod", Binding::Unknown).as_deref(), Some("Pod odd cannot be decoded: why"));
        assert_eq!(of("Pod", Binding::Unbound), None);
        assert_eq!(of("Pod", Binding::Node("a".into())), None);
        assert!(of("DaemonSet", Binding::Unbound).is_some());
        assert_eq!(of("NodePool", Binding::Unknown), None);
    }
}
