//! Compares all claims with EC2 and the cluster, to find what no single claim can detect.

use crate::adopt::adopted;
use crate::group::lacks_instance;
use crate::settings::Settings;
use crate::time::elapsed;
use jiff::Timestamp;
use nodeless_model::managed::may_be_managed;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{Instance, InstanceState, Node, NodeClaim, NodePool, OtherNodeClaim, labels};
use std::collections::{BTreeMap, BTreeSet};

/// All claims, instances and nodes. They are read in this order: instances, nodes and NodeClaim objects first, claims last, so
/// that an object that was just created does not look like an orphan.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// All claims.
    pub claims: &'a [NodeClaim],
    /// All instances with this cluster's tags, other than terminated ones.
    pub instances: &'a [Instance],
    /// All nodes with the label of a NodePool or EC2NodeClass, whosever they are.
    pub nodes: &'a [Node],
    /// All NodeClaim objects whose class is an EC2NodeClass.
    pub mirrors: &'a [MirroredClaim],
    /// All other NodeClaim objects.
    pub other_claims: &'a [OtherNodeClaim],
    /// All NodePools that could be decoded, for the settings of adopted claims.
    pub node_pools: &'a [NodePool],
}

/// An object without a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// An instance with a node or NodeClaim, but without a record: keep it, and write this record.
    Adopt(Box<NodeClaim>),
    /// An instance without a claim and without a ready node: terminate it.
    TerminateInstance {
        /// The instance id.
        id: String,
        /// The reason.
        why: String,
    },
    /// A node without claim or kubelet that only its finalizer holds: remove the finalizer if its instance [is proved to be
    /// gone](is_proved_gone).
    ReleaseNode {
        /// The node's name.
        name: String,
        /// The node's uid.
        uid: String,
        /// The instance id.
        instance: String,
    },
    /// A managed NodeClaim object without a record.
    RemoveMirror {
        /// The name.
        name: String,
        /// The object's uid.
        uid: String,
    },
}

/// All objects without a claim. Handling only some of them, or some of them twice, is safe: the next sweep finds the rest.
#[must_use]
pub fn collect(world: &World<'_>, now: Timestamp, settings: &Settings) -> Vec<Collection> {
    let mut found = Vec::new();
    let claimed: BTreeSet<&str> = world
        .claims
        .iter()
        .filter_map(|claim| claim.status.instance.as_ref())
        .map(|instance| instance.id.as_str())
        .collect();
    let nodes = nodes_by_instance(world.nodes);
    let mut names: BTreeSet<String> = world.claims.iter().map(|claim| claim.name.clone()).collect();
    let mut adopted_mirrors = BTreeSet::new();
    let mut unclaimed: Vec<&Instance> = world
        .instances
        .iter()
        .filter(|instance| instance.is_alive() && !claimed.contains(instance.id.as_str()))
        .collect();
    unclaimed.sort_by(|a, b| a.id.cmp(&b.id));
    for instance in unclaimed {
        let node = nodes.get(instance.id.as_str()).copied();
        match fate(world, instance, node, now, settings) {
            Fate::Wait => {}
            Fate::Terminate(why) => found.push(Collection::TerminateInstance { id: instance.id.clone(), why }),
            Fate::Adopt(mirror) => {
                if let Some(claim) = adopted(instance, node, mirror, world.node_pools, &names, now) {
                    names.insert(claim.name.clone());
                    adopted_mirrors.extend(mirror.map(|mirror| mirror.name.clone()));
                    found.push(Collection::Adopt(Box::new(claim)));
                }
            }
        }
    }
    let present: BTreeSet<&str> = world.instances.iter().map(|instance| instance.id.as_str()).collect();
    let of_objects = world.mirrors.iter().filter_map(MirroredClaim::instance_id);
    let of_others = world.other_claims.iter().filter_map(OtherNodeClaim::instance_id);
    let known: BTreeSet<&str> = present.iter().chain(&claimed).copied().chain(of_objects).chain(of_others).collect();
    found.extend(world.nodes.iter().filter_map(|node| release(node, &known)));
    let unheld = |mirror: &&MirroredClaim| {
        let has_instance = mirror
            .provider_id
            .as_deref()
            .and_then(nodeless_model::node::instance_id)
            .is_some_and(|id| present.contains(id));
        // One without a NodePool is a user's: the planner makes a claim of it again, unless it is being deleted.
        let is_ours = mirror.standalone.is_none() || mirror.deletion_timestamp.is_some();
        mirror.record_uid.is_some()
            && is_ours
            && !names.contains(&mirror.name)
            && !adopted_mirrors.contains(&mirror.name)
            && !has_instance
    };
    found.extend(
        world
            .mirrors
            .iter()
            .filter(unheld)
            .map(|mirror| Collection::RemoveMirror { name: mirror.name.clone(), uid: mirror.uid.clone() }),
    );
    found
}

