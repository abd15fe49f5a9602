//! How AWS applies commitments to the instances of an hour.
//!
//! - "How Reserved Instance discounts are applied": a zonal Reserved Instance applies to instances of its type in its zone; a regional one
//!   to instances of its family in any zone, from the smallest to the largest size, in part if the instance is larger. Zonal ones that are
//!   unused apply before regional ones (scenario 4).
//!   <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/apply_ri.html>
//! - "Understanding how Savings Plans apply to your AWS usage": they apply after Reserved Instances, EC2 Instance Savings Plans before
//!   Compute Savings Plans, to the usage with the highest savings percentage first, and among equals to that with the lowest rate.
//!   <https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html>

use crate::bill::{Bill, CommitmentBill, InstanceBill};
use crate::model::{Commitments, ReservedInstances, SavingsPlan};
use crate::size::Size;
use nodeless_model::CapacityType;

/// Instances of a type, zone and capacity type in an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// The availability zone, by name.
    pub zone: &'a str,
    /// The capacity type. Commitments do not apply to spot.
    pub capacity_type: CapacityType,
    /// Whether they run Linux without a licence that is billed with the instance, and with shared tenancy.
    pub linux: bool,
    /// For how many hours they run, added up: 1 for an instance that runs for the whole hour.
    pub hours: f64,
    /// The price without commitments, in dollars an hour: for spot the spot price, otherwise the on-demand price. `None` if it is
    /// unknown; then no commitment applies.
    pub price: Option<f64>,
}

