//! The packing of pods onto new nodes of a NodePool.
//!
//! Karpenter fills a node while any instance type still fits, and so launches large and expensive nodes with unused resources.
//! Here each new node gets the instance type that costs least for the value of its pods, by resource prices that follow from the
//! prices of nodes ([`resource_prices`], [`shape_ranking`]), and is filled so that its resources run out together
//! ([`filling`]).

pub(crate) mod assigning;
pub(crate) mod bin;
pub(crate) mod demand;
pub(crate) mod few_per_node;
pub(crate) mod filling;
pub(crate) mod hosts;
pub(crate) mod joining;
pub(crate) mod merging;
pub(crate) mod minimum_nodes;
pub(crate) mod pool_prices;
pub(crate) mod portions;
pub(crate) mod resource_prices;
pub(crate) mod shape_ranking;

use crate::classes::Class;
use crate::dense;
use crate::pools::{BASE, FLEXIBLE, MIN_SAVING_OF_FEW_TYPES, Pool, PoolType, SetId};
use crate::problem::MinValuesPolicy;
use crate::topology::Topology;
use bin::{Bin, Context, NODE, Unit, holding, min_share};
use demand::{Demand, PendingDemand};
use few_per_node::{FewPerNode, PendingSizes, Urgent};
use filling::{Filled, Filler, Scratch};
use hosts::HostCounts;
use minimum_nodes::Forced;
use nodeless_model::hashed::{HashMap, HashSet};
use shape_ranking::{Try, valued};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// After this number of shapes without an improvement, no more are filled.
const MAX_SHAPES_WITHOUT_GAIN: u32 = 10;

/// Resource prices are computed again each time the pending pods have decreased to this fraction.
const REVALUED: f64 = 0.7;

/// The work, for each shape, of computing resource prices.
const WORK_PER_SHAPE: usize = 20;

/// The work of computing the worth of a demand.
const WORK_OF_VALUE: usize = 10;

/// The number of demands that are counted in a unit of work.
const DEMANDS_AT_ONCE: usize = 16;

/// Prices whose ratio differs by less are equal.
const EQUAL: f64 = 1e-9;

/// Packs as many pending pods as the NodePool can run, and returns the nodes for them.
pub(crate) fn pack(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    units: &mut [Unit],
    topology: &mut Topology<'_>,
) -> Vec<Bin> {
    let mut bins = Vec::new();
    loop {
        let before = bins.len();
        let mut ranked: Vec<VecDeque<Demand>> =
            units
                .iter()
                .enumerate()
                .map(|(place, unit)| {
                    if unit.pending == 0 {
                        VecDeque::new()
                    } else {
                        demands(pool, context, topology, place, unit).into()
                    }
                })
                .collect();
        let most = ranked.iter().map(VecDeque::len).max().unwrap_or(0);
        let reserved = pool.reservations.clone();
        // Each unit starts with its cheapest alternative; the remaining pods try the next.
        for _ in 0..most {
            let demands: Vec<Demand> = ranked.iter_mut().filter_map(VecDeque::pop_front).collect();
            let mut packer = Packer {
                forced: Forced::new(&demands, context, units, topology),
                pool: &mut *pool,
                context,
                demands,
                pending_demand: PendingDemand::default(),
                scratch: Scratch::default(),
                topology: &mut *topology,
                tries: HashMap::default(),
                exhausted: HashSet::default(),
                waiting: 0.0,
                next: 0.0,
                nodes_cost: false,
                few_per_node: Vec::new(),
                sizes: PendingSizes::default(),
                of_unit: Vec::new(),
            };
            bins.extend(packer.pack(units));
            // Prices change when a reservation is used up.
            if pool.reservations != reserved {
                break;
            }
        }
        if pool.reservations != reserved {
            pool.reprice();
            continue;
        }
        // Merging may free limits for pods that were left out.
        if bins.len() == before || !merging::merge(pool, context, topology, &mut bins) {
            bins.iter_mut().for_each(|bin| bin.hosts.drop_preferences());
            return bins;
        }
    }
}

