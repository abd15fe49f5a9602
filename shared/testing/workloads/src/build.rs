//! Builders of pods and their constraints.

use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::{DaemonSet, LabelSelector, Pod, StringMap, test_support};

/// The default namespace of pods.
pub const NAMESPACE: &str = "default";

/// A pending pod of a ReplicaSet, with these requests in millicores and MiB.
#[must_use]
pub fn pod(name: String, cpu_milli: i64, memory_mib: i64) -> Pod {
    Pod {
        namespace: NAMESPACE.into(),
        owner_kind: Some("ReplicaSet".into()),
        marked_unschedulable: true,
        ..test_support::pod(name, cpu_milli, memory_mib)
    }
}

/// One label.
#[must_use]
pub fn labelled(key: &str, value: &str) -> StringMap {
    StringMap::from([(key.into(), value.into())])
}

/// Affinity to, or from, pods with these labels within a topology.
#[must_use]
pub fn near(topology_key: &str, labels: StringMap) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(LabelSelector::from_labels(labels)),
        topology_key: topology_key.into(),
        ..PodAffinityTerm::default()
    }
}

/// Preferred affinity to, or from, pods with these labels within a topology.
#[must_use]
pub fn preferably_near(topology_key: &str, labels: StringMap) -> Weighted<PodAffinityTerm> {
    Weighted { weight: 100, preference: near(topology_key, labels) }
}

/// `DoNotSchedule` spread with `maxSkew` 1 of pods with these labels.
#[must_use]
pub fn spread(topology_key: &str, labels: StringMap) -> TopologySpread {
    test_support::topology_spread(topology_key, LabelSelector::from_labels(labels))
}

/// `ScheduleAnyway` spread with `maxSkew` 1 of pods with these labels.
#[must_use]
pub fn soft_spread(topology_key: &str, labels: StringMap) -> TopologySpread {
    TopologySpread { hard: false, ..spread(topology_key, labels) }
}

/// Five DaemonSets of typical EKS clusters: network, proxy, volumes, logs and metrics.
#[must_use]
pub fn five_daemon_sets() -> Vec<DaemonSet> {
    let sizes = [
        ("aws-node", 50, 64),
        ("kube-proxy", 100, 64),
        ("ebs-csi-node", 30, 120),
        ("logs", 200, 256),
        ("metrics", 100, 180),
    ];
    sizes.map(|(name, cpu, memory)| daemon_set(name, cpu, memory)).into()
}

/// A DaemonSet that runs on every node.
#[must_use]
pub fn daemon_set(name: &str, cpu_milli: i64, memory_mib: i64) -> DaemonSet {
    let mut template = pod(name.into(), cpu_milli, memory_mib);
    template.namespace = "kube-system".into();
    template.owner_kind = Some("DaemonSet".into());
    template.marked_unschedulable = false;
    template.template_mut().labels = labelled("app", name);
    template.template_mut().tolerations = vec![nodeless_model::Toleration {
        operator: nodeless_model::taint::TolerationOperator::Exists,
        ..nodeless_model::Toleration::default()
    }];
    DaemonSet { namespace: "kube-system".into(), name: name.into(), template, ..DaemonSet::default() }
}
