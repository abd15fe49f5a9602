//! Karpenter's diverse mix.

use crate::build::{labelled, near, pod, spread};
use crate::draw::Draw;
use nodeless_model::{Pod, labels};

const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// A fifth each: plain, spread over zones, spread over hosts, with affinity to themselves in a zone, and with anti-affinity over
/// hosts.
pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    (0..count)
        .map(|index| {
            let kind = index * 5 / count.max(1);
            let (cpu, memory) =
                (draw.one_of(&[100, 250, 500, 1000, 1500]), draw.one_of(&[100, 256, 512, 1024, 2048, 4096]));
            let mut pod = pod(format!("pod-{seed}-{kind}-{index:06}"), cpu, memory);
            let (own, other) = (draw.one_of(&VALUES), labelled("my-label", draw.one_of(&VALUES)));
            pod.template_mut().labels = labelled("my-label", own);
            match kind {
                1 => pod.template_mut().topology_spread = vec![spread(labels::ZONE, other)],
                2 => pod.template_mut().topology_spread = vec![spread(labels::HOSTNAME, other)],
                3 => {
                    pod.template_mut().labels = labelled("my-affinity", own);
                    pod.template_mut().required_pod_affinity = vec![near(labels::ZONE, pod.template.labels.clone())];
                }
                4 => {
                    pod.template_mut().labels = labelled("app", "lonely");
                    pod.template_mut().required_pod_anti_affinity =
                        vec![near(labels::HOSTNAME, pod.template.labels.clone())];
                }
                _ => {}
            }
            pod
        })
        .collect()
}
