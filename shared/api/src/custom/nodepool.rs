//! NodePool: which nodes may be made, and when they may be disrupted.

use crate::custom::common::{self, Condition, NodeClassReference, Requirement, ResourceList, Taint};
use crate::custom::rules::{self, DURATION, NILLABLE_DURATION, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The nodes that may be launched for unschedulable pods, and how these nodes are kept up to date.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    singular = "nodepool",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "A NodePool defines which nodes may be launched, and when they may be disrupted.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Price",
        type_ = "string",
        json_path = r".status.resources.nodeless\.sh/dollars-per-hour",
        description = "Dollars an hour."
    ),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        "has(self.replicas) == has(oldSelf.replicas)",
    ),
    (
        "only 'limits.nodes' is supported on static NodePools",
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
    ),
    ("'weight' is not supported on static NodePools", "!has(self.replicas) || !has(self.weight)"),
])))]
pub struct NodePoolSpec {
    /// The template of the NodePool's NodeClaims.
    pub template: NodeClaimTemplate,
    /// When and how many nodes of this pool may be disrupted.
    #[serde(default)]
    #[schemars(extend("default" = { "consolidateAfter": "0s" }))]
    pub disruption: Disruption,
    /// The most that the nodes of this pool may have together, by resource. The resource `nodes` counts the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::resource_list")]
    pub limits: Option<ResourceList>,
    /// Pools with a higher weight are tried first. A pool without weight has weight 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Makes the pool static: this many nodes, whatever the pods need. Excludes weight and all limits but `nodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// The template of a NodePool's NodeClaims and their nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the NodeClaims and nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The desired state of the NodeClaims.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that NodeClaims and their nodes get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels of the nodes, which pods can select.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::template_labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: BTreeMap<String, String>,
}

/// The desired state of the NodeClaims of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that the nodes keep. Pods must tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Vec<Taint>,
    /// Taints that the nodes start with and that something else removes soon, such as a DaemonSet. Pods need not
    /// tolerate them for nodes to be launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Vec<Taint>,
    /// The requirements for the labels of every node, together with the template's labels. A key may occur repeatedly.
    #[schemars(schema_with = "common::node_pool_requirements")]
    pub requirements: Vec<Requirement>,
    /// The EC2NodeClass that specifies how instances are launched. Only its name can be changed.
    #[schemars(extend("x-kubernetes-validations" = rules(&[
        ("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
        ("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
    ])))]
    pub node_class_ref: NodeClassReference,
    /// How long a drain may take before the remaining pods are deleted, regardless of PodDisruptionBudgets and do-not-disrupt
    /// annotations. Unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub termination_grace_period: Option<String>,
    /// The age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(regex(pattern = NILLABLE_DURATION))]
    pub expire_after: String,
}

/// Nodes live for thirty days when nothing else is specified.
pub(crate) fn default_expire_after() -> String {
    "720h".to_owned()
}

/// When and how many nodes may be disrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The nodes that consolidation may remove or replace. Ignored by static pools.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// The time without new or removed pods after which a node may be consolidated, or `Never`. Ignored by static pools.
    #[serde(default = "default_consolidate_after")]
    #[schemars(regex(pattern = NILLABLE_DURATION))]
    pub consolidate_after: String,
    /// The maximum numbers of nodes that are disrupted at once. Of several active budgets the strictest counts.
    #[serde(default = "default_budgets")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    #[schemars(extend("x-kubernetes-validations" = rules(&[
        ("'schedule' must be set with 'duration'", "self.all(x, has(x.schedule) == has(x.duration))"),
    ])))]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidation_policy: ConsolidationPolicy::default(),
            consolidate_after: default_consolidate_after(),
            budgets: default_budgets(),
        }
    }
}

fn default_consolidate_after() -> String {
    "0s".to_owned()
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget { reasons: None, nodes: default_budget_nodes(), schedule: None, duration: None }]
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

/// The nodes that consolidation considers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConsolidationPolicy {
    /// Only nodes on which nothing but DaemonSet pods and the like run.
    WhenEmpty,
    /// Every node whose pods fit elsewhere or on a cheaper node.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Like `WhenEmptyOrUnderutilized`, but only where the savings outweigh the disruption.
    Balanced,
}

/// A maximum number of nodes that are disrupted at once, and when it applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// The reasons for disruption that the budget limits; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// A number of nodes, or a percentage of the pool's nodes.
    #[serde(default = "default_budget_nodes")]
    #[schemars(regex(pattern = r"^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// When the budget begins to hold, as five cron fields in UTC or a name such as `@daily`. Always, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
    /// How long the budget is active from each start, in hours and minutes. Goes with `schedule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<String>,
}

/// Why a node is disrupted of our own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum DisruptionReason {
    /// The pods of the node fit elsewhere, or on a cheaper node.
    Underutilized,
    /// Nothing runs on it.
    Empty,
    /// The node no longer matches its NodePool or EC2NodeClass.
    Drifted,
    /// The node has been unhealthy for too long, and is repaired.
    Unhealthy,
}

/// The status of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// The total resources of the pool's nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::resource_list")]
    pub resources: ResourceList,
    /// The number of nodes in the pool.
    #[serde(default)]
    pub nodes: i64,
    /// The generation of the EC2NodeClass for which NodeRegistrationHealthy was last computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::conditions")]
    pub conditions: Vec<Condition>,
}
