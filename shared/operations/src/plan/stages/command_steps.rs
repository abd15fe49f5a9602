//! The steps of one disruption command in a plan. The steps are pure, and the writes that each requests are executed between
//! them.

use crate::plan::action::{Action, Batch, PlanLine, Stage, Written};
use crate::plan::churn::{Breaker, Due};
use crate::plan::facts::Facts;
use crate::plan::launches::limits;
use crate::plan::pools::EvaluatedPool;
use crate::plan::record::{carried_out, decision};
use crate::plan::report::Outcome;
use crate::plan::voluntary_disruption::{message, termination};
use jiff::Timestamp;
use nodeless_disruption::command::{CommandEffect, CommandPhase, CommandRecord, Surroundings, step};
use nodeless_disruption::command::{CommandStep, Outcome as CommandOutcome};
use nodeless_disruption::maintenance;
use nodeless_disruption::pause::{Pause, pause};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::condition;
use nodeless_model::{ClusterLimits, ConditionStatus, DollarsPerHour, NodeClaim, Taint};
use nodeless_ports::RecordKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of steps of one command in one plan: each phase, and some conflicts with another writer.
const STEPS: u32 = 24;
/// When the next plan runs if a command could not continue.
const SOON: Duration = Duration::from_secs(5);

/// Claims and nodes after the actions of this plan.
pub(in crate::plan) struct ClaimsNow<'a> {
    pub(in crate::plan) claims: BTreeMap<String, NodeClaim>,
    tainted: BTreeMap<String, bool>,
    /// The NodePools whose disruption is paused or waits for a maintenance window, each with the reason.
    paused: BTreeMap<String, String>,
    /// Why no command may continue, if something could not be decoded.
    doubt: Option<String>,
    evaluated: &'a [EvaluatedPool],
    cluster_limits: ClusterLimits,
    now: Timestamp,
    /// What voluntary disruption did recently, including this plan.
    pub(in crate::plan) breaker: Breaker,
    /// Claims for which lifecycle has to be woken now.
    wake: Vec<String>,
}

impl<'a> ClaimsNow<'a> {
    pub(in crate::plan) fn new(facts: Facts<'a>, doubt: Option<String>, breaker: Breaker) -> Self {
        let (view, now) = (&facts.snapshot.view, facts.snapshot.now);
        let holds = |annotations| (!matches!(pause(annotations, now), Pause::None)).then(|| "it is paused".to_owned());
        let everywhere = holds(&view.annotations).or_else(|| maintenance::waits(&view.annotations, now));
        let paused = facts.evaluated.iter().filter_map(|one| {
            let why = everywhere.clone().or_else(|| holds(&one.pool.disruption.annotations))?;
            Some((one.pool.name.clone(), why))
        });
        Self {
            paused: paused.collect(),
            doubt,
            claims: facts.claims.iter().map(|claim| (claim.name.clone(), claim.clone())).collect(),
            tainted: view.nodes.iter().map(|node| (node.name.clone(), node.has_taint(&Taint::disrupted()))).collect(),
            evaluated: facts.evaluated,
            cluster_limits: facts.snapshot.cluster_limits(),
            now,
            breaker,
            wake: Vec::new(),
        }
    }

    /// How many claims were changed without sending a message yet.
    pub(in crate::plan) const fn changed(&self) -> usize {
        self.wake.len()
    }

    /// Wakes lifecycle for the claims that commands changed. The sweep finds those that are missed.
    pub(in crate::plan) fn wake(&mut self) -> Batch {
        let names = std::mem::take(&mut self.wake);
        let actions = if names.is_empty() { Vec::new() } else { vec![Action::WakeClaims(names)] };
        Batch::each(Stage::Disruption, actions)
    }

    /// The claims with the id of a command that is none of these, which stay.
    pub(in crate::plan) fn forgotten(&self, commands: &[CommandRecord]) -> Vec<String> {
        let holds = |id: &String| commands.iter().any(|record| record.command.id == *id);
        let forgotten = self
            .claims
            .values()
            .filter(|claim| !claim.phase.is_leaving() && claim.status.command.as_ref().is_some_and(|id| !holds(id)));
        forgotten.map(|claim| claim.name.clone()).collect()
    }

