//! The events of a command, with Karpenter's reasons.

use super::CommandRecord;
use crate::output::Candidate;
use nodeless_model::object::{ObjectEvent, ObjectRef};

pub(super) fn launching(record: &CommandRecord) -> Vec<ObjectEvent> {
    let text = format!("Launching NodeClaim: {:?}", record.command.reason);
    record.replacements.iter().map(|claim| claim_event(&claim.name, false, "DisruptionLaunching", &text)).collect()
}

pub(super) fn waiting(record: &CommandRecord) -> Vec<ObjectEvent> {
    let text = "Waiting until the node is ready before the nodes it replaces are drained";
    record
        .replacements
        .iter()
        .map(|claim| claim_event(&claim.name, false, "DisruptionWaitingReadiness", text))
        .collect()
}

pub(super) fn terminating(record: &CommandRecord, candidate: &Candidate) -> [ObjectEvent; 2] {
    let reason = record.command.reason;
    [
        claim_event(
            &candidate.node_claim,
            false,
            "DisruptionTerminating",
            &format!("Disrupting NodeClaim: {reason:?}"),
        ),
        node_event(&candidate.node, false, "DisruptionTerminating", &format!("Disrupting Node: {reason:?}")),
    ]
}

pub(super) fn failed(candidate: &Candidate, why: &str) -> [ObjectEvent; 2] {
    [
        claim_event(&candidate.node_claim, true, "DisruptionBlocked", &format!("Cannot disrupt NodeClaim: {why}")),
        node_event(&candidate.node, true, "DisruptionBlocked", &format!("Cannot disrupt Node: {why}")),
    ]
}

fn claim_event(name: &str, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    event("karpenter.sh/v1", "NodeClaim", name, warning, reason, message)
}

fn node_event(name: &str, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    event("v1", "Node", name, warning, reason, message)
}

fn event(api_version: &str, kind: &str, name: &str, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: String::new(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
