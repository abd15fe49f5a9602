//! Which nodes would go by choice: what the planner decides, one decision after another, without doing any of it.

use super::churn::{Breaker, PoolChurn};
use super::disrupt::{doubt, input};
use super::dry_run::DryRun;
use super::situation::{Place, Situation};
use super::stages::static_capacity::{repair_blocked, unhealthy_nodes};
use jiff::Timestamp;
use nodeless_disruption::command::CommandRecord;
use nodeless_disruption::repair::{Unhealthy, Verdict};
use nodeless_disruption::schedules::retiring;
use nodeless_disruption::{
    Candidate, Cluster, Command, Kept, KeptReason, Options, StaticChange, Story, decide, expired, static_changes, story,
};
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::object::ObjectEvent;
use nodeless_ports::claims::StoredChurn;
use nodeless_scheduling::Solution;
use std::collections::{BTreeMap, BTreeSet};

/// What takes the nodes that go whatever decisions say.
const ANYWAY: &str = "going-anyway";

/// Which nodes would go by choice, and why each other one stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disruption {
    /// What is done, in the order in which it is decided. A later command knows of those before it as under way.
    pub commands: Vec<Command>,
    /// Every node that no command concerns, in the order of their names, and why it stays: those that no NodePool made too.
    pub kept: Vec<Kept>,
    /// Nodes of no NodePool, by name.
    pub foreign: BTreeSet<String>,
    /// What NodePools with a fixed number of nodes launch whatever pods need.
    pub fixed: Vec<StaticChange>,
    /// The nodes that are not healthy, by name, and what node repair does about them where it is switched on.
    pub unhealthy: Vec<Unhealthy>,
    /// Why no node is repaired whatever its health, if so.
    pub repair_doubt: Option<String>,
    /// What the churn breaker judges each NodePool by, before anything of this is done. Its evictions are none where they are
    /// not known.
    pub churn: Vec<PoolChurn>,
    /// What is said on the objects concerned.
    pub events: Vec<ObjectEvent>,
    /// How many decisions were made.
    pub decisions: usize,
    /// Whether the last decision still found something, so that another might too.
    pub cut_off: bool,
    /// Why the planner would disrupt nothing by choice before something is mended, if so.
    pub doubt: Option<String>,
}

/// What the decisions are made with.
pub struct DisruptionSettings {
    /// How decisions are made; how hashes are made, and that conditions are trusted, is set here.
    pub options: Options,
    /// How many decisions are made at most.
    pub decisions: usize,
    /// Whether nodes that have been unhealthy for too long are repaired.
    pub node_repair: bool,
    /// What the claims table holds of the last hour's evictions. Without it the churn breaker counts from none.
    pub churn: Vec<StoredChurn>,
}

impl DryRun {
    /// Decides which nodes go, as the planner does from run to run: each decision is carried out by the first method that
    /// finds something, and the next one sees its commands under way. `solution` is what was planned for the pods that wait.
    #[must_use]
    pub fn disruption(&self, solution: &Solution, settings: &DisruptionSettings) -> Disruption {
        let options = completed(&settings.options);
        let (judged, now) = (self.offered.judged.as_slice(), self.snapshot.now);
        let situation = self.situation();
        let mut records: Vec<CommandRecord> = Vec::new();
        let mut found = Disruption { doubt: doubt(&self.snapshot.view), ..Disruption::default() };
        let mut not_looked_at = BTreeSet::new();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut breaker = Breaker::of(&situation, judged, &[], Ok(&settings.churn), now);
        found.churn = breaker.pools(now);
        match unhealthy_nodes(&situation, judged, &[], now) {
            Ok(unhealthy) => found.unhealthy = unhealthy,
            Err(why) => found.repair_doubt = Some(why),
        }
        let repaired = if settings.node_repair { repaired(&found.unhealthy) } else { BTreeMap::new() };
        let mut goes = BTreeMap::new();
        for round in 0..settings.decisions.max(1) {
            let (mut cluster, going) = self.cluster(&situation, &records, solution, &options, &repaired);
            goes.extend(going);
            cluster.stopped.clone_from(&breaker.stopped);
            cluster.not_looked_at = std::mem::take(&mut not_looked_at);
            let decision = decide(&cluster, now, &options);
            found.decisions += 1;
            if round == 0 {
                found.fixed = static_changes(&cluster, now, &options);
                found.fixed.retain(|change| !change.launches.is_empty() || change.short.is_some());
                found.events = decision.events;
                first.clone_from(&decision.kept);
            }
            last = decision.kept;
            not_looked_at = decision.not_looked_at;
            found.cut_off = !decision.commands.is_empty();
            if decision.commands.is_empty() {
                break;
            }
            for command in decision.commands {
                // When its turn comes the planner finds that it is no longer right; what is left of it is decided anew.
                if let Some(why) = command.candidates.iter().find_map(|one| breaker.stopped.get(&one.node_pool)) {
                    let stays = |one: &Candidate| Kept {
                        node: one.node.clone(),
                        reasons: vec![KeptReason::Churn(why.clone())],
                    };
                    last.extend(command.candidates.iter().map(stays));
                    continue;
                }
                breaker.suppose(&command, now);
                records.push(CommandRecord::propose(command));
            }
        }
        if settings.node_repair {
            found.events.extend(found.unhealthy.iter().flat_map(|node| repair_blocked(node, judged)));
        }
        found.events.extend(breaker.events(judged));
        found.foreign = situation
            .places
            .iter()
            .filter_map(|place| place.node.filter(|node| node.node_pool().is_none() && place.claim.is_none()))
            .map(|node| node.name.clone())
            .collect();
        found.commands = records.into_iter().map(|record| record.command).collect();
        found.kept = kept(last, &first, &found, &goes);
        found
    }

