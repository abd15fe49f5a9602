//! Many small Deployments of a company, each with its own constraints.

use super::soft::prefer_apart;
use crate::build::{labelled, near, pod, spread};
use crate::draw::Draw;
use nodeless_model::{Pod, labels};

pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    let mut pods = Vec::with_capacity(count);
    for group in 0.. {
        if pods.len() == count {
            break;
        }
        // The limits keep every pod small enough for medium-sized types.
        let cpu = draw.log_normal(250.0, 1.0).clamp(10.0, 8000.0) as i64;
        let memory = draw.log_normal(512.0, 1.1).clamp(16.0, 32_768.0) as i64;
        let name = format!("svc-{seed}-{group:05}");
        let replicas = draw.between(2, 20).min(count - pods.len());
        let kind = draw.below(100);
        pods.extend((0..replicas).map(|replica| {
            let mut pod = pod(format!("{name}-{replica:02}"), cpu, memory);
            pod.template_mut().labels = labelled("app", &name);
            match kind {
                0..60 => prefer_apart(&mut pod),
                60..80 => pod.template_mut().topology_spread = vec![spread(labels::ZONE, pod.template.labels.clone())],
                80..90 => {
                    pod.template_mut().required_pod_anti_affinity =
                        vec![near(labels::HOSTNAME, pod.template.labels.clone())];
                }
                _ => {}
            }
            pod
        }));
    }
    pods
}
