//! The steps of one disruption command in a plan. Each is decided by [`step`], and its writes are executed before the next one.

use super::unready;
use crate::action::{Action, Batch, PlanLine, Stage, Written};
use crate::churn::{Breaker, Due};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches::limits;
use crate::nodes::voluntary_disruption::{class_facts, message, termination, undecoded_pods};
use crate::pools::EvaluatedPool;
use crate::records::decisions::{carried_out, decision};
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandEffect, CommandPhase, CommandRecord, Surroundings, step};
use nodeless_disruption::command::{CommandOutcome, CommandStep};
use nodeless_disruption::{NodeClassFacts, maintenance};
use nodeless_lifecycle::begin_termination_within;
use nodeless_model::claim::condition;
use nodeless_model::{ClusterLimits, ConditionStatus, DollarsPerHour, NodeClaim, Pause, Setting, Taint};
use nodeless_operations::shards::CLAIMS_PER_SHARD;
use nodeless_state::RecordKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of steps of one command in one plan: each phase, and some conflicts with another writer.
const STEPS: u32 = 24;
/// The number of claims of a command that are changed before lifecycle is woken for them: the size of a shard.
const CHANGES: usize = CLAIMS_PER_SHARD;
/// After this number of changed claims lifecycle is woken, before the next command or the rest of one is carried out.
const MANY: usize = 10;
/// When the next plan runs if a command could not continue.
const SOON: Duration = Duration::from_secs(5);

/// Claims and nodes after the actions of this plan.
pub(crate) struct ClaimsNow<'a> {
    claims: BTreeMap<String, NodeClaim>,
    tainted: BTreeMap<String, bool>,
    /// The NodePools whose disruption is paused or waits for a maintenance window, each with the reason.
    paused: BTreeMap<String, String>,
    /// Why no command may continue, if something could not be decoded.
    doubt: Option<String>,
    /// The nodes with a pod that could not be decoded, each with the reason why no command of it may continue.
    undecoded: BTreeMap<String, String>,
    evaluated: &'a [EvaluatedPool],
    /// The EC2NodeClasses, by name.
    classes: BTreeMap<String, NodeClassFacts>,
    cluster_limits: ClusterLimits,
    now: Timestamp,
    /// The recent voluntary disruption, including that of this plan.
    pub(crate) breaker: Breaker,
    /// Claims for which lifecycle has to be woken now.
    wake: Vec<String>,
}

impl<'a> ClaimsNow<'a> {
    pub(crate) fn new(facts: Facts<'a>, doubt: Option<String>, breaker: Breaker) -> Self {
        let (view, now) = (&facts.snapshot.view, facts.snapshot.now);
        let holds = |pause: &Setting<Pause>| pause.in_effect(now).map(|_| "it is paused".to_owned());
        let everywhere = holds(&view.options.pause).or_else(|| maintenance::waits(&view.options, now));
        let paused = facts.evaluated.iter().filter_map(|one| {
            let why = everywhere.clone().or_else(|| holds(&one.pool.options.pause))?;
            Some((one.pool.name.clone(), why))
        });
        Self {
            paused: paused.collect(),
            doubt,
            undecoded: undecoded_pods(view),
            claims: facts.claims.iter().map(|claim| (claim.name.clone(), claim.clone())).collect(),
            tainted: view.nodes.iter().map(|node| (node.name.clone(), node.has_taint(&Taint::disrupted()))).collect(),
            evaluated: facts.evaluated,
            classes: class_facts(view),
            cluster_limits: facts.snapshot.cluster_limits(),
            now,
            breaker,
            wake: Vec::new(),
        }
    }

    /// Wakes lifecycle if many claims were changed.
    pub(crate) async fn wake_many(&mut self, executor: &dyn Execute) {
        if self.wake.len() >= MANY {
            self.wake(executor).await;
        }
    }

