//! Whether a command still is right on a fresh view.

use super::round::Round;
use super::{State, priced, replacement};
use crate::budgets::Budgets;
use crate::candidates::{Eligible, Lookup, settled};
use crate::cluster::{Cluster, Options};
use crate::decision::{Command, PodPlacement, Replacement};
use crate::packed::{Mover, Scope};
use crate::pods::Guards;
use crate::simulation::Expected;
use jiff::Timestamp;
use nodeless_scheduling::Launch;

/// A consolidation command as it stands on a fresh view, or nothing if it has to be dropped: when one of its nodes may no
/// longer go, when a budget is used up, when its pods need other new nodes than it launches, or when those are no longer
/// cheaper.
pub(crate) fn still_right(
    command: &Command,
    cluster: &Cluster<'_>,
    now: Timestamp,
    options: &Options,
) -> Option<Command> {
    let lookup = Lookup::of(cluster);
    let guards = Guards::of(cluster.disruption_budgets);
    let expected = Expected::of(cluster, options);
    let mut budgets = Budgets::of(cluster, now);
    let mut nodes = Vec::with_capacity(command.candidates.len());
    for candidate in &command.candidates {
        let of = cluster.nodes.iter().find(|node| {
            node.claim.is_some_and(|claim| claim.name == candidate.node_claim) && node.name() == candidate.node
        })?;
        let one: Eligible<'_, '_> = lookup.eligible(of, now).ok()?;
        settled(&one, &expected, &guards, now).ok()?;
        priced(&one).ok()?;
        budgets.take(&one.claim.node_pool, command.reason).ok()?;
        nodes.push(one);
    }
    let mut round = Round::new(cluster, &nodes, &lookup, &expected, options, now);
    let mut movers: Vec<Mover<'_>> = Vec::new();
    let mut scope = Scope::Small;
    for place in 0..round.candidates.len() {
        round.close(place);
        movers.extend(round.candidates[place].movers.iter().copied());
        scope = scope.max(round.candidates[place].scope);
        round.candidates[place].state = State::Goes;
    }
    movers.sort_by(|a, b| round.packed.class(b).asked.cmp(&round.packed.class(a).asked));
    let moves = round.packed.place(&movers, false);
    let verdict = round.ask(&movers, &moves, scope, !command.replacements.is_empty()).ok()?;
    let candidates: Vec<_> = round.candidates.iter().collect();
    let fresh = match verdict.launches {
        none if none.is_empty() => Vec::new(),
        launches => replacement::cheaper(&candidates, launches, &round.market.offers, options.spot_to_spot).ok()?,
    };
    let replacements = kept(&command.replacements, fresh, &movers)?;
    let removed: f64 = candidates.iter().map(|candidate| candidate.price).sum();
    let added: f64 = replacements.iter().map(|replacement| replacement.launch.offering.price).sum();
    let mut placements: Vec<PodPlacement> = verdict
        .placed
        .iter()
        .map(|(mover, leaf)| PodPlacement {
            pod: movers[*mover].pod.key(),
            node: round.packed.problem.nodes[*leaf].name.clone(),
        })
        .collect();
    placements.sort();
    let mut evictions: Vec<_> = movers.iter().map(|mover| mover.pod.into()).collect();
    evictions.sort();
    Some(Command { replacements, placements, evictions, savings_per_hour: removed - added, ..command.clone() })
}

/// The replacements as they were decided, each with the pods of a fresh launch that could be any of its types; `None` where
/// these are not as many, or need other types.
fn kept(decided: &[Replacement], fresh: Vec<Launch>, movers: &[Mover<'_>]) -> Option<Vec<Replacement>> {
    if decided.len() != fresh.len() {
        return None;
    }
    let mut left = fresh;
    let mut kept = Vec::with_capacity(decided.len());
    for replacement in decided {
        let launch = &replacement.launch;
        let covers = |other: &Launch| {
            let known = |name: &str| other.instance_types.iter().any(|kind| kind.name == name);
            other.node_pool == launch.node_pool && launch.instance_types.iter().all(|kind| known(&kind.name))
        };
        let place = left.iter().position(covers)?;
        let pods = left.swap_remove(place).pods;
        kept.push(Replacement {
            launch: launch.clone(),
            pods: pods.into_iter().map(|pod| movers[pod].pod.key()).collect(),
        });
    }
    Some(kept)
}
