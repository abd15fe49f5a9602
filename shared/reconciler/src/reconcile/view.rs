//! Reads the state of the cluster and of EC2 for many claims together.

use super::Reconciler;
use super::daemon_sets::{self, NotReady};
use super::nominations::Opened;
use super::volumes::Attachments;
use jiff::{SignedDuration, Timestamp};
use nodeless_lifecycle::{Effect, Needs, NodeClassState, Seen};
use nodeless_model::object::MirroredClaim;
use nodeless_model::{DaemonSetName, Instance, Node, NodeClaim, Phase, Pod, ResourceList};
use nodeless_operations::{node_class, zonal_shift};
use nodeless_ports::cluster::{FoundNodes, InvalidObject, SoughtNode};
use nodeless_ports::{ErrorKind, PortError, ShiftedZone};
use std::collections::{BTreeMap, BTreeSet};

/// Up to this number, NodePools are read one by one; more are read with one list.
const FEW_POOLS: usize = 2;

/// Within this time of its launch, an instance without a node is one whose node has not joined. After that, all nodes are searched: a record that
/// is older than its node, because a process ended or the table was restored, has no name of it, and nodes that are initialized are not
/// listed with those that join.
const JOINS_WITHIN: SignedDuration = SignedDuration::from_mins(3);

/// The state that was read for many claims.
pub(super) struct View {
    nodes: Seen<FoundNodes>,
    mirrors: Seen<(Vec<MirroredClaim>, Vec<InvalidObject>)>,
    instances: Seen<BTreeMap<String, Instance>>,
    node_pools: Seen<BTreeMap<String, bool>>,
    node_classes: BTreeMap<String, Seen<NodeClassState>>,
    shifted: Vec<ShiftedZone>,
    /// The pods of the nodes that drain, by the name of the claim.
    pods: BTreeMap<String, Seen<Vec<Pod>>>,
    pub(super) attachments: Attachments,
    /// The DaemonSets that are not ready on nodes that wait for them.
    daemon_sets_not_ready: NotReady,
    /// The nominations for the nodes.
    pub(super) opened: Opened,
}

/// The state of one claim between its steps. A `None` part is read when a step needs it.
#[derive(Clone, Default)]
pub(super) struct ObservedClaim {
    pub(super) nodes: Option<Seen<Vec<Node>>>,
    pub(super) mirror: Option<Seen<Option<MirroredClaim>>>,
    pub(super) instance: Option<Seen<Option<Instance>>>,
    pub(super) node_pool_exists: Option<Seen<bool>>,
    pub(super) node_class: Option<Seen<NodeClassState>>,
    pub(super) daemon_sets_not_ready: Option<Seen<BTreeSet<DaemonSetName>>>,
    pub(super) device_resources: Option<Seen<ResourceList>>,
    pub(super) pods: Option<Seen<Vec<Pod>>>,
    /// Whether the pods were read before the first step of any claim of the run.
    pub(super) pods_are_of_view: bool,
}

