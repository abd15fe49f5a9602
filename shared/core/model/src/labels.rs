//! Keys of labels, annotations, taints, finalizers and tags: the vocabulary shared with Karpenter, Kubernetes and EC2.

use crate::text::spelling::nearest;

// Labels of Karpenter's core API.

/// The NodePool that a node, claim or instance belongs to (label and EC2 tag).
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// The capacity type: `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a registered Node.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on an initialized Node.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node whose kubelet has set the claim's taints itself.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

// Labels of Kubernetes.

/// The availability zone, by name.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The EC2 instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The processor architecture: `amd64` or `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system: `linux` or `windows`.
pub const OS: &str = "kubernetes.io/os";
/// The build of Windows, such as `10.0.20348`.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The node itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Excludes a draining node from load balancers.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

// Labels of Karpenter's AWS provider.

/// The EC2NodeClass of a node, claim or instance (label and EC2 tag).
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// The availability zone, by account-independent id.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// `nitro` or `xen`; absent on bare metal.
pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// Whether traffic between instances is encrypted.
pub const INSTANCE_ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// The letters before the generation, such as `c`, `m`, `r`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// Whether the instance type is a flex type.
pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// The part before the dot, such as `m6i`.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// The generation number.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// The part after the dot, such as `2xlarge`.
pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Local NVMe storage in GB.
pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// The number of vCPUs.
pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// `intel`, `amd` or `aws`.
pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// The sustained clock speed in MHz.
pub const INSTANCE_CPU_CLOCK_SPEED_MHZ: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Memory in MiB.
pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// EBS bandwidth in Mbit/s.
pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Baseline network bandwidth in Mbit/s.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// The GPU's name.
pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// The GPU's maker.
pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// The number of GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of one GPU in MiB.
pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// The accelerator's name.
pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// The accelerator's maker.
pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// The number of accelerators.
pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// `default` or `dedicated`.
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// The capacity reservation that a node runs in.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// `default` or `capacity-block`.
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// Whether the reservation is interruptible.
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// The labels that only nodes in a capacity reservation have.
pub const OF_A_RESERVATION: [&str; 3] =
    [CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_TYPE, CAPACITY_RESERVATION_INTERRUPTIBLE];
/// The placement group.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// The partition of the placement group.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

// Annotations.

/// Protects a pod or node from voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Protects a node from node repair.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// The cost of evicting a pod: of two nodes, the one whose pods cost less is consolidated first.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// The hash of the NodePool's static fields.
pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// The version of `nodepool-hash`.
pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// The hash of the EC2NodeClass's static fields.
pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// The version of `ec2nodeclass-hash`.
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// The annotations by which drift of the static fields is found.
pub const HASHES: [&str; 4] =
    [NODE_POOL_HASH, NODE_POOL_HASH_VERSION, EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION];
