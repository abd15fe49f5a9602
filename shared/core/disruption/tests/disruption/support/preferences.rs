//! Pods with preferences.

use super::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};

/// A term of affinity or anti-affinity to the pods of an app.
fn term(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm { selector: Some(selector("app", app)), topology_key: key.into(), ..PodAffinityTerm::default() }
}

pub fn preferred(key: &str, app: &str) -> Vec<Weighted<PodAffinityTerm>> {
    vec![Weighted { weight: 100, preference: term(key, app) }]
}

pub fn soft_spread(key: &str, app: &str) -> Vec<TopologySpread> {
    vec![TopologySpread { hard: false, ..topology_spread(key, selector("app", app)) }]
}

/// A pod like those of most charts: spread over zones and apart over hosts, both only preferred.
pub fn web(name: &str) -> Pod {
    let mut pod = labelled(pod(name, 100, 128), "app", "web");
    pod.template_mut().topology_spread = soft_spread(labels::ZONE, "web");
    pod.template_mut().preferred_pod_anti_affinity = preferred(labels::HOSTNAME, "web");
    pod
}
