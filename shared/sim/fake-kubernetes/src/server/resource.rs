//! Resources, the built-in ones as constants.

use std::borrow::Cow;

/// A resource: group, version and plural in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// API version, for example `v1`.
    pub version: Cow<'static, str>,
    /// Plural name, as in URLs.
    pub plural: Cow<'static, str>,
    /// Kind of the objects.
    pub kind: Cow<'static, str>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// A resource whose names are known when the program is compiled.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// A resource that is not built in, such as one from a CustomResourceDefinition.
    pub fn custom(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            plural: Cow::Owned(plural.to_owned()),
            kind: Cow::Owned(kind.to_owned()),
            namespaced,
        }
    }

    /// `group/version`, or `version` alone in the core group: the `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `plural.group`, or the plural alone in the core group: how errors name the resource.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() { self.plural.to_string() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn storage_key(&self) -> StorageKey {
        // Events are served in two groups and stored once.
        let group = if self.group == "events.k8s.io" { Cow::Borrowed("") } else { self.group.clone() };
        StorageKey { group, plural: self.plural.clone() }
    }
}

/// The storage key of a resource: versions of one resource share their objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StorageKey {
    pub(crate) group: Cow<'static, str>,
    pub(crate) plural: Cow<'static, str>,
}

macro_rules! resources {
    ($($name:ident = $group:literal, $version:literal, $plural:literal, $kind:literal, $namespaced:literal;)*) => {
        $(
            #[doc = concat!("`", $plural, "` (kind ", $kind, ").")]
            pub const $name: Resource = Resource::new($group, $version, $plural, $kind, $namespaced);
        )*
        /// The built-in resources.
        pub(crate) const ALL: &[Resource] = &[$($name),*];
    };
}

resources! {
    PODS = "", "v1", "pods", "Pod", true;
    NODES = "", "v1", "nodes", "Node", false;
    NAMESPACES = "", "v1", "namespaces", "Namespace", false;
    SERVICES = "", "v1", "services", "Service", true;
    ENDPOINTS = "", "v1", "endpoints", "Endpoints", true;
    CONFIG_MAPS = "", "v1", "configmaps", "ConfigMap", true;
    SECRETS = "", "v1", "secrets", "Secret", true;
    SERVICE_ACCOUNTS = "", "v1", "serviceaccounts", "ServiceAccount", true;
    EVENTS = "", "v1", "events", "Event", true;
    PERSISTENT_VOLUMES = "", "v1", "persistentvolumes", "PersistentVolume", false;
    PERSISTENT_VOLUME_CLAIMS = "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true;
    REPLICATION_CONTROLLERS = "", "v1", "replicationcontrollers", "ReplicationController", true;
    POD_TEMPLATES = "", "v1", "podtemplates", "PodTemplate", true;
    LIMIT_RANGES = "", "v1", "limitranges", "LimitRange", true;
    RESOURCE_QUOTAS = "", "v1", "resourcequotas", "ResourceQuota", true;
    DEPLOYMENTS = "apps", "v1", "deployments", "Deployment", true;
    REPLICA_SETS = "apps", "v1", "replicasets", "ReplicaSet", true;
    STATEFUL_SETS = "apps", "v1", "statefulsets", "StatefulSet", true;
    DAEMON_SETS = "apps", "v1", "daemonsets", "DaemonSet", true;
    CONTROLLER_REVISIONS = "apps", "v1", "controllerrevisions", "ControllerRevision", true;
    JOBS = "batch", "v1", "jobs", "Job", true;
    CRON_JOBS = "batch", "v1", "cronjobs", "CronJob", true;
    POD_DISRUPTION_BUDGETS = "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true;
    STORAGE_CLASSES = "storage.k8s.io", "v1", "storageclasses", "StorageClass", false;
    CSI_NODES = "storage.k8s.io", "v1", "csinodes", "CSINode", false;
    CSI_DRIVERS = "storage.k8s.io", "v1", "csidrivers", "CSIDriver", false;
    VOLUME_ATTACHMENTS = "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false;
    PRIORITY_CLASSES = "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false;
    POD_GROUPS = "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true;
    WORKLOADS = "scheduling.k8s.io", "v1alpha2", "workloads", "Workload", true;
    LEASES = "coordination.k8s.io", "v1", "leases", "Lease", true;
    ROLES = "rbac.authorization.k8s.io", "v1", "roles", "Role", true;
    ROLE_BINDINGS = "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true;
    CLUSTER_ROLES = "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false;
    CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false;
    CUSTOM_RESOURCE_DEFINITIONS =
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false;
    VALIDATING_WEBHOOK_CONFIGURATIONS =
        "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
        false;
    NEW_EVENTS = "events.k8s.io", "v1", "events", "Event", true;
    ENDPOINT_SLICES = "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true;
    HORIZONTAL_POD_AUTOSCALERS = "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true;
    HORIZONTAL_POD_AUTOSCALERS_V1 = "autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true;
    INGRESSES = "networking.k8s.io", "v1", "ingresses", "Ingress", true;
    INGRESS_CLASSES = "networking.k8s.io", "v1", "ingressclasses", "IngressClass", false;
    NETWORK_POLICIES = "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true;
    RESOURCE_SLICES = "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false;
    DEVICE_CLASSES = "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false;
    RESOURCE_CLAIMS = "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true;
    RESOURCE_CLAIM_TEMPLATES = "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true;
    RUNTIME_CLASSES = "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false;
}
