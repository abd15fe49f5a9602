//! Removing nodes by choice: proposed on one view of the cluster, done when a later view still finds it right.

use super::commit::Wanted;
use super::pools::Judged;
use super::situation::Situation;
use super::{PlanReport, Planner};
use crate::lines::DisruptionSkipped;
use crate::names::Names;
use crate::node_class;
use jiff::Timestamp;
use nodeless_disruption::{
    Cluster, ClusterNode, Command, Decision, KeptReason, NodeClassFacts, Options, VALIDATION_DELAY, decide,
};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, DisruptionReason, NodeClaim, Phase, labels};
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::ClusterView;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Planner {
    /// Decides which nodes go, proposes them, and carries out what was proposed long enough ago and still is right.
    pub(super) async fn disrupt(
        &self,
        situation: &Situation<'_>,
        judged: &[Judged],
        names: &mut Names,
        now: Timestamp,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) {
        if let Some(why) = doubt(situation.view) {
            self.context.log(&DisruptionSkipped { why: &why });
            report.problems.push(format!("no node is disrupted by choice: {why}"));
            return;
        }
        self.finish_replacements(situation, now, report).await;
        let input = input(situation, judged);
        let options = Options {
            hash_version: nodeless_api::hash::VERSION.to_owned(),
            scheduling: self.settings.scheduling,
            ..Options::default()
        };
        let decision = decide(&input, now, &options);
        report.kept.clone_from(&decision.kept);
        report.next = next_change(&decision, now);
        events.extend(decision.events.iter().cloned());
        self.follow(situation, judged, &decision, names, now, report).await;
    }

    async fn follow(
        &self,
        situation: &Situation<'_>,
        judged: &[Judged],
        decision: &Decision,
        names: &mut Names,
        now: Timestamp,
        report: &mut PlanReport,
    ) {
        let chosen: BTreeSet<&str> = decision
            .commands
            .iter()
            .flat_map(|command| &command.candidates)
            .map(|candidate| candidate.node_claim.as_str())
            .collect();
        for claim in situation.records.iter().filter(|claim| proposed_since(claim).is_some()) {
            if !chosen.contains(claim.name.as_str()) && !claim.phase.is_leaving() {
                let mut next = claim.clone();
                next.clear_condition(condition::DISRUPTION_REASON);
                self.save(&next, report).await;
            }
        }
        for command in &decision.commands {
            let (ripe, young): (Vec<&NodeClaim>, Vec<&NodeClaim>) =
                candidates(situation, command).partition(|claim| is_ripe(claim, command.reason, now));
            for claim in young {
                self.propose(claim, command, now, report).await;
            }
            let whole = ripe.len() == command.candidates.len();
            if !command.replacements.is_empty() && whole {
                self.replace(command, judged, names, now, report).await;
            } else if command.replacements.is_empty() && !ripe.is_empty() {
                self.remove(command, &ripe, now, report).await;
            }
        }
    }

    async fn propose(&self, claim: &NodeClaim, command: &Command, now: Timestamp, report: &mut PlanReport) {
        report.proposed.push(claim.name.clone());
        report.next = Some(report.next.map_or(VALIDATION_DELAY, |next| next.min(VALIDATION_DELAY)));
        let reason = format!("{:?}", command.reason);
        if claim.condition(condition::DISRUPTION_REASON).is_some_and(|present| present.reason == reason) {
            return;
        }
        let mut next = claim.clone();
        next.clear_condition(condition::DISRUPTION_REASON);
        next.set_condition(condition::DISRUPTION_REASON, ConditionStatus::Unknown, &reason, "being validated", now);
        self.save(&next, report).await;
    }

    /// Makes claims leave whose nodes need no replacement.
    async fn remove(&self, command: &Command, ripe: &[&NodeClaim], now: Timestamp, report: &mut PlanReport) {
        let mut leaving = Vec::new();
        for claim in ripe {
            let mut next = (*claim).clone();
            begin_termination(&mut next, termination(command.reason), message(command.reason), now);
            if self.save(&next, report).await {
                leaving.push(claim.name.clone());
            }
        }
        self.wake(&leaving).await;
        let summary = format!(
            "{:?}: {} nodes go, saving {:.4} dollars per hour",
            command.reason,
            leaving.len(),
            command.savings_per_hour
        );
        let detail =
            json!({ "candidates": command.candidates, "savingsPerHour": command.savings_per_hour }).to_string();
        if !leaving.is_empty() {
            self.record("disruption", leaving.clone(), summary, detail, now).await;
        }
        report.leaving.extend(leaving);
    }

    /// Launches what takes the place of nodes; these leave once it is there.
    async fn replace(
        &self,
        command: &Command,
        judged: &[Judged],
        names: &mut Names,
        now: Timestamp,
        report: &mut PlanReport,
    ) {
        let replaces: Vec<String> = command.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
        let wanted = command.replacements.iter().map(|replacement| Wanted {
            launch: &replacement.launch,
            pods: replacement.pods.clone(),
            replaces: replaces.clone(),
        });
        let created = self.launch(wanted.collect(), judged, names, now, report).await;
        let made: Vec<String> = created.iter().map(|claim| claim.name.clone()).collect();
        let summary = format!("{:?}: {} replaced by {}", command.reason, replaces.join(", "), made.join(", "));
        let detail = json!({ "candidates": command.candidates, "replacements": made }).to_string();
        self.record("disruption", replaces, summary, detail, now).await;
    }

    /// Makes claims leave whose replacements are all ready. When a replacement failed, they stay.
    async fn finish_replacements(&self, situation: &Situation<'_>, now: Timestamp, report: &mut PlanReport) {
        let mut leaving = Vec::new();
        for claim in situation.records.iter().filter(|claim| !claim.phase.is_leaving()) {
            let mut successors = replacements_of(situation.records, &claim.name).peekable();
            if successors.peek().is_none() || successors.any(|successor| successor.phase != Phase::Initialized) {
                continue;
            }
            let reason = claim.condition(condition::DISRUPTION_REASON).map_or("", |present| &present.reason);
            let reason =
                if reason == "Underutilized" { DisruptionReason::Underutilized } else { DisruptionReason::Drifted };
            let mut next = claim.clone();
            begin_termination(&mut next, termination(reason), message(reason), now);
            if self.save(&next, report).await {
                leaving.push(claim.name.clone());
            }
        }
        self.wake(&leaving).await;
        report.leaving.extend(leaving);
    }

    async fn wake(&self, names: &[String]) {
        let messages: Vec<(String, Duration)> = names.iter().map(|name| (name.clone(), Duration::ZERO)).collect();
        if !messages.is_empty()
            && let Err(error) = self.queue.wake_claims(&messages).await
        {
            self.tell_failure("wake claims", &error);
        }
    }

    /// Writes a claim unless somebody else wrote it meanwhile, and says whether it did.
    async fn save(&self, claim: &NodeClaim, report: &mut PlanReport) -> bool {
        match self.claims.update(claim, None).await {
            Ok(_) => true,
            Err(error) if error.kind == ErrorKind::Conflict => false,
            Err(error) => {
                report.problems.push(format!("NodeClaim {}: {error}", claim.name));
                false
            }
        }
    }
}

