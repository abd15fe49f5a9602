//! The objects of a cluster, as a watch reports them.

use crate::objects::amount::Amount;
use crate::objects::claim::ClaimFacts;
use crate::objects::decode::{DecodeError, Object, ShownKind};
use crate::objects::event::EventFacts;
use crate::objects::node_class::NodeClassRow;
use crate::objects::pod::PodFacts;
use crate::objects::pool::PoolFacts;
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::Location;
use nodeless_model::{ClusterOptions, Node, PodDisruptionBudget};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Times of clients may be ahead of the API server's clock by this much.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// The namespace and name of an object.
type Key = (String, String);

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub(crate) nodes: BTreeMap<Key, Node>,
    pub(crate) pods: BTreeMap<Key, Arc<PodFacts>>,
    pub(crate) pools: BTreeMap<Key, PoolFacts>,
    pub(crate) claims: BTreeMap<Key, ClaimFacts>,
    pub(crate) classes: BTreeMap<Key, NodeClassRow>,
    pub(crate) events: BTreeMap<Key, EventFacts>,
    pub(crate) budgets: BTreeMap<Key, PodDisruptionBudget>,
    /// The options of Namespaces.
    pub(crate) namespaces: BTreeMap<Key, Box<ClusterOptions>>,
    /// By the name of the node; `None` while metrics.k8s.io does not answer.
    pub(crate) usage: Option<BTreeMap<String, Amount>>,
    /// The objects that cannot be decoded, and why.
    pub(crate) invalid: BTreeMap<(ShownKind, Key), String>,
    /// The kinds that cannot be read, and why.
    pub(crate) missing: BTreeMap<ShownKind, String>,
    /// The latest time at which the API server created an object.
    created: Option<Timestamp>,
}

/// What a watch fills: objects by kind, reduced to some of their fields.
pub trait Store: 'static {
    /// An object.
    type Object: std::fmt::Debug + Send + 'static;

    /// Decodes an object of the API server, JSON.
    ///
    /// # Errors
    /// When it is not an object of this kind; the text contains the field.
    fn decode(kind: ShownKind, object: &str) -> Result<Self::Object, DecodeError>;

    /// Applies a change.
    fn apply(&mut self, update: Update<Self::Object>);
}

impl Store for Cluster {
    type Object = Object;

    fn decode(kind: ShownKind, object: &str) -> Result<Object, DecodeError> {
        Object::decode(kind, object)
    }

    fn apply(&mut self, update: Update) {
        Self::apply(self, update);
    }
}

/// A change of a cluster.
#[derive(Debug)]
pub enum Update<O = Object> {
    /// All objects of a kind were listed: others do not exist.
    Listed {
        /// The kind.
        kind: ShownKind,
        /// The objects, by namespace and name.
        objects: Vec<(String, String, Result<O, DecodeError>)>,
    },
    /// An object was created or changed.
    Present {
        /// The kind.
        kind: ShownKind,
        /// The namespace; empty if the object has none.
        namespace: String,
        /// The name.
        name: String,
        /// The object.
        object: Result<O, DecodeError>,
    },
    /// An object was deleted.
    Absent {
        /// The kind.
        kind: ShownKind,
        /// The namespace; empty if the object has none.
        namespace: String,
        /// The name.
        name: String,
    },
    /// A kind cannot be read.
    Missing {
        /// The kind.
        kind: ShownKind,
        /// Why.
        why: String,
    },
    /// The use of each node that metrics.k8s.io reports; `None` if it does not answer.
    Usage(Option<BTreeMap<String, Amount>>),
}

impl<O> Update<O> {
    /// The kind of the objects that the API server answered with; `None` if it did not.
    #[must_use]
    pub const fn kind(&self) -> Option<ShownKind> {
        match self {
            Self::Listed { kind, .. } | Self::Present { kind, .. } | Self::Absent { kind, .. } => Some(*kind),
            Self::Missing { .. } | Self::Usage(_) => None,
        }
    }
}

