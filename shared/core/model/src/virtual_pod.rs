//! Virtual pods: the pods of CapacityBuffers and ProvisioningRequests, which exist in plans only.
//!
//! Nodes are launched and kept for them, and they are never bound, so that real pods find the capacity.

use crate::Pod;

/// Marks a virtual pod.
pub const FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";

/// A virtual pod of this template: without volumes, unbound, and marked as unschedulable. The caller names it.
pub(crate) fn virtual_pod(template: &Pod, namespace: &str, priority: i32) -> Pod {
    let mut pod = template.clone();
    namespace.clone_into(&mut pod.namespace);
    pod.template_mut().annotations.insert(FAKE_POD.to_owned(), "true".to_owned());
    pod.template_mut().priority = priority;
    pod.template_mut().priority_class_name = None;
    pod.marked_unschedulable = true;
    pod.template_mut().volume_claims.clear();
    pod.template_mut().scheduling_gates.clear();
    (pod.node_name, pod.nominated_node_name, pod.owner_kind) = (None, None, None);
    pod
}

/// Whether a pod is virtual, i.e. exists in plans only.
#[must_use]
pub fn is_virtual(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.template.annotations.get(FAKE_POD).is_some_and(|value| value == "true")
}
