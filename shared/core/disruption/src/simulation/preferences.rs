//! Voluntary moves keep the preferences of pods.
//!
//! Consolidation treats the preferences of a pod that its node meets as required, so it moves no pod to a node that
//! meets fewer of them. Karpenter keeps them too: its simulation launches a node for a preference before it drops the
//! preference, and that node saves nothing. Drift, expiration and interruption do not wait for preferences.

use crate::cluster::{Cluster, Options};
use crate::reasons::KeptReason;
use nodeless_model::hashed::HashMap;
use nodeless_model::labels;
use nodeless_model::pod::TopologySpread;
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

/// [`held`], and the topology spread over zones of the pods on nodes of some NodePools as required, whether it is satisfied or not.
pub(crate) fn held_with_zone_spreads(
    cluster: &Cluster<'_>,
    options: &Options,
    node_pools: &BTreeSet<&str>,
) -> Vec<HeldPod> {
    let mut all = held(cluster, options);
    let known: HashMap<(usize, usize), usize> =
        all.iter().enumerate().map(|(index, held)| ((held.node, held.place), index)).collect();
    for (number, node) in cluster.nodes.iter().enumerate() {
        if node.node.is_none() || node.node_pool().is_none_or(|pool| !node_pools.contains(pool)) {
            continue;
        }
        for (place, pod) in
            node.pods.iter().enumerate().filter(|(_, pod)| pod.template.topology_spread.iter().any(is_preferred))
        {
            let index = known.get(&(number, place)).copied().unwrap_or_else(|| {
                all.push(HeldPod { node: number, place, pod: (*pod).clone() });
                all.len() - 1
            });
            let spreads = &mut all[index].pod.template_mut().topology_spread;
            spreads.iter_mut().filter(|spread| is_preferred(spread)).for_each(|spread| spread.hard = true);
        }
    }
    all
}

fn is_preferred(spread: &TopologySpread) -> bool {
    !spread.hard && labels::normalize(&spread.topology_key) == labels::ZONE
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
