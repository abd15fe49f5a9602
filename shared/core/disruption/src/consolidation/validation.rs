//! Validates a command on a new snapshot.

use super::prediction::Prediction;
use super::round::{Round, Setting, prepared};
use super::steps::single::one_node;
use super::trial::Verdict;
use super::zone_guard::ZoneGuard;
use super::{State, priced, replacement};
use crate::candidates::{Eligible, Lookup};
use crate::cluster::Cluster;
use crate::method::Progress;
use crate::output::{Command, PodPlacement, Replacement};
use crate::pods;
use crate::policy::balance_zones::balanced;
use crate::policy::min_savings;
use crate::simulation::packed::{Mover, Moves, Scope};
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::{Requirement, labels};
use nodeless_scheduling::Launch;
use std::collections::BTreeSet;

/// A consolidation command on a new snapshot whose pods keep their preferences, or `None` if it has to be dropped: if a budget is used up,
/// it no longer saves what its NodePools require, its pods need other new nodes than it launches, those are no longer cheaper, or its
/// pods would not fit where the kube-scheduler is predicted to bind them.
pub(super) fn still_right<'k, 'a: 'k>(
    command: &Command,
    cluster: &Cluster<'k>,
    progress: &mut Progress<'_, 'a>,
) -> Option<Command> {
    let Progress { input: declared, expected, options, now, .. } = *progress;
    let lookup = Lookup::new(cluster);
    let mut nodes = Vec::with_capacity(command.candidates.len());
    for candidate in &command.candidates {
        let of = cluster.nodes.iter().find(|node| {
            node.claim.is_some_and(|claim| claim.name == candidate.node_claim) && node.name() == candidate.node
        })?;
        let one: Eligible<'_, '_> = lookup.eligible(of, now).ok()?;
        priced(&one).ok()?;
        progress.budgets.take(&one.offer.pool.name, command.reason).ok()?;
        nodes.push(one);
    }
    let offers = if command.replacements.is_empty() && balanced(declared).is_empty() {
        &[][..]
    } else {
        &cluster.node_pools[..]
    };
    let mut prepared = prepared(offers, cluster, &nodes, options);
    let zones = ZoneGuard::new(declared, &mut prepared, now);
    let mut round = Round::new(cluster, &nodes, &lookup, expected, Setting { options, now }, &mut prepared);
    round.zones = zones;
    round.prediction = Prediction::assumed(cluster, declared, expected, options);
    let mut movers: Vec<Mover<'_>> = Vec::new();
    let mut scope = Scope::Small;
    for place in 0..round.candidates.len() {
        round.close(place);
        movers.extend(round.candidates[place].movers.iter().copied());
        scope = scope.max(round.candidates[place].scope);
        round.candidates[place].state = State::Goes;
    }
    movers.sort_by(|a, b| round.packed.class(b).asked.cmp(&round.packed.class(a).asked));
    let (verdict, replacements) = if command.replacements.is_empty() {
        (again(&mut round, &movers, scope, false)?, Vec::new())
    } else {
        replaced(&mut round, command, &movers, scope)?
    };
    let launched: Vec<Launch> = replacements.iter().map(|replacement| replacement.launch.clone()).collect();
    let all: Vec<usize> = (0..round.candidates.len()).collect();
    round.keeps_minimums(&all, &launched).ok()?;
    round.predict(&all, &movers, &launched, true).ok()?;
    let savings_per_hour = round.saving(&all, &launched).ok()?;
    min_savings::check(round.candidates.iter().map(|candidate| candidate.one.offer.pool), savings_per_hour).ok()?;
    let mut placements: Vec<PodPlacement> = verdict
        .placed
        .iter()
        .map(|(mover, leaf)| PodPlacement {
            pod: movers[*mover].pod.key(),
            node: round.packed.problem.nodes[*leaf].name.clone(),
        })
        .collect();
    placements.sort();
    let evictions = pods::evicted(movers.iter().map(|mover| mover.pod));
    Some(Command { replacements, placements, evictions, savings_per_hour, ..command.clone() })
}

/// The result of the scheduler on the new snapshot.
fn again<'a>(round: &mut Round<'_, 'a, '_>, movers: &[Mover<'a>], scope: Scope, launching: bool) -> Option<Verdict> {
    let moves = round.packed.place(movers, false);
    let verdict = round.ask(movers, &moves, scope, launching);
    round.packed.undo(movers, &moves);
    verdict.ok()
}

