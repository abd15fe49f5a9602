//! Carrying out disruption commands: reading and writing their records, and doing what their steps want done.

use super::commit::limits;
use super::disrupt::{message, termination};
use super::pools::Judged;
use super::record::carried_out;
use super::{PlanReport, Planner};
use crate::lines::{CommandStepped, CommandWaits, Failed};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandEffect, CommandPhase, CommandRecord, Outcome, Surroundings, step};
use nodeless_disruption::pause::{Pause, pause};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::condition;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, NodeClaim, Taint};
use nodeless_ports::claims::{Created, StoredCommand};
use nodeless_ports::cluster::ClusterView;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::time::Duration;

/// The most steps of one command in one plan: each phase, and some that meet another writer.
const STEPS: u32 = 24;
/// When a plan is made again that could not go on with a command.
const SOON: Duration = Duration::from_secs(5);

/// The commands that are on their way.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) records: Vec<CommandRecord>,
    /// Those that cannot be understood. What they hold is not known, so no node is disrupted by choice.
    pub(super) damaged: Vec<String>,
}

impl Commands {
    pub(super) fn decode(stored: Vec<StoredCommand>) -> Self {
        let mut commands = Self::default();
        for one in stored {
            match decode(&one) {
                Ok(record) => commands.records.push(record),
                Err(why) => commands.damaged.push(format!(
                    "the item command#{} of the claims table cannot be understood ({why}); delete it if it was not written \
                     by a newer version",
                    one.id
                )),
            }
        }
        commands
    }

    /// The claims whose pods have to find a place now, because what takes their place is there or on its way.
    pub(super) fn replaced(&self, claims: &[NodeClaim]) -> BTreeSet<String> {
        let stands = |name: &str| claims.iter().any(|claim| claim.name == name && !claim.phase.is_leaving());
        let moving = self.records.iter().filter(|record| {
            // One that is about to be rolled back moves nothing.
            record.moves_pods() && record.replacements.iter().all(|replacement| stands(&replacement.name))
        });
        moving.flat_map(CommandRecord::candidates).map(|candidate| candidate.node_claim.clone()).collect()
    }
}

impl Commands {
    /// The pods, `namespace/name`, for which commands launch claims that are not written yet. Those that run have a node until
    /// these are there; what stands for the room of a buffer has none any more, and must not be launched for twice.
    pub(super) fn awaited(&self, claims: &[NodeClaim]) -> BTreeSet<String> {
        let under_way = |record: &&CommandRecord| {
            matches!(record.phase, CommandPhase::Tainting | CommandPhase::Launching | CommandPhase::Waiting)
        };
        let launched = self.records.iter().filter(under_way).flat_map(|record| &record.replacements);
        let unwritten = launched.filter(|made| claims.iter().all(|claim| claim.name != made.name));
        unwritten.flat_map(|made| &made.spec.nominated_pods).cloned().collect()
    }
}

/// Reads a command as it is stored.
///
/// # Errors
/// What is wrong with it, in words.
pub fn decode(stored: &StoredCommand) -> Result<CommandRecord, String> {
    let mut text = Vec::new();
    DeflateDecoder::new(stored.encoded.as_slice()).read_to_end(&mut text).map_err(|error| error.to_string())?;
    let mut record: CommandRecord = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    record.version = stored.version;
    Ok(record)
}

/// Writes a command as it is stored.
///
/// # Errors
/// When it cannot be written.
pub fn encode(record: &CommandRecord) -> Result<StoredCommand, PortError> {
    let invalid = |why: &dyn std::fmt::Display| PortError::new(ErrorKind::Invalid, "encode command", why.to_string());
    let text = serde_json::to_vec(record).map_err(|error| invalid(&error))?;
    // Lists of instance types repeat themselves, and an item of the table is limited.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&text).map_err(|error| invalid(&error))?;
    let encoded = encoder.finish().map_err(|error| invalid(&error))?;
    Ok(StoredCommand { id: record.command.id.clone(), version: record.version, summary: record.summary(), encoded })
}

