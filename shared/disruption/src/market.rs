//! What new nodes cost, for looking at many loads quickly. [`nodeless_scheduling::solve`] has the last word.

use crate::packed::{Classes, fits};
use nodeless_model::{
    CapacityType, DaemonSet, InstanceType, Offering, Requirement, Requirements, ResourceIndex, labels, resources,
};
use nodeless_scheduling::{Admission, Launch, PoolOffer, new_node_requirements, new_node_room};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// All NodePools that can launch nodes.
pub(crate) struct Market<'a> {
    /// The NodePools, with what was charged to them since.
    pub(crate) offers: Vec<PoolOffer<'a>>,
    shelves: Vec<Shelf>,
    /// By the admissions of the pods that have to share a node.
    together: HashMap<Vec<usize>, Rc<Assortment>>,
    /// By the admissions of the pods that have to be somewhere.
    somewhere: HashMap<Vec<usize>, Rc<Assortment>>,
    /// What a thousandth of each resource is worth to pods of an admission.
    worth: HashMap<usize, Rc<[f64]>>,
    /// All that pods ask for, by resource: what the worths are balanced for.
    demand: Box<[i64]>,
    resources: ResourceIndex,
    reserved: Reserved,
}

/// How many instances of each capacity reservation a decision uses.
#[derive(Debug, Default)]
pub(crate) struct Reserved(BTreeMap<String, u32>);

/// What one NodePool can launch.
struct Shelf {
    /// What its new nodes' labels may be.
    launched: Requirements,
    kinds: Vec<Kind>,
    /// By admission and kind, the least price.
    prices: HashMap<usize, Box<[f64]>>,
}

struct Kind {
    /// The place among the NodePool's instance types.
    place: usize,
    /// What DaemonSets leave.
    room: Box<[i64]>,
}

/// What can be launched for some pods.
#[derive(Debug, Default)]
pub(crate) struct Assortment {
    /// The cheapest first, and only what has more room than anything cheaper.
    items: Vec<Item>,
}

/// A node that can be launched.
#[derive(Clone, Debug)]
struct Item {
    pool: usize,
    place: usize,
    price: f64,
    room: Box<[i64]>,
}

/// The least that new nodes for a load cost, and which they would be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) price: f64,
    pub(crate) instance_types: Vec<String>,
}

impl<'a> Market<'a> {
    pub(crate) fn new(
        offers: Vec<PoolOffer<'a>>,
        daemon_sets: &[DaemonSet],
        resources: &ResourceIndex,
        demand: Box<[i64]>,
    ) -> Self {
        let shelves = offers.iter().map(|offer| Shelf::new(offer, daemon_sets, resources)).collect();
        Self {
            offers,
            shelves,
            together: HashMap::new(),
            somewhere: HashMap::new(),
            worth: HashMap::new(),
            demand,
            resources: resources.clone(),
            reserved: Reserved::default(),
        }
    }

