//! Converts a cluster without a claims table to a snapshot for the pipeline, for `nodeless plan`.

pub(crate) mod current;
pub(crate) mod disruption;
pub(crate) mod export_defaults;
pub(crate) mod known_types;

use crate::dry_run::known_types::{KnownTypes, default_class, price};
use crate::execute::without_effects::Assumed;
use crate::facts::Facts;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::local_volumes;
use crate::pools::{self, EvaluatedPool, Offered};
use crate::records::report::Outcome;
use crate::snapshot::Snapshot;
use crate::stages::{policy, provisioning, static_capacity};
use crate::standing::{PendingPod, PodStanding};
use crate::{PlanSettings, buffers};
use futures::executor::block_on;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodeless_api::nodeclass::Subnet;
use nodeless_api::{Condition, ConditionStatus};
use nodeless_catalog::Catalog;
use nodeless_catalog::facts::Zone;
use nodeless_commitments::Commitments;
use nodeless_disruption::expired;
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::TerminationReason;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{
    InstanceTypes, NodeClaim, OtherNodePool, Pod, Quantity, ResourceList, RootVolume, labels, resources,
};
use nodeless_operations::offers::{Availability, OfferCache};
use nodeless_operations::reported_memory;
use nodeless_ports::ShiftedZone;
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::{Problem, Solution};
use nodeless_state::StoredRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A cluster, its claims and the instance types to launch, ready to be planned.
///
/// The snapshot is as the planner reads it, except for what only a running nodeless has. Pods count as pending although no
/// kube-scheduler has evaluated them. There is no launch budget, and no command is in progress. Controllers are assumed to have
/// succeeded: an EC2NodeClass without a status is ready and has subnets in every zone of the catalog; if a snapshot has no
/// EC2NodeClass at all, those that NodePools name count as AL2023 with default settings; a Node without a status has the capacity
/// of its instance type.
pub struct DryRun {
    pub(super) snapshot: Snapshot,
    pub(super) offered: Offered,
    /// The NodePools of [`Self::offered`], with the claims that static capacity launches counted against their limits.
    pub(super) evaluated: Vec<EvaluatedPool>,
    /// The claims after static capacity and repair terminated and launched what they require; nothing if that was not requested.
    static_claims: Option<Vec<NodeClaim>>,
    /// The report about that.
    pub(super) stated: Vec<ObjectEvent>,
    /// The virtual pods of CapacityBuffers.
    pub(super) virtual_pods: Vec<Pod>,
    assumptions: Vec<String>,
}

/// The input: a cluster without its claims table.
pub struct DryRunInput {
    /// The cluster.
    pub view: ClusterView,
    /// The NodeClaims of the cluster.
    pub claims: Vec<NodeClaim>,
    /// The instance types to launch.
    pub catalog: Catalog,
    /// The time from which ages are computed.
    pub now: Timestamp,
    /// The zones that the cluster is shifted away from.
    pub shifted: Vec<ShiftedZone>,
    /// How plans are made.
    pub settings: PlanSettings,
    /// The commitments that are in effect, if the plan is to use any.
    pub commitments: Option<Commitments>,
    /// For a plan that also reports which nodes are disrupted: what the claims table has about the evictions of the last hour, empty
    /// if that is unknown. Then missing claims are added for the Nodes of NodePools, and missing fields of claims are taken from
    /// the Node and its instance type.
    pub disruption: Option<Vec<StoredRecord>>,
}

