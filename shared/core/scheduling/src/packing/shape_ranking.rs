//! The values of pods for a NodePool, and which shapes could be worth their price.
//!
//! The value of a pod is that of its resources. If all shapes that fit it cost more than the value of their resources (a large
//! pod, or one with two GPUs), it also pays a premium: the smallest such difference. So the price of a shape for the value of its
//! pods has a lower bound, and shapes whose bound is not better than the best result need not be filled.

use crate::dense;
use crate::dense::dominant_share;
use crate::packing::bin::{Context, NODE, Unit};
use crate::packing::demand::Demand;
use crate::packing::minimum_nodes::Forced;
use crate::packing::portions::Portions;
use crate::packing::resource_prices::{self, Column, Values};
use crate::pools::{BASE, Choice, Offer, Pool, SetId};
use nodeless_model::hashed::HashMap;
use std::borrow::Cow;
use std::rc::Rc;

/// With at most this number of required nodes, the price of a node is not meaningful: fractions of nodes cannot be launched.
const MIN_FORCED_NODES: u32 = 8;

/// While nodes are required, none is larger than this fraction of the pending pods, for the same reason.
const MAX_NODE_SHARE: f64 = 0.25;

/// A shape to try.
#[derive(Clone, Copy)]
pub(crate) struct Try {
    /// The lower bound of its price for the value of its pods.
    pub(crate) bound: f64,
    /// The worth when full, without the worth of a node itself.
    pub(crate) worth: f64,
    pub(crate) kind: usize,
}

/// Computes the worth of resources and pods, and by set the shapes to try, those with the lowest possible price for their worth
/// first.
pub(crate) fn valued(
    pool: &Pool<'_>,
    context: Context<'_, '_>,
    units: &[Unit],
    demands: &mut [Demand],
    forced: &Forced,
) -> (Values, HashMap<SetId, Vec<Try>>) {
    let classes = context.classes;
    let nodes = Some(forced.nodes()).filter(|nodes| *nodes > MIN_FORCED_NODES).unwrap_or(0);
    let total = TotalDemand::new(pool, context, units, demands, nodes);
    let of_all = SetValues::new(pool, BASE, &total, |_| true);
    let first = &of_all.values;
    // Types that are larger than the pods can fill do not determine resource prices. If required nodes cost something in addition
    // to their resources, they are as small as possible, and larger nodes take the other pods.
    let fills: f64 = total.amounts.iter().zip(&first.resources).map(|(amount, value)| amount * value).sum();
    let of_rest = if first.node > 0.0 { fills * MAX_NODE_SHARE } else { 0.0 };
    let largest = forced.largest(fills).max(of_rest);
    let usable = |allocatable: &[i64]| sum(allocatable, &first.resources) <= largest;
    let common = if largest.is_finite() { SetValues::new(pool, BASE, &total, usable) } else { of_all.clone() };
    let mut by_offer: Vec<(&Rc<Offer>, SetValues)> = vec![(&pool.set(BASE).offer, common.clone())];
    let mut by_set: HashMap<SetId, SetValues> = HashMap::default();
    for demand in demands.iter_mut() {
        let values = by_set.entry(demand.set).or_insert_with(|| {
            let offer = &pool.set(demand.set).offer;
            if let Some((_, known)) = by_offer.iter().find(|(known, _)| Rc::ptr_eq(known, offer)) {
                return known.clone();
            }
            let values = SetValues::new(pool, demand.set, &total, usable);
            by_offer.push((offer, values.clone()));
            values
        });
        let class = &classes.list[demand.class];
        let requests = total.portions.of_pod(&class.requests);
        demand.portions = requests.iter().skip(class.requests.len()).filter(|amount| **amount > 0).count();
        demand.size = sum(&class.requests, &common.values.resources);
        demand.worth = sum(&requests, &values.values.resources)
            + values.premium(pool, &class.requests)
            + values.values.node * forced.part_of_node(class, context.level, nodes);
    }
    let tries = by_set.into_iter().map(|(set, values)| (set, values.tries())).collect();
    (common.values, tries)
}

/// The total requests of all pending pods.
struct TotalDemand {
    portions: Portions,
    /// By resource, and by portion after them.
    amounts: Vec<f64>,
    /// The number of nodes that topology requires, if it matters.
    nodes: u32,
}