    /// Wakes lifecycle for the claims that commands changed. The sweep finds those that are missed.
    pub(crate) async fn wake(&mut self, executor: &dyn Execute) {
        let names = std::mem::take(&mut self.wake);
        let actions = if names.is_empty() { Vec::new() } else { vec![Action::WakeClaims(names)] };
        executor.carry_out(&Batch::each(Stage::Disruption, actions)).await;
    }

    fn surroundings(&self, record: &CommandRecord) -> Surroundings<'_> {
        let Self { claims, tainted, paused, doubt, .. } = self;
        let blocked = doubt.as_deref().or_else(|| self.undecoded_of(record));
        Surroundings { claims, tainted, paused, blocked }
    }

    /// Why a command waits: a pod on a node that it removes, or to which it moves pods, could not be decoded.
    fn undecoded_of(&self, record: &CommandRecord) -> Option<&str> {
        let removed = record.candidates().iter().map(|candidate| &candidate.node);
        let mut nodes = removed.chain(record.command.placements.iter().map(|to| &to.node));
        nodes.find_map(|node| self.undecoded.get(node)).map(String::as_str)
    }

    /// The claims with the id of a command that is none of these, which stay.
    pub(crate) fn forgotten(&self, commands: &[CommandRecord]) -> Vec<String> {
        let holds = |id: &String| commands.iter().any(|record| record.command.id == *id);
        let forgotten = self
            .claims
            .values()
            .filter(|claim| !claim.phase.is_leaving() && claim.status.command.as_ref().is_some_and(|id| !holds(id)));
        forgotten.map(|claim| claim.name.clone()).collect()
    }

    /// The claim without the id of a command.
    pub(crate) fn released(&self, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        claim.status.command = None;
        claim.clear_condition(condition::DISRUPTION_REASON);
        Some(claim)
    }

    fn taken(&self, record: &CommandRecord, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        let reason = record.command.reason;
        claim.status.command = Some(record.command.id.clone());
        let text = why(record, &claim);
        let kind = condition::DISRUPTION_REASON;
        claim.set_condition(kind, ConditionStatus::True, &format!("{reason:?}"), &text, self.now);
        Some(claim)
    }

    fn terminated(&self, record: &CommandRecord, name: &str) -> Option<NodeClaim> {
        let mut claim = self.claims.get(name)?.clone();
        let text = why(record, &claim);
        let repair = record.command.repair.as_ref().map(|repair| repair.drain_within);
        let within = repair.or(claim.spec.termination_grace_period);
        begin_termination_within(&mut claim, termination(record.command.reason), &text, within, self.now);
        Some(claim)
    }

    /// Applies the result of changing a claim, and returns whether it was changed. If another process wrote it meanwhile, the
    /// next step decides on its current state.
    pub(crate) fn learn(&mut self, claim: &NodeClaim, answer: &Written) -> bool {
        let name = claim.name.clone();
        let (after, changed) = match answer {
            Written::Version(version) => (Some(NodeClaim { version: *version, ..claim.clone() }), true),
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

/// A command in this plan, with what its steps change.
pub(crate) struct CommandRun<'r, 'a> {
    pub(crate) record: CommandRecord,
    pub(crate) claims: &'r mut ClaimsNow<'a>,
    pub(crate) executor: &'r dyn Execute,
    pub(crate) outcome: &'r mut Outcome,
}

impl CommandRun<'_, '_> {
    /// Takes as many steps as possible.
    pub(crate) async fn advance(mut self) {
        if let Err(why) = self.steps().await {
            self.wait(why).await;
        }
    }

    /// Writes that a proposal was validated, and continues with it. The churn records are written first.
    pub(crate) async fn carry_out(mut self, due: Vec<Due>) {
        match self.confirm(due).await {
            Ok(()) => self.advance().await,
            Err(why) => self.wait(why).await,
        }
    }

    /// Deletes a proposal that is no longer valid. Nothing was changed for it.
    pub(crate) async fn discard(mut self) {
        let line = stepped(&self.record, "Dropped");
        if let Err(why) = self.end(vec![line]).await {
            self.wait(why).await;
        }
    }

    /// Reports why the command cannot continue in this plan.
    pub(crate) async fn wait(mut self, why: String) {
        let line = waits(&self.record, why, self.outcome);
        self.write(vec![line]).await;
    }

    /// Takes steps until the command waits for something, or has ended.
    ///
    /// # Errors
    /// If it cannot continue in this plan.
    async fn steps(&mut self) -> Result<(), String> {
        let now = self.claims.now;
        for _ in 0..STEPS {
            let CommandStep { record, effects, events, outcome } =
                step(&self.record, self.claims.surroundings(&self.record), now);
            self.outcome.events.extend(events);
            let Some(planned) = record else {
                return self.end(ended(&self.record, outcome, now)).await;
            };
            let changed = planned != self.record;
            if !changed && effects.is_empty() {
                if let Some(wait) = self.record.next_look(&self.claims.claims) {
                    self.outcome.report.wait_at_most(wait);
                }
                return Ok(());
            }
            let effects = effects_on(&planned, &effects, self.claims);
            if changed {
                self.note_unready(&planned).await?;
                self.put(planned).await?;
            }
            if let Some(why) = self.change(&effects).await? {
                self.put(self.record.roll_back(why, now)).await?;
            }
        }
        Err("it reached the maximum number of steps".to_owned())
    }

    /// Records that replacements did not become ready, before the command is rolled back.
    async fn note_unready(&mut self, planned: &CommandRecord) -> Result<(), String> {
        let now = self.claims.now;
        if planned.phase != CommandPhase::RollingBack {
            return Ok(());
        }
        let pools = self.record.unready_node_pools(&self.claims.claims, now);
        let templates = unready::templates(&pools, self.claims.evaluated, &self.claims.classes);
        let written = unready::note(&self.record.command.id, templates, now, self.executor).await?;
        written.iter().for_each(|record| self.claims.breaker.wrote(record));
        Ok(())
    }

    /// Writes that the proposal was validated, after the churn records.
    async fn confirm(&mut self, due: Vec<Due>) -> Result<(), String> {
        let pools: Vec<String> = due.iter().map(|due| due.record.node_pool.clone()).collect();
        let records = due.into_iter().map(|due| Action::PutRecord(RecordKind::Churn, due.record));
        let mut actions: Vec<Action> = records.collect();
        actions.extend(put(&self.record));
        actions.push(explanation(&self.record, self.claims.now));
        let written = self.write(actions).await;

        let (noted, rest) = written.split_at(pools.len().min(written.len()));
        if let Some(why) = noted.iter().find_map(Written::problem) {
            return Err(why.to_owned());
        }
        let noted = pools.iter().map(String::as_str).zip(noted);
        self.claims.breaker.carried_out(&self.record.command, noted, self.claims.now);
        self.record = written_record(self.record.clone(), rest.first())?;
        Ok(())
    }

    /// Writes the next phase of the record, before its effects.
    async fn put(&mut self, next: CommandRecord) -> Result<(), String> {
        let written = self.write(put(&next)).await;
        self.record = written_record(next, written.first())?;
        Ok(())
    }

    /// Changes claims. Returns why the command is rolled back, if an effect is impossible.
    ///
    /// Claims that exist are changed independently of each other, because a command may have thousands; so many in a batch that
    /// lifecycle can be woken between batches. Each launch depends on the plan revision that the one before it wrote.
    async fn change(&mut self, effects: &Effects) -> Result<Option<String>, String> {
        let alike = effects.changes.chunk_by(|one, next| one.launches() == next.launches());
        for together in alike.flat_map(|alike| alike.chunks(CHANGES)) {
            let in_turn = together.iter().any(Change::launches);
            let actions = together.iter().map(|change| change.action(self.claims)).collect();
            let written = self.execute(&Batch { stage: Stage::Disruption, in_turn, actions }).await;
            for (change, answer) in together.iter().zip(&written).filter(|(_, answer)| answer.problem().is_none()) {
                self.learn(change, answer);
            }
            // Changes after a failed one may have been written too.
            match written.iter().find_map(|answer| Some((answer, answer.problem()?))) {
                None => {}
                Some((Written::Refused(_), why)) => return Ok(Some(why.to_owned())),
                Some((_, why)) => return Err(why.to_owned()),
            }
        }
        Ok(effects.impossible.clone())
    }

    fn learn(&mut self, change: &Change, answer: &Written) {
        let (Change::Taken(claim) | Change::Launched(claim) | Change::Terminated(claim)) = change;
        let changed = self.claims.learn(claim, answer);
        match change {
            Change::Taken(_) => {}
            Change::Launched(_) => self.outcome.report.created.push(claim.name.clone()),
            Change::Terminated(_) if changed => self.outcome.report.leaving.push(claim.name.clone()),
            Change::Terminated(_) => {}
        }
    }

    /// Deletes the record, after these actions.
    async fn end(&mut self, mut actions: Vec<Action>) -> Result<(), String> {
        actions.push(Action::DeleteCommand(self.record.command.id.clone(), self.record.version));
        let written = self.write(actions).await;
        written.last().and_then(Written::problem).map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// Executes actions, each only if those before it succeeded.
    async fn write(&mut self, actions: Vec<Action>) -> Vec<Written> {
        self.execute(&Batch::in_turn(Stage::Disruption, actions)).await
    }

    async fn execute(&mut self, batch: &Batch) -> Vec<Written> {
        // The first claims of a large command are reconciled while the others are written.
        self.claims.wake_many(self.executor).await;
        self.executor.carry_out(batch).await
    }
}

/// The effects of a step.
struct Effects {
    changes: Vec<Change>,
    /// Why the effect after the changes is impossible.
    impossible: Option<String>,
}

/// A claim after an effect.
enum Change {
    Taken(NodeClaim),
    Launched(NodeClaim),
    Terminated(NodeClaim),
}

/// A record after it is written.
///
/// # Errors
/// If the write failed: another process or the next plan continues with the command.
fn written_record(record: CommandRecord, answer: Option<&Written>) -> Result<CommandRecord, String> {
    match answer {
        Some(Written::Version(version)) => Ok(CommandRecord { version: *version, ..record }),
        answer => Err(answer.and_then(Written::problem).unwrap_or("it was not written").to_owned()),
    }
}

impl Change {
    const fn launches(&self) -> bool {
        matches!(self, Self::Launched(_))
    }

    fn action(&self, now: &ClaimsNow<'_>) -> Action {
        match self {
            Self::Taken(claim) | Self::Terminated(claim) => Action::ChangeClaim(Box::new(claim.clone())),
            Self::Launched(claim) => {
                let pool = now.evaluated.iter().find(|one| claim.is_of(&one.pool.name));
                let limits = limits(pool.map(|one| &one.pool), &now.cluster_limits);
                Action::CreateReplacement(Box::new(claim.clone()), limits)
            }
        }
    }
}

/// The claims after effects, up to the first impossible effect, and why it is impossible. A deleted claim needs no effect.
fn effects_on(record: &CommandRecord, effects: &[CommandEffect], now: &ClaimsNow<'_>) -> Effects {
    let mut changes = Vec::with_capacity(effects.len());
    for effect in effects {
        let change = match effect {
            CommandEffect::Take { claim } => now.taken(record, claim).map(Change::Taken),
            CommandEffect::Release { claim } => now.released(claim).map(Change::Taken),
            CommandEffect::Terminate { claim } => now.terminated(record, claim).map(Change::Terminated),
            CommandEffect::Launch { replacement } => {
                let claim = record.replacements.get(*replacement);
                let pool = |claim: &NodeClaim| now.evaluated.iter().any(|one| claim.is_of(&one.pool.name));
                if let Some(claim) = claim.filter(|claim| !pool(claim)) {
                    let why = format!(
                        "the NodePool {} of a replacement is gone",
                        claim.node_pool.as_deref().unwrap_or_default()
                    );
                    return Effects { changes, impossible: Some(why) };
                }
                claim.cloned().map(Change::Launched)
            }
        };
        changes.extend(change);
    }
    Effects { changes, impossible: None }
}

/// Writes a record, and a log line.
fn put(record: &CommandRecord) -> Vec<Action> {
    vec![Action::PutCommand(Box::new(record.clone())), reached(record)]
}

/// The log line about the phase of a record.
pub(crate) fn reached(record: &CommandRecord) -> Action {
    stepped(record, phase_name(record.phase))
}

/// Reports why a command cannot continue in this plan, and returns the log line.
pub(crate) fn waits(record: &CommandRecord, why: String, outcome: &mut Outcome) -> Action {
    let command = record.command.id.clone();
    outcome.report.problems.push(format!("command {command}: {why}"));
    outcome.report.wait_at_most(SOON);
    Action::Log(PlanLine::CommandWaits { command, why })
}

/// Why a command disrupts a node, in a sentence.
fn why(record: &CommandRecord, claim: &NodeClaim) -> String {
    let command = &record.command;
    match (&command.zones, &command.repair) {
        (Some(zones), _) => format!("its pods are uneven: {zones}"),
        (_, Some(repair)) => repair.why.clone(),
        _ => message(command.reason, claim),
    }
}

/// The explanation of a validated proposal.
fn explanation(record: &CommandRecord, now: Timestamp) -> Action {
    let command = &record.command;
    let subjects = command.candidates.iter().map(|candidate| candidate.node_claim.clone()).collect();
    let price = match command.savings_per_hour {
        saving if saving < 0.0 => format!("predicted cost {}", DollarsPerHour(-saving)),
        saving => format!("predicted savings {}", DollarsPerHour(saving)),
    };
    let summary = format!("{}; {price}", record.summary());
    let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
    decision("disruption", subjects, summary, carried_out(command, &made, None), now)
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
    use crate::pods::expected::Expected;
    use crate::pods::placed::VirtualPods;
    use crate::pools::Offered;
    use crate::snapshot::Snapshot;
    use crate::stages::disruption;
    use crate::stages::provisioning;
    use async_trait::async_trait;
    use futures::executor::block_on;
    use nodeless_catalog::{Catalog, Facts as CatalogFacts};
    use nodeless_disruption::{Candidate, Command, Method};
    use nodeless_model::test_support::node_claim;
    use nodeless_model::{DisruptionReason, NodeClaimStatus, Phase, Pod};
    use nodeless_operations::offers::OfferCache;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

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
            zones: None,
            repair: None,
            decided: Timestamp::UNIX_EPOCH,
        };
        let proposed = CommandRecord { version: 3, ..CommandRecord::propose(command) };
        CommandRecord { phase: CommandPhase::Waiting, ..proposed }
    }

    fn taken(number: usize) -> NodeClaim {
        NodeClaim {
            version: 7,
            phase: Phase::Initialized,
            status: NodeClaimStatus { command: Some("c".into()), ..NodeClaimStatus::default() },
            ..node_claim(&format!("default-{number}"))
        }
    }

    /// Answers each action with this function.
    struct Answering {
        answer: fn(&Action) -> Written,
        batches: Mutex<Vec<Batch>>,
    }

    impl Answering {
        fn with(answer: fn(&Action) -> Written) -> Self {
            Self { answer, batches: Mutex::default() }
        }

        /// The executed batches, without those that wake lifecycle.
        fn batches(self) -> Vec<Batch> {
            let mut batches = self.batches.into_inner().unwrap();
            batches.retain(|batch| !matches!(batch.actions[..], [] | [Action::WakeClaims(_)]));
            batches
        }
    }

    #[async_trait]
    impl Execute for Answering {
        async fn carry_out(&self, batch: &Batch) -> Vec<Written> {
            self.batches.lock().unwrap().push(batch.clone());
            batch.actions.iter().map(self.answer).collect()
        }

        fn has_time(&self) -> bool {
            true
        }
    }

    /// A snapshot with one command of so many claims.
    fn snapshot(claims: usize) -> Snapshot {
        let catalog = Catalog::synthetic(1, CatalogFacts::embedded().unwrap());
        let mut snapshot = Snapshot::bare(Timestamp::UNIX_EPOCH, Arc::new(catalog));
        snapshot.claims = (1..=claims).map(taken).collect();
        snapshot.commands.records = vec![waiting(claims)];
        snapshot
    }

    fn facts<'a>(snapshot: &'a Snapshot, offered: &'a Offered) -> Facts<'a> {
        let (claims, commands) = (&snapshot.claims, &snapshot.commands);
        Facts { snapshot, evaluated: &offered.evaluated, claims, commands }
    }

    /// The batches of a command of so many claims, answered by this function.
    fn batches_of_a_run(claims: usize, answer: fn(&Action) -> Written) -> Vec<Batch> {
        let snapshot = snapshot(claims);
        let offered = Offered::new(&snapshot, &OfferCache::default());
        let mut claims = ClaimsNow::new(facts(&snapshot, &offered), None, Breaker::default());
        let (executor, mut outcome) = (Answering::with(answer), Outcome::default());
        let record = snapshot.commands.records[0].clone();
        let run = CommandRun { record, claims: &mut claims, executor: &executor, outcome: &mut outcome };
        block_on(run.advance());
        executor.batches()
    }

    /// The batches of a plan with a command and a pending pod, with this work budget for pods.
    fn batches_of_a_plan(work: Option<u64>) -> (Vec<Batch>, Outcome) {
        let mut snapshot = snapshot(1);
        snapshot.work.provisioning = work;
        snapshot.view.pods = vec![Pod { name: "late".into(), marked_unschedulable: true, ..Pod::default() }.into()];
        let offered = Offered::new(&snapshot, &OfferCache::default());
        let facts = facts(&snapshot, &offered);
        let expected = Expected::default();
        let virtual_pods = VirtualPods { reserved: &[], requested: &[], expected: &expected };
        let placed = provisioning::place(facts, virtual_pods, &[]);
        let mut outcome = Outcome::default();
        let executor = Answering::with(|action| match action {
            Action::ReadWork => Written::Work(1_000),
            _ => Written::Version(8),
        });
        block_on(disruption::run(facts, &placed, &mut snapshot.names(), &executor, &mut outcome));
        (executor.batches(), outcome)
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
        let evicts = |(batches, _): &(Vec<Batch>, Outcome)| batches.iter().any(|batch| !changed(batch).is_empty());
        assert!(evicts(&batches_of_a_plan(None)));
        let unfinished = batches_of_a_plan(Some(0));
        let problems = &unfinished.1.report.problems;
        assert!(problems.iter().any(|why| why.contains("1 pod was left for the next plan")), "{problems:?}");
        assert!(!evicts(&unfinished), "{:?}", unfinished.0);
    }

    #[test]
    fn thousands_of_claims_are_changed_independently_after_the_record() {
        let batches = batches_of_a_run(600, succeeds);
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
        let batches = batches_of_a_run(600, fails);
        assert_eq!(batches.iter().filter(|batch| !changed(batch).is_empty()).count(), 1, "{batches:?}");
        let last = &batches.last().unwrap().actions[..];
        assert!(matches!(last, [Action::Log(PlanLine::CommandWaits { why, .. })] if why == "no answer"), "{last:?}");
        let refuses = |action: &Action| match action {
            Action::PutCommand(_) => Written::Conflict("another plan wrote first".into()),
            _ => Written::Version(8),
        };
        let batches = batches_of_a_run(600, refuses);
        assert!(batches.iter().all(|batch| changed(batch).is_empty()), "the record is written before: {batches:?}");
    }
}
