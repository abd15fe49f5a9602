//! Warm nodes: keeps the stopped instances that the annotation `nodeless.sh/warm` of a NodePool asks for.
//!
//! The stage is level-triggered, as that of static capacity: each plan compares the number with the claims. It comes after the launches for
//! pods, so that it replaces what they took, within the limits that they left.

use crate::action::{Action, Batch, Stage, Written};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches::stopped::has_drifted;
use crate::launches::{self, PlannedNode};
use crate::nodes::voluntary_disruption::doubt;
use crate::pods::placed::Placed;
use crate::pools::EvaluatedPool;
use crate::records::decisions::decision;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_api::nodeclass::AmiFamily;
use nodeless_disruption::launches_of_template;
use nodeless_launch::user_data::has_script_of_first_start;
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::{misconfigured, script_not_repeated};
use nodeless_model::object::ObjectEvent;
use nodeless_model::plural::counted;
use nodeless_model::{
    CapacityType, InvalidAnnotation, NodeClaim, NodePool, Phase, Requirement, ResourceList, Setting, labels,
};
use nodeless_operations::{names::Names, refused_stops};
use nodeless_scheduling::{Launch, PoolOffer};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// When a plan is retried that could not write a claim.
const SOON: Duration = Duration::from_secs(5);
/// The kind of the records of these decisions.
const KIND: &str = "warm-nodes";
/// The number of the latest claims that determine the instance type.
const LATEST: usize = 50;

/// The changes of one NodePool.
struct Change {
    node_pool: String,
    leaving: Vec<NodeClaim>,
    groups: Vec<Vec<NodeClaim>>,
    short: Option<String>,
}

/// Launches the missing warm nodes, and terminates the surplus and drifted ones. Returns the created claims. A plan that did not evaluate
/// all pods, or skips optional work, leaves that to the next one: pods may still need what the limits allow.
pub(crate) async fn run(
    facts: Facts<'_>,
    placed: &Placed<'_>,
    names: &mut Names,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let any = facts.evaluated.iter().any(|one| one.pool.warm_nodes() != Setting::Unset);
    let is_complete = facts.snapshot.is_whole() && placed.unfinished().is_none();
    if !is_complete || (!any && !facts.claims.iter().any(NodeClaim::is_warm)) {
        return Vec::new();
    }
    outcome.events.extend(facts.evaluated.iter().filter_map(|one| reported(&one.pool, facts)));
    let mut offers: Vec<PoolOffer<'_>> = facts.evaluated.iter().map(EvaluatedPool::offer).collect();
    let mut changes = Vec::new();
    for (place, evaluated) in facts.evaluated.iter().enumerate() {
        changes.extend(change(evaluated, place, &mut offers, facts, names));
    }
    let actions = changes.iter().flat_map(|change| {
        let leaving = change.leaving.iter().map(|claim| Action::RetireClaim(Box::new(claim.clone())));
        leaving.chain(launches::writes(&change.groups, facts)).collect::<Vec<_>>()
    });
    let written = executor.carry_out(&Batch::each(Stage::Warm, actions.collect())).await;
    let (mut answers, mut actions, mut created) = (written.iter(), Vec::new(), Vec::new());
    for change in changes {
        actions.extend(change.written(&mut answers, facts.snapshot.now, outcome, &mut created));
    }
    executor.carry_out(&Batch::each(Stage::Warm, actions)).await;
    created
}

