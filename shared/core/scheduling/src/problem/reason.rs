//! Why a pod is unschedulable.

use crate::problem::excess::Excess;
use nodeless_model::resources::{at_least, compared, name};
use nodeless_model::{DaemonSetName, DollarsPerHour, Quantity, Taint, labels};
use serde::{Serialize, Serializer};
use std::fmt;

/// Why a pod is unschedulable. Its text is a message for users; it is stored and shown unchanged.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The pod requires something that no plan can provide.
    Pod(PodFault),
    /// There is no NodePool that could launch anything.
    NoNodePools,
    /// There is none either, but one that is left out because of an error.
    NoValidNodePools,
    /// The plan reached its work limit before it evaluated the pod; the next plan continues.
    OutOfWork,
    /// More classes of pods are unschedulable than [`crate::Options::max_explained`]; for these the reason was not
    /// determined.
    NotExplained,
    /// A NodePool cannot launch a node for it.
    NodePool {
        /// The NodePool.
        node_pool: String,
        /// The reason.
        cause: Cause,
    },
}

/// A requirement of a pod that no plan can satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFault {
    /// The pod has claims for devices, and is not moved to another node.
    ResourceClaims {
        /// The names of the claims.
        names: Vec<String>,
    },
    /// A claim of the pod for devices cannot be met on any node.
    Claim {
        /// Why.
        message: String,
    },
    /// The pod mounts a volume claim with an unknown topology.
    UnknownVolume {
        /// The claim.
        claim: String,
    },
    /// The pod's volumes cannot be used on one node.
    VolumesApart {
        /// The claims.
        claims: Vec<String>,
    },
    /// The pod has a local volume, and the nodes that have the data do not take the pod.
    LocalVolume {
        /// The claim.
        claim: String,
        /// The nodes, by their label `kubernetes.io/hostname`.
        hosts: Vec<String>,
    },
    /// In every domain, one of its topology constraints, or one of another pod, excludes it.
    Topology {
        /// Each constraint and the domains that it excludes the pod from.
        constraints: Vec<Barrier>,
    },
    /// The pod has topology constraints over a label that no node has or can get.
    NoDomain {
        /// The label's key.
        topology_key: String,
    },
    /// Fewer pods of its PodGroup have a place than are scheduled together.
    PodGroup {
        /// Which, and why.
        message: String,
    },
    /// The node affinity matches fields of nodes.
    MatchFields,
    /// The node affinity has only terms without conditions, which match no node.
    EmptyAffinity,
    /// The pod has more constraints of a kind than a plan evaluates.
    TooMany {
        /// The kind.
        excess: Excess,
        /// The number of constraints.
        count: usize,
    },
    /// The pod's topology constraints, with those of pods that select it, combine so many domains that one pod would use up the
    /// work of a plan: more than 10,000, or so many that they take half of [`crate::Options::max_work`].
    TooManyDomains {
        /// The labels of nodes whose values are the domains.
        topology_keys: Vec<String>,
        /// The number of combinations of their values and the alternatives of its node affinity.
        combinations: usize,
    },
    /// The node selector and node affinity contradict each other, or cannot be read.
    Requirements {
        /// The error.
        message: String,
    },
    /// The pod requests a negative amount of a resource.
    NegativeRequest {
        /// The resource.
        resource: String,
    },
}

/// A topology constraint that excludes a pod from domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The label of nodes whose values are the domains.
    pub topology_key: String,
    /// The kind of constraint.
    pub kind: BarrierKind,
    /// The domains that it excludes the pod from, and how many counted pods are in each. Empty for the host name, since
    /// every new node is a domain of its own.
    pub domains: Vec<(String, u32)>,
}

/// The kind of constraint that excludes a pod from domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// The pod's topology spread.
    Spread {
        /// The `maxSkew`.
        max_skew: u32,
        /// The minimum count over all eligible domains.
        min_count: u32,
    },
    /// The pod's pod affinity.
    Affinity,
    /// The pod's pod anti-affinity.
    AntiAffinity,
    /// The pod anti-affinity of other pods.
    AntiAffinityOfOthers {
        /// One of them, as `namespace/name`: one that runs in these domains, if any does. `None` if they are pods that DaemonSets
        /// will have.
        example: Option<String>,
    },
}

