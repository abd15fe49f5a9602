//! The plain values that every crate shares: quantities, requirements, taints, pods, nodes, instance types, claims.
//!
//! This crate is pure: it uses no clock, no network and no Kubernetes or AWS client, and defines the types that these exchange.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod amounts;
pub mod error;
pub mod events;
pub mod expected;
pub mod hashed;
pub mod invalid;
pub mod labels;
pub mod node_pool;
mod nodes;
pub mod object;
mod option_faults;
pub mod options;
pub mod overlay;
pub mod ownership;
mod pods;
pub mod requirement;
pub mod setting;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
mod text;
pub mod wake_ups;

pub use amounts::{
    cluster_limits, cron, duration, listed_commitments, money, quantity, resource_index, resources, root_volume,
};
pub use nodes::{
    certificate_authorities, claim, ended, instance, instance_type, launch_check, managed, node, other_controllers,
    shortage, spot_interruption,
};
pub use pods::{
    buffer, label_query, pod, provisioning_request, quota, selector, shared_templates, surge, taint, virtual_pod,
    workload,
};
pub use text::{plural, printable, quotes, shell, spelling, templating};

pub use amounts::cluster_limits::ClusterLimits;
pub use amounts::duration::{NillableDuration, ParseDurationError};
pub use amounts::money::{Dollars, DollarsPerHour};
pub use amounts::quantity::{ParseQuantityError, Quantity};
pub use amounts::resource_index::ResourceIndex;
pub use amounts::resources::ResourceList;
pub use amounts::root_volume::{RootVolume, RootVolumeSize, RootVolumes};
pub use error::{ErrorKind, PortError};
pub use expected::{Desired, ExpectedPod, ExpectedPods, PodController};
pub use invalid::{InvalidAnnotation, Unusable};
pub use node_pool::{Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodePool, NodeTemplate};
pub use nodes::claim::{CapacityType, Condition, ConditionStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase};
pub use nodes::ended::EndedNode;
pub use nodes::instance::{Instance, InstanceState};
pub use nodes::instance_type::{
    EBS_DRIVER, InstanceType, InstanceTypes, Offering, Overhead, Reservation, ReservedInstances, Reuse,
};
pub use nodes::managed::ClassKind;
pub use nodes::node::Node;
pub use nodes::other_controllers::{OtherNodeClaim, OtherNodePool};
pub use option_faults::{OptionFault, OptionHolder};
pub use options::{ClusterOptions, NodePoolOptions, OnDemandMinimum, Pause, TerminateFirst, Windows};
pub use overlay::{NodeOverlay, PriceChange};
pub use ownership::{OtherTable, check_owner};
pub use pods::buffer::{BufferError, BufferSource, CapacityBuffer, PodShape};
pub use pods::pod::{Pod, PodTemplate};
pub use pods::pod_origin::PodOrigin;
pub use pods::provisioning_request::{ProvisioningRequest, RequestError};
pub use pods::quota::{QuotaBalance, ResourceQuota};
pub use pods::selector::LabelSelector;
pub use pods::shared_templates::{ByTemplate, SharedTemplates};
pub use pods::taint::{Taint, TaintEffect, Toleration};
pub use pods::workload::{DaemonSet, DaemonSetName, PodDisruptionBudget, RefusingQuota};
pub use pods::workload_name::{POD_TEMPLATE_HASH, Workload};
pub use requirement::{Operator, Requirement, RequirementError, Requirements, SharedLabels};
pub use setting::Setting;
pub use text::templating::Template;

/// Labels or annotations: sorted, so that everything that is printed or stored from them is deterministic.
pub type StringMap = std::collections::BTreeMap<String, String>;
