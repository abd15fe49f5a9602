//! The input and the output of a plan.

pub(crate) mod excess;
pub(crate) mod reason;
pub(crate) mod solution;

use nodeless_devices::ClusterDevices;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::pod::HostPort;
use nodeless_model::{
    ClusterLimits, DaemonSet, InstanceType, InstanceTypes, Node, NodePool, Pod, Requirements, ResourceList, StringMap,
    Taint,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// The input of a plan. The same problem always has the same solution, whatever the order of its lists.
#[derive(Clone, Debug, Default)]
pub struct Problem<'a> {
    /// The pods that need a node. The indices in a [`crate::Solution`] refer to this list.
    pub pods: Vec<&'a Pod>,
    /// The existing and launching nodes, managed or not. The indices in a [`crate::Solution`] refer to this list.
    pub nodes: Vec<ExistingNode>,
    /// The NodePools that may launch nodes, in any order.
    pub node_pools: Vec<PoolOffer<'a>>,
    /// All DaemonSets: their pods use capacity on every node that they would run on.
    pub daemon_sets: &'a [DaemonSet],
    /// The running pods, by node, on every Node of the cluster, including nodes that take no further pods and nodes without pods:
    /// topology constraints count them. Pods that are in `pods` too do not count.
    pub bound_pods: Vec<BoundPods<'a>>,
    /// Volumes, namespaces and devices.
    pub facts: ClusterFacts<'a>,
}

/// Volumes, namespaces and devices, which pods refer to by name. All of it is borrowed, so a copy costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts<'a> {
    /// Where the volumes of pods can be used, by `namespace/claim`: on nodes that meet any of the listed alternatives, which
    /// are the terms of the PersistentVolume's node affinity or the allowed topologies of its StorageClass. An empty list
    /// means any node. A pod with a claim that is missing here is not scheduled, because the zone of its volume is unknown.
    pub volumes: &'a BTreeMap<String, Vec<Requirements>>,
    /// The hosts that have a local volume, as their label `kubernetes.io/hostname`, by `namespace/claim`. While one of them is among
    /// [`Problem::nodes`], the pod is placed only there; without them the volume is lost, and hosts do not count.
    pub volume_hosts: &'a BTreeMap<String, BTreeSet<String>>,
    /// The CSI drivers of volumes, by `namespace/claim`, those of running pods included. An in-tree volume counts for the
    /// driver that it is migrated to.
    pub volume_drivers: &'a BTreeMap<String, String>,
    /// The number of volumes of each driver that a node can attach, as its CSINode reports, by the Node's name. Missing nodes
    /// have no limit. New nodes, and managed nodes that are not initialized, have that of
    /// [`nodeless_model::InstanceType::ebs_volumes`].
    pub volume_limits: &'a BTreeMap<String, BTreeMap<String, u32>>,
    /// The labels of namespaces, by name, for constraints that select namespaces. A missing namespace counts as having only
    /// `kubernetes.io/metadata.name`, which Kubernetes sets on every namespace.
    pub namespaces: &'a BTreeMap<String, StringMap>,
    /// Devices, and the claims of pods for them.
    pub devices: &'a ClusterDevices,
    /// The least number of pods of a PodGroup that are planned, by `namespace/name`: fewer are of no use. Only the plan of `placement`
    /// takes them into account.
    pub pod_groups: &'a BTreeMap<String, u32>,
    /// Whether the cluster has a NodePool that is not in [`Problem::node_pools`] because of an error.
    pub any_invalid_node_pool: bool,
}

impl Default for ClusterFacts<'_> {
    /// No volumes, no devices and no labels of namespaces.
    fn default() -> Self {
        Self {
            volumes: const { &BTreeMap::new() },
            volume_hosts: const { &BTreeMap::new() },
            volume_drivers: const { &BTreeMap::new() },
            volume_limits: const { &BTreeMap::new() },
            namespaces: const { &BTreeMap::new() },
            devices: const { &ClusterDevices::NONE },
            pod_groups: const { &BTreeMap::new() },
            any_invalid_node_pool: false,
        }
    }
}

/// An existing node, or a launching claim, with its free capacity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExistingNode {
    /// The Node's name, or the NodeClaim's if there is no Node.
    pub name: String,
    /// The NodeClaim, if it is managed.
    pub node_claim: Option<String>,
    /// The NodePool, if it is managed.
    pub node_pool: Option<String>,
    /// Whether the node is initialized. Other nodes are filled after initialized ones.
    pub initialized: bool,
    /// The labels. Before a claim is launched a label may have several values; a pod is then scheduled there only if each of them
    /// matches.
    pub requirements: Requirements,
    /// The taints that pods have to tolerate.
    pub taints: Vec<Taint>,
    /// The free capacity for more pods; negative where resources are overcommitted.
    pub available: ResourceList,
    /// Used host ports.
    pub host_ports: Vec<HostPort>,
    /// The DaemonSets whose pods will run there and do not yet, as indices into [`Problem::daemon_sets`]. `available` and `host_ports`
    /// are without what they take.
    pub daemon_sets: Vec<usize>,
    /// The pods that it was launched for, `namespace/name`. Pending ones are scheduled there first, and other pods do not use
    /// their capacity: packing them again could leave some without a node.
    pub nominated: Vec<String>,
}

/// The pods that are bound to a node.
#[derive(Clone, Debug)]
pub struct BoundPods<'a> {
    /// The Node's name. An [`ExistingNode`] of the same name is this node.
    pub name: &'a str,
    /// The Node's labels.
    pub labels: &'a StringMap,
    /// The Node's taints.
    pub taints: &'a [Taint],
    /// The pods. Terminated pods and pods that are being deleted do not count.
    pub pods: Vec<&'a Pod>,
}

