//! The remaining capacity of reservations during a plan.

use nodeless_model::{InstanceType, Offering, Requirement, labels};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is available of each reservation, by its id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reservations {
    left: BTreeMap<String, u32>,
    /// What an instance of some type uses of it.
    each: Arc<BTreeMap<String, BTreeSet<u32>>>,
}

impl Reservations {
    /// The reservations of the offerings of these types; if they differ, the minimum counts.
    pub(crate) fn new(types: &[InstanceType]) -> Self {
        let (mut all, mut each): (BTreeMap<String, u32>, BTreeMap<String, BTreeSet<u32>>) = Default::default();
        for held in types.iter().flat_map(|kind| &kind.offerings).filter_map(|offering| offering.reservation.as_ref()) {
            let left = all.entry(held.id.clone()).or_insert(held.remaining);
            *left = held.remaining.min(*left);
            each.entry(held.id.clone()).or_default().insert(held.each);
        }
        Self { left: all, each: Arc::new(each) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn left(&self, id: &str) -> u32 {
        self.left.get(id).copied().unwrap_or(0)
    }

    /// Uses an amount of a reservation. Returns whether too little is left now for a type of instance that could use it before.
    pub(crate) fn take(&mut self, id: &str, amount: u32) -> bool {
        let Some(left) = self.left.get_mut(id) else { return true };
        let before = *left;
        *left = left.saturating_sub(amount);
        let mut each = self.each.get(id).into_iter().flatten();
        *left == 0 || each.any(|each| *left < *each && *each <= before)
    }

    /// Applies another NodePool's use of shared reservations. Returns whether anything changed.
    pub(crate) fn lower_to(&mut self, other: &Self) -> bool {
        let before = self.left.clone();
        for (id, left) in &mut self.left {
            *left = other.left.get(id).map_or(*left, |other| (*left).min(*other));
        }
        self.left != before
    }

    /// The minimum of both.
    pub(crate) fn with(mut self, other: &Self) -> Self {
        for (id, count) in &other.left {
            let left = self.left.entry(id.clone()).or_insert(*count);
            *left = (*left).min(*count);
        }
        self
    }

    /// Uses up all reservations.
    pub(crate) fn close(&mut self) {
        self.left.values_mut().for_each(|left| *left = 0);
    }
}

/// Whether an offering belongs to a reservation.
pub(crate) fn is_of(offering: &Offering, id: &str) -> bool {
    offering.reservation.as_ref().is_some_and(|held| held.id == id)
}

/// The order in which offerings of a type are used: the cheapest first. Of reservations with the same price, those of the type `default`
/// before capacity blocks, and both before those that their owner may reclaim; then the one with the largest number of instances. This is the
/// order of Karpenter's provider for AWS (`CapacityReservationTypeFilter`, `ReservedOfferingFilter`).
pub(crate) fn order(one: &Offering, other: &Offering) -> Ordering {
    let remaining = |offering: &Offering| offering.reservation.as_ref().map_or(0, |held| held.remaining);
    let by_price = one.price.total_cmp(&other.price);
    by_price.then_with(|| kind(one).cmp(&kind(other))).then_with(|| remaining(other).cmp(&remaining(one)))
}

/// Whether the owner of a reservation may reclaim its instances, and whether it is a capacity block.
fn kind(offering: &Offering) -> (bool, bool) {
    let is = |key, value| offering.requirements.get(key).and_then(Requirement::single) == Some(value);
    (is(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, "true"), is(labels::CAPACITY_RESERVATION_TYPE, "capacity-block"))
}