/// Whether the pods of a command still need exactly its launches. Only the target nodes of the command are open at first, because
/// other commands may use the capacity of others; then all nodes are.
fn replaced<'a>(
    round: &mut Round<'_, 'a, '_>,
    command: &Command,
    movers: &[Mover<'a>],
    scope: Scope,
) -> Option<(Verdict, Vec<Replacement>)> {
    let moves = round.packed.place(movers, false);
    round.packed.undo(movers, &moves);
    if moves.left.is_empty() && scope == Scope::Small {
        return None;
    }
    if scope == Scope::Small
        && let Some(unchanged) = as_decided(round, command, movers)
    {
        return Some(unchanged);
    }
    let to: HashMap<&str, &str> = command.placements.iter().map(|one| (one.pod.as_str(), one.node.as_str())).collect();
    let leaves: HashMap<&str, usize> =
        round.packed.problem.nodes.iter().enumerate().map(|(leaf, node)| (node.name.as_str(), leaf)).collect();
    let leaf = |mover: &Mover<'_>| to.get(mover.pod.key().as_str()).and_then(|node| leaves.get(node)).copied();
    let placed: Vec<(usize, usize)> =
        movers.iter().enumerate().filter_map(|(place, mover)| Some((place, leaf(mover)?))).collect();
    let used: HashSet<usize> = placed.iter().map(|(_, leaf)| *leaf).collect();
    let closed = round.packed.close_all_but(&used);
    let there = round.ask(movers, &Moves { placed, left: Vec::new() }, scope, true).ok();
    closed.into_iter().for_each(|leaf| round.packed.open(leaf));
    let decided = there.and_then(|verdict| matching(round, command, verdict, movers));
    decided.or_else(|| {
        let verdict = again(round, movers, scope, true)?;
        matching(round, command, verdict, movers)
    })
}

/// Whether the same pods still fit as decided: the pods of each replacement on one node, and the others on their target nodes.
/// `None` where pods were added or removed, or something no longer fits.
fn as_decided<'a>(
    round: &mut Round<'_, 'a, '_>,
    command: &Command,
    movers: &[Mover<'a>],
) -> Option<(Verdict, Vec<Replacement>)> {
    let places: HashMap<String, usize> =
        movers.iter().enumerate().map(|(place, mover)| (mover.pod.key(), place)).collect();
    let launched: usize = command.replacements.iter().map(|one| one.pods.len()).sum();
    if launched + command.placements.len() != movers.len() {
        return None;
    }
    let leaves: HashMap<String, usize> =
        round.packed.problem.nodes.iter().enumerate().map(|(leaf, node)| (node.name.clone(), leaf)).collect();
    let sent: Option<Vec<(usize, usize)>> =
        command.placements.iter().map(|to| Some((*places.get(&to.pod)?, *leaves.get(&to.node)?))).collect();
    let sent = sent?;
    let some: Vec<Mover<'a>> = sent.iter().map(|(place, _)| movers[*place]).collect();
    let moves =
        Moves { placed: sent.iter().enumerate().map(|(own, (_, leaf))| (own, *leaf)).collect(), left: Vec::new() };
    let there = round.ask(&some, &moves, Scope::Small, false).ok()?;
    let placed = there.placed.into_iter().map(|(own, leaf)| (sent[own].0, leaf)).collect();
    let mut launches = Vec::with_capacity(command.replacements.len());
    for replacement in &command.replacements {
        let own: Option<Vec<usize>> = replacement.pods.iter().map(|pod| places.get(pod).copied()).collect();
        let own = own?;
        let some: Vec<Mover<'a>> = own.iter().map(|place| movers[*place]).collect();
        let mut alone = round.ask(&some, &Moves::default(), Scope::Small, true).ok()?.launches;
        // Several nodes would be cheaper, but not for the kube-scheduler.
        if alone.len() > 1 && command.candidates.len() == 1 && command.replacements.len() == 1 {
            alone = vec![one_node(round, 0, &some)?];
        }
        let [launch] = &mut alone[..] else { return None };
        launch.pods = launch.pods.iter().map(|pod| own[*pod]).collect();
        launches.append(&mut alone);
    }
    matching(round, command, Verdict { placed, launches }, movers)
}

