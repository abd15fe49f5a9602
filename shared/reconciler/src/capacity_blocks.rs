//! Capacity blocks that end, and their instances with them.

use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::{ReservationState, ReservationType};
use nodeless_model::NodeClaim;
use std::collections::BTreeMap;

/// How long before the end of its capacity block a node is drained, as in Karpenter: EC2 terminates the instances half an hour
/// before the end, and pods need time to move.
const DRAIN_BEFORE: SignedDuration = SignedDuration::from_mins(40);

/// How long before the end of a capacity block EC2 terminates its instances.
const TERMINATED_BEFORE: SignedDuration = SignedDuration::from_mins(30);

/// A claim to terminate because its capacity block ends soon.
pub(crate) struct Ending<'a> {
    pub(crate) claim: &'a NodeClaim,
    pub(crate) why: String,
    /// When EC2 terminates the instance, if that is known.
    pub(crate) ends: Option<Timestamp>,
}

/// The claims to terminate because their capacity block ends soon.
pub(crate) fn ending<'a>(
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    classes: &[EC2NodeClass],
    now: Timestamp,
) -> Vec<Ending<'a>> {
    let reservations =
        classes.iter().filter_map(|class| class.status.as_ref()).flat_map(|status| &status.capacity_reservations);
    let blocks: BTreeMap<&str, (String, Option<Timestamp>)> = reservations
        .filter(|reservation| reservation.reservation_type == ReservationType::CapacityBlock)
        .filter_map(|block| {
            let end = block.end_time.as_ref().map(|end| end.0);
            let soon = end.is_some_and(|end| end.duration_since(now) <= DRAIN_BEFORE);
            let when = end.map_or_else(|| "soon".to_owned(), |end| format!("at {end}"));
            (soon || block.state == ReservationState::Expiring).then(|| {
                let ends = end.and_then(|end| end.checked_sub(TERMINATED_BEFORE).ok());
                (block.id.as_str(), (format!("its capacity block {} ends {when}", block.id), ends))
            })
        })
        .collect();
    let ending = |claim: &'a NodeClaim| {
        let (why, ends) = blocks.get(claim.status.instance.as_ref()?.reservation_id.as_deref()?).cloned()?;
        Some(Ending { claim, why, ends })
    };
    claims.into_iter().filter(|claim| !claim.phase.is_leaving()).filter_map(ending).collect()
}