    /// How many instance types there are, over all NodePools.
    pub(crate) fn size(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.kinds.len()).sum()
    }

    /// Whether anything can be had of a capacity reservation.
    pub(crate) fn has_reservations(&self) -> bool {
        let kinds = self.offers.iter().flat_map(|offer| offer.instance_types.iter());
        let mut offerings = kinds.flat_map(|kind| &kind.offerings);
        offerings
            .any(|offering| offering.available && offering.reservation.as_ref().is_some_and(|held| held.remaining > 0))
    }

    /// Counts launches as made.
    pub(crate) fn charge<'l>(&mut self, launches: impl Iterator<Item = &'l Launch>) {
        self.reserved.charge(&mut self.offers, launches);
    }

    /// Whether launches need more of a reservation than this decision has left.
    pub(crate) fn overdraws<'l>(&self, launches: impl Iterator<Item = &'l Launch>) -> bool {
        self.reserved.overdraws(&self.offers, launches)
    }

    /// The least that one new node, or two, would cost that hold a load of pods with these admissions; `None` where
    /// nothing could hold it.
    pub(crate) fn bound(&mut self, load: &[i64], admissions: &BTreeSet<usize>, classes: &Classes<'_>) -> Option<Bound> {
        let key: Vec<usize> = admissions.iter().copied().collect();
        let together = self.assortment(&key, classes, true);
        let single = together.items.iter().find(|item| fits(load, &item.room));
        let mut best = single.map(|item| (item.price, vec![(item.pool, item.place)]));
        let somewhere = if key.len() > 1 { self.assortment(&key, classes, false) } else { together };
        for first in &somewhere.items {
            let cheapest = somewhere.items.first().map_or(0.0, |item| item.price);
            if best.as_ref().is_some_and(|(price, _)| first.price + cheapest >= *price) {
                break;
            }
            let rest: Box<[i64]> = load.iter().zip(&first.room).map(|(load, room)| (load - room).max(0)).collect();
            if let Some(second) = somewhere.items.iter().find(|item| fits(&rest, &item.room)) {
                let price = first.price + second.price;
                if best.as_ref().is_none_or(|(known, _)| price < *known) {
                    best = Some((price, vec![(first.pool, first.place), (second.pool, second.place)]));
                }
            }
        }
        best.map(|(price, items)| Bound {
            price,
            instance_types: items
                .into_iter()
                .map(|(pool, place)| self.offers[pool].instance_types[place].name.clone())
                .collect(),
        })
    }

    /// The least that pods of an admission would cost if nodes were sold by slices: the price of what they ask for.
    pub(crate) fn worth(&mut self, asked: &[i64], admission: usize, classes: &Classes<'_>) -> f64 {
        let worth = match self.worth.get(&admission) {
            Some(known) => Rc::clone(known),
            None => {
                let assortment = self.assortment(&[admission], classes, true);
                let made = self.balanced(&assortment);
                self.worth.insert(admission, Rc::clone(&made));
                made
            }
        };
        asked.iter().zip(worth.iter()).map(|(asked, worth)| to_float(*asked) * worth).sum()
    }

    /// Prices for cpu and memory by which no node's content is worth more than the node, and all demand as much as
    /// possible: the dual of buying nodes by slices.
    fn balanced(&self, assortment: &Assortment) -> Rc<[f64]> {
        let mut worth = vec![0.0; self.resources.len()];
        let place = |name| self.resources.place(name);
        let (Some(cpu), Some(memory)) = (place(resources::name::CPU), place(resources::name::MEMORY)) else {
            return worth.into();
        };
        let ratio = |price: f64, room: i64| if room > 0 { price / to_float(room) } else { f64::INFINITY };
        let of_memory = |of_cpu: f64| {
            let left = assortment
                .items
                .iter()
                .map(|item| ratio((item.price - of_cpu * to_float(item.room[cpu])).max(0.0), item.room[memory]));
            left.fold(f64::INFINITY, f64::min)
        };
        let most = assortment.items.iter().map(|item| ratio(item.price, item.room[cpu])).fold(f64::INFINITY, f64::min);
        if !most.is_finite() || !of_memory(0.0).is_finite() {
            return worth.into();
        }
        let value =
            |of_cpu: f64| of_cpu * to_float(self.demand[cpu]) + of_memory(of_cpu) * to_float(self.demand[memory]);
        // The value is concave in the price of cpu.
        let (mut low, mut high) = (0.0, most);
        for _ in 0..80 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if value(left) < value(right) { low = left } else { high = right }
        }
        let of_cpu = f64::midpoint(low, high);
        (worth[cpu], worth[memory]) = (of_cpu, of_memory(of_cpu));
        worth.into()
    }

    /// What can be launched for pods of these admissions: for all of them together, or for some of them.
    fn assortment(&mut self, key: &[usize], classes: &Classes<'_>, together: bool) -> Rc<Assortment> {
        let known = if together { &self.together } else { &self.somewhere };
        if let Some(known) = known.get(key) {
            return Rc::clone(known);
        }
        let mut items = Vec::new();
        for (pool, (shelf, offer)) in self.shelves.iter_mut().zip(&self.offers).enumerate() {
            for &admission in key {
                shelf.price(admission, &classes.admissions[admission], offer);
            }
            for (place, kind) in shelf.kinds.iter().enumerate() {
                let prices = key.iter().filter_map(|admission| shelf.prices.get(admission)).map(|prices| prices[place]);
                let price = if together { prices.fold(0.0, f64::max) } else { prices.fold(f64::INFINITY, f64::min) };
                if price.is_finite() {
                    items.push(Item { pool, place: kind.place, price, room: kind.room.clone() });
                }
            }
        }
        items.sort_by(|a, b| a.price.total_cmp(&b.price).then((a.pool, a.place).cmp(&(b.pool, b.place))));
        let mut kept: Vec<Item> = Vec::new();
        for item in items {
            if !kept.iter().any(|better| fits(&item.room, &better.room)) {
                kept.push(item);
            }
        }
        let made = Rc::new(Assortment { items: kept });
        let known = if together { &mut self.together } else { &mut self.somewhere };
        known.insert(key.to_vec(), Rc::clone(&made));
        made
    }
}