/// What the pod of a DaemonSet takes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenByDaemonSet {
    /// The DaemonSet.
    pub name: DaemonSetName,
    /// The resource.
    pub resource: String,
    /// Its request.
    pub requested: Quantity,
}

impl fmt::Display for TakenByDaemonSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = at_least(&self.resource, self.requested);
        write!(f, "DaemonSet {} takes {} {amount} of each node", self.name, self.resource)
    }
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitScope {
    /// The limit of the NodePool.
    NodePool,
    /// The limit of all NodePools together.
    Cluster,
}

/// Why a NodePool cannot launch a node for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The NodePool or its EC2NodeClass is not ready.
    NotReady {
        /// The reason.
        message: String,
    },
    /// The NodePool is being deleted.
    Deleting,
    /// The NodePool is static.
    Static,
    /// No instance type meets its requirements, for any pod.
    NoInstanceTypes,
    /// The pod does not tolerate a taint of its nodes.
    Taint(Taint),
    /// The NodePool's nodes do not have a label that the pod requires.
    UndefinedLabel {
        /// The label's key.
        key: String,
        /// The pod's requirement.
        required: String,
    },
    /// The NodePool's nodes have a label with other values than the pod requires.
    Label {
        /// The label's key.
        key: String,
        /// The pod's requirement.
        required: String,
        /// The values that the NodePool allows.
        allowed: String,
    },
    /// No instance type meets the requirements of NodePool and pod together.
    NoTypeMatches {
        /// The pod's requirements.
        required: String,
    },
    /// No instance type has a resource at all.
    ResourceNotOffered {
        /// The resource.
        resource: String,
    },
    /// No instance type that meets the requirements has enough of a resource.
    TooLarge {
        /// The resource.
        resource: String,
        /// The pod's request.
        requested: Quantity,
        /// The maximum of any instance type, less the requests of DaemonSets.
        largest: Quantity,
        /// The DaemonSet that takes most of it, if the pod had enough without DaemonSets.
        daemon_set: Option<TakenByDaemonSet>,
    },
    /// The pod mounts more volumes than a node of any instance type that meets the requirements attaches.
    TooManyVolumes {
        /// The CSI driver of the volumes.
        driver: String,
        /// The number of volumes of the pod.
        mounted: i64,
        /// The maximum of any instance type.
        most: i64,
    },
    /// No instance type that meets the requirements has the devices that the pod claims.
    Devices {
        /// Why, for one of the instance types.
        message: String,
        /// What the instance types have of the attributes that the claims select; may be empty.
        offered: String,
    },
    /// Each resource alone is available, but no instance type has enough of all at once.
    NoTypeFits {
        /// By resource that is requested, the most that an instance type leaves which has enough of all others.
        most: Vec<(String, Quantity)>,
        /// The DaemonSet that takes most, if the pod had enough without DaemonSets.
        daemon_set: Option<TakenByDaemonSet>,
    },
    /// Instance types would fit, but they are not available now in the allowed zones and capacity types.
    NoOffering {
        /// The matching instance types, sorted by name.
        instance_types: Vec<String>,
    },
    /// A DaemonSet takes a host port that the pod needs.
    HostPort {
        /// The port.
        port: i32,
        /// The DaemonSet.
        daemon_set: DaemonSetName,
    },
    /// A topology constraint keeps the pod off every node that would fit, because a DaemonSet runs there.
    DaemonSetPod {
        /// The constraint.
        barrier: Barrier,
        /// The DaemonSet.
        daemon_set: DaemonSetName,
    },
    /// `minValues` cannot be satisfied.
    MinValues {
        /// The label's key.
        key: String,
        /// The required number of values.
        required: u32,
        /// The actual number among the matching instance types.
        found: u32,
    },
    /// A limit is reached.
    Limit {
        /// Whose limit.
        scope: LimitScope,
        /// The resource.
        resource: String,
        /// The limit.
        limit: Quantity,
        /// The usage, including the launches of this plan.
        used: Quantity,
        /// The pod's request.
        requested: Quantity,
        /// The capacity of the smallest node that fits it.
        smallest_node: Quantity,
    },
    /// The limit on dollars per hour is reached.
    DollarLimit {
        /// Whose limit.
        scope: LimitScope,
        /// The limit.
        limit: f64,
        /// The usage, including the launches of this plan.
        used: f64,
        /// The minimum usage of a node that fits: the price of the most expensive zone that it may be launched in.
        min_charge: f64,
    },
    /// The limits allow each resource alone, but no instance type as a whole.
    Limits,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(fault) => fault.fmt(f),
            Self::NoNodePools => f.write_str("there is no NodePool that can be used; create one"),
            Self::NoValidNodePools => write!(f, "{}, or correct one with an error", Self::NoNodePools),
            Self::NotExplained => f.write_str(
                "it cannot be scheduled; the reason was not determined, because too many kinds of pods cannot be scheduled",
            ),
            Self::OutOfWork => {
                f.write_str("the plan reached its work limit before it evaluated the pod; the next plan continues with it")
            }
            Self::NodePool { node_pool, cause } => write!(f, "NodePool {node_pool}: {cause}"),
        }
    }
}