/// The alternatives of a unit that the NodePool could serve, the cheapest first.
fn demands(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    index: usize,
    unit: &Unit,
) -> Vec<Demand> {
    let Context { classes, level, .. } = context;
    let mut demands: Vec<Demand> = Vec::new();
    let demand = |alternative, set| Demand {
        unit: index,
        class: unit.class,
        alternative,
        set,
        worth: 0.0,
        size: 0.0,
        portions: 0,
    };
    for &alternative in &unit.alternatives {
        let requests = &classes.list[unit.class].requests;
        let class = &classes.list[unit.class];
        let needs = class.needs(unit.class);
        let Some(set) = pool.admit_class(BASE, alternative, &classes.alternatives, needs) else { continue };
        let is_met = |kind: &PoolType<'_>| class.is_met_by(level, &unit.target, topology, &kind.daemons);
        let is_unmet = class.unmet(level, &unit.target, topology).next().is_some();
        let set = if is_unmet { pool.narrowed_to(set, is_met) } else { Some(set) };
        let Some(set) = set else { continue };
        if unit.alternatives.len() == 1 {
            demands.extend(pool.may_hold(set, requests).then(|| demand(alternative, set)));
        } else if let Some(worth) = pool.worth(set, requests) {
            demands.push(Demand { worth, ..demand(alternative, set) });
        }
    }
    demands.sort_by(|a, b| a.worth.total_cmp(&b.worth));
    demands
}

struct Packer<'p, 'a, 'c, 't> {
    pool: &'p mut Pool<'a>,
    context: Context<'p, 'c>,
    demands: Vec<Demand>,
    pending_demand: PendingDemand,
    scratch: Scratch,
    topology: &'p mut Topology<'t>,
    forced: Forced,
    /// By set, the shapes to try.
    tries: HashMap<SetId, Vec<Try>>,
    /// The sets of which no shape is within the remaining limits.
    exhausted: HashSet<SetId>,
    /// The value of all pending pods.
    waiting: f64,
    /// Resource prices are computed again below this value.
    next: f64,
    /// Whether topology requires more nodes than the resources do, as of the last computation.
    nodes_cost: bool,
    few_per_node: Vec<FewPerNode>,
    /// The size of what is pending, while there are such demands.
    sizes: PendingSizes,
    /// The demand of a unit, if it has one.
    of_unit: Vec<Option<usize>>,
}