impl Cluster {
    /// Applies a change.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Listed { kind, objects } => {
                self.clear(kind);
                self.missing.remove(&kind);
                for (namespace, name, object) in objects {
                    self.put(kind, (namespace, name), object);
                }
            }
            Update::Present { kind, namespace, name, object } => self.put(kind, (namespace, name), object),
            Update::Absent { kind, namespace, name } => self.remove(kind, &(namespace, name)),
            Update::Missing { kind, why } => {
                self.clear(kind);
                self.missing.insert(kind, why);
            }
            Update::Usage(usage) => self.usage = usage,
        }
    }

    /// The region and zones that the nodes name.
    #[must_use]
    pub fn location(&self) -> Location {
        let mut location = Location::default();
        self.nodes.values().for_each(|node| location.add_node(&node.labels));
        location
    }

    /// The time of the cluster, from which ages are computed: that of this machine's clock, or of the API server's if that is ahead.
    ///
    /// The API server sets when an object was created. All other times are set by clients, and one of them with a wrong clock must not
    /// change the ages of everything else, so these count only up to a minute later.
    #[must_use]
    pub fn now(&self, system: Timestamp) -> Timestamp {
        let server = self.created.map_or(system, |created| created.max(system));
        let latest = server.saturating_add(AHEAD).unwrap_or(server);
        let nodes = self.nodes.values().flat_map(|node| node.conditions.iter().filter_map(|it| it.since));
        let claims = self.claims.values().flat_map(|claim| claim.conditions.iter());
        let claims = claims.filter_map(|it| it.last_transition_time);
        let pools = self.pools.values().filter_map(PoolFacts::latest);
        let events = self.events.values().filter_map(|event| event.row.time);
        let of_clients = nodes.chain(claims).chain(pools).chain(events);
        of_clients.filter(|time| *time <= latest).fold(server, Timestamp::max)
    }

    fn clear(&mut self, kind: ShownKind) {
        match kind {
            ShownKind::Node => self.nodes.clear(),
            ShownKind::Pod => self.pods.clear(),
            ShownKind::NodePool => self.pools.clear(),
            ShownKind::NodeClaim => self.claims.clear(),
            ShownKind::NodeClass => self.classes.clear(),
            ShownKind::Event => self.events.clear(),
            ShownKind::PodDisruptionBudget => self.budgets.clear(),
            ShownKind::Namespace => self.namespaces.clear(),
        }
        self.invalid.retain(|(of, _), _| *of != kind);
    }

    fn remove(&mut self, kind: ShownKind, key: &Key) {
        match kind {
            ShownKind::Node => drop(self.nodes.remove(key)),
            ShownKind::Pod => drop(self.pods.remove(key)),
            ShownKind::NodePool => drop(self.pools.remove(key)),
            ShownKind::NodeClaim => drop(self.claims.remove(key)),
            ShownKind::NodeClass => drop(self.classes.remove(key)),
            ShownKind::Event => drop(self.events.remove(key)),
            ShownKind::PodDisruptionBudget => drop(self.budgets.remove(key)),
            ShownKind::Namespace => drop(self.namespaces.remove(key)),
        }
        self.invalid.remove(&(kind, key.clone()));
    }

    fn put(&mut self, kind: ShownKind, key: Key, object: Result<Object, DecodeError>) {
        let object = match object {
            Ok(object) => object,
            Err(why) => {
                // The last valid form of the object is out of date.
                self.remove(kind, &key);
                self.invalid.insert((kind, key), why.to_string());
                return;
            }
        };
        self.invalid.remove(&(kind, key.clone()));
        self.created = self.created.max(created(&object));
        match object {
            Object::Node(node) => drop(self.nodes.insert(key, *node)),
            Object::Pod(pod) => drop(self.pods.insert(key, pod)),
            Object::NodePool(pool) => drop(self.pools.insert(key, *pool)),
            Object::NodeClaim(claim) => drop(self.claims.insert(key, *claim)),
            Object::NodeClass(class) => drop(self.classes.insert(key, class)),
            Object::Event(event) if event.is_relevant() => drop(self.events.insert(key, *event)),
            Object::Event(_) => drop(self.events.remove(&key)),
            Object::PodDisruptionBudget(budget) => drop(self.budgets.insert(key, *budget)),
            Object::Namespace(annotations) => drop(self.namespaces.insert(key, annotations)),
            Object::OfOther => self.remove(kind, &key),
        }
    }
}

