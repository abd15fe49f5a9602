//! The labels of many nodes as requirements.

use super::Requirement;
use super::requirements::{Entry, Requirements};
use crate::{StringMap, labels};
use std::collections::HashMap;

/// Converts the labels of many nodes to requirements. Equal labels are stored once, because all nodes of a cluster have few
/// different ones beside their host names.
#[derive(Debug, Default)]
pub struct SharedLabels {
    /// By key and value.
    known: HashMap<String, HashMap<String, Entry>>,
}

impl SharedLabels {
    /// [`Requirements::from_labels`].
    #[must_use]
    pub fn requirements(&mut self, map: &StringMap) -> Requirements {
        // Callers add the host name where it is missing.
        let mut requirements = Requirements(Vec::with_capacity(map.len() + 1));
        for (key, value) in map {
            let key = labels::normalize(key);
            // Normalized keys may have another order, and several labels the same one.
            match requirements.0.binary_search_by(|known| (*known.key).cmp(key)) {
                Ok(place) if requirements.0[place].requirement.single() == Some(value.as_str()) => {}
                Ok(_) => requirements.add(key, Requirement::one_of([value.as_str()])),
                Err(place) => requirements.0.insert(place, self.entry(key, value)),
            }
        }
        requirements
    }

    fn entry(&mut self, key: &str, value: &str) -> Entry {
        let made = || Entry::new(key, Requirement::one_of([value]));
        if key == labels::HOSTNAME {
            return made();
        }
        let of_key = match self.known.get_mut(key) {
            Some(known) => known,
            None => self.known.entry(key.to_owned()).or_default(),
        };
        match of_key.get(value) {
            Some(known) => known.clone(),
            None => of_key.entry(value.to_owned()).or_insert_with(made).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_are_those_of_each_node_alone() {
        let nodes = [
            labels_of(&[("a", "1"), (labels::HOSTNAME, "one"), (labels::ZONE, "us-east-1a")]),
            labels_of(&[("a", "1"), (labels::HOSTNAME, "two"), (labels::ZONE, "us-east-1b")]),
            // Labels with another current name: in another order, twice, and twice with different values.
            labels_of(&[("topology.ebs.csi.aws.com/zone", "us-east-1a"), (labels::REGION, "us-east-1")]),
            labels_of(&[("topology.ebs.csi.aws.com/zone", "us-east-1a"), (labels::ZONE, "us-east-1a")]),
            labels_of(&[("failure-domain.beta.kubernetes.io/zone", "us-east-1a"), (labels::ZONE, "us-east-1b")]),
        ];
        let mut shared = SharedLabels::default();
        for node in &nodes {
            assert_eq!(shared.requirements(node), Requirements::from_labels(node));
        }
    }

    #[test]
    fn equal_labels_are_stored_once() {
        let mut shared = SharedLabels::default();
        let [one, other] = ["one", "two"]
            .map(|name| shared.requirements(&labels_of(&[(labels::HOSTNAME, name), (labels::ZONE, "us-east-1a")])));
        assert!(std::ptr::eq(one.get(labels::ZONE).unwrap(), other.get(labels::ZONE).unwrap()));
    }
}