    /// The claim without the id of a command.
    pub(in crate::plan) fn released(&self, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        claim.status.command = None;
        claim.clear_condition(condition::DISRUPTION_REASON);
        Some(claim)
    }

    fn taken(&self, record: &CommandRecord, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        let reason = record.command.reason;
        claim.status.command = Some(record.command.id.clone());
        let text = message(reason, &claim);
        let kind = condition::DISRUPTION_REASON;
        claim.set_condition(kind, ConditionStatus::True, &format!("{reason:?}"), &text, self.now);
        Some(claim)
    }

    fn terminated(&self, record: &CommandRecord, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        let reason = record.command.reason;
        let why = message(reason, &claim);
        begin_termination(&mut claim, termination(reason), &why, self.now);
        Some(claim)
    }

    /// Applies the result of changing a claim, and returns whether it was changed. If another process wrote it meanwhile, the
    /// next step decides on its current state.
    pub(in crate::plan) fn learn(&mut self, claim: NodeClaim, answer: &Written) -> bool {
        let name = claim.name.clone();
        let (after, changed) = match answer {
            Written::Version(version) => (Some(NodeClaim { version: *version, ..claim }), true),
            Written::There(present) => (Some(present.as_ref().clone()), true),
            Written::Changed(present) => (present.as_deref().cloned(), false),
            _ => return false,
        };
        match after {
            Some(after) => self.claims.insert(name.clone(), after),
            None => self.claims.remove(&name),
        };
        if changed {
            self.wake.push(name);
        }
        changed
    }
}

/// A command in this plan.
pub(in crate::plan) struct CommandRun {
    record: CommandRecord,
    at: At,
    steps: u32,
    /// Its outcome so far.
    pub(in crate::plan) outcome: Outcome,
}

/// The last request.
enum At {
    /// Nothing: the next step is decided from the record.
    Step,
    /// The write of a validated proposal, after the record of what it is about to do.
    Confirm(Vec<Due>),
    /// That was requested, for these NodePools.
    Confirming(Vec<String>),
    /// The next phase of the record, if it changed, and effects.
    Stepping(Stepping),
    /// The command is to be rolled back, for this reason.
    RollBack(String),
    /// That was requested.
    RollingBack(CommandRecord),
    /// Its record is deleted, after these events are published.
    End(Vec<Action>),
    /// That was requested.
    Ending,
    /// It waits for another plan, for this reason.
    Wait(String),
    /// The command is done in this plan.
    Over,
}

/// The request of a step.
struct Stepping {
    /// The record, if it was written.
    planned: Option<CommandRecord>,
    changes: Vec<Change>,
    /// Why the next effect is impossible.
    refused: Option<String>,
}

/// A claim after an effect.
enum Change {
    Taken(NodeClaim),
    Launched(NodeClaim),
    Terminated(NodeClaim),
}

impl CommandRun {
    /// Advances a command as many steps as possible.
    pub(in crate::plan) fn advance(record: CommandRecord) -> Self {
        Self { record, at: At::Step, steps: 0, outcome: Outcome::default() }
    }

    /// Writes that a proposal was validated, and continues with it. What it is about to do is recorded first.
    pub(in crate::plan) fn carry_out(confirmed: CommandRecord, due: Vec<Due>) -> Self {
        Self { at: At::Confirm(due), ..Self::advance(confirmed) }
    }

    /// Deletes a proposal that is no longer valid. Nothing was changed for it.
    pub(in crate::plan) fn drop(record: CommandRecord) -> Self {
        let line = stepped(&record, "Dropped");
        Self { at: At::End(vec![line]), ..Self::advance(record) }
    }

    /// A command that cannot continue in this plan.
    pub(in crate::plan) fn wait(record: CommandRecord, why: String) -> Self {
        Self { at: At::Wait(why), ..Self::advance(record) }
    }

    /// The next request, given the results of the previous one; nothing if this plan is done with the command.
    pub(in crate::plan) fn next(&mut self, now: &mut ClaimsNow<'_>, written: &[Written]) -> Option<Batch> {
        self.learn(now, written);
        // Each iteration either requests something or comes closer to the end.
        loop {
            let at = std::mem::replace(&mut self.at, At::Over);
            let actions = match at {
                At::Step => self.step(now),
                At::Confirm(due) => self.confirm(due, now),
                At::RollBack(why) => self.roll_back(why, now),
                At::End(stated) => self.end(stated),
                At::Wait(why) => self.report_wait(why),
                At::Confirming(_) | At::Stepping(_) | At::RollingBack(_) | At::Ending | At::Over => return None,
            };
            if !actions.is_empty() {
                return Some(Batch::in_turn(Stage::Disruption, actions));
            }
        }
    }

