//! The decision: all methods of disruption in order, and the reasons for which nodes stay.

use crate::candidates::{Eligible, Lookup, reasons_to_stay};
use crate::cluster::{Cluster, Options};
use crate::drift::ami_canary::Canaries;
use crate::drift::simulation::DriftSimulation;
use crate::output::{Command, Decision, Kept, Method};
use crate::pods::DisruptionBudgetIndex;
use crate::policy::budgets::Budgets;
use crate::policy::on_demand_minimum::OnDemandMinimums;
use crate::reasons::KeptReason;
use crate::reasons::drift::Drift;
use crate::simulation::Expected;
use crate::simulation::{buffers, preferences};
use crate::{consolidation, drift, emptiness, misconfiguration, pods};
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The work to read a cluster: for each node and each pod.
const WORK_PER_NODE: u64 = 100;
const WORK_PER_POD: u64 = 50;

/// Decides which nodes are disrupted voluntarily, and why each other managed node stays.
///
/// The methods are tried in Karpenter's order, and only the first that finds something is used: empty nodes, all in one command
/// as far as the budgets allow; drifted nodes of static NodePools; other drifted nodes, one by one as far as the budgets allow;
/// then consolidation. The latter two result in as many independent commands as possible.
///
/// ```
/// use jiff::Timestamp;
/// use nodeless_disruption::{Cluster, ClusterNode, Method, Options, decide};
/// use nodeless_model::*;
/// use nodeless_scheduling::PoolOffer;
///
/// // A NodePool with one initialized and ready node, on which no pod runs.
/// let pool = test_support::node_pool("default");
/// let claim = NodeClaim {
///     name: "default-abcde".into(),
///     node_pool: "default".into(),
///     created: Timestamp::UNIX_EPOCH,
///     phase: Phase::Initialized,
/// #     uid: "uid".into(),
/// #     node_class: "default".into(),
/// #     version: 1,
/// #     spec: Default::default(),
/// #     status: Default::default(),
/// };
/// let initialized = StringMap::from([(labels::INITIALIZED.into(), "true".into())]);
/// let ready = node::NodeCondition { kind: "Ready".into(), status: Some(true), since: None };
/// let node =
///     Node { name: "ip-10-0-0-1".into(), labels: initialized, conditions: vec![ready], ..Node::default() };
/// let cluster = Cluster {
///     nodes: vec![ClusterNode { node: Some(&node), claim: Some(&claim), ..ClusterNode::default() }],
///     node_pools: vec![PoolOffer { pool: &pool, instance_types: Vec::new().into(), usage: Default::default(), cluster: None }],
///     ..Cluster::default()
/// };
///
/// let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
/// let decision = decide(&cluster, now, &Options::default());
/// assert_eq!(decision.commands[0].method, Method::Emptiness);
/// assert_eq!(decision.commands[0].candidates[0].node, "ip-10-0-0-1");
///
/// // The annotation karpenter.sh/do-not-disrupt keeps the node.
/// let mut protected = node.clone();
/// protected.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
/// let mut cluster = cluster;
/// cluster.nodes[0].node = Some(&protected);
/// let decision = decide(&cluster, now, &Options::default());
/// assert!(decision.commands.is_empty());
/// assert_eq!(decision.kept[0].reasons[0].to_string(), "it is annotated karpenter.sh/do-not-disrupt");
/// ```
#[must_use]
pub fn decide(input: &Cluster<'_>, now: Timestamp, options: &Options) -> Decision {
    let held = buffers::hold(input, options, now);
    let input = held.as_ref().unwrap_or(input);
    let mut budgets = Budgets::of(input, now);
    let budget_index = DisruptionBudgetIndex::of(input.disruption_budgets);
    let lookup = Lookup::of(input);
    let mut kept: BTreeMap<String, Vec<KeptReason>> = BTreeMap::new();
    let mut eligible: Vec<Eligible<'_, '_>> = Vec::new();
    for node in input.nodes.iter().filter(|node| node.node_pool().is_some()) {
        match lookup.eligible(node, now) {
            Ok(one) => eligible.push(one),
            Err(why) => kept.entry(node.name().to_owned()).or_default().push(why),
        }
    }

    let expected = Expected::of(input, options, now);
    let mut movable = Vec::new();
    for one in &eligible {
        let reasons = reasons_to_stay(one, &expected, &budget_index, options.explain, now);
        if reasons.is_empty() {
            movable.push(*one);
        } else {
            kept.entry(one.node.name.clone()).or_default().extend(reasons);
        }
    }
    let (empty, full): (Vec<_>, Vec<_>) = movable.into_iter().partition(|one| pods::is_empty(&one.of.pods));
    let (emptied, reasons) = emptiness::find(empty, &mut OnDemandMinimums::of_cluster(input), &mut budgets, now);
    add(&mut kept, reasons);
    let mut commands: Vec<Command> = emptied.into_iter().collect();
    let mut work = 0;

    let drifted = drift::replacement::drifted(input, &eligible, options, now);
    let mut canaries = Canaries::of(input, &drifted, now);
    let (failed_canaries, canary_events) = (canaries.failed(), canaries.events(&input.node_pools));
    if commands.is_empty() {
        let limits = (&mut budgets, &mut canaries);
        let drifting = Drifting { input, expected: &expected, budget_index: &budget_index, options, now };
        (commands, work) = drifting.replace(&drifted, limits, &mut kept);
    } else {
        add(&mut kept, waiting(&drifted));
    }

    if options.explain {
        add_drift_reasons(&drifted, &mut kept);
    }

    let unseen = drifted.iter().map(|(one, _)| &one.node.name);
    let unseen =
        unseen.filter(|name| kept.get(*name).is_some_and(|reasons| reasons.contains(&KeptReason::NotEvaluated)));
    let mut not_evaluated: BTreeSet<String> = unseen.cloned().collect();
    if commands.is_empty() {
        let left = Options { max_work: options.max_work.saturating_sub(work), ..options.clone() };
        let found = consolidate(input, &full, &expected, &mut budgets, &left, now);
        work = work.saturating_add(found.work);
        for (node, reasons) in found.kept {
            kept.entry(node).or_default().extend(reasons);
        }
        commands = found.commands;
        not_evaluated.extend(found.not_evaluated);
    } else {
        // Nodes that were waiting for consolidation still wait.
        not_evaluated.extend(input.not_evaluated.iter().cloned());
        for one in full {
            let reasons = kept.entry(one.node.name.clone()).or_default();
            if reasons.is_empty() {
                reasons.push(KeptReason::ConsolidationWaits);
            }
        }
    }

    for candidate in commands.iter().flat_map(|command| &command.candidates) {
        kept.remove(&candidate.node);
    }
    Decision {
        commands,
        kept: kept.into_iter().map(|(node, reasons)| Kept { node, reasons }).collect(),
        not_evaluated,
        failed_canaries,
        events: misconfiguration::events(input, &budgets, now).into_iter().chain(canary_events).collect(),
        work: work.saturating_add(reading(input)),
    }
}

