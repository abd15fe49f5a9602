//! Changes of a pod, of a NodePool or of limits that may make a pod schedulable.

use crate::problem::excess::Excess;
use crate::problem::{PoolOffer, Problem};
use nodeless_model::cluster_limits::{MAX_DOLLARS_PER_HOUR, annotation_of};
use nodeless_model::money::quantity_of;
use nodeless_model::resources::{at_least, at_most, name};
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{
    DollarsPerHour, InstanceType, InstanceTypes, NodePool, Pod, Quantity, Requirement, ResourceList, Taint, Toleration,
    labels,
};
use std::fmt;

/// The largest volume of EBS that every volume type has.
const LARGEST_VOLUME_GIB: i64 = 16 * 1024;
const GIB: i64 = 1 << 30;

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Pod(PodChange),
    NodePool(String, PoolChange),
    /// The limit of the cluster is raised to this amount.
    ClusterLimit(String, Quantity),
    ClusterDollars(f64),
}

/// A change of the pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PodChange {
    Tolerate(Taint),
    /// The pod does not require the label.
    WithoutLabel(String),
    WithoutHostPort(i32),
    MaxSkew(String, i32),
    WithoutAffinity(String),
    WithoutAntiAffinity(String),
    /// The anti-affinity of other pods does not select it.
    Unselected(String),
    WithoutDomains(String),
    WithoutTopology,
    WithoutNodeAffinity,
    WithoutMatchFields,
    Fewer(Excess),
    WithoutVolume(String),
    WithoutVolumes,
    /// What instance types have of the attributes that the claims select; may be empty.
    WithoutResourceClaims(String),
    Nonnegative(String),
    AtMost(String, Quantity),
    WithoutResource(String),
}

/// A change of a NodePool.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PoolChange {
    /// Its nodes may have the label as the pod requires it.
    Allow(String, Requirement),
    /// The requirement is left out.
    Without(String, Requirement),
    MinValues(String, u32),
    /// It has no fixed number of replicas.
    Dynamic,
    Ready,
    Limit(String, Quantity),
    Dollars(f64),
    RootVolume(RootVolume),
}

/// A larger root volume of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RootVolume {
    node_class: String,
    gib: i64,
    /// By how much it is larger.
    more: Quantity,
    /// The share of it that the eviction threshold takes.
    threshold: f64,
    /// Whether the NodePool determines the size.
    is_of_pool: bool,
}

impl Change {
    /// Whether it is one of the pod's constraints, and not of its requests.
    pub(super) const fn is_of_constraints(&self) -> bool {
        matches!(self, Self::Pod(change) if !matches!(change, PodChange::AtMost(..) | PodChange::WithoutResource(_)))
    }

    /// Whether it helps a pod that is too large: a smaller request, or larger instance types.
    pub(super) const fn is_of_size(&self) -> bool {
        matches!(
            self,
            Self::Pod(PodChange::AtMost(..) | PodChange::WithoutResource(_))
                | Self::NodePool(_, PoolChange::Without(..) | PoolChange::RootVolume(_))
        )
    }

    /// The smaller a change, the lower its rank: a pod's constraints, then its requests, then limits and NodePools, which other pods
    /// share.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Pod(PodChange::Tolerate(_)) => 0,
            Self::Pod(PodChange::AtMost(..)) => 2,
            Self::Pod(PodChange::WithoutResource(_)) => 3,
            Self::Pod(_) => 1,
            Self::NodePool(_, PoolChange::Limit(..) | PoolChange::Dollars(_)) => 4,
            Self::ClusterLimit(..) | Self::ClusterDollars(_) => 5,
            Self::NodePool(_, PoolChange::Without(..)) => 7,
            Self::NodePool(..) => 6,
        }
    }

    /// Whether another change, which suffices, is the same with a smaller amount.
    pub(super) fn is_more_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(PodChange::AtMost(own, amount)), Self::Pod(PodChange::AtMost(theirs, more))) => {
                own == theirs && amount <= more
            }
            (Self::Pod(PodChange::WithoutResource(own)), Self::Pod(PodChange::AtMost(theirs, _))) => own == theirs,
            _ => false,
        }
    }

    /// The NodePool that is changed.
    pub(super) fn node_pool(&self) -> Option<&str> {
        match self {
            Self::NodePool(name, _) => Some(name),
            Self::Pod(_) | Self::ClusterLimit(..) | Self::ClusterDollars(_) => None,
        }
    }

    /// Makes the change of a pod.
    pub(super) fn change_pod(&self, pod: &mut Pod) {
        if let Self::Pod(change) = self {
            change.make(pod);
        }
    }

    /// Makes the change of a NodePool.
    pub(super) fn change_node_pool(&self, pool: &mut NodePool) {
        if let Self::NodePool(name, change) = self
            && *name == pool.name
        {
            change.make(pool);
        }
    }

    /// Makes the change of the instance types of a NodePool.
    pub(super) fn change_types(&self, problem: &mut Problem<'_>) {
        if let Self::NodePool(name, PoolChange::RootVolume(volume)) = self {
            let own = problem.node_pools.iter_mut().filter(|offer| offer.pool.name == *name);
            own.for_each(|offer| offer.instance_types = volume.of_types(&offer.instance_types));
        }
    }

    /// Makes the change of the limits of the cluster.
    pub(super) fn change_limits(&self, problem: &mut Problem<'_>) {
        let of_cluster = |offer: &mut PoolOffer<'_>| match (self, &mut offer.cluster) {
            (Self::ClusterLimit(resource, amount), Some(cluster)) => cluster.limits.resources.set(resource, *amount),
            (Self::ClusterDollars(amount), Some(cluster)) => cluster.limits.dollars_per_hour = Some(*amount),
            _ => {}
        };
        problem.node_pools.iter_mut().for_each(of_cluster);
    }
}

