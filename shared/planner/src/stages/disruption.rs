//! Voluntary disruption: proposed on one snapshot of the cluster, and executed once a later snapshot has validated it.

use super::command_steps::{ClaimsNow, CommandRun, reached, waits};
use super::unready::recent_churn;
use crate::action::{Action, Batch, PlanLine, Stage, Written};
use crate::churn::Breaker;
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches::planned;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::node_events::NodeEvents;
use crate::nodes::voluntary_disruption::{doubt, input, next_change, with_commitments};
use crate::pods::placed::Placed;
use crate::records::decisions;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::{Cluster, Command, Decision, Options, decide, revalidate};
use nodeless_model::NodeClaim;
use nodeless_model::plural::counted;
use nodeless_operations::names::Names;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the record of nodes that a decision did not evaluate is kept.
const KEEP_NOT_YET_EVALUATED: Duration = Duration::from_hours(24);

/// Proposes to disrupt nodes, unless something forbids it, and continues the commands of earlier plans.
pub(crate) async fn run(
    facts: Facts<'_>,
    placed: &Placed<'_>,
    names: &mut Names,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) {
    let cluster_state = &placed.cluster_state;
    let doubt = doubt(&facts.snapshot.view).or_else(|| placed.unfinished());
    let options = options(facts, doubt.as_ref(), executor, outcome).await;
    let claims = match &options {
        Some(options) => propose(facts, cluster_state, options, executor, outcome).await,
        // Nodes that were tainted for a command must not stay tainted for as long as this takes.
        None => ClaimsNow::new(facts, doubt, Breaker::default()),
    };
    let mut commands = InProgress { facts, cluster_state, options, claims };
    commands.go_on(names, executor, outcome).await;
    let breaker = &commands.claims.breaker;
    outcome.report.problems.extend(breaker.stopped.values().cloned());
    outcome.events.extend(breaker.events(facts.evaluated));
    outcome.stopped += breaker.stopped.len();
    executor.carry_out(&batch(breaker.lines())).await;
}

const fn batch(actions: Vec<Action>) -> Batch {
    Batch::each(Stage::Disruption, actions)
}

/// How nodes to disrupt are chosen, with the work budget that is left after the pods were scheduled; `None` if no node may be
/// disrupted.
async fn options(
    facts: Facts<'_>,
    doubt: Option<&String>,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Option<Options> {
    let work = if facts.snapshot.is_whole() { Some(work(executor).await) } else { None };
    let late = (work == Some(0)).then(|| "no time is left for it in this plan".to_owned());
    if let Some(why) = doubt.or(facts.commands.damaged.first()).or(late.as_ref()) {
        outcome.report.problems.push(format!("no node is disrupted voluntarily: {why}"));
        let line = Action::Log(PlanLine::DisruptionSkipped { why: why.clone() });
        executor.carry_out(&batch(vec![line])).await;
        return None;
    }
    Some(Options { max_work: work?, ..facts.disruption_options() })
}

async fn work(executor: &dyn Execute) -> u64 {
    let read = executor.carry_out(&batch(vec![Action::ReadWork])).await;
    if let Some(Written::Work(work)) = read.first() { *work } else { 0 }
}

/// Decides which nodes to disrupt, and writes the proposals. Returns the claims after it.
async fn propose<'a>(
    facts: Facts<'a>,
    cluster_state: &ClusterState<'_>,
    options: &Options,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> ClaimsNow<'a> {
    let (decision, explanation, breaker) = decided(facts, cluster_state, options, executor).await;
    report(&decision, facts, cluster_state, outcome);
    let mut claims = ClaimsNow::new(facts, None, breaker);
    write(decision, explanation, facts, &mut claims, executor, outcome).await;
    claims
}

