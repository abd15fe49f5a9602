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
    let mut demands: Vec<f64> = rows.iter().map(|row| demand.get(*row).copied().unwrap_or(f64::from(nodes))).collect();
    let table = Table::new(columns, &rows);
    let mut add = |duals: &[f64], weight: f64| {
        rows.iter().zip(duals).for_each(|(row, dual)| found[*row] += dual * weight);
    };
    if of_resources > 0 {
        let own = Simplex::solved(&table, &demands);
        let duals = own.duals();
        add(&duals, OWN_WEIGHT);
        // The number of required nodes is exact, so it is not increased.
        for row in 0..of_resources {
            let weight = (1.0 - OWN_WEIGHT) / of_resources as f64;
            if own.is_best_with_more(row) {
                add(&duals, weight);
                continue;
            }
            let exact = demands[row];
            demands[row] *= INFLATED;
            add(&Simplex::solved(&table, &demands).duals(), weight);
            demands[row] = exact;
        }
    }
    let node = found.pop().unwrap_or_default();
    Values { resources: found, node }
}

/// The columns that have anything of the rows.
struct Table {
    prices: Vec<f64>,
    /// Row after row, the amounts of all columns.
    amounts: Vec<f64>,
}

impl Table {
    fn new(columns: &[Column<'_>], rows: &[usize]) -> Self {
        let used = || columns.iter().filter(|column| rows.iter().any(|row| column.has(*row) > 0.0));
        Self {
            prices: used().map(|column| column.price).collect(),
            amounts: rows.iter().flat_map(|row| used().map(|column| column.has(*row))).collect(),
        }
    }
}

/// The revised simplex method on `min price · x, capacity · x ≥ demand, x ≥ 0`, with a few rows. Rows and columns are
/// scaled, so that every demand is one and the greatest entry of every column too.
struct Simplex {
    rows: usize,
    /// Row after row, the entries of all columns; the last columns represent what exceeds the demand of a row.
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
    fn new(table: &Table, demand: &[f64]) -> Self {
        let (rows, columns) = (demand.len(), table.prices.len());
        let width = columns + rows;
        let mut entries = vec![0.0; width * rows];
        let mut greatest = vec![0.0; columns];
        for (row, demand) in demand.iter().enumerate() {
            let amounts = &table.amounts[row * columns..(row + 1) * columns];
            let of_row = &mut entries[row * width..(row + 1) * width];
            of_row[columns + row] = -1.0;
            for ((entry, amount), greatest) in of_row.iter_mut().zip(amounts).zip(&mut greatest) {
                *entry = amount / demand;
                *greatest = if *entry > *greatest { *entry } else { *greatest };
            }
        }
        for of_row in entries.chunks_exact_mut(width.max(1)) {
            of_row.iter_mut().zip(&greatest).for_each(|(entry, greatest)| *entry /= greatest);
        }
        let mut costs: Vec<f64> =
            table.prices.iter().zip(&greatest).map(|(price, greatest)| price / greatest).collect();
        let dearest = costs.iter().copied().fold(1e-9, f64::max);
        costs.resize(width, 0.0);
        let identity = (0..rows * rows).map(|place| if place % (rows + 1) == 0 { 1.0 } else { 0.0 });
        Self {
            rows,
            basis: (width..width + rows).collect(),
            entries,
            costs,
            inverse: identity.collect(),
            met: vec![1.0; rows],
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

    /// The optimum for a demand.
    fn solved(table: &Table, demand: &[f64]) -> Self {
        let mut simplex = Self::new(table, demand);
        simplex.solve();
        simplex
    }

    /// The prices of the resources.
    fn duals(&self) -> Vec<f64> {
        self.prices().iter().zip(&self.scale).map(|(price, demand)| price.max(0.0) / demand).collect()
    }

    /// Whether the prices of the resources are the same at the optimum for [`INFLATED`] times the demand of a row: the columns in
    /// the basis cover that too. The cost of unmet demand depends on the demand.
    fn is_best_with_more(&self, row: usize) -> bool {
        let is_met = self.basis.iter().all(|column| *column < self.costs.len());
        let more = self.inverse.iter().skip(row).step_by(self.rows);
        is_met && self.met.iter().zip(more).all(|(met, more)| met + (INFLATED - 1.0) * more > TINY)
    }

    fn solve(&mut self) {
        let mut worths = vec![0.0; self.costs.len()];
        for _ in 0..MAX_PIVOTS {
            worths.fill(0.0);
            for (entries, price) in self.entries.chunks_exact(self.costs.len().max(1)).zip(self.prices()) {
                worths.iter_mut().zip(entries).for_each(|(worth, entry)| *worth += entry * price);
            }
            let mut best = (TINY * self.unmet, None);
            for (column, (worth, cost)) in worths.iter().zip(&self.costs).enumerate() {
                let gain = worth - cost;
                if gain > best.0 {
                    best = (gain, Some(column));
                }
            }
            let Some(column) = best.1 else { break };
            if !self.bring_in(column) {
                break;
            }
        }
    }

    /// Moves a column into the basis. Returns whether that was possible.
    fn bring_in(&mut self, column: usize) -> bool {
        let rows = self.rows;
        let entries: Vec<f64> = self.entries.iter().skip(column).step_by(self.costs.len()).copied().collect();
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
        Simplex::solved(&Table::new(columns, &rows), demand).duals()
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
    fn more_of_a_resource_has_the_same_price_while_the_same_types_are_bought() {
        let types = [(4.0, [2, 4, 10]), (5.0, [2, 8, 20]), (6.5, [2, 16, 20]), (30.0, [16, 64, 110])];
        let columns: Vec<Column<'_>> = types.iter().map(|(price, amounts)| column(*price, amounts)).collect();
        let table = Table::new(&columns, &[0, 1, 2]);
        let mut same = 0;
        for demand in [[100.0, 300.0, 500.0], [100.0, 700.0, 500.0], [10.0, 900.0, 50.0], [500.0, 20.0, 9.0]] {
            let own = Simplex::solved(&table, &demand);
            for row in (0..3).filter(|row| own.is_best_with_more(*row)) {
                let mut more = demand;
                more[row] *= INFLATED;
                for (a, b) in own.duals().into_iter().zip(Simplex::solved(&table, &more).duals()) {
                    assert!((a - b).abs() < 1e-9, "{demand:?} {row}: {a} {b}");
                }
                same += 1;
            }
        }
        assert!(same > 0, "no resource of these demands can grow");
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