impl<'c> Packer<'_, '_, 'c, '_> {
    fn class(&self, index: usize) -> &Class<'c> {
        &self.context.classes.list[index]
    }

    fn pack(&mut self, units: &mut [Unit]) -> Vec<Bin> {
        let mut bins = Vec::new();
        if !(0..self.demands.len()).any(|place| self.may_be_first(place)) {
            return bins;
        }
        self.value(units);
        for anchor in self.order() {
            let unit = self.demands[anchor].unit;
            while units[unit].pending > 0 && !self.pool.work.is_used_up() {
                if self.waiting < self.next || (self.nodes_cost && self.forced.is_over()) {
                    self.value(units);
                }
                let Some((mut best, taken)) = self.best(anchor, units) else { break };
                best.reservation = self.pool.reservation(best.set, best.shape);
                let alike = self.times(&best, &taken, units);
                let mut used_up = 0;
                for (unit, count) in taken {
                    units[unit].pending -= count * alike;
                    if let Some(demand) = self.of_unit.get(unit).copied().flatten() {
                        self.sizes.remove(&self.demands[demand], count * alike);
                    }
                    used_up += usize::from(units[unit].pending == 0);
                }
                for (class, count) in &best.contents {
                    let class = &self.context.classes.list[*class];
                    self.topology.record_host(&class.selected_hosts, count * alike);
                    self.forced.take(class, self.context.level, count * alike);
                }
                self.waiting -= self.pending_demand.size(&best.used) * f64::from(alike);
                self.pending_demand.tidy(&self.demands, self.context.classes, units, used_up);
                self.pool.limits.charge(&best.share, alike);
                let (reservation, shape) = (best.reservation.clone(), best.shape);
                bins.extend(std::iter::repeat_n(best, alike as usize));
                let reserved = reservation.map(|id| (self.pool.reserved_each(shape, &id).saturating_mul(alike), id));
                if reserved.is_some_and(|(amount, id)| self.pool.reservations.take(&id, amount)) {
                    return bins;
                }
            }
        }
        bins
    }

    /// Computes resource prices and values by the pending pods.
    fn value(&mut self, units: &[Unit]) {
        let shapes = self.pool.set(BASE).offer.shapes.len();
        self.pool.work.add(self.demands.len() * WORK_OF_VALUE + shapes * WORK_PER_SHAPE);
        let (values, tries) = valued(self.pool, self.context, units, &mut self.demands, &self.forced);
        self.tries = tries;
        self.pending_demand = PendingDemand::new(&self.demands, self.context, units, values.resources);
        let waiting = |demand: &Demand| demand.size * f64::from(units[demand.unit].pending);
        self.waiting = self.demands.iter().map(waiting).sum();
        self.next = self.waiting * REVALUED;
        self.nodes_cost = values.node > 0.0;
        // Pods of a higher priority come first, whatever the others need.
        let few = |(demand, of): (usize, &Demand)| {
            let class = self.class(of.class);
            let by_hosts = self.forced.pods_per_node(class, self.context.level);
            let together = class.spread.map(|spread| spread.bound_together.max(1));
            let pods_per_node = by_hosts.into_iter().chain(together).min()?;
            Some(FewPerNode { demand, pods_per_node })
        };
        let by_priority = self.context.classes.by_priority;
        self.few_per_node =
            if by_priority { Vec::new() } else { self.demands.iter().enumerate().filter_map(few).collect() };
        self.of_unit.clear();
        if !self.few_per_node.is_empty() {
            self.sizes = PendingSizes::new(&self.demands, units);
            self.of_unit.resize(units.len(), None);
            self.demands.iter().enumerate().for_each(|(place, demand)| self.of_unit[demand.unit] = Some(place));
        }
    }

    /// The order in which nodes are opened for demands: first demands that require the most nodes, then those that the fewest
    /// types hold, so that others do not use these types, then in their order.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.demands.len()).collect();
        order.sort_by_key(|place| {
            let class = self.class(self.demands[*place].class);
            let priority = self.context.classes.by_priority.then_some(Reverse(class.example.template.priority));
            let nodes = self.forced.nodes_for(class, self.context.level);
            (priority, Reverse(nodes), Reverse(self.demands[*place].portions))
        });
        order
    }

    /// The number of nodes like this one that the pending pods fill and the limits allow.
    fn times(&self, bin: &Bin, taken: &[(usize, u32)], units: &[Unit]) -> u32 {
        let gathers = |class: usize| self.class(class).gathers(self.context.level, self.topology);
        if bin.contents.iter().any(|(class, _)| gathers(*class)) {
            return 1;
        }
        let filled = taken.iter().map(|(unit, count)| units[*unit].pending / count).min().unwrap_or(1).max(1);
        let most = |id: &String| self.pool.reservations.left(id) / self.pool.reserved_each(bin.shape, id);
        let reserved = bin.reservation.as_ref().map_or(u32::MAX, most);
        self.pool.limits.allowed(&bin.share, filled.min(reserved)).max(1)
    }

    /// The node with the anchor that costs least for the value of its pods, and how many pods of each unit it takes.
    fn best(&mut self, anchor: usize, units: &[Unit]) -> Option<(Bin, Vec<(usize, u32)>)> {
        let set = self.demands[anchor].set;
        // Pods that have to share a node get the node with capacity for most of them.
        let gathers = self.class(self.demands[anchor].class).gathers(self.context.level, self.topology);
        let largest = self.forced.largest(self.waiting);
        let mut best = self.best_of(set, anchor, gathers, units, if gathers { f64::INFINITY } else { largest });
        if best.is_none() && !gathers {
            best = self.best_of(set, anchor, gathers, units, f64::INFINITY);
        }
        let best = self.right_sized(best?);
        let counts = best.bin.contents.iter().map(|(_, count)| *count);
        let taken = best.units.iter().copied().zip(counts).collect();
        Some((best.bin, taken))
    }

    fn best_of(&mut self, set: SetId, anchor: usize, gathers: bool, units: &[Unit], largest: f64) -> Option<Filled> {
        if self.exhausted.contains(&set) || !self.may_be_first(anchor) {
            return None;
        }
        let mut best: Option<Filled> = None;
        let requests = &self.context.classes.list[self.demands[anchor].class].requests;
        let tries = std::mem::take(self.tries.get_mut(&set)?);
        let sizes = tries.iter().filter(|shape| shape.worth <= largest).map(|shape| self.size_of(shape));
        let most = sizes.fold(0.0, f64::max);
        let first = Urgent::new(&self.few_per_node, &self.demands, units, &self.sizes, most);
        if !self.few_per_node.is_empty() {
            self.pool.work.add(self.demands.len() / DEMANDS_AT_ONCE + 1);
        }
        let mut without_gain = 0;
        for shape in tries.iter().filter(|shape| shape.worth <= largest) {
            let hopeless = |best: &Filled| {
                let no_better = shape.bound * best.worth >= best.price + NODE && !best.inflexible;
                no_better || without_gain > MAX_SHAPES_WITHOUT_GAIN
            };
            if !gathers && best.as_ref().is_some_and(hopeless) {
                break;
            }
            self.pool.work.add(1);
            if !dense::fits(requests, &self.pool.types[shape.kind].allocatable) {
                continue;
            }
            let size = self.size_of(shape);
            let urgent = first.on(&self.demands, size);
            let mut filler = Filler {
                urgent: &urgent,
                nodes: self.waiting / size.max(f64::MIN_POSITIVE),
                pool: self.pool,
                context: self.context,
                demands: &self.demands,
                pending_demand: &self.pending_demand,
                units,
                topology: self.topology,
                scratch: &mut self.scratch,
            };
            let filled = filler.fill(anchor, shape.kind);
            let filled = filled.map(|filled| Filled { inflexible: is_inflexible(self.pool, &filled.bin), ..filled });
            if let Some(filled) = filled
                && best.as_ref().is_none_or(|best| filled.is_better_than(best, gathers))
                && let Some(filled) = self.reserve(filled)
                && best.as_ref().is_none_or(|best| filled.is_better_than(best, gathers))
            {
                best = Some(filled);
                without_gain = 0;
            } else {
                without_gain += 1;
            }
        }
        if best.is_none() && !tries.iter().any(|shape| self.is_within_limits(set, shape)) {
            self.exhausted.insert(set);
        }
        self.tries.insert(set, tries);
        best
    }

    /// The size of a shape, in the same unit as that of pods.
    fn size_of(&self, shape: &Try) -> f64 {
        self.pending_demand.size(&self.pool.types[shape.kind].allocatable)
    }

    /// Whether pods of a demand may be on a node without other pods, given the pods elsewhere.
    fn may_be_first(&self, demand: usize) -> bool {
        let class = self.class(self.demands[demand].class);
        if !class.is_related() {
            return true;
        }
        let adds = |hosts: &HostCounts| hosts.max_added(class, self.context.level, self.topology) > 0;
        if self.topology.daemon_pods.is_empty() {
            return adds(&HostCounts::default());
        }
        let mut shapes = self.pool.set(self.demands[demand].set).offer.choices.iter();
        shapes.any(|choice| adds(&HostCounts::of_new_node(self.topology, &self.pool.types[choice.kind].daemons)))
    }

    fn is_within_limits(&self, set: SetId, shape: &Try) -> bool {
        let choice = self.pool.set(set).choice(shape.kind);
        choice.is_some_and(|choice| self.pool.limits.allowed(&choice.share, 1) > 0)
    }

    /// Changes to the cheapest type with capacity for the same pods.
    fn right_sized(&self, mut filled: Filled) -> Filled {
        if !self.pool.min_values.is_empty() {
            return filled;
        }
        let cheapest = holding(self.pool, &filled.bin).find(|choice| self.pool.limits.allowed(&choice.share, 1) > 0);
        let cheapest = cheapest.cloned();
        if let Some(choice) = cheapest.filter(|choice| choice.price < filled.price) {
            (filled.bin.shape, filled.price) = (choice.kind, choice.price);
            filled.bin.share = choice.share;
        }
        filled
    }

    /// Computes the usage of the limits by the node.
    ///
    /// If too few instance types are large enough to satisfy `minValues`, pods are removed, the last one first, until enough are.
    /// A node for a single pod of the anchor is dropped, or kept with fewer types if the policy allows it.
    fn reserve(&self, mut filled: Filled) -> Option<Filled> {
        loop {
            let own = &self.pool.set(filled.bin.set).choice(filled.bin.shape)?.share;
            if let Some(share) = min_share(self.pool, &self.pool.limits, &filled.bin, own)
                && self.context.hosts_allow(&filled.bin.hosts, filled.bin.contents.iter(), self.topology)
            {
                filled.bin.share = share;
                filled.units.truncate(filled.bin.contents.len());
                return Some(filled);
            }
            let (class, count) = filled.bin.contents.pop()?;
            let only = filled.bin.contents.is_empty();
            if only && count == 1 {
                filled.bin.contents.push((class, count));
                filled.units.truncate(1);
                filled.bin.share = own.clone();
                filled.bin.min_values_relaxed = true;
                return (self.context.options.min_values == MinValuesPolicy::BestEffort).then_some(filled);
            }
            let kept = count / 2;
            if kept > 0 {
                filled.bin.contents.push((class, kept));
            }
            self.recount(&mut filled);
        }
    }

    /// Computes again what depends on the contents. The set stays as narrow as it was, which is valid, but may be narrower than
    /// necessary.
    fn recount(&self, filled: &mut Filled) {
        let contents = std::mem::take(&mut filled.bin.contents);
        filled.bin.used.fill(0);
        filled.bin.ports.clear();
        filled.bin.volumes.clear();
        filled.bin.hosts = HostCounts::of_new_node(self.topology, &self.pool.types[filled.bin.shape].daemons);
        filled.worth = 0.0;
        for (class, count) in contents {
            let worth = self.demands.iter().find(|demand| demand.class == class).map_or(0.0, |demand| demand.worth);
            filled.worth += worth * f64::from(count);
            filled.bin.add(class, self.class(class), self.context.level, count);
        }
    }
}