impl fmt::Display for PodFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResourceClaims { names } => {
                write!(f, "pods with resource claims ({}) are not moved to other nodes", names.join(", "))
            }
            Self::Claim { message } | Self::PodGroup { message } => f.write_str(message),
            Self::UnknownVolume { claim } => {
                write!(f, "the topology of persistent volume claim {claim} is not known, so no zone can be chosen")
            }
            Self::VolumesApart { claims } => {
                write!(f, "persistent volume claims {} cannot be used on one node", claims.join(", "))
            }
            Self::Topology { constraints } => {
                for (index, barrier) in constraints.iter().enumerate() {
                    write!(f, "{}{barrier}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::NoDomain { topology_key } => {
                write!(f, "no node has or can have label {topology_key} of its topology constraints")
            }
            Self::LocalVolume { claim, hosts } => {
                write!(f, "PersistentVolumeClaim {claim} is a local volume of node {}, ", hosts.join(" or "))?;
                f.write_str("which has too little capacity, or whose taints, labels or pods exclude the pod")
            }
            Self::MatchFields => f.write_str("node affinity with matchFields is not supported; use matchExpressions"),
            Self::EmptyAffinity => f.write_str("its required node affinity has no conditions, so it matches no node"),
            Self::Requirements { message } => f.write_str(message),
            Self::TooMany { excess, count } => {
                write!(f, "it has {count} {excess}, and a plan evaluates at most {}", excess.limit())
            }
            Self::TooManyDomains { topology_keys, combinations } => write!(
                f,
                "its topology constraints, and those of pods that select it, have {combinations} combinations of domains of {}, \
                 which takes too much work for one pod",
                topology_keys.join(", ")
            ),
            Self::NegativeRequest { resource } => write!(f, "it requests a negative amount of {resource}"),
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.topology_key;
        let names = self.domains.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        match &self.kind {
            BarrierKind::Spread { max_skew, min_count } => {
                let counts = self.domains.iter().map(|(name, count)| format!("{name} has {count}"));
                let counts = counts.collect::<Vec<_>>().join(", ");
                write!(
                    f,
                    "topology spread over {key} allows a skew of {max_skew}: {counts}, the domain with the fewest pods has {min_count}"
                )
            }
            BarrierKind::Affinity if self.domains.is_empty() => {
                write!(f, "pod affinity over {key}: no node with free capacity runs a pod that it selects")
            }
            BarrierKind::Affinity => write!(f, "pod affinity over {key}: no pod that it selects is in {names}"),
            BarrierKind::AntiAffinity if self.domains.is_empty() => {
                write!(f, "pod anti-affinity over {key}: every node with free capacity runs a pod that it selects")
            }
            BarrierKind::AntiAffinity => {
                write!(f, "pod anti-affinity over {key}: pods that it selects are in {names}")
            }
            BarrierKind::AntiAffinityOfOthers { example: Some(example) } => {
                write!(f, "pod anti-affinity over {key} of pods such as {example} excludes it from {names}")
            }
            BarrierKind::AntiAffinityOfOthers { example: None } => {
                write!(f, "pod anti-affinity over {key} of other pods excludes it from {names}")
            }
        }
    }
}

impl fmt::Display for LimitScope {
    /// The text that follows a limit in a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodePool => "",
            Self::Cluster => " of the cluster",
        })
    }
}

