//! The launchable types of NodePools, with their prices.

use super::limits::Share;
use super::types::{self, PoolType};
use super::{NodeSet, Pool, SetId};
use crate::dense::{self, Amounts};
use nodeless_model::hashed::HashMap;
use nodeless_model::{CapacityType, InstanceType, Offering, Requirements, Reservation};
use std::rc::Rc;

/// The launchable types, shared by all sets whose requirements do not differ in labels of instance types.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Identifies it among the offers of the NodePool.
    pub(super) id: usize,
    /// The [`PoolType::rank`] of its types.
    pub(super) rank: usize,
    /// The available types, the cheapest first.
    pub(crate) choices: Vec<Choice>,
    /// The index in `choices` of each instance type.
    pub(super) by_type: Vec<Option<usize>>,
    /// The choices that may be the shape of a node: no other has as much capacity at a lower price.
    pub(crate) shapes: Vec<usize>,
    /// By instance type, the capacity that is used of those shapes whose whole capacity too few types have.
    pub(super) flexible: HashMap<usize, Amounts>,
}

/// With this many types, spot capacity is available and rarely interrupted: AWS's best practices for EC2 Spot are to be flexible
/// across at least 10 instance types for each workload. Karpenter requires none at launch, and 15 only to replace a spot node by
/// another.
pub(crate) const FLEXIBLE: usize = 10;

/// A spot node of fewer types is planned if it costs less than any other by more than this fraction: nodes with several GPUs, for
/// example, of which few types have as many, and the others cost a multiple.
pub(crate) const MIN_SAVING_OF_FEW_TYPES: f64 = 0.05;

impl Offer {
    /// The capacity of a type that is used for pods: of a spot type, as much as [`FLEXIBLE`] types have, if as many have nearly
    /// as much.
    pub(crate) fn usable<'r>(&'r self, choice: &Choice, allocatable: &'r [i64]) -> &'r [i64] {
        self.flexible.get(&choice.kind).map_or(allocatable, |usable| usable)
    }
}

/// An available instance type, and its cheapest offering.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The index in the NodePool's types.
    pub(crate) kind: usize,
    /// Dollars per hour of the cheapest offering.
    pub(crate) price: f64,
    /// The usage of the limits by such a node: its capacity and its most expensive possible offering.
    pub(crate) share: Share,
    /// The capacity type outside of reservations: that of the cheapest other offering.
    pub(crate) bought: CapacityType,
    /// Whether the cheapest offering is spot.
    pub(crate) spot: bool,
}

impl<'a> Pool<'a> {
    /// The launchable types for requirements.
    pub(super) fn offer(&mut self, requirements: &Requirements) -> Rc<Offer> {
        let kinds = self.types.iter().enumerate().filter(|(_, kind)| requirements.intersects(&kind.kind.requirements));
        let rank = self.lowest_rank(requirements, kinds.clone().map(|(_, kind)| kind));
        let kinds = kinds.filter(|(_, kind)| kind.rank == rank);
        let choices = kinds.filter_map(|(place, kind)| self.choice(place, kind, requirements)).collect();
        self.offer_of(rank, choices)
    }