impl View {
    /// # Errors
    /// If the zonal shifts cannot be read from the claims table. `mates` are claims whose nodes open together with those of `claims`.
    pub(super) async fn read(
        reconciler: &Reconciler,
        claims: &[NodeClaim],
        mates: &[NodeClaim],
    ) -> Result<Self, PortError> {
        let needs: Vec<(&NodeClaim, Needs)> = claims.iter().map(|claim| (claim, Needs::new(claim))).collect();
        let any_launched = claims.iter().any(|claim| claim.status.instance.is_some());
        let honoured = reconciler.zonal_shift && any_launched;
        let (shifted, nodes, mirrors, node_pools, node_classes) = futures::join!(
            zonal_shift::in_effect(&reconciler.claims, honoured, reconciler.context.now()),
            reconciler.sought_nodes(&needs, mates),
            reconciler.mirrors(&needs),
            reconciler.pools(&needs),
            reconciler.classes(&needs),
        );
        let instances = Seen::default();
        let (pods, attachments) = (BTreeMap::new(), Attachments::default());
        let (daemon_sets_not_ready, opened) = (NotReady::new(), Opened::default());
        let mut view = Self {
            nodes,
            mirrors,
            instances,
            node_pools,
            node_classes,
            shifted: shifted?,
            pods,
            attachments,
            daemon_sets_not_ready,
            opened,
        };
        let draining: Vec<(&NodeClaim, Vec<Node>)> = needs
            .iter()
            .filter(|(_, needs)| needs.pods)
            .filter_map(|(claim, _)| Some((*claim, view.nodes_of(claim).known()?.clone())))
            .collect();
        view.attachments =
            Attachments::new(draining.iter().flat_map(|(_, nodes)| nodes).map(|node| node.name.clone()).collect());
        let waiting: Vec<(&NodeClaim, Node)> = claims
            .iter()
            .chain(mates)
            .filter(|claim| Needs::new(claim).daemon_sets)
            .filter_map(|claim| Some((claim, daemon_sets::only(&view.nodes_of(claim))?.clone())))
            .collect();
        (view.instances, view.pods, view.daemon_sets_not_ready) = futures::join!(
            reconciler.instances(claims.iter().filter(|claim| view.needs_instance(claim))),
            reconciler.pods_of(&draining),
            reconciler.daemon_sets_not_ready(&waiting),
        );
        let seen = |claim: &NodeClaim| (view.nodes_of(claim), view.daemon_sets_ready(claim));
        view.opened = reconciler.nominate(claims, mates, seen).await;
        Ok(view)
    }

    /// The message of the zonal shift away from the zone of a claim's instance, if one is in effect.
    pub(super) fn shift_away_from(&self, claim: &NodeClaim) -> Option<String> {
        let launched = claim.status.instance.as_ref()?;
        zonal_shift::of_zone(&self.shifted, &launched.zone).map(zonal_shift::words)
    }

    /// The part of the view for one of the claims that it was read for.
    pub(super) fn observed(&self, claim: &NodeClaim) -> ObservedClaim {
        let needs = Needs::new(claim);
        ObservedClaim {
            nodes: needs.nodes.then(|| self.nodes_of(claim)),
            mirror: needs.mirror.then(|| self.mirror_of(claim)),
            instance: self.needs_instance(claim).then(|| self.instance_of(claim)),
            node_pool_exists: claim.node_pool.as_ref().filter(|_| needs.node_pool).map(|name| match &self.node_pools {
                Seen::Known(pools) => Seen::Known(pools.get(name).copied().unwrap_or(false)),
                Seen::Unknown(why) => Seen::Unknown(why.clone()),
            }),
            node_class: self.node_classes.get(&claim.node_class).cloned(),
            daemon_sets_not_ready: self.daemon_sets_not_ready.get(&claim.name).cloned(),
            device_resources: None,
            pods: self.pods.get(&claim.name).cloned(),
            pods_are_of_view: self.pods.contains_key(&claim.name),
        }
    }

    /// Whether a step of this claim needs its instance: the first step, or one that follows at once because its node has joined.
    fn needs_instance(&self, claim: &NodeClaim) -> bool {
        let is_launched = matches!(claim.phase, Phase::Launched | Phase::WarmLaunched);
        let joins = || is_launched && self.nodes_of(claim).known().is_some_and(|it| !it.is_empty());
        (Needs::new(claim).instance || joins()) && self.shift_away_from(claim).is_none()
    }

    /// How many nodes that are not initialized were listed.
    pub(super) fn joining_listed(&self) -> usize {
        self.nodes.known().map_or(0, |found| found.joining_listed)
    }

    pub(super) fn nodes_of(&self, claim: &NodeClaim) -> Seen<Vec<Node>> {
        let Some(id) = claim.provider_id() else { return Seen::Known(Vec::new()) };
        match &self.nodes {
            Seen::Unknown(why) => Seen::Unknown(why.clone()),
            Seen::Known(FoundNodes { nodes, invalid, .. }) => {
                let of = |node: &&Node| node.provider_id.as_deref() == Some(id.as_str());
                let found: Vec<Node> = nodes.iter().filter(of).cloned().collect();
                match invalid.first().filter(|_| found.is_empty()) {
                    // The undecodable object may be the node of this claim.
                    Some(object) => Seen::Unknown(unreadable(object)),
                    None => Seen::Known(found),
                }
            }
        }
    }

