//! Removing nodes by choice: proposed on one view of the cluster, done when a later view still finds it right.

use super::churn::Breaker;
use super::commands::{Commands, Hands};
use super::pools::Judged;
use super::situation::Situation;
use super::told::OnBoth;
use super::{PlanReport, Planner};
use crate::lines::DisruptionSkipped;
use crate::names::Names;
use crate::node_class;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::{
    Cluster, ClusterNode, Command, Decision, KeptReason, NodeClassFacts, Options, decide, revalidate,
};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::duration::format_go_duration;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, DisruptionReason, NodeClaim, Pod};
use nodeless_ports::cluster::ClusterView;
use nodeless_telemetry::Metrics;
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long a plan goes on with commands. A planner function has 40 s; many commands go on in the next plan.
const AT_MOST: Duration = Duration::from_secs(15);
/// How many claims are told of together that they were changed: as many messages as one call to SQS takes.
const TOGETHER: usize = 10;

impl Planner {
    /// Decides which nodes go, writes that down as commands, and goes on with those that were decided long enough ago and
    /// still are right.
    #[expect(clippy::too_many_arguments, reason = "the plan's parts, which no struct would make clearer")]
    pub(super) async fn disrupt(
        &self,
        situation: &Situation<'_>,
        judged: &[Judged],
        commands: Commands,
        names: &mut Names,
        now: Timestamp,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
        metrics: &mut Metrics,
    ) {
        let unsure = doubt(situation.view);
        let mut hands = Hands::new(situation.view, situation.records, judged, unsure.as_deref(), now);
        if let Some(why) = unsure.as_ref().or(commands.damaged.first()) {
            self.context.log(&DisruptionSkipped { why });
            report.problems.push(format!("no node is disrupted by choice: {why}"));
            // Nodes that were tainted for a command must not stay so for as long as this takes.
            for record in commands.records.iter().filter(|record| record.phase != CommandPhase::Proposed) {
                self.advance(record.clone(), &mut hands, report, events).await;
            }
            self.wake_changed(&mut hands).await;
            return;
        }
        let options = self.disruption_options();
        let mut cluster = input(situation, judged, &commands.records, None);
        let backlog = self.backlog(report).await;
        cluster.not_looked_at = backlog.clone().unwrap_or_default();
        let mut decision = decide(&cluster, now, &options);
        // What was done within the last hour is read only where more would be done: an idle cluster pays nothing for it.
        let ripe = |record: &CommandRecord| record.phase == CommandPhase::Proposed && record.ripe_in(now).is_zero();
        let mut breaker = Breaker::default();
        if !decision.commands.is_empty() || commands.records.iter().any(ripe) {
            breaker = self.breaker(situation, judged, &commands.records, now).await;
        }
        if !breaker.stopped.is_empty() {
            cluster.stopped.clone_from(&breaker.stopped);
            decision = decide(&cluster, now, &options);
        }
        self.note_backlog(&decision, backlog, now, report).await;
        report.kept.clone_from(&decision.kept);
        if let Some(wait) = next_change(&decision, now) {
            report.wait_at_most(wait);
        }
        events.extend(decision.events.iter().cloned());
        let said = OnBoth::new(situation);
        events.extend(said.kept(&decision.kept));
        if !decision.commands.is_empty() {
            self.record_decision(&decision, &cluster, &options, now).await;
        }
        for command in decision.commands {
            events.extend(said.candidates(&command, judged));
            let record = CommandRecord::propose(command);
            report.wait_at_most(record.ripe_in(now));
            self.propose(&record, report).await;
        }
        self.release_forgotten(&commands.records, &mut hands, report).await;
        self.go_on(situation, judged, &commands.records, &options, &mut breaker, names, hands, report, events).await;
        self.tell_stopped(&breaker, judged, report, events, metrics);
    }