impl Barrier {
    /// Why pods of a DaemonSet keep the pod off all new nodes.
    fn write_with(&self, daemon_set: &DaemonSetName, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.topology_key;
        match self.kind {
            BarrierKind::Spread { max_skew, .. } => {
                write!(f, "topology spread over {key} allows a skew of {max_skew}")?;
            }
            BarrierKind::Affinity => write!(f, "pod affinity over {key}")?,
            BarrierKind::AntiAffinity => write!(f, "pod anti-affinity over {key}")?,
            BarrierKind::AntiAffinityOfOthers { .. } => {
                write!(f, "pod anti-affinity over {key} of the DaemonSet excludes it")?;
            }
        }
        write!(f, ": DaemonSet {daemon_set} runs on every node that would fit")
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady { message } => write!(f, "not ready: {message}"),
            Self::Deleting => f.write_str("it is being deleted"),
            Self::Static => f.write_str("it has a fixed number of replicas"),
            Self::NoInstanceTypes => f.write_str("no instance type meets its requirements"),
            Self::Taint(taint) => write!(f, "does not tolerate taint {taint}"),
            Self::UndefinedLabel { key, required } => {
                write!(f, "pod requires {key} {required}, but the NodePool does not define label {key}")?;
                labels::similar(key).map_or(Ok(()), |known| write!(f, " (did you mean {known}?)"))
            }
            Self::Label { key, required, allowed } => {
                write!(f, "pod requires {key} {required}, NodePool allows {allowed}")
            }
            Self::NoTypeMatches { required } => write!(f, "no instance type matches {required}"),
            Self::ResourceNotOffered { resource } => write!(f, "no instance type offers {resource}"),
            Self::TooLarge { resource, requested, largest, daemon_set } => {
                let [requested, largest] = compared(resource, [*requested, *largest]);
                write!(
                    f,
                    "no instance type has enough {resource}: pod needs {requested}, the largest leaves {largest}"
                )?;
                daemon_set.as_ref().map_or(Ok(()), |taken| write!(f, ", because {taken}"))
            }
            Self::TooManyVolumes { driver, mounted, most } => {
                write!(f, "no instance type permits {mounted} volume attachments of {driver}, the most is {most}")
            }
            Self::Devices { message, .. } => write!(f, "no instance type has the claimed devices: {message}"),
            Self::NoTypeFits { daemon_set, .. } => {
                f.write_str("no instance type has enough of all requested resources at once")?;
                daemon_set.as_ref().map_or(Ok(()), |taken| write!(f, ", because {taken}"))
            }
            Self::NoOffering { instance_types } => {
                let shown = instance_types.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = match instance_types.len().saturating_sub(3) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                write!(f, "no offering is available now of the instance types that would fit ({shown}{more})")
            }
            Self::HostPort { port, daemon_set } => {
                write!(f, "DaemonSet {daemon_set} takes host port {port} on every node that would fit")
            }
            Self::DaemonSetPod { barrier, daemon_set } => barrier.write_with(daemon_set, f),
            Self::MinValues { key, required, found } => {
                write!(f, "minValues {required} for {key} cannot be reached: the instance types that fit offer {found}")
            }
            Self::Limit { scope, resource, limit, used, requested, smallest_node } => {
                let [limit, used, requested_text, smallest] =
                    compared(resource, [*limit, *used, *requested, *smallest_node]);
                write!(f, "limit {resource} {limit}{scope} reached: {used} used")?;
                match resource.as_str() {
                    name::NODES => Ok(()),
                    // The placeholder pod for a node of a static NodePool requests nothing.
                    _ if requested.is_zero() => write!(f, ", the smallest node has {smallest}"),
                    _ => write!(f, ", pod needs {requested_text} (smallest node that fits: {smallest})"),
                }
            }
            Self::DollarLimit { scope, limit, used, min_charge } => write!(
                f,
                "limit of {}{scope} reached: {} used, and a new node that fits costs up to {} in the most expensive zone where it \
                 may be launched",
                DollarsPerHour(*limit),
                DollarsPerHour(*used),
                DollarsPerHour(*min_charge)
            ),
            Self::Limits => f.write_str("no instance type that fits is within all limits"),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
