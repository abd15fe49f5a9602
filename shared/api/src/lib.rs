//! Karpenter's custom resources as Rust types, their definitions, and slim types for the Kubernetes objects that we read.
//!
//! - [`NodePool`] and [`NodeClaim`] (`karpenter.sh/v1`) and [`EC2NodeClass`] (`karpenter.k8s.aws/v1`), with the limits,
//!   defaults and CEL rules of Karpenter 1.14, so that manifests written for it apply unchanged.
//! - [`NodeOverlay`] (`karpenter.sh/v1alpha1`), [`CapacityBuffer`] (`autoscaling.x-k8s.io/v1beta1`) and [`ProvisioningRequest`]
//!   (`autoscaling.x-k8s.io/v1`).
//! - [`pod_shapes`]: the pods that PodTemplates and workloads make; [`admission`]: what these get when they are made.
//! - [`pod_controllers`]: how many pods workloads are to have.
//! - [`mod@crds`]: the CustomResourceDefinitions; `infra/crds/` is generated from them.
//! - [`slim`]: Pods, Nodes and the like with only the fields that a decision needs.
//! - [`convert`]: from these objects to the plain values of `nodeless-model`, and NodeClaims back.
//! - [`default_spread`]: the topology spread constraints of kube-scheduler for pods that have none.
//! - [`deployment`]: what a surge reads of a Deployment, and its patches.
//! - [`managed`]: whose NodePools and NodeClaims are, decided where they are decoded.
//! - [`view`]: a cluster at one moment, decoded, as a plan reads it.
//! - [`hash`]: the hashes by which static drift is found.
//! - [`resources`]: groups, versions and names of the custom resources.
//!
//! # Decoding lists
//!
//! Fields with a closed set of values are enums, so one object with an unknown value fails to decode. A definition that
//! is newer than this program may store such an object, therefore never decode a list as a whole: ask for
//! `kube::Api<DeserializeGuard<NodePool>>` ([`DeserializeGuard`]), which gives each object either decoded or with the
//! error and its metadata, and leave out only the faulty one.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(clippy::duplicated_attributes, reason = "kube's derive repeats the names of attributes by design")]

pub mod admission;
pub mod convert;
pub mod crds;
mod custom;
pub mod daemon_sets;
pub mod default_spread;
pub mod deployment;
pub mod devices;
pub mod hash;
pub mod limit_ranges;
pub mod managed;
pub mod pod_controllers;
pub mod pod_shapes;
pub mod resources;
pub mod slim;
#[cfg(feature = "test-support")]
pub mod test_support;
pub mod view;

pub use custom::{capacitybuffer, common, nodeclaim, nodeclass, nodeoverlay, nodepool, provisioningrequest};

pub use convert::ConvertError;
pub use crds::{crd, crds};
pub use custom::capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use custom::common::{
    Condition, ConditionStatus, NodeClassReference, Operator, Quantity, Requirement, ResourceList, Taint, TaintEffect,
};
pub use custom::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use custom::nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use custom::nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use custom::nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use custom::provisioningrequest::{ProvisioningRequest, ProvisioningRequestSpec, ProvisioningRequestStatus};
pub use kube::core::DeserializeGuard;
pub use nodeless_model::labels;