/// The validated command with its original replacements, if they are still what is needed, for less.
fn matching(
    round: &Round<'_, '_, '_>,
    command: &Command,
    mut verdict: Verdict,
    movers: &[Mover<'_>],
) -> Option<(Verdict, Vec<Replacement>)> {
    let candidates: Vec<_> = round.candidates.iter().collect();
    let mut launches = std::mem::take(&mut verdict.launches);
    if launches.is_empty() {
        return None;
    }
    let places: Vec<usize> = (0..candidates.len()).collect();
    round.limit_to_minimums(&places, &mut launches);
    let spot_to_spot = round.options.spot_to_spot;
    let fresh = replacement::cheaper(&candidates, launches, &round.node_prices.offers, spot_to_spot).ok()?;
    kept(&command.replacements, &fresh, movers).map(|replacements| (verdict, replacements))
}

/// The original replacements, each with the pods of a new launch that it can be the node of; `None` if the numbers differ, or other
/// nodes are needed.
fn kept(decided: &[Replacement], fresh: &[Launch], movers: &[Mover<'_>]) -> Option<Vec<Replacement>> {
    let own = assigned(decided, fresh)?;
    let pods = |launch: usize| fresh[launch].pods.iter().map(|pod| movers[*pod].pod.key()).collect();
    let kept = decided.iter().zip(own);
    Some(kept.map(|(it, launch)| Replacement { launch: it.launch.clone(), pods: pods(launch) }).collect())
}

/// For each decided replacement, the new launch whose pods it takes; each launch is taken once. Several replacements may do for a
/// launch, so one that was assigned takes another where that helps the next (augmenting paths of a bipartite matching).
fn assigned(decided: &[Replacement], fresh: &[Launch]) -> Option<Vec<usize>> {
    if decided.len() != fresh.len() {
        return None;
    }
    let mut owner: Vec<Option<usize>> = vec![None; fresh.len()];
    for place in 0..decided.len() {
        if !assign(place, decided, fresh, &mut owner, &mut BTreeSet::new()) {
            return None;
        }
    }
    let mut own = vec![0; decided.len()];
    owner.iter().enumerate().for_each(|(launch, place)| place.iter().for_each(|place| own[*place] = launch));
    Some(own)
}

fn assign(
    place: usize,
    decided: &[Replacement],
    fresh: &[Launch],
    owner: &mut [Option<usize>],
    tried: &mut BTreeSet<usize>,
) -> bool {
    for launch in 0..fresh.len() {
        if !covers(&fresh[launch], &decided[place].launch) || !tried.insert(launch) {
            continue;
        }
        let other = owner[launch];
        if other.is_none_or(|other| assign(other, decided, fresh, owner, tried)) {
            owner[launch] = Some(place);
            return true;
        }
    }
    false
}

/// Whether every node of the decided launch can be a node of the new launch: of the same NodePool, with types that are possible
/// for the new pods, in their zones and with their other labels.
fn covers(fresh: &Launch, decided: &Launch) -> bool {
    let known = |name: &str| fresh.instance_types.iter().any(|kind| kind.name == name);
    let within = |(key, wide): (&str, &Requirement)| {
        let narrow = decided.requirements.get(key).map(|it| it.clone().with_min_values(None));
        // The types are compared by name.
        key == labels::INSTANCE_TYPE
            || narrow.is_some_and(|narrow| narrow.intersection(&wide.clone().with_min_values(None)) == narrow)
    };
    fresh.node_pool == decided.node_pool
        && decided.instance_types.iter().all(|kind| known(&kind.name))
        && fresh.requirements.iter().all(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::{CapacityType, Requirements};
    use nodeless_scheduling::{ChosenOffering, PricedType};

    /// A launch of these types in a zone.
    fn launch(types: &[&str], zone: &str) -> Launch {
        let typed = |name: &&str| PricedType { name: (*name).to_owned(), price: 0.04 };
        let mut requirements = Requirements::default();
        requirements.add(labels::ZONE, Requirement::one_of([zone]));
        requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(types.iter().copied()));
        Launch {
            node_pool: "general".into(),
            node_class: "default".into(),
            pods: Vec::new(),
            requests: Default::default(),
            instance_types: types.iter().map(typed).collect(),
            offering: ChosenOffering {
                instance_type: types[0].to_owned(),
                zone: zone.to_owned(),
                capacity_type: CapacityType::Spot,
                price: 0.04,
            },
            requirements,
            charge: Default::default(),
            min_values_relaxed: false,
            starts: None,
        }
    }

    fn decided(launches: &[Launch]) -> Vec<Replacement> {
        launches.iter().map(|launch| Replacement { launch: launch.clone(), pods: Vec::new() }).collect()
    }

    #[test]
    fn equal_launches_are_assigned_whatever_their_order() {
        let (wide, some, more) = (
            launch(&["m6i.large", "r6i.large", "m6i.xlarge", "c6i.xlarge"], "a"),
            launch(&["r6i.large", "m6i.large", "c6i.xlarge"], "a"),
            launch(&["r6i.large", "c6i.large", "m6i.large", "c6i.xlarge"], "a"),
        );
        let decision = decided(&[wide.clone(), some.clone(), more.clone()]);
        for fresh in [[&wide, &some, &more], [&more, &wide, &some], [&some, &more, &wide], [&wide, &more, &some]] {
            let fresh: Vec<Launch> = fresh.into_iter().cloned().collect();
            let own = assigned(&decision, &fresh).expect("the same nodes are needed");
            assert!(decision.iter().zip(&own).all(|(it, launch)| covers(&fresh[*launch], &it.launch)));
            assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), 3, "{own:?}");
        }
        assert_eq!(assigned(&decision, &[wide, some.clone()]), None, "fewer nodes");
        assert_eq!(assigned(&decision, &[some.clone(), some, more]), None, "types that are no longer possible");
    }

    #[test]
    fn a_launch_in_another_zone_is_not_the_same() {
        let (here, there) = (launch(&["m6i.large"], "a"), launch(&["m6i.large"], "b"));
        assert_eq!(
            assigned(&decided(&[here.clone(), there.clone()]), &[there.clone(), here.clone()]),
            Some(vec![1, 0])
        );
        assert_eq!(assigned(&decided(&[here]), &[there]), None);
    }
}