    /// The offer for requirements that narrow those of another set. Evaluates only the types of that set, and only keys that
    /// differ.
    pub(super) fn narrowed_offer(&mut self, within: SetId, merged: &Requirements) -> Rc<Offer> {
        let wide = &self.sets[within];
        let changed = merged.other_than(&wide.requirements);
        // `NotIn` may allow an absent label where `Exists` did not, and so admit more.
        let wider = changed.iter().any(|(key, now)| {
            now.allows_absence() && wide.requirements.get(key).is_some_and(|before| !before.allows_absence())
        });
        if wider {
            return self.offer(merged);
        }
        let sold_otherwise = types::SOLD_BY.iter().any(|key| changed.get(key).is_some());
        let (mut same, mut choices) = (true, Vec::new());
        for choice in &wide.offer.choices {
            let kind = &self.types[choice.kind];
            if !changed.intersects(&kind.kind.requirements) {
                same = false;
            } else if sold_otherwise || kind.kind.offerings.iter().any(|one| changed.shares_key_with(&one.requirements))
            {
                same = false;
                choices.extend(self.choice(choice.kind, kind, merged));
            } else {
                choices.push(choice.clone());
            }
        }
        // Without these types, others may be the ones on which most DaemonSets have space.
        if self.is_ranked && choices.is_empty() {
            return self.offer(merged);
        }
        if same {
            return Rc::clone(&wide.offer);
        }
        let rank = wide.offer.rank;
        sort(&mut choices);
        // Where zones have equal prices, so do all of their sets.
        let alike = self.sets.iter().map(|set| &set.offer).find(|known| known.rank == rank && known.choices == choices);
        alike.map(Rc::clone).unwrap_or_else(|| self.offer_of(rank, choices))
    }

    /// The available types of a set with their prices, those included of which DaemonSets exclude pods of most sizes.
    pub(crate) fn priced(&self, set: SetId) -> Vec<(usize, f64)> {
        let NodeSet { requirements, offer, .. } = &self.sets[set];
        if !self.is_ranked {
            return offer.choices.iter().map(|choice| (choice.kind, choice.price)).collect();
        }
        let kinds = self.types.iter().enumerate().filter(|(_, kind)| requirements.intersects(&kind.kind.requirements));
        let price = |(place, kind)| Some((place, self.choice(place, kind, requirements)?.price));
        kinds.filter_map(price).collect()
    }