/// The changes of a NodePool, if there are any. An invalid annotation, which is reported, changes nothing.
fn change(
    evaluated: &EvaluatedPool,
    place: usize,
    offers: &mut [PoolOffer<'_>],
    facts: Facts<'_>,
    names: &mut Names,
) -> Option<Change> {
    let pool = &evaluated.pool;
    let now = facts.snapshot.now;
    let desired = desired(evaluated, facts)?;
    let of_pool = facts.claims.iter().filter(|claim| claim.is_of(&pool.name) && !claim.phase.is_leaving());
    // Where nothing can be launched, it is unknown what a new node would be. If none is kept, all are surplus.
    let compares = desired > 0 && pool.ready.is_ok();
    let (drifted, fresh): (Vec<&NodeClaim>, Vec<&NodeClaim>) =
        of_pool.filter(|claim| claim.is_warm()).partition(|claim| compares && has_drifted(claim, facts));
    let mut leaving = Vec::new();
    if !is_paused(pool, facts) && doubt(&facts.snapshot.view).is_none() {
        let message = format!("its NodePool {} keeps {desired} warm nodes", pool.name);
        let surplus = surplus(&fresh, desired).into_iter().map(|claim| (claim, TerminationReason::ScaledDown));
        for (claim, reason) in drifted.into_iter().map(|claim| (claim, TerminationReason::Drifted)).chain(surplus) {
            let mut after = claim.clone();
            if begin_termination(&mut after, reason, &message, now) {
                leaving.push(after);
            }
        }
    }
    let missing = if pool.ready.is_ok() { desired.saturating_sub(fresh.len()) } else { 0 };
    let (planned, short) = if missing > 0 && may_be_refused(pool, facts) {
        // A refusal lasts for hours, and its Event reports it.
        let is_unknown = facts.snapshot.refused_stops.is_err();
        (Vec::new(), is_unknown.then(|| "it is unknown whether EC2 refused to stop one".to_owned()))
    } else {
        planned(place, offers, missing, &fresh, facts)
    };
    let nodes = planned.iter().map(|launch| PlannedNode {
        launch,
        pods: Vec::new(),
        whole_for: None,
        replaces: Vec::new(),
        avoided: Vec::new(),
    });
    let mut groups = launches::groups(nodes.collect(), facts, names);
    groups.iter_mut().flatten().for_each(|claim| claim.phase = Phase::WarmReserved);
    (!leaving.is_empty() || !groups.is_empty() || short.is_some()).then(|| Change {
        node_pool: pool.name.clone(),
        leaving,
        groups,
        short,
    })
}

/// How many warm nodes the NodePool keeps now; `None` if its annotation cannot be read.
fn desired(evaluated: &EvaluatedPool, facts: Facts<'_>) -> Option<usize> {
    let pool = &evaluated.pool;
    if pool.deleting || evaluated.scheduled_off.is_some() || refused(pool, facts).is_some() {
        return Some(0);
    }
    match pool.warm_nodes() {
        Setting::Unset | Setting::Invalid(InvalidAnnotation::Contradiction { .. }) => Some(0),
        Setting::Valid(number) => Some(number),
        Setting::Invalid(InvalidAnnotation::Value { .. }) => None,
    }
}

/// Whether EC2 refused lately to stop an instance for the NodePool, so that a node would be launched in vain.
fn may_be_refused(pool: &NodePool, facts: Facts<'_>) -> bool {
    let Ok(refused) = &facts.snapshot.refused_stops else { return true };
    let mut own = refused.iter().filter(|stored| stored.node_pool == pool.name);
    own.any(|stored| refused_stops::in_effect(stored, Some(pool), facts.snapshot.now))
}

/// Why a NodePool keeps no stopped instances of its EC2NodeClass, if so. Other contradictions need only the NodePool, and are reported with
/// its other annotations.
fn refused(pool: &NodePool, facts: Facts<'_>) -> Option<InvalidAnnotation> {
    let class = &pool.template.node_class;
    let spec = &facts.snapshot.view.node_classes.get(class)?.spec;
    let (why, remedy) = match spec.resolved_ami_family() {
        _ if spec.instance_store_policy.is_some() => (
            "its EC2NodeClass has instanceStorePolicy, and an instance store loses its data when the instance stops",
            format!("remove instanceStorePolicy from EC2NodeClass {class}, or the annotation"),
        ),
        Some(AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025) => (
            "its EC2NodeClass has images of Windows, and it is not known whether their nodes join again after a stop",
            "remove the annotation".to_owned(),
        ),
        _ => return None,
    };
    Some(InvalidAnnotation::Contradiction { key: labels::WARM, why, remedy })
}

/// The event on a NodePool that keeps none because of that, or whose user data does not all run when a stopped instance is started.
fn reported(pool: &NodePool, facts: Facts<'_>) -> Option<ObjectEvent> {
    pool.warm_nodes().valid().filter(|number| **number > 0)?;
    if let Some(contradiction) = refused(pool, facts) {
        return Some(misconfigured(pool, labels::WARM, &contradiction.to_string()));
    }
    let class = &pool.template.node_class;
    let spec = &facts.snapshot.view.node_classes.get(class)?.spec;
    let family = spec.resolved_ami_family().unwrap_or(AmiFamily::Custom);
    has_script_of_first_start(family, spec.user_data.as_deref()).then(|| {
        let message = format!(
            "the script in the user data of EC2NodeClass {class} runs at the first start of an instance and not when a stopped one is \
             started as a node ({}): if it has to run then, let it install a systemd unit, or make it a part of type text/cloud-boothook",
            labels::WARM
        );
        script_not_repeated(pool, &message)
    })
}

/// Whether nodes of the NodePool are not disrupted voluntarily now. Then no warm node is terminated either: a pause usually means that the
/// present nodes are trusted more than new ones.
fn is_paused(pool: &NodePool, facts: Facts<'_>) -> bool {
    let options = [&pool.options.pause, &facts.snapshot.view.options.pause];
    options.into_iter().any(|pause| pause.in_effect(facts.snapshot.now).is_some())
}

/// The warm nodes beyond the desired number: first those that are not stopped yet, then the oldest.
fn surplus<'c>(fresh: &[&'c NodeClaim], desired: usize) -> Vec<&'c NodeClaim> {
    let mut all = fresh.to_vec();
    all.sort_by_key(|claim| (claim.is_stopped(), claim.created, claim.name.clone()));
    all.truncate(fresh.len().saturating_sub(desired));
    all
}