/// When the drain ends forcefully, in RFC 3339.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether minValues were relaxed for a claim.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// `true` on a claim whose prices a NodeOverlay changed: EC2 then uses the order of the request's prices, not its own.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// `true` on a claim whose instance types a NodeOverlay gave further resources.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// The drivers, separated by commas, of the devices that the pods of a claim's node claim.
pub const DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// The instance profile that a claim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// The uid of the record, on the NodeClaim object that mirrors it. It identifies the mirrors of nodeless.
pub const RECORD_UID: &str = "nodeless.sh/record-uid";
/// The price of a claim's instance in dollars an hour, on the NodeClaim object that mirrors it. Absent while it is unknown.
pub const PRICE_PER_HOUR: &str = "nodeless.sh/price-per-hour";
/// The annotation of a pod, in the template of its Deployment: `restart` or `scale`, how its successor is created before its
/// node is drained, if the pod is the only ready one of its Deployment, or its PodDisruptionBudget allows no eviction.
pub const SURGE_BEFORE_DRAIN: &str = "nodeless.sh/surge-before-drain";
/// On a Deployment whose replicas are raised while a node with one of its pods is drained: for which pod of which claim, from
/// what to what, and since when. It is removed when they are lowered. A label of this name makes such Deployments easy to list.
pub const SURGE: &str = "nodeless.sh/surge";
/// The annotation of a NodePool: the DaemonSets that have to be ready on a new node before it is open for other pods. On a NodeClaim and
/// its Node: those of them that the node waits for, or waited for.
pub const WAIT_FOR_DAEMON_SETS: &str = "nodeless.sh/wait-for-daemonsets";
/// The annotation of a NodePool: how many stopped instances that have joined the cluster once it keeps, to be started when pods need nodes.
pub const WARM: &str = "nodeless.sh/warm";
/// The annotation of a NodePool or of the Namespace `kube-system`, for the whole cluster: `true` pauses voluntary disruption until it is
/// removed; a time in RFC 3339 pauses until then; `false` does not.
pub const PAUSE: &str = "nodeless.sh/pause-disruption";
/// The annotation of a NodePool: when it has no nodes. One or more of `SCHEDULE for DURATION`, separated by semicolons.
pub const SLEEP: &str = "nodeless.sh/sleep";
/// The annotation of the Namespace `kube-system`: when nodes may be disrupted voluntarily. One or more of `SCHEDULE for DURATION`,
/// separated by semicolons. Without it, at any time.
pub const MAINTENANCE_WINDOWS: &str = "nodeless.sh/maintenance-windows";
/// The annotation of a NodePool: how many pods voluntary disruption may evict within an hour without a lower price. Half of its
/// pods if it is not set, and at least those of two average nodes; `0` disables the breaker.
pub const CHURN_EVICTIONS: &str = "nodeless.sh/churn-evictions-per-hour";
/// The annotation of a NodePool: how many dollars an hour a command that consolidates its nodes saves at least. Empty nodes are removed
/// whatever they save.
pub const MIN_SAVINGS: &str = "nodeless.sh/min-savings-per-hour";
/// The annotation of a NodePool: its pods are balanced over zones by their topology spread constraints, and how many dollars an hour one
/// move may cost at most. `0` allows moves that cost nothing more. Without the annotation nothing is balanced.
pub const BALANCE_ZONES: &str = "nodeless.sh/balance-zones";
/// The annotation of a NodePool: how long before `expireAfter` its nodes are replaced gracefully, one after another,
/// within the budgets for `Drifted` and with a replacement first.
pub const GRACEFUL_EXPIRATION: &str = "nodeless.sh/graceful-expiration-before";
/// The annotation of a NodePool: `replace` replaces nodes for whose instances EC2 recommends a rebalance, one after
/// another, within the budgets for `Drifted` and with a replacement first. Without it a recommendation is only
/// reported, as in Karpenter.
pub const REBALANCE: &str = "nodeless.sh/rebalance-recommendations";
/// The annotation of a NodePool: how many of its nodes, or which percentage of the CPUs of its nodes, is at least on demand:
/// `"2"` or `"30%"`.
pub const MIN_ON_DEMAND: &str = "nodeless.sh/min-on-demand";
/// The annotation of a NodePool: `avoid` leaves spot offerings that EC2 interrupted often lately out of its launches, where
/// enough others cost hardly more. Without it interruptions do not matter for later launches, as in Karpenter.
pub const SPOT_INTERRUPTIONS: &str = "nodeless.sh/spot-interruptions";
/// The annotation of a NodePool: how long the first node with a new AMI has to run healthily before other nodes that drifted
/// because of their AMI are replaced.
pub const AMI_CANARY: &str = "nodeless.sh/ami-canary";
/// The annotation of a NodePool: `drift` terminates a drifted node, `repair` an unhealthy one, and `drift,repair` both before its
/// replacement is launched where this is possible only in the node's own place in a full capacity reservation. Without it such a node
/// stays.
pub const TERMINATE_FIRST: &str = "nodeless.sh/terminate-first";
/// The annotation of a NodePool: the size of the volume for the data of containers, by the instance type or the planned pods. Without it
/// the EC2NodeClass decides.
pub const ROOT_VOLUME: &str = "nodeless.sh/root-volume";
/// The key of a NodePool's limit on the price of its nodes, in `spec.limits` or as an annotation.
pub const DOLLARS_PER_HOUR: &str = "nodeless.sh/dollars-per-hour";
/// The annotation on a NodePool, or on the Namespace `kube-system` for the whole cluster: dollars a calendar month in UTC.
pub const DOLLARS_PER_MONTH: &str = "nodeless.sh/dollars-per-month";
/// When a Deployment was restarted, in its template, as `kubectl rollout restart` sets it.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// The annotation of the Namespace `kube-system`: the name of the table of the deployment that serves the cluster. The installer writes it.
/// Other deployments change nothing.
pub const TABLE: &str = "nodeless.sh/table";
/// The cost of deleting a pod, in Kubernetes.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// On the object that stands for a static pod of a kubelet.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// On a pod that uses the capacity of a ProvisioningRequest; the value is the request's name.
pub const CONSUMES_REQUEST: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
/// The earlier key of `autoscaling.x-k8s.io/consume-provisioning-request`.
pub const CONSUMES_REQUEST_DEPRECATED: &str = "cluster-autoscaler.kubernetes.io/consume-provisioning-request";

