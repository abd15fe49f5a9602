//! Voluntary disruption: proposed on one snapshot of the cluster, and executed once a later snapshot has validated it.

use super::command_steps::{ClaimsNow, CommandRun, put};
use crate::names::Names;
use crate::plan::action::{Action, Batch, PlanLine, Stage, Written};
use crate::plan::churn::Breaker;
use crate::plan::facts::Facts;
use crate::plan::launches::planned;
use crate::plan::nodes::cluster_state::ClusterState;
use crate::plan::nodes::node_events::NodeEvents;
use crate::plan::nodes::voluntary_disruption::{doubt, input, next_change};
use crate::plan::records::decisions;
use crate::plan::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::{Cluster, Command, Decision, KeptReason, Options, decide, revalidate};
use nodeless_model::NodeClaim;
use nodeless_state::StoredRecord;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the record of nodes that a decision did not evaluate is kept.
const KEEP_NOT_YET_EVALUATED: Duration = Duration::from_hours(24);
/// After this number of changed claims lifecycle is woken, before the next command or the rest of one is carried out.
pub(in crate::plan) const TOGETHER: usize = 10;

/// Whether nodes may be disrupted voluntarily in this plan.
pub(in crate::plan) enum Begun<'a> {
    /// No node may be disrupted. Commands that have started continue as far as `doubt` allows.
    Off { batch: Batch, doubt: Option<String>, outcome: Box<Outcome> },
    /// A decision was made.
    Decided(Box<Deciding<'a>>),
}

/// The decision, before the recent disruption is known.
pub(in crate::plan) struct Deciding<'a> {
    facts: Facts<'a>,
    cluster_state: &'a ClusterState<'a>,
    options: Options,
    pub(in crate::plan) cluster: Cluster<'a>,
    pub(in crate::plan) decision: Decision,
}

/// Decides which nodes to disrupt, unless something forbids it. `work` is the work budget; `unfinished` is why not all pods were
/// evaluated.
pub(in crate::plan) fn begin<'a>(
    facts: Facts<'a>,
    cluster_state: &'a ClusterState<'a>,
    work: u64,
    unfinished: Option<String>,
) -> Begun<'a> {
    let unsure = doubt(&facts.snapshot.view).or(unfinished);
    let mut outcome = Outcome::default();
    let late = (work == 0).then(|| "no time is left for it in this plan".to_owned());
    let late = late.filter(|_| facts.snapshot.is_whole());
    if let Some(why) = unsure.as_ref().or(facts.commands.damaged.first()).or(late.as_ref()) {
        outcome.report.problems.push(format!("no node is disrupted voluntarily: {why}"));
        let line = Action::Log(PlanLine::DisruptionSkipped { why: why.clone() });
        // Nodes that were tainted for a command must not stay tainted for as long as this takes.
        return Begun::Off {
            batch: Batch::each(Stage::Disruption, vec![line]),
            doubt: unsure,
            outcome: Box::new(outcome),
        };
    }
    if !facts.snapshot.is_whole() {
        return Begun::Off {
            batch: Batch::each(Stage::Disruption, Vec::new()),
            doubt: None,
            outcome: Box::new(outcome),
        };
    }
    let options = Options { max_work: work, ..facts.disruption_options() };
    let not_yet_evaluated = facts.snapshot.not_yet_evaluated.clone().unwrap_or_default();
    Begun::Decided(Box::new(Deciding::of(facts, cluster_state, options, not_yet_evaluated)))
}

/// The writes of a decision.
pub(in crate::plan) struct Decided<'a> {
    pub(in crate::plan) batch: Batch,
    facts: Facts<'a>,
    cluster_state: &'a ClusterState<'a>,
    options: Options,
    proposed: Vec<CommandRecord>,
    released: Vec<NodeClaim>,
    now: ClaimsNow<'a>,
    /// How many actions precede those of the proposals.
    before: usize,
    outcome: Outcome,
}

impl<'a> Deciding<'a> {
    /// Decides which nodes to disrupt. `not-yet-evaluated` names those that an earlier decision did not evaluate.
    pub(in crate::plan) fn of(
        facts: Facts<'a>,
        cluster_state: &'a ClusterState<'a>,
        options: Options,
        not_yet_evaluated: BTreeSet<String>,
    ) -> Self {
        let mut cluster = input(cluster_state, facts.evaluated, &facts.commands.records, None);
        cluster.not_evaluated = not_yet_evaluated;
        let decision = decide(&cluster, facts.snapshot.now, &options);
        Self { facts, cluster_state, options, cluster, decision }
    }

    /// Whether the disruption of the last hour matters. It is read only if more nodes would be disrupted, so that an idle cluster
    /// does not pay for it.
    pub(in crate::plan) fn needs_churn(&self) -> bool {
        let now = self.facts.snapshot.now;
        let due =
            |record: &CommandRecord| record.phase == CommandPhase::Proposed && record.validation_due_in(now).is_zero();
        !self.decision.commands.is_empty() || self.facts.commands.records.iter().any(due)
    }

