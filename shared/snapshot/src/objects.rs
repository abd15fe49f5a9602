//! The objects that were read, by kind and name.

use crate::fault::Place;
use nodeless_api::{EC2NodeClass, slim};
use nodeless_model as model;
use std::collections::{BTreeMap, BTreeSet};

/// Namespace, empty for objects without one, and name.
pub(crate) type Key = (String, String);

/// The scheduler of pods that Fargate runs; no instance is ever launched for them.
const FARGATE: &str = "fargate-scheduler";

/// The objects that were read. Sorted, so that the order of files and documents makes no difference.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: BTreeMap<Key, model::Node>,
    pub(crate) pods: BTreeMap<Key, model::Pod>,
    pub(crate) daemon_sets: BTreeMap<Key, model::DaemonSet>,
    pub(crate) disruption_budgets: BTreeMap<Key, model::PodDisruptionBudget>,
    pub(crate) namespaces: BTreeMap<Key, slim::Namespace>,
    pub(crate) persistent_volumes: BTreeMap<Key, slim::PersistentVolume>,
    pub(crate) persistent_volume_claims: BTreeMap<Key, slim::PersistentVolumeClaim>,
    pub(crate) storage_classes: BTreeMap<Key, slim::StorageClass>,
    pub(crate) csi_nodes: BTreeMap<Key, slim::CsiNode>,
    pub(crate) priority_classes: BTreeMap<Key, slim::PriorityClass>,
    pub(crate) node_pools: BTreeMap<Key, model::NodePool>,
    pub(crate) node_classes: BTreeMap<Key, EC2NodeClass>,
    pub(crate) node_claims: BTreeMap<Key, (Place, nodeless_api::NodeClaim)>,
    /// Pods whose priority was left to their class.
    pub(crate) without_priority: BTreeSet<Key>,
    /// Pods that Fargate runs.
    pub(crate) on_fargate: BTreeSet<Key>,
}

impl Objects {
    /// Remembers what the model's pod does not have.
    pub(crate) fn note_pod(&mut self, key: &Key, without_priority: bool, scheduler: Option<&str>) {
        let mut note = |set: fn(&mut Self) -> &mut BTreeSet<Key>, holds: bool| {
            if holds {
                set(self).insert(key.clone());
            } else {
                set(self).remove(key);
            }
        };
        note(|objects| &mut objects.without_priority, without_priority);
        note(|objects| &mut objects.on_fargate, scheduler == Some(FARGATE));
    }
}
