//! What is left of commitments, as offerings of a plan.
//!
//! The scheduler knows prepaid capacity: the offerings of a reservation, with a very low price and with what is left of the reservation.
//! Hours that a commitment covers are offered to it in the same way, besides the same offering at its on-demand price. The result is an
//! estimate, because AWS applies commitments to all instances together, and also in part: [`apply()`](crate::apply()) has the amounts.

use crate::bill::{Bill, CommitmentBill};
use crate::model::{Commitments, ReservedInstances, SavingsPlan};
use crate::size::Size;
use nodeless_model::instance_type::{Offering, Reservation, Reuse};
use nodeless_model::{CapacityType, InstanceType, Requirement, labels};
use nodeless_scheduling::Launch;
use std::collections::BTreeMap;

/// The beginning of the IDs of commitments among those of reservations, which begin with `cr-`.
const ID: &str = "commitment/";

/// Prices of prepaid hours, as a part of the on-demand price or of the rate. They are lower than any other price, and keep the order
/// among the hours of a commitment. The commitment that can be used by the fewest instances has the lowest.
const OF_RESERVED: f64 = 1e-7;
const OF_FAMILY: f64 = 1e-6;
const OF_COMPUTE: f64 = 1e-5;

/// Units of a quarter of the normalization factor, so that the smallest factor is one.
const PER_FACTOR: f64 = 4.0;
/// Units of a millionth of a dollar, the precision of rates.
const PER_DOLLAR: f64 = 1e6;

/// What is left of commitments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepaid<'c> {
    /// By the ID that their offerings have.
    pools: BTreeMap<String, Pool<'c>>,
}

/// What instances use together.
#[derive(Clone, Debug, PartialEq)]
struct Pool<'c> {
    covers: Covers<'c>,
    /// What is left, in units of the commitment.
    left: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Covers<'c> {
    Zonal { instance_type: &'c str, zone: &'c str },
    Regional { group: &'c str },
    Plan(&'c SavingsPlan),
}

impl<'c> Prepaid<'c> {
    /// What a bill leaves of the commitments.
    #[must_use]
    pub fn left(commitments: &'c Commitments, bill: &Bill) -> Self {
        let mut prepaid = Self::default();
        let mut bills = bill.commitments.iter();
        for (reserved, bill) in commitments.reserved.iter().zip(&mut bills) {
            prepaid.add_reserved(reserved, bill);
        }
        for (plan, bill) in commitments.plans.iter().zip(&mut bills) {
            prepaid.add(format!("{ID}plan/{}", plan.id), Covers::Plan(plan), bill.unused() * PER_DOLLAR);
        }
        prepaid
    }

    fn add_reserved(&mut self, reserved: &'c ReservedInstances, bill: &CommitmentBill) {
        let left = reserved.count * (1.0 - bill.share_used);
        match &reserved.zone {
            Some(zone) => {
                let covers = Covers::Zonal { instance_type: &reserved.instance_type, zone };
                self.add(format!("{ID}zonal/{zone}/{}", reserved.instance_type), covers, left);
            }
            None => {
                let Size { group, units } = Size::new(&reserved.instance_type);
                self.add(format!("{ID}regional/{group}"), Covers::Regional { group }, left * units * PER_FACTOR);
            }
        }
    }

    fn add(&mut self, id: String, covers: Covers<'c>, left: f64) {
        self.pools.entry(id).or_insert(Pool { covers, left: 0.0 }).left += left;
    }

    /// The same without Savings Plans.
    #[must_use]
    pub fn reserved_only(mut self) -> Self {
        self.pools.retain(|_, pool| !matches!(pool.covers, Covers::Plan(_)));
        self
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.values().all(|pool| pool.remaining() == 0)
    }

    /// The instance type with the offerings of prepaid hours besides its own. Only Linux instances have them.
    #[must_use]
    pub fn offered(&self, kind: &InstanceType) -> InstanceType {
        let mut offered = kind.clone();
        let windows = kind.requirements.get(labels::OS).and_then(Requirement::single).is_some_and(|os| os != "linux");
        if windows {
            return offered;
        }
        let on_demand =
            kind.offerings.iter().filter(|one| one.available && one.capacity_type == CapacityType::OnDemand);
        for offering in on_demand.filter(|one| one.reservation.is_none()) {
            let of_pools = self.pools.iter().filter_map(|(id, pool)| pool.offering(id, &kind.name, offering));
            offered.offerings.extend(of_pools);
        }
        offered
    }

    /// Whether a launch of a plan with such offerings uses prepaid hours.
    #[must_use]
    pub fn is_used_by(launch: &Launch) -> bool {
        launch.reservation().is_some_and(|id| id.starts_with(ID))
    }

    /// Makes a launch with prepaid hours one with on-demand instances of the same types, at their prices. `types` are those without the
    /// offerings of prepaid hours.
    pub fn at_list_price(launch: &mut Launch, types: &[InstanceType]) {
        if !Self::is_used_by(launch) {
            return;
        }
        launch.requirements.remove(labels::CAPACITY_RESERVATION_ID);
        let zone = &launch.offering.zone;
        let price = |name: &str| {
            let kind = types.iter().find(|kind| kind.name == name)?;
            let mut own = kind.offerings.iter().filter(|one| one.zone == *zone && one.reservation.is_none());
            own.find(|one| one.capacity_type == CapacityType::OnDemand).map(|one| one.price)
        };
        for kind in &mut launch.instance_types {
            kind.price = price(&kind.name).unwrap_or(kind.price);
        }
        launch.offering.price = price(&launch.offering.instance_type).unwrap_or(launch.offering.price);
        launch.charge.dollars_per_hour = launch.charge.dollars_per_hour.max(launch.offering.price);
    }
}

impl Pool<'_> {
    fn remaining(&self) -> u32 {
        // The conversion keeps within the bounds. A sum of parts may be a little less than a whole number.
        (self.left + 1e-6).floor() as u32
    }

    /// The offering of prepaid hours for an on-demand one, if the commitment covers it.
    fn offering(&self, id: &str, instance_type: &str, on_demand: &Offering) -> Option<Offering> {
        let (each, price) = match self.covers {
            Covers::Zonal { instance_type: own, zone } => {
                (1.0, (own == instance_type && zone == on_demand.zone).then_some(on_demand.price * OF_RESERVED)?)
            }
            Covers::Regional { group } => {
                let size = Size::new(instance_type);
                (size.units * PER_FACTOR, (size.group == group).then_some(on_demand.price * OF_RESERVED)?)
            }
            Covers::Plan(plan) => {
                let rate = plan.rate(instance_type)?;
                (rate * PER_DOLLAR, rate * if plan.family.is_some() { OF_FAMILY } else { OF_COMPUTE })
            }
        };
        let (each, remaining) = ((each - 1e-6).ceil() as u32, self.remaining());
        let reservation = Reservation { id: id.to_owned(), remaining, each, reuse: Reuse::No };
        (remaining >= each).then(|| Offering { price, reservation: Some(reservation), ..on_demand.clone() })
    }
}
