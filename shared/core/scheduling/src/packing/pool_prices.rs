//! The price of pods on new nodes of a NodePool, to compare NodePools of equal weight before anything is packed.
//!
//! It is computed from sums of requests, and so quickly. [`crate::packing::pack`] finds combinations of types that it does not know.

use super::bin::{Context, NODE, Unit};
use super::demand::Demand;
use super::minimum_nodes::Forced;
use crate::dense;
use crate::pools::{Pool, SetId};
use crate::topology::Topology;
use std::collections::BTreeMap;

/// What a unit asks of a NodePool, with the price of one pod if fractions of nodes could be launched; `None` if it cannot serve the
/// unit.
pub(crate) fn demand(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    index: usize,
    unit: &Unit,
) -> Option<Demand> {
    pool.work.add(1);
    let first = super::demands(pool, context, topology, index, unit).into_iter().next()?;
    let worth = pool.worth(first.set, &context.classes.list[unit.class].requests)?;
    Some(Demand { worth, ..first })
}

/// The price of all pods of these units in dollars per hour.
pub(crate) fn price(
    pool: &mut Pool<'_>,
    context: Context<'_, '_>,
    topology: &Topology<'_>,
    units: &[Unit],
    demands: &[Demand],
) -> f64 {
    let mut by_set: BTreeMap<SetId, Vec<Demand>> = BTreeMap::new();
    demands.iter().for_each(|demand| by_set.entry(demand.set).or_default().push(*demand));
    let mut sum = 0.0;
    for (set, demands) in by_set {
        pool.work.add((demands.len() + 1) * pool.set(set).offer.shapes.len());
        let forced = Forced::new(&demands, context, units, topology);
        let of_set = PricesOfSet { pool, set, context, units, forced: &forced };
        let apart: f64 = demands.iter().map(|demand| of_set.alone(demand)).sum();
        sum += of_set.together(&demands).map_or(apart, |together| together.min(apart));
    }
    sum
}

struct PricesOfSet<'p, 'a, 'c, 't> {
    pool: &'p Pool<'a>,
    set: SetId,
    context: Context<'c, 't>,
    units: &'p [Unit],
    forced: &'p Forced,
}

impl PricesOfSet<'_, '_, '_, '_> {
    /// The price of the pods of a unit on nodes of their own.
    fn alone(&self, demand: &Demand) -> f64 {
        let class = &self.context.classes.list[demand.class];
        let pods = self.units[demand.unit].pending;
        let each = self.forced.pods_per_node(class, self.context.level).unwrap_or(u32::MAX).min(class.max_per_node());
        let nodes = |allocatable: &[i64]| match dense::times_fitting(&class.requests, allocatable, each.min(pods)) {
            0 => None,
            times => Some(f64::from(pods.div_ceil(times))),
        };
        self.cheapest(nodes).unwrap_or(demand.worth * f64::from(pods))
    }

    /// The price of all pods on shared nodes of one type; `None` where no type holds each of them.
    #[expect(clippy::cast_precision_loss, reason = "amounts for a price")]
    fn together(&self, demands: &[Demand]) -> Option<f64> {
        let first = demands.first()?;
        let mut total = vec![0; self.context.classes.list[first.class].requests.len()];
        let mut largest = total.clone();
        let mut least = self.forced.nodes();
        for demand in demands {
            let class = &self.context.classes.list[demand.class];
            let pods = self.units[demand.unit].pending;
            dense::add(&mut total, &class.requests, pods);
            largest.iter_mut().zip(&class.requests).for_each(|(largest, asked)| *largest = (*largest).max(*asked));
            least = least.max(pods.div_ceil(class.max_per_node()));
        }
        self.cheapest(|allocatable| {
            let share = |(asked, has): (&i64, &i64)| if *asked > 0 { *asked as f64 / *has as f64 } else { 0.0 };
            let nodes = total.iter().zip(allocatable).map(share).fold(1.0, f64::max);
            dense::fits(&largest, allocatable).then(|| nodes.ceil().max(f64::from(least)))
        })
    }

    /// The lowest price of as many nodes of a type as are needed, among the types that the limits allow.
    fn cheapest(&self, nodes: impl Fn(&[i64]) -> Option<f64>) -> Option<f64> {
        let offer = &self.pool.set(self.set).offer;
        let choices = offer.shapes.iter().map(|place| &offer.choices[*place]);
        let allowed = choices.filter(|choice| self.pool.limits.allowed(&choice.share, 1) > 0);
        let prices = allowed
            .filter_map(|choice| Some((choice.price + NODE) * nodes(&self.pool.types[choice.kind].allocatable)?));
        prices.min_by(f64::total_cmp)
    }
}
