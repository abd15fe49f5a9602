//! Lower bounds for the price of new nodes, to evaluate many loads quickly. [`nodeless_scheduling::solve`] decides.

use crate::meter;
use crate::simulation::packed::{Classes, fits};
use nodeless_model::hashed::HashMap;
use nodeless_model::{CapacityType, Offering, Requirement, Requirements, ResourceIndex, labels, resources};
use nodeless_scheduling::{Admission, Launch, NewNode, PoolOffer, Prepared, Problem, Solution};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The prices of the nodes that the NodePools can launch.
pub(crate) struct NodePrices<'a> {
    /// The NodePools, with the charges of this decision.
    pub(crate) offers: Vec<PoolOffer<'a>>,
    /// The nodes that each NodePool could launch.
    nodes: HashMap<usize, Vec<NewNode>>,
    /// The launchable nodes of an admission, with their prices.
    prices: Prices,
    /// By the admissions of the pods that have to share a node.
    together: HashMap<Vec<usize>, Rc<LaunchableNodes>>,
    /// By the admissions of the pods that have to be somewhere.
    somewhere: HashMap<Vec<usize>, Rc<LaunchableNodes>>,
    /// By prices, and whether the pods have to share a node: admissions mostly differ in nothing that nodes do.
    by_prices: HashMap<(Vec<usize>, bool), Rc<LaunchableNodes>>,
    /// The total requests of pods, by resource: the demand for which the worths are computed.
    demand: Box<[i64]>,
    resources: ResourceIndex,
    reserved: Reserved,
}

/// The number of instances of each capacity reservation that a decision uses.
#[derive(Debug, Default)]
pub(crate) struct Reserved(BTreeMap<String, u32>);

/// The launchable nodes for some pods.
#[derive(Debug, Default)]
pub(crate) struct LaunchableNodes {
    /// The cheapest first, and only nodes with more capacity than every cheaper one.
    items: Vec<Item>,
    /// The number of nodes that these were chosen from.
    compared: usize,
    /// The worth of a thousandth of each resource to pods for which this can be launched.
    worth: OnceCell<Rc<[f64]>>,
}

/// A node that can be launched.
#[derive(Clone, Debug)]
struct Item {
    instance_type: String,
    price: f64,
    allocatable: Box<[i64]>,
}

/// The minimum price of new nodes for a load, and those nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) price: f64,
    pub(crate) instance_types: Vec<String>,
}

impl<'a> NodePrices<'a> {
    pub(crate) fn new(offers: Vec<PoolOffer<'a>>, resources: &ResourceIndex, demand: Box<[i64]>) -> Self {
        Self {
            offers,
            nodes: HashMap::default(),
            prices: Prices::default(),
            together: HashMap::default(),
            somewhere: HashMap::default(),
            by_prices: HashMap::default(),
            demand,
            resources: resources.clone(),
            reserved: Reserved::default(),
        }
    }

    /// Whether a capacity reservation has available instances.
    pub(crate) fn has_reservations(&self) -> bool {
        let kinds = self.offers.iter().flat_map(|offer| offer.instance_types.iter());
        let mut offerings = kinds.flat_map(|kind| &kind.offerings);
        offerings
            .any(|offering| offering.available && offering.reservation.as_ref().is_some_and(|held| held.remaining > 0))
    }