impl PodChange {
    fn make(&self, pod: &mut Pod) {
        match self {
            Self::Tolerate(taint) => pod.template_mut().tolerations.push(Toleration {
                key: taint.key.clone(),
                operator: TolerationOperator::Equal,
                value: taint.value.clone(),
                effect: Some(taint.effect),
                toleration_seconds: None,
            }),
            Self::WithoutLabel(key) => without_label(pod, key),
            Self::WithoutHostPort(port) => pod.template_mut().host_ports.retain(|own| own.port != *port),
            Self::MaxSkew(key, skew) => {
                let own = pod
                    .template_mut()
                    .topology_spread
                    .iter_mut()
                    .filter(|spread| spread.hard && spread.topology_key == *key);
                own.for_each(|spread| spread.max_skew = spread.max_skew.max(*skew));
            }
            Self::WithoutAffinity(key) => {
                pod.template_mut().required_pod_affinity.retain(|term| term.topology_key != *key);
            }
            Self::WithoutAntiAffinity(key) => without_anti_affinity(pod, key),
            Self::Unselected(_) => pod.template_mut().labels.clear(),
            Self::WithoutDomains(key) => {
                pod.template_mut().topology_spread.retain(|spread| spread.topology_key != *key);
                pod.template_mut().required_pod_affinity.retain(|term| term.topology_key != *key);
                pod.template_mut().required_pod_anti_affinity.retain(|term| term.topology_key != *key);
            }
            Self::WithoutTopology => without_topology(pod),
            Self::WithoutNodeAffinity => without_node_affinity(pod),
            Self::WithoutMatchFields => pod.template_mut().has_match_fields = false,
            Self::Fewer(excess) => fewer(pod, *excess),
            Self::WithoutVolume(claim) => {
                let namespace = pod.namespace.clone();
                pod.template_mut()
                    .volume_claims
                    .retain(|own| own.claim_name != *claim && format!("{namespace}/{}", own.claim_name) != *claim);
            }
            Self::WithoutVolumes => pod.template_mut().volume_claims.truncate(1),
            Self::WithoutResourceClaims(_) => pod.template_mut().resource_claims.clear(),
            Self::Nonnegative(resource) => pod.template_mut().requests.set(resource, Quantity::ZERO),
            Self::AtMost(resource, amount) => pod.template_mut().requests.set(resource, *amount),
            Self::WithoutResource(resource) => pod.template_mut().requests.remove(resource),
        }
    }
}

/// A term without conditions left matches every node, and so does an alternative of it.
fn without_label(pod: &mut Pod, key: &str) {
    pod.template_mut().node_selector.retain(|own, _| labels::normalize(own) != key);
    let terms = &mut pod.template_mut().required_node_affinity;
    terms.iter_mut().for_each(|term| term.retain(|condition| labels::normalize(&condition.key) != key));
    if terms.iter().any(Vec::is_empty) {
        terms.clear();
    }
}

/// The other pods of its workload have the same anti-affinity, and change with it.
fn without_anti_affinity(pod: &mut Pod, key: &str) {
    let own = &pod.template.labels;
    let of_workload = pod.template.required_pod_anti_affinity.iter().filter(|term| term.topology_key == key);
    let selectors = of_workload.filter_map(|term| term.selector.as_ref());
    if selectors.into_iter().any(|selector| selector.matches(own)) {
        pod.template_mut().labels.clear();
    }
    pod.template_mut().required_pod_anti_affinity.retain(|term| term.topology_key != key);
}

