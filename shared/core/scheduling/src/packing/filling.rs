//! Fills a single node so that its resources are used up.
//!
//! Pending pods are sorted by their dominant resource, in proportion to resource prices, and among equal ones by size. A node
//! takes the pods that match its free capacity best, the largest that fits first: so its resources run out together, and small
//! pods fill the gaps.

use crate::classes::Class;
use crate::dense;
use crate::packing::bin::{Bin, Context, Unit};
use crate::packing::demand::{Demand, DemandItem, PendingDemand};
use crate::packing::hosts::HostCounts;
use crate::pools::Pool;
use crate::topology::Topology;

/// At most this fraction of the free capacity is filled with equal pods at once, so that its proportions are compared again.
const PART: u32 = 4;

/// A node during filling, and its purpose.
pub(crate) struct Filled {
    pub(crate) bin: Bin,
    pub(crate) price: f64,
    pub(crate) worth: f64,
    /// The units of its contents, in their order.
    pub(crate) units: Vec<usize>,
    /// Whether the capacity type is spot and few types are large enough.
    pub(crate) inflexible: bool,
}

/// Buffers that are reused.
#[derive(Default)]
pub(crate) struct Scratch {
    free: Vec<i64>,
    /// By bucket, the next item to evaluate.
    cursors: Vec<usize>,
    /// The buckets with items left, in their order.
    open: Vec<usize>,
    /// The free capacity, each resource as a share of the node's.
    part_of_free: Vec<f64>,
    /// By signature, whether its pods are excluded from the node.
    kept_out: Vec<bool>,
    /// By alternative, whether the node admits none of its pods, which cannot change later.
    refused: Vec<bool>,
    /// By list of host ports, whether one of them is used on the node.
    ports_taken: Vec<bool>,
    /// The numbers of signatures and of lists of host ports that are not excluded.
    signatures_open: usize,
    ports_open: usize,
    /// Whether pods were left out because they would raise the node's price.
    makes_dearer: bool,
    /// Whether the node takes at most [`Spread::bound_together`] pods of a class, also where nothing else is left for it, and whether
    /// only others were preferred to such pods.
    apart: bool,
    crowded: bool,
}

/// Differences of prices are rounded.
const ROUNDING: f64 = 1e-9;

/// The number of buckets that are compared in a unit of work.
const COMPARED_AT_ONCE: usize = 8;

/// The input of filling a node.
pub(crate) struct Filler<'f, 'a, 'c, 't> {
    pub(crate) pool: &'f mut Pool<'a>,
    pub(crate) context: Context<'f, 'c>,
    pub(crate) demands: &'f [Demand],
    pub(crate) pending_demand: &'f PendingDemand,
    pub(crate) units: &'f [Unit],
    pub(crate) topology: &'f Topology<'t>,
    pub(crate) scratch: &'f mut Scratch,
    /// Demands of which the node takes pods before others.
    pub(crate) urgent: &'f [usize],
    /// The number of nodes like this one that all pending pods fill.
    pub(crate) nodes: f64,
}