    /// Writes down what was proposed, and why every other node stays, with all reasons: as `nodeless plan --disruption`.
    async fn record_decision(&self, decision: &Decision, cluster: &Cluster<'_>, options: &Options, now: Timestamp) {
        // To find all reasons takes longer, so it is done for what is written down only.
        let explained = decide(cluster, now, &Options { explain: true, ..options.clone() });
        let subjects = decision.commands.iter().flat_map(|command| &command.candidates);
        let subjects: Vec<String> = subjects.map(|candidate| candidate.node_claim.clone()).collect();
        let summary = format!("{} nodes may go, {} stay", subjects.len(), decision.kept.len());
        let detail = super::record::detail(&decision.commands, &explained.kept, &decision.not_looked_at);
        self.record("disruption-proposed", subjects, summary, detail, now).await;
    }

    pub(super) fn disruption_options(&self) -> Options {
        Options {
            hash_version: nodeless_api::hash::VERSION.to_owned(),
            scheduling: self.settings.scheduling,
            spot_to_spot: self.settings.gates.spot_to_spot_consolidation,
            ..Options::default()
        }
    }

    /// Goes on with the commands that are on their way.
    #[expect(clippy::too_many_arguments, reason = "the plan's parts, which no struct would make clearer")]
    async fn go_on(
        &self,
        situation: &Situation<'_>,
        judged: &[Judged],
        commands: &[CommandRecord],
        options: &Options,
        breaker: &mut Breaker,
        names: &mut Names,
        mut hands: Hands<'_>,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) {
        let now = hands.now();
        for record in commands {
            if Duration::try_from(self.context.now().duration_since(now)).is_ok_and(|took| took > AT_MOST) {
                // Those that are left are as they were; what was begun must be told before this process is ended.
                self.plan_again().await;
                break;
            }
            if hands.changed() >= TOGETHER {
                self.wake_changed(&mut hands).await;
            }
            if record.phase != CommandPhase::Proposed {
                self.advance(record.clone(), &mut hands, report, events).await;
                continue;
            }
            let wait = record.ripe_in(now);
            if !wait.is_zero() {
                report.wait_at_most(wait);
                report.proposed.extend(record.candidates().iter().map(|candidate| candidate.node_claim.clone()));
                continue;
            }
            let mut fresh = input(situation, judged, commands, Some(&record.command.id));
            fresh.stopped.clone_from(&breaker.stopped);
            let again = revalidate(&record.command, &fresh, now, options);
            let confirmed = match again {
                Some(again) => self.confirm(record, again, judged, commands.len(), names, now).await,
                None => Err("it is no longer right".to_owned()),
            };
            match confirmed {
                Ok(confirmed) => match self.note_churn(&confirmed.command, breaker, now).await {
                    Ok(()) => self.carry_out(confirmed, &mut hands, report, events).await,
                    Err(error) => self.wait(record, &error.to_string(), report),
                },
                Err(why) => {
                    self.drop_proposal(record, report).await;
                    events.extend(OnBoth::new(situation).rejected(&record.command, &why));
                }
            }
        }
        self.wake_changed(&mut hands).await;
    }

    async fn confirm(
        &self,
        record: &CommandRecord,
        again: Command,
        judged: &[Judged],
        in_flight: usize,
        names: &mut Names,
        now: Timestamp,
    ) -> Result<CommandRecord, String> {
        let replaces: Vec<String> = again.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
        let replacements = self.planned(&again.replacements, &replaces, judged, names, now).await?;
        Ok(record.confirm(again, replacements, in_flight, now))
    }
}

/// When the first node that is kept for a while only may be looked at again, rounded up to whole seconds.
fn next_change(decision: &Decision, now: Timestamp) -> Option<Duration> {
    let until = decision.kept.iter().flat_map(|kept| &kept.reasons).filter_map(|reason| match reason {
        KeptReason::TooRecent { until, .. } | KeptReason::Nominated { until } => Some(*until),
        _ => None,
    });
    let wait = Duration::try_from(until.min()?.duration_since(now)).unwrap_or_default();
    Some(Duration::from_secs(wait.as_secs() + 1))
}

