//! The plain values that every crate shares: quantities, requirements, taints, pods, nodes, instance types, claims.
//!
//! This crate is pure: it uses no clock, no network and no Kubernetes or AWS client, and defines the types that these exchange.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod buffer;
pub mod certificate_authorities;
pub mod claim;
pub mod cluster_limits;
pub mod cron;
pub mod duration;
pub mod ended;
pub mod error;
pub mod events;
pub mod hashed;
pub mod instance;
pub mod instance_type;
pub mod invalid;
pub mod label_query;
pub mod labels;
pub mod launch_check;
pub mod listed_commitments;
pub mod managed;
pub mod money;
pub mod node;
pub mod node_pool;
pub mod object;
mod option_faults;
pub mod options;
pub mod other_controllers;
pub mod overlay;
pub mod ownership;
pub mod plural;
pub mod pod;
mod pod_origin;
mod pod_ref;
pub mod printable;
pub mod provisioning_request;
pub mod quantity;
pub mod quota;
pub mod quotes;
pub mod requirement;
pub mod resource_index;
pub mod resources;
pub mod root_volume;
pub mod selector;
pub mod setting;
pub mod shared_templates;
pub mod shell;
pub mod shortage;
pub mod spelling;
pub mod spot_interruption;
pub mod surge;
pub mod taint;
pub mod templating;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod virtual_pod;
pub mod wake_ups;
pub mod warm;
pub mod workload;
mod workload_name;

pub use buffer::{BufferError, BufferSource, CapacityBuffer, PodShape};
pub use claim::{CapacityType, Condition, ConditionStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase};
pub use cluster_limits::ClusterLimits;
pub use duration::{NillableDuration, ParseDurationError};
pub use ended::EndedNode;
pub use error::{ErrorKind, PortError};
pub use instance::{Instance, InstanceState};
pub use instance_type::{
    EBS_DRIVER, InstanceType, InstanceTypes, Offering, Overhead, Reservation, ReservedInstances, Reuse,
};
pub use invalid::{InvalidAnnotation, Unusable};
pub use managed::ClassKind;
pub use money::{Dollars, DollarsPerHour};
pub use node::Node;
pub use node_pool::{Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodePool, NodeTemplate};
pub use option_faults::{OptionFault, OptionHolder};
pub use options::{ClusterOptions, NodePoolOptions, OnDemandMinimum, Pause, TerminateFirst, Windows};
pub use other_controllers::{OtherNodeClaim, OtherNodePool};
pub use overlay::{NodeOverlay, PriceChange};
pub use ownership::{OtherTable, check_owner};
pub use pod::{Pod, PodTemplate};
pub use pod_origin::PodOrigin;
pub use provisioning_request::{ProvisioningRequest, RequestError};
pub use quantity::{ParseQuantityError, Quantity};
pub use quota::{QuotaBalance, ResourceQuota};
pub use requirement::{Operator, Requirement, RequirementError, Requirements, SharedLabels};
pub use resource_index::ResourceIndex;
pub use resources::ResourceList;
pub use root_volume::{RootVolume, RootVolumeSize, RootVolumes};
pub use selector::LabelSelector;
pub use setting::Setting;
pub use shared_templates::{ByTemplate, SharedTemplates};
pub use taint::{Taint, TaintEffect, Toleration};
pub use templating::Template;
pub use warm::Warm;
pub use workload::{DaemonSet, DaemonSetName, PodDisruptionBudget, RefusingQuota};
pub use workload_name::Workload;

/// Labels or annotations: sorted, so that everything that is printed or stored from them is deterministic.
pub type StringMap = std::collections::BTreeMap<String, String>;
