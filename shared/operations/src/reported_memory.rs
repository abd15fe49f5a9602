//! How much memory nodes reported, kept in the claims table: what new nodes are planned by.
//!
//! Every Node of ours teaches from when its kubelet has reported: from then on plans know that a pod does not fit there, and would
//! launch another like it. Each plan that sees it notes the same, so that nothing is lost where a write was. It is written only
//! where it changes what is known.

use crate::records::{self, RecordError};
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_catalog::{NodeClassSettings, ReportedMemory};
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::{Node, NodeClaim, resources};
use nodeless_ports::{PortError, RecordKind, StoredRecord};
use std::collections::HashMap;

/// What is known from the table and from the Nodes that are there.
pub(crate) struct Known {
    pub(crate) memory: ReportedMemory,
    /// What has to be written, where that is more than the table knows.
    pub(crate) record: Option<StoredRecord>,
    /// What is wrong with the record in the table.
    pub(crate) problem: Option<String>,
}

/// What is known from the table and from these Nodes. A record that cannot be understood is written anew.
pub(crate) fn known(
    stored: &Result<StoredRecord, String>,
    nodes: &[Node],
    claims: &[NodeClaim],
    now: Timestamp,
) -> Known {
    let (before, mut problem) = match stored.as_ref().map(decode) {
        Ok(Ok(memory)) => (memory, None),
        Ok(Err(why)) => (ReportedMemory::default(), Some(format!("{why}; what is known begins anew"))),
        Err(why) => (ReportedMemory::default(), Some(format!("how much memory nodes reported is not known: {why}"))),
    };
    let mut memory = before.clone();
    note(&mut memory, nodes, claims, now);
    let mut record = None;
    // Over a record that could not be read nothing is written.
    if let Ok(stored) = stored
        && memory != before
    {
        memory.tidy(now);
        match encode(&memory, stored.version, now) {
            Ok(encoded) => record = Some(encoded),
            Err(error) => problem = Some(format!("how much memory nodes reported: {error}")),
        }
    }
    Known { memory, record, problem }
}

/// Notes what Nodes with a claim report.
fn note(memory: &mut ReportedMemory, nodes: &[Node], claims: &[NodeClaim], now: Timestamp) {
    let instances = claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    let by_id: HashMap<&str, &LaunchedInstance> = instances.map(|instance| (instance.id.as_str(), instance)).collect();
    for node in nodes {
        let Some(instance) = node.instance_id().and_then(|id| by_id.get(id).copied()) else { continue };
        let reported = node.capacity.get(resources::name::MEMORY);
        if reported.milli() > 0 && !instance.image_id.is_empty() {
            memory.note(&instance.image_id, &instance.instance_type, reported, now);
        }
    }
}

/// Has an EC2NodeClass plan by what nodes with its images reported.
pub(crate) fn apply(settings: &mut NodeClassSettings, class: &EC2NodeClass, memory: &ReportedMemory, now: Timestamp) {
    let images = class.status.iter().flat_map(|status| &status.amis);
    settings.learned_memory = memory.of_images(images.map(|image| image.id.as_str()), now);
}

/// What a record of the table holds.
///
/// # Errors
/// When it is nothing that this version writes.
pub(crate) fn decode(stored: &StoredRecord) -> Result<ReportedMemory, RecordError> {
    if stored.version == 0 {
        Ok(ReportedMemory::default())
    } else {
        records::decode(RecordKind::ReportedMemory, stored)
    }
}

fn encode(memory: &ReportedMemory, version: u64, now: Timestamp) -> Result<StoredRecord, PortError> {
    records::encode("", version, memory, Some(memory.ends().unwrap_or(now)))
}
