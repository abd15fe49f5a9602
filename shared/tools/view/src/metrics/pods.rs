//! Metrics of pods: `pkg/controllers/metrics/pod/controller.go` and `pkg/controllers/provisioning/scheduling/metrics.go` of Karpenter.

use super::text::{Labels, Writer};
use super::{Sources, count, seconds};
use crate::objects::decode::ShownKind;
use crate::objects::event::DECIDING;
use crate::objects::pending::PendingRow;
use crate::objects::pod::PodFacts;
use nodeless_model::pod::PodPhase;
use nodeless_model::{Node, labels};

pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    state(sources, writer);
    waiting(sources, writer);
    let help = "The number of unschedulable Pods.";
    if writer.gauge("karpenter_scheduler_unschedulable_pods_count", help, &[ShownKind::Pod, ShownKind::Event]) {
        let unschedulable = sources.picture.pending.iter().filter(|pod| is_unschedulable(pod)).count();
        writer.sample(&Labels::default().with("controller", "provisioner"), count(unschedulable));
    }
}

/// Whether nodeless, or Karpenter, reports that no NodePool can schedule the pod.
pub(super) fn is_unschedulable(pod: &PendingRow) -> bool {
    !pod.nominated && pod.reported_by.as_deref().is_some_and(|component| DECIDING.contains(&component))
}

fn state(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let help = "Pod state is the current state of pods. This metric can be used several ways as it is labeled by the pod name, namespace, owner, node, whether the pod is scheduled, nodepool name, zone, architecture, capacity type, instance type, pod phase, pod readiness, and whether the node is Karpenter-managed.";
    writer.gauge("karpenter_pods_state", help, &[ShownKind::Pod, ShownKind::Node]);
    for (key, pod) in &sources.cluster.pods {
        let Some(more) = sources.measured.pods.get(key) else { continue };
        let node = pod.node.as_ref().and_then(|name| sources.cluster.nodes.get(&(String::new(), name.clone())));
        let of_node = |label: &str| node.and_then(|node| node.labels.get(label)).map_or("", String::as_str);
        let managed = node.and_then(Node::node_pool).is_some();
        let labels = named(pod)
            .with("owner", &more.owner)
            .with("node", pod.node.as_deref().unwrap_or_default())
            .with("scheduled", truth(pod.node.is_some()))
            .with("nodepool", node.and_then(Node::node_pool).unwrap_or_default())
            .with("zone", of_node(labels::ZONE))
            .with("arch", of_node(labels::ARCH))
            .with("capacity_type", of_node(labels::CAPACITY_TYPE))
            .with("instance_type", of_node(labels::INSTANCE_TYPE))
            .with("phase", &format!("{:?}", pod.phase))
            .with("ready", truth(more.ready))
            .with("managed", truth(managed));
        writer.sample(&labels, 1.0);
    }
}

/// The times of pods that have not started, and of those without a node. Karpenter also counts pods as not started that run and are not
/// ready, if it saw them pending: an object does not show whether a pod was ready before.
fn waiting(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let pending = || sources.cluster.pods.iter().filter(|(_, pod)| pod.phase == PodPhase::Pending);
    writer.gauge(
        "karpenter_pods_unstarted_time_seconds",
        "The time from pod creation until the pod is running.",
        &[ShownKind::Pod],
    );
    for (_, pod) in pending() {
        if let Some(created) = pod.created {
            writer.sample(&named(pod), seconds(created, sources.now));
        }
    }
    writer.gauge(
        "karpenter_pods_unbound_time_seconds",
        "The time from pod creation until the pod is bound.",
        &[ShownKind::Pod],
    );
    for (key, pod) in pending() {
        let more = sources.measured.pods.get(key);
        if let (false, Some(created)) = (more.is_some_and(|more| more.scheduled), pod.created) {
            let dynamic_resources = truth(more.is_some_and(|more| more.dynamic_resources));
            let labels = named(pod).with("dynamic_resources", dynamic_resources);
            writer.sample(&labels, seconds(created, sources.now));
        }
    }
}

fn named(pod: &PodFacts) -> Labels {
    Labels::default().with("name", &pod.name).with("namespace", &pod.namespace)
}

const fn truth(is_true: bool) -> &'static str {
    if is_true { "true" } else { "false" }
}