fn without_node_affinity(pod: &mut Pod) {
    pod.template_mut().node_selector.clear();
    pod.template_mut().required_node_affinity.clear();
    pod.template_mut().preferred_node_affinity.clear();
}

fn without_topology(pod: &mut Pod) {
    pod.template_mut().topology_spread.clear();
    pod.template_mut().required_pod_affinity.clear();
    pod.template_mut().required_pod_anti_affinity.clear();
    pod.template_mut().preferred_pod_affinity.clear();
    pod.template_mut().preferred_pod_anti_affinity.clear();
}

fn fewer(pod: &mut Pod, excess: Excess) {
    match excess {
        Excess::Tolerations => pod.template_mut().tolerations.truncate(excess.limit()),
        Excess::Resources => {
            let kept =
                pod.template.requests.iter().take(excess.limit()).map(|(name, amount)| (name.to_owned(), amount));
            pod.template_mut().requests = kept.collect::<ResourceList>();
        }
        Excess::TopologySpread => pod.template_mut().topology_spread.truncate(excess.limit()),
        Excess::PodAffinity => without_topology(pod),
        Excess::NodeAffinity | Excess::VolumeTopologies => without_node_affinity(pod),
        Excess::Conditions | Excess::Values => {
            without_topology(pod);
            without_node_affinity(pod);
        }
    }
}

impl PoolChange {
    fn make(&self, pool: &mut NodePool) {
        let template = &mut pool.template;
        match self {
            Self::Allow(key, required) => {
                template.labels.retain(|own, _| labels::normalize(own) != key);
                template.requirements.remove(key);
                if !labels::is_well_known(key) {
                    template.requirements.add(key, required.clone());
                }
            }
            Self::Without(key, _) => template.requirements.remove(key),
            Self::MinValues(key, found) => {
                if let Some(requirement) = template.requirements.get(key).cloned() {
                    template.requirements.remove(key);
                    template.requirements.add(key, requirement.with_min_values(Some(*found)));
                }
            }
            Self::Dynamic => pool.replicas = None,
            Self::Ready => pool.ready = Ok(()),
            Self::Limit(resource, amount) => pool.limits.set(resource, *amount),
            Self::Dollars(amount) => pool.limit_dollars_per_hour = Some(*amount),
            Self::RootVolume(_) => {}
        }
    }
}

impl RootVolume {
    /// The smallest volume for a pod that needs this much more of the nodes' ephemeral storage than they leave. `None` if nodes have it
    /// from other disks, or no volume is large enough.
    pub(super) fn with_more(offer: &PoolOffer<'_>, missing: Quantity) -> Option<Self> {
        let capacity = |kind: &InstanceType| kind.capacity.get(name::EPHEMERAL_STORAGE);
        let first = offer.instance_types.first()?;
        let now = capacity(first).as_f64();
        if now <= 0.0 || offer.instance_types.iter().any(|kind| capacity(kind) != capacity(first)) {
            return None;
        }
        let threshold = first.overhead.eviction_threshold.get(name::EPHEMERAL_STORAGE).as_f64() / now;
        let bytes = now + missing.as_f64() / (1.0 - threshold);
        #[expect(clippy::cast_possible_truncation, reason = "float-to-integer casts saturate")]
        let gib = (bytes / GIB as f64).ceil() as i64;
        let more = Quantity::from_units(gib.checked_mul(GIB)?) - capacity(first);
        let node_class = offer.pool.template.node_class.clone();
        let is_of_pool = first.root_volume.is_some();
        (gib <= LARGEST_VOLUME_GIB).then_some(Self { node_class, gib, more, threshold, is_of_pool })
    }

    fn of_types(&self, types: &[InstanceType]) -> InstanceTypes {
        let larger = |kind: &InstanceType| {
            let mut kind = kind.clone();
            #[expect(clippy::cast_possible_truncation, reason = "float-to-integer casts saturate")]
            let kept = Quantity::from_units((self.more.as_f64() * self.threshold).ceil() as i64);
            kind.capacity.add(&ResourceList::from([(name::EPHEMERAL_STORAGE, self.more)]));
            kind.overhead.eviction_threshold.add(&ResourceList::from([(name::EPHEMERAL_STORAGE, kept)]));
            kind
        };
        types.iter().map(larger).collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(change) => change.fmt(f),
            Self::NodePool(name, change) => change.write(f, name),
            Self::ClusterLimit(resource, amount) => raised(f, annotation_of(resource), &at_least(resource, *amount)),
            Self::ClusterDollars(amount) => raised(f, MAX_DOLLARS_PER_HOUR, &quantity_of(*amount)),
        }
    }
}

