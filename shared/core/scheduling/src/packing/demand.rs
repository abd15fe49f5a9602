//! The pending pods, arranged for filling nodes.

use crate::classes::Classes;
use crate::constraints::AlternativeId;
use crate::constraints::groups::GroupId;
use crate::dense;
use crate::packing::bin::{Context, Unit};
use crate::pools::{BASE, SetId};
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::pod::HostPort;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The demand of a unit for this NodePool.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) unit: usize,
    pub(crate) class: usize,
    pub(crate) alternative: AlternativeId,
    /// The set of a node for this class alone.
    pub(crate) set: SetId,
    /// The worth of one pod, in dollars per hour.
    pub(crate) worth: f64,
    /// The size of one pod: its worth at prices that are the same for all.
    pub(crate) size: f64,
    /// The number of portions that include the demand: more of them mean that fewer types hold it ([`crate::packing::portions`]).
    pub(crate) portions: usize,
}

/// The number of steps for a factor of two in the fraction of a resource in a pod's size.
const STEPS: f64 = 2.0;

/// With more pairs of a pod class and a bucket than this, steps are twice as coarse: for each pod that is placed on a
/// node, all buckets are compared.
const MAX_CLASS_BUCKET_PAIRS: usize = 200_000;

/// Smaller fractions of a resource are ignored.
const MIN_RESOURCE_SHARE: f64 = 0.02;

/// With at most this number of sets, the pods of each set are arranged separately.
const MAX_SEPARATE_SETS: usize = 32;

/// The demands with pending pods, arranged for the innermost loop.
#[derive(Default)]
pub(crate) struct PendingDemand {
    /// By bucket, the largest first.
    pub(super) items: Vec<DemandItem>,
    /// The requests of a pod of each item, one after another.
    pub(super) asked: Vec<i64>,
    /// The minimum request of any pod of the bucket from each item on.
    pub(super) minimums: Vec<i64>,
    pub(super) width: usize,
    pub(super) buckets: Vec<Bucket>,
    /// The total requests of a bucket's pods, for a pod with a worth of one: bucket after bucket.
    pub(super) mixes: Vec<f64>,
    /// The price of a resource in sizes.
    pub(super) values: Vec<f64>,
    pub(super) signatures: usize,
    /// The number of signatures that items have.
    pub(super) signatures_left: usize,
    /// Lists of host ports by their numbers, each as a class that has it; `None` where no item has it.
    pub(super) ports: Vec<Option<usize>>,
    /// The number of used-up items.
    pub(super) gone: usize,
}

pub(super) struct DemandItem {
    pub(super) demand: usize,
    pub(super) unit: usize,
    pub(super) size: f64,
    /// The groups over the host name that matter, and the alternative: items with the same number are excluded from a node
    /// together.
    pub(super) signature: usize,
    pub(super) alternative: AlternativeId,
    /// The number of its list of host ports.
    pub(super) ports: usize,
}