impl TotalDemand {
    #[expect(clippy::cast_precision_loss, reason = "values")]
    fn new(pool: &Pool<'_>, context: Context<'_, '_>, units: &[Unit], demands: &[Demand], nodes: u32) -> Self {
        let requests: Vec<&[i64]> =
            demands.iter().map(|demand| &context.classes.list[demand.class].requests[..]).collect();
        let offer = &pool.set(BASE).offer;
        let of_types: Vec<&[i64]> =
            offer.shapes.iter().map(|place| &pool.types[offer.choices[*place].kind].allocatable[..]).collect();
        let portions = Portions::new(&requests, &of_types);
        let mut amounts = Vec::new();
        for demand in demands {
            let requests = portions.of_pod(&context.classes.list[demand.class].requests);
            amounts.resize(requests.len(), 0.0);
            for (sum, asked) in amounts.iter_mut().zip(requests.iter()) {
                *sum += *asked as f64 * f64::from(units[demand.unit].pending);
            }
        }
        Self { portions, amounts, nodes }
    }
}

/// The worth of these amounts.
#[expect(clippy::cast_precision_loss, reason = "values")]
fn sum(amounts: &[i64], values: &[f64]) -> f64 {
    amounts.iter().zip(values).map(|(amount, value)| *amount as f64 * value).sum()
}

/// The price divided by the worth; the requests of DaemonSets may exceed the capacity.
fn ratio(price: f64, worth: f64) -> f64 {
    if worth > 0.0 { price / worth } else { f64::INFINITY }
}

/// The worth of resources for some requirements, and the additional price of the shapes there.
#[derive(Clone)]
struct SetValues {
    values: Values,
    /// The shapes, the lowest price for their worth first.
    shapes: Vec<Shape>,
}

/// A shape, its price and its worth, including that of a node itself.
#[derive(Clone)]
struct Shape {
    kind: usize,
    price: f64,
    worth: f64,
    /// The maximum premium that pods have paid when they fill it.
    premium: f64,
}

impl SetValues {
    fn new(pool: &Pool<'_>, set: SetId, total: &TotalDemand, usable: impl Fn(&[i64]) -> bool) -> Self {
        let offer = &pool.set(set).offer;
        let choices: Vec<&Choice> = offer.shapes.iter().map(|place| &offer.choices[*place]).collect();
        let allocatable =
            |choice: &&Choice| total.portions.of_type(offer.usable(choice, &pool.types[choice.kind].allocatable));
        let of_types: Vec<Cow<'_, [i64]>> = choices.iter().map(allocatable).collect();
        let columns: Vec<Column<'_>> = choices
            .iter()
            .zip(&of_types)
            .map(|(choice, amounts)| Column { price: choice.price + NODE, amounts })
            .collect();
        let usable: Vec<Column<'_>> = columns.iter().filter(|column| usable(column.amounts)).copied().collect();
        let columns_used = if usable.is_empty() { &columns } else { &usable };
        let values = resource_prices::values(columns_used, &total.amounts, total.nodes);
        let shape = |(choice, column): (&&Choice, &Column<'_>)| {
            let worth = sum(column.amounts, &values.resources) + values.node;
            (ratio(column.price, worth), Shape { kind: choice.kind, price: column.price, worth, premium: 0.0 })
        };
        let mut shapes: Vec<(f64, Shape)> = choices.iter().zip(&columns).map(shape).collect();
        shapes.sort_unstable_by(|(a, first), (b, second)| a.total_cmp(b).then(first.kind.cmp(&second.kind)));
        Self { values, shapes: shapes.into_iter().map(|(_, shape)| shape).collect() }
    }

    /// The premium of a pod, because shapes that fit it cost more than their worth: its minimum share of that.
    fn premium(&mut self, pool: &Pool<'_>, requests: &[i64]) -> f64 {
        let mut least = f64::INFINITY;
        for shape in &self.shapes {
            let allocatable = &pool.types[shape.kind].allocatable;
            if dense::fits(requests, allocatable) {
                let beyond = (shape.price - shape.worth).max(0.0);
                if beyond <= shape.price * NO_PREMIUM {
                    return 0.0;
                }
                least = least.min(beyond * dominant_share(requests, allocatable));
            }
        }
        if !least.is_finite() {
            return 0.0;
        }
        for shape in &mut self.shapes {
            let allocatable = &pool.types[shape.kind].allocatable;
            if dense::fits(requests, allocatable) {
                shape.premium = shape.premium.max(least / dominant_share(requests, allocatable));
            }
        }
        least
    }

    /// The shapes to try, those with the lowest possible price for their worth first.
    fn tries(self) -> Vec<Try> {
        let of = |shape: &Shape| Try {
            bound: ratio(shape.price, shape.worth + shape.premium),
            worth: shape.worth - self.values.node,
            kind: shape.kind,
        };
        let mut tries: Vec<Try> = self.shapes.iter().map(of).collect();
        tries.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.kind.cmp(&b.kind)));
        tries
    }
}

/// Shapes whose price exceeds their worth only by this fraction of the price cost no premium.
const NO_PREMIUM: f64 = 0.02;