    /// Decides again if the disruption of the last hour matters: NodePools where disruption has stopped are skipped, and nodes
    /// that are held back are not consolidated.
    pub(in crate::plan) fn given(self, churn: Option<Result<&[StoredRecord], &str>>) -> (Self, Breaker) {
        let Self { facts, cluster_state, options, mut cluster, mut decision } = self;
        let (records, now) = (&facts.commands.records, facts.snapshot.now);
        let breaker =
            churn.map(|churn| Breaker::of(cluster_state, facts.evaluated, records, churn, now)).unwrap_or_default();
        cluster.held_back = breaker.held_back(now);
        if !breaker.stopped.is_empty() || !cluster.held_back.is_empty() {
            cluster.stopped.clone_from(&breaker.stopped);
            decision = decide(&cluster, now, &options);
        }
        (Self { facts, cluster_state, options, cluster, decision }, breaker)
    }

    /// The outcome of the decision, given the disruption of the last hour.
    pub(in crate::plan) fn decided(self, churn: Option<Result<&[StoredRecord], &str>>) -> Decided<'a> {
        let (Self { facts, cluster_state, options, cluster, decision }, breaker) = self.given(churn);
        let (records, now) = (&facts.commands.records, facts.snapshot.now);
        let mut outcome = report(&decision, facts, cluster_state);
        let mut actions: Vec<Action> =
            not_yet_evaluated(&decision.not_evaluated, facts, &mut outcome).into_iter().collect();
        if !decision.commands.is_empty() {
            actions.push(decision_record(&decision, &cluster, &options, now));
        }
        let before = actions.len();
        let stated = NodeEvents::new(cluster_state);
        let mut proposed = Vec::new();
        for command in decision.commands {
            outcome.events.extend(stated.candidates(&command, facts.evaluated));
            let record = CommandRecord::propose(command);
            outcome.report.wait_at_most(record.validation_due_in(now));
            actions.extend(put(&record).into_iter().take(1));
            proposed.push(record);
        }
        let claims = ClaimsNow::new(facts, None, breaker);
        let forgotten = claims.forgotten(records);
        let released: Vec<NodeClaim> = forgotten.iter().filter_map(|name| claims.released(name)).collect();
        actions.extend(released.iter().map(|claim| Action::ChangeClaim(Box::new(claim.clone()))));
        let batch = Batch::each(Stage::Disruption, actions);
        Decided { batch, facts, cluster_state, options, proposed, released, now: claims, before, outcome }
    }
}

/// The report and the events of a decision.
fn report(decision: &Decision, facts: Facts<'_>, cluster_state: &ClusterState<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.report.kept.clone_from(&decision.kept);
    if let Some(wait) = next_change(decision, facts.snapshot.now) {
        outcome.report.wait_at_most(wait);
    }
    outcome.failed_canaries = decision.failed_canaries.len();
    let is_held = |why: &KeptReason| matches!(why, KeptReason::HeldBack { .. });
    outcome.held_back = decision.kept.iter().filter(|kept| kept.reasons.iter().any(is_held)).count();
    outcome.events.extend(decision.events.iter().cloned());
    outcome.events.extend(NodeEvents::new(cluster_state).kept(&decision.kept));
    outcome
}

/// The nodes that a decision did not evaluate, if that has changed. If the earlier record is unknown, it stays, because its nodes
/// have waited longer.
fn not_yet_evaluated(after: &BTreeSet<String>, facts: Facts<'_>, outcome: &mut Outcome) -> Option<Action> {
    match &facts.snapshot.not_yet_evaluated {
        Ok(before) => {
            let until = facts.snapshot.now.saturating_add(KEEP_NOT_YET_EVALUATED).unwrap_or(Timestamp::MAX);
            (before != after).then(|| Action::PutNotYetEvaluated(after.clone(), until))
        }
        Err(error) => {
            let problem = format!("it is unknown which nodes the last decision did not evaluate: {error}");
            outcome.report.problems.push(problem);
            None
        }
    }
}

/// The proposals, and why every other node stays, with all reasons, as in `nodeless plan --disruption`.
fn decision_record(decision: &Decision, cluster: &Cluster<'_>, options: &Options, now: Timestamp) -> Action {
    // Finding all reasons takes longer, so it is done only for the stored explanation.
    let explained = decide(cluster, now, &Options { explain: true, ..options.clone() });
    let subjects = decision.commands.iter().flat_map(|command| &command.candidates);
    let subjects: Vec<String> = subjects.map(|candidate| candidate.node_claim.clone()).collect();
    let summary = format!("{} nodes may go, {} stay", subjects.len(), decision.kept.len());
    let detail = decisions::detail(&decision.commands, &explained.kept, &decision.not_evaluated);
    decisions::decision("disruption-proposed", subjects, summary, detail, now)
}

/// The commands that continue, one after another.
pub(in crate::plan) struct GoingOn<'a> {
    pub(in crate::plan) batch: Batch,
    facts: Facts<'a>,
    cluster_state: &'a ClusterState<'a>,
    options: Options,
    /// Whether commands that have not changed anything yet may continue.
    decides: bool,
    pub(in crate::plan) now: ClaimsNow<'a>,
    pub(in crate::plan) outcome: Outcome,
}

