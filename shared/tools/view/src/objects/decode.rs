//! Objects of the API server, reduced to the fields that are shown.

use crate::objects::claim::{ClaimFacts, Rest};
use crate::objects::cluster_settings::Namespace;
use crate::objects::event::{EventFacts, RawEvent};
use crate::objects::node_class::{NodeClassRow, RawNodeClass};
use crate::objects::pod::{Messages, PodFacts};
use crate::objects::pool::PoolFacts;
use nodeless_api::managed::Owned;
use nodeless_api::{NodePool, resources, slim};
use nodeless_model::object::MirroredClaim;
use nodeless_model::{ClusterOptions, Node, OtherNodeClaim, OtherNodePool, Pod, PodDisruptionBudget};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The kinds of objects that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownKind {
    /// Node.
    Node,
    /// Pod.
    Pod,
    /// NodePool.
    NodePool,
    /// NodeClaim.
    NodeClaim,
    /// EC2NodeClass.
    NodeClass,
    /// Event.
    Event,
    /// PodDisruptionBudget.
    PodDisruptionBudget,
    /// The Namespace `kube-system`, whose annotations are settings of the cluster.
    Namespace,
}

/// An object.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Node.
    Node(Box<Node>),
    /// A pod that has not ended.
    Pod(Arc<PodFacts>),
    /// A NodePool.
    NodePool(Box<PoolFacts>),
    /// A NodeClaim.
    NodeClaim(Box<ClaimFacts>),
    /// An EC2NodeClass.
    NodeClass(NodeClassRow),
    /// An Event.
    Event(Box<EventFacts>),
    /// A PodDisruptionBudget.
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// The options of a Namespace.
    Namespace(Box<ClusterOptions>),
    /// A NodePool or NodeClaim of another controller, which is not shown.
    OfOther,
}

/// Why an object cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl ShownKind {
    /// All kinds, in the order in which they are read.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::NodePool,
        Self::NodeClaim,
        Self::NodeClass,
        Self::Namespace,
        Self::PodDisruptionBudget,
        Self::Event,
        Self::Pod,
    ];

    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::NodePool => resources::NODE_POOLS.kind,
            Self::NodeClaim => resources::NODE_CLAIMS.kind,
            Self::NodeClass => resources::NODE_CLASSES.kind,
            Self::Event => "Event",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Namespace => "Namespace",
        }
    }

    /// The path of all its objects.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Node => "/api/v1/nodes",
            Self::Pod => "/api/v1/pods",
            Self::NodePool => resources::NODE_POOLS.path,
            Self::NodeClaim => resources::NODE_CLAIMS.path,
            Self::NodeClass => resources::NODE_CLASSES.path,
            Self::Event => "/api/v1/events",
            Self::PodDisruptionBudget => "/apis/policy/v1/poddisruptionbudgets",
            Self::Namespace => "/api/v1/namespaces",
        }
    }

    /// The field selector of the objects that are shown.
    #[must_use]
    pub const fn fields(self) -> Option<&'static str> {
        match self {
            Self::Pod => Some("status.phase!=Succeeded,status.phase!=Failed"),
            Self::Namespace => Some("metadata.name=kube-system"),
            _ => None,
        }
    }

    /// Whether nothing is shown without this kind. Without another kind, a part is missing.
    #[must_use]
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::Node | Self::Pod)
    }
}

pub(crate) fn json<'a, T: Deserialize<'a>>(object: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(object).map_err(|error| DecodeError(error.to_string()))
}

fn reduced<S, M>(object: &str) -> Result<M, DecodeError>
where
    S: DeserializeOwned,
    M: for<'s> TryFrom<&'s S, Error = nodeless_api::ConvertError>,
{
    Ok(M::try_from(&json::<S>(object)?)?)
}

impl From<nodeless_api::ConvertError> for DecodeError {
    fn from(error: nodeless_api::ConvertError) -> Self {
        Self(format!("{}: {}", error.field, error.problem))
    }
}

/// A pod as the API server sends it and as the scheduler uses it, and why it has no node.
pub(crate) fn pod(object: &str) -> Result<(slim::Pod, Pod, Option<String>), DecodeError> {
    let slim: slim::Pod = json(object)?;
    let pod = Pod::try_from(&slim)?;
    let unscheduled = if pod.node_name.is_none() { json::<Messages>(object)?.unscheduled() } else { None };
    Ok((slim, pod, unscheduled))
}

impl Object {
    /// Decodes an object of the API server, JSON.
    ///
    /// # Errors
    /// When it is not an object of this kind; the text contains the field.
    pub fn decode(kind: ShownKind, object: &str) -> Result<Self, DecodeError> {
        Ok(match kind {
            ShownKind::Node => Self::Node(Box::new(reduced::<slim::Node, _>(object)?)),
            ShownKind::Pod => {
                let (_, pod, unscheduled) = pod(object)?;
                Self::Pod(Arc::new(PodFacts::new(pod, unscheduled)))
            }
            ShownKind::NodePool => {
                let Some(pool) = json::<Owned<NodePool, OtherNodePool>>(object)?.managed() else {
                    return Ok(Self::OfOther);
                };
                let status = pool.status.clone().unwrap_or_default();
                Self::NodePool(Box::new(PoolFacts { pool: (&pool).into(), status }))
            }
            ShownKind::NodeClaim => {
                let Some(claim) = json::<Owned<slim::NodeClaim, OtherNodeClaim>>(object)?.managed() else {
                    return Ok(Self::OfOther);
                };
                let claim = MirroredClaim::try_from(&claim)?;
                Self::NodeClaim(Box::new(ClaimFacts::new(claim, json::<Rest>(object)?)))
            }
            ShownKind::NodeClass => Self::NodeClass(json::<RawNodeClass>(object)?.into()),
            ShownKind::Event => Self::Event(Box::new(json::<RawEvent>(object)?.into())),
            ShownKind::PodDisruptionBudget => {
                Self::PodDisruptionBudget(Box::new(reduced::<slim::PodDisruptionBudget, _>(object)?))
            }
            ShownKind::Namespace => Self::Namespace(Box::new(json::<Namespace>(object)?.options())),
        })
    }
}
