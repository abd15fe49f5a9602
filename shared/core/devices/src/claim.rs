//! DeviceClasses, and what ResourceClaims request.

use crate::slices::taint::DeviceToleration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The driver of network devices.
pub(crate) const DRANET: &str = "dra.net";

/// A DeviceClass: selectors under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClass {
    /// The name.
    pub name: String,
    /// All of them must select a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// The extended resource whose requests get devices of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<String>,
}

/// A ResourceClaim, or the claim that a ResourceClaimTemplate makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaim {
    /// The name.
    pub name: String,
    /// `spec.devices`.
    pub devices: DeviceRequests,
}

/// The devices of a claim, in the form of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequests {
    /// The requests, all of which must be allocated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<DeviceRequest>,
    /// Constraints for the devices of several requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ClaimConstraint>,
}

/// A request: `exactly`, or the first of several alternatives.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequest {
    /// The name.
    pub name: String,
    /// What is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactRequest>,
    /// Alternatives, the most preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<SubRequest>,
}

/// Devices of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExactRequest {
    /// The name of the DeviceClass.
    #[serde(default)]
    pub device_class_name: String,
    /// Further selectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// Whether a number of devices is requested, or all.
    #[serde(default)]
    pub allocation_mode: AllocationMode,
    /// The number of devices; one if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Whether devices that are in use are requested, for monitoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Tolerations of the devices' taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<DeviceToleration>,
    /// A part of a device's capacity, which is not supported: only whether it is given is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<IsGiven>,
}

/// An alternative of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubRequest {
    /// The name.
    pub name: String,
    /// What is requested; alternatives have no `adminAccess`.
    #[serde(flatten)]
    pub request: ExactRequest,
}

/// A selector of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceSelector {
    /// The expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelSelector>,
}

/// An expression of CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CelSelector {
    /// The expression.
    pub expression: String,
}

/// How many devices a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AllocationMode {
    /// `count` devices.
    #[default]
    ExactCount,
    /// All devices that are selected, and at least one.
    All,
    /// A mode of a later version of Kubernetes.
    #[serde(untagged)]
    Other(String),
}

/// A constraint for the devices of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimConstraint {
    /// The names of requests, or `request/alternative`; empty means all requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// The attribute that has the same value on all devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_attribute: Option<String>,
    /// The attribute that has a different value on each device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_attribute: Option<String>,
}

/// A field of which only the presence is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IsGiven;

impl Serialize for IsGiven {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for IsGiven {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl DeviceRequests {
    /// The same requests with their indices as names: requests that get the same devices are then equal. What constraints name otherwise
    /// is for no request.
    #[must_use]
    pub fn with_indices_as_names(mut self) -> Self {
        let mut indices: BTreeMap<String, String> = BTreeMap::new();
        for (index, request) in self.requests.iter_mut().enumerate() {
            let name = std::mem::replace(&mut request.name, index.to_string());
            for (place, alternative) in request.first_available.iter_mut().enumerate() {
                let of_request = std::mem::replace(&mut alternative.name, place.to_string());
                indices.insert(format!("{name}/{of_request}"), format!("{index}/{place}"));
            }
            indices.insert(name, index.to_string());
        }
        for name in self.constraints.iter_mut().flat_map(|constraint| &mut constraint.requests) {
            *name = indices.get(name).cloned().unwrap_or_default();
        }
        self
    }
}

impl ResourceClaim {
    /// The expressions by which the claim, and the classes that it requests, select devices.
    pub fn expressions<'a>(&'a self, classes: &'a BTreeMap<String, DeviceClass>) -> impl Iterator<Item = &'a str> {
        let requests = self.devices.requests.iter().flat_map(DeviceRequest::alternatives);
        let selectors = requests.flat_map(|request| {
            let class = classes.get(&request.device_class_name);
            request.selectors.iter().chain(class.into_iter().flat_map(|class| &class.selectors))
        });
        selectors.filter_map(|selector| Some(selector.cel.as_ref()?.expression.as_str()))
    }

    /// Whether an expression names the driver of network devices.
    #[must_use]
    pub fn names_network(&self, classes: &BTreeMap<String, DeviceClass>) -> bool {
        self.expressions(classes).any(|expression| expression.contains(DRANET))
    }
}

impl DeviceRequest {
    /// What is requested: one thing, or the alternatives.
    pub fn alternatives(&self) -> impl Iterator<Item = &ExactRequest> {
        self.exactly.iter().chain(self.first_available.iter().map(|alternative| &alternative.request))
    }
}

impl DeviceSelector {
    /// A selector with an expression.
    #[must_use]
    pub fn cel(expression: &str) -> Self {
        Self { cel: Some(CelSelector { expression: expression.to_owned() }) }
    }
}