/// What these instances cost with the commitments. The order of the instances does not change any sum.
///
/// AWS applies Savings Plans and regional Reserved Instances also to instances in a capacity reservation. Here they get what other
/// instances leave, because their reservation is billed, used or not, and is in no sum.
#[must_use]
pub fn apply(instances: &[Usage<'_>], commitments: &Commitments) -> Bill {
    let mut hour = Hour {
        instances,
        covered: vec![0.0; instances.len()],
        reserved: commitments.reserved.iter().map(|one| (one, one.count)).collect(),
        plans: commitments.plans.iter().map(|plan| (plan, plan.dollars_per_hour)).collect(),
    };
    hour.apply_zonal();
    for capacity_type in [CapacityType::OnDemand, CapacityType::Reserved] {
        hour.apply_regional(capacity_type);
        hour.apply_plans(capacity_type, |plan| plan.family.is_some());
        hour.apply_plans(capacity_type, |plan| plan.family.is_none());
    }
    hour.bill()
}

/// An hour to which commitments are applied.
struct Hour<'a> {
    instances: &'a [Usage<'a>],
    /// The hours of each that are covered.
    covered: Vec<f64>,
    /// The Reserved Instances, and how many are left.
    reserved: Vec<(&'a ReservedInstances, f64)>,
    /// The Savings Plans, and the dollars that are left.
    plans: Vec<(&'a SavingsPlan, f64)>,
}

impl Hour<'_> {
    /// The hours that are not covered yet.
    fn open(&self, place: usize) -> f64 {
        (self.instances[place].hours - self.covered[place]).max(0.0)
    }

    /// The places of the instances of a capacity type to which commitments may apply, each with the price.
    fn eligible(&self, capacity_type: CapacityType) -> Vec<(usize, f64)> {
        let all = self.instances.iter().enumerate();
        let of_type = all.filter(|(_, one)| one.linux && one.capacity_type == capacity_type);
        of_type.filter_map(|(place, one)| Some((place, one.price.filter(|price| *price > 0.0)?))).collect()
    }

    /// An instance type in a zone that its Reserved Instance names.
    fn apply_zonal(&mut self) {
        let mut eligible = self.eligible(CapacityType::OnDemand);
        // Instances of a type in a zone have one price, unless a NodeOverlay changed it.
        eligible.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        for of in 0..self.reserved.len() {
            let (reserved, _) = self.reserved[of];
            let Some(zone) = &reserved.zone else { continue };
            for (place, _) in &eligible {
                let one = &self.instances[*place];
                if one.instance_type == reserved.instance_type && one.zone == zone {
                    let taken = self.reserved[of].1.min(self.open(*place));
                    self.reserved[of].1 -= taken;
                    self.covered[*place] += taken;
                }
            }
        }
    }

    /// Instances of a family, from the smallest.
    fn apply_regional(&mut self, capacity_type: CapacityType) {
        let mut eligible: Vec<(usize, f64, Size<'_>)> = self
            .eligible(capacity_type)
            .into_iter()
            .map(|(place, price)| (place, price, Size::new(self.instances[place].instance_type)))
            .collect();
        eligible.sort_by(|(_, one, small), (_, two, large)| {
            small.units.total_cmp(&large.units).then_with(|| two.total_cmp(one))
        });
        for (place, _, size) in eligible {
            for of in 0..self.reserved.len() {
                let (reserved, left) = self.reserved[of];
                let own = Size::new(&reserved.instance_type);
                if reserved.zone.is_some() || own.group != size.group {
                    continue;
                }
                let taken = (left * own.units).min(self.open(place) * size.units);
                self.reserved[of].1 -= taken / own.units;
                self.covered[place] += taken / size.units;
            }
        }
    }

    /// The Savings Plans of a kind, applied together.
    fn apply_plans(&mut self, capacity_type: CapacityType, of_kind: impl Fn(&SavingsPlan) -> bool) {
        let eligible = self.eligible(capacity_type);
        let mut pairs = Vec::new();
        for (plan, (of_plan, _)) in self.plans.iter().enumerate().filter(|(_, (plan, _))| of_kind(plan)) {
            for (place, price) in &eligible {
                let Some(rate) = of_plan.rate(self.instances[*place].instance_type) else { continue };
                pairs.push(Pair { place: *place, plan, rate, saving: 1.0 - rate / price });
            }
        }
        pairs.sort_by(|one, two| {
            two.saving.total_cmp(&one.saving).then_with(|| one.rate.total_cmp(&two.rate)).then(one.plan.cmp(&two.plan))
        });
        for Pair { place, plan, rate, .. } in pairs {
            let taken = self.plans[plan].1.min(self.open(place) * rate);
            self.plans[plan].1 -= taken;
            self.covered[place] += taken / rate;
        }
    }

    fn bill(self) -> Bill {
        let instance = |(one, covered): (&Usage<'_>, &f64)| {
            let (price, covered) = (one.price.unwrap_or_default(), covered.min(one.hours));
            let uncovered = match one.capacity_type {
                CapacityType::Reserved => 0.0,
                CapacityType::OnDemand | CapacityType::Spot => price * (one.hours - covered),
            };
            InstanceBill { covered: price * covered, uncovered }
        };
        let reserved = self.reserved.iter().map(|(one, left)| CommitmentBill {
            id: one.id.clone(),
            described: one.described(),
            committed: one.dollars_per_hour,
            share_used: share_used(one.count, *left),
        });
        let plans = self.plans.iter().map(|(plan, left)| CommitmentBill {
            id: plan.id.clone(),
            described: plan.described(),
            committed: plan.dollars_per_hour,
            share_used: share_used(plan.dollars_per_hour, *left),
        });
        Bill {
            instances: self.instances.iter().zip(&self.covered).map(instance).collect(),
            commitments: reserved.chain(plans).collect(),
        }
    }
}

/// The part of an amount that is used if this is left. A use that leaves nothing leaves the rounding of its sum.
fn share_used(all: f64, left: f64) -> f64 {
    if all > 0.0 { (1.0 - left / all).clamp(0.0, 1.0) } else { 0.0 }
}

/// A Savings Plan that may apply to an instance.
struct Pair {
    place: usize,
    plan: usize,
    rate: f64,
    /// The part of the on-demand price that its rate saves.
    saving: f64,
}
