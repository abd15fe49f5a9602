//! The prices of resources that follow from the prices of nodes.
//!
//! If fractions of nodes could be launched, the cheapest launch that covers a demand would be a linear program: the lowest price
//! for amounts of each type that together have every requested resource. Its dual variables are the prices of the resources at
//! which no node is worth more than its price, and at which the types of the cheapest launch are worth exactly their price. A
//! node is filled well if its pods are worth its price.

/// A column: its price and its amount of each resource.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(crate) price: f64,
    pub(crate) amounts: &'a [i64],
}

impl Column<'_> {
    /// The amount in a row: of a resource, or, in the row after them, the number of nodes.
    #[expect(clippy::cast_precision_loss, reason = "an amount")]
    fn has(&self, row: usize) -> f64 {
        self.amounts.get(row).map_or(1.0, |amount| (*amount).max(0) as f64)
    }
}

/// The prices that result from a demand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The price of one unit of each resource.
    pub(crate) resources: Vec<f64>,
    /// A node in addition to its resources: zero, unless more nodes are required than for the resources alone.
    pub(crate) node: f64,
}

/// The weight of the demand itself relative to demands with more of one resource: a resource that is just sufficient still has a
/// price, because no packing is perfect, and because it may be short for the pods that remain.
const OWN_WEIGHT: f64 = 0.5;

/// The factor of the one resource in those demands.
const INFLATED: f64 = 1.5;