/// Why no node may be disrupted by choice now: something that could not be decoded may stand in the way.
pub(super) fn doubt(view: &ClusterView) -> Option<String> {
    let matters = ["Node", "Pod", "PodDisruptionBudget", "DaemonSet", "CapacityBuffer"];
    let hidden = view.invalid.iter().find(|object| matters.contains(&object.kind.as_str()))?;
    Some(format!("{} {} cannot be understood: {}", hidden.kind, hidden.name, hidden.message))
}

/// What nodes are compared with, by the name of the EC2NodeClass. A class without a hash of ours was not resolved yet, so
/// nothing can be measured against it.
pub(super) fn class_facts(view: &ClusterView) -> BTreeMap<String, NodeClassFacts> {
    let classes = view.node_classes.iter();
    classes.filter_map(|(name, class)| Some((name.clone(), node_class::facts(class)?))).collect()
}

/// The cluster as decisions see it. A command that is validated again must not be in its own way: `without` names it.
pub(super) fn input<'a>(
    situation: &'a Situation<'_>,
    judged: &'a [Judged],
    commands: &'a [CommandRecord],
    without: Option<&str>,
) -> Cluster<'a> {
    let others = || commands.iter().filter(|record| without != Some(record.command.id.as_str()));
    let under_way = others().map(|record| &record.command).collect();
    let commands: BTreeMap<&str, &str> = others()
        .flat_map(|record| {
            let id = record.command.id.as_str();
            record.candidates().iter().map(move |candidate| (candidate.node_claim.as_str(), id))
        })
        .collect();
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
        node_classes: class_facts(situation.view),
        pending_pods: situation.view.pods.iter().filter(|pod| pod.awaits_node()).collect(),
        buffer_pods: situation.virtual_pods.clone(),
        disruption_budgets: &situation.view.disruption_budgets,
        daemon_sets: &situation.view.daemon_sets,
        volumes: situation.volumes(),
        volume_drivers: situation.view.volume_drivers.clone(),
        volume_limits: situation.view.volume_limits.clone(),
        namespaces: situation.view.namespaces.clone(),
        annotations: situation.view.annotations.clone(),
        under_way,
        shifted_zones: situation.shifted.iter().map(|shifted| (shifted.zone.clone(), shifted.until)).collect(),
        ..Cluster::default()
    }
}

/// The pods that would have to find another node.
pub(super) fn reschedulable<'p, 'a>(pods: &'p [&'a Pod]) -> impl Iterator<Item = &'a Pod> + use<'p, 'a> {
    pods.iter().copied().filter(|pod| pod.is_reschedulable())
}

pub(super) fn termination(reason: DisruptionReason) -> TerminationReason {
    match reason {
        DisruptionReason::Empty => TerminationReason::Empty,
        DisruptionReason::Underutilized => TerminationReason::Underutilized,
        DisruptionReason::Drifted => TerminationReason::Drifted,
    }
}

/// Why a command takes a node, in a sentence.
pub(super) fn message(reason: DisruptionReason, claim: &NodeClaim) -> String {
    let said = |kind: &str| {
        let condition = claim.condition(kind).filter(|condition| condition.status == ConditionStatus::True)?;
        Some(condition.message.clone()).filter(|message| !message.is_empty())
    };
    match reason {
        DisruptionReason::Empty => "its node has no pods".to_owned(),
        DisruptionReason::Underutilized => "its pods fit elsewhere for less".to_owned(),
        DisruptionReason::Drifted => said(condition::DRIFTED)
            .or_else(|| said(condition::REBALANCE_RECOMMENDED))
            .or_else(|| {
                Some(format!(
                    "it reaches its expireAfter of {} before long",
                    format_go_duration(claim.spec.expire_after?)
                ))
            })
            .unwrap_or_else(|| "it no longer is what its NodePool or EC2NodeClass describes".to_owned()),
    }
}