    /// Whether the DaemonSets that the node of a claim waits for are ready; true if it waits for none.
    fn daemon_sets_ready(&self, claim: &NodeClaim) -> bool {
        let not_ready = || self.daemon_sets_not_ready.get(&claim.name)?.known();
        !Needs::new(claim).daemon_sets || not_ready().is_some_and(BTreeSet::is_empty)
    }

    fn mirror_of(&self, claim: &NodeClaim) -> Seen<Option<MirroredClaim>> {
        match &self.mirrors {
            Seen::Unknown(why) => Seen::Unknown(why.clone()),
            Seen::Known((mirrors, invalid)) => match invalid.iter().find(|object| object.name == claim.name) {
                Some(object) => Seen::Unknown(unreadable(object)),
                None => Seen::Known(mirrors.iter().find(|mirror| mirror.name == claim.name).cloned()),
            },
        }
    }

    fn instance_of(&self, claim: &NodeClaim) -> Seen<Option<Instance>> {
        let Some(launched) = &claim.status.instance else { return Seen::Known(None) };
        match &self.instances {
            Seen::Known(instances) => Seen::Known(instances.get(&launched.id).cloned()),
            Seen::Unknown(why) => Seen::Unknown(why.clone()),
        }
    }
}

impl ObservedClaim {
    /// Applies the change of a successful effect, so that the state need not be read again.
    pub(super) fn after(&mut self, effect: &Effect) {
        match effect {
            Effect::PatchNode { uid, patch, .. } => {
                if let Some(Seen::Known(nodes)) = &mut self.nodes {
                    nodes.iter_mut().filter(|node| node.uid == *uid).for_each(|node| patch.apply(node));
                }
            }
            Effect::TagInstance { tags, .. } => {
                if let Some(Seen::Known(Some(instance))) = &mut self.instance {
                    instance.tags.extend(tags.clone());
                }
            }
            Effect::DeleteNode { .. } => self.nodes = None,
            Effect::TerminateInstance { .. }
            | Effect::StopInstance
            | Effect::StartInstance
            | Effect::Launch
            | Effect::Recover { .. } => self.instance = None,
            // The object exists now and has a uid.
            Effect::MirrorClaim if !matches!(self.mirror, Some(Seen::Known(Some(_)))) => self.mirror = None,
            _ => {}
        }
    }
}

impl Reconciler {
    async fn sought_nodes(&self, needs: &[(&NodeClaim, Needs)], mates: &[NodeClaim]) -> Seen<FoundNodes> {
        let own = needs.iter().filter(|(_, needs)| needs.nodes).map(|(claim, _)| *claim);
        let now = self.context.now();
        let sought: Vec<SoughtNode> = own.chain(mates).filter_map(|claim| sought_node(claim, now)).collect();
        if sought.is_empty() {
            return Seen::Known(FoundNodes::default());
        }
        self.cluster.nodes_of_all(&sought).await.into()
    }

    async fn mirrors(&self, needs: &[(&NodeClaim, Needs)]) -> Seen<(Vec<MirroredClaim>, Vec<InvalidObject>)> {
        let names: Vec<String> =
            needs.iter().filter(|(_, needs)| needs.mirror).map(|(claim, _)| claim.name.clone()).collect();
        if names.is_empty() {
            return Seen::Known((Vec::new(), Vec::new()));
        }
        self.cluster.mirrors_of(&names).await.into()
    }

    async fn instances(&self, claims: impl Iterator<Item = &NodeClaim>) -> Seen<BTreeMap<String, Instance>> {
        let ids: Vec<String> = claims.filter_map(|claim| Some(claim.status.instance.as_ref()?.id.clone())).collect();
        if ids.is_empty() {
            return Seen::Known(BTreeMap::new());
        }
        let read = self.cloud.instances(&ids).await;
        read.map(|found| found.into_iter().map(|one| (one.id.clone(), one)).collect()).into()
    }