impl<'a> BoundPods<'a> {
    /// A Node with its pods.
    #[must_use]
    pub fn on(node: &'a Node, pods: Vec<&'a Pod>) -> Self {
        Self { name: &node.name, labels: &node.labels, taints: &node.taints, pods }
    }
}

/// A NodePool and its instance types.
#[derive(Clone, Debug)]
pub struct PoolOffer<'a> {
    /// The NodePool.
    pub pool: &'a NodePool,
    /// The instance types as its EC2NodeClass would launch them.
    pub instance_types: InstanceTypes,
    /// The current usage of its limits.
    pub usage: PoolUsage,
    /// The limits of the cluster, the same for all NodePools of a problem; `None` without such limits.
    pub cluster: Option<ClusterUsage>,
}

/// The limits of the cluster, and the current usage of all its NodePools together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterUsage {
    /// The limits.
    pub limits: ClusterLimits,
    /// The usage.
    pub usage: PoolUsage,
}

impl PoolOffer<'_> {
    /// The instance type of a name. Catalogs are sorted, other lists need not be.
    #[must_use]
    pub fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        let known = self.instance_types.binary_search_by(|kind| kind.name.as_str().cmp(name));
        let found = known.ok().map(|place| &self.instance_types[place]);
        found.or_else(|| self.instance_types.iter().find(|kind| kind.name == name))
    }

    /// Counts a launch for a NodePool against its limits, and against those of the cluster.
    pub fn charge(offers: &mut [Self], node_pool: &str, charge: &Charge) {
        Self::each_usage(offers, node_pool, |usage| usage.add(charge));
    }

    /// Counts a node of a NodePool no longer against its limits and those of the cluster.
    pub fn release(offers: &mut [Self], node_pool: &str, charge: &Charge) {
        Self::each_usage(offers, node_pool, |usage| usage.subtract(charge));
    }

    /// The usage of the NodePool, and the usage of the cluster in each offer.
    fn each_usage(offers: &mut [Self], node_pool: &str, change: impl Fn(&mut PoolUsage)) {
        if let Some(offer) = offers.iter_mut().find(|offer| offer.pool.name == node_pool) {
            change(&mut offer.usage);
        }
        offers.iter_mut().filter_map(|offer| offer.cluster.as_mut()).for_each(|cluster| change(&mut cluster.usage));
    }
}

/// The options of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Whether preferences are tried before they are relaxed.
    pub preferences: PreferencePolicy,
    /// The behavior if `minValues` cannot be satisfied.
    pub min_values: MinValuesPolicy,
    /// The maximum number of instance types of a launch, the cheapest first. CreateFleet accepts 60 with all their offerings;
    /// Karpenter's NodeClaims list up to 600.
    pub max_instance_types: usize,
    /// The maximum number of pods, without those of DaemonSets, that a new node is planned for, which bounds what one
    /// node failure affects. `None` leaves it to the instance types. A NodePool limits the size of machines by its
    /// requirements, such as `karpenter.k8s.aws/instance-cpu`.
    pub max_pods_per_node: Option<u32>,
    /// The maximum work of a plan, in units of [`crate::Solution::work`]. The remaining pods are left for the next plan with
    /// [`crate::Reason::OutOfWork`]. `None` means no limit.
    pub max_work: Option<u64>,
    /// For how many classes of unschedulable pods the reasons are determined, the largest by cpu and memory first. All
    /// others have [`crate::Reason::NotExplained`].
    pub max_explained: u32,
}

/// Whether preferences (preferred affinity, ScheduleAnyway) are tried before they are relaxed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferencePolicy {
    /// Treated as required at first, then relaxed one by one.
    #[default]
    Respect,
    /// Ignored.
    Ignore,
}

/// The behavior if `minValues` cannot be satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValuesPolicy {
    /// The NodePool cannot serve the pod.
    #[default]
    Strict,
    /// A new node may have fewer; the launch reports that.
    BestEffort,
}

/// There is no policy with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is one of {expected}, and not {given:?}")]
pub struct UnknownPolicy {
    given: String,
    expected: &'static str,
}

impl FromStr for PreferencePolicy {
    type Err = UnknownPolicy;

    fn from_str(given: &str) -> Result<Self, UnknownPolicy> {
        match given {
            "Respect" => Ok(Self::Respect),
            "Ignore" => Ok(Self::Ignore),
            _ => Err(UnknownPolicy { given: given.to_owned(), expected: "Respect and Ignore" }),
        }
    }
}

impl FromStr for MinValuesPolicy {
    type Err = UnknownPolicy;

    fn from_str(given: &str) -> Result<Self, UnknownPolicy> {
        match given {
            "Strict" => Ok(Self::Strict),
            "BestEffort" => Ok(Self::BestEffort),
            _ => Err(UnknownPolicy { given: given.to_owned(), expected: "Strict and BestEffort" }),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::default(),
            min_values: MinValuesPolicy::default(),
            max_instance_types: 60,
            max_pods_per_node: None,
            max_work: None,
            max_explained: 500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_karpenters_names() {
        assert_eq!("Ignore".parse(), Ok(PreferencePolicy::Ignore));
        assert_eq!("Respect".parse(), Ok(PreferencePolicy::Respect));
        assert_eq!("BestEffort".parse(), Ok(MinValuesPolicy::BestEffort));
        assert_eq!("Strict".parse(), Ok(MinValuesPolicy::Strict));
        let wrong = "ignore".parse::<PreferencePolicy>().unwrap_err().to_string();
        assert_eq!(wrong, "it is one of Respect and Ignore, and not \"ignore\"");
        assert!("Lax".parse::<MinValuesPolicy>().is_err());
    }
}
