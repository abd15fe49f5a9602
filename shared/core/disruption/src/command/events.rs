//! The events of a command.

use super::CommandRecord;
use crate::output::Candidate;
use nodeless_model::NodeClaim;
use nodeless_model::events::{
    disruption_failed, disruption_launching, disruption_terminating, disruption_waiting_readiness,
};
use nodeless_model::object::{ObjectEvent, ObjectRef};

pub(super) fn launching(record: &CommandRecord) -> Vec<ObjectEvent> {
    let reason = record.command.reason;
    replacements(record).map(|claim| disruption_launching(claim, reason)).collect()
}

pub(super) fn waiting(record: &CommandRecord) -> Vec<ObjectEvent> {
    replacements(record).map(disruption_waiting_readiness).collect()
}

pub(super) fn terminating(record: &CommandRecord, candidate: &Candidate) -> [ObjectEvent; 2] {
    let reason = format!("{:?}", record.command.reason);
    objects(candidate).map(|object| disruption_terminating(object, &reason))
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
