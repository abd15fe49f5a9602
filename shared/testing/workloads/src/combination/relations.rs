//! The affinity, anti-affinity and spread of a group.

use super::Combination;
use crate::build::{labelled, near};
use crate::catalog::ZONES;
use crate::draw::Draw;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::{LabelSelector, Pod, StringMap, labels};

/// The custom topology key.
pub(super) const RACK: &str = "example.com/rack";

/// The topology keys, with their values if they are known.
pub(super) fn topologies(of: &Combination) -> [(&'static str, Vec<String>); 3] {
    let racks = (0..of.get("racks")).map(|rack| format!("rack-{rack}")).collect();
    [(labels::ZONE, ZONES.map(str::to_owned).into()), (labels::HOSTNAME, Vec::new()), (RACK, racks)]
}

const NAMES: [(&str, &str); 3] = [("zone", labels::ZONE), ("host", labels::HOSTNAME), ("rack", RACK)];

pub(super) fn relate(pod: &mut Pod, of: &Combination, group: usize, draw: &mut Draw) {
    for (name, key) in NAMES {
        for (kind, hard) in [("hard", true), ("soft", false)] {
            if draw.percent(of.get(&format!("{kind}_{name}"))) {
                pod.template_mut().topology_spread.push(spread(of, key, hard, selected(of, group)));
            }
        }
        let mut terms = |kind: &str| {
            let present = draw.percent(of.get(&format!("{kind}_{name}")));
            let count = if present { of.get("terms") as usize } else { 0 };
            (0..count).map(|index| near(key, selected(of, group + index))).collect::<Vec<PodAffinityTerm>>()
        };
        pod.template_mut().required_pod_affinity.extend(terms("near"));
        pod.template_mut().required_pod_anti_affinity.extend(terms("apart"));
        pod.template_mut().preferred_pod_affinity.extend(weighted(terms("rather_near")));
        pod.template_mut().preferred_pod_anti_affinity.extend(weighted(terms("rather_apart")));
    }
}

fn weighted(terms: Vec<PodAffinityTerm>) -> impl Iterator<Item = Weighted<PodAffinityTerm>> {
    (1..).zip(terms).map(|(place, preference)| Weighted { weight: place * 13 % 100 + 1, preference })
}

/// The labels in the selectors of a group.
fn selected(of: &Combination, group: usize) -> StringMap {
    match of.get("selects") {
        0 => labelled("app", &format!("g-{group:05}")),
        1 => labelled("app", &format!("g-{:05}", group + 1)),
        2 => labelled("share", &format!("s-{}", group % 7)),
        _ => labelled("all", "true"),
    }
}

fn spread(of: &Combination, key: &str, hard: bool, selected: StringMap) -> TopologySpread {
    let least = i32::try_from(of.get("min_domains")).unwrap_or(0);
    let changed = of.get("policies") == 1;
    TopologySpread {
        max_skew: i32::try_from(of.get("max_skew")).unwrap_or(1),
        topology_key: key.into(),
        hard,
        selector: Some(LabelSelector::from_labels(selected)),
        match_label_keys: Vec::new(),
        min_domains: (hard && least > 0).then_some(least),
        honor_node_affinity: !changed,
        honor_node_taints: changed,
    }
}
