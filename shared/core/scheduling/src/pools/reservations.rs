//! The remaining capacity of reservations during a plan.

use nodeless_model::{InstanceType, Offering};
use std::collections::BTreeMap;

/// The number of available instances of each reservation, by its id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reservations(BTreeMap<String, u32>);

impl Reservations {
    /// The reservations of the offerings of these types; if they differ, the minimum counts.
    pub(crate) fn of(types: &[InstanceType]) -> Self {
        let mut all = Self::default();
        for held in types.iter().flat_map(|kind| &kind.offerings).filter_map(|offering| offering.reservation.as_ref()) {
            let left = all.0.entry(held.id.clone()).or_insert(held.remaining);
            *left = held.remaining.min(*left);
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn left(&self, id: &str) -> u32 {
        self.0.get(id).copied().unwrap_or(0)
    }

    /// Uses instances of a reservation. Returns whether it is used up now.
    pub(crate) fn take(&mut self, id: &str, count: u32) -> bool {
        let Some(left) = self.0.get_mut(id) else { return true };
        *left = left.saturating_sub(count);
        *left == 0
    }

    /// Applies another NodePool's use of shared reservations. Returns whether anything changed.
    pub(crate) fn lower_to(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (id, left) in &mut self.0 {
            *left = other.0.get(id).map_or(*left, |other| (*left).min(*other));
        }
        *self != before
    }

    /// The minimum of both.
    pub(crate) fn with(mut self, other: &Self) -> Self {
        for (id, count) in &other.0 {
            let left = self.0.entry(id.clone()).or_insert(*count);
            *left = (*left).min(*count);
        }
        self
    }

    /// Uses up all reservations.
    pub(crate) fn close(&mut self) {
        self.0.values_mut().for_each(|left| *left = 0);
    }
}

/// Whether an offering belongs to a reservation.
pub(crate) fn is_of(offering: &Offering, id: &str) -> bool {
    offering.reservation.as_ref().is_some_and(|held| held.id == id)
}
