//! Plans a case as `nodeless plan --disruption` plans files.

use crate::case::Case;
use crate::outcome::{CaseOutcome, Command, Disrupted, Labels, Launched};
use crate::pools::{Pool, class};
use crate::{catalogs, definitions, reservations};
use jiff::Timestamp;
use nodeless_catalog::stored::NamedPlacementGroup;
use nodeless_disruption::repair::Verdict;
use nodeless_launch::node_class::exported_reservations::ExportedReservations;
use nodeless_model::{Requirements, labels};
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_scheduling::{Launch, MinValuesPolicy, Options, PreferencePolicy, Problem, Solution};
use nodeless_snapshot::{Reader, Snapshot};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A Saturday.
const NOW: &str = "2026-01-10T12:00:00Z";
/// The number of decisions about disruption, as in `nodeless plan`.
const DECISIONS: usize = 20;

/// Plans a case.
pub(crate) fn run(case: &Case) -> Result<CaseOutcome, String> {
    let at = case.at.map_or_else(|| NOW.parse::<Timestamp>().map_err(|error| error.to_string()), Ok)?;
    let items = manifests(case, at);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let mut reader = Reader::default().with_pods_of_workloads().with_check(definitions::errors);
    reader.read("case", list.to_string().as_bytes());
    let mut snapshot = reader.finish();
    let reserved = reservations::exported(&case.reservations)?;
    if !case.reservations.is_empty() {
        snapshot.warnings.extend(reserved.resolve(&mut snapshot.view.node_classes, at));
    }
    let with_disruption = case.expect.concerns_disruption();
    let dry_run = dry_run(case, &mut snapshot, &reserved, at, with_disruption)?;
    let (problem, solution) = dry_run.place();
    let mut outcome = outcome(&snapshot, &dry_run, &problem, &solution);
    if with_disruption {
        outcome.disruption = Some(disrupted(&dry_run, &solution, case.decisions.unwrap_or(DECISIONS)));
    }
    Ok(outcome)
}

fn manifests(case: &Case, at: Timestamp) -> Vec<Value> {
    let default_class = (!case.classes.contains_key("default")).then(|| class("default", &Value::Null));
    let classes = case.classes.iter().map(|(name, own)| class(name, own)).chain(default_class);
    let pools: Vec<Value> = match &case.pools {
        None => vec![Pool::default().manifest("default")],
        Some(pools) => {
            pools.iter().map(|(name, pool)| pool.as_ref().unwrap_or(&Pool::default()).manifest(name)).collect()
        }
    };
    let nodes = case.nodes.iter().flat_map(|node| node.manifests(at));
    let pods = case.pods.iter().flat_map(|pods| pods.manifests(at));
    classes.chain(pools).chain(nodes).chain(pods).chain(case.objects.iter().cloned()).collect()
}