/// The launches of missing warm nodes, and why there are fewer, if so.
fn planned(
    place: usize,
    offers: &mut [PoolOffer<'_>],
    missing: usize,
    fresh: &[&NodeClaim],
    facts: Facts<'_>,
) -> (Vec<Launch>, Option<String>) {
    let Some(pool) = offers.get(place).map(|offer| offer.pool).filter(|_| missing > 0) else {
        return (Vec::new(), None);
    };
    let running = on_demand(facts.claims, &pool.name);
    let Some(instance_type) = usual_type(&running) else { return (Vec::new(), None) };
    let mut in_zone: BTreeMap<String, usize> = BTreeMap::new();
    let known = fresh.iter().filter_map(|claim| claim.status.instance.as_ref());
    known.for_each(|instance| *in_zone.entry(instance.zone.clone()).or_default() += 1);
    let mut launches = Vec::new();
    for _ in 0..missing {
        let Some(zone) = next_zone(&instance_type, offers.get(place), &in_zone, &running) else {
            let why = format!("EC2 has no on-demand capacity for {instance_type} now, which its nodes mostly are");
            return (launches, Some(why));
        };
        let narrowed = narrowed(pool, &instance_type, &zone);
        let Some(offer) = offers.get(place).map(|offer| PoolOffer { pool: &narrowed, ..offer.clone() }) else { break };
        let sets = &facts.snapshot.view.daemon_sets;
        let (found, why) = launches_of_template(&offer, sets, &ResourceList::new(), 1, &facts.disruption_options());
        let Some(launch) = found.into_iter().next() else { return (launches, Some(why)) };
        PoolOffer::charge(offers, &pool.name, &launch.charge);
        *in_zone.entry(zone).or_default() += 1;
        launches.push(launch);
    }
    (launches, None)
}

/// The latest on-demand claims of a NodePool with an instance, warm or not, the latest first.
fn on_demand<'c>(claims: &'c [NodeClaim], node_pool: &str) -> Vec<&'c NodeClaim> {
    let is_on_demand = |claim: &&NodeClaim| {
        let instance = claim.status.instance.as_ref();
        claim.is_of(node_pool) && instance.is_some_and(|it| it.capacity_type == CapacityType::OnDemand)
    };
    let mut found: Vec<&NodeClaim> = claims.iter().filter(is_on_demand).collect();
    found.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.name.cmp(&b.name)));
    found.truncate(LATEST);
    found
}

