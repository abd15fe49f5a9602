//! Converts manifests of Karpenter's earlier APIs to v1: v1alpha5 Provisioner, v1alpha1 AWSNodeTemplate, v1beta1 NodePool and
//! v1beta1 EC2NodeClass.
//!
//! The rules are those of upstream: the tool karpenter-convert of Karpenter 0.32 for the alpha APIs, and the conversion webhooks of
//! Karpenter 1.0 for v1beta1, with the defaults that the API server set in objects before. `docs/convert.md` lists them, and the
//! few places where v1 can express what upstream's conversion loses.
//!
//! [`convert`] takes all files of a conversion together, because the kubelet's settings move from a NodePool to its EC2NodeClass.
//! Documents that need no conversion keep their text. Others are written anew, with their comments. The crate is pure: no I/O, no
//! clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod documents;
mod duration;
mod kubelet;
mod metadata;
mod node_class;
mod node_pool;
mod node_template;
mod object;
mod provisioner;
mod report;
mod selectors;
mod stream;
mod workload;
mod yaml;

pub use documents::convert;
pub use report::{Effect, Note, Problem};

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The name, for messages.
    pub name: String,
    /// The content.
    pub text: String,
}

/// The IAM identity of nodes, which objects of v1alpha1 may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The name of an IAM role.
    Role(String),
    /// The name of an IAM instance profile.
    InstanceProfile(String),
}

/// How objects are converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The identity of nodes of a v1alpha1 AWSNodeTemplate without `instanceProfile`.
    pub identity: Option<Identity>,
    /// Whether the requirements that v1alpha5 added by default are left out.
    pub ignore_defaults: bool,
}

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversion {
    /// The number of Kubernetes objects in the input.
    pub read: usize,
    /// The files, in the order of the input.
    pub files: Vec<SourceFile>,
    /// The NodePools and EC2NodeClasses that were converted.
    pub objects: Vec<Converted>,
    /// The notes on fields.
    pub notes: Vec<Note>,
    /// The errors. The result may be used only if there are none.
    pub problems: Vec<Problem>,
}

/// An object after the conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The file.
    pub source: String,
    /// Kind and name before the conversion.
    pub from: String,
    /// The kind: `NodePool` or `EC2NodeClass`.
    pub kind: &'static str,
    /// The v1 object.
    pub value: serde_json::Value,
}
