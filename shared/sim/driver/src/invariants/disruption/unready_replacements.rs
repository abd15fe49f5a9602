//! Commands that launch again from a NodePool right after replacements from it did not become ready.

use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, Phase};
use nodeless_planner::decode_command;
use nodeless_state::plans::StoredCommand;
use std::collections::BTreeMap;

/// How long commands have to wait at least.
const WAIT: SignedDuration = SignedDuration::from_mins(15);

/// The observed commands, and the NodePools whose replacements did not become ready, by name.
#[derive(Debug, Default)]
pub(in crate::invariants) struct UnreadyReplacements {
    seen: BTreeMap<String, CommandRecord>,
    failed: BTreeMap<String, Failed>,
}

/// A command that ended because its replacements did not become ready.
#[derive(Debug)]
struct Failed {
    command: String,
    at: Timestamp,
    /// What the NodePool launched.
    template: String,
}

impl UnreadyReplacements {
    /// Checks the current commands. `template` is what a NodePool launches: another template may become ready.
    pub(in crate::invariants) fn check(
        &mut self,
        stored: &[StoredCommand],
        claims: &[NodeClaim],
        template: impl Fn(&str) -> String,
        now: Timestamp,
    ) -> Vec<String> {
        let records = stored.iter().filter_map(|command| decode_command(command).ok());
        let records = records.filter(|record| record.phase != CommandPhase::Proposed);
        let records: BTreeMap<String, CommandRecord> =
            records.map(|record| (record.command.id.clone(), record)).collect();
        self.failed.retain(|pool, failed| {
            now.duration_since(failed.at) < WAIT
                && !ready_since(claims, pool, failed.at)
                && template(pool) == failed.template
        });
        let mut wrong = Vec::new();
        for record in records.values().filter(|record| !self.seen.contains_key(&record.command.id)) {
            let pools = record.replacements.iter().filter_map(|claim| claim.node_pool.as_ref());
            let Some((pool, failed)) = pools.filter_map(|pool| self.failed.get_key_value(pool)).next() else {
                continue;
            };
            wrong.push(format!(
                "command {} launches from NodePool {pool}, and the replacements of {} did not become ready by {}",
                record.command.id, failed.command, failed.at
            ));
        }
        let ended = |id: &String| records.get(id).is_none_or(|record| record.phase == CommandPhase::RollingBack);
        for (id, record) in
            self.seen.iter().filter(|(id, record)| record.phase != CommandPhase::RollingBack && ended(id))
        {
            if record.deadline.is_none_or(|deadline| now < deadline) {
                continue;
            }
            let unready = |made: &&NodeClaim| {
                claims.iter().any(|claim| claim.uid == made.uid && claim.phase < Phase::Initialized)
            };
            for pool in record.replacements.iter().filter(unready).filter_map(|claim| claim.node_pool.as_ref()) {
                let failed = Failed { command: id.clone(), at: now, template: template(pool) };
                self.failed.insert(pool.clone(), failed);
            }
        }
        self.seen = records;
        wrong
    }

    /// The claims table was replaced, and with it what nodeless knew.
    pub(in crate::invariants) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Whether a node of the NodePool became ready after this time.
fn ready_since(claims: &[NodeClaim], pool: &str, since: Timestamp) -> bool {
    let ready = claims.iter().filter(|claim| claim.is_of(pool) && claim.has_condition(condition::INITIALIZED));
    ready.filter_map(|claim| claim.condition(condition::INITIALIZED)).any(|ready| ready.last_transition_time > since)
}
