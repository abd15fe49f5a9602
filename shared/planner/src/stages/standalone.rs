//! NodeClaims without a NodePool, which a user or a program creates: each becomes a claim, which is launched as any other.
//!
//! The claim has the name of the object, and its uid is that of the object. It is written under the condition that no claim has the name,
//! together with the plan revision, and the uid is the client token of its launch. So one object never has two instances, wherever a
//! process ends, and an object that was created again under the same name is another claim, once the first has ended.

use crate::action::{Action, Batch, Stage};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches;
use crate::pools::class_readiness;
use crate::records::decisions::decision;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::launches_of_template;
use nodeless_launch::volume_prices;
use nodeless_model::claim::{Charge, LaunchGroup, condition};
use nodeless_model::events::node_claim_not_launched;
use nodeless_model::node_pool::{Disruption, NodeTemplate, PoolUsage};
use nodeless_model::object::{MirroredClaim, ObjectRef, StandaloneNode};
use nodeless_model::plural::counted;
use nodeless_model::{
    ConditionStatus, ConsolidationPolicy, InstanceTypes, NillableDuration, NodeClaim, NodeClaimSpec, NodeClaimStatus,
    NodePool, NodePoolOptions, Phase, ResourceList, labels,
};
use nodeless_scheduling::{Launch, PoolOffer};
use nodeless_state::limits::LaunchLimits;
use serde_json::json;
use std::collections::BTreeMap;

/// The kind of the records of these decisions.
const KIND: &str = "standalone-nodeclaim";
/// Why an object with the finalizer of a claim, and without a claim, is left alone.
const OF_ANOTHER: &str = "no node is launched for it: it has the finalizer karpenter.sh/termination and no claim, so another controller \
                          may be launching it; if none is, delete it and create it again";

/// The instance types of each EC2NodeClass, or why there are none. NodeOverlays do not apply to NodeClaims without a NodePool, as in
/// Karpenter.
pub(crate) type ClassTypes = BTreeMap<String, Result<InstanceTypes, String>>;

/// Makes claims of the objects that have none. Returns the claims after it.
///
/// The stage precedes provisioning, so that pods are planned for these nodes.
pub(crate) async fn run(
    facts: Facts<'_>,
    types: &ClassTypes,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let mut claims = facts.claims.to_vec();
    let mut groups = Vec::new();
    for (object, found) in sought(facts, types) {
        match found {
            Ok(claim) => groups.push(vec![claim]),
            Err(why) => {
                let event = node_claim_not_launched(ObjectRef::node_claim(&object.name, &object.uid), &why);
                outcome.events.push(event);
                outcome.report.problems.push(format!("NodeClaim {}: {why}", object.name));
            }
        }
    }
    if groups.is_empty() {
        return claims;
    }
    let write = |group: &Vec<NodeClaim>| Action::CreateGroup(group.clone(), LaunchLimits::default());
    let written = executor.carry_out(&batch(groups.iter().map(write).collect())).await;
    let created = launches::created(groups, &written);
    let mut actions = created.lines;
    if !created.claims.is_empty() {
        let names: Vec<String> = created.claims.iter().map(|claim| claim.name.clone()).collect();
        let summary = format!("{} launched for NodeClaims without a NodePool", counted(names.len(), "node"));
        let detail = json!({ "claims": names }).to_string();
        actions.push(Action::WakeClaims(created.leaders));
        actions.push(decision(KIND, names, summary, detail, facts.snapshot.now));
    }
    if created.incomplete {
        actions.push(Action::WakePlanner);
    }
    executor.carry_out(&batch(actions)).await;
    claims.extend(created.claims);
    outcome.add(created.outcome);
    claims
}

const fn batch(actions: Vec<Action>) -> Batch {
    Batch::each(Stage::Standalone, actions)
}