    fn step(&mut self, now: &ClaimsNow<'_>) -> Vec<Action> {
        self.steps += 1;
        if self.steps > STEPS {
            self.at = At::Wait("it reached the maximum number of steps".to_owned());
            return Vec::new();
        }
        let ClaimsNow { claims, tainted, paused, doubt, .. } = now;
        let seen = Surroundings { claims, tainted, paused, blocked: doubt.as_deref() };
        let CommandStep { record, effects, events, outcome } = step(&self.record, seen, now.now);
        self.outcome.events.extend(events);
        let Some(planned) = record else {
            self.at = At::End(ended(&self.record, outcome, now.now));
            return Vec::new();
        };
        let changed = planned != self.record;
        if !changed && effects.is_empty() {
            if let Some(wait) = self.record.next_look(&now.claims) {
                self.outcome.report.wait_at_most(wait);
            }
            return Vec::new();
        }
        let mut actions = if changed { put(&planned) } else { Vec::new() };
        let (changes, refused) = changes(&planned, &effects, now);
        actions.extend(changes.iter().map(|change| change.action(now)));
        let nothing = actions.is_empty();
        self.at = match refused {
            Some(why) if nothing => At::RollBack(why),
            // Its claims are gone. The next step evaluates the rest.
            None if nothing => At::Step,
            refused => At::Stepping(Stepping { planned: changed.then_some(planned), changes, refused }),
        };
        actions
    }

    fn confirm(&mut self, due: Vec<Due>, now: &ClaimsNow<'_>) -> Vec<Action> {
        self.at = At::Confirming(due.iter().map(|due| due.record.node_pool.clone()).collect());
        let record = &self.record;
        let mut actions: Vec<Action> =
            due.into_iter().map(|due| Action::PutRecord(RecordKind::Churn, due.record)).collect();
        actions.extend(put(record));
        let command = &record.command;
        let subjects = command.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
        let summary = format!("{}; saves {}", record.summary(), DollarsPerHour(command.savings_per_hour));
        let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
        let detail = carried_out(command, &made, None);
        actions.push(decision("disruption", subjects, summary, detail, now.now));
        actions
    }

    fn roll_back(&mut self, why: String, now: &ClaimsNow<'_>) -> Vec<Action> {
        let back = self.record.roll_back(why, now.now);
        let actions = put(&back);
        self.at = At::RollingBack(back);
        actions
    }

    fn end(&mut self, mut stated: Vec<Action>) -> Vec<Action> {
        self.at = At::Ending;
        stated.push(Action::DeleteCommand(self.record.command.id.clone(), self.record.version));
        stated
    }

    fn report_wait(&mut self, why: String) -> Vec<Action> {
        let command = self.record.command.id.clone();
        self.outcome.report.problems.push(format!("command {command}: {why}"));
        self.outcome.report.wait_at_most(SOON);
        vec![Action::Log(PlanLine::CommandWaits { command, why })]
    }

    /// Applies the results of the requested actions.
    fn learn(&mut self, now: &mut ClaimsNow<'_>, written: &[Written]) {
        let at = std::mem::replace(&mut self.at, At::Over);
        self.at = match at {
            At::Confirming(pools) => {
                let (noted, rest) = written.split_at(pools.len().min(written.len()));
                match noted.iter().find_map(Written::problem) {
                    Some(why) => At::Wait(why.to_owned()),
                    None => {
                        let noted = pools.iter().map(String::as_str).zip(noted);
                        now.breaker.carried_out(&self.record.command, noted, now.now);
                        let record = self.record.clone();
                        self.put(record, rest.first())
                    }
                }
            }
            At::RollingBack(record) => self.put(record, written.first()),
            At::Stepping(stepping) => self.learn_step(stepping, now, written),
            At::Ending => match written.last().and_then(Written::problem) {
                Some(why) => At::Wait(why.to_owned()),
                None => At::Over,
            },
            other => other,
        };
    }

