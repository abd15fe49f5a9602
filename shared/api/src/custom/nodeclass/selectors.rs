//! The selectors of an EC2NodeClass: subnets, security groups, capacity reservations and images.

use crate::custom::rules::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tags to select by. The value `*` asks only that the key exists.
pub type SelectorTags = BTreeMap<String, String>;

/// Selects subnets, by tags or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubnetSelectorTerm {
    /// All of these tags are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector_tags")]
    pub tags: Option<SelectorTags>,
    /// The subnet's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

/// Selects security groups, by tags, id or name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupSelectorTerm {
    /// All of these tags are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector_tags")]
    pub tags: Option<SelectorTags>,
    /// The group's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The group's name in EC2, which is not its tag `Name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The launches that a capacity reservation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum InstanceMatchCriteria {
    /// Every launch that matches its type and zone.
    Open,
    /// Only launches that name the reservation.
    Targeted,
}

impl InstanceMatchCriteria {
    /// The value in the APIs of Kubernetes and EC2.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Targeted => "targeted",
        }
    }
}

/// Selects capacity reservations, by tags, id, owner or match criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// All of these tags are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector_tags")]
    pub tags: Option<SelectorTags>,
    /// The reservation's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// The account that owns the reservation.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// The launches that the reservation accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
}

/// Selects images, by alias, tags, id, name and owner, or SSM parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// An image that AWS publishes for EKS, as `family@version`: `al2023@latest`, `bottlerocket@v1.20.3`. With `latest`
    /// nodes are replaced whenever AWS publishes an image. For Windows only `latest` exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = alias_rules()))]
    pub alias: Option<String>,
    /// All of these tags are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector_tags")]
    pub tags: Option<SelectorTags>,
    /// The image's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The image's name in EC2, which is not its tag `Name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who owns the image: an account, `self`, `amazon` or `aws-marketplace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The name or ARN of the SSM parameter that holds the image's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}

fn alias_rules() -> Value {
    rules(&[
        (
            "'alias' is improperly formatted, must match the format 'family@version'",
            "self.matches('^[a-zA-Z0-9]+@.+$')",
        ),
        (
            "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', \
             'windows2022', 'windows2025'",
            "self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']",
        ),
        (
            "windows families may only specify version 'latest'",
            "self.split('@')[0] in ['windows2019','windows2022','windows2025'] ? self.split('@')[1] == 'latest' : true",
        ),
    ])
}

pub(super) fn ami_rules() -> Value {
    rules(&[
        (
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        ),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
        ),
    ])
}

/// The family of operating system images, which decides the user data, the default disks and what the kubelet accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    AL2,
    /// Amazon Linux 2023.
    AL2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Anything: user data is taken as it is.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// The families that an alias can name.
    pub const WITH_ALIAS: [Self; 6] =
        [Self::AL2, Self::AL2023, Self::Bottlerocket, Self::Windows2019, Self::Windows2022, Self::Windows2025];

    /// The name as manifests have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AL2 => "AL2",
            Self::AL2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// The family that the first part of an alias names.
    #[must_use]
    pub fn from_alias(family: &str) -> Option<Self> {
        Self::WITH_ALIAS.into_iter().find(|candidate| candidate.name().eq_ignore_ascii_case(family))
    }
}
