//! Voluntary moves keep the preferences of pods.
//!
//! Consolidation treats the preferences of a pod that its node meets as required, so it moves no pod to a node that
//! meets fewer of them. Karpenter keeps them too: its simulation launches a node for a preference before it drops the
//! preference, and that node saves nothing. Drift, expiration and interruption do not wait for preferences.

use crate::cluster::{Cluster, Options};
use crate::reasons::KeptReason;
use nodeless_scheduling::{BoundPods, HeldPod, PreferencePolicy, held_preferences};
use std::collections::{BTreeMap, BTreeSet};

/// The pods of a cluster whose preferences are satisfied, with these as requirements; their nodes as indices in the cluster's
/// list.
pub(crate) fn held(cluster: &Cluster<'_>, options: &Options) -> Vec<HeldPod> {
    if options.scheduling.preferences == PreferencePolicy::Ignore {
        return Vec::new();
    }
    let nodes = cluster.nodes.iter().enumerate();
    let (places, running): (Vec<usize>, Vec<BoundPods<'_>>) =
        nodes.filter_map(|(place, of)| Some((place, BoundPods::on(of.node?, of.pods.clone())))).unzip();
    let mut held = held_preferences(&running, cluster.facts);
    held.iter_mut().for_each(|held| held.node = places[held.node]);
    held
}

/// The cluster with these pods instead of the running ones.
pub(crate) fn with_held<'h, 'a: 'h>(cluster: &Cluster<'a>, held: &'h [HeldPod]) -> Cluster<'h> {
    let mut with: Cluster<'h> = cluster.clone();
    for held in held {
        with.nodes[held.node].pods[held.place] = &held.pod;
    }
    with
}

/// Adds, to the reasons about an unschedulable pod, that its preferences count as required, if they do.
pub(crate) fn add_reasons(kept: &mut BTreeMap<String, Vec<KeptReason>>, held: &[HeldPod]) {
    let held: BTreeSet<String> = held.iter().map(|held| held.pod.key()).collect();
    for reasons in kept.values_mut() {
        let stuck = reasons.iter().find_map(|reason| match reason {
            KeptReason::Unschedulable { pod, .. } => Some(pod),
            KeptReason::DoesNotFit(why) => Some(&why.pod),
            _ => None,
        });
        if let Some(pod) = stuck.filter(|pod| held.contains(*pod)).cloned() {
            reasons.push(KeptReason::PreferencesKept { pod });
        }
    }
}
