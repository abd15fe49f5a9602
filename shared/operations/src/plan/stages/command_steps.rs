//! The steps of one disruption command in a plan. The steps are pure, and the writes that each requests are executed between
//! them.

use crate::plan::action::{Action, Batch, PlanLine, Stage, Written};
use crate::plan::churn::{Breaker, Due};
use crate::plan::facts::Facts;
use crate::plan::launches::limits;
use crate::plan::nodes::voluntary_disruption::{message, termination};
use crate::plan::pools::EvaluatedPool;
use crate::plan::records::decisions::{carried_out, decision};
use crate::plan::records::report::Outcome;
use crate::shards::CLAIMS_PER_SHARD;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandEffect, CommandPhase, CommandRecord, Surroundings, step};
use nodeless_disruption::command::{CommandStep, Outcome as CommandOutcome};
use nodeless_disruption::maintenance;
use nodeless_disruption::pause::{Pause, pause};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::condition;
use nodeless_model::{ClusterLimits, ConditionStatus, DollarsPerHour, NodeClaim, Taint};
use nodeless_state::RecordKind;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The maximum number of steps of one command in one plan: each phase, and some conflicts with another writer.
const STEPS: u32 = 24;
/// The number of claims of a command that are changed before lifecycle is woken for them: the size of a shard.
const CHANGES: usize = CLAIMS_PER_SHARD;
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
    /// The recent voluntary disruption, including that of this plan.
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
    /// The outcome so far.
    pub(in crate::plan) outcome: Outcome,
}

/// The last request.
enum At {
    /// Nothing: the next step is decided from the record.
    Step,
    /// The write of a validated proposal, after the churn records.
    Confirm(Vec<Due>),
    /// The write of the proposal was requested, after the churn records of these NodePools.
    Confirming(Vec<String>),
    /// The write of the next phase of the record, before its effects.
    Put(Box<CommandRecord>, Effects),
    /// The write of the next phase was requested.
    Putting(Box<CommandRecord>, Effects),
    /// The next effects.
    Change(Effects),
    /// The first of these were requested: so many.
    Changing(Effects, usize),
    /// The command is to be rolled back, for this reason.
    RollBack(String),
    /// The rollback was requested.
    RollingBack(Box<CommandRecord>),
    /// The record is to be deleted, after these events are published.
    End(Vec<Action>),
    /// The deletion of the record was requested.
    Ending,
    /// The command waits for another plan, for this reason.
    Wait(String),
    /// The command is done in this plan.
    Over,
}

/// The effects of a step that are not carried out yet.
struct Effects {
    changes: VecDeque<Change>,
    /// Why the effect after the changes is impossible.
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