impl DryRun {
    /// Prepares a plan.
    #[must_use]
    pub fn new(input: DryRunInput) -> Self {
        let DryRunInput { mut view, claims: mut records, mut catalog, now, shifted, settings, commitments, disruption } =
            input;
        let mut assumptions: Vec<String> = OtherNodePool::in_words(&view.other_node_pools).into_iter().collect();
        assume_node_classes(&mut view, &catalog, &mut assumptions);
        export_defaults::placement_groups(&view, &mut catalog, &mut assumptions);
        let (kept, catalog) = (OfferCache::default(), Arc::new(catalog));
        export_defaults::class_labels(&mut view);
        let reported_memory = reported_memory::of_export(&view, &records, now);
        let memory = reported_memory::known(&reported_memory, &[], &[], now).memory;
        let availability = Availability { unavailable: &[], shifted: &shifted };
        let types = kept.instance_types(&catalog, &view.node_classes, availability, &memory, now);
        let known = KnownTypes { types: &types, catalog: &catalog };
        known.fill_nodes(&mut view, &mut assumptions);
        if disruption.is_some() {
            export_defaults::class_hashes(&mut view);
            export_defaults::claims(&mut view, &mut records, &known, &mut assumptions);
        }
        known.fill_claims(&mut records, &view);
        local_volumes::note_closed(&mut view, &records, now);
        let usage = usage(&ClusterState::new(&view, &records), &types);
        for pod in view.pods.iter_mut().filter(|pod| pod.awaits_node()) {
            Arc::make_mut(pod).marked_unschedulable = true;
        }
        let with_static_capacity = disruption.is_some();
        let churn = disruption.map(Ok);
        let bare = Snapshot::bare(now, catalog);
        let snapshot =
            Snapshot { view, claims: records, usage, shifted, settings, commitments, churn, reported_memory, ..bare };
        let offered = Offered::new(&snapshot, &kept);
        let (static_claims, stated) = with_static_capacity.then(|| after_static_capacity(&snapshot, &offered)).unzip();
        let stated = stated.unwrap_or_default();
        let mut evaluated = offered.evaluated.clone();
        static_claims.iter().for_each(|claims| pools::charge_created(&mut evaluated, &snapshot, claims));
        let virtual_pods = Vec::new();
        let mut made = Self { snapshot, offered, evaluated, static_claims, stated, virtual_pods, assumptions };
        made.note_overlays();
        made.take_buffers();
        made.note_zones();
        made.note_unknown_values();
        made
    }

    fn note_overlays(&mut self) {
        let overlays = self.snapshot.view.node_overlays.iter();
        let faulty = overlays.filter_map(|(overlay, _)| Some((&overlay.name, &overlay.valid.as_ref().err()?.0)));
        let skipped = faulty
            .chain(&self.offered.overlaid.conflicts)
            .map(|(name, why)| format!("NodeOverlay {name} is left out, as it would be in the cluster: {why}"));
        self.assumptions.extend(skipped);
    }

    fn take_buffers(&mut self) {
        let view = &self.snapshot.view;
        for reserved in buffers::reserve(view, &mut view.quota_balance()) {
            if let Some(why) = &reserved.limited {
                self.assumptions.push(format!("CapacityBuffer {} has {why}", reserved.name()));
            }
            match &reserved.pods {
                Ok(pods) => self.virtual_pods.extend(pods.iter().cloned()),
                Err(why) => self.assumptions.push(format!("CapacityBuffer {} is left out: {why}", reserved.name())),
            }
        }
    }

    fn note_unknown_values(&mut self) {
        let catalog = &self.snapshot.catalog;
        let notes = self.evaluated.iter().flat_map(|evaluated| {
            let unknown = nodeless_catalog::unknown_values(&evaluated.pool.template.requirements, catalog);
            unknown.into_iter().map(|value| format!("NodePool {}: {value}", evaluated.pool.name))
        });
        self.assumptions.extend(notes);
    }

    fn note_zones(&mut self) {
        let catalog = &self.snapshot.catalog;
        let elsewhere = zones_elsewhere(&self.snapshot.view, catalog);
        if !elsewhere.is_empty() {
            let zones = elsewhere.into_iter().collect::<Vec<_>>().join(", ");
            self.assumptions.push(format!(
                "the cluster uses {zones}, which the catalog of {} does not contain; use the catalog of that region",
                catalog.region
            ));
        }
    }