/// Claims and nodes as they are after what this plan has done to them.
pub(super) struct Hands<'a> {
    claims: BTreeMap<String, NodeClaim>,
    tainted: BTreeMap<String, bool>,
    /// The NodePools for which somebody paused disruption.
    paused: BTreeSet<String>,
    /// Why no command may go on, if something cannot be understood.
    doubt: Option<&'a str>,
    judged: &'a [Judged],
    now: Timestamp,
    /// Claims that somebody has to look after now.
    wake: Vec<String>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(
        view: &ClusterView,
        records: &[NodeClaim],
        judged: &'a [Judged],
        doubt: Option<&'a str>,
        now: Timestamp,
    ) -> Self {
        let holds = |annotations| !matches!(pause(annotations, now), Pause::None);
        let everywhere = holds(&view.annotations);
        let paused = judged.iter().filter(|one| everywhere || holds(&one.pool.disruption.annotations));
        Self {
            paused: paused.map(|one| one.pool.name.clone()).collect(),
            doubt,
            claims: records.iter().map(|claim| (claim.name.clone(), claim.clone())).collect(),
            tainted: view.nodes.iter().map(|node| (node.name.clone(), node.has_taint(&Taint::disrupted()))).collect(),
            judged,
            now,
            wake: Vec::new(),
        }
    }
}

impl Hands<'_> {
    /// The time of the plan.
    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    /// How many claims were changed of which nobody was told yet.
    pub(super) const fn changed(&self) -> usize {
        self.wake.len()
    }
}

/// What came of an effect.
enum Effected {
    Done,
    /// It will never be possible, so the command is rolled back.
    Refused(String),
}

impl Planner {
    /// Writes a command down that was just decided. Nothing else happens to it in this plan.
    pub(super) async fn propose(&self, record: &CommandRecord, report: &mut PlanReport) {
        if self.put(record, report).await.is_some() {
            report.proposed.extend(record.candidates().iter().map(|candidate| candidate.node_claim.clone()));
        }
    }

    /// Deletes a proposal that is no longer right. Nothing was touched for it.
    pub(super) async fn drop_proposal(&self, record: &CommandRecord, report: &mut PlanReport) {
        self.log_step(record, "Dropped");
        self.forget(record, report).await;
    }

    /// Writes that a proposal was found right again, and goes on with it.
    pub(super) async fn carry_out(
        &self,
        record: CommandRecord,
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) {
        let Some(record) = self.put(&record, report).await else { return };
        let subjects = record.candidates().iter().map(|candidate| candidate.node_claim.clone()).collect();
        let command = &record.command;
        let summary = format!("{}; saves {:.4} dollars per hour", record.summary(), command.savings_per_hour);
        let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
        let detail = carried_out(command, &made, None);
        self.record("disruption", subjects, summary, detail, hands.now).await;
        self.advance(record, hands, report, events).await;
    }

    /// Takes a command as many steps further as it can go now.
    pub(super) async fn advance(
        &self,
        mut record: CommandRecord,
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) {
        for _ in 0..STEPS {
            let Hands { claims, tainted, paused, doubt, .. } = &*hands;
            let next = step(&record, Surroundings { claims, tainted, paused, doubt: *doubt }, hands.now);
            events.extend(next.events);
            let Some(planned) = next.record else {
                self.end(&record, next.outcome, hands.now, report).await;
                return;
            };
            let changed = planned != record;
            if changed {
                let Some(written) = self.put(&planned, report).await else { return };
                record = written;
            } else if next.effects.is_empty() {
                if let Some(wait) = record.next_look(&hands.claims) {
                    report.wait_at_most(wait);
                }
                return;
            }
            for effect in &next.effects {
                match self.effect(&record, effect, hands, report).await {
                    Ok(Effected::Done) => {}
                    Ok(Effected::Refused(why)) => {
                        let Some(written) = self.put(&record.roll_back(why, hands.now), report).await else { return };
                        record = written;
                        break;
                    }
                    Err(error) => {
                        self.wait(&record, &error.to_string(), report);
                        return;
                    }
                }
            }
        }
        self.wait(&record, "it did not settle", report);
    }