/// The instance type that most of these claims have; among equals the one of the latest claim.
fn usual_type(claims: &[&NodeClaim]) -> Option<String> {
    let mut counts: BTreeMap<&str, (usize, Reverse<usize>)> = BTreeMap::new();
    let types = claims.iter().filter_map(|claim| Some(claim.status.instance.as_ref()?.instance_type.as_str()));
    for (age, name) in types.enumerate() {
        counts.entry(name).or_insert((0, Reverse(age))).0 += 1;
    }
    counts.into_iter().max_by_key(|(_, rank)| *rank).map(|(name, _)| name.to_owned())
}

/// The zone of the next warm node: of those in which the NodePool can launch the type, the one with the fewest warm nodes, and among equals
/// the one with the most nodes.
fn next_zone(
    instance_type: &str,
    offer: Option<&PoolOffer<'_>>,
    in_zone: &BTreeMap<String, usize>,
    running: &[&NodeClaim],
) -> Option<String> {
    let offer = offer?;
    let kind = offer.instance_types.iter().find(|kind| kind.name == instance_type)?;
    let allows = |key: &str, value: &str| {
        offer.pool.template.requirements.get(key).is_none_or(|requirement| requirement.has(value))
    };
    if !allows(labels::INSTANCE_TYPE, instance_type) || !allows(labels::CAPACITY_TYPE, CapacityType::OnDemand.as_str())
    {
        return None;
    }
    let available = kind.offerings.iter().filter(|one| one.available && one.capacity_type == CapacityType::OnDemand);
    let zones = available.map(|one| one.zone.as_str()).filter(|zone| allows(labels::ZONE, zone));
    let nodes = |zone: &str| {
        let there = |claim: &&&NodeClaim| claim.status.instance.as_ref().is_some_and(|it| it.zone == zone);
        running.iter().filter(there).count()
    };
    let rank = |zone: &&str| (in_zone.get(*zone).copied().unwrap_or(0), Reverse(nodes(zone)), (*zone).to_owned());
    zones.min_by_key(rank).map(str::to_owned)
}

/// The NodePool, with on-demand nodes of this type and zone only.
fn narrowed(pool: &NodePool, instance_type: &str, zone: &str) -> NodePool {
    let mut narrowed = pool.clone();
    let requirements = &mut narrowed.template.requirements;
    // In place of its own, which allow these: a minimum number of instance types does not apply to one node of a known type.
    for (key, value) in [
        (labels::INSTANCE_TYPE, instance_type),
        (labels::ZONE, zone),
        (labels::CAPACITY_TYPE, CapacityType::OnDemand.as_str()),
    ] {
        requirements.remove(key);
        requirements.add(key, Requirement::one_of([value]));
    }
    narrowed
}

impl Change {
    /// Applies the results of the writes. Returns the further actions.
    fn written(
        self,
        answers: &mut std::slice::Iter<'_, Written>,
        now: Timestamp,
        outcome: &mut Outcome,
        all: &mut Vec<NodeClaim>,
    ) -> Vec<Action> {
        let Self { node_pool, leaving, groups, short } = self;
        let mut left = Vec::new();
        for (claim, answer) in leaving.into_iter().zip(answers.by_ref()) {
            match answer {
                Written::There(_) => left.push(claim.name),
                _ => outcome.report.wait_at_most(SOON),
            }
        }
        let created = launches::created(groups, answers);
        let names: Vec<String> = created.claims.iter().map(|claim| claim.name.clone()).collect();
        let mut actions = created.lines;
        outcome.add(created.outcome);
        outcome.report.leaving.extend(left.iter().cloned());
        if let Some(why) = &short {
            outcome.report.problems.push(format!("NodePool {node_pool} has fewer warm nodes than it keeps: {why}"));
        }
        let subjects: Vec<String> = names.iter().chain(&left).cloned().collect();
        if !subjects.is_empty() {
            let count = counted(names.len(), "warm node");
            let summary = format!("{count} launched for NodePool {node_pool}, {} terminated", left.len());
            let detail = json!({ "nodePool": node_pool, "launched": names, "terminated": left }).to_string();
            let woken = created.leaders.into_iter().chain(left).collect();
            actions.extend([Action::WakeClaims(woken), decision(KIND, subjects, summary, detail, now)]);
        }
        all.extend(created.claims);
        actions
    }
}
