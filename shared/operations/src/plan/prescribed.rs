//! What is done about nodes whatever their pods need: fixed numbers of nodes, times of sleep, repair.
//!
//! It is level-triggered: each plan compares what there should be with the claims, and changes the claims. A claim is written
//! before it is launched and before its node is drained, so a process that ends here leaves nothing that the next plan or the
//! sweep would not find.

use super::commands::Commands;
use super::commit::Wanted;
use super::disrupt::{doubt, input};
use super::pools::Judged;
use super::situation::Situation;
use super::{PlanReport, Planner};
use crate::events::on_node;
use crate::lines::{DisruptionSkipped, Failed};
use crate::names::Names;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::repair::{Unhealthy, Verdict, unhealthy};
use nodeless_disruption::{Candidate, Cluster, ClusterNode, StaticChange, schedules, static_changes};
use nodeless_lifecycle::{begin_termination, claim_event};
use nodeless_model::NodeClaim;
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_ports::cluster::ClusterView;
use nodeless_ports::{ErrorKind, ShiftedZone};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// When a plan is made again that could not write a claim.
const SOON: Duration = Duration::from_secs(5);

/// What this part of a plan looks at, and what it changes.
pub(super) struct Prescription<'p> {
    pub(super) view: &'p ClusterView,
    pub(super) judged: &'p [Judged],
    pub(super) commands: &'p Commands,
    pub(super) shifted: &'p [ShiftedZone],
    pub(super) now: Timestamp,
    pub(super) names: &'p mut Names,
    pub(super) report: &'p mut PlanReport,
    pub(super) events: &'p mut Vec<ObjectEvent>,
}

/// A node that has to go, and why.
struct Going {
    candidate: Candidate,
    reason: TerminationReason,
    message: String,
}

impl Planner {
    /// Does what has to be done about nodes before pods are looked at: those that go make their pods move, and those that come
    /// have room for pods. Gives the claims as they are then.
    pub(super) async fn prescribe(&self, mut records: Vec<NodeClaim>, mut plan: Prescription<'_>) -> Vec<NodeClaim> {
        let under_way = launched(plan.commands, &records);
        let mut going = Vec::new();
        if self.settings.gates.node_repair {
            going.extend(repairs(&records, &under_way, &mut plan));
        }
        let asleep = plan.judged.iter().any(|judged| judged.asleep.is_some());
        let fixed = plan.judged.iter().any(|judged| judged.pool.replicas.is_some());
        // What cannot be seen may stand in the way of nodes that go by choice, and in that of no new node.
        let doubt = doubt(plan.view).filter(|_| asleep || fixed);
        if let Some(why) = &doubt {
            self.context.log(&DisruptionSkipped { why });
        }
        if asleep && doubt.is_none() {
            going.extend(sleepers(&records, &under_way, &plan));
        }
        self.retire(&mut records, going, "prescribed", &mut plan).await;
        if fixed {
            self.keep_numbers(&mut records, &under_way, doubt.is_none(), &mut plan).await;
        }
        records
    }

    /// Gives static NodePools the nodes that they lack, and takes those that they have too many.
    async fn keep_numbers(
        &self,
        records: &mut Vec<NodeClaim>,
        under_way: &[CommandRecord],
        removes: bool,
        plan: &mut Prescription<'_>,
    ) {
        let changes = {
            let situation = Situation::new(plan.view, records).with_shifted(plan.shifted);
            let cluster = whole(&situation, plan.judged, under_way);
            static_changes(&cluster, plan.now, &self.disruption_options())
        };
        for change in changes {
            let asleep = plan.judged.iter().any(|one| one.pool.name == change.node_pool && one.asleep.is_some());
            if removes {
                let going = change.surplus.iter().map(|candidate| too_many(candidate, asleep)).collect();
                self.retire(records, going, "static-capacity", plan).await;
            }
            self.launch_missing(records, &change, plan).await;
        }
    }

