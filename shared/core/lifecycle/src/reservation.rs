//! Instances that are no longer in the capacity reservation that they were launched into: it was cancelled or expired, or they
//! were moved out of it. They keep running, at the on-demand price.

use crate::effect::{Effect, Step};
use crate::observation::Observation;
use nodeless_model::claim::Charge;
use nodeless_model::object::NodePatch;
use nodeless_model::{CapacityType, Instance, InstanceState, NodeClaim, StringMap, labels};

/// Whether EC2 reports that the instance of a claim is on-demand now, though it was launched into a capacity
/// reservation.
#[must_use]
pub fn has_left_its_reservation(claim: &NodeClaim, instance: &Instance) -> bool {
    let launched = claim.status.instance.as_ref();
    launched.is_some_and(|launched| launched.id == instance.id && launched.capacity_type == CapacityType::Reserved)
        && !claim.phase.is_leaving()
        // EC2 may not report the reservation of an instance that is starting.
        && instance.state == InstanceState::Running
        && instance.capacity_type == CapacityType::OnDemand
        && instance.reservation_id.is_none()
}

/// The claim with its instance as on-demand at this price in dollars per hour, and its new charge.
#[must_use]
pub fn demoted(claim: &NodeClaim, price: f64) -> (NodeClaim, Charge) {
    let mut next = claim.clone();
    if let Some(launched) = &mut next.status.instance {
        launched.capacity_type = CapacityType::OnDemand;
        launched.reservation_id = None;
        launched.price = price;
    }
    CapacityType::OnDemand.correct(&mut next.status.labels);
    let dollars_per_hour = price + claim.root_volume_price();
    (next, Charge { dollars_per_hour, ..claim.spec.charge.clone() })
}

/// Removes the labels of a reservation from the Node and the NodeClaim object of an instance that is in none.
pub(crate) fn relabel(step: &mut Step, seen: &Observation) {
    let Some(capacity_type) = step.claim.status.instance.as_ref().map(|launched| launched.capacity_type) else {
        return;
    };
    let shown = seen.mirror.known().and_then(Option::as_ref).and_then(|mirror| mirror.capacity_type);
    let mirror = capacity_type != CapacityType::Reserved && shown == Some(CapacityType::Reserved);
    let nodes: Vec<Effect> = seen
        .nodes
        .known()
        .into_iter()
        .flatten()
        .filter(|node| capacity_type.contradicts(&node.labels))
        .map(|node| {
            let present = labels::OF_A_RESERVATION.iter().filter(|key| node.labels.contains_key(**key));
            let patch = NodePatch {
                labels: StringMap::from([(labels::CAPACITY_TYPE.to_owned(), capacity_type.as_str().to_owned())]),
                remove_labels: present.map(|key| (*key).to_owned()).collect(),
                ..NodePatch::default()
            };
            Effect::patch_node(node, patch)
        })
        .collect();
    // The node is patched last: what it shows, its NodeClaim shows too.
    if (mirror || !nodes.is_empty()) && !step.effects.contains(&Effect::MirrorClaim) {
        step.effects.push(Effect::MirrorClaim);
    }
    step.effects.extend(nodes);
}