    /// The lowest rank of these types, which meet the requirements. A type that is not available now counts too.
    pub(crate) fn lowest_rank<'t>(
        &self,
        requirements: &Requirements,
        types: impl Iterator<Item = &'t PoolType<'a>>,
    ) -> usize
    where
        'a: 't,
    {
        if !self.is_ranked {
            return 0;
        }
        let is_sold = |kind: &&PoolType<'_>| {
            kind.kind.offerings.iter().any(|one| (one.available || !one.lacks_price) && one.meets(requirements))
        };
        types.filter(is_sold).map(|kind| kind.rank).min().unwrap_or(0)
    }

    fn offer_of(&mut self, rank: usize, mut choices: Vec<Choice>) -> Rc<Offer> {
        sort(&mut choices);
        let mut by_type = vec![None; self.types.len()];
        for (place, choice) in choices.iter().enumerate() {
            by_type[choice.kind] = Some(place);
        }
        let shapes = self.shapes(&choices);
        let spot = shapes.iter().map(|place| &choices[*place]).filter(|choice| choice.spot);
        let flexible = spot.filter_map(|choice| Some((choice.kind, self.flexible(choice, &choices)?))).collect();
        self.offers += 1;
        Rc::new(Offer { id: self.offers, rank, choices, by_type, shapes, flexible })
    }

    /// The common capacity of the [`FLEXIBLE`] types that are closest to a type's capacity. `None` if as many types have all of
    /// it, or if more of the capacity would be unused than fewer types have to save.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn flexible(&self, choice: &Choice, choices: &[Choice]) -> Option<Amounts> {
        let allocatable = |choice: &Choice| &self.types[choice.kind].allocatable;
        let own = allocatable(choice);
        // The types with the most capacity are the last ones.
        if choices.iter().rev().filter(|other| dense::fits(own, allocatable(other))).take(FLEXIBLE).count() == FLEXIBLE
        {
            return None;
        }
        let least = 1.0 - MIN_SAVING_OF_FEW_TYPES;
        let share = |other: &Choice| -> Option<f64> {
            let pairs = own.iter().zip(allocatable(other)).filter(|(own, _)| **own > 0);
            pairs
                .map(|(own, other)| *other as f64 / *own as f64)
                .try_fold(1.0, |most: f64, share| (share >= least).then_some(most.min(share)))
        };
        let mut close: Vec<(f64, &Choice)> = choices.iter().filter_map(|other| Some((share(other)?, other))).collect();
        close.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        close.truncate(FLEXIBLE);
        let common = |place: usize| close.iter().map(|(_, other)| allocatable(other)[place]).fold(own[place], i64::min);
        (close.len() == FLEXIBLE).then(|| (0..own.len()).map(common).collect())
    }

    /// The instance type at an index as a choice; `None` when no offering is available.
    pub(crate) fn choice(&self, place: usize, kind: &PoolType<'_>, requirements: &Requirements) -> Option<Choice> {
        let sold: Vec<&Offering> = self.offerings(kind.kind, requirements).collect();
        let sold = || sold.iter().copied();
        let cheapest = sold().min_by(|a, b| a.cmp_price(b))?;
        let others = sold().filter(|one| one.capacity_type != CapacityType::Reserved);
        let bought = others.min_by(|a, b| a.cmp_price(b)).map_or(cheapest.capacity_type, |other| other.capacity_type);
        let launched = sold().filter(|offering| self.may_launch(bought, offering));
        let dearest = launched.map(|offering| offering.price).fold(0.0, f64::max);
        Some(Choice {
            kind: place,
            price: cheapest.price,
            bought,
            share: self.limits.share(&kind.kind.capacity, dearest + kind.kind.root_volume_price()),
            spot: cheapest.capacity_type == CapacityType::Spot,
        })
    }

    /// Whether a node with a capacity type may be launched into an offering.
    ///
    /// With a limit on dollars, the capacity type has to be known before the launch is charged. EC2 launches spot if spot is
    /// allowed and available, and on-demand otherwise; a node that allows both would have to be charged for both. So only one
    /// capacity type is used. A reservation is used if there is one, and costs less than either.
    pub(crate) fn may_launch(&self, bought: CapacityType, offering: &Offering) -> bool {
        let reserved = offering.capacity_type == CapacityType::Reserved;
        !self.limits.has_dollars() || reserved || offering.capacity_type == bought
    }

    /// The available offerings that meet the requirements, without used-up reservations.
    pub(crate) fn offerings<'o>(
        &'o self,
        kind: &'o InstanceType,
        requirements: &'o Requirements,
    ) -> impl Iterator<Item = &'o Offering> + use<'o, 'a> {
        // If many types have to be listed, one reserved type is not enough. To start an instance, none is listed.
        let lists_many = !self.min_values.is_empty();
        let is_left = move |held: &Reservation| {
            (!lists_many || held.is_of_stopped_instances()) && held.each <= self.reservations.left(&held.id)
        };
        kind.available_offerings(requirements).filter(move |offering| offering.reservation.as_ref().is_none_or(is_left))
    }

    /// Removes dominated types: another is as cheap, has as much capacity, uses no more of the limits and has no other host ports
    /// in use.
    fn shapes(&self, choices: &[Choice]) -> Vec<usize> {
        let better = |a: &Choice, b: &Choice| {
            let (left, right) = (&self.types[a.kind], &self.types[b.kind]);
            dense::fits(&right.allocatable, &left.allocatable)
                && (Rc::ptr_eq(&left.daemons, &right.daemons) || left.daemons.ports == right.daemons.ports)
                && a.share.resources.iter().zip(&b.share.resources).all(|(a, b)| a <= b)
                && a.share.dollars <= b.share.dollars
        };
        let mut shapes: Vec<usize> = Vec::new();
        for (place, choice) in choices.iter().enumerate() {
            if !shapes.iter().any(|&kept| better(&choices[kept], choice)) {
                shapes.push(place);
            }
        }
        shapes
    }

    /// The price of a pod if fractions of nodes of a set could be launched; `None` if no instance type fits.
    pub(crate) fn worth(&mut self, set: SetId, requests: &[i64]) -> Option<f64> {
        let offer = self.sets[set].offer.id;
        if let Some(known) = self.worths.get(&offer).and_then(|of_offer| of_offer.get(requests)) {
            return *known;
        }
        let worth = worth(self, set, requests);
        self.worths.entry(offer).or_default().insert(requests.into(), worth);
        worth
    }

    /// Whether any type of a set has capacity for a pod.
    pub(crate) fn may_hold(&self, set: SetId, requests: &[i64]) -> bool {
        let offer = &self.sets[set].offer;
        // Types that are not shapes do not have more capacity.
        offer
            .shapes
            .iter()
            .rev()
            .any(|place| dense::fits(requests, &self.types[offer.choices[*place].kind].allocatable))
    }
}