    /// The input of the stages.
    pub(super) fn facts(&self) -> Facts<'_> {
        let Self { snapshot, evaluated, static_claims, .. } = self;
        let claims = static_claims.as_ref().unwrap_or(&snapshot.claims);
        Facts { snapshot, evaluated, claims, commands: &snapshot.commands }
    }

    /// The cluster as the stages see it.
    pub(super) fn cluster_state(&self) -> ClusterState<'_> {
        self.found(Facts { claims: &self.snapshot.claims, ..self.facts() })
    }

    /// The cluster with these claims and commands, as the stages see it.
    pub(super) fn found<'a>(&'a self, facts: Facts<'a>) -> ClusterState<'a> {
        provisioning::cluster_state(facts, self.virtual_pods.iter().collect())
    }

    /// Schedules all pods that are pending or have to leave their node.
    #[must_use]
    pub fn place(&self) -> (Problem<'_>, Solution) {
        let facts = self.facts();
        policy::solve(facts, &self.found(facts), Vec::new())
    }

    /// The root volume of a planned node of a NodePool, by its instance type and requests, if the NodePool determines the size.
    #[must_use]
    pub fn root_volume(&self, node_pool: &str, instance_type: &str, requests: &ResourceList) -> Option<RootVolume> {
        let (view, catalog) = (&self.snapshot.view, &self.snapshot.catalog);
        let pool = view.node_pools.iter().find(|pool| pool.name == node_pool)?;
        let size = pool.options.root_volume.valid().cloned()?;
        let class = view.node_classes.get(&pool.template.node_class)?;
        let settings = nodeless_operations::node_class::settings_with(class, catalog).ok()?;
        let asked = requests.get(resources::name::EPHEMERAL_STORAGE);
        let settings = nodeless_operations::node_class::with_root_volume(settings, class, Some(size), Some(asked));
        let available = nodeless_operations::offers::shortages(&[], &[], self.snapshot.now);
        let types = catalog.instance_types_named([instance_type], &settings, &available);
        types.first()?.root_volume.map(|volumes| volumes.planned)
    }

    /// The pending pods that mount a volume that cannot be used, each with the reason. They are not part of the problem.
    #[must_use]
    pub fn faulty<'a>(&'a self) -> Vec<(&'a Pod, &'a str)> {
        let faulty = |one: &PendingPod<'a>| match one.standing {
            PodStanding::FaultyVolume { why } => Some((one.pod, why)),
            _ => None,
        };
        self.cluster_state().pending.iter().filter_map(faulty).collect()
    }

    /// The snapshot of the plan: the planner makes the same plan for it, which [`Snapshot::replay`] returns.
    #[must_use]
    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    /// The cluster of the plan.
    #[must_use]
    pub fn view(&self) -> &ClusterView {
        &self.snapshot.view
    }

    /// The time of the plan.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.snapshot.now
    }

    /// The names of nodes and of their claims, each with the displayed name: the claim's only if there is no Node.
    #[must_use]
    pub fn node_names(&self) -> BTreeMap<String, String> {
        let cluster_state = self.cluster_state();
        let mut names = BTreeMap::new();
        for place in &cluster_state.places {
            let (node, claim) = (place.node.map(|node| &node.name), place.claim.map(|claim| &claim.name));
            let Some(own) = node.or(claim) else { continue };
            names.extend([node, claim].into_iter().flatten().map(|name| (name.clone(), own.clone())));
        }
        names
    }

    /// The NodePools that cannot be used, each with the reason.
    pub fn unusable(&self) -> impl Iterator<Item = (&str, &str)> {
        self.offered.evaluated.iter().filter_map(|evaluated| {
            Some((evaluated.pool.name.as_str(), evaluated.pool.ready.as_ref().err()?.0.as_str()))
        })
    }

    /// The assumptions.
    #[must_use]
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

/// The claims after static capacity and repair terminated and launched what they require, and the report about that.
fn after_static_capacity(snapshot: &Snapshot, offered: &Offered) -> (Vec<NodeClaim>, Vec<ObjectEvent>) {
    let aged = expire(&snapshot.claims, snapshot.now);
    let facts = Facts { snapshot, evaluated: &offered.evaluated, claims: &aged, commands: &snapshot.commands };
    let mut outcome = Outcome::default();
    // This executor never waits.
    let claims = block_on(static_capacity::run(facts, &mut snapshot.names(), &Assumed { snapshot }, &mut outcome));
    (claims, outcome.events)
}

/// The claims after the sweep terminated expired ones. A claim of unknown age does not expire.
fn expire(claims: &[NodeClaim], now: Timestamp) -> Vec<NodeClaim> {
    let mut claims = claims.to_vec();
    let aged = claims.iter().filter(|claim| claim.created > Timestamp::UNIX_EPOCH);
    let due: BTreeMap<String, String> =
        expired(aged, now).into_iter().map(|one| (one.node_claim, one.message)).collect();
    for claim in &mut claims {
        if let Some(why) = due.get(&claim.name) {
            begin_termination(claim, TerminationReason::Expired, why, now);
        }
    }
    claims
}