// Taints.

/// Keeps new pods off a node that is being disrupted.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Keeps pods off a node until it is registered.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// Keeps new pods off a node whose instance node repair reboots, until it has booted.
pub const REBOOTING_TAINT: &str = "karpenter.sh/rebooting";
/// Keeps pods off a registered node until the nodes of its plan have joined and pods are nominated for them.
pub const JOINING_TAINT: &str = "nodeless.sh/joining";
/// Keeps pods off a node until the DaemonSets that its NodePool names are ready there.
pub const DAEMON_SETS_NOT_READY_TAINT: &str = "nodeless.sh/daemonsets-not-ready";
/// Set by Kubernetes while a node is not ready.
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
/// Set by Kubernetes while a node is unreachable.
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
/// Set until the cloud controller manager has initialized a node.
pub const CLOUD_PROVIDER_UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

// Finalizers and EC2 tags.

/// The finalizer of NodeClaims and Nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// The finalizer of EC2NodeClasses.
pub const EC2_NODE_CLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";
/// The EC2 tag that names the claim of an instance.
pub const NODE_CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// The EC2 tag with the launch group of an instance, set at launch: it identifies the instance if the answer to its launch was
/// lost.
pub const LAUNCH_GROUP_TAG: &str = "nodeless.sh/launch-group";
/// The certificate authorities of the cluster as digests, with a dot between two: as an EC2 tag and an annotation of a Node those in
/// the user data of its instance, and as an annotation of an EC2NodeClass those that EKS returned last.
pub const CERTIFICATE_AUTHORITY: &str = "nodeless.sh/certificate-authority";
/// The EC2 tag that names the cluster of an instance.
pub const CLUSTER_NAME_TAG: &str = "eks:eks-cluster-name";

/// Labels that every instance type or launch defines, so that a pod may ask for them although no NodePool names them.
pub const WELL_KNOWN: &[&str] = &[
    NODE_POOL,
    CAPACITY_TYPE,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    WINDOWS_BUILD,
    EC2_NODE_CLASS,
    ZONE_ID,
    INSTANCE_HYPERVISOR,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_CATEGORY,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_SIZE,
    INSTANCE_LOCAL_NVME,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_CLOCK_SPEED_MHZ,
    INSTANCE_MEMORY,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MEMORY,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_TENANCY,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
];

/// Deprecated labels and their current names.
const ALIASES: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("topology.ebs.csi.aws.com/zone", ZONE),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// Whether a launch always defines this label.
#[must_use]
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

