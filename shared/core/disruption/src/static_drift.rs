//! Replaces drifted nodes of static NodePools one for one, regardless of their pods.

use crate::budgets::Budgets;
use crate::candidates::{self, Eligible};
use crate::cluster::{Cluster, Options};
use crate::drift_reason::Drift;
use crate::drift_simulation::pools_in_transition;
use crate::output::{Command, Method, Replacement};
use crate::pods::Guards;
use crate::reasons::KeptReason;
use crate::{drift_replacement, static_capacity};
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use std::collections::BTreeMap;

/// A command for each drifted node that the budgets and limits allow, and why each other one stays.
pub(crate) fn find(
    cluster: &Cluster<'_>,
    fixed: &[(&Eligible<'_, '_>, Drift)],
    guards: &Guards<'_>,
    options: &Options,
    budgets: &mut Budgets,
    now: Timestamp,
) -> (Vec<Command>, Vec<(String, KeptReason)>) {
    let mut by_pool: BTreeMap<&str, Vec<&(&Eligible<'_, '_>, Drift)>> = BTreeMap::new();
    for one in fixed {
        by_pool.entry(&one.0.offer.pool.name).or_default().push(one);
    }
    let (mut commands, mut kept) = (Vec::new(), Vec::new());
    for (name, drifted) in by_pool {
        let Some((first, _)) = drifted.first() else { continue };
        let offer = first.offer;
        let nodes = static_capacity::present(cluster, name).count();
        let replicas = offer.pool.replicas.unwrap_or(0);
        let mut going = Vec::new();
        for (one, _) in &drifted {
            let surplus = i64::try_from(nodes).unwrap_or(i64::MAX) > replicas;
            let outcome = if surplus {
                Err(KeptReason::StaticSurplus { node_pool: name.to_owned(), nodes, replicas })
            } else {
                drift_replacement::unless_blocked(one, guards, now)
                    .and_then(|()| budgets.take(name, DisruptionReason::Drifted))
            };
            match outcome {
                Ok(()) => going.push(*one),
                Err(why) => kept.push((one.node.name.clone(), why)),
            }
        }
        let (launches, fewer) = static_capacity::launches(offer, cluster.daemon_sets, going.len(), options);
        let mut in_turn = launches.is_empty() && !pools_in_transition(cluster).contains(name);
        let mut launches = launches.into_iter();
        let command = |one, replacements| {
            candidates::command(Method::StaticDrift, DisruptionReason::Drifted, &[one], replacements, now)
        };
        for one in going {
            match launches.next() {
                Some(launch) => commands.push(command(*one, vec![Replacement { launch, pods: Vec::new() }])),
                None if in_turn && has_room_once_gone(one, cluster, options) => {
                    // One at a time: the replacement is launched when the number of nodes is evaluated next.
                    in_turn = false;
                    commands.push(Command { drains_first: true, ..command(*one, Vec::new()) });
                }
                None => kept.push((
                    one.node.name.clone(),
                    KeptReason::NoReplacementNow { node_pool: name.to_owned(), why: fewer.clone() },
                )),
            }
        }
    }
    (commands, kept)
}

/// Whether the limits of a node's NodePool allow another node once this one is gone.
fn has_room_once_gone(one: &Eligible<'_, '_>, cluster: &Cluster<'_>, options: &Options) -> bool {
    let charge = one.counted();
    let mut offer = one.offer.clone();
    offer.usage.resources.subtract(&charge.resources);
    offer.usage.dollars_per_hour -= charge.dollars_per_hour;
    !static_capacity::launches(&offer, cluster.daemon_sets, 1, options).0.is_empty()
}
