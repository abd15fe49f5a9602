//! Virtual pods: pods that exist in plans only, such as those of CapacityBuffers and ProvisioningRequests, and those that a workload is
//! about to create.
//!
//! Nodes are launched and kept for them, and they are never bound, so that real pods find the capacity. A pod is virtual by its
//! [`PodOrigin`], which only [`VirtualPods::pods`] sets to anything but [`PodOrigin::Cluster`]: no field of an object makes it so.

use crate::{Pod, PodOrigin};
use jiff::Timestamp;

/// Equal virtual pods.
#[derive(Clone, Debug)]
pub(crate) struct VirtualPods<'a> {
    /// What they are for.
    pub(crate) origin: PodOrigin,
    /// What they are like.
    pub(crate) template: &'a Pod,
    /// Their namespace.
    pub(crate) namespace: &'a str,
    /// Their names without the number of the pod, which follows.
    pub(crate) name: String,
    /// Their uids without the number of the pod, which follows.
    pub(crate) uid: String,
    /// When they count as created.
    pub(crate) created: Option<Timestamp>,
    /// Their priority.
    pub(crate) priority: i32,
}

impl VirtualPods<'_> {
    /// The pods with these numbers: unbound, and marked as unschedulable.
    pub(crate) fn pods(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<Pod> {
        let mut pod = self.template.clone();
        let template = pod.template_mut();
        (template.priority, template.priority_class_name) = (self.priority, None);
        template.scheduling_gates.clear();
        let pod = Pod {
            namespace: self.namespace.to_owned(),
            created: self.created,
            owner_kind: None,
            node_name: None,
            nominated_node_name: None,
            marked_unschedulable: true,
            origin: self.origin.clone(),
            ..pod
        };
        let numbered = |index: u32| Pod {
            name: format!("{}{index}", self.name),
            uid: format!("{}{index}", self.uid),
            ..pod.clone()
        };
        numbers.into_iter().map(numbered).collect()
    }
}

impl Pod {
    /// Whether the pod exists in plans only.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        !matches!(self.origin, PodOrigin::Cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::provisioning_request::{consumed_by, request_of};
    use crate::{StringMap, labels};

    /// The keys that mark virtual pods in Karpenter and in Cluster Autoscaler.
    const MARKS: [&str; 5] = [
        "karpenter.sh/capacity-buffer-fake-pod",
        "karpenter.sh/capacity-buffer-name",
        "karpenter.sh/capacity-buffer-namespace",
        "autoscaling.x-k8s.io/provisioning-class-name",
        labels::CONSUMES_REQUEST,
    ];

    #[test]
    fn nothing_that_is_written_in_a_pod_makes_it_virtual() {
        let marks: StringMap = MARKS.iter().map(|key| ((*key).to_owned(), "true".to_owned())).collect();
        let pod = Pod { marked_unschedulable: true, ..Pod::default() };
        let pod = pod.with_template(|it| (it.annotations, it.labels, it.priority) = (marks.clone(), marks, i32::MIN));
        assert!(!pod.is_virtual() && request_of(&pod).is_none() && consumed_by(&pod) == Some("true"));
    }

    #[test]
    fn a_decoded_pod_is_of_the_cluster() {
        let template = Pod::default();
        let pods = VirtualPods {
            origin: PodOrigin::ProvisioningRequest("train".into()),
            template: &template,
            namespace: "team",
            name: "train-".into(),
            uid: "u-".into(),
            created: None,
            priority: 0,
        };
        let made = pods.pods(0..2).remove(1);
        assert_eq!((made.key().as_str(), request_of(&made)), ("team/train-1", Some(("team", "train"))));
        let mut stored = serde_json::to_value(&made).unwrap();
        stored["origin"] = serde_json::json!({ "CapacityBuffer": "spare" });
        let decoded: Pod = serde_json::from_value(stored).unwrap();
        assert!(made.is_virtual() && !decoded.is_virtual());
        assert_eq!(decoded, Pod { origin: PodOrigin::Cluster, ..made });
    }
}
