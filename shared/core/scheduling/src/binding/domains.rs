//! The domains of nodes by topology key, as numbers.

use crate::problem::ExistingNode;
use nodeless_model::{Requirement, labels};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The domains of nodes, each determined when it is first asked for.
#[derive(Debug)]
pub(super) struct Domains<'p> {
    nodes: &'p [ExistingNode],
    keys: Vec<Key<'p>>,
}

#[derive(Debug)]
struct Key<'p> {
    name: String,
    numbers: RefCell<HashMap<&'p str, u32>>,
    /// By node.
    of: Vec<Cell<u32>>,
}

const UNKNOWN: u32 = u32::MAX;

impl<'p> Domains<'p> {
    /// The node lacks the label.
    pub(super) const ABSENT: u32 = 0;

    pub(super) const fn of_nodes(nodes: &'p [ExistingNode]) -> Self {
        Self { nodes, keys: Vec::new() }
    }

    /// The number of a topology key.
    pub(super) fn key(&mut self, name: &str) -> usize {
        let name = labels::normalize(name);
        if let Some(known) = self.keys.iter().position(|key| key.name == name) {
            return known;
        }
        let of = vec![Cell::new(UNKNOWN); self.nodes.len()];
        self.keys.push(Key { name: name.to_owned(), numbers: RefCell::default(), of });
        self.keys.len() - 1
    }

    pub(super) fn is_host(&self, key: usize) -> bool {
        self.keys[key].name == labels::HOSTNAME
    }

    /// The domain of a node.
    pub(super) fn of(&self, key: usize, node: usize) -> u32 {
        let key = &self.keys[key];
        let cell = &key.of[node];
        if cell.get() == UNKNOWN {
            let value = self.nodes[node].requirements.get(&key.name).and_then(Requirement::single);
            let mut numbers = key.numbers.borrow_mut();
            let next = u32::try_from(numbers.len()).map_or(Self::ABSENT, |count| count + 1);
            cell.set(value.map_or(Self::ABSENT, |value| *numbers.entry(value).or_insert(next)));
        }
        cell.get()
    }
}