/// The well-known label that this key may mean: the one whose name after the prefix is the same or spelled similarly.
#[must_use]
pub fn similar(key: &str) -> Option<&'static str> {
    let known = WELL_KNOWN.iter().copied();
    if is_well_known(key) { None } else { nearest(without_prefix(key), known, |known| without_prefix(known)) }
}

fn without_prefix(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// The current name of a label key.
#[must_use]
pub fn normalize(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, present)| present)
}

/// The value of a label, under its current name or an alias of it.
#[must_use]
pub fn value<'l>(labels: &'l crate::StringMap, present: &str) -> Option<&'l String> {
    let mut aliases = ALIASES.iter().filter(|(_, current)| *current == present);
    labels.get(present).or_else(|| aliases.find_map(|(alias, _)| labels.get(*alias)))
}

/// Whether a NodePool or pod may not require this label, because no launch defines it and it is not a user's label.
///
/// The domains `karpenter.sh` and `karpenter.k8s.aws` and their subdomains are restricted except for the well-known labels, and
/// the host name belongs to Kubernetes. Karpenter v1.14 has the same rule.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    if is_well_known(key) {
        return false;
    }
    if key == HOSTNAME {
        return true;
    }
    let Some((domain, _)) = key.split_once('/') else { return false };
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|d| d.ends_with('.'));
    ["karpenter.sh", "karpenter.k8s.aws"].into_iter().any(within)
}

/// Whether a key is in the domain of nodeless.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    key.starts_with("nodeless.sh/")
}

/// Whether nodeless reads an annotation of Kubernetes' own objects. Others may contain anything, also secrets.
#[must_use]
pub fn is_read(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    ["karpenter.sh", "karpenter.k8s.aws", "nodeless.sh"].contains(&domain)
        || [POD_DELETION_COST, MIRROR_POD, CONSUMES_REQUEST, CONSUMES_REQUEST_DEPRECATED].contains(&annotation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_is_found_by_its_name_or_its_letters() {
        for key in ["zone", "topology.kubernetesio/zone", "failure-domain/zone"] {
            assert_eq!(similar(key), Some(ZONE), "{key}");
        }
        for key in ["topology.kubernetes.io/zon", "topology.kubernets.io/zones"] {
            assert_eq!(similar(key), Some(ZONE), "{key}");
        }
        assert_eq!(similar("karpenter.sh/capacity-typ"), Some(CAPACITY_TYPE));
        for key in [ZONE, CAPACITY_TYPE, "team", "example.com/team", "topology.kubernetes.io/rack", ""] {
            assert_eq!(similar(key), None, "{key}");
        }
    }

    #[test]
    fn restricts_domains_that_are_not_the_users() {
        for (key, restricted) in [
            (ZONE, false),
            (HOSTNAME, true),
            (INSTANCE_FAMILY, false),
            ("karpenter.sh/custom", true),
            ("sub.karpenter.sh/custom", true),
            ("kubernetes.io/custom", false),
            ("notkarpenter.sh/custom", false),
            ("node-restriction.kubernetes.io/team", false),
            ("example.com/team", false),
            ("team", false),
        ] {
            assert_eq!(is_restricted(key), restricted, "{key}");
        }
    }

    #[test]
    fn reads_no_annotation_that_may_be_anything() {
        for key in [DO_NOT_DISRUPT, SURGE_BEFORE_DRAIN, POD_DELETION_COST, CONSUMES_REQUEST] {
            assert!(is_read(key), "{key}");
        }
        for key in ["kubectl.kubernetes.io/last-applied-configuration", "cni.projectcalico.org/podIP", "password"] {
            assert!(!is_read(key), "{key}");
        }
    }

    #[test]
    fn reads_old_spellings() {
        assert_eq!(normalize("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(normalize("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(normalize("team"), "team");
    }
}
