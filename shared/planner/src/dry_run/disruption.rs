//! The nodes that the planner would disrupt voluntarily: one decision after another, none of them executed.

use crate::churn::{Breaker, PoolChurn};
use crate::dry_run::DryRun;
use crate::facts::Facts;
use crate::nodes::node_events::NodeEvents;
use crate::nodes::place::Place;
use crate::nodes::voluntary_disruption::{doubt, input, with_commitments};
use crate::pools::{self, EvaluatedPool};
use crate::snapshot::Snapshot;
use crate::snapshot::command_records::Commands;
use crate::stages::disruption::confirm;
use crate::stages::static_capacity::{numbers, unhealthy_nodes};
use nodeless_disruption::command::CommandRecord;
use nodeless_disruption::repair::Unhealthy;
use nodeless_disruption::{
    Candidate, Command, Kept, KeptReason, NodeDetails, Options, StaticChange, decide, node_details,
};
use nodeless_model::NodeClaim;
use nodeless_model::claim::{Charge, LaunchedInstance, Termination, TerminationReason};
use nodeless_model::object::ObjectEvent;
use nodeless_operations::names::Names;
use nodeless_scheduling::Solution;
use nodeless_state::StoredRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The suffix of the reason for which a node is not healthy.
const REPAIRED: &str = ", which node repair does not wait for any longer";

/// The nodes that would be disrupted voluntarily, and the reasons why each other node stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disruption {
    /// The commands, in the order of the decisions. Later decisions count earlier commands as in progress.
    pub commands: Vec<Command>,
    /// The nodes that no command disrupts, in the order of their names, with the reasons. This includes unmanaged nodes.
    pub kept: Vec<Kept>,
    /// Unmanaged nodes, by name.
    pub foreign: BTreeSet<String>,
    /// The missing and the surplus nodes of static NodePools.
    pub fixed: Vec<StaticChange>,
    /// The unhealthy nodes, by name, and what node repair does about them if it is enabled.
    pub unhealthy: Vec<Unhealthy>,
    /// Why no node is repaired, if so.
    pub repair_doubt: Option<String>,
    /// The inputs of the churn breaker for each NodePool, before any of these commands. The evictions are zero if they are
    /// unknown.
    pub churn: Vec<PoolChurn>,
    /// The events on the objects concerned.
    pub events: Vec<ObjectEvent>,
    /// The number of decisions.
    pub decisions: usize,
    /// The counted work of these decisions, in the unit of [`nodeless_scheduling::Solution::work`].
    pub work: u64,
    /// Whether the last decision still found commands, so that another one might too.
    pub cut_off: bool,
    /// Whether the caller ended the decisions early.
    pub interrupted: bool,
    /// Why the planner would disrupt nothing voluntarily until something is fixed, if so.
    pub doubt: Option<String>,
}

impl DryRun {
    /// Decides which nodes to disrupt, as the planner does from plan to plan: the first method that finds commands makes the
    /// decision, and the next decision counts these commands as in progress. `decisions` bounds the number of decisions. `solution`
    /// is the plan for the pending pods.
    #[must_use]
    pub fn disruption(&self, solution: &Solution, decisions: usize) -> Disruption {
        self.disruption_observed(solution, decisions, &mut |_| ControlFlow::Continue(()))
    }

