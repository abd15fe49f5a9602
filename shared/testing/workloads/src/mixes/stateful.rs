//! StatefulSets with spread and anti-affinity.

use crate::build::{labelled, near, pod, spread};
use crate::draw::Draw;
use nodeless_model::{Pod, labels};

pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    let mut pods = Vec::with_capacity(count);
    for set in 0.. {
        if pods.len() == count {
            break;
        }
        let (cpu, memory) = (draw.one_of(&[250, 500, 1000, 2000]), draw.one_of(&[1024, 2048, 4096, 8192]));
        let name = format!("set-{seed}-{set:05}");
        let replicas = draw.between(3, 9).min(count - pods.len());
        let own = labelled("app", &name);
        pods.extend((0..replicas).map(|ordinal| {
            Pod { owner_kind: Some("StatefulSet".into()), ..pod(format!("{name}-{ordinal}"), cpu, memory) }
                .with_template(|it| {
                    it.labels = own.clone();
                    it.topology_spread = vec![spread(labels::ZONE, own.clone())];
                    it.required_pod_anti_affinity = vec![near(labels::HOSTNAME, own.clone())];
                })
        }));
    }
    pods
}