/// Raises a limit of the cluster.
fn raised(f: &mut fmt::Formatter<'_>, annotation: &str, amount: &str) -> fmt::Result {
    write!(f, "raise the annotation {annotation} of the Namespace kube-system to {amount} or more")
}

impl fmt::Display for PodChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate(taint) => write!(f, "add a toleration for {taint} to the pod"),
            Self::WithoutLabel(key) => write!(f, "do not require label {key} of the pod's node"),
            Self::WithoutHostPort(port) => write!(f, "use another host port than {port}"),
            Self::MaxSkew(key, skew) => write!(f, "raise maxSkew over {key} to {skew}"),
            Self::WithoutAffinity(key) => {
                write!(f, "start a pod that its affinity over {key} selects, or make the affinity preferred")
            }
            Self::WithoutAntiAffinity(key) => write!(
                f,
                "make the anti-affinity over {key} preferred, add a domain of {key}, or run fewer of these pods"
            ),
            Self::Unselected(key) => {
                write!(f, "change the anti-affinity over {key} of the pods that are there, or add a domain of {key}")
            }
            Self::WithoutDomains(key) => write!(
                f,
                "give nodes label {key}, in a NodePool's template, with the values as a requirement; or remove the topology \
                 constraint over it"
            ),
            Self::WithoutTopology => {
                f.write_str("use fewer labels, or labels with fewer values, in topology constraints")
            }
            Self::WithoutNodeAffinity => f.write_str("correct the node selector or the node affinity"),
            Self::WithoutMatchFields => f.write_str("select nodes with matchExpressions"),
            Self::Fewer(excess) => write!(f, "reduce the {excess} to {} or fewer", excess.limit()),
            Self::WithoutVolume(claim) => write!(f, "create persistent volume claim {claim}, with a StorageClass"),
            Self::WithoutVolumes => f.write_str("move the volumes to one zone, or mount them in separate pods"),
            Self::WithoutResourceClaims(offered) => {
                f.write_str("change the pod's resource claims")?;
                if !offered.is_empty() {
                    write!(f, " to what instance types have ({offered})")?;
                }
                f.write_str(", or ask for the device as an extended resource of its containers")
            }
            Self::Nonnegative(resource) => write!(f, "request {resource} of zero or more"),
            Self::AtMost(resource, amount) => write!(f, "request at most {} of {resource}", at_most(resource, *amount)),
            Self::WithoutResource(resource) if resource.starts_with("hugepages-") => write!(
                f,
                "do not request {resource}, or let the user data of nodes reserve huge pages and add them to spec.capacity of a NodeOverlay"
            ),
            Self::WithoutResource(resource) => write!(f, "do not request {resource}"),
        }
    }
}

impl PoolChange {
    fn write(&self, f: &mut fmt::Formatter<'_>, pool: &str) -> fmt::Result {
        match self {
            Self::Allow(key, required) if labels::is_well_known(key) => {
                write!(f, "let NodePool {pool} allow {key} {required}")
            }
            Self::Allow(key, required) => {
                write!(f, "define label {key} in the template of NodePool {pool}, so that it meets {required}")
            }
            Self::Without(key, own) => write!(f, "widen or remove the requirement {key} {own} of NodePool {pool}"),
            Self::MinValues(key, found) => {
                write!(f, "lower minValues for {key} to {found} in NodePool {pool}, or let the policy be BestEffort")
            }
            Self::Dynamic => write!(f, "raise replicas of NodePool {pool}, or use one without replicas"),
            Self::Ready => write!(f, "make NodePool {pool} and its EC2NodeClass ready"),
            Self::Limit(resource, amount) => {
                write!(f, "raise limit {resource} of NodePool {pool} to {} or more", at_least(resource, *amount))
            }
            Self::Dollars(amount) => {
                write!(f, "raise the limit of NodePool {pool} to {} or more", DollarsPerHour(*amount))
            }
            Self::RootVolume(RootVolume { gib, is_of_pool: true, .. }) => {
                write!(
                    f,
                    "raise the size in the annotation {} of NodePool {pool} to {gib}Gi or more",
                    labels::ROOT_VOLUME
                )
            }
            Self::RootVolume(RootVolume { node_class, gib, .. }) => write!(
                f,
                "raise the root volume of EC2NodeClass {node_class} (blockDeviceMappings) to {gib}Gi or more, or let it follow \
                 the pods with the annotation {}: \"pods max {gib}Gi\" of NodePool {pool}",
                labels::ROOT_VOLUME
            ),
        }
    }
}
