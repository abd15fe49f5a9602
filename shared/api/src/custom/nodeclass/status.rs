//! The status of an EC2NodeClass.

use super::selectors::InstanceMatchCriteria;
use crate::custom::common::Condition;
use crate::custom::rules;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// The subnets that are selected, those with the most free addresses first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// The security groups that are selected, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// The capacity reservations that are selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// The images that are selected, with the nodes that each is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// The instance profile in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// The hash of the fields of the spec that this status was resolved from: the selectors, the AMI family, and the role or
    /// instance profile. While it is that of a later spec, the status holds for launches from that spec, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_hash: Option<String>,
    /// AMIsReady, SubnetsReady, SecurityGroupsReady and the like, and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::conditions")]
    pub conditions: Vec<Condition>,
}

/// A subnet that is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// The subnet's id.
    pub id: String,
    /// The zone, as this account names it.
    pub zone: String,
    /// The id of its zone, the same in every account.
    #[serde(rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group that is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroup {
    /// The group's id.
    pub id: String,
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image that is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ami {
    /// The image's id.
    pub id: String,
    /// Whether AWS or the owner deprecated the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// The image's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The requirements for nodes that use the image.
    pub requirements: Vec<AmiRequirement>,
}

/// A requirement on the nodes that an image is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AmiRequirement {
    /// The label's key.
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// The values, as the operator needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// The type of a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ReservationType {
    /// On-demand capacity reservation.
    #[default]
    Default,
    /// Capacity block, which ends at a fixed time.
    CapacityBlock,
}

/// The state of a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ReservationState {
    /// Usable.
    #[default]
    Active,
    /// EC2 takes its instances back soon. Only capacity blocks come to this.
    Expiring,
}

/// A capacity reservation that is selected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// The reservation's id.
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// The zone of its instances.
    pub availability_zone: String,
    /// When it ends, if it does by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// The launches that the reservation accepts.
    pub instance_match_criteria: InstanceMatchCriteria,
    /// The type of its instances.
    pub instance_type: String,
    /// Whether the owner can take the capacity back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// The account that owns it.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// Whether the reservation is an ordinary one or a capacity block for machine learning.
    #[serde(default)]
    pub reservation_type: ReservationType,
    /// Whether the reservation is about to end.
    #[serde(default)]
    pub state: ReservationState,
}
