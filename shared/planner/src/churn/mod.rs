//! The churn breaker: the recent voluntary disruption of each NodePool, kept in the table so that the planner is stateless.

use crate::action::{Action, PlanLine, Written};
use crate::facts::Facts;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::voluntary_disruption::reschedulable;
use crate::pools::EvaluatedPool;
use crate::settings::Mechanism;
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::churn::{self, Churn, Entry, LastHour, PoolState};
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::{Cluster, Command, template_of};
use nodeless_model::claim::condition;
use nodeless_model::events::disruption_stopped;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, DisruptionReason, NodeClaim, NodePoolOptions, Pod};
use nodeless_operations::records;
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::BTreeMap;

/// The voluntary disruption of each NodePool within the last hour, and the NodePools where it stops because of that.
#[derive(Default)]
pub(super) struct Breaker {
    pools: BTreeMap<String, Known>,
    /// The claims of the snapshot, by name.
    nodes: BTreeMap<String, Occupied>,
    /// The NodePools where disruption stops, each with the reason: for [`nodeless_disruption::Cluster::stopped`].
    pub(super) stopped: BTreeMap<String, String>,
    /// The mechanism that plans are made without.
    without: Option<Mechanism>,
}

/// The inputs of the churn breaker for a NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolChurn {
    /// The NodePool.
    pub node_pool: String,
    /// The voluntary disruption within the last hour.
    pub last_hour: LastHour,
    /// The maximum number of pods evicted in an hour without lowering the price; `None` if the breaker is disabled.
    pub max_evictions: Option<u32>,
    /// Why disruption has stopped, if it has.
    pub stopped: Option<String>,
}

/// The state of a NodePool.
#[derive(Default)]
struct Known {
    options: NodePoolOptions,
    version: u64,
    churn: Churn,
    /// The state after all commands.
    state: PoolState,
}

/// A claim with its node.
#[derive(Clone)]
struct Occupied {
    node_pool: String,
    /// When the claim was created.
    since: Timestamp,
    /// Whether the node replaces nodes that were disrupted voluntarily.
    is_replacement: bool,
    /// How many pods have to move when the node is removed.
    pods: u32,
    dollars: f64,
}

impl Known {
    fn last_hour(&self, now: Timestamp) -> LastHour {
        self.churn.last_hour(now, self.state)
    }

    fn note(&mut self, command: &Command, evictions: u32, now: Timestamp) {
        let (price, dollars) = (self.state.price(), self.state.dollars);
        let entry = Entry { command: command.id.clone(), at: now, evictions, price, dollars };
        self.churn.note(entry, now);
    }
}

/// The records to write before a command starts.
pub(super) struct Due {
    pub(super) record: StoredRecord,
}

impl Breaker {
    /// Finds the NodePools where disruption stops because of what was done until now. If that is unknown, disruption stops
    /// everywhere: nothing is disrupted on doubt.
    pub(super) fn for_plan(
        cluster_state: &ClusterState<'_>,
        facts: Facts<'_>,
        stored: Result<&[StoredRecord], &str>,
    ) -> Self {
        let now = facts.snapshot.now;
        let mut breaker = Self::new(cluster_state, facts.evaluated, &facts.commands.records);
        breaker.without = facts.snapshot.settings.without;
        match stored {
            Ok(stored) => {
                stored.iter().for_each(|one| breaker.remember(one.clone()));
                breaker.evaluate(now);
            }
            Err(error) => {
                let why = format!("the number of pods evicted within the last hour cannot be read: {error}");
                breaker.stopped = breaker.pools.keys().map(|pool| (pool.clone(), why.clone())).collect();
            }
        }
        breaker
    }

    /// Records what a command is about to do. Returns the records to write before it starts.
    ///
    /// # Errors
    /// If they cannot be encoded. The command has to wait then.
    pub(super) fn due(&mut self, command: &Command, now: Timestamp) -> Result<Vec<Due>, String> {
        let pools = self.note(command, now);
        pools.iter().map(|pool| Ok(Due { record: self.record(pool, now)? })).collect()
    }

    /// Records what a command is about to do. Returns its NodePools.
    pub(super) fn note(&mut self, command: &Command, now: Timestamp) -> Vec<String> {
        let mut noted = Vec::new();
        for (pool, evictions) in self.evictions(command, now) {
            let Some(known) = self.pools.get_mut(&pool) else { continue };
            known.note(command, evictions, now);
            noted.push(pool);
        }
        noted
    }