/// Gives EC2NodeClasses the status that a controller would have written.
fn assume_node_classes(view: &mut ClusterView, catalog: &Catalog, assumptions: &mut Vec<String>) {
    let any = !view.node_classes.is_empty() || view.invalid.iter().any(|object| object.kind == "EC2NodeClass");
    let named: BTreeSet<String> = view.node_pools.iter().map(|pool| pool.template.node_class.clone()).collect();
    if !any && !named.is_empty() {
        let names = named.iter().cloned().collect::<Vec<_>>().join(", ");
        assumptions.push(format!(
            "there is no EC2NodeClass; {names} {} assumed to be AL2023 with default settings",
            if named.len() == 1 { "is" } else { "are" }
        ));
        view.node_classes = named.into_iter().map(|name| (name.clone(), default_class(&name))).collect();
    }
    for class in view.node_classes.values_mut() {
        let status = class.status.get_or_insert_default();
        if !status.conditions.iter().any(|condition| condition.type_ == "Ready") {
            status.conditions.push(Condition {
                type_: "Ready".to_owned(),
                status: ConditionStatus::True,
                reason: "Ready".to_owned(),
                message: String::new(),
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
                observed_generation: None,
            });
        }
        if status.subnets.is_empty() {
            let subnet =
                |zone: &Zone| Subnet { id: String::new(), zone: zone.name.clone(), zone_id: Some(zone.id.clone()) };
            // Subnets of a Local Zone are selected for workloads that have to run there.
            let usual = catalog.zones.iter().filter(|zone| !zone.is_local());
            status.subnets = usual.map(subnet).collect();
        }
    }
}

/// The zones of nodes and subnets that are not in the catalog.
fn zones_elsewhere(view: &ClusterView, catalog: &Catalog) -> BTreeSet<String> {
    let nodes = view.nodes.iter().filter_map(|node| node.labels.get(labels::ZONE));
    let classes = view.node_classes.values().filter_map(|class| class.status.as_ref());
    let subnets = classes.flat_map(|status| &status.subnets).map(|subnet| &subnet.zone);
    let known: BTreeSet<&str> = catalog.zones.iter().map(|zone| zone.name.as_str()).collect();
    nodes.chain(subnets).filter(|zone| !known.contains(zone.as_str())).cloned().collect()
}

/// The usage of each NodePool by its nodes and claims. In AWS the claims table counts it.
fn usage(
    cluster_state: &ClusterState<'_>,
    types: &BTreeMap<String, Result<InstanceTypes, String>>,
) -> BTreeMap<String, PoolUsage> {
    let mut all: BTreeMap<String, PoolUsage> = BTreeMap::new();
    for place in &cluster_state.places {
        let of_node = place.node.and_then(|node| node.node_pool());
        let of_claim = place.claim.and_then(|claim| claim.node_pool.as_deref());
        let Some(pool) = of_node.or(of_claim) else { continue };
        let usage = all.entry(pool.to_owned()).or_default();
        let node = place.node.map(|node| &node.capacity).filter(|capacity| !capacity.is_empty());
        let claim = place.claim.map(|claim| match claim.status.capacity.is_empty() {
            true => &claim.spec.requests,
            false => &claim.status.capacity,
        });
        if let Some(capacity) = node.or(claim) {
            usage.resources.add(capacity);
        }
        let counted = usage.resources.get(resources::name::NODES) + Quantity::from_units(1);
        usage.resources.set(resources::name::NODES, counted);
        let node_labels = place.node.map(|node| &node.labels).or_else(|| place.claim.map(|claim| &claim.status.labels));
        let class =
            cluster_state.view.node_pools.iter().find(|one| one.name == pool).map(|one| &one.template.node_class);
        let types = class.and_then(|class| types.get(class)).and_then(|types| types.as_ref().ok());
        usage.dollars_per_hour += node_labels.zip(types).map_or(0.0, |(own, types)| price(own, types));
        usage.dollars_per_hour += place.claim.map_or(0.0, NodeClaim::root_volume_price);
    }
    all
}