impl Reserved {
    /// Counts launches as made: to the usage of their NodePools, and here what they use of reservations.
    pub(crate) fn charge<'l>(&mut self, offers: &mut [PoolOffer<'_>], launches: impl Iterator<Item = &'l Launch>) {
        for launch in launches {
            if let Some(offer) = offers.iter_mut().find(|offer| offer.pool.name == launch.node_pool) {
                offer.usage.resources.add(&launch.charge.resources);
                offer.usage.dollars_per_hour += launch.charge.dollars_per_hour;
            }
            if let Some(id) = reservation(launch) {
                *self.0.entry(id).or_default() += 1;
            }
        }
    }

    /// Whether launches need more of a reservation than is left beside what was counted.
    pub(crate) fn overdraws<'l>(&self, offers: &[PoolOffer<'_>], launches: impl Iterator<Item = &'l Launch>) -> bool {
        let mut asked: BTreeMap<String, u32> = BTreeMap::new();
        for id in launches.filter_map(reservation) {
            *asked.entry(id).or_default() += 1;
        }
        asked.into_iter().any(|(id, asked)| {
            let used = self.0.get(&id).copied().unwrap_or(0);
            used > 0 && asked + used > remaining(offers, &id)
        })
    }
}

fn remaining(offers: &[PoolOffer<'_>], id: &str) -> u32 {
    let kinds = offers.iter().flat_map(|offer| offer.instance_types.iter());
    let held = kinds.flat_map(|kind| &kind.offerings).filter_map(|offering| offering.reservation.as_ref());
    held.filter(|held| held.id == id).map(|held| held.remaining).min().unwrap_or(0)
}

impl Shelf {
    fn new(offer: &PoolOffer<'_>, daemon_sets: &[DaemonSet], resources: &ResourceIndex) -> Self {
        let kinds = offer.instance_types.iter().enumerate().filter_map(|(place, kind)| {
            let room = new_node_room(offer.pool, kind, daemon_sets)?;
            Some(Kind { place, room: resources.amounts(&room) })
        });
        Self { launched: new_node_requirements(offer.pool), kinds: kinds.collect(), prices: HashMap::new() }
    }

    /// Works out what every kind costs for pods of an admission.
    fn price(&mut self, id: usize, admission: &Admission, offer: &PoolOffer<'_>) {
        if self.prices.contains_key(&id) {
            return;
        }
        let mut prices: Box<[f64]> = self.kinds.iter().map(|_| f64::INFINITY).collect();
        if admission.tolerates(&offer.pool.template.taints) {
            for wanted in admission.alternatives() {
                if self.launched.first_incompatible(wanted, labels::is_well_known).is_some() {
                    continue;
                }
                let both = self.launched.with(wanted);
                for (price, kind) in prices.iter_mut().zip(&self.kinds) {
                    let kind = &offer.instance_types[kind.place];
                    if both.intersects(&kind.requirements)
                        && let Some(cheapest) = kind.cheapest_offering(&both)
                    {
                        *price = price.min(cheapest.price);
                    }
                }
            }
        }
        self.prices.insert(id, prices);
    }
}

/// The reservation that a launch uses.
fn reservation(launch: &Launch) -> Option<String> {
    let id = launch.requirements.get(labels::CAPACITY_RESERVATION_ID).and_then(Requirement::single)?;
    (launch.offering.capacity_type == CapacityType::Reserved).then(|| id.to_owned())
}

/// The most that a launch of a type may cost: the dearest offering of the first capacity type that can be had, reserved
/// before spot before on-demand, as EC2 is asked in this order.
pub(crate) fn worst_price(kind: &InstanceType, requirements: &Requirements) -> Option<f64> {
    let offerings: Vec<&Offering> = kind.available_offerings(requirements).collect();
    let first = offerings.iter().map(|offering| offering.capacity_type).min()?;
    let of_first = offerings.iter().filter(|offering| offering.capacity_type == first);
    of_first.map(|offering| offering.price).max_by(f64::total_cmp)
}

#[expect(clippy::cast_precision_loss, reason = "worths need no more than 53 bits")]
fn to_float(amount: i64) -> f64 {
    amount as f64
}