    /// All that is known about a node, with these commands under way.
    #[must_use]
    pub fn story(
        &self,
        node: &str,
        commands: &[Command],
        solution: &Solution,
        settings: &DisruptionSettings,
    ) -> Option<Story> {
        let situation = self.situation();
        // A node's own command would hide what is known of it.
        let others = commands.iter().filter(|command| !command.candidates.iter().any(|one| one.node == node));
        let records: Vec<CommandRecord> = others.cloned().map(CommandRecord::propose).collect();
        let options = completed(&settings.options);
        let (cluster, _) = self.cluster(&situation, &records, solution, &options, &BTreeMap::new());
        story(&cluster, node, self.snapshot.now, &options)
    }

    /// The instances of the nodes that have one, by the name of the node.
    #[must_use]
    pub fn instances(&self) -> BTreeMap<String, LaunchedInstance> {
        let situation = self.situation();
        let of = |place: &Place<'_>| Some((place.node?.name.clone(), place.claim?.status.instance.clone()?));
        situation.places.iter().filter_map(of).collect()
    }

    /// The cluster as decisions see it, with these commands under way. What goes whatever they say is taken already, as the
    /// sweep sees to it within a minute.
    fn cluster<'a>(
        &'a self,
        situation: &'a Situation<'a>,
        records: &'a [CommandRecord],
        solution: &Solution,
        options: &Options,
        repaired: &BTreeMap<String, String>,
    ) -> (Cluster<'a>, BTreeMap<String, String>) {
        let mut cluster = input(situation, &self.offered.judged, records, None);
        // What is launched for pods that wait is written down before the planner looks at nodes again, and takes its part
        // of limits. What earlier commands launch does too.
        let replacements = records.iter().flat_map(|record| &record.command.replacements).map(|one| &one.launch);
        for launch in solution.launches.iter().chain(replacements) {
            if let Some(offer) = cluster.node_pools.iter_mut().find(|offer| offer.pool.name == launch.node_pool) {
                offer.usage.resources.add(&launch.charge.resources);
                offer.usage.dollars_per_hour += launch.charge.dollars_per_hour;
            }
        }
        let mut goes = self.goes_anyway(situation, &cluster, options);
        goes.extend(repaired.clone());
        for node in cluster.nodes.iter_mut().filter(|node| node.command.is_none()) {
            node.command = goes.contains_key(node.name()).then_some(ANYWAY);
        }
        (cluster, goes)
    }

    /// The nodes that go whatever decisions say, each with why.
    fn goes_anyway(
        &self,
        situation: &Situation<'_>,
        cluster: &Cluster<'_>,
        options: &Options,
    ) -> BTreeMap<String, String> {
        // An age that nobody knows is no reason.
        let aged = self.snapshot.claims.iter().filter(|claim| claim.created > Timestamp::UNIX_EPOCH);
        let expired: BTreeMap<String, String> =
            expired(aged, self.snapshot.now).into_iter().map(|one| (one.node_claim, one.message)).collect();
        let of = |place: &Place<'_>| {
            let claim = place.claim?;
            let name = place.node.map_or(&claim.name, |node| &node.name);
            Some((name.clone(), expired.get(&claim.name)?.clone()))
        };
        let mut goes: BTreeMap<String, String> = situation.places.iter().filter_map(of).collect();
        for (candidate, until) in retiring(cluster, self.snapshot.now) {
            goes.insert(candidate.node, format!("NodePool {} sleeps until {until}", candidate.node_pool));
        }
        for change in static_changes(cluster, self.snapshot.now, options) {
            let why = format!("NodePool {} has more nodes than its replicas", change.node_pool);
            goes.extend(change.surplus.into_iter().map(|candidate| (candidate.node, why.clone())));
        }
        goes
    }
}

/// The nodes that are repaired, each with why.
fn repaired(unhealthy: &[Unhealthy]) -> BTreeMap<String, String> {
    let due = unhealthy.iter().filter(|node| node.verdict == Verdict::Repair);
    due.map(|node| (node.node.clone(), format!("{}, which node repair does not wait for any longer", node.message)))
        .collect()
}

/// The options with what every plan without a table of claims needs.
fn completed(options: &Options) -> Options {
    Options {
        hash_version: nodeless_api::hash::VERSION.to_owned(),
        trust_conditions: true,
        explain: true,
        ..options.clone()
    }
}

/// Why the nodes stay that the last decision left, and those that no NodePool made. What pods of earlier commands need
/// hides reasons of the node itself, so these come from the first decision.
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
        let goes = goes.get(&one.node).cloned().map(KeptReason::Goes);
        let mut reasons: Vec<KeptReason> = goes.into_iter().chain(own.remove(&one.node).unwrap_or_default()).collect();
        let anyway = KeptReason::InCommand(ANYWAY.to_owned());
        one.reasons.retain(|why| !reasons.contains(why) && *why != anyway);
        reasons.append(&mut one.reasons);
        one.reasons = reasons;
    }
    kept.extend(found.foreign.iter().map(|node| Kept { node: node.clone(), reasons: vec![KeptReason::Foreign] }));
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    kept
}