/// Why no node may be disrupted by choice now: something that could not be decoded may stand in the way.
/// When the first node that is kept for a while only may be looked at again, rounded up to whole seconds.
fn next_change(decision: &Decision, now: Timestamp) -> Option<Duration> {
    let until = decision.kept.iter().flat_map(|kept| &kept.reasons).filter_map(|reason| match reason {
        KeptReason::TooRecent { until, .. } | KeptReason::Nominated { until } => Some(*until),
        _ => None,
    });
    let wait = Duration::try_from(until.min()?.duration_since(now)).unwrap_or_default();
    Some(Duration::from_secs(wait.as_secs() + 1))
}

fn doubt(view: &ClusterView) -> Option<String> {
    let matters = ["Node", "Pod", "PodDisruptionBudget", "DaemonSet", "CapacityBuffer"];
    let hidden = view.invalid.iter().find(|object| matters.contains(&object.kind.as_str()))?;
    Some(format!("{} {} cannot be understood: {}", hidden.kind, hidden.name, hidden.message))
}

fn input<'a>(situation: &'a Situation<'_>, judged: &'a [Judged]) -> Cluster<'a> {
    let commands: BTreeMap<&str, &str> = situation
        .records
        .iter()
        .filter(|claim| !claim.phase.is_leaving())
        .flat_map(|claim| claim.spec.replaces.iter().map(|replaced| (replaced.as_str(), claim.name.as_str())))
        .collect();
    let facts = situation.view.node_classes.iter().map(|(name, class)| {
        let hash = node_class::hash_annotations(class).remove(labels::EC2_NODE_CLASS_HASH).unwrap_or_default();
        (name.clone(), NodeClassFacts { hash, image_ids: node_class::image_ids(class) })
    });
    Cluster {
        nodes: situation
            .places
            .iter()
            .map(|place| ClusterNode {
                node: place.node,
                claim: place.claim,
                pods: place.pods.clone(),
                command: place.claim.and_then(|claim| commands.get(claim.name.as_str()).copied()),
            })
            .collect(),
        node_pools: judged.iter().map(Judged::offer).collect(),
        // A class without a hash was not resolved yet, so nothing can be measured against it.
        node_classes: facts.filter(|(_, facts)| !facts.hash.is_empty()).collect(),
        pending_pods: {
            let waiting = situation.view.pods.iter().filter(|pod| pod.awaits_node());
            // A node that a buffer needs is not empty.
            waiting.chain(situation.virtual_pods.iter().copied()).collect()
        },
        disruption_budgets: &situation.view.disruption_budgets,
        daemon_sets: &situation.view.daemon_sets,
        volumes: situation.volumes(),
        volume_drivers: situation.view.volume_drivers.clone(),
        volume_limits: situation.view.volume_limits.clone(),
        namespaces: situation.view.namespaces.clone(),
        ..Cluster::default()
    }
}