    /// The pods of the nodes of each claim, by the name of the claim.
    async fn pods_of(&self, draining: &[(&NodeClaim, Vec<Node>)]) -> BTreeMap<String, Seen<Vec<Pod>>> {
        let names: BTreeSet<String> =
            draining.iter().flat_map(|(_, nodes)| nodes).map(|node| node.name.clone()).collect();
        if names.is_empty() {
            return BTreeMap::new();
        }
        let found = self.cluster.pods_on_each(&names).await;
        draining.iter().map(|(claim, nodes)| (claim.name.clone(), pods_in(&found, nodes).into())).collect()
    }

    /// Whether the NodePool of each claim exists. An invalid NodePool, or one of another controller, counts as existing.
    async fn pools(&self, needs: &[(&NodeClaim, Needs)]) -> Seen<BTreeMap<String, bool>> {
        let sought: BTreeSet<&String> = needs
            .iter()
            .filter(|(_, needs)| needs.node_pool)
            .filter_map(|(claim, _)| claim.node_pool.as_ref())
            .collect();
        if sought.len() <= FEW_POOLS {
            let mut found = BTreeMap::new();
            for name in sought {
                match self.node_pool_exists(name).await {
                    Ok(exists) => drop(found.insert(name.clone(), exists)),
                    Err(error) => return Seen::Unknown(error.to_string()),
                }
            }
            return Seen::Known(found);
        }
        let read = self.cluster.node_pools().await;
        read.map(|pools| pools.names().map(|name| (name.clone(), true)).collect()).into()
    }

    async fn classes(&self, needs: &[(&NodeClaim, Needs)]) -> BTreeMap<String, Seen<NodeClassState>> {
        let sought: BTreeSet<&String> =
            needs.iter().filter(|(_, needs)| needs.node_class).map(|(claim, _)| &claim.node_class).collect();
        let reads = sought.into_iter().map(async |name| (name.clone(), self.node_class_state(name).await.into()));
        futures::future::join_all(reads).await.into_iter().collect()
    }

    pub(super) async fn node_class_state(&self, name: &str) -> Result<NodeClassState, PortError> {
        match self.cluster.node_class(name).await {
            Ok(Some(class)) => Ok(node_class::state(&class)),
            Ok(None) => Ok(NodeClassState::Missing),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(NodeClassState::NotReady { message: error.message }),
            Err(error) => Err(error),
        }
    }

    /// Whether a claim has a NodePool that exists.
    pub(super) async fn node_pool_of(&self, claim: &NodeClaim) -> Result<bool, PortError> {
        match &claim.node_pool {
            Some(name) => self.node_pool_exists(name).await,
            None => Ok(false),
        }
    }

    /// An invalid NodePool, or one of another controller, counts as existing.
    pub(super) async fn node_pool_exists(&self, name: &str) -> Result<bool, PortError> {
        match self.cluster.node_pool(name).await {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// The pods of these nodes, of those that were read.
fn pods_in(found: &BTreeMap<String, Result<Vec<Pod>, PortError>>, nodes: &[Node]) -> Result<Vec<Pod>, PortError> {
    let mut pods = Vec::new();
    for node in nodes {
        let unread =
            || PortError::new(ErrorKind::Unavailable, "pods of nodes", format!("those of {} were not read", node.name));
        pods.extend(found.get(&node.name).ok_or_else(unread)?.clone()?);
    }
    Ok(pods)
}

/// The keys by which the node of a claim's instance is found.
fn sought_node(claim: &NodeClaim, now: Timestamp) -> Option<SoughtNode> {
    let instance = claim.status.instance.as_ref()?;
    let name = claim.status.node_name.clone();
    let is_expected = name.is_some() || now.duration_since(instance.launched) < JOINS_WITHIN;
    Some(SoughtNode {
        provider_id: instance.provider_id(),
        name,
        joining: is_expected && (Phase::Launched..Phase::Initialized).contains(&claim.phase),
    })
}

fn unreadable(object: &InvalidObject) -> String {
    format!("the {} {} cannot be read: {}", object.kind, object.name, object.message)
}