/// The cheapest first.
fn sort(choices: &mut [Choice]) {
    choices.sort_by(|a, b| a.price.total_cmp(&b.price).then(a.kind.cmp(&b.kind)));
}

/// The price of a pod if fractions of nodes could be launched; `None` if no instance type fits.
fn worth(pool: &Pool<'_>, set: SetId, requests: &[i64]) -> Option<f64> {
    let offer = &pool.set(set).offer;
    // Types that are not shapes do not have more capacity for less.
    offer
        .shapes
        .iter()
        .map(|place| &offer.choices[*place])
        .filter(|choice| dense::fits(requests, &pool.types[choice.kind].allocatable))
        .map(|choice| choice.price * dense::dominant_share(requests, &pool.types[choice.kind].allocatable))
        .min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use crate::{ClusterFacts, Options, PoolOffer, Prepared};
    use nodeless_model::test_support::on_demand_node_pool;
    use nodeless_model::{
        CapacityType, InstanceType, Offering, Overhead, Quantity, Requirement, Requirements, ResourceList, labels,
    };
    use std::rc::Rc;

    fn kind(name: &str, zones: [(&str, f64); 3]) -> InstanceType {
        let amounts = |units| Quantity::from_units(units);
        InstanceType {
            name: name.into(),
            requirements: Requirements::from([(labels::INSTANCE_TYPE, Requirement::one_of([name]))]),
            capacity: ResourceList::from([("cpu", amounts(4)), ("memory", amounts(16 << 30)), ("pods", amounts(50))]),
            ebs_volumes: None,
            root_volume: None,
            overhead: Overhead::default(),
            offerings: zones
                .map(|(zone, price)| Offering {
                    zone: zone.into(),
                    capacity_type: CapacityType::OnDemand,
                    price,
                    available: true,
                    lacks_price: false,
                    reservation: None,
                    requirements: Requirements::new(),
                })
                .into(),
        }
    }

    #[test]
    fn zones_with_equal_prices_share_an_offer() {
        let pool = on_demand_node_pool("default");
        let kinds = [kind("a", [("1", 0.2), ("2", 0.2), ("3", 0.3)]), kind("b", [("1", 0.5), ("2", 0.5), ("3", 0.5)])];
        let offer = PoolOffer { pool: &pool, instance_types: kinds.into(), usage: Default::default(), cluster: None };
        let offers = [offer];
        let mut prepared =
            Prepared::new(&offers, &[], std::iter::empty(), ClusterFacts::default(), &Options::default());
        let pool = &mut prepared.pools[0];
        let [first, second, third] = ["1", "2", "3"].map(|zone| {
            let within = Requirements::from([(labels::ZONE, Requirement::one_of([zone]))]);
            let set = pool.narrowed(&within).unwrap();
            (Rc::clone(&pool.set(set).offer), pool.set(set).requirements.clone())
        });
        assert!(Rc::ptr_eq(&first.0, &second.0));
        assert!(!Rc::ptr_eq(&second.0, &third.0), "one type costs more in the third zone");
        assert_ne!(first.1, second.1);
    }
}