fn candidates<'a>(situation: &'a Situation<'_>, command: &'a Command) -> impl Iterator<Item = &'a NodeClaim> {
    situation
        .records
        .iter()
        .filter(|claim| command.candidates.iter().any(|candidate| candidate.node_claim == claim.name))
}

/// The claims that are to take the place of another and have not failed.
fn replacements_of<'a>(records: &'a [NodeClaim], name: &'a str) -> impl Iterator<Item = &'a NodeClaim> {
    records
        .iter()
        .filter(move |claim| !claim.phase.is_leaving() && claim.spec.replaces.iter().any(|other| other == name))
}

/// Since when a claim is proposed for disruption.
fn proposed_since(claim: &NodeClaim) -> Option<Timestamp> {
    let present = claim.condition(condition::DISRUPTION_REASON)?;
    (present.status == ConditionStatus::Unknown).then_some(present.last_transition_time)
}

/// Whether it was proposed for this reason long enough ago.
fn is_ripe(claim: &NodeClaim, reason: DisruptionReason, now: Timestamp) -> bool {
    let same =
        claim.condition(condition::DISRUPTION_REASON).is_some_and(|present| present.reason == format!("{reason:?}"));
    let age = proposed_since(claim).map(|since| now.duration_since(since));
    same && age.and_then(|age| Duration::try_from(age).ok()).is_some_and(|age| age >= VALIDATION_DELAY)
}

fn termination(reason: DisruptionReason) -> TerminationReason {
    match reason {
        DisruptionReason::Empty => TerminationReason::Empty,
        DisruptionReason::Underutilized => TerminationReason::Underutilized,
        DisruptionReason::Drifted => TerminationReason::Drifted,
    }
}

fn message(reason: DisruptionReason) -> &'static str {
    match reason {
        DisruptionReason::Empty => "its node has no pods",
        DisruptionReason::Underutilized => "its pods fit elsewhere for less",
        DisruptionReason::Drifted => "it no longer is what its NodePool or EC2NodeClass describes",
    }
}