/// When the API server created an object.
fn created(object: &Object) -> Option<Timestamp> {
    match object {
        Object::Node(node) => node.created,
        Object::Pod(pod) => pod.created,
        Object::NodeClaim(claim) => claim.created,
        Object::Event(event) => event.created,
        Object::NodePool(_)
        | Object::NodeClass(_)
        | Object::PodDisruptionBudget(_)
        | Object::Namespace(_)
        | Object::OfOther => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, decoded, event_value, node, pod};
    use nodeless_api::test_support::{auto_mode_node, auto_mode_node_claim, auto_mode_node_pool};
    use serde_json::{Value, json};

    #[test]
    fn node_pools_and_node_claims_of_another_controller_are_not_shown_and_their_nodes_are() {
        let present = |kind: ShownKind, object: Value| {
            let (namespace, name, object) = decoded(kind, &object.to_string());
            Update::Present { kind, namespace, name, object }
        };
        let mut cluster = Cluster::default();
        cluster.apply(present(ShownKind::NodePool, auto_mode_node_pool()));
        cluster.apply(present(ShownKind::NodeClaim, auto_mode_node_claim()));
        cluster.apply(present(ShownKind::Node, auto_mode_node()));
        assert!(cluster.pools.is_empty() && cluster.claims.is_empty() && cluster.invalid.is_empty());
        assert_eq!(cluster.nodes.values().map(Node::node_pool).collect::<Vec<_>>(), [None]);
        let mut own = auto_mode_node_pool();
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        own["spec"]["template"]["spec"]["nodeClassRef"] = class;
        cluster.apply(present(ShownKind::NodePool, own));
        assert_eq!(cluster.pools.len(), 1);
        cluster.apply(present(ShownKind::NodePool, auto_mode_node_pool()));
        assert!(cluster.pools.is_empty(), "it was replaced by one of another controller");
    }

    #[test]
    fn a_list_replaces_what_was_known_and_keeps_faulty_objects_apart() {
        let mut cluster = Cluster::default();
        let bad = r#"{"metadata":{"name":"bad","namespace":"shop"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"many"}}}]}}"#;
        let listed = |all: &[String]| Update::Listed {
            kind: ShownKind::Pod,
            objects: all.iter().map(|it| decoded(ShownKind::Pod, it)).collect(),
        };
        cluster.apply(listed(&[pod("a", Some("n")), pod("b", None), bad.to_owned()]));
        assert_eq!((cluster.pods.len(), cluster.invalid.len()), (2, 1));
        assert!(cluster.invalid.values().all(|why| why.contains("cpu")), "{:?}", cluster.invalid);
        cluster.apply(listed(&[pod("b", None)]));
        assert_eq!((cluster.pods.len(), cluster.invalid.len()), (1, 0));
        let absent = Update::Absent { kind: ShownKind::Pod, namespace: "shop".into(), name: "b".into() };
        cluster.apply(absent);
        assert!(cluster.pods.is_empty());
    }

    #[test]
    fn the_time_is_that_of_the_clock_that_is_ahead() {
        let mut cluster = Cluster::default();
        assert_eq!(cluster.now(at(-60)), at(-60));
        let (namespace, name, object) = decoded(ShownKind::Node, &node("n", "m5.large"));
        cluster.apply(Update::Present { kind: ShownKind::Node, namespace, name, object });
        // The API server created the node at 0:00, and the kubelet reported it a minute later.
        assert_eq!([-60, 0, 5].map(|minute| cluster.now(at(minute))), [at(1), at(1), at(5)]);
    }

    #[test]
    fn a_wrong_clock_of_one_client_changes_nothing() {
        let mut cluster = Cluster::default();
        let mut event = event_value("Node", "n", "Unconsolidatable", "");
        event["metadata"]["creationTimestamp"] = "2026-01-01T00:02:00Z".into();
        event["lastTimestamp"] = "2030-01-01T00:00:00Z".into();
        let (namespace, name, object) = decoded(ShownKind::Event, &event.to_string());
        cluster.apply(Update::Present { kind: ShownKind::Event, namespace, name, object });
        assert_eq!([1, 30].map(|minute| cluster.now(at(minute))), [at(2), at(30)]);
    }
}
