//! NodeOverlay: what is to be assumed of instance types beyond what EC2 reports.

use crate::custom::common::{self, Condition, Requirement, ResourceList};
use crate::custom::rules::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The changes to matching instance types: another price, further resources.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    singular = "nodeoverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodeOverlay changes prices and adds extended resources of the instance types that it matches.",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("cannot set both 'price' and 'priceAdjustment'", "!has(self.price) || !has(self.priceAdjustment)"),
])))]
pub struct NodeOverlaySpec {
    /// The requirements that select instance types and offerings, by the labels of their nodes: those that Karpenter knows, and
    /// those of the NodePool's template.
    #[schemars(schema_with = "common::node_overlay_requirements")]
    pub requirements: Vec<Requirement>,
    /// The amount added to the price: dollars per hour or a percentage, with a sign, such as `-0.05` or `+10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"))]
    pub price_adjustment: Option<String>,
    /// The price in dollars per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Extended resources that the nodes have beyond what EC2 reports.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "rules::overlay_capacity")]
    pub capacity: ResourceList,
    /// Overlays of a higher weight go before others. One without weight has weight 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// The status of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// ValidationSucceeded and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::conditions")]
    pub conditions: Vec<Condition>,
}