    async fn launch_missing(&self, records: &mut Vec<NodeClaim>, change: &StaticChange, plan: &mut Prescription<'_>) {
        let pool = &change.node_pool;
        let wanted: Vec<Wanted<'_>> = change
            .launches
            .iter()
            .map(|launch| Wanted { launch, pods: Vec::new(), replaces: Vec::new(), avoided: Vec::new() })
            .collect();
        let created = match wanted.is_empty() {
            true => Vec::new(),
            false => self.launch(wanted, plan.judged, plan.names, plan.now, plan.report).await,
        };
        if !created.is_empty() {
            let names: Vec<String> = created.iter().map(|claim| claim.name.clone()).collect();
            let summary = format!("{} nodes launched, which NodePool {pool} lacked of its replicas", names.len());
            let detail = json!({ "nodePool": pool, "claims": names, "short": change.short }).to_string();
            self.record("static-capacity", names, summary, detail, plan.now).await;
            records.extend(created);
        }
        // That a NodePool is not ready is said where that was found out.
        let judged = plan.judged.iter().find(|one| one.pool.name == *pool && one.pool.ready.is_ok());
        if let (Some(why), Some(judged)) = (&change.short, judged) {
            plan.report.problems.push(format!("NodePool {pool} has fewer nodes than replicas: {why}"));
            let message = format!("fewer nodes than spec.replicas: {why}");
            plan.events.push(pool_event(judged, "ReplicasNotReached", message));
        }
    }

    /// Tells claims to leave, and has them looked after. One that somebody else writes at this moment is left to the next plan.
    async fn retire(&self, records: &mut [NodeClaim], going: Vec<Going>, kind: &str, plan: &mut Prescription<'_>) {
        let mut left = Vec::new();
        let mut told = BTreeSet::new();
        for Going { candidate, reason, message } in going {
            let Some(claim) = records.iter_mut().find(|claim| claim.name == candidate.node_claim) else { continue };
            let mut next = claim.clone();
            if !begin_termination(&mut next, reason, &message, plan.now) {
                continue;
            }
            match self.claims.update(&next, None).await {
                Ok(version) => next.version = version,
                Err(error) => {
                    if error.kind != ErrorKind::Conflict {
                        plan.report.problems.push(format!("NodeClaim {}: {error}", claim.name));
                    }
                    plan.report.wait_at_most(SOON);
                    continue;
                }
            }
            plan.events.extend(leaving(&candidate, reason, &message));
            told.insert(message);
            left.push(next.name.clone());
            *claim = next;
        }
        if left.is_empty() {
            return;
        }
        let messages: Vec<(String, Duration)> = left.iter().map(|name| (name.clone(), Duration::ZERO)).collect();
        if let Err(error) = self.queue.wake_claims(&messages).await {
            // The sweep finds the claims.
            self.context.log(&Failed { what: "wake claims", why: &error.to_string() });
        }
        let summary = told.into_iter().collect::<Vec<_>>().join("; ");
        let detail = json!({ "claims": left }).to_string();
        self.record(kind, left.clone(), summary, detail, plan.now).await;
        plan.report.leaving.extend(left);
    }
}

/// The commands whose replacements are all there: until then their nodes are still those that there should be.
fn launched(commands: &Commands, records: &[NodeClaim]) -> Vec<CommandRecord> {
    let there = |name: &str| records.iter().any(|claim| claim.name == name);
    let complete = |record: &&CommandRecord| {
        let begun = matches!(record.phase, CommandPhase::Launching | CommandPhase::Waiting | CommandPhase::Draining);
        begun && record.replacements.iter().all(|replacement| there(&replacement.name))
    };
    commands.records.iter().filter(complete).cloned().collect()
}

/// The cluster with all claims, those too that have lost their node.
fn whole<'a>(situation: &'a Situation<'_>, judged: &'a [Judged], under_way: &'a [CommandRecord]) -> Cluster<'a> {
    let mut cluster = input(situation, judged, under_way, None);
    let placed: BTreeSet<&str> =
        situation.places.iter().filter_map(|place| place.claim).map(|claim| claim.name.as_str()).collect();
    let lost = situation.records.iter().filter(|claim| !placed.contains(claim.name.as_str()));
    cluster.nodes.extend(lost.map(|claim| ClusterNode { claim: Some(claim), ..ClusterNode::default() }));
    cluster
}

