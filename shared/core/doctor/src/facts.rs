//! Facts about a cluster.

use crate::quota::Quota;
use jiff::Timestamp;
use nodeless_api::view::ClusterView;
use nodeless_model::OptionFault;
use std::collections::BTreeSet;

/// A fact, or why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// The fact was read.
    Done(T),
    /// The fact was not read, for this reason.
    Not(String),
}

/// Facts about a cluster.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time of the check.
    pub now: Timestamp,
    /// The cluster.
    pub view: ClusterView,
    /// The kinds of objects that could not be read, and why.
    pub unread: Vec<(String, String)>,
    /// The CustomResourceDefinitions of nodeless, as the installation would treat them.
    pub definitions: Read<Vec<Definition>>,
    /// Objects of Karpenter's earlier APIs.
    pub earlier: Read<Vec<EarlierObjects>>,
    /// Deployments that run Karpenter.
    pub karpenter: Read<Vec<Workload>>,
    /// When Karpenter's leader last renewed its lease.
    pub lease: Read<Option<Timestamp>>,
    /// Whether an Event of the last ten minutes states that a deployment runs which does not serve the cluster.
    pub other_deployment: Read<bool>,
    /// What the planner reports.
    pub planned: Read<Planned>,
    /// What EKS reports about access to the cluster.
    pub access: Read<Access>,
    /// Quotas of EC2.
    pub quotas: Read<Vec<Quota>>,
    /// Deployments whose pods ask for a successor before their node is drained.
    pub surges: Read<Vec<Surging>>,
    /// What is wrong with other annotations of Deployments, apart from their pod templates.
    pub deployment_options: Vec<OptionFault>,
    /// Whether the VPC CNI assigns prefixes instead of single addresses; `None` if its DaemonSet does not exist or does not state it.
    pub prefix_delegation: Read<Option<bool>>,
}

impl Facts {
    /// No facts, for this reason.
    #[must_use]
    pub fn unread(now: Timestamp, why: &str) -> Self {
        Self {
            now,
            view: ClusterView::default(),
            unread: Vec::new(),
            definitions: Read::Not(why.to_owned()),
            earlier: Read::Not(why.to_owned()),
            karpenter: Read::Not(why.to_owned()),
            lease: Read::Not(why.to_owned()),
            other_deployment: Read::Not(why.to_owned()),
            planned: Read::Not(why.to_owned()),
            access: Read::Not(why.to_owned()),
            quotas: Read::Not(why.to_owned()),
            surges: Read::Not(why.to_owned()),
            deployment_options: Vec::new(),
            prefix_delegation: Read::Not(why.to_owned()),
        }
    }
}

/// A CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// Whether nodeless works without it.
    pub optional: bool,
    /// How the installation would treat the definition.
    pub state: DefinitionState,
}

/// How the installation would treat a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionState {
    /// The definition would be installed.
    Missing,
    /// The definition cannot be used, for this reason.
    Refused(String),
    /// The definition is used, with a note about its manager or its fields.
    Noted(String),
    /// The definition is used.
    Fine,
}

/// Objects of an API that v1 replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierObjects {
    /// The kind.
    pub kind: String,
    /// The number of objects.
    pub count: usize,
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The desired number of replicas.
    pub replicas: i64,
    /// The number of pods that exist.
    pub running: i64,
}

/// What the planner reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// For each NodePool, the outcome for a small pod that only this NodePool can serve.
    pub probes: Vec<Placed>,
    /// Pending pods.
    pub pending: Vec<Placed>,
    /// What DaemonSets take of nodes that run or would be launched, each with its name, `namespace/name`.
    pub daemon_sets: BTreeSet<(String, String)>,
}

/// The outcome of planning for a pod, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The NodePool of a probe, or the pod as `namespace/name`.
    pub name: String,
    /// The outcome.
    pub outcome: ProbeOutcome,
}

/// The outcome of planning for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The pod can be placed.
    Placed,
    /// The pod cannot be placed.
    Unschedulable {
        /// Why not.
        reasons: Vec<String>,
        /// Changes that would help.
        remedies: Vec<String>,
    },
}

/// Access to a cluster, as EKS has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The cluster's name.
    pub cluster: String,
    /// The authentication mode: `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`.
    pub mode: String,
    /// The access entries.
    pub entries: Vec<AccessEntry>,
}

/// An access entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// The ARN of the principal.
    pub principal: String,
    /// The type: `EC2_LINUX`, `EC2_WINDOWS`, `STANDARD`, `EC2` (for nodes of EKS Auto Mode) and others.
    pub kind: String,
}

/// A Deployment with the annotation `nodeless.sh/surge-before-drain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surging {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The value of the annotation.
    pub value: String,
    /// Whether the pod template has the annotation, and not only the Deployment, where it has no effect.
    pub in_template: bool,
    /// The rights that the value needs and lifecycle lacks in the namespace, such as `patch deployments`.
    pub denied: Vec<String>,
}
