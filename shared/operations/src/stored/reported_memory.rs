//! The memory that nodes report, kept in the claims table and used for planning new nodes.
//!
//! The memory that a Node reports replaces the estimate for its instance type and image. Without it, a plan would launch the same
//! instance type again for a pod that does not fit there. Each plan records all Nodes that it sees, so a lost write is repeated.
//! The record is written only if it changes.

use crate::records::{self, RecordError};
use crate::unread::Unread;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_catalog::{NodeClassSettings, ReportedMemory};
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::{Node, NodeClaim, labels, resources};
use nodeless_ports::PortError;
use nodeless_ports::cluster::ClusterView;
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::{HashMap, HashSet};

/// The reported memory in the table and of the present Nodes.
pub struct Known {
    /// The memory of the nodes of each AMI and instance type.
    pub memory: ReportedMemory,
    /// The record to write, if the table is out of date.
    pub record: Option<StoredRecord>,
    /// What is wrong with the record in the table.
    pub problem: Option<String>,
}

/// Combines the record of the table with the present Nodes. A record that cannot be decoded is replaced.
pub fn known(stored: &Result<StoredRecord, Unread>, nodes: &[Node], claims: &[NodeClaim], now: Timestamp) -> Known {
    let (before, mut problem) = match stored.as_ref().map(decode) {
        Ok(Ok(memory)) => (memory, None),
        Ok(Err(why)) => (ReportedMemory::default(), Some(format!("{why}; the record is reset"))),
        Err(why) => (ReportedMemory::default(), Some(format!("the memory that nodes reported is unknown: {why}"))),
    };
    let mut memory = before.clone();
    note(&mut memory, nodes, claims, now);
    let mut record = None;
    // A record that could not be read is not overwritten.
    if let Ok(stored) = stored
        && memory != before
    {
        memory.tidy(now);
        match encode(&memory, stored.version, now) {
            Ok(encoded) => record = Some(encoded),
            Err(error) => problem = Some(format!("memory that nodes reported: {error}")),
        }
    }
    Known { memory, record, problem }
}

/// Records the memory of Nodes that have a claim.
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

/// The record for an export, which has no claims table. Without a NodeClaim, or without AMIs in the status of the EC2NodeClass, it is
/// unknown whether a Node has an AMI of its EC2NodeClass. The Node is assumed to have one, so its report counts for the EC2NodeClass.
pub fn of_export(view: &ClusterView, claims: &[NodeClaim], now: Timestamp) -> Result<StoredRecord, Unread> {
    let mut memory = ReportedMemory::default();
    note(&mut memory, &view.nodes, claims, now);
    let with_image = claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    let with_image = with_image.filter(|instance| !instance.image_id.is_empty());
    let with_image: HashSet<&str> = with_image.map(|instance| instance.id.as_str()).collect();
    for node in &view.nodes {
        let reported = node.capacity.get(resources::name::MEMORY);
        let (Some(class), Some(instance_type)) = (class_of(node, view), node.labels.get(labels::INSTANCE_TYPE)) else {
            continue;
        };
        let has_images = view.node_classes.get(class).and_then(|class| class.status.as_ref());
        let has_images = has_images.is_some_and(|status| !status.amis.is_empty());
        let image_known = node.instance_id().is_some_and(|id| with_image.contains(id));
        if reported.milli() > 0 && !(has_images && image_known) {
            memory.note(&any_image_of(class), instance_type, reported, now);
        }
    }
    encode(&memory, 1, now).map_err(Unread::from)
}

/// The EC2NodeClass of a Node of a NodePool.
fn class_of<'a>(node: &'a Node, view: &'a ClusterView) -> Option<&'a str> {
    let pool = view.node_pools.iter().find(|pool| Some(pool.name.as_str()) == node.node_pool())?;
    Some(node.labels.get(labels::EC2_NODE_CLASS).map_or(pool.template.node_class.as_str(), String::as_str))
}

/// Takes the place of an image in the reports that count for all images of an EC2NodeClass.
fn any_image_of(class: &str) -> String {
    format!("ec2nodeclass/{class}")
}

/// Makes an EC2NodeClass use the memory that nodes with its images reported.
pub fn apply(settings: &mut NodeClassSettings, class: &EC2NodeClass, memory: &ReportedMemory, now: Timestamp) {
    let images = class.status.iter().flat_map(|status| &status.amis).map(|image| image.id.as_str());
    let any = any_image_of(class.metadata.name.as_deref().unwrap_or_default());
    settings.learned_memory = memory.of_images(images.chain([any.as_str()]), now);
}

/// Decodes a record of the table.
///
/// # Errors
/// If this version cannot decode it.
pub fn decode(stored: &StoredRecord) -> Result<ReportedMemory, RecordError> {
    if stored.version == 0 {
        Ok(ReportedMemory::default())
    } else {
        records::decode(RecordKind::ReportedMemory, stored)
    }
}

fn encode(memory: &ReportedMemory, version: u64, now: Timestamp) -> Result<StoredRecord, PortError> {
    records::encode("", version, memory, Some(memory.ends().unwrap_or(now)))
}
