//! Pods that are planned only for existing nodes, or for nodes with further requirements.

use nodeless_model::Pod;
use std::collections::{BTreeMap, BTreeSet};

/// Pending pods that are planned with further requirements.
#[derive(Default)]
pub(crate) struct RestrictedPods {
    /// The pods, with these requirements.
    pub(crate) pods: Vec<Pod>,
    /// Why nothing is launched for pods, by uid.
    pub(crate) without_launch: BTreeMap<String, String>,
    /// The owners of these pods.
    pub(crate) owners: BTreeSet<String>,
}
