//! Finds the first node with enough free capacity without checking all nodes.

use crate::meter;
use std::cell::Cell;

/// The number of ranges that are compared or computed again in a unit of [`nodeless_scheduling::Solution::work`]. Each has a few
/// numbers only.
const VISITS_PER_UNIT: u64 = 8;

/// The free capacity of each node and, for every range of nodes, the maximum of each resource: a binary tree. A search
/// skips every range in which no node can have enough.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The number of resources.
    width: usize,
    /// The number of leaves, a power of two.
    leaves: usize,
    /// The root is node 1; the children of `n` are `2n` and `2n + 1`. `width` amounts each.
    maxima: Vec<i64>,
    /// The number of ranges that were compared or computed again.
    visits: Cell<u64>,
}

impl Tree {
    /// A tree over the free capacities, `width` amounts each, in thousandths.
    pub(crate) fn new(width: usize, free: &[Box<[i64]>]) -> Self {
        let leaves = free.len().next_power_of_two();
        let mut tree = Self { width, leaves, maxima: vec![-1; 2 * leaves * width], visits: Cell::new(0) };
        for (leaf, free) in free.iter().enumerate() {
            let start = (leaves + leaf) * width;
            tree.maxima[start..start + width].copy_from_slice(free);
        }
        for node in (1..leaves).rev() {
            tree.refresh(node);
        }
        tree
    }

    /// The work so far.
    pub(crate) fn work(&self) -> u64 {
        self.visits.get() / VISITS_PER_UNIT
    }

    fn visit(&self) {
        self.visits.set(self.visits.get().saturating_add(1));
        meter::visit();
    }

    fn refresh(&mut self, node: usize) {
        self.visit();
        for resource in 0..self.width {
            let left = self.maxima[2 * node * self.width + resource];
            let right = self.maxima[(2 * node + 1) * self.width + resource];
            self.maxima[node * self.width + resource] = left.max(right);
        }
    }

    fn at(&self, node: usize) -> &[i64] {
        &self.maxima[node * self.width..(node + 1) * self.width]
    }

    /// The free capacity of a node.
    pub(crate) fn free(&self, leaf: usize) -> &[i64] {
        self.at(self.leaves + leaf)
    }

    /// Sets the free capacity of a node.
    pub(crate) fn set(&mut self, leaf: usize, free: &[i64]) {
        let start = (self.leaves + leaf) * self.width;
        self.maxima[start..start + self.width].copy_from_slice(free);
        let mut node = (self.leaves + leaf) / 2;
        while node >= 1 {
            self.refresh(node);
            node /= 2;
        }
    }

    /// Subtracts from the free capacity of a node; a negative amount adds to it.
    pub(crate) fn take(&mut self, leaf: usize, asked: &[i64], sign: i64) {
        let start = (self.leaves + leaf) * self.width;
        for (resource, asked) in asked.iter().enumerate() {
            self.maxima[start + resource] -= sign * asked;
        }
        let mut node = (self.leaves + leaf) / 2;
        while node >= 1 {
            self.refresh(node);
            node /= 2;
        }
    }

    /// The first node with enough free capacity that also satisfies other conditions.
    pub(crate) fn first(&self, asked: &[i64], good: &mut impl FnMut(usize) -> bool) -> Option<usize> {
        self.first_below(1, asked, good)
    }

    fn first_below(&self, node: usize, asked: &[i64], good: &mut impl FnMut(usize) -> bool) -> Option<usize> {
        self.visit();
        if !fits(asked, self.at(node)) {
            return None;
        }
        if node >= self.leaves {
            let leaf = node - self.leaves;
            return good(leaf).then_some(leaf);
        }
        self.first_below(2 * node, asked, good).or_else(|| self.first_below(2 * node + 1, asked, good))
    }
}

/// Whether `asked` fits into `free`. Nothing fits where a resource is overcommitted.
pub(crate) fn fits(asked: &[i64], free: &[i64]) -> bool {
    asked.iter().zip(free).all(|(asked, free)| *free >= 0 && asked <= free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_with_enough_of_every_resource() {
        let free: Vec<Box<[i64]>> = vec![[5, 1].into(), [1, 5].into(), [3, 3].into(), [4, 4].into(), [-1, 9].into()];
        let mut tree = Tree::new(2, &free);
        let first = |tree: &Tree, asked: [i64; 2]| tree.first(&asked, &mut |_| true);
        assert_eq!(first(&tree, [2, 2]), Some(2));
        assert_eq!(tree.first(&[2, 2], &mut |leaf| leaf != 2), Some(3));
        assert_eq!(first(&tree, [0, 6]), None, "more cpu is taken than the last one has");
        assert_eq!(first(&tree, [5, 5]), None);
        let mut fitting = Vec::new();
        tree.first(&[3, 3], &mut |leaf| {
            fitting.push(leaf);
            false
        });
        assert_eq!(fitting, [2, 3]);
        tree.take(3, &[2, 2], 1);
        assert_eq!(first(&tree, [4, 2]), None);
        tree.take(3, &[2, 2], -1);
        assert_eq!(first(&tree, [4, 2]), Some(3));
        tree.set(3, &[-1, -1]);
        assert_eq!(first(&tree, [4, 2]), None);
        assert_eq!(tree.free(2), [3, 3]);
    }
}