fn dry_run(
    case: &Case,
    snapshot: &mut Snapshot,
    reserved: &ExportedReservations,
    at: Timestamp,
    with_disruption: bool,
) -> Result<DryRun, String> {
    let mut catalog = catalogs::catalog_of(&case.catalog, &case.unavailable)?;
    catalog.reservations = reserved.instances();
    // The groups that cases select are missing beside others: a catalog without any is incomplete.
    catalog.placement_groups.push(NamedPlacementGroup {
        id: "pg-other".to_owned(),
        name: "other".to_owned(),
        strategy: "cluster".to_owned(),
        partitions: 0,
    });
    let shifted = case.shifted.iter().map(|name| catalogs::shifted(&catalog, name)).collect::<Result<_, _>>()?;
    let scheduling = Options {
        preferences: if case.ignore_preferences { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
        min_values: if case.best_effort_min_values { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
        ..Options::default()
    };
    let gates = case.gates.parse().map_err(|error| format!("gates: {error}"))?;
    Ok(DryRun::new(DryRunInput {
        view: std::mem::take(&mut snapshot.view),
        claims: std::mem::take(&mut snapshot.claims),
        catalog,
        now: at,
        shifted,
        settings: PlanSettings { scheduling, gates, ..PlanSettings::default() },
        commitments: None,
        disruption: with_disruption.then(Vec::new),
    }))
}

/// The name of a pod without the namespace `default`.
fn named(key: &str) -> String {
    key.strip_prefix("default/").unwrap_or(key).to_owned()
}

fn outcome(snapshot: &Snapshot, dry_run: &DryRun, problem: &Problem<'_>, solution: &Solution) -> CaseOutcome {
    let pod = |index: usize| named(&problem.pods[index].key());
    let mut made = CaseOutcome {
        faults: snapshot.faults.iter().map(ToString::to_string).collect(),
        warnings: snapshot.warnings.iter().chain(dry_run.assumptions()).cloned().collect(),
        held: snapshot.held.iter().map(|(pod, why)| (named(pod), why.to_string())).collect(),
        ..CaseOutcome::default()
    };
    made.warnings.extend(dry_run.unusable().map(|(pool, why)| format!("NodePool {pool}: {why}")));
    for (number, launch) in solution.launches.iter().enumerate() {
        let pods = launch.pods.iter().map(|index| pod(*index)).collect();
        made.launches.push(launched(launch, &format!("new-{number}"), pods));
    }
    for one in &made.launches {
        made.labels.insert(one.name.clone(), one.labels.clone());
        made.places.extend(one.pods.iter().map(|pod| (pod.clone(), one.name.clone())));
    }
    for placed in &solution.placements {
        let node = &problem.nodes[placed.node];
        made.places.insert(pod(placed.pod), node.name.clone());
        made.labels.insert(node.name.clone(), possible(&node.requirements));
    }
    for node in &dry_run.view().nodes {
        let own = node.labels.iter().map(|(key, value)| (key.clone(), [value.clone()].into()));
        made.labels.insert(node.name.clone(), own.collect());
    }
    for (pod, node) in dry_run.view().pods.iter().filter_map(|pod| Some((pod, pod.node_name.as_ref()?))) {
        made.places.entry(named(&pod.key())).or_insert_with(|| node.clone());
    }
    let refused =
        solution.unschedulable.iter().map(|one| (pod(one.pod), one.reasons.iter().map(ToString::to_string).collect()));
    made.unschedulable = refused.collect();
    let statuses = dry_run.view().node_classes.values().filter_map(|class| class.status.as_ref());
    let selected = statuses.flat_map(|status| &status.capacity_reservations);
    made.reservations = selected.map(|one| (one.id.clone(), format!("{:?}", one.state))).collect();
    let faulty = dry_run.faulty();
    made.unschedulable.extend(faulty.iter().map(|(pod, why)| (named(&pod.key()), vec![(*why).to_owned()])));
    made
}

/// The labels that a requirement allows a list of values for.
fn possible(requirements: &Requirements) -> Labels {
    let values = requirements.iter().filter_map(|(key, one)| Some((key.to_owned(), one.values()?.clone())));
    values.collect()
}

fn launched(launch: &Launch, name: &str, pods: Vec<String>) -> Launched {
    let offering = &launch.offering;
    let mut own = possible(&launch.requirements);
    own.insert(labels::HOSTNAME.to_owned(), [name.to_owned()].into());
    Launched {
        name: name.to_owned(),
        pool: launch.node_pool.clone(),
        pods,
        requests: launch.requests.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect(),
        kind: offering.instance_type.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type.to_string(),
        price: offering.price,
        types: launch.instance_types.iter().map(|kind| kind.name.clone()).collect(),
        labels: own,
    }
}

fn disrupted(dry_run: &DryRun, solution: &Solution, decisions: usize) -> Disrupted {
    let found = dry_run.disruption(solution, decisions);
    let mut static_launches: BTreeMap<String, usize> = BTreeMap::new();
    for change in &found.fixed {
        *static_launches.entry(change.node_pool.clone()).or_default() += change.launches.len();
    }
    let repair = |verdict: &Verdict| match verdict {
        Verdict::Wait => "Wait",
        Verdict::Reboot => "Reboot",
        Verdict::Repair => "Repair",
        Verdict::Terminate => "Terminate",
        Verdict::Blocked(_) => "Blocked",
    };
    let joined =
        |kept: &nodeless_disruption::Kept| kept.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Disrupted {
        kept: found.kept.iter().map(|kept| (kept.node.clone(), joined(kept))).collect(),
        static_launches,
        repairs: found.unhealthy.iter().map(|one| (one.node.clone(), repair(&one.verdict).to_owned())).collect(),
        events: found.events.iter().map(|event| format!("{event:?}")).collect(),
        doubt: found.doubt.or(found.repair_doubt),
        commands: found.commands.into_iter().map(command).collect(),
    }
}

fn command(found: nodeless_disruption::Command) -> Command {
    let replacement = |(number, one): (usize, &nodeless_disruption::Replacement)| {
        launched(&one.launch, &format!("new-{number}"), one.pods.iter().map(|pod| named(pod)).collect())
    };
    Command {
        reason: format!("{:?}", found.reason),
        method: format!("{:?}", found.method),
        nodes: found.candidates.into_iter().map(|candidate| candidate.node).collect(),
        replacements: found.replacements.iter().enumerate().map(replacement).collect(),
    }
}
