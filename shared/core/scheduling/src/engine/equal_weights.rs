//! The order in which NodePools launch nodes: by weight, and of those of equal weight the one where the pods cost least.

use super::Engine;
use crate::packing::bin::{Context, Unit};
use crate::packing::demand::Demand;
use crate::packing::{self, joining, pool_prices};
use crate::pools::BASE;
use crate::pools::reservations::Reservations;
use nodeless_model::hashed::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// Prices in dollars per hour that differ by less are equal.
const EQUAL: f64 = 1e-9;

/// The NodePools in which a unit is packed, in their order. They launch the same nodes, and are the cheapest for the unit.
#[derive(Clone, Debug, Default)]
struct Sequence {
    pools: Vec<usize>,
    /// Whether others could launch nodes for it too.
    is_choice: bool,
}

/// Pending pods for which NodePools of equal weight launch nodes.
struct Due<'t> {
    pools: Range<usize>,
    level: usize,
    /// The priority of the pods, if others are packed before and after them.
    priority: Option<i32>,
    /// By unit, the NodePools that have launched what they can for it.
    tried: &'t BTreeSet<(usize, usize)>,
}

/// Pending pods, and what they ask of NodePools.
struct Asked<'u> {
    units: &'u [Unit],
    level: usize,
    /// By NodePool and unit.
    demands: HashMap<(usize, usize), Demand>,
}

/// The units of which it is a NodePool's turn.
struct Turn {
    pool: usize,
    units: BTreeSet<usize>,
    is_choice: bool,
}

/// What packing has done before.
struct Before {
    /// By NodePool, the number of nodes before the first of equal weight was packed.
    nodes: Vec<usize>,
    /// What NodePools left of reservations.
    left: Option<Reservations>,
}

