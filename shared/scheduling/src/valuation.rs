//! What pods are worth to a NodePool, and which shapes could be worth their price.
//!
//! A pod is worth what its resources are worth. Where all shapes that hold it cost more than the worth of what they have (a
//! large pod, or one with two GPUs), it pays its share of that too, where that is least: its premium. So a shape's price
//! for the worth of what it holds has a bound, and shapes whose bound is no better than what is found already need not be
//! filled to see.

use crate::classes::Classes;
use crate::dense;
use crate::filling::Demand;
use crate::forced::Forced;
use crate::packing::{NODE, Unit, dominant_share};
use crate::pools::{BASE, Choice, Pool, SetId};
use crate::values::{self, Column};
use std::collections::HashMap;

/// A shape to try.
#[derive(Clone, Copy)]
pub(crate) struct Try {
    /// The least that it can cost for what it holds.
    pub(crate) bound: f64,
    /// What it is worth when full.
    pub(crate) worth: f64,
    pub(crate) kind: usize,
}

/// Works out what resources and pods are worth, and by set which shapes are to be tried, those that could cost least for
/// what they hold first.
#[expect(clippy::cast_precision_loss, reason = "values")]
pub(crate) fn valued(
    pool: &Pool<'_>,
    classes: &Classes<'_>,
    units: &[Unit],
    demands: &mut [Demand],
    forced: &Forced,
) -> (Vec<f64>, HashMap<SetId, Vec<Try>>) {
    let width = demands.first().map_or(0, |demand| classes.list[demand.class].requests.len());
    let mut total = vec![0.0; width];
    for demand in demands.iter() {
        for (total, asked) in total.iter_mut().zip(&classes.list[demand.class].requests) {
            *total += *asked as f64 * f64::from(units[demand.unit].pending);
        }
    }
    // Types that are larger than what the pods may fill do not say what resources are worth.
    let first = SetValues::of(pool, BASE, &total, |_| true).values;
    let largest = forced.largest(total.iter().zip(&first).map(|(total, value)| total * value).sum());
    let usable = |room: &[i64]| sum(room, &first) <= largest;
    let common = SetValues::of(pool, BASE, &total, usable).values;
    let mut by_set: HashMap<SetId, SetValues> = HashMap::new();
    for demand in demands.iter_mut() {
        let values = by_set.entry(demand.set).or_insert_with(|| SetValues::of(pool, demand.set, &total, usable));
        let requests = &classes.list[demand.class].requests;
        demand.size = sum(requests, &common);
        demand.worth = sum(requests, &values.values) + values.premium(pool, requests);
    }
    let tries = by_set.into_iter().map(|(set, values)| (set, values.tries())).collect();
    (common, tries)
}

/// What so much of everything is worth.
#[expect(clippy::cast_precision_loss, reason = "values")]
fn sum(amounts: &[i64], values: &[f64]) -> f64 {
    amounts.iter().zip(values).map(|(amount, value)| *amount as f64 * value).sum()
}

/// The price for the worth; DaemonSets may take more than there is.
fn ratio(price: f64, worth: f64) -> f64 {
    if worth > 0.0 { price / worth } else { f64::INFINITY }
}

/// What resources are worth where some requirements stand, and what the shapes there cost beyond it.
struct SetValues {
    values: Vec<f64>,
    /// Those with the lowest price for what they are worth first.
    shapes: Vec<Shape>,
}

/// A shape, its price and its worth.
struct Shape {
    kind: usize,
    price: f64,
    worth: f64,
    /// The most that pods have paid beyond the worth of their resources when they fill it.
    premium: f64,
}

impl SetValues {
    fn of(pool: &Pool<'_>, set: SetId, total: &[f64], usable: impl Fn(&[i64]) -> bool) -> Self {
        let offer = &pool.set(set).offer;
        let choices: Vec<&Choice> = offer.shapes.iter().map(|place| &offer.choices[*place]).collect();
        let columns: Vec<Column<'_>> = choices
            .iter()
            .map(|choice| Column { price: choice.price + NODE, room: &pool.types[choice.kind].room })
            .collect();
        let usable: Vec<Column<'_>> = columns.iter().filter(|column| usable(column.room)).copied().collect();
        let values = values::values(if usable.is_empty() { &columns } else { &usable }, total);
        let shape = |(choice, column): (&&Choice, &Column<'_>)| Shape {
            kind: choice.kind,
            price: column.price,
            worth: sum(column.room, &values),
            premium: 0.0,
        };
        let mut shapes: Vec<Shape> = choices.iter().zip(&columns).map(shape).collect();
        shapes.sort_by(|a, b| ratio(a.price, a.worth).total_cmp(&ratio(b.price, b.worth)).then(a.kind.cmp(&b.kind)));
        Self { values, shapes }
    }

    /// What a pod pays beyond the worth of its resources, because shapes that hold it cost more than what they are worth:
    /// its share of that, where it is least.
    fn premium(&mut self, pool: &Pool<'_>, requests: &[i64]) -> f64 {
        let mut least = f64::INFINITY;
        for shape in &self.shapes {
            let room = &pool.types[shape.kind].room;
            if dense::fits(requests, room) {
                let beyond = (shape.price - shape.worth).max(0.0);
                if beyond <= shape.price * NO_PREMIUM {
                    return 0.0;
                }
                least = least.min(beyond * dominant_share(requests, room));
            }
        }
        if !least.is_finite() {
            return 0.0;
        }
        for shape in &mut self.shapes {
            let room = &pool.types[shape.kind].room;
            if dense::fits(requests, room) {
                shape.premium = shape.premium.max(least / dominant_share(requests, room));
            }
        }
        least
    }

    /// The shapes to try, those that could cost least for what they hold first.
    fn tries(self) -> Vec<Try> {
        let of = |shape: &Shape| Try {
            bound: ratio(shape.price, shape.worth + shape.premium),
            worth: shape.worth,
            kind: shape.kind,
        };
        let mut tries: Vec<Try> = self.shapes.iter().map(of).collect();
        tries.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.kind.cmp(&b.kind)));
        tries
    }
}

/// Shapes that cost only this much more than what they are worth, as a share of the price, cost no premium.
const NO_PREMIUM: f64 = 0.02;