    /// Like [`disruption`](Self::disruption). `before` is called before each decision with the number of decisions made so far,
    /// and may end them.
    #[must_use]
    pub fn disruption_observed(
        &self,
        solution: &Solution,
        decisions: usize,
        before: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Disruption {
        let facts = self.facts();
        let mut found = Disruption { doubt: doubt(&self.snapshot.view), ..Disruption::default() };
        let as_it_is = Facts { claims: &self.snapshot.claims, evaluated: &self.offered.evaluated, ..facts };
        match unhealthy_nodes(as_it_is, &[]) {
            Ok(unhealthy) => found.unhealthy = unhealthy,
            Err(why) => found.repair_doubt = Some(why),
        }
        found.fixed = self.static_changes();
        found.events.clone_from(&self.stated);
        let mut rounds = Rounds::new(self, solution);
        for round in 0..decisions.max(1) {
            if before(round).is_break() {
                found.interrupted = true;
                break;
            }
            let decided = rounds.next(self, &mut found);
            if round == 0 {
                rounds.first.clone_from(&rounds.last);
            }
            found.decisions += 1;
            found.cut_off = decided;
            if !decided {
                break;
            }
        }
        found.foreign = self
            .cluster_state()
            .places
            .iter()
            .filter_map(|place| place.node.filter(|node| node.node_pool().is_none() && place.claim.is_none()))
            .map(|node| node.name.clone())
            .collect();
        found.commands = rounds.commands.records.into_iter().map(|record| record.command).collect();
        let Rounds { mut last, mut first, .. } = rounds;
        for kept in [&mut last, &mut first] {
            // A node that is about to be launched needs no reason.
            kept.retain(|one| self.exists(&one.node));
        }
        found.kept = kept(last, &first, &found, &self.goes());
        found
    }

    /// The missing nodes of static NodePools that have fewer than their replicas.
    #[must_use]
    pub fn static_changes(&self) -> Vec<StaticChange> {
        let as_it_is = Facts { claims: &self.snapshot.claims, evaluated: &self.offered.evaluated, ..self.facts() };
        let mut changes = numbers(as_it_is);
        changes.retain(|change| !change.launches.is_empty() || change.short.is_some());
        changes
    }

    /// The state of a node, with these commands in progress.
    #[must_use]
    pub fn node_details(&self, node: &str, commands: &[Command], solution: &Solution) -> Option<NodeDetails> {
        // A node's own command would hide its state.
        let others = commands.iter().filter(|command| !command.candidates.iter().any(|one| one.node == node));
        let records = others.cloned().map(CommandRecord::propose).collect();
        let mut rounds = Rounds::new(self, solution);
        rounds.commands = Commands { records, damaged: Vec::new() };
        let launches = commands.iter().flat_map(|command| &command.replacements).map(|one| &one.launch);
        rounds.charge(launches.map(|launch| (launch.node_pool.as_str(), &launch.charge)));
        let facts = Facts { evaluated: &rounds.evaluated, commands: &rounds.commands, ..self.facts() };
        let cluster_state = self.found(facts);
        let cluster = input(&cluster_state, facts.evaluated, &facts.commands.records, None);
        let cluster = with_commitments(cluster, &cluster_state, facts);
        node_details(&cluster, node, self.snapshot.now, &self.options())
    }

    /// The instances of nodes, by the name of the node.
    #[must_use]
    pub fn instances(&self) -> BTreeMap<String, LaunchedInstance> {
        let cluster_state = self.cluster_state();
        let of = |place: &Place<'_>| Some((place.node?.name.clone(), place.claim?.status.instance.clone()?));
        cluster_state.places.iter().filter_map(of).collect()
    }

    /// How decisions are made: as the planner makes them, with all reasons, and trusting the conditions of NodeClaims.
    fn options(&self) -> Options {
        Options { trust_conditions: true, explain: true, ..self.facts().disruption_options() }
    }

    fn exists(&self, name: &str) -> bool {
        let Snapshot { view, claims, .. } = &self.snapshot;
        view.nodes.iter().any(|node| node.name == name) || claims.iter().any(|claim| claim.name == name)
    }

    /// The nodes that static capacity and repair remove, each with the reason.
    fn goes(&self) -> BTreeMap<String, String> {
        let leaves = |claim: &NodeClaim| claim.phase.is_leaving();
        let leaving: BTreeSet<&str> =
            self.snapshot.claims.iter().filter(|claim| leaves(claim)).map(|claim| claim.name.as_str()).collect();
        let facts = self.facts();
        let cluster_state = self.found(facts);
        let described = cluster_state.places.iter().filter_map(|place| {
            let claim = place.claim.filter(|claim| leaves(claim) && !leaving.contains(claim.name.as_str()))?;
            let Termination { reason, message, .. } = claim.status.termination.as_ref()?;
            let waited = if *reason == TerminationReason::Unhealthy { REPAIRED } else { "" };
            let name = place.node.map_or(&claim.name, |node| &node.name);
            Some((name.clone(), format!("{message}{waited}")))
        });
        described.collect()
    }
}

/// The decisions of several plans, one after another.
struct Rounds {
    /// The NodePools, with the launches so far counted against their limits.
    evaluated: Vec<EvaluatedPool>,
    commands: Commands,
    churn: Vec<StoredRecord>,
    not_yet_evaluated: BTreeSet<String>,
    names: Names,
    /// Why nodes stay according to the first decision, and to the last.
    first: Vec<Kept>,
    last: Vec<Kept>,
}

impl Rounds {
    fn new(run: &DryRun, solution: &Solution) -> Self {
        let DryRun { snapshot, evaluated, .. } = run;
        let mut rounds = Self {
            evaluated: evaluated.clone(),
            commands: Commands::default(),
            churn: snapshot.churn.clone().and_then(Result::ok).unwrap_or_default(),
            not_yet_evaluated: BTreeSet::new(),
            names: snapshot.names(),
            first: Vec::new(),
            last: Vec::new(),
        };
        rounds.charge(solution.launches.iter().map(|launch| (launch.node_pool.as_str(), &launch.charge)));
        rounds
    }

    /// Counts against the limits what is written before the next plan.
    fn charge<'c>(&mut self, charges: impl Iterator<Item = (&'c str, &'c Charge)>) {
        pools::charge(&mut self.evaluated, charges);
    }