    /// Applies a written record. If the write failed, another process or the next plan continues with it.
    fn put(&mut self, record: CommandRecord, answer: Option<&Written>) -> At {
        match answer {
            Some(Written::Version(version)) => {
                self.record = CommandRecord { version: *version, ..record };
                At::Step
            }
            answer => At::Wait(answer.and_then(Written::problem).unwrap_or("it was not written").to_owned()),
        }
    }

    fn learn_step(&mut self, stepping: Stepping, now: &mut ClaimsNow<'_>, written: &[Written]) -> At {
        let Stepping { planned, changes, refused } = stepping;
        let mut answers = written.iter();
        if let Some(planned) = planned {
            // The record, and its log line.
            let (answer, _) = (answers.next(), answers.next());
            if let wait @ At::Wait(_) = self.put(planned, answer) {
                return wait;
            }
        }
        for (change, answer) in changes.into_iter().zip(answers) {
            match answer {
                Written::Refused(why) => return At::RollBack(why.clone()),
                Written::Failed(why) | Written::Conflict(why) => return At::Wait(why.clone()),
                _ => self.learn_change(change, now, answer),
            }
        }
        refused.map_or(At::Step, At::RollBack)
    }

    fn learn_change(&mut self, change: Change, now: &mut ClaimsNow<'_>, answer: &Written) {
        let report = &mut self.outcome.report;
        match change {
            Change::Taken(claim) => {
                now.learn(claim, answer);
            }
            Change::Launched(claim) => {
                report.created.push(claim.name.clone());
                now.learn(claim, answer);
            }
            Change::Terminated(claim) => {
                let name = claim.name.clone();
                if now.learn(claim, answer) {
                    report.leaving.push(name);
                }
            }
        }
    }
}

impl Change {
    fn action(&self, now: &ClaimsNow<'_>) -> Action {
        match self {
            Self::Taken(claim) | Self::Terminated(claim) => Action::ChangeClaim(Box::new(claim.clone())),
            Self::Launched(claim) => {
                let pool = now.evaluated.iter().find(|one| one.pool.name == claim.node_pool);
                let limits = limits(pool.map(|one| &one.pool), &now.cluster_limits);
                Action::CreateReplacement(Box::new(claim.clone()), limits)
            }
        }
    }
}

/// The claims after effects, up to the first impossible effect, and why it is impossible. A deleted claim needs no effect.
fn changes(record: &CommandRecord, effects: &[CommandEffect], now: &ClaimsNow<'_>) -> (Vec<Change>, Option<String>) {
    let mut changes = Vec::with_capacity(effects.len());
    for effect in effects {
        let change = match effect {
            CommandEffect::Take { claim } => now.taken(record, claim).map(Change::Taken),
            CommandEffect::Release { claim } => now.released(claim).map(Change::Taken),
            CommandEffect::Terminate { claim } => now.terminated(record, claim).map(Change::Terminated),
            CommandEffect::Launch { replacement } => {
                let claim = record.replacements.get(*replacement);
                let pool = |claim: &NodeClaim| now.evaluated.iter().any(|pool| pool.pool.name == claim.node_pool);
                if let Some(claim) = claim.filter(|claim| !pool(claim)) {
                    let why = format!("the NodePool {} of a replacement is gone", claim.node_pool);
                    return (changes, Some(why));
                }
                claim.cloned().map(Change::Launched)
            }
        };
        changes.extend(change);
    }
    (changes, None)
}

/// Writes a record, and a log line.
pub(in crate::plan) fn put(record: &CommandRecord) -> Vec<Action> {
    vec![Action::PutCommand(Box::new(record.clone())), stepped(record, phase_name(record.phase))]
}

fn stepped(record: &CommandRecord, to: &str) -> Action {
    let (command, to, summary) = (record.command.id.clone(), to.to_owned(), record.summary());
    Action::Log(PlanLine::CommandStepped { command, to, summary })
}

/// The report of a command that has ended.
fn ended(record: &CommandRecord, outcome: Option<CommandOutcome>, now: Timestamp) -> Vec<Action> {
    if outcome != Some(CommandOutcome::RolledBack) {
        return vec![stepped(record, "Done")];
    }
    let subjects = record.candidates().iter().map(|candidate| candidate.node_claim.clone()).collect();
    let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
    let detail = carried_out(&record.command, &made, record.failure.as_deref());
    let written = decision("disruption-rolled-back", subjects, record.summary(), detail, now);
    vec![stepped(record, "RolledBack"), written]
}