    /// What is recorded of a NodePool.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(super) fn record(&self, pool: &str, now: Timestamp) -> Result<StoredRecord, String> {
        let known = self.pools.get(pool).ok_or_else(|| format!("NodePool {pool} is not known"))?;
        let expires = known.churn.expires().unwrap_or(now);
        records::encode(pool, known.version, &known.churn, Some(expires)).map_err(|error| error.to_string())
    }

    /// Counts, by NodePool, what a written command is about to do.
    pub(super) fn carried_out<'w>(
        &mut self,
        command: &Command,
        noted: impl Iterator<Item = (&'w str, &'w Written)>,
        now: Timestamp,
    ) {
        for (pool, answer) in noted {
            if let (Some(known), Written::Version(version)) = (self.pools.get_mut(pool), answer) {
                known.version = *version;
            }
        }
        self.count(command);
        self.evaluate(now);
    }

    /// Excludes the NodePools where disruption stops, and those from which commands launch no node, from a decision. Returns whether
    /// there are any.
    pub(super) fn restrict(&self, cluster: &mut Cluster<'_>, now: Timestamp) -> bool {
        cluster.stopped.clone_from(&self.stopped);
        cluster.unready = self.unready(cluster, now);
        !cluster.stopped.is_empty() || !cluster.unready.is_empty()
    }

    /// The NodePools from which commands launch no node, each with the end of that time.
    fn unready(&self, cluster: &Cluster<'_>, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let waits = |(name, known): (&String, &Known)| {
            let unready = known.churn.unready.as_ref()?;
            let pool = cluster.node_pools.iter().find(|offer| offer.pool.name == *name)?.pool;
            let template = template_of(pool, cluster.node_classes.get(&pool.template.node_class));
            let claims = cluster.nodes.iter().filter_map(|node| node.claim).filter(|claim| claim.is_of(name));
            let ready = claims.filter_map(|claim| claim.condition(condition::INITIALIZED));
            let ready = ready.filter(|one| one.status == ConditionStatus::True).map(|one| one.last_transition_time);
            Some((name.clone(), unready.waits_until(&template, ready.max(), now)?))
        };
        self.pools.iter().filter_map(waits).collect()
    }

    /// Learns that a record was written.
    pub(super) fn wrote(&mut self, record: &StoredRecord) {
        if let Some(known) = self.pools.get_mut(&record.node_pool)
            && let Ok(churn) = records::decode(RecordKind::Churn, record)
        {
            (known.version, known.churn) = (record.version, churn);
        }
    }

    /// The log lines about NodePools where voluntary disruption has stopped.
    pub(super) fn lines(&self) -> Vec<Action> {
        let line = |(pool, why): (&String, &String)| {
            Action::Log(PlanLine::DisruptionStopped { node_pool: pool.clone(), why: why.clone() })
        };
        self.stopped.iter().map(line).collect()
    }

    /// The inputs of each NodePool, in the order of their names.
    pub(super) fn pools(&self, now: Timestamp) -> Vec<PoolChurn> {
        let of = |(name, known): (&String, &Known)| {
            let hour = known.last_hour(now);
            PoolChurn {
                node_pool: name.clone(),
                max_evictions: churn::threshold(&known.options, &hour.now),
                last_hour: hour,
                stopped: self.stopped.get(name).cloned(),
            }
        };
        self.pools.iter().map(of).collect()
    }

    /// The events on the NodePools where disruption has stopped.
    pub(super) fn events(&self, evaluated: &[EvaluatedPool]) -> Vec<ObjectEvent> {
        let event = |(pool, why): (&String, &String)| {
            let evaluated = evaluated.iter().find(|evaluated| evaluated.pool.name == *pool)?;
            Some(disruption_stopped((&evaluated.pool).into(), why))
        };
        self.stopped.iter().filter_map(event).collect()
    }

    fn new(cluster_state: &ClusterState<'_>, evaluated: &[EvaluatedPool], commands: &[CommandRecord]) -> Self {
        let known = |evaluated: &EvaluatedPool| Known { options: evaluated.pool.options.clone(), ..Known::default() };
        let mut breaker = Self {
            pools: evaluated.iter().map(|evaluated| (evaluated.pool.name.clone(), known(evaluated))).collect(),
            ..Self::default()
        };
        // During a replacement both nodes are paid for. Only the price after the command counts.
        let under_way = || commands.iter().filter(|record| is_carried_out(record));
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for place in &cluster_state.places {
            let Some((claim, pool)) = place.claim.and_then(|claim| Some((claim, claim.node_pool.as_ref()?))) else {
                continue;
            };
            let moving: Vec<&Pod> = reschedulable(&place.pods).collect();
            let node = Occupied {
                node_pool: pool.clone(),
                since: claim.created,
                is_replacement: !claim.spec.replaces.is_empty(),
                pods: u32::try_from(moving.len()).unwrap_or(u32::MAX),
                dollars: dollars(claim),
            };
            pods.entry(pool).or_default().extend(moving);
            if !claim.phase.is_leaving() && !under_way().any(|record| record.concerns(&claim.name)) {
                breaker.add(pool, node.dollars);
            }
            breaker.nodes.insert(claim.name.clone(), node);
        }
        for claim in under_way().flat_map(|record| &record.replacements) {
            if let Some(pool) = &claim.node_pool
                && !cluster_state.records.iter().any(|present| present.name == claim.name)
            {
                breaker.add(pool, dollars(claim));
            }
        }
        for (name, known) in &mut breaker.pools {
            let pods = pods.remove(name.as_str()).unwrap_or_default();
            known.state.pods = u32::try_from(pods.len()).unwrap_or(u32::MAX);
            known.state.load = churn::load(pods);
        }
        breaker
    }

    fn add(&mut self, node_pool: &str, dollars: f64) {
        if let Some(known) = self.pools.get_mut(node_pool) {
            known.state.nodes += 1;
            known.state.dollars += dollars;
        }
    }

    fn remember(&mut self, stored: StoredRecord) {
        // The record of a deleted NodePool expires.
        let Some(known) = self.pools.get_mut(&stored.node_pool) else { return };
        known.version = stored.version;
        match records::decode(RecordKind::Churn, &stored) {
            Ok(churn) => known.churn = churn,
            Err(error) => {
                let until = stored.expires.map(|at| format!(", or wait until {at}")).unwrap_or_default();
                let why = format!("{error}; delete it{until}");
                self.stopped.insert(stored.node_pool, why);
            }
        }
    }

    /// Evaluates again where disruption stops. A NodePool that is stopped stays stopped for the rest of the plan.
    fn evaluate(&mut self, now: Timestamp) {
        let pools = self.pools.iter().filter(|_| self.without != Some(Mechanism::ChurnBreaker));
        for (name, known) in pools {
            if let Some(why) = churn::stopped(name, &known.options, &known.last_hour(now)) {
                self.stopped.entry(name.clone()).or_insert(why);
            }
        }
    }

    /// How many pods a command evicts, by NodePool. The pods of drifted nodes count only if the nodes replaced others within
    /// the last hour, which means that the NodePool replaces its nodes again and again. Otherwise a changed spec requires the
    /// evictions, as fast as budgets allow. Those of unhealthy nodes never count.
    fn evictions(&self, command: &Command, now: Timestamp) -> BTreeMap<String, u32> {
        let deliberate = |node: &&Occupied| {
            let again = node.is_replacement && now.duration_since(node.since) < SignedDuration::from_hours(1);
            command.repair.is_some() || (command.reason == DisruptionReason::Drifted && !again)
        };
        let mut evictions: BTreeMap<String, u32> = BTreeMap::new();
        for node in self.going(command).filter(|node| node.pods > 0 && !deliberate(node)) {
            *evictions.entry(node.node_pool.clone()).or_default() += node.pods;
        }
        evictions
    }

    /// Counts what a command changes in the NodePools.
    fn count(&mut self, command: &Command) {
        let going: Vec<Occupied> = self.going(command).cloned().collect();
        for node in going {
            if let Some(known) = self.pools.get_mut(&node.node_pool) {
                known.state.nodes = known.state.nodes.saturating_sub(1);
                known.state.dollars -= node.dollars;
            }
        }
        for replacement in &command.replacements {
            self.add(&replacement.launch.node_pool, replacement.launch.offering.price);
        }
    }

    fn going(&self, command: &Command) -> impl Iterator<Item = &Occupied> {
        command.candidates.iter().filter_map(|candidate| self.nodes.get(&candidate.node_claim))
    }
}

/// The price of a claim per hour, or its estimate before launch.
fn dollars(claim: &NodeClaim) -> f64 {
    claim.status.instance.as_ref().map_or(claim.spec.charge.dollars_per_hour, |instance| instance.price)
}

/// Whether a command was validated and is neither finished nor rolled back.
fn is_carried_out(record: &CommandRecord) -> bool {
    !matches!(record.phase, CommandPhase::Proposed | CommandPhase::RollingBack)
}