    /// Makes another decision, assumes that its commands are executed, and returns whether there were any.
    fn next(&mut self, run: &DryRun, found: &mut Disruption) -> bool {
        let facts = Facts { evaluated: &self.evaluated, commands: &self.commands, ..run.facts() };
        let cluster_state = run.found(facts);
        let (records, now) = (&facts.commands.records, facts.snapshot.now);
        let breaker = Breaker::for_plan(&cluster_state, facts, Ok(&self.churn));
        let cluster = input(&cluster_state, facts.evaluated, records, None);
        let mut cluster = with_commitments(cluster, &cluster_state, facts);
        cluster.not_evaluated = std::mem::take(&mut self.not_yet_evaluated);
        breaker.restrict(&mut cluster, now);
        let decision = decide(&cluster, now, &run.options());
        if found.decisions == 0 {
            found.churn = breaker.pools(now);
            found.events.extend(decision.events);
        }
        let any = !decision.commands.is_empty();
        found.work = found.work.saturating_add(decision.work);
        let (names, noted) = (&mut self.names, BTreeSet::new());
        let mut turn = Turn { facts, breaker, noted, names, stays: Vec::new() };
        let mut confirmed = Vec::new();
        for command in decision.commands {
            match turn.carry_out(&command) {
                Ok(record) => confirmed.extend(record),
                Err(why) => found.events.extend(NodeEvents::new(&cluster_state).rejected(&command, &why)),
            }
        }
        match turn.churn(&self.churn) {
            Ok(churn) => self.churn = churn,
            Err(why) => found.doubt = Some(why),
        }
        let Turn { breaker, stays, .. } = turn;
        let stopped = breaker.events(facts.evaluated);
        let news: Vec<ObjectEvent> = stopped.into_iter().filter(|event| !found.events.contains(event)).collect();
        found.events.extend(news);
        self.not_yet_evaluated = decision.not_evaluated;
        self.last = decision.kept.into_iter().chain(stays).collect();
        let replacements = confirmed.iter().flat_map(|record: &CommandRecord| &record.command.replacements);
        let charges: Vec<(String, Charge)> =
            replacements.map(|one| (one.launch.node_pool.clone(), one.launch.charge.clone())).collect();
        self.charge(charges.iter().map(|(pool, charge)| (pool.as_str(), charge)));
        self.commands.records.extend(confirmed);
        any
    }
}

/// The assumed execution of the commands of one decision, one after another.
struct Turn<'a> {
    facts: Facts<'a>,
    breaker: Breaker,
    /// The NodePools with commands.
    noted: BTreeSet<String>,
    names: &'a mut Names,
    /// The nodes of commands that the churn breaker blocks.
    stays: Vec<Kept>,
}

impl Turn<'_> {
    /// The record of an executed command; nothing if disruption has stopped meanwhile. The rest of that command is decided again.
    ///
    /// # Errors
    /// If it cannot be executed.
    fn carry_out(&mut self, command: &Command) -> Result<Option<CommandRecord>, String> {
        let stopped = command.candidates.iter().find_map(|one| self.breaker.stopped.get(&one.node_pool));
        if let Some(why) = stopped.filter(|_| command.repair.is_none()) {
            let stays =
                |one: &Candidate| Kept { node: one.node.clone(), reasons: vec![KeptReason::Churn(why.clone())] };
            self.stays.extend(command.candidates.iter().map(stays));
            return Ok(None);
        }
        let now = self.facts.snapshot.now;
        let record = confirm(&CommandRecord::propose(command.clone()), command.clone(), self.facts, self.names)?;
        self.noted.extend(self.breaker.note(command, now));
        self.breaker.carried_out(command, std::iter::empty(), now);
        Ok(Some(record))
    }

    /// The records of the churn breaker after these commands: those of NodePools without commands are unchanged.
    fn churn(&self, before: &[StoredRecord]) -> Result<Vec<StoredRecord>, String> {
        let unchanged = before.iter().filter(|old| !self.noted.contains(&old.node_pool)).cloned().map(Ok);
        let now = self.facts.snapshot.now;
        let next = |record: StoredRecord| StoredRecord { version: record.version + 1, ..record };
        unchanged.chain(self.noted.iter().map(|pool| self.breaker.record(pool, now).map(next))).collect()
    }
}

/// Why nodes stay after the last decision, including unmanaged nodes. The pods of earlier commands hide reasons of the node
/// itself, so these reasons come from the first decision.
fn kept(last: Vec<Kept>, first: &[Kept], found: &Disruption, goes: &BTreeMap<String, String>) -> Vec<Kept> {
    let going: BTreeSet<&str> =
        found.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.as_str()).collect();
    let lasting = |kept: &Kept| {
        let reasons: Vec<KeptReason> = kept.reasons.iter().filter(|why| why.is_lasting()).cloned().collect();
        (kept.node.clone(), reasons)
    };
    let mut own: BTreeMap<String, Vec<KeptReason>> = first.iter().map(lasting).collect();
    let mut kept: Vec<Kept> = last.into_iter().filter(|one| !going.contains(one.node.as_str())).collect();
    for one in &mut kept {
        let why = goes.get(&one.node).cloned().map(KeptReason::RemovedAnyway);
        let mut reasons: Vec<KeptReason> = why.into_iter().chain(own.remove(&one.node).unwrap_or_default()).collect();
        let known = |why: &KeptReason| goes.contains_key(&one.node) && *why == KeptReason::Leaving;
        one.reasons.retain(|why| !reasons.contains(why) && !known(why));
        reasons.append(&mut one.reasons);
        one.reasons = reasons;
    }
    kept.extend(found.foreign.iter().map(|node| Kept { node: node.clone(), reasons: vec![KeptReason::Unmanaged] }));
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    kept
}
