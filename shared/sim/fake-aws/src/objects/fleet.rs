//! A fleet, and the answer to the call that creates it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::requests::{FleetOverride, LaunchTemplateSpecification};

/// A fleet that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// `fleet-…`
    pub id: String,
    /// Creation time.
    pub created: Timestamp,
    /// The instances that it launched.
    pub instance_ids: Vec<String>,
}

/// The template and override of a line of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchTemplateAndOverrides {
    /// The template, by id, with the version's number.
    pub launch_template_specification: LaunchTemplateSpecification,
    /// The override, with its one subnet and zone.
    pub overrides: FleetOverride,
}

/// Instances of one offering.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FleetInstances {
    /// The template and override.
    pub launch_template_and_overrides: LaunchTemplateAndOverrides,
    /// `on-demand` or `spot`.
    pub lifecycle: String,
    /// The instances.
    pub instance_ids: Vec<String>,
    /// The type of the instances.
    pub instance_type: String,
    /// `windows` or nothing.
    pub platform: Option<String>,
}

/// Why an offering provided no instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FleetError {
    /// The template and override.
    pub launch_template_and_overrides: LaunchTemplateAndOverrides,
    /// `on-demand` or `spot`.
    pub lifecycle: String,
    /// EC2's code.
    pub error_code: String,
    /// EC2's message.
    pub error_message: String,
}

/// The answer to CreateFleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateFleetAnswer {
    /// `fleet-…`
    pub fleet_id: String,
    /// The errors, if the target capacity was not reached.
    pub errors: Vec<FleetError>,
    /// The launched instances.
    pub instances: Vec<FleetInstances>,
}

impl CreateFleetAnswer {
    /// All instance ids of the answer.
    pub fn instance_ids(&self) -> Vec<String> {
        self.instances.iter().flat_map(|group| group.instance_ids.clone()).collect()
    }
}