    /// Tells those who look after the claims that were changed for commands.
    pub(super) async fn wake_changed(&self, hands: &mut Hands<'_>) {
        let messages: Vec<(String, Duration)> =
            std::mem::take(&mut hands.wake).into_iter().map(|name| (name, Duration::ZERO)).collect();
        if !messages.is_empty()
            && let Err(error) = self.queue.wake_claims(&messages).await
        {
            // The sweep finds them within a minute.
            self.context.log(&Failed { what: "wake claims", why: &error.to_string() });
        }
    }

    /// Takes the ids of commands that have ended off claims that stay.
    pub(super) async fn release_forgotten(
        &self,
        commands: &[CommandRecord],
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
    ) {
        let holds = |id: &String| commands.iter().any(|record| record.command.id == *id);
        let forgotten: Vec<String> = hands
            .claims
            .values()
            .filter(|claim| !claim.phase.is_leaving() && claim.status.command.as_ref().is_some_and(|id| !holds(id)))
            .map(|claim| claim.name.clone())
            .collect();
        for name in forgotten {
            if let Err(error) = self.release(&name, hands).await {
                report.problems.push(format!("NodeClaim {name}: {error}"));
            }
        }
    }

    async fn effect(
        &self,
        record: &CommandRecord,
        effect: &CommandEffect,
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
    ) -> Result<Effected, PortError> {
        match effect {
            CommandEffect::Take { claim } => self.take(record, claim, hands).await?,
            CommandEffect::Launch { replacement } => {
                if let Some(claim) = record.replacements.get(*replacement) {
                    return self.launch_replacement(claim, hands, report).await;
                }
            }
            CommandEffect::Terminate { claim } => self.terminate(record, claim, hands, report).await?,
            CommandEffect::Release { claim } => self.release(claim, hands).await?,
        }
        Ok(Effected::Done)
    }

    async fn take(&self, record: &CommandRecord, name: &str, hands: &mut Hands<'_>) -> Result<(), PortError> {
        let reason = format!("{:?}", record.command.reason);
        let id = record.command.id.clone();
        let change = |claim: &mut NodeClaim, now| {
            claim.status.command = Some(id);
            let text = message(record.command.reason, claim);
            claim.set_condition(condition::DISRUPTION_REASON, ConditionStatus::True, &reason, &text, now);
        };
        self.change(name, change, hands).await.map(|_| ())
    }

    async fn release(&self, name: &str, hands: &mut Hands<'_>) -> Result<(), PortError> {
        let change = |claim: &mut NodeClaim, _| {
            claim.status.command = None;
            claim.clear_condition(condition::DISRUPTION_REASON);
        };
        self.change(name, change, hands).await.map(|_| ())
    }

    async fn terminate(
        &self,
        record: &CommandRecord,
        name: &str,
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
    ) -> Result<(), PortError> {
        let reason = record.command.reason;
        let change = |claim: &mut NodeClaim, now| {
            let why = message(reason, claim);
            begin_termination(claim, termination(reason), &why, now);
        };
        if self.change(name, change, hands).await? {
            report.leaving.push(name.to_owned());
        }
        Ok(())
    }