/// The work to read a cluster, which is done whatever the limit.
fn reading(input: &Cluster<'_>) -> u64 {
    let pods: usize = input.nodes.iter().map(|node| node.pods.len()).sum();
    let count = |items: usize| u64::try_from(items).unwrap_or(u64::MAX);
    let of_nodes = count(input.nodes.len()).saturating_mul(WORK_PER_NODE);
    of_nodes.saturating_add(count(pods + input.pending_pods.len()).saturating_mul(WORK_PER_POD))
}

/// Consolidation, which keeps the preferences of pods.
fn consolidate<'a>(
    input: &Cluster<'a>,
    full: &[Eligible<'_, 'a>],
    expected: &Expected<'a>,
    budgets: &mut Budgets,
    options: &Options,
    now: Timestamp,
) -> consolidation::Found {
    let held = preferences::held(input, options);
    let keeping = preferences::with_held(input, &held);
    let lookup = Lookup::of(&keeping);
    let included: HashSet<&str> = full.iter().map(|one| one.of.name()).collect();
    let nodes = keeping.nodes.iter().filter(|node| included.contains(node.name()));
    let full: Vec<Eligible<'_, '_>> = nodes.filter_map(|node| lookup.eligible(node, now).ok()).collect();
    let mut found = consolidation::find(&keeping, &full, &lookup, expected, budgets, (options, now));
    preferences::add_reasons(&mut found.kept, &held);
    found
}

/// The state on which a decision about drifted nodes depends.
struct Drifting<'r, 'a> {
    input: &'r Cluster<'a>,
    expected: &'r Expected<'a>,
    budget_index: &'r DisruptionBudgetIndex<'a>,
    options: &'r Options,
    now: Timestamp,
}

impl<'a> Drifting<'_, 'a> {
    /// Replaces drifted nodes within the limits, and adds why others stay to `kept`. Returns the work, too.
    fn replace(
        &self,
        drifted: &[(&Eligible<'_, 'a>, Drift)],
        (budgets, canaries): (&mut Budgets, &mut Canaries),
        kept: &mut BTreeMap<String, Vec<KeptReason>>,
    ) -> (Vec<Command>, u64) {
        let Self { input, expected, budget_index, options, now } = *self;
        let (fixed, others): (Vec<_>, Vec<_>) = drifted.iter().cloned().partition(|(one, _)| one.is_static());
        let (commands, reasons) =
            drift::static_nodes::find(input, &fixed, budget_index, options, (budgets, canaries), now);
        add(kept, reasons);
        if !commands.is_empty() {
            add(kept, waiting(&others));
            return (commands, 0);
        }
        if others.is_empty() {
            return (Vec::new(), 0);
        }
        let mut simulation = DriftSimulation::new(input, expected, budget_index, options, now);
        let (commands, reasons) =
            drift::replacement::find(&others, &mut simulation, budget_index, (budgets, canaries), now);
        add(kept, reasons);
        (commands, simulation.work())
    }
}

