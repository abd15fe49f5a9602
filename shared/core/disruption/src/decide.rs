//! The decision: all methods of disruption in order, and the reasons for which nodes stay.

use crate::candidates::{Eligible, Lookup, reasons_to_stay};
use crate::cluster::{Cluster, Options};
use crate::consolidation::method::Consolidation;
use crate::consolidation::zone_balance::ZoneBalance;
use crate::drift::ami_canary::Canaries;
use crate::emptiness::Emptiness;
use crate::method::{DisruptionMethod, Progress};
use crate::output::{Command, Decision, Kept, Method};
use crate::pods::DisruptionBudgetIndex;
use crate::repair::method::NodeRepair;
use crate::simulation::{Expected, buffers};
use crate::{drift, events, pods};
use jiff::Timestamp;
use std::cell::RefCell;

/// The work to read a cluster: for each node and each pod.
const WORK_PER_NODE: u64 = 100;
const WORK_PER_POD: u64 = 50;

/// Decides which nodes are disrupted voluntarily, and why each other managed node stays.
///
/// The methods are tried in Karpenter's order, and only the first that finds something is used: unhealthy nodes, one by one as far as the
/// budgets allow; empty nodes, all in one command as far as the budgets allow; drifted nodes of static NodePools; other drifted nodes, one
/// by one as far as the budgets allow; consolidation; then one node with pods that are uneven over zones. Repair, drift and consolidation
/// result in as many independent commands as possible.
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
///     node_pool: Some("default".into()),
///     created: Timestamp::UNIX_EPOCH,
///     phase: Phase::Initialized,
/// #     uid: "uid".into(),
/// #     node_class: "default".into(),
/// #     version: 1,
/// #     spec: Default::default(),
/// #     status: Default::default(),
/// };
/// let initialized = StringMap::from([(labels::INITIALIZED.into(), "true".into())]);
/// let ready = node::NodeCondition { kind: "Ready".into(), status: Some(true), since: None, reason: String::new() };
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
    let budget_index = DisruptionBudgetIndex::new(input.disruption_budgets);
    let expected = Expected::new(input, options, now);
    let mut progress = Progress::new(input, &expected, &budget_index, options, now);
    let lookup = Lookup::new(input);
    let (repair, unrepaired) = NodeRepair::new(&lookup, options, now);
    progress.keep(unrepaired);
    let mut eligible: Vec<Eligible<'_, '_>> = Vec::new();
    for node in input.nodes.iter().filter(|node| node.is_managed()) {
        match lookup.eligible(node, now) {
            Ok(one) => eligible.push(one),
            Err(why) => progress.keep([(node.name().to_owned(), why)]),
        }
    }

    let mut movable = Vec::new();
    for one in &eligible {
        let reasons = reasons_to_stay(one, &expected, &budget_index, options.explain, now);
        if reasons.is_empty() {
            movable.push(*one);
        } else {
            progress.kept.entry(one.node.name.clone()).or_default().extend(reasons);
        }
    }
    let (empty, full): (Vec<_>, Vec<_>) = movable.into_iter().partition(|one| pods::is_empty(&one.of.pods));
    let drifted = drift::replacement::drifted(input, &eligible, options, now);
    let canaries = Canaries::new(input, &drifted, now);
    let (failed_canaries, canary_events) = (canaries.failed(), canaries.events(&input.node_pools));
    let canaries = RefCell::new(canaries);
    let (fixed_drift, node_drift) = drift::method::methods(&drifted, &canaries);
    let balance = ZoneBalance(full.clone());
    let commands =
        progress.first(&[&repair, &Emptiness(empty), &fixed_drift, &node_drift, &Consolidation(full), &balance]);

    let Progress { budgets, mut kept, not_evaluated, work, .. } = progress;
    for candidate in commands.iter().flat_map(|command| &command.candidates) {
        kept.remove(&candidate.node);
    }
    Decision {
        commands,
        kept: kept.into_iter().map(|(node, reasons)| Kept { node, reasons }).collect(),
        not_evaluated,
        failed_canaries,
        events: events::events(input, &budgets, now).into_iter().chain(canary_events).collect(),
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

/// The remaining part of a command on a new snapshot of the cluster, at least [`crate::VALIDATION_DELAY`] after its decision.
/// `None` if nothing remains and the command has to be dropped.
///
/// Only the nodes of the command are evaluated, whatever else could be disrupted now; its method decides what remains.
///
/// The snapshot must not list the command itself as the one that disrupts its nodes.
#[must_use]
pub fn revalidate(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    let held = buffers::hold(input, options, now);
    let input = held.as_ref().unwrap_or(input);
    let budget_index = DisruptionBudgetIndex::new(input.disruption_budgets);
    let expected = Expected::new(input, options, now);
    let progress = &mut Progress::new(input, &expected, &budget_index, options, now);
    let lookup = Lookup::new(input);
    let concerned = |name: &str| command.candidates.iter().any(|candidate| candidate.node_claim == name);
    let of_command = input.nodes.iter().filter(|node| node.claim.is_some_and(|claim| concerned(&claim.name)));
    let eligible: Vec<_> = of_command.filter_map(|node| lookup.eligible(node, now).ok()).collect();
    let movable = |one: &Eligible<'_, '_>| reasons_to_stay(one, &expected, &budget_index, false, now).is_empty();
    let mut movable: Vec<_> = eligible.iter().copied().filter(movable).collect();
    let fresh = match command.method {
        Method::Repair => NodeRepair::new(&lookup, options, now).0.only(command).validate(command, progress),
        Method::Emptiness => {
            movable.retain(|one| pods::is_empty(&one.of.pods));
            Emptiness(movable).validate(command, progress)
        }
        Method::StaticDrift | Method::Drift => {
            let drifted = drift::replacement::drifted(input, &eligible, options, now);
            let canaries = RefCell::new(Canaries::new(input, &drifted, now));
            let (fixed_drift, node_drift) = drift::method::methods(&drifted, &canaries);
            if command.method == Method::StaticDrift {
                fixed_drift.validate(command, progress)
            } else {
                node_drift.validate(command, progress)
            }
        }
        Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => {
            Consolidation(movable).validate(command, progress)
        }
        Method::ZoneBalance => ZoneBalance(movable).validate(command, progress),
    };
    Some(Command { id: command.id.clone(), decided: command.decided, ..fresh? })
}