    /// Changes a claim, and has it looked after. When somebody else wrote it meanwhile, it is only read again, and the next
    /// step decides on what it is now. Says whether it was changed.
    async fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut NodeClaim, Timestamp),
        hands: &mut Hands<'_>,
    ) -> Result<bool, PortError> {
        let Some(mut claim) = hands.claims.get(name).cloned() else { return Ok(false) };
        change(&mut claim, hands.now);
        match self.claims.update(&claim, None).await {
            Ok(version) => claim.version = version,
            Err(error) if error.kind == ErrorKind::Conflict => {
                match self.claims.get(name).await? {
                    Some(fresh) => hands.claims.insert(name.to_owned(), fresh),
                    None => hands.claims.remove(name),
                };
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        hands.wake.push(name.to_owned());
        hands.claims.insert(name.to_owned(), claim);
        Ok(true)
    }

    async fn launch_replacement(
        &self,
        claim: &NodeClaim,
        hands: &mut Hands<'_>,
        report: &mut PlanReport,
    ) -> Result<Effected, PortError> {
        let Some(pool) = hands.judged.iter().find(|pool| pool.pool.name == claim.node_pool) else {
            return Ok(Effected::Refused(format!("the NodePool {} of a replacement is gone", claim.node_pool)));
        };
        let written = match self.claims.create(claim, Some(&limits(&pool.pool))).await {
            Ok(Created::Written) => NodeClaim { version: 1, ..claim.clone() },
            Ok(Created::AlreadyThere) => match self.claims.get(&claim.name).await? {
                Some(present) => present,
                None => {
                    return Ok(Effected::Refused(format!("its replacement, NodeClaim {}, has gone again", claim.name)));
                }
            },
            Ok(Created::LimitReached { resource }) => {
                let pool = &claim.node_pool;
                return Ok(Effected::Refused(format!(
                    "its replacement would pass the limit of {resource} of NodePool {pool}"
                )));
            }
            Err(error) if error.kind == ErrorKind::Conflict => {
                return Ok(Effected::Refused(format!("the name of its replacement, {}, is taken", claim.name)));
            }
            Err(error) => return Err(error),
        };
        report.created.push(claim.name.clone());
        hands.wake.push(claim.name.clone());
        hands.claims.insert(claim.name.clone(), written);
        Ok(Effected::Done)
    }

    async fn end(&self, record: &CommandRecord, outcome: Option<Outcome>, now: Timestamp, report: &mut PlanReport) {
        self.log_step(record, if outcome == Some(Outcome::RolledBack) { "RolledBack" } else { "Done" });
        if outcome == Some(Outcome::RolledBack) {
            let subjects = record.candidates().iter().map(|candidate| candidate.node_claim.clone()).collect();
            let made: Vec<&str> = record.replacements.iter().map(|claim| claim.name.as_str()).collect();
            let detail = carried_out(&record.command, &made, record.failure.as_deref());
            self.record("disruption-rolled-back", subjects, record.summary(), detail, now).await;
        }
        self.forget(record, report).await;
    }

    /// Writes a record and gives it as it is then. `None` when it was not written: somebody else goes on with it, or the
    /// next plan does.
    async fn put(&self, record: &CommandRecord, report: &mut PlanReport) -> Option<CommandRecord> {
        let written = match encode(record) {
            Ok(stored) => self.claims.put_command(&stored).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(version) => {
                self.log_step(record, phase_name(record.phase));
                Some(CommandRecord { version, ..record.clone() })
            }
            Err(error) => {
                self.wait(record, &error.to_string(), report);
                None
            }
        }
    }

    async fn forget(&self, record: &CommandRecord, report: &mut PlanReport) {
        let stored = StoredCommand {
            id: record.command.id.clone(),
            version: record.version,
            summary: String::new(),
            encoded: Vec::new(),
        };
        if let Err(error) = self.claims.delete_command(&stored).await {
            self.wait(record, &error.to_string(), report);
        }
    }

    pub(super) fn wait(&self, record: &CommandRecord, why: &str, report: &mut PlanReport) {
        self.context.log(&CommandWaits { command: &record.command.id, why });
        report.problems.push(format!("command {}: {why}", record.command.id));
        report.wait_at_most(SOON);
    }

    fn log_step(&self, record: &CommandRecord, to: &str) {
        self.context.log(&CommandStepped { command: &record.command.id, to, summary: &record.summary() });
    }
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