impl<'a> Decided<'a> {
    /// Continues with the commands that were decided earlier, given the results of the writes.
    pub(in crate::plan) fn go_on(self, written: &[Written]) -> GoingOn<'a> {
        let Self { facts, cluster_state, options, proposed, released, mut now, before, mut outcome, .. } = self;
        let mut actions = Vec::new();
        for (action, answer) in self.batch.actions.iter().zip(written).take(before) {
            if let (Action::PutNotYetEvaluated(..), Some(why)) = (action, answer.problem()) {
                let problem = format!("the nodes that this decision did not evaluate could not be recorded: {why}");
                outcome.report.problems.push(problem);
            }
        }
        let (of_proposals, rest) = written.split_at((before + proposed.len()).min(written.len()));
        for (record, answer) in proposed.into_iter().zip(of_proposals.iter().skip(before)) {
            let names = record.candidates().iter().map(|candidate| candidate.node_claim.clone());
            match answer.problem() {
                None => {
                    outcome.report.proposed.extend(names);
                    actions.extend(put(&record).into_iter().skip(1));
                }
                Some(why) => {
                    let mut run = CommandRun::wait(record, why.to_owned());
                    actions.extend(run.next(&mut now, &[]).into_iter().flat_map(|batch| batch.actions));
                    outcome.add(run.outcome);
                }
            }
        }
        for (claim, answer) in released.into_iter().zip(rest) {
            if let Some(why) = answer.problem() {
                outcome.report.problems.push(format!("NodeClaim {}: {why}", claim.name));
            }
            now.learn(claim, answer);
        }
        GoingOn {
            batch: Batch::each(Stage::Disruption, actions),
            facts,
            cluster_state,
            options,
            decides: true,
            now,
            outcome,
        }
    }
}

impl<'a> GoingOn<'a> {
    /// Continues only commands that have started, because nothing is decided.
    pub(in crate::plan) fn begun_ones(
        facts: Facts<'a>,
        cluster_state: &'a ClusterState<'a>,
        doubt: Option<String>,
    ) -> Self {
        let batch = Batch::each(Stage::Disruption, Vec::new());
        let (options, now) = (facts.disruption_options(), ClaimsNow::new(facts, doubt, Breaker::default()));
        Self { batch, facts, cluster_state, options, decides: false, now, outcome: Outcome::default() }
    }

    /// The result of a command in this plan; nothing if it only waits.
    pub(in crate::plan) fn turn(&mut self, record: &CommandRecord, names: &mut Names) -> Option<CommandRun> {
        if record.phase != CommandPhase::Proposed {
            return Some(CommandRun::advance(record.clone()));
        }
        if !self.decides {
            return None;
        }
        let now = self.facts.snapshot.now;
        let wait = record.validation_due_in(now);
        if !wait.is_zero() {
            let proposed = record.candidates().iter().map(|candidate| candidate.node_claim.clone());
            self.outcome.report.wait_at_most(wait);
            self.outcome.report.proposed.extend(proposed);
            return None;
        }
        let commands = &self.facts.commands.records;
        let mut fresh = input(self.cluster_state, self.facts.evaluated, commands, Some(&record.command.id));
        fresh.stopped.clone_from(&self.now.breaker.stopped);
        fresh.held_back = self.now.breaker.held_back(now);
        let confirmed = match revalidate(&record.command, &fresh, now, &self.options) {
            Some(again) => confirm(record, again, self.facts, names),
            None => Err("it is no longer valid".to_owned()),
        };
        Some(match confirmed {
            Ok(confirmed) => match self.now.breaker.due(&confirmed.command, self.cluster_state, now) {
                Ok(due) => CommandRun::carry_out(confirmed, due),
                Err(why) => CommandRun::wait(record.clone(), why),
            },
            Err(why) => {
                self.outcome.events.extend(NodeEvents::new(self.cluster_state).rejected(&record.command, &why));
                CommandRun::drop(record.clone())
            }
        })
    }

    /// Reports where voluntary disruption has stopped.
    pub(in crate::plan) fn end(self) -> (Batch, Outcome) {
        let Self { facts, now, mut outcome, .. } = self;
        let breaker = &now.breaker;
        outcome.report.problems.extend(breaker.stopped.values().cloned());
        outcome.events.extend(breaker.events(facts.evaluated));
        outcome.stopped = breaker.stopped.len();
        (Batch::each(Stage::Disruption, breaker.lines()), outcome)
    }
}

/// A validated proposal, with the claims that replace its nodes.
///
/// # Errors
/// If the NodePool of a replacement is gone.
pub(in crate::plan) fn confirm(
    record: &CommandRecord,
    again: Command,
    facts: Facts<'_>,
    names: &mut Names,
) -> Result<CommandRecord, String> {
    let replaces: Vec<String> = again.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
    let replacements = planned(&again.replacements, &replaces, facts, names)?;
    Ok(record.confirm(again, replacements, facts.commands.records.len(), facts.snapshot.now))
}
