//! Capacity blocks that end, and their instances with them.

use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::{ReservationState, ReservationType};
use nodeless_model::NodeClaim;
use std::collections::BTreeMap;

/// How long before the end of its capacity block a node is drained, as in Karpenter: EC2 terminates the instances half an hour
/// before the end, and pods need time to move.
const DRAIN_BEFORE: SignedDuration = SignedDuration::from_mins(40);

/// The claims to terminate because their capacity block ends soon, each with the reason.
pub(crate) fn ending<'a>(
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    classes: &[EC2NodeClass],
    now: Timestamp,
) -> Vec<(&'a NodeClaim, String)> {
    let reservations =
        classes.iter().filter_map(|class| class.status.as_ref()).flat_map(|status| &status.capacity_reservations);
    let blocks: BTreeMap<&str, String> = reservations
        .filter(|reservation| reservation.reservation_type == ReservationType::CapacityBlock)
        .filter_map(|block| {
            let end = block.end_time.as_ref().map(|end| end.0);
            let soon = end.is_some_and(|end| end.duration_since(now) <= DRAIN_BEFORE);
            let when = end.map_or_else(|| "soon".to_owned(), |end| format!("at {end}"));
            (soon || block.state == ReservationState::Expiring)
                .then(|| (block.id.as_str(), format!("its capacity block {} ends {when}", block.id)))
        })
        .collect();
    let why = |claim: &NodeClaim| blocks.get(claim.status.instance.as_ref()?.reservation_id.as_deref()?).cloned();
    claims
        .into_iter()
        .filter(|claim| !claim.phase.is_leaving())
        .filter_map(|claim| Some((claim, why(claim)?)))
        .collect()
}