    /// Counts launches.
    pub(crate) fn charge<'l>(&mut self, launches: impl Iterator<Item = &'l Launch>) {
        self.reserved.charge(&mut self.offers, launches);
    }

    /// Whether launches need more of a reservation than this decision has left.
    pub(crate) fn overdraws<'l>(&self, launches: impl Iterator<Item = &'l Launch>) -> bool {
        self.reserved.overdraws(&self.offers, launches)
    }

    /// The minimum price of one new node, or two, for a load of pods with these admissions; `None` if no node is large enough.
    pub(crate) fn bound(
        &mut self,
        load: &[i64],
        admissions: &BTreeSet<usize>,
        asker: &mut Asker<'_, '_>,
    ) -> Option<Bound> {
        let key: Vec<usize> = admissions.iter().copied().collect();
        let together = self.launchable(&key, asker, true);
        let single = together.items.iter().find(|item| fits(load, &item.allocatable));
        let mut best = single.map(|item| (item.price, vec![item.instance_type.clone()]));
        let somewhere = if key.len() > 1 { self.launchable(&key, asker, false) } else { together };
        for first in &somewhere.items {
            let cheapest = somewhere.items.first().map_or(0.0, |item| item.price);
            if best.as_ref().is_some_and(|(price, _)| first.price + cheapest >= *price) {
                break;
            }
            let rest: Box<[i64]> =
                load.iter().zip(&first.allocatable).map(|(load, allocatable)| (load - allocatable).max(0)).collect();
            if let Some(second) = somewhere.items.iter().find(|item| fits(&rest, &item.allocatable)) {
                let price = first.price + second.price;
                if best.as_ref().is_none_or(|(known, _)| price < *known) {
                    best = Some((price, vec![first.instance_type.clone(), second.instance_type.clone()]));
                }
            }
        }
        best.map(|(price, instance_types)| Bound { price, instance_types })
    }

    /// The minimum price of pods of an admission if fractions of nodes could be launched: the price of their requests.
    pub(crate) fn worth(&mut self, asked: &[i64], admission: usize, asker: &mut Asker<'_, '_>) -> f64 {
        let launchable = self.launchable(&[admission], asker, true);
        let worth = launchable.worth.get_or_init(|| self.balanced(&launchable));
        asked.iter().zip(worth.iter()).map(|(asked, worth)| to_float(*asked) * worth).sum()
    }

    /// Prices for cpu and memory by which the content of no node is worth more than the node, and the total demand as much as
    /// possible: the dual of launching fractions of nodes.
    fn balanced(&self, launchable: &LaunchableNodes) -> Rc<[f64]> {
        let mut worth = vec![0.0; self.resources.len()];
        let place = |name| self.resources.place(name);
        let (Some(cpu), Some(memory)) = (place(resources::name::CPU), place(resources::name::MEMORY)) else {
            return worth.into();
        };
        let ratio =
            |price: f64, allocatable: i64| if allocatable > 0 { price / to_float(allocatable) } else { f64::INFINITY };
        let of_memory = |of_cpu: f64| {
            let left = launchable.items.iter().map(|item| {
                ratio((item.price - of_cpu * to_float(item.allocatable[cpu])).max(0.0), item.allocatable[memory])
            });
            left.fold(f64::INFINITY, f64::min)
        };
        let most =
            launchable.items.iter().map(|item| ratio(item.price, item.allocatable[cpu])).fold(f64::INFINITY, f64::min);
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

    /// The launchable nodes for pods with these admissions: for all of them together, or for some of them.
    fn launchable(&mut self, key: &[usize], asker: &mut Asker<'_, '_>, together: bool) -> Rc<LaunchableNodes> {
        let known = if together { &self.together } else { &self.somewhere };
        if let Some(known) = known.get(key) {
            return Rc::clone(known);
        }
        let made = self.chosen(key, asker, together);
        asker.work += u64::try_from(made.compared).unwrap_or(u64::MAX).saturating_mul(WORK_PER_ITEM);
        let known = if together { &mut self.together } else { &mut self.somewhere };
        known.insert(key.to_vec(), Rc::clone(&made));
        made
    }

    /// The launchable nodes by their lists of prices, which several keys may share.
    fn chosen(&mut self, key: &[usize], asker: &mut Asker<'_, '_>, together: bool) -> Rc<LaunchableNodes> {
        let mut lists: Vec<usize> = Vec::with_capacity(key.len());
        lists.extend(key.iter().map(|admission| self.prices.list_of(*admission, &self.offers, asker)));
        lists.sort_unstable();
        lists.dedup();
        if let Some(known) = self.by_prices.get(&(lists.clone(), together)) {
            return Rc::clone(known);
        }
        let made = Rc::new(self.choose(&lists, asker, together));
        self.by_prices.insert((lists, together), Rc::clone(&made));
        made
    }

    fn choose(&mut self, lists: &[usize], asker: &mut Asker<'_, '_>, together: bool) -> LaunchableNodes {
        // Price, NodePool, and the index of the node among those of the NodePool, which are sorted by name.
        let mut found: Vec<(f64, usize, usize)> = Vec::new();
        for (pool, offer) in self.offers.iter().enumerate() {
            let nodes = self.nodes.entry(pool).or_insert_with(|| asker.scheduler.new_nodes(&offer.pool.name));
            let mut known: Vec<(usize, f64)> = vec![(0, 0.0); nodes.len()];
            for &(node, price) in lists.iter().flat_map(|list| &self.prices.lists[*list][pool]) {
                let (count, known) = &mut known[node];
                *known = match (*count, together) {
                    (0, _) => price,
                    (_, true) => known.max(price),
                    (_, false) => known.min(price),
                };
                *count += 1;
            }
            let fit = |count: usize| count == lists.len() || (count > 0 && !together);
            let fitting = known.into_iter().enumerate().filter(|(_, (count, _))| fit(*count));
            found.extend(fitting.map(|(node, (_, price))| (price, pool, node)));
        }
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut kept: Vec<Item> = Vec::new();
        for (price, pool, node) in &found {
            let NewNode { instance_type, allocatable } = &self.nodes[pool][*node];
            if !kept.iter().any(|better| fits(allocatable, &better.allocatable)) {
                kept.push(Item {
                    instance_type: instance_type.clone(),
                    price: *price,
                    allocatable: allocatable.clone(),
                });
            }
        }
        LaunchableNodes { items: kept, compared: found.len(), worth: OnceCell::new() }
    }
}

