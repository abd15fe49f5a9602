//! The domains of nodes by topology key, as numbers, and sums over them.

use crate::problem::ExistingNode;
use nodeless_model::hashed::HashMap;
use nodeless_model::{Requirement, labels};

/// The domains of nodes, of each key from when it is first asked for.
#[derive(Debug, Default)]
pub(super) struct Domains {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    name: String,
    numbers: HashMap<String, u32>,
    /// By node.
    of: Vec<u32>,
    /// The number of nodes that lack the label.
    lacking: usize,
}

/// A number for each domain of a key.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) key: usize,
    /// By domain, ascending.
    pub(super) counts: Vec<(u32, i64)>,
    pub(super) included: Included,
}

/// The nodes whose running pods a spread counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Included {
    /// Only nodes that the requirements of the pods admit.
    pub(super) admitting: bool,
    /// Only nodes whose taints the pods tolerate.
    pub(super) tolerated: bool,
}

impl Domains {
    /// The node lacks the label.
    pub(super) const ABSENT: u32 = 0;

    /// The number of a topology key.
    pub(super) fn key(&mut self, name: &str, nodes: &[ExistingNode]) -> usize {
        let name = labels::normalize(name);
        if let Some(known) = self.keys.iter().position(|key| key.name == name) {
            return known;
        }
        let mut key = Key { name: name.to_owned(), numbers: HashMap::default(), of: Vec::new(), lacking: 0 };
        nodes.iter().for_each(|node| key.add(node));
        self.keys.push(key);
        self.keys.len() - 1
    }

    pub(super) fn is_host(&self, key: usize) -> bool {
        self.keys[key].name == labels::HOSTNAME
    }

    /// The domains of a key, by node.
    pub(super) fn by_node(&self, key: usize) -> &[u32] {
        &self.keys[key].of
    }

    /// Whether a node lacks the label of a key.
    pub(super) fn is_lacking(&self, key: usize) -> bool {
        self.keys[key].lacking > 0
    }

    /// One more than the highest number of a domain of a key.
    pub(super) fn end(&self, key: usize) -> usize {
        self.keys[key].numbers.len() + 1
    }

    /// Adds a node behind the others.
    pub(super) fn add(&mut self, node: &ExistingNode) {
        self.keys.iter_mut().for_each(|key| key.add(node));
    }

    /// Removes the nodes that were added last, so that `count` are left.
    pub(super) fn truncate(&mut self, count: usize) {
        for key in &mut self.keys {
            let removed = key.of.get(count..).unwrap_or_default();
            key.lacking -= removed.iter().filter(|domain| **domain == Self::ABSENT).count();
            key.of.truncate(count);
        }
    }
}

impl Key {
    fn add(&mut self, node: &ExistingNode) {
        let value = node.requirements.get(&self.name).and_then(Requirement::single);
        let domain = value.map_or(Domains::ABSENT, |value| match self.numbers.get(value) {
            Some(known) => *known,
            None => {
                let next = u32::try_from(self.numbers.len()).map_or(Domains::ABSENT, |count| count + 1);
                self.numbers.insert(value.to_owned(), next);
                next
            }
        });
        self.lacking += usize::from(domain == Domains::ABSENT);
        self.of.push(domain);
    }
}

impl Sum {
    pub(super) fn add(&mut self, domain: u32, weight: i64) {
        if domain == Domains::ABSENT {
            return;
        }
        match self.counts.binary_search_by_key(&domain, |(known, _)| *known) {
            Ok(place) => self.counts[place].1 += weight,
            Err(place) => self.counts.insert(place, (domain, weight)),
        }
    }
}
