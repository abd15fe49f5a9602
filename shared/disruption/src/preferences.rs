//! Preferences are kept by whoever moves pods by choice.
//!
//! Consolidation sees pods whose preferences are met where they run as if these were required, so it moves none to a place
//! where less of what it prefers holds. Karpenter keeps them too: its simulation launches a node for a preference before it
//! gives the preference up, and that node saves nothing. Drift, expiry and interruption do not wait for preferences.

use crate::cluster::{Cluster, Options};
use nodeless_scheduling::{BoundPods, HeldPod, PreferencePolicy, held_preferences};

/// The pods of a cluster whose preferences are met, as if these were required; their nodes as places in the cluster's list.
pub(crate) fn held(cluster: &Cluster<'_>, options: &Options) -> Vec<HeldPod> {
    if options.scheduling.preferences == PreferencePolicy::Ignore {
        return Vec::new();
    }
    let nodes = cluster.nodes.iter().enumerate();
    let (places, running): (Vec<usize>, Vec<BoundPods<'_>>) =
        nodes.filter_map(|(place, of)| Some((place, BoundPods::on(of.node?, of.pods.clone())))).unzip();
    let mut held = held_preferences(&running, &cluster.namespaces);
    held.iter_mut().for_each(|held| held.node = places[held.node]);
    held
}

/// The cluster with these pods in place of those that run.
pub(crate) fn with_held<'h, 'a: 'h>(cluster: &Cluster<'a>, held: &'h [HeldPod]) -> Cluster<'h> {
    let mut with: Cluster<'h> = cluster.clone();
    for held in held {
        with.nodes[held.node].pods[held.place] = &held.pod;
    }
    with
}