    /// Writes that a proposal was validated, and continues with it. The churn records are written first.
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
                At::Step => {
                    self.at = self.step(now);
                    continue;
                }
                At::Confirm(due) => self.confirm(due, now),
                At::Put(planned, effects) => {
                    let actions = put(&planned);
                    self.at = At::Putting(planned, effects);
                    actions
                }
                At::Change(effects) => return Some(self.change(effects, now)),
                At::RollBack(why) => self.roll_back(why, now),
                At::End(stated) => self.end(stated),
                At::Wait(why) => self.report_wait(why),
                At::Confirming(_) | At::Putting(..) | At::Changing(..) | At::RollingBack(_) | At::Ending | At::Over => {
                    return None;
                }
            };
            return Some(Batch::in_turn(Stage::Disruption, actions));
        }
    }

    /// The next step, which follows from the record.
    fn step(&mut self, now: &ClaimsNow<'_>) -> At {
        self.steps += 1;
        if self.steps > STEPS {
            return At::Wait("it reached the maximum number of steps".to_owned());
        }
        let ClaimsNow { claims, tainted, paused, doubt, .. } = now;
        let seen = Surroundings { claims, tainted, paused, blocked: doubt.as_deref() };
        let CommandStep { record, effects, events, outcome } = step(&self.record, seen, now.now);
        self.outcome.events.extend(events);
        let Some(planned) = record else {
            return At::End(ended(&self.record, outcome, now.now));
        };
        let changed = planned != self.record;
        if !changed && effects.is_empty() {
            if let Some(wait) = self.record.next_look(&now.claims) {
                self.outcome.report.wait_at_most(wait);
            }
            return At::Over;
        }
        let effects = effects_on(&planned, &effects, now);
        if changed { At::Put(Box::new(planned), effects) } else { effects.next() }
    }

    /// The next effects. Claims that exist are changed independently of each other, because a command may have thousands; so many
    /// in a batch that lifecycle can be woken between batches. Each launch depends on the plan revision that the one before it wrote.
    fn change(&mut self, effects: Effects, now: &ClaimsNow<'_>) -> Batch {
        let launches = |change: &Change| matches!(change, Change::Launched(_));
        let first = effects.changes.front().is_some_and(launches);
        let batch = effects.changes.iter().take_while(|change| launches(change) == first).take(CHANGES);
        let actions: Vec<Action> = batch.map(|change| change.action(now)).collect();
        self.at = At::Changing(effects, actions.len());
        if first { Batch::in_turn(Stage::Disruption, actions) } else { Batch::each(Stage::Disruption, actions) }
    }

    fn confirm(&mut self, due: Vec<Due>, now: &ClaimsNow<'_>) -> Vec<Action> {
        self.at = At::Confirming(due.iter().map(|due| due.record.node_pool.clone()).collect());
        let record = &self.record;
        let mut actions: Vec<Action> =
            due.into_iter().map(|due| Action::PutRecord(RecordKind::Churn, due.record)).collect();
        actions.extend(put(record));
        let command = &record.command;
        let subjects = command.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
        let summary = format!("{}; predicted savings {}", record.summary(), DollarsPerHour(command.savings_per_hour));
        let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
        let detail = carried_out(command, &made, None);
        actions.push(decision("disruption", subjects, summary, detail, now.now));
        actions
    }

    fn roll_back(&mut self, why: String, now: &ClaimsNow<'_>) -> Vec<Action> {
        let back = self.record.roll_back(why, now.now);
        let actions = put(&back);
        self.at = At::RollingBack(Box::new(back));
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
            At::RollingBack(record) => self.put(*record, written.first()),
            At::Putting(planned, effects) => match self.put(*planned, written.first()) {
                At::Step => effects.next(),
                wait => wait,
            },
            At::Changing(effects, requested) => self.learn_changes(effects, requested, now, written),
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

    /// Applies the results of the first `requested` changes. Changes after a failed one may have been written too.
    fn learn_changes(
        &mut self,
        mut effects: Effects,
        requested: usize,
        now: &mut ClaimsNow<'_>,
        written: &[Written],
    ) -> At {
        let mut problem = None;
        for (change, answer) in effects.changes.drain(..requested).zip(written) {
            match answer {
                Written::Refused(why) => drop(problem.get_or_insert(At::RollBack(why.clone()))),
                Written::Failed(why) | Written::Conflict(why) => drop(problem.get_or_insert(At::Wait(why.clone()))),
                _ => self.learn_change(change, now, answer),
            }
        }
        problem.unwrap_or_else(|| effects.next())
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

impl Effects {
    /// The request of the rest. If the claims are gone and nothing is left, the next step evaluates what remains.
    fn next(self) -> At {
        match self.refused {
            _ if !self.changes.is_empty() => At::Change(self),
            Some(why) => At::RollBack(why),
            None => At::Step,
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
fn effects_on(record: &CommandRecord, effects: &[CommandEffect], now: &ClaimsNow<'_>) -> Effects {
    let mut changes = VecDeque::with_capacity(effects.len());
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
                    return Effects { changes, refused: Some(why) };
                }
                claim.cloned().map(Change::Launched)
            }
        };
        changes.extend(change);
    }
    Effects { changes, refused: None }
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

    /// A command whose claims are taken, and which waits for nothing else.
    fn waiting(claims: usize) -> CommandRecord {
        let candidate = |number: usize| Candidate {
            node: format!("node-{number}"),
            node_claim: format!("default-{number}"),
            node_pool: "default".into(),
        };
        let command = Command {
            id: "c".into(),
            method: Method::Emptiness,
            reason: DisruptionReason::Empty,
            candidates: (1..=claims).map(candidate).collect(),
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

    fn taken(number: usize) -> NodeClaim {
        NodeClaim {
            name: format!("default-{number}"),
            uid: number.to_string(),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: Timestamp::UNIX_EPOCH,
            version: 7,
            spec: NodeClaimSpec::default(),
            phase: Phase::Initialized,
            status: NodeClaimStatus { command: Some("c".into()), ..NodeClaimStatus::default() },
        }
    }

    /// The batches of a command of so many claims, answered by this function.
    fn batches_of_a_run(claims: usize, unfinished: Option<&str>, answer: impl Fn(&Action) -> Written) -> Vec<Batch> {
        let catalog = Catalog::synthetic(1, CatalogFacts::embedded().unwrap());
        let mut snapshot = Snapshot::bare(Timestamp::UNIX_EPOCH, Arc::new(catalog));
        snapshot.claims = (1..=claims).map(taken).collect();
        snapshot.commands.records = vec![waiting(claims)];
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
        let (mut batches, mut written) = (Vec::new(), Vec::new());
        while let Some(batch) = run.next(&mut going_on.now, &written) {
            written = batch.actions.iter().map(&answer).collect();
            batches.push(batch);
        }
        batches
    }

    fn succeeds(_action: &Action) -> Written {
        Written::Version(8)
    }

    fn changed(batch: &Batch) -> Vec<&str> {
        fn claim(action: &Action) -> Option<&str> {
            if let Action::ChangeClaim(claim) = action { Some(claim.name.as_str()) } else { None }
        }
        batch.actions.iter().filter_map(claim).collect()
    }

    #[test]
    fn nothing_is_evicted_on_an_unfinished_picture() {
        let batches = batches_of_a_run(1, None, succeeds);
        assert!(batches.iter().any(|batch| !changed(batch).is_empty()), "{batches:?}");
        assert_eq!(batches_of_a_run(1, Some("3 pods were left for the next plan"), succeeds), []);
    }

    #[test]
    fn thousands_of_claims_are_changed_independently_after_the_record() {
        let batches = batches_of_a_run(600, None, succeeds);
        assert!(matches!(&batches[0].actions[..], [Action::PutCommand(record), Action::Log(_)]
            if record.phase == CommandPhase::Draining));
        assert!(batches[0].in_turn && changed(&batches[0]).is_empty());
        let sizes: Vec<usize> = batches[1..4].iter().map(|batch| changed(batch).len()).collect();
        assert_eq!(sizes, [256, 256, 88]);
        assert!(batches[1..4].iter().all(|batch| !batch.in_turn && batch.actions.len() == changed(batch).len()));
        let all: BTreeSet<&str> = batches[1..4].iter().flat_map(changed).collect();
        assert_eq!(all.len(), 600);
    }

    #[test]
    fn claims_that_cannot_be_written_leave_the_rest_to_the_next_plan() {
        let fails = |action: &Action| match action {
            Action::ChangeClaim(claim) if claim.name == "default-2" => Written::Failed("no answer".into()),
            _ => Written::Version(8),
        };
        let batches = batches_of_a_run(600, None, fails);
        assert_eq!(batches.iter().filter(|batch| !changed(batch).is_empty()).count(), 1, "{batches:?}");
        let last = &batches.last().unwrap().actions[..];
        assert!(matches!(last, [Action::Log(PlanLine::CommandWaits { why, .. })] if why == "no answer"), "{last:?}");
        let refuses = |action: &Action| match action {
            Action::PutCommand(_) => Written::Conflict("another plan wrote first".into()),
            _ => Written::Version(8),
        };
        let batches = batches_of_a_run(600, None, refuses);
        assert!(batches.iter().all(|batch| changed(batch).is_empty()), "the record is written before: {batches:?}");
    }
}
