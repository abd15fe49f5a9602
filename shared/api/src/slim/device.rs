//! Devices, and claims for them (Dynamic Resource Allocation).

use super::meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_devices::{ClaimAllocation, DeviceRequests, DeviceSelector, SliceSpec};
use serde::Deserialize;

/// What a driver publishes about devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ResourceSlice {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What it publishes.
    pub spec: SliceSpec,
}

/// A class of devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: DeviceClassSpec,
}

/// The spec of a class of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceClassSpec {
    /// The selectors.
    pub selectors: Vec<DeviceSelector>,
    /// The extended resource whose requests get devices of the class.
    #[serde(rename = "extendedResourceName")]
    pub extended_resource_name: Option<String>,
}

/// A claim for devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What it requests.
    pub spec: ResourceClaimSpec,
    /// What it has.
    pub status: ResourceClaimStatus,
}

/// What a claim requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceClaimSpec {
    /// The devices.
    pub devices: DeviceRequests,
}

/// What a claim has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceClaimStatus {
    /// The devices, once they are allocated.
    pub allocation: Option<ClaimAllocation>,
}

/// A template of claims.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplate {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: ResourceClaimTemplateSpec,
}

/// The spec of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplateSpec {
    /// The spec of the claims.
    pub spec: ResourceClaimSpec,
}