/// The nodes of NodePools that sleep.
fn sleepers(records: &[NodeClaim], under_way: &[CommandRecord], plan: &Prescription<'_>) -> Vec<Going> {
    let situation = Situation::new(plan.view, records).with_shifted(plan.shifted);
    let retiring = schedules::retiring(&whole(&situation, plan.judged, under_way), plan.now);
    let going = retiring.into_iter().map(|(candidate, until)| Going {
        message: format!("its NodePool {} sleeps until {until}", candidate.node_pool),
        candidate,
        reason: TerminationReason::Asleep,
    });
    going.collect()
}

fn too_many(candidate: &Candidate, asleep: bool) -> Going {
    let pool = &candidate.node_pool;
    let (reason, message) = match asleep {
        true => (TerminationReason::Asleep, format!("its NodePool {pool} sleeps")),
        false => (TerminationReason::ScaledDown, format!("NodePool {pool} has more nodes than its replicas")),
    };
    Going { candidate: candidate.clone(), reason, message }
}

/// The nodes that have been unhealthy for too long. Where too many are at once, that is said instead.
fn repairs(records: &[NodeClaim], under_way: &[CommandRecord], plan: &mut Prescription<'_>) -> Vec<Going> {
    let situation = Situation::new(plan.view, records).with_shifted(plan.shifted);
    let found = match unhealthy_nodes(&situation, plan.judged, under_way, plan.now) {
        Ok(found) => found,
        Err(why) => {
            plan.report.problems.push(why);
            return Vec::new();
        }
    };
    plan.events.extend(found.iter().flat_map(|node| repair_blocked(node, plan.judged)));
    let due = found.into_iter().filter(|node| node.verdict == Verdict::Repair);
    let going = |Unhealthy { node, node_claim, node_pool, message, .. }| Going {
        candidate: Candidate { node, node_claim, node_pool },
        reason: TerminationReason::Unhealthy,
        message,
    };
    due.map(going).collect()
}

/// The nodes that are not healthy, and what is to be done about them where node repair is switched on.
///
/// # Errors
/// When a Node cannot be decoded: it is missing among those of which a share may be unhealthy.
pub(super) fn unhealthy_nodes(
    situation: &Situation<'_>,
    judged: &[Judged],
    under_way: &[CommandRecord],
    now: Timestamp,
) -> Result<Vec<Unhealthy>, String> {
    if let Some(hidden) = situation.view.invalid.iter().find(|object| object.kind == "Node") {
        return Err(format!("no node is repaired: Node {}: {}", hidden.name, hidden.message));
    }
    Ok(unhealthy(&whole(situation, judged, under_way), now))
}

/// What is said where a node is not repaired although it is due.
pub(super) fn repair_blocked(node: &Unhealthy, judged: &[Judged]) -> Vec<ObjectEvent> {
    let Verdict::Blocked(why) = &node.verdict else { return Vec::new() };
    let on_claim = claim_event(&node.node_claim, "", true, "NodeRepairBlocked", why);
    let of_pool = judged.iter().find(|one| one.pool.name == node.node_pool);
    let on_pool = of_pool.map(|judged| pool_event(judged, "NodeRepairBlocked", why.clone()));
    [on_node(&on_claim, node.node.clone()), on_claim].into_iter().chain(on_pool).collect()
}

fn leaving(candidate: &Candidate, reason: TerminationReason, message: &str) -> [ObjectEvent; 2] {
    let warning = reason == TerminationReason::Unhealthy;
    let text = format!("Disrupting NodeClaim: {message}");
    let on_claim = claim_event(&candidate.node_claim, "", warning, "DisruptionTerminating", &text);
    let text = format!("Disrupting Node: {message}");
    let on_node = ObjectEvent { message: text, ..on_node(&on_claim, candidate.node.clone()) };
    [on_claim, on_node]
}

/// A warning on a NodePool.
pub(super) fn pool_event(judged: &Judged, reason: &str, message: String) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            namespace: String::new(),
            name: judged.pool.name.clone(),
            uid: judged.pool.uid.clone(),
        },
        warning: true,
        reason: reason.to_owned(),
        message,
    }
}