/// The launchable nodes of NodePools, without duplicates.
#[derive(Default)]
struct Prices {
    /// By NodePool, its nodes and their prices.
    lists: Vec<Vec<Vec<(usize, f64)>>>,
    /// The index of an admission's list.
    by_admission: HashMap<usize, usize>,
    /// By a number made of it, the lists that may be the same.
    by_content: HashMap<u64, Vec<usize>>,
}

impl Prices {
    /// The list of an admission.
    fn list_of(&mut self, admission: usize, offers: &[PoolOffer<'_>], asker: &mut Asker<'_, '_>) -> usize {
        if let Some(known) = self.by_admission.get(&admission) {
            return *known;
        }
        let list: Vec<Vec<(usize, f64)>> = offers.iter().map(|offer| asker.prices(offer, admission)).collect();
        let alike = self.by_content.entry(summary(&list)).or_default();
        let place = alike.iter().copied().find(|known| self.lists[*known] == list).unwrap_or_else(|| {
            self.lists.push(list);
            alike.push(self.lists.len() - 1);
            self.lists.len() - 1
        });
        self.by_admission.insert(admission, place);
        place
    }
}

/// A number by which most different lists differ.
fn summary(list: &[Vec<(usize, f64)>]) -> u64 {
    list.iter().flatten().fold(0, |sum, (node, price)| sum.rotate_left(7) ^ price.to_bits().wrapping_add(*node as u64))
}

/// The work of comparing an instance type with the others, in the units of [`nodeless_scheduling::Solution::work`].
const WORK_PER_ITEM: u64 = 10;

/// Access to the scheduler, and the work that it took.
pub(crate) struct Asker<'s, 'a> {
    pub(crate) scheduler: &'s mut dyn Scheduler,
    pub(crate) classes: &'s Classes<'a>,
    pub(crate) work: u64,
}

impl Asker<'_, '_> {
    fn prices(&mut self, offer: &PoolOffer<'_>, admission: usize) -> Vec<(usize, f64)> {
        self.scheduler.prices(&offer.pool.name, &self.classes.admissions[admission], &mut self.work)
    }
}

/// The scheduler that places pods and prices nodes, with the NodePools prepared once for all queries.
pub(crate) trait Scheduler {
    /// See [`Prepared::resources`].
    fn resources(&self) -> &ResourceIndex;
    /// See [`Prepared::solve`]; takes at most this work, and that of reading the problem.
    fn solve(&mut self, problem: &Problem<'_>, max_work: u64) -> Solution;
    /// See [`Prepared::explain_at_most`].
    fn explain_at_most(&mut self, kinds: u32);
    /// See [`Prepared::new_nodes`].
    fn new_nodes(&self, node_pool: &str) -> Vec<NewNode>;
    /// See [`Prepared::prices`].
    fn prices(&mut self, node_pool: &str, admission: &Admission, work: &mut u64) -> Vec<(usize, f64)>;
    /// See [`Prepared::launch_together`].
    fn launch_together(
        &mut self,
        problem: &Problem<'_>,
        offer: &PoolOffer<'_>,
        within: &Requirements,
        work: &mut u64,
    ) -> Option<Launch>;
}

impl Scheduler for Prepared<'_> {
    fn resources(&self) -> &ResourceIndex {
        Prepared::resources(self)
    }

