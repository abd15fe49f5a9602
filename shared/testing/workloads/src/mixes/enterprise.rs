//! Many small Deployments or StatefulSets of a company, each with its own constraints.

use super::soft::prefer_apart;
use crate::build::{labelled, near, pod, spread};
use crate::draw::Draw;
use nodeless_model::{Pod, labels};

/// Deployments with 2 to 20 pods.
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
            constrain(&mut pod, kind);
            pod
        }));
    }
    pods
}

/// Deployments, or StatefulSets over zones, of teams: most have a few pods, some many. Their names are those of their owners.
pub(super) fn of_teams(count: usize, seed: u64, is_stateful: bool) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    let mut pods = Vec::with_capacity(count);
    let (owner, prefix) = if is_stateful { ("StatefulSet", "db") } else { ("ReplicaSet", "api") };
    for group in 0.. {
        if pods.len() == count {
            break;
        }
        // Each pod fits a node with 8 cpus and 32 GiB.
        let cpu = draw.log_normal(250.0, 1.0).clamp(50.0, 6000.0) as i64 / 10 * 10;
        let memory = draw.log_normal(850.0, 1.3).clamp(64.0, 22_000.0) as i64 / 16 * 16;
        let (name, team) = (format!("{prefix}-{seed}-{group:05}"), format!("team-{:02}", draw.below(17)));
        let replicas = (draw.log_normal(3.0, 0.8).clamp(1.0, 40.0).round() as usize).min(count - pods.len());
        let kind = draw.below(100);
        pods.extend((0..replicas).map(|replica| {
            let mut pod = pod(format!("{name}-{replica:02}"), cpu, memory);
            (pod.owner_kind, pod.owner_name) = (Some(owner.into()), Some(name.clone()));
            pod.template_mut().labels = labelled("app", &name);
            constrain(&mut pod, if is_stateful { ZONAL } else { kind });
            pod.template_mut().labels.insert("team".into(), team.clone());
            pod
        }));
    }
    pods
}

/// A kind with hard zone spread.
const ZONAL: usize = 60;

/// Three fifths prefer to be apart, a fifth has hard zone spread, and a tenth required anti-affinity over hostname.
fn constrain(pod: &mut Pod, kind: usize) {
    let own = pod.template.labels.clone();
    match kind {
        0..ZONAL => prefer_apart(pod),
        ZONAL..80 => pod.template_mut().topology_spread = vec![spread(labels::ZONE, own)],
        80..90 => pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, own)],
        _ => {}
    }
}