impl Engine<'_, '_, '_> {
    /// Packs pending pods onto new nodes.
    pub(super) fn pack(&mut self, level: usize, units: &mut [Unit]) {
        let mut before = Before { nodes: Vec::new(), left: None };
        let mut first = 0;
        while first < self.pools.len() {
            let weight = self.pools[first].pool.weight;
            let equal = self.pools[first..].iter().take_while(|pool| pool.pool.weight == weight).count();
            let pools = first..first + equal;
            self.pack_equal(pools, level, units, &mut before);
            first += equal;
        }
        for pool in &mut self.pools {
            if before.left.as_ref().is_some_and(|left| pool.reservations.lower_to(left)) {
                pool.reprice();
                self.changes += 1;
            }
        }
    }

    /// Packs pending pods onto new nodes of a NodePool.
    fn pack_in(&mut self, place: usize, level: usize, units: &mut [Unit], before: &mut Before) {
        let elsewhere = self.pools.iter().map(|pool| pool.work.done).sum::<u64>() - self.pools[place].work.done;
        let context = Context { classes: &self.classes, level, options: &self.options };
        let pool = &mut self.pools[place];
        pool.work.share_limit(self.max_work, elsewhere);
        if before.left.as_ref().is_some_and(|left| pool.reservations.lower_to(left)) {
            pool.reprice();
            self.changes += 1;
        }
        self.bins[place].extend(packing::pack(pool, context, units, &mut self.topology));
        let left = before.left.take();
        before.left = Some(left.map_or_else(|| pool.reservations.clone(), |left| left.with(&pool.reservations)));
    }

    /// Packs pending pods onto new nodes of NodePools of equal weight. Where they launch different nodes for the same pods, the price
    /// decides, and again for the pods that limits of the cheapest leave.
    fn pack_equal(&mut self, pools: Range<usize>, level: usize, units: &mut [Unit], before: &mut Before) {
        let mut tried = BTreeSet::new();
        let mut sequences = if pools.clone().all(|pool| self.launches_like(pool, pools.start)) {
            Vec::new()
        } else {
            self.sequences(&Due { pools: pools.clone(), level, priority: None, tried: &tried }, units)
        };
        if !sequences.iter().any(|sequence| sequence.is_choice) {
            pools.for_each(|pool| self.pack_in(pool, level, units, before));
            return;
        }
        before.nodes = self.bins.iter().map(Vec::len).collect();
        for priority in self.priorities(units) {
            if priority.is_some() {
                sequences = self.sequences(&Due { pools: pools.clone(), level, priority, tried: &tried }, units);
            }
            while sequences.iter().any(|sequence| !sequence.pools.is_empty()) {
                self.pack_by_price(&sequences, level, units, before);
                let now = sequences.iter().enumerate();
                tried.extend(now.flat_map(|(unit, sequence)| sequence.pools.iter().map(move |pool| (unit, *pool))));
                sequences = self.sequences(&Due { pools: pools.clone(), level, priority, tried: &tried }, units);
            }
        }
    }

    /// By unit, where it is packed next.
    fn sequences(&mut self, due: &Due<'_>, units: &[Unit]) -> Vec<Sequence> {
        let context = Context { classes: &self.classes, level: due.level, options: &self.options };
        let mut asked = Asked { units, level: due.level, demands: HashMap::default() };
        let mut by_pools: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.pending > 0) {
            if due.priority.is_some_and(|priority| priority != self.priority(unit)) {
                continue;
            }
            let mut serving = Vec::new();
            for place in due.pools.clone().filter(|pool| !due.tried.contains(&(index, *pool))) {
                let demand = pool_prices::demand(&mut self.pools[place], context, &self.topology, index, unit);
                serving.extend(demand.is_some().then_some(place));
                asked.demands.extend(demand.map(|demand| ((place, index), demand)));
            }
            by_pools.entry(serving).or_default().push(index);
        }
        let mut sequences = vec![Sequence::default(); units.len()];
        for (pools, of_pools) in by_pools {
            if pools.iter().all(|pool| self.launches_like(*pool, pools[0])) {
                let sequence = Sequence { pools, is_choice: false };
                of_pools.into_iter().for_each(|unit| sequences[unit].clone_from(&sequence));
            } else {
                self.choose(&pools, &of_pools, &asked, &mut sequences);
            }
        }
        sequences
    }

    /// Chooses the NodePool in which all of these units cost least; or for each unit the one in which its pods cost least, if that
    /// is cheaper for all units together.
    fn choose(&mut self, pools: &[usize], units: &[usize], asked: &Asked<'_>, sequences: &mut [Sequence]) {
        let mut different: Vec<(usize, f64)> = Vec::new();
        for pool in pools {
            if !different.iter().any(|(other, _)| self.launches_like(*pool, *other)) {
                different.push((*pool, self.price_in(*pool, units, asked)));
            }
        }
        let (mut best, mut least) = (pools[0], f64::INFINITY);
        for (pool, price) in &different {
            if *price < least - EQUAL {
                (best, least) = (*pool, *price);
            }
        }
        let mut apart: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for unit in units {
            let worth = |pool: &usize| asked.demands.get(&(*pool, *unit)).map_or(f64::INFINITY, |demand| demand.worth);
            let cheapest = different.iter().map(|(pool, _)| *pool).min_by(|a, b| worth(a).total_cmp(&worth(b)));
            apart.entry(cheapest.unwrap_or(best)).or_default().push(*unit);
        }
        let is_cheaper_apart = apart.len() > 1
            && apart.iter().map(|(pool, units)| self.price_in(*pool, units, asked)).sum::<f64>() < least - EQUAL;
        if !is_cheaper_apart {
            apart = BTreeMap::from([(best, units.to_vec())]);
        }
        for (chosen, units) in apart {
            let alike = pools.iter().copied().filter(|pool| self.launches_like(*pool, chosen)).collect();
            let sequence = Sequence { pools: alike, is_choice: true };
            units.into_iter().for_each(|unit| sequences[unit].clone_from(&sequence));
        }
    }

    /// The price of units on new nodes of a NodePool.
    fn price_in(&mut self, pool: usize, units: &[usize], asked: &Asked<'_>) -> f64 {
        let context = Context { classes: &self.classes, level: asked.level, options: &self.options };
        let demands: Vec<Demand> = units.iter().filter_map(|unit| asked.demands.get(&(pool, *unit)).copied()).collect();
        pool_prices::price(&mut self.pools[pool], context, &self.topology, asked.units, &demands)
    }

    /// Whether two NodePools launch the same nodes at the same prices.
    fn launches_like(&self, pool: usize, other: usize) -> bool {
        Rc::ptr_eq(&self.pools[pool].set(BASE).offer, &self.pools[other].set(BASE).offer)
    }

    /// Packs each unit in its NodePools.
    fn pack_by_price(&mut self, sequences: &[Sequence], level: usize, units: &mut [Unit], before: &mut Before) {
        let longest = sequences.iter().map(|sequence| sequence.pools.len()).max().unwrap_or(0);
        for pass in 0..longest {
            let mut turns: BTreeMap<(usize, bool), Turn> = BTreeMap::new();
            for (index, sequence) in sequences.iter().enumerate().filter(|(index, _)| units[*index].pending > 0) {
                let Some(&pool) = sequence.pools.get(pass) else { continue };
                let new = || Turn { pool, units: BTreeSet::new(), is_choice: false };
                // What limits allow is for those that cannot go elsewhere.
                let is_later = sequence.is_choice && !self.pools[pool].limits.are_none();
                let turn = turns.entry((pool, is_later)).or_insert_with(new);
                turn.units.insert(index);
                turn.is_choice |= sequence.is_choice;
            }
            // Pods with a choice may use what is left of the nodes of others.
            let (own, of_choice): (Vec<_>, Vec<_>) = turns.into_values().partition(|turn| !turn.is_choice);
            own.iter().chain(&of_choice).for_each(|turn| self.take_turn(turn, level, units, before));
        }
    }

    fn priority(&self, unit: &Unit) -> i32 {
        self.classes.list[unit.class].example.template.priority
    }

    /// The priorities that are packed one after the other, because pods of a lower one could use up limits.
    fn priorities(&self, units: &[Unit]) -> Vec<Option<i32>> {
        if !self.classes.by_priority {
            return vec![None];
        }
        let all: BTreeSet<Reverse<i32>> = units.iter().map(|unit| Reverse(self.priority(unit))).collect();
        all.into_iter().map(|Reverse(priority)| Some(priority)).collect()
    }

    /// Adds the units of a turn to nodes that were opened for others, and packs the rest onto new nodes of the NodePool.
    fn take_turn(&mut self, turn: &Turn, level: usize, units: &mut [Unit], before: &mut Before) {
        if turn.is_choice {
            let context = Context { classes: &self.classes, level, options: &self.options };
            for ((pool, bins), nodes) in self.pools.iter_mut().zip(&mut self.bins).zip(&before.nodes) {
                for bin in &mut bins[*nodes..] {
                    for unit in &turn.units {
                        if units[*unit].pending > 0 && !pool.work.is_used_up() {
                            joining::join(pool, bin, &mut units[*unit], context, &mut self.topology);
                        }
                    }
                }
            }
        }
        let waiting: Vec<u32> = units.iter().map(|unit| unit.pending).collect();
        let others = || (0..waiting.len()).filter(|unit| !turn.units.contains(unit));
        others().for_each(|unit| units[unit].pending = 0);
        self.pack_in(turn.pool, level, units, before);
        others().for_each(|unit| units[unit].pending = waiting[unit]);
    }
}