    fn solve(&mut self, problem: &Problem<'_>, max_work: u64) -> Solution {
        let solution = self.solve_within(problem, max_work);
        meter::scheduler(solution.work);
        solution
    }

    fn explain_at_most(&mut self, kinds: u32) {
        Prepared::explain_at_most(self, kinds);
    }

    fn new_nodes(&self, node_pool: &str) -> Vec<NewNode> {
        Prepared::new_nodes(self, node_pool)
    }

    fn prices(&mut self, node_pool: &str, admission: &Admission, work: &mut u64) -> Vec<(usize, f64)> {
        let before = *work;
        let prices = Prepared::prices(self, node_pool, admission, work);
        meter::scheduler(work.saturating_sub(before));
        prices
    }

    fn launch_together(
        &mut self,
        problem: &Problem<'_>,
        offer: &PoolOffer<'_>,
        within: &Requirements,
        work: &mut u64,
    ) -> Option<Launch> {
        let before = *work;
        let launch = Prepared::launch_together(self, problem, offer, within, work);
        meter::scheduler(work.saturating_sub(before));
        launch
    }
}

impl Reserved {
    /// Counts launches: in the usage of their NodePools, and in the use of reservations here.
    pub(crate) fn charge<'l>(&mut self, offers: &mut [PoolOffer<'_>], launches: impl Iterator<Item = &'l Launch>) {
        for launch in launches {
            PoolOffer::charge(offers, &launch.node_pool, &launch.charge);
            if let Some(id) = reservation(launch) {
                *self.0.entry(id).or_default() += 1;
            }
        }
    }

    /// Whether launches need more of a reservation than is left after the counted launches.
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

/// The reservation that a launch uses.
pub(crate) fn reservation(launch: &Launch) -> Option<String> {
    let id = launch.requirements.get(labels::CAPACITY_RESERVATION_ID).and_then(Requirement::single)?;
    (launch.offering.capacity_type == CapacityType::Reserved).then(|| id.to_owned())
}

/// The maximum price of a launch of a type with these offerings: the most expensive of the first capacity type, in the order reserved,
/// spot, on-demand, as in EC2 requests.
pub(crate) fn worst_price(offerings: &[&Offering]) -> Option<f64> {
    let first = offerings.iter().map(|offering| offering.capacity_type).min()?;
    let of_first = offerings.iter().filter(|offering| offering.capacity_type == first);
    of_first.map(|offering| offering.price).max_by(f64::total_cmp)
}

#[expect(clippy::cast_precision_loss, reason = "worths need no more than 53 bits")]
fn to_float(amount: i64) -> f64 {
    amount as f64
}