/// Items that request resources in about the same proportions.
pub(super) struct Bucket {
    /// Lower comes first, whatever the proportions.
    pub(super) rank: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl PendingDemand {
    /// Arranges the pending pods. `resource_prices` has the value of each resource.
    pub(crate) fn new(demands: &[Demand], context: Context<'_, '_>, units: &[Unit], values: Vec<f64>) -> Self {
        let fine = Self::in_steps(demands, context, units, values.clone(), STEPS);
        if fine.buckets.len() * fine.items.len() <= MAX_CLASS_BUCKET_PAIRS {
            return fine;
        }
        Self::in_steps(demands, context, units, values, STEPS / 2.0)
    }

    fn in_steps(demands: &[Demand], context: Context<'_, '_>, units: &[Unit], values: Vec<f64>, steps: f64) -> Self {
        let classes = context.classes;
        let mut signatures: HashMap<(&[GroupId], &[GroupId], AlternativeId), usize> = HashMap::default();
        let mut port_lists: HashMap<&[HostPort], usize> = HashMap::default();
        let mut ports: Vec<Option<usize>> = Vec::new();
        let mut buckets: BTreeMap<(Reverse<i32>, SetId, Vec<i32>), Vec<DemandItem>> = BTreeMap::new();
        let sets: HashSet<SetId> = demands.iter().map(|demand| demand.set).collect();
        for (place, demand) in demands.iter().enumerate().filter(|(_, demand)| units[demand.unit].pending > 0) {
            let class = &classes.list[demand.class];
            let level = class.level(context.level).map_or(&[][..], |level| &level.hosts[..]);
            let next = signatures.len();
            let signature = *signatures.entry((&class.selected_hosts, level, demand.alternative)).or_insert(next);
            let rank = if classes.by_priority { class.example.template.priority } else { 0 };
            let set = if sets.len() <= MAX_SEPARATE_SETS { demand.set } else { BASE };
            let key = (Reverse(rank), set, proportions(demand, &class.requests, &values, steps));
            let ports = *port_lists.entry(class.host_ports).or_insert_with(|| {
                ports.push(Some(demand.class));
                ports.len() - 1
            });
            let (unit, size, alternative) = (demand.unit, demand.size, demand.alternative);
            let item = DemandItem { demand: place, unit, size, signature, alternative, ports };
            buckets.entry(key).or_default().push(item);
        }
        let mut pending_demand = Self { values, signatures: signatures.len(), ports, ..Self::default() };
        let mut ranks: Vec<Reverse<i32>> = buckets.keys().map(|(rank, _, _)| *rank).collect();
        ranks.dedup();
        for ((rank, _, _), mut items) in buckets {
            items.sort_by(|a, b| b.size.total_cmp(&a.size).then(a.demand.cmp(&b.demand)));
            let from = pending_demand.items.len();
            let rank = ranks.binary_search(&rank).unwrap_or_default();
            pending_demand.items.append(&mut items);
            pending_demand.buckets.push(Bucket { rank, from, to: pending_demand.items.len() });
        }
        pending_demand.lay_out(demands, classes);
        pending_demand
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn lay_out(&mut self, demands: &[Demand], classes: &Classes<'_>) {
        self.asked.clear();
        for item in &self.items {
            let requests = &classes.list[demands[item.demand].class].requests;
            self.width = requests.len();
            self.asked.extend_from_slice(requests);
        }
        let mut kept = vec![false; self.signatures];
        self.items.iter().for_each(|item| kept[item.signature] = true);
        self.signatures_left = kept.iter().filter(|kept| **kept).count();
        let mut ports = vec![None; self.ports.len()];
        self.items.iter().for_each(|item| ports[item.ports] = self.ports[item.ports]);
        self.ports = ports;
        self.minimums.clone_from(&self.asked);
        self.mixes.clear();
        let mut sum = vec![0; self.width];
        for bucket in &self.buckets {
            for place in (bucket.from * self.width..(bucket.to * self.width).saturating_sub(self.width)).rev() {
                self.minimums[place] = self.minimums[place].min(self.minimums[place + self.width]);
            }
            sum.fill(0);
            let mut worth = 0.0;
            for place in bucket.from..bucket.to {
                worth += demands[self.items[place].demand].worth;
                dense::add(&mut sum, &self.asked[place * self.width..(place + 1) * self.width], 1);
            }
            self.mixes.extend(sum.iter().map(|sum| *sum as f64 / worth.max(f64::MIN_POSITIVE)));
        }
    }

    /// Removes entries without pending pods once they are half of all.
    pub(crate) fn tidy(&mut self, demands: &[Demand], classes: &Classes<'_>, units: &[Unit], used_up: usize) {
        self.gone += used_up;
        if self.gone * 2 < self.items.len() {
            return;
        }
        let items = std::mem::take(&mut self.items);
        let mut items = items.into_iter().enumerate().peekable();
        for bucket in &mut self.buckets {
            let from = self.items.len();
            while let Some((_, item)) = items.next_if(|(place, _)| *place < bucket.to) {
                if units[item.unit].pending > 0 {
                    self.items.push(item);
                }
            }
            (bucket.from, bucket.to) = (from, self.items.len());
        }
        self.buckets.retain(|bucket| bucket.from < bucket.to);
        self.gone = 0;
        self.lay_out(demands, classes);
    }

    pub(super) fn asked(&self, place: usize) -> &[i64] {
        &self.asked[place * self.width..(place + 1) * self.width]
    }

    /// Whether no pod of the bucket fits, from an item on.
    pub(super) fn is_over(&self, place: usize, free: &[i64]) -> bool {
        !dense::fits(&self.minimums[place * self.width..(place + 1) * self.width], free)
    }

    /// The size of these amounts.
    #[expect(clippy::cast_precision_loss, reason = "a value")]
    pub(crate) fn size(&self, amounts: &[i64]) -> f64 {
        amounts.iter().zip(&self.values).map(|(amount, value)| *amount as f64 * value).sum()
    }
}

/// The fraction of each resource in the worth, on a coarse logarithmic scale.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a coarse scale")]
fn proportions(demand: &Demand, requests: &[i64], values: &[f64], steps: f64) -> Vec<i32> {
    let share = |(asked, value): (&i64, &f64)| {
        let share = *asked as f64 * value / demand.worth.max(f64::MIN_POSITIVE);
        (share.max(MIN_RESOURCE_SHARE).log2() * steps).round() as i32
    };
    requests.iter().zip(values).map(share).collect()
}
