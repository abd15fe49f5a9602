//! The events of a command.

use super::CommandRecord;
use crate::output::Candidate;
use nodeless_model::NodeClaim;
use nodeless_model::events::{
    disruption_failed, disruption_launching, disruption_terminating, disruption_waiting_readiness, repairing,
};
use nodeless_model::object::{ObjectEvent, ObjectRef};

/// The text between the reason and the names of the nodes in the message of the Event DisruptionLaunching.
const REPLACES: &str = ", replaces ";

pub(super) fn launching(record: &CommandRecord) -> Vec<ObjectEvent> {
    let reason = record.command.reason;
    let nodes: Vec<&str> = record.command.candidates.iter().map(|one| one.node.as_str()).collect();
    let replaced = format!("{REPLACES}{}", nodes.join(", "));
    replacements(record)
        .map(|claim| {
            let mut event = disruption_launching(claim, reason);
            event.message.push_str(&replaced);
            event
        })
        .collect()
}

/// The nodes that a replacement is for, from the message of the Event DisruptionLaunching on its NodeClaim. The Kubernetes API shows
/// them nowhere else.
pub fn replaced_nodes(message: &str) -> impl Iterator<Item = &str> {
    message.split_once(REPLACES).into_iter().flat_map(|(_, nodes)| nodes.split(", "))
}

pub(super) fn waiting(record: &CommandRecord) -> Vec<ObjectEvent> {
    replacements(record).map(disruption_waiting_readiness).collect()
}

pub(super) fn terminating(record: &CommandRecord, candidate: &Candidate) -> [ObjectEvent; 2] {
    let reason = format!("{:?}", record.command.reason);
    objects(candidate).map(|object| match &record.command.repair {
        Some(repair) => repairing(object, &repair.why),
        None => disruption_terminating(object, &reason),
    })
}

pub(super) fn failed(candidate: &Candidate, why: &str) -> [ObjectEvent; 2] {
    objects(candidate).map(|object| disruption_failed(object, why))
}

fn replacements(record: &CommandRecord) -> impl Iterator<Item = ObjectRef> {
    record.replacements.iter().map(|claim: &NodeClaim| ObjectRef::node_claim(&claim.name, ""))
}

/// The NodeClaim and the Node.
fn objects(candidate: &Candidate) -> [ObjectRef; 2] {
    [ObjectRef::node_claim(&candidate.node_claim, ""), ObjectRef::node(&candidate.node, "")]
}