/// Whether the capacity type of a node is spot and fewer than [`FLEXIBLE`] types are large enough.
fn is_inflexible(pool: &Pool<'_>, bin: &Bin) -> bool {
    let spot = pool.set(bin.set).choice(bin.shape).is_some_and(|choice| choice.spot);
    spot && holding(pool, bin).take(FLEXIBLE).count() < FLEXIBLE
}

impl Filled {
    /// Cheaper for the value of its pods, with few types by at least [`MIN_SAVING_OF_FEW_TYPES`]; at the same price the one with
    /// more value. Where the first pods have to share a node, the one with more of them.
    fn is_better_than(&self, other: &Self, first_gather: bool) -> bool {
        let anchored = |filled: &Self| filled.bin.contents.first().map_or(0, |(_, count)| *count);
        if first_gather && anchored(self) != anchored(other) {
            return anchored(self) > anchored(other);
        }
        let (mine, theirs) = ((self.price + NODE) * other.worth, (other.price + NODE) * self.worth);
        match (self.inflexible, other.inflexible) {
            (true, false) => return mine < theirs * (1.0 - MIN_SAVING_OF_FEW_TYPES),
            (false, true) => return mine * (1.0 - MIN_SAVING_OF_FEW_TYPES) <= theirs,
            _ => {}
        }
        let tolerance = EQUAL * mine.abs().max(theirs.abs());
        mine < theirs - tolerance || (mine <= theirs + tolerance && self.worth > other.worth * (1.0 + EQUAL))
    }
}
