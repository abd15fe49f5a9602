//! Deployments with spread preferences.

use crate::build::{labelled, pod, preferably_near, soft_spread};
use crate::draw::Draw;
use nodeless_model::{Pod, labels};

pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    let mut pods = Vec::with_capacity(count);
    for app in 0.. {
        if pods.len() == count {
            break;
        }
        let (cpu, memory) = (draw.one_of(&[100, 200, 250, 500]), draw.one_of(&[128, 256, 512, 1024]));
        let name = format!("app-{seed}-{app:05}");
        let replicas = draw.between(2, 20).min(count - pods.len());
        pods.extend((0..replicas).map(|replica| {
            let mut pod = pod(format!("{name}-{replica:02}"), cpu, memory);
            pod.template_mut().labels = labelled("app", &name);
            prefer_apart(&mut pod);
            pod
        }));
    }
    pods
}

/// Preferred spread over zones, and preferred anti-affinity over hosts.
pub(super) fn prefer_apart(pod: &mut Pod) {
    pod.template_mut().topology_spread = vec![soft_spread(labels::ZONE, pod.template.labels.clone())];
    pod.template_mut().preferred_pod_anti_affinity =
        vec![preferably_near(labels::HOSTNAME, pod.template.labels.clone())];
}