const fn phase_name(phase: CommandPhase) -> &'static str {
    match phase {
        CommandPhase::Proposed => "Proposed",
        CommandPhase::Tainting => "Tainting",
        CommandPhase::Launching => "Launching",
        CommandPhase::Waiting => "Waiting",
        CommandPhase::Draining => "Draining",
        CommandPhase::RollingBack => "RollingBack",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offers::OfferCache;
    use crate::plan::pools::Offered;
    use crate::plan::snapshot::Snapshot;
    use crate::plan::stages::disruption::{Begun, GoingOn, begin};
    use crate::plan::stages::provisioning::cluster_state;
    use nodeless_catalog::{Catalog, Facts as CatalogFacts};
    use nodeless_disruption::{Candidate, Command, Method};
    use nodeless_model::{DisruptionReason, NodeClaimSpec, NodeClaimStatus, Phase};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// A command whose claim is taken, and which waits for nothing else.
    fn waiting() -> CommandRecord {
        let candidate =
            Candidate { node: "node-1".into(), node_claim: "default-1".into(), node_pool: "default".into() };
        let command = Command {
            id: "c".into(),
            method: Method::Emptiness,
            reason: DisruptionReason::Empty,
            candidates: vec![candidate],
            replacements: Vec::new(),
            savings_per_hour: 0.1,
            evictions: Vec::new(),
            placements: Vec::new(),
            score: None,
            drains_first: false,
            decided: Timestamp::UNIX_EPOCH,
        };
        let proposed = CommandRecord { version: 3, ..CommandRecord::propose(command) };
        CommandRecord { phase: CommandPhase::Waiting, ..proposed }
    }

    fn taken() -> NodeClaim {
        NodeClaim {
            name: "default-1".into(),
            uid: "1".into(),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: Timestamp::UNIX_EPOCH,
            version: 7,
            spec: NodeClaimSpec::default(),
            phase: Phase::Initialized,
            status: NodeClaimStatus { command: Some("c".into()), ..NodeClaimStatus::default() },
        }
    }

    /// The kinds of all actions of the command, assuming that each succeeds.
    fn actions_of_a_run(unfinished: Option<&str>) -> Vec<String> {
        let catalog = Catalog::synthetic(1, CatalogFacts::embedded().unwrap());
        let mut snapshot = Snapshot::bare(Timestamp::UNIX_EPOCH, Arc::new(catalog));
        snapshot.claims = vec![taken()];
        snapshot.commands.records = vec![waiting()];
        let offered = Offered::of(&snapshot, &OfferCache::default());
        let facts = Facts {
            snapshot: &snapshot,
            evaluated: &offered.evaluated,
            claims: &snapshot.claims,
            commands: &snapshot.commands,
        };
        let cluster_state = cluster_state(facts, Vec::new());
        let mut going_on = match begin(facts, &cluster_state, 1_000, unfinished.map(str::to_owned)) {
            Begun::Off { doubt, outcome, .. } => {
                assert_eq!(outcome.report.problems.len(), 1);
                GoingOn::begun_ones(facts, &cluster_state, doubt)
            }
            Begun::Decided(deciding) => deciding.decided(None).go_on(&[]),
        };
        let mut names = crate::names::Names::new(String::new(), BTreeSet::new());
        let mut run = going_on.turn(&facts.commands.records[0], &mut names).unwrap();
        let (mut kinds, mut written) = (Vec::new(), Vec::new());
        while let Some(batch) = run.next(&mut going_on.now, &written) {
            written = batch.actions.iter().map(|_| Written::Version(8)).collect();
            kinds.extend(batch.actions.iter().map(|action| format!("{action:?}")));
        }
        kinds
    }

    #[test]
    fn nothing_is_evicted_on_an_unfinished_picture() {
        let ends = |kinds: &[String]| kinds.iter().any(|kind| kind.starts_with("ChangeClaim"));
        assert!(ends(&actions_of_a_run(None)), "{:?}", actions_of_a_run(None));
        assert_eq!(actions_of_a_run(Some("3 pods were left for the next plan")), Vec::<String>::new());
    }
}