fn nodes_by_instance(nodes: &[Node]) -> BTreeMap<&str, &Node> {
    nodes.iter().filter_map(|node| Some((node.instance_id()?, node))).collect()
}

/// What to do with an instance without a claim.
enum Fate<'a> {
    Wait,
    Adopt(Option<&'a MirroredClaim>),
    Terminate(String),
}

/// Distinguishes an orphan to terminate from a node to adopt. If that is uncertain, the instance stays:
///
/// 1. The instance belongs to the launch group of a claim without instance: wait. The claim gets it when its launch is repeated, also
///    if its node was registered: the record of the launch was lost, or the table was restored to a time before.
/// 2. The node was registered (`karpenter.sh/registered`): adopt. Pods may run there.
/// 3. A NodeClaim object names the instance, by provider id or by the tag `karpenter.sh/nodeclaim`: adopt.
/// 4. The instance is younger than `orphan_age`, or belongs to a NodePool for which another controller is just launching (a NodeClaim
///    object, not ours, without provider id): wait.
/// 5. There are no claims at all: the table was lost, or nodeless has just been installed. Adopt everything; the registration
///    timeout terminates what never joins.
/// 6. Otherwise nothing in the table or the cluster refers to the instance: terminate.
fn fate<'a>(
    world: &World<'a>,
    instance: &Instance,
    node: Option<&Node>,
    now: Timestamp,
    settings: &Settings,
) -> Fate<'a> {
    let tag = |key: &str| instance.tags.get(key).map(String::as_str);
    let group = tag(labels::LAUNCH_GROUP_TAG);
    let is_of_group =
        |claim: &NodeClaim| group.is_some_and(|id| claim.spec.launch_group.as_ref().is_some_and(|own| own.id == id));
    if world.claims.iter().any(|claim| is_of_group(claim) && lacks_instance(claim)) {
        return Fate::Wait;
    }
    let named = tag(labels::NODE_CLAIM_TAG);
    let mirror = world.mirrors.iter().find(|mirror| {
        let provider = mirror.provider_id.as_deref().and_then(nodeless_model::node::instance_id);
        provider == Some(instance.id.as_str()) || (provider.is_none() && named == Some(mirror.name.as_str()))
    });
    // If a record with that name has another instance, or none yet, adopting the NodeClaim object would overwrite it.
    let mirror_is_taken = mirror.is_some_and(|mirror| world.claims.iter().any(|claim| claim.name == mirror.name));
    if node.is_some_and(Node::is_registered) {
        return Fate::Adopt(mirror.filter(|_| !mirror_is_taken));
    }
    if mirror.is_some() && !mirror_is_taken {
        return Fate::Adopt(mirror);
    }
    let launching_elsewhere = world.mirrors.iter().any(|mirror| {
        let of_this_pool = tag(labels::NODE_POOL).is_some_and(|pool| is_name_of_pool(&mirror.name, pool));
        mirror.record_uid.is_none() && mirror.provider_id.is_none() && of_this_pool
    });
    if elapsed(instance.launched, now) < settings.orphan_age || launching_elsewhere {
        return Fate::Wait;
    }
    if world.claims.is_empty() {
        return Fate::Adopt(None);
    }
    Fate::Terminate("no claim, NodeClaim or recognised Node refers to it".to_owned())
}

/// Whether a NodeClaim was named after a NodePool, `POOL-xxxxx`.
fn is_name_of_pool(name: &str, pool: &str) -> bool {
    name.strip_prefix(pool).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| !rest.contains('-'))
}

/// Releases a node that only its finalizer keeps: one of nodeless by its label, not ready, whose instance is none of the instances, records
/// and NodeClaim objects that are known. Every node is not ready when it joins, so its instance has to be looked up by its id before.
fn release(node: &Node, known: &BTreeSet<&str>) -> Option<Collection> {
    let held = node.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER);
    let instance = node.instance_id().filter(|id| !known.contains(id))?;
    (held && !node.is_ready() && may_be_managed(&node.labels)).then(|| Collection::ReleaseNode {
        name: node.name.clone(),
        uid: node.uid.clone(),
        instance: instance.to_owned(),
    })
}

/// Whether the instance of a node is gone and was one of nodeless. `described` is the answer of EC2 about its id, `None` if there is no
/// instance with it, and `recorded` whether the table has a record of its end. An answer that was not received proves nothing.
#[must_use]
pub fn is_proved_gone(described: Option<&Instance>, recorded: bool, cluster_name: &str) -> bool {
    let Some(instance) = described else { return recorded };
    let tag = |key: &str| instance.tags.get(key).map(String::as_str);
    let tagged = tag(labels::CLUSTER_NAME_TAG) == Some(cluster_name)
        && [labels::NODE_POOL, labels::EC2_NODE_CLASS].iter().all(|key| tag(key).is_some());
    instance.state == InstanceState::Terminated && (recorded || tagged)
}