/// The decision, with its explanation if nodes are to be disrupted, given what was done within the last hour.
async fn decided(
    facts: Facts<'_>,
    cluster_state: &ClusterState<'_>,
    options: &Options,
    executor: &dyn Execute,
) -> (Decision, Option<Action>, Breaker) {
    let (records, now) = (&facts.commands.records, facts.snapshot.now);
    let mut cluster = with_commitments(input(cluster_state, facts.evaluated, records, None), cluster_state, facts);
    cluster.not_evaluated = facts.snapshot.not_yet_evaluated.clone().unwrap_or_default();
    let (mut decision, mut breaker) = (decide(&cluster, now, options), Breaker::default());
    if needs_churn(&decision, facts) {
        let churn = recent_churn(executor).await;
        let churn = churn.as_deref().map_err(String::as_str);
        breaker = Breaker::for_plan(cluster_state, facts, churn);
        if breaker.restrict(&mut cluster, now) {
            decision = decide(&cluster, now, options);
        }
    }
    let any = !decision.commands.is_empty();
    let explanation = any.then(|| decision_record(&decision, &cluster, options, now));
    (decision, explanation, breaker)
}

/// Whether the disruption of the last hour matters. It is read only if more nodes would be disrupted, so that an idle cluster does
/// not pay for it.
fn needs_churn(decision: &Decision, facts: Facts<'_>) -> bool {
    let now = facts.snapshot.now;
    let due =
        |record: &CommandRecord| record.phase == CommandPhase::Proposed && record.validation_due_in(now).is_zero();
    !decision.commands.is_empty() || facts.commands.records.iter().any(due)
}

/// Writes a decision, and releases claims of commands that no longer exist.
async fn write(
    decision: Decision,
    explanation: Option<Action>,
    facts: Facts<'_>,
    claims: &mut ClaimsNow<'_>,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) {
    let not_evaluated = not_yet_evaluated(&decision.not_evaluated, facts, outcome);
    let proposed: Vec<CommandRecord> = decision.commands.into_iter().map(CommandRecord::propose).collect();
    let forgotten = claims.forgotten(&facts.commands.records);
    let released: Vec<NodeClaim> = forgotten.iter().filter_map(|name| claims.released(name)).collect();
    let (records, explanations) = (usize::from(not_evaluated.is_some()), usize::from(explanation.is_some()));
    let mut actions: Vec<Action> = not_evaluated.into_iter().chain(explanation).collect();
    actions.extend(proposed.iter().map(|record| Action::PutCommand(Box::new(record.clone()))));
    actions.extend(released.iter().map(|claim| Action::ChangeClaim(Box::new(claim.clone()))));
    let written = executor.carry_out(&batch(actions)).await;

    let mut answers = written.iter();
    if let Some(why) = answers.by_ref().take(records).find_map(Written::problem) {
        let problem = format!("the nodes that this decision did not evaluate could not be recorded: {why}");
        outcome.report.problems.push(problem);
    }
    let mut answers = answers.skip(explanations);
    let lines = report_proposed(&proposed, answers.by_ref(), facts, outcome);
    for (claim, answer) in released.iter().zip(answers) {
        if let Some(why) = answer.problem() {
            outcome.report.problems.push(format!("NodeClaim {}: {why}", claim.name));
        }
        claims.learn(claim, answer);
    }
    executor.carry_out(&batch(lines)).await;
}

/// Reports the proposals, given the results of their writes. Returns the log lines.
fn report_proposed<'w>(
    proposed: &[CommandRecord],
    answers: impl Iterator<Item = &'w Written>,
    facts: Facts<'_>,
    outcome: &mut Outcome,
) -> Vec<Action> {
    let mut lines = Vec::new();
    for (record, answer) in proposed.iter().zip(answers) {
        outcome.report.wait_at_most(record.validation_due_in(facts.snapshot.now));
        lines.push(match answer.problem() {
            None => {
                outcome.report.proposed.extend(names_of_claims(record));
                reached(record)
            }
            Some(why) => waits(record, why.to_owned(), outcome),
        });
    }
    lines
}

fn names_of_claims(record: &CommandRecord) -> impl Iterator<Item = String> {
    record.candidates().iter().map(|candidate| candidate.node_claim.clone())
}