/// The prices of the resources for a demand, smoothed, and of a node if the demand requires at least `nodes` of them. Resources
/// that are not requested, or that no type has, have the price zero.
#[expect(clippy::cast_precision_loss, reason = "a count of resources")]
pub(crate) fn values(columns: &[Column<'_>], demand: &[f64], nodes: u32) -> Values {
    let supplied = |place: usize| columns.iter().any(|column| column.amounts[place] > 0);
    let mut rows: Vec<usize> = (0..demand.len()).filter(|place| demand[*place] > 0.0 && supplied(*place)).collect();
    let mut found = vec![0.0; demand.len() + 1];
    let of_resources = rows.len();
    if nodes > 0 {
        rows.push(demand.len());
    }
    let demands: Vec<f64> = rows.iter().map(|row| demand.get(*row).copied().unwrap_or(f64::from(nodes))).collect();
    let mut add = |demands: &[f64], weight: f64| {
        for (row, dual) in rows.iter().zip(Simplex::new(columns, &rows, demands).duals()) {
            found[*row] += dual * weight;
        }
    };
    if of_resources > 0 {
        add(&demands, OWN_WEIGHT);
    }
    // The number of required nodes is exact, so it is not increased.
    for row in 0..of_resources {
        let mut more = demands.clone();
        more[row] *= INFLATED;
        add(&more, (1.0 - OWN_WEIGHT) / of_resources as f64);
    }
    let node = found.pop().unwrap_or_default();
    Values { resources: found, node }
}

/// The revised simplex method on `min price · x, capacity · x ≥ demand, x ≥ 0`, with a few rows. Rows and columns are
/// scaled, so that every demand is one and the greatest entry of every column too.
struct Simplex {
    rows: usize,
    /// By column, its entries; the last columns represent what exceeds the demand of a row.
    entries: Vec<f64>,
    costs: Vec<f64>,
    /// By row, the column in the basis; columns beyond the last represent unmet demand.
    basis: Vec<usize>,
    inverse: Vec<f64>,
    met: Vec<f64>,
    /// The cost of unmet demand in a row.
    unmet: f64,
    scale: Vec<f64>,
}

/// More steps are never needed for a few rows; this bounds the work if rounding causes a cycle.
const MAX_PIVOTS: usize = 400;

const TINY: f64 = 1e-10;

impl Simplex {
    fn new(columns: &[Column<'_>], rows: &[usize], demand: &[f64]) -> Self {
        let count = rows.len();
        let mut entries = Vec::with_capacity((columns.len() + count) * count);
        let mut costs = Vec::with_capacity(columns.len() + count);
        for column in columns {
            let of_row = rows.iter().zip(demand).map(|(row, demand)| column.has(*row) / demand);
            let greatest = of_row.clone().fold(0.0, f64::max);
            if greatest > 0.0 {
                entries.extend(of_row.map(|entry| entry / greatest));
                costs.push(column.price / greatest);
            }
        }
        let dearest = costs.iter().copied().fold(1e-9, f64::max);
        for row in 0..count {
            entries.extend((0..count).map(|other| if other == row { -1.0 } else { 0.0 }));
            costs.push(0.0);
        }
        let identity = (0..count * count).map(|place| if place % (count + 1) == 0 { 1.0 } else { 0.0 });
        Self {
            rows: count,
            basis: (costs.len()..costs.len() + count).collect(),
            entries,
            costs,
            inverse: identity.collect(),
            met: vec![1.0; count],
            unmet: dearest * 100.0,
            scale: demand.to_vec(),
        }
    }

    fn cost(&self, column: usize) -> f64 {
        self.costs.get(column).copied().unwrap_or(self.unmet)
    }

    /// The prices of the scaled rows for the present basis.
    fn prices(&self) -> Vec<f64> {
        let of = |row: usize| {
            (0..self.rows).map(|place| self.cost(self.basis[place]) * self.inverse[place * self.rows + row]).sum()
        };
        (0..self.rows).map(of).collect()
    }

    /// The prices of the resources at the optimum.
    fn duals(mut self) -> Vec<f64> {
        for _ in 0..MAX_PIVOTS {
            let prices = self.prices();
            let gain = |column: usize| {
                let entries = &self.entries[column * self.rows..(column + 1) * self.rows];
                let worth: f64 = entries.iter().zip(&prices).map(|(entry, price)| entry * price).sum();
                worth - self.costs[column]
            };
            let mut best = (TINY * self.unmet, None);
            for column in 0..self.costs.len() {
                let gain = gain(column);
                if gain > best.0 {
                    best = (gain, Some(column));
                }
            }
            let Some(column) = best.1 else { break };
            if !self.bring_in(column) {
                break;
            }
        }
        self.prices().iter().zip(&self.scale).map(|(price, demand)| price.max(0.0) / demand).collect()
    }

    /// Moves a column into the basis. Returns whether that was possible.
    fn bring_in(&mut self, column: usize) -> bool {
        let rows = self.rows;
        let entries = &self.entries[column * rows..(column + 1) * rows];
        let direction: Vec<f64> = (0..rows)
            .map(|row| (0..rows).map(|place| self.inverse[row * rows + place] * entries[place]).sum())
            .collect();
        let mut leaving: Option<(f64, usize)> = None;
        for row in (0..rows).filter(|row| direction[*row] > TINY) {
            let steps = self.met[row] / direction[row];
            if leaving.is_none_or(|(least, _)| steps < least) {
                leaving = Some((steps, row));
            }
        }
        let Some((steps, pivot)) = leaving else { return false };
        for row in (0..rows).filter(|row| *row != pivot) {
            let factor = direction[row] / direction[pivot];
            for place in 0..rows {
                self.inverse[row * rows + place] -= factor * self.inverse[pivot * rows + place];
            }
            self.met[row] = (self.met[row] - steps * direction[row]).max(0.0);
        }
        for place in 0..rows {
            self.inverse[pivot * rows + place] /= direction[pivot];
        }
        self.met[pivot] = steps;
        self.basis[pivot] = column;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(price: f64, amounts: &[i64]) -> Column<'_> {
        Column { price, amounts }
    }

    /// Prices without the smoothing.
    fn duals(columns: &[Column<'_>], demand: &[f64]) -> Vec<f64> {
        let rows: Vec<usize> = (0..demand.len()).collect();
        Simplex::new(columns, &rows, demand).duals()
    }

    #[test]
    fn two_types_that_are_bought_are_worth_what_they_cost() {
        let (small, large) = (column(4.0, &[2, 4]), column(6.0, &[2, 16]));
        let found = duals(&[small, large], &[100.0, 400.0]);
        assert!((2.0 * found[0] + 4.0 * found[1] - 4.0).abs() < 1e-9, "{found:?}");
        assert!((2.0 * found[0] + 16.0 * found[1] - 6.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_is_left_over_anyway_is_worth_nothing() {
        let found = duals(&[column(4.0, &[2, 4]), column(6.0, &[2, 16])], &[100.0, 10.0]);
        assert!((found[0] - 2.0).abs() < 1e-9 && found[1].abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn smoothed_values_never_make_a_node_worth_more_than_it_costs() {
        let types = [(4.0, [2, 4, 10]), (5.0, [2, 8, 20]), (6.5, [2, 16, 20]), (30.0, [16, 64, 110])];
        let columns: Vec<Column<'_>> = types.iter().map(|(price, amounts)| column(*price, amounts)).collect();
        for demand in [[100.0, 100.0, 100.0], [10.0, 900.0, 50.0], [500.0, 20.0, 9.0], [1.0, 1.0, 4000.0]] {
            let found = values(&columns, &demand, 0).resources;
            assert!(found.iter().all(|value| *value >= 0.0) && found.iter().any(|value| *value > 0.0), "{found:?}");
            for (price, amounts) in types {
                let worth: f64 = amounts.iter().zip(&found).map(|(amount, value)| *amount as f64 * value).sum();
                assert!(worth <= price * (1.0 + 1e-9), "{worth} {price}");
            }
        }
    }

    #[test]
    fn where_more_nodes_are_needed_than_the_resources_ask_for_a_node_is_worth_something() {
        let (small, large) = (column(1.0, &[1]), column(8.0, &[10]));
        // Ten nodes with 20 of the resource are eight or nine small ones and one or two large ones.
        let found = duals(&[small, large], &[20.0, 10.0]);
        assert!(
            (found[0] + found[1] - 1.0).abs() < 1e-9 && (10.0 * found[0] + found[1] - 8.0).abs() < 1e-9,
            "{found:?}"
        );
        assert!(values(&[small, large], &[20.0], 10).node > 0.0);
        assert_eq!(values(&[small, large], &[20.0], 0).node.to_bits(), 0.0_f64.to_bits());
        assert!(values(&[small, large], &[200.0], 10).node < 1e-9);
    }

    #[test]
    fn an_offering_without_a_price_is_worth_nothing() {
        assert_eq!(values(&[column(1.0, &[0, 5])], &[7.0, 0.0], 0).resources, [0.0, 0.0]);
        let found = values(&[column(1.0, &[0, 5])], &[7.0, 5.0], 0).resources;
        assert!(found[0] == 0.0 && (found[1] - 0.2).abs() < 1e-9, "{found:?}");
    }
}