/// The objects that have no claim, in the order of their names, each with its claim, or why no node is launched for it.
fn sought<'a>(facts: Facts<'a>, types: &ClassTypes) -> Vec<(&'a MirroredClaim, Result<NodeClaim, String>)> {
    let has_claim = |object: &MirroredClaim| facts.claims.iter().any(|claim| claim.name == object.name);
    let objects = facts.snapshot.view.node_claims.iter();
    let mut found: Vec<_> = objects
        .filter_map(|object| {
            let node = object.standalone.as_deref().filter(|_| is_unlaunched(object) && !has_claim(object))?;
            let claim = match node {
                _ if is_of_another(object) => Err(OF_ANOTHER.to_owned()),
                Ok(node) => claim(object, node, facts, types),
                Err(why) => Err(format!("no node is launched for it: {why}")),
            };
            Some((object, claim))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    found
}

/// Whether an object is not being deleted, and has no instance yet, of nodeless or of another controller.
fn is_unlaunched(object: &MirroredClaim) -> bool {
    let launched = object.conditions.get(condition::LAUNCHED);
    let launched = launched.is_some_and(|(status, _)| status == ConditionStatus::True.as_str());
    object.deletion_timestamp.is_none() && object.provider_id.is_none() && !launched
}

/// Whether another controller may be launching a node for an object. Karpenter adds its finalizer before it launches
/// (`pkg/controllers/nodeclaim/lifecycle/controller.go`). An object whose claim was lost has the uid of its claim, which is its own.
fn is_of_another(object: &MirroredClaim) -> bool {
    let is_ours = object.record_uid.as_deref() == Some(object.uid.as_str());
    !is_ours && object.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
}

/// The claim of an object.
fn claim(
    object: &MirroredClaim,
    node: &StandaloneNode,
    facts: Facts<'_>,
    types: &ClassTypes,
) -> Result<NodeClaim, String> {
    let snapshot = facts.snapshot;
    let name = &node.template.node_class;
    let not = |why: String| format!("no node is launched for it: {why}");
    class_readiness(&snapshot.view, name).map_err(|(_, why)| not(why))?;
    let types = match types.get(name) {
        Some(Ok(types)) => types,
        Some(Err(why)) => return Err(not(format!("EC2NodeClass {name}: {why}"))),
        None => return Err(not(format!("the instance types of EC2NodeClass {name} are not known"))),
    };
    let pool = as_pool(object, &node.template);
    let offer = PoolOffer { pool: &pool, instance_types: types.clone(), usage: PoolUsage::default(), cluster: None };
    let (launches, why) =
        launches_of_template(&offer, &snapshot.view.daemon_sets, &node.requests, 1, &facts.disruption_options());
    let launch = launches.into_iter().next().ok_or_else(|| not(of_no_pool(&why, &pool.name)))?;
    let class = snapshot.view.node_classes.get(name);
    let mut claim = claim_of(object, &node.template, &launch, snapshot.now);
    claim.spec.annotations.extend(launches::class_annotations(class));
    claim.spec.volumes_per_month = class.and_then(|class| volume_prices::dollars_per_month(&class.spec));
    // Until the capacity of the node is known, pending pods may only use the minimum of its instance types.
    claim.status.allocatable = launches::least(&launch, types);
    Ok(claim)
}

/// The template of an object as that of a NodePool, because the scheduler launches nodes of NodePools.
fn as_pool(object: &MirroredClaim, template: &NodeTemplate) -> NodePool {
    NodePool {
        name: object.name.clone(),
        uid: String::new(),
        generation: 0,
        template: template.clone(),
        // No plan disrupts it.
        disruption: Disruption {
            consolidation_policy: ConsolidationPolicy::WhenEmpty,
            consolidate_after: NillableDuration::Never,
            budgets: Vec::new(),
        },
        options: NodePoolOptions::default(),
        limits: ResourceList::new(),
        limit_dollars_per_hour: None,
        label_keys: Vec::new(),
        weight: 0,
        replicas: None,
        ready: Ok(()),
        deleting: false,
        hash: String::new(),
    }
}

/// A reason of the scheduler without the name of the NodePool that stands for the object.
fn of_no_pool(why: &str, name: &str) -> String {
    why.replace(&format!("NodePool {name}: "), "")
}

fn claim_of(object: &MirroredClaim, template: &NodeTemplate, launch: &Launch, now: Timestamp) -> NodeClaim {
    let mut requirements = launch.requirements.clone();
    requirements.remove(labels::NODE_POOL);
    let mut annotations = template.annotations.clone();
    if launch.min_values_relaxed {
        annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
    }
    let mut claim = NodeClaim {
        name: object.name.clone(),
        uid: object.uid.clone(),
        node_pool: None,
        node_class: template.node_class.clone(),
        created: object.created.unwrap_or(now),
        version: 0,
        spec: NodeClaimSpec {
            requirements,
            instance_types: launch.instance_types.iter().map(|kind| kind.name.clone()).collect(),
            labels: template.labels.clone(),
            annotations,
            taints: template.taints.clone(),
            startup_taints: template.startup_taints.clone(),
            requests: launch.requests.clone(),
            expire_after: template.expire_after.and_then(NillableDuration::duration),
            termination_grace_period: template.termination_grace_period,
            launch_group: Some(LaunchGroup { id: object.uid.clone(), index: 0, size: 1, all_or_none: false }),
            charge: Charge::default(),
            ..NodeClaimSpec::default()
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    };
    nodeless_lifecycle::prepare(&mut claim);
    // The time of the launch counts from now: the object may be older.
    for condition in &mut claim.status.conditions {
        condition.last_transition_time = now;
    }
    claim
}