/// The report and the events of a decision.
fn report(decision: &Decision, facts: Facts<'_>, cluster_state: &ClusterState<'_>, outcome: &mut Outcome) {
    outcome.report.kept.extend(decision.kept.iter().cloned());
    if let Some(wait) = next_change(decision, facts.snapshot.now) {
        outcome.report.wait_at_most(wait);
    }
    outcome.failed_canaries += decision.failed_canaries.len();
    let stated = NodeEvents::new(cluster_state);
    outcome.events.extend(decision.events.iter().cloned());
    outcome.events.extend(stated.kept(&decision.kept));
    outcome.events.extend(decision.commands.iter().flat_map(|command| stated.candidates(command, facts.evaluated)));
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
    let summary = format!("{} may go, {} stay", counted(subjects.len(), "node"), decision.kept.len());
    let detail = decisions::detail(&decision.commands, &explained.kept, &decision.not_evaluated);
    decisions::decision("disruption-proposed", subjects, summary, detail, now)
}

/// The commands of earlier plans, which continue one after another.
struct InProgress<'a> {
    facts: Facts<'a>,
    cluster_state: &'a ClusterState<'a>,
    /// How proposals are validated; `None` if only commands that have started may continue.
    options: Option<Options>,
    claims: ClaimsNow<'a>,
}

impl<'a> InProgress<'a> {
    async fn go_on(&mut self, names: &mut Names, executor: &dyn Execute, outcome: &mut Outcome) {
        for record in &self.facts.commands.records {
            if !executor.has_time() {
                // The rest is unchanged. What was started must be reported before this process ends.
                executor.carry_out(&batch(vec![Action::WakePlanner])).await;
                break;
            }
            self.claims.wake_many(executor).await;
            if record.phase == CommandPhase::Proposed {
                self.validate(record, names, executor, outcome).await;
            } else {
                self.run(record, executor, outcome).advance().await;
            }
        }
        self.claims.wake(executor).await;
    }

    /// Begins a proposal if it is due and still valid.
    async fn validate(
        &mut self,
        record: &CommandRecord,
        names: &mut Names,
        executor: &dyn Execute,
        outcome: &mut Outcome,
    ) {
        let Some(options) = &self.options else { return };
        let now = self.facts.snapshot.now;
        let wait = record.validation_due_in(now);
        if !wait.is_zero() {
            outcome.report.wait_at_most(wait);
            outcome.report.proposed.extend(names_of_claims(record));
            return;
        }
        match self.confirmed(record, options, names) {
            Ok(confirmed) => match self.claims.breaker.due(&confirmed.command, now) {
                Ok(due) => self.run(&confirmed, executor, outcome).carry_out(due).await,
                Err(why) => self.run(record, executor, outcome).wait(why).await,
            },
            Err(why) => {
                outcome.events.extend(NodeEvents::new(self.cluster_state).rejected(&record.command, &why));
                self.run(record, executor, outcome).discard().await;
            }
        }
    }

    /// The proposal, decided again.
    ///
    /// # Errors
    /// If it is no longer valid.
    fn confirmed(&self, record: &CommandRecord, options: &Options, names: &mut Names) -> Result<CommandRecord, String> {
        let (commands, now) = (&self.facts.commands.records, self.facts.snapshot.now);
        let fresh = input(self.cluster_state, self.facts.evaluated, commands, Some(&record.command.id));
        let mut fresh = with_commitments(fresh, self.cluster_state, self.facts);
        self.claims.breaker.restrict(&mut fresh, now);
        match revalidate(&record.command, &fresh, now, options) {
            Some(again) => confirm(record, again, self.facts, names),
            None => Err("it is no longer valid".to_owned()),
        }
    }

    fn run<'r>(
        &'r mut self,
        record: &CommandRecord,
        executor: &'r dyn Execute,
        outcome: &'r mut Outcome,
    ) -> CommandRun<'r, 'a> {
        CommandRun { record: record.clone(), claims: &mut self.claims, executor, outcome }
    }
}

/// A validated proposal, with the claims that replace its nodes.
///
/// # Errors
/// If the NodePool of a replacement is gone.
pub(crate) fn confirm(
    record: &CommandRecord,
    again: Command,
    facts: Facts<'_>,
    names: &mut Names,
) -> Result<CommandRecord, String> {
    let replaces: Vec<String> = again.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
    let replacements = planned(&again.replacements, &replaces, facts, names)?;
    Ok(record.confirm(again, replacements, facts.commands.records.len(), facts.snapshot.now))
}