impl<'c> Filler<'_, '_, 'c, '_> {
    fn class(&self, index: usize) -> &Class<'c> {
        &self.context.classes.list[index]
    }

    /// Fills a node of this type: first the anchor, then urgent pods, then others that match the free capacity. `None` when the
    /// anchor does not fit, or the limits do not allow such a node.
    pub(crate) fn fill(&mut self, anchor: usize, kind: usize) -> Option<Filled> {
        let first = &self.demands[anchor];
        let choice = self.pool.set(first.set).choice(kind)?;
        if self.pool.limits.allowed(&choice.share, 1) == 0 {
            return None;
        }
        self.scratch.free.clear();
        // A pod that needs more than what enough other types have gets a node of fewer types.
        let whole = &self.pool.types[kind].allocatable;
        let usable = self.pool.set(first.set).offer.usable(choice, whole);
        let holds = dense::fits(&self.class(first.class).requests, usable);
        self.scratch.free.extend_from_slice(if holds { usable } else { whole });
        let mut filled = Filled {
            price: choice.price,
            worth: 0.0,
            units: Vec::new(),
            inflexible: false,
            bin: Bin::empty(first.set, kind, choice.share.clone(), self.scratch.free.len()),
        };
        if !self.topology.daemon_pods.is_empty() {
            filled.bin.hosts = HostCounts::of_new_node(self.topology, &self.pool.types[kind].daemons);
            filled.bin.keeps_daemons = true;
        }
        let gathers = self.class(first.class).gathers(self.context.level, self.topology);
        let most = if gathers || self.pending_demand.items.len() == 1 { u32::MAX } else { 1 };
        (self.scratch.apart, self.scratch.crowded) = (most == 1, false);
        if self.put(&mut filled, first, most, true) == 0 {
            return None;
        }
        self.pool.work.add(self.urgent.len());
        for place in self.urgent {
            self.put(&mut filled, &self.demands[*place], u32::MAX, false);
        }
        self.scratch.kept_out.clear();
        self.scratch.kept_out.resize(self.pending_demand.signatures, false);
        self.scratch.refused.clear();
        self.scratch.refused.resize(self.context.classes.alternatives.len(), false);
        self.scratch.signatures_open = self.pending_demand.signatures_left;
        self.scratch.ports_open = self.pending_demand.ports.iter().flatten().count();
        self.scratch.ports_taken.clear();
        self.scratch.ports_taken.resize(self.pending_demand.ports.len(), false);
        self.take_ports(&filled.bin, filled.bin.ports.len());
        self.scratch.makes_dearer = false;
        self.sweep(&mut filled, false);
        if self.scratch.crowded {
            self.scratch.apart = false;
            self.sweep(&mut filled, false);
        }
        // Pods that raise the node's price use only capacity that others leave.
        if self.scratch.makes_dearer {
            self.sweep(&mut filled, true);
        }
        Some(filled)
    }

    fn sweep(&mut self, filled: &mut Filled, last: bool) {
        self.scratch.cursors.clear();
        self.scratch.cursors.extend(self.pending_demand.buckets.iter().map(|bucket| bucket.from));
        self.scratch.open.clear();
        self.scratch.open.extend(0..self.pending_demand.buckets.len());
        // Once all remaining items are excluded, none of them has to be evaluated.
        while self.scratch.signatures_open > 0
            && self.scratch.ports_open > 0
            && let Some(bucket) = self.nearest()
        {
            self.take_from(bucket, filled, last);
        }
    }

    /// Excludes the pods that need one of the last `count` ports of a node.
    fn take_ports(&mut self, bin: &Bin, count: usize) {
        let new = &bin.ports[bin.ports.len() - count..];
        if new.is_empty() {
            return;
        }
        for (number, class) in self.pending_demand.ports.iter().enumerate() {
            let taken = class.is_some_and(|class| !self.context.classes.list[class].ports_free(new));
            if taken && !self.scratch.ports_taken[number] {
                self.scratch.ports_taken[number] = true;
                self.scratch.ports_open -= 1;
            }
        }
    }

    /// The bucket whose pods match the free capacity best: of those with the highest priority, the one whose pods use
    /// it up with the highest value. Among equals the first.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn nearest(&mut self) -> Option<usize> {
        let (scratch, pending_demand) = (&mut *self.scratch, self.pending_demand);
        self.pool.work.add(scratch.open.len() / COMPARED_AT_ONCE + 1);
        scratch.open.retain(|bucket| scratch.cursors[*bucket] < pending_demand.buckets[*bucket].to);
        let first = *scratch.open.first()?;
        let rank = pending_demand.buckets[first].rank;
        scratch.part_of_free.clear();
        scratch.part_of_free.extend(scratch.free.iter().map(|free| 1.0 / (*free).max(1) as f64));
        let (mut best, mut least) = (first, f64::INFINITY);
        // Buckets are in the order of their rank.
        for &bucket in scratch.open.iter().take_while(|bucket| pending_demand.buckets[**bucket].rank == rank) {
            let mix = &pending_demand.mixes[bucket * pending_demand.width..(bucket + 1) * pending_demand.width];
            let used =
                mix.iter().zip(&scratch.part_of_free).fold(0.0, |most: f64, (asked, part)| most.max(asked * part));
            if used < least {
                (best, least) = (bucket, used);
            }
        }
        Some(best)
    }

    /// Takes the next pods of a bucket that fit, if there are any.
    fn take_from(&mut self, bucket: usize, filled: &mut Filled, last: bool) {
        let to = self.pending_demand.buckets[bucket].to;
        let mut place = self.scratch.cursors[bucket];
        let left = self.pending_demand.size(&self.scratch.free) * (1.0 + 1e-9);
        place += self.pending_demand.items[place..to].partition_point(|item| item.size > left);
        while place < to {
            if self.pending_demand.is_over(place, &self.scratch.free) {
                place = to;
                break;
            }
            let item = &self.pending_demand.items[place];
            if self.units[item.unit].pending > 0
                && !self.is_kept_out(item)
                && dense::fits(self.pending_demand.asked(place), &self.scratch.free)
            {
                let demand = &self.demands[item.demand];
                let only = self.pending_demand.buckets.len() == 1;
                let most = dense::times_fitting(self.pending_demand.asked(place), &self.scratch.free, u32::MAX);
                let most = if only { most } else { most.div_ceil(PART) };
                let ports = filled.bin.ports.len();
                if self.put(filled, demand, most, last) > 0 {
                    self.take_ports(&filled.bin, filled.bin.ports.len() - ports);
                    break;
                }
                let class = self.class(demand.class);
                let hosts = &filled.bin.hosts;
                let crowded = class.is_related() && hosts.max_added(class, self.context.level, self.topology) == 0;
                let alternatives = &self.context.classes.alternatives;
                if self.pool.admit(filled.bin.set, demand.alternative, alternatives).is_none() {
                    self.scratch.refused[demand.alternative] = true;
                }
                if crowded || self.scratch.refused[demand.alternative] {
                    self.keep_out(item.signature);
                }
            }
            place += 1;
        }
        self.pool.work.add(place - self.scratch.cursors[bucket] + 1);
        self.scratch.cursors[bucket] = place;
    }

    /// Whether all pods of an item are excluded from the node.
    fn is_kept_out(&mut self, item: &DemandItem) -> bool {
        if self.scratch.refused[item.alternative] {
            self.keep_out(item.signature);
        }
        self.scratch.kept_out[item.signature] || self.scratch.ports_taken[item.ports]
    }

    fn keep_out(&mut self, signature: usize) {
        if !self.scratch.kept_out[signature] {
            self.scratch.kept_out[signature] = true;
            self.scratch.signatures_open -= 1;
        }
    }

    /// Adds as many pods of a class to the node as fit, unless that narrows the node to a price that exceeds the gain. Returns
    /// the number.
    fn put(&mut self, filled: &mut Filled, demand: &Demand, most: u32, last: bool) -> u32 {
        let class = &self.context.classes.list[demand.class];
        let present = filled.units.iter().position(|unit| *unit == demand.unit);
        let taken = present.map_or(0, |place| filled.bin.contents[place].1);
        let most = most.min(self.units[demand.unit].pending - taken).min(class.max_per_node());
        let most = most.min(self.bound_together(demand, most, taken));
        let count = dense::times_fitting(&class.requests, &self.scratch.free, most);
        let mut count = filled.bin.volumes.times(class.mounts(), &self.scratch.free, count);
        if count > 0 && class.is_related() {
            self.pool.work.add(class.extra_work(self.context.level));
            count = count.min(filled.bin.hosts.max_added(class, self.context.level, self.topology));
        }
        let kind = filled.bin.shape;
        let daemons = &self.pool.types[kind].daemons;
        if !class.is_met_by(self.context.level, &self.units[demand.unit].target, self.topology, daemons) {
            return 0;
        }
        if count == 0 || !class.ports_free(&filled.bin.ports) || !class.ports_free(&self.pool.types[kind].daemons.ports)
        {
            return 0;
        }
        let alternatives = &self.context.classes.alternatives;
        let Some(set) = self.pool.admit(filled.bin.set, demand.alternative, alternatives) else { return 0 };
        let worth = demand.worth * f64::from(count);
        if set != filled.bin.set {
            let Some(choice) = self.pool.set(set).choice(kind) else { return 0 };
            let first = filled.bin.contents.is_empty();
            let within_limits = first || self.pool.limits.allowed(&choice.share, 1) > 0;
            // Before the last pod, others would pay for the same capacity.
            let gain = if last { worth } else { worth - demand.size * f64::from(count) };
            let dearer = choice.price - filled.price;
            if !within_limits || (!first && dearer > gain.max(0.0) + ROUNDING) {
                self.scratch.makes_dearer |= !last && dearer <= worth;
                return 0;
            }
            filled.price = choice.price;
            filled.bin.set = set;
        }
        filled.worth += worth;
        filled.bin.volumes.take(class.mounts(), &mut self.scratch.free);
        match present {
            Some(place) => filled.bin.add_more(place, class, self.context.level, count),
            None => {
                filled.bin.add(demand.class, class, self.context.level, count);
                filled.units.push(demand.unit);
            }
        }
        dense::take(&mut self.scratch.free, &class.requests, count);
        count
    }

    /// How many more pods of a class with a spread the node takes, so that the kube-scheduler can bind them while all are nominated for
    /// it. Any number where they are more than the nodes that follow can take in this way, once no other pod uses the capacity.
    fn bound_together(&mut self, demand: &Demand, most: u32, taken: u32) -> u32 {
        let Some(spread) = self.context.classes.list[demand.class].spread else { return u32::MAX };
        let left = spread.bound_together.saturating_sub(taken);
        let needed = self.units[demand.unit].pending.div_ceil(spread.bound_together.max(1));
        let fit_elsewhere = f64::from(needed) * count(spread.domains) <= self.nodes;
        self.scratch.crowded |= most > left && !fit_elsewhere;
        if self.scratch.apart || fit_elsewhere { left } else { u32::MAX }
    }
}

fn count(domains: usize) -> f64 {
    f64::from(u32::try_from(domains).unwrap_or(u32::MAX))
}