/// Adds how a node drifted to the reasons of drifted nodes that a budget keeps.
fn add_drift_reasons(drifted: &[(&Eligible<'_, '_>, Drift)], kept: &mut BTreeMap<String, Vec<KeptReason>>) {
    let of_drift = |why: &KeptReason| matches!(why, KeptReason::Budget { reason: DisruptionReason::Drifted, .. });
    for (one, drift) in drifted {
        if let Some(reasons) = kept.get_mut(&one.node.name)
            && let Some(place) = reasons.iter().position(of_drift)
        {
            reasons.insert(place, KeptReason::Drifted(drift.clone()));
        }
    }
}

fn waiting(drifted: &[(&Eligible<'_, '_>, Drift)]) -> Vec<(String, KeptReason)> {
    drifted.iter().map(|(one, drift)| (one.node.name.clone(), KeptReason::DriftWaits(drift.clone()))).collect()
}

/// The remaining part of a command on a new snapshot of the cluster, at least [`crate::VALIDATION_DELAY`] after its decision.
/// `None` if nothing remains and the command has to be dropped.
///
/// Only the nodes of the command are evaluated, whatever else could be disrupted now. An emptiness command keeps the nodes that
/// are still empty, as far as the budgets allow. A drift command is replaced by the current decision for the same nodes. A
/// consolidation command remains valid if all its nodes may still be disrupted within the budgets, and their pods still need
/// exactly the new nodes that it launches, for a lower price; the placements of the pods are computed again.
///
/// The snapshot must not list the command itself as the one that disrupts its nodes.
#[must_use]
pub fn revalidate(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    let held = buffers::hold(input, options, now);
    let input = held.as_ref().unwrap_or(input);
    if command.method.is_consolidation() {
        let held = preferences::held(input, options);
        return consolidation::still_right(command, &preferences::with_held(input, &held), now, options);
    }
    let fresh = if command.method == Method::Emptiness {
        emptied_still(command, input, now, options)
    } else {
        drifted_still(command, input, now, options)
    };
    Some(Command { id: command.id.clone(), decided: command.decided, ..fresh? })
}

/// The nodes of a command that may be disrupted voluntarily now.
fn still_eligible<'c, 'a>(
    command: &Command,
    input: &'c Cluster<'a>,
    lookup: &Lookup<'c, 'a>,
    now: Timestamp,
) -> Vec<Eligible<'c, 'a>> {
    let concerned = |name: &str| command.candidates.iter().any(|candidate| candidate.node_claim == name);
    let of_command = input.nodes.iter().filter(|node| node.claim.is_some_and(|claim| concerned(&claim.name)));
    of_command.filter_map(|node| lookup.eligible(node, now).ok()).collect()
}

fn emptied_still(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    let budget_index = DisruptionBudgetIndex::of(input.disruption_budgets);
    let lookup = Lookup::of(input);
    let expected = Expected::of(input, options, now);
    let mut left = still_eligible(command, input, &lookup, now);
    left.retain(|one| {
        pods::is_empty(&one.of.pods) && reasons_to_stay(one, &expected, &budget_index, false, now).is_empty()
    });
    emptiness::find(left, &mut OnDemandMinimums::of_cluster(input), &mut Budgets::of(input, now), now).0
}

/// All nodes of the command or none, because the replacements were decided for all of them.
fn drifted_still(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    let budget_index = DisruptionBudgetIndex::of(input.disruption_budgets);
    let lookup = Lookup::of(input);
    let eligible = still_eligible(command, input, &lookup, now);
    let drifted = drift::replacement::drifted(input, &eligible, options, now);
    if drifted.len() != command.candidates.len() {
        return None;
    }
    let expected = Expected::of(input, options, now);
    let (mut budgets, mut kept) = (Budgets::of(input, now), BTreeMap::new());
    let mut canaries = Canaries::of(input, &drifted, now);
    let limits = (&mut budgets, &mut canaries);
    let drifting = Drifting { input, expected: &expected, budget_index: &budget_index, options, now };
    let (found, _) = drifting.replace(&drifted, limits, &mut kept);
    let covers = |fresh: &Command| fresh.method == command.method && fresh.candidates == command.candidates;
    found.into_iter().find(covers)
}

fn add(kept: &mut BTreeMap<String, Vec<KeptReason>>, reasons: impl IntoIterator<Item = (String, KeptReason)>) {
    for (node, reason) in reasons {
        kept.entry(node).or_default().push(reason);
    }
}
