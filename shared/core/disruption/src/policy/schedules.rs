//! Schedules: NodePools that are scheduled off, for example at night, and have no nodes then.

use crate::cluster::Cluster;
use crate::output::Candidate;
use crate::policy::{pause, windows};
use jiff::Timestamp;
use nodeless_model::{NodePool, labels};

/// The annotation of a NodePool: when it has no nodes. One or more of `SCHEDULE for DURATION`, separated by semicolons,
/// like `0 20 * * mon-fri for 11h; 0 20 * * fri for 59h`. Times are in UTC.
pub const SLEEP: &str = "nodeless.sh/sleep";

/// Why the annotation is invalid. A NodePool with such a schedule keeps its nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {SLEEP}: {part:?} is not a schedule, so the NodePool keeps its nodes: {why}; write it like 0 20 * * mon-fri for 11h"
)]
pub struct ScheduleError {
    part: String,
    why: String,
}

/// Until when a NodePool is scheduled off, if it is now. An invalid schedule has no effect.
#[must_use]
pub fn scheduled_off(pool: &NodePool, now: Timestamp) -> Option<Timestamp> {
    scheduled_off_by(pool.disruption.annotations.get(SLEEP)?, now).ok().flatten()
}

/// The nodes that have to be removed because their NodePool is scheduled off, in the order of names, each with the end of that
/// time. Static NodePools are handled by [`crate::static_changes`].
///
/// The user requests no nodes at this time, so budgets do not apply. The drain honours PodDisruptionBudgets and `do-not-disrupt`
/// as any drain. A node with the annotation `karpenter.sh/do-not-disrupt` stays, and one with a pod that could not be decoded. A pause
/// keeps all nodes.
#[must_use]
pub fn retiring(cluster: &Cluster<'_>, now: Timestamp) -> Vec<(Candidate, Timestamp)> {
    let mut found = Vec::new();
    for offer in cluster.node_pools.iter().filter(|offer| offer.pool.replicas.is_none()) {
        let pool = offer.pool;
        let Some(until) = scheduled_off(pool, now) else { continue };
        if pause::holding(cluster, pool, now).is_some() {
            continue;
        }
        for node in &cluster.nodes {
            let Some(claim) = node.claim.filter(|claim| claim.is_of(&pool.name)) else { continue };
            let protected = node.node.and_then(|node| node.annotations.get(labels::DO_NOT_DISRUPT));
            let protected = protected.is_some_and(|value| value == "true") || !node.undecoded.is_empty();
            if node.is_leaving() || protected {
                continue;
            }
            let candidate = Candidate {
                node: node.name().to_owned(),
                node_claim: claim.name.clone(),
                node_pool: pool.name.clone(),
            };
            found.push((candidate, until));
        }
    }
    found.sort();
    found
}

/// Until when a schedule is off, if it is now.
///
/// # Errors
/// When it is invalid.
pub fn scheduled_off_by(schedule: &str, now: Timestamp) -> Result<Option<Timestamp>, ScheduleError> {
    let windows = windows::parse(schedule).map_err(|error| ScheduleError { part: error.part, why: error.why })?;
    Ok(windows::until(&windows, now))
}

/// Whether a NodePool may launch nodes now.
pub(crate) fn may_launch(pool: &NodePool, now: Timestamp) -> bool {
    launches(pool) && scheduled_off(pool, now).is_none()
}

/// Whether a NodePool launches nodes at all.
pub(crate) const fn launches(pool: &NodePool) -> bool {
    pool.ready.is_ok() && !pool.deleting && pool.replicas.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn sleeps_at_night_and_over_the_weekend() {
        let schedule = "0 20 * * mon-thu for 11h; 0 20 * * fri for 59h";
        for (now, until) in [
            ("2026-01-05T19:59:59Z", None),
            ("2026-01-05T20:00:00Z", Some("2026-01-06T07:00:00Z")),
            ("2026-01-06T06:59:59Z", Some("2026-01-06T07:00:00Z")),
            ("2026-01-06T07:00:00Z", None),
            ("2026-01-10T12:00:00Z", Some("2026-01-12T07:00:00Z")),
        ] {
            assert_eq!(scheduled_off_by(schedule, at(now)).unwrap(), until.map(at), "{now}");
        }
        // A window may be long, and start again before it ends.
        let always = scheduled_off_by("* * * * * for 8760h", at("2026-01-05T21:00:30Z")).unwrap();
        assert!(always > Some(at("2027-01-05T20:59:00Z")), "{always:?}");
        let newyear = scheduled_off_by("0 0 1 1 * for 8760h", at("2026-06-05T21:00:30Z")).unwrap();
        assert!(newyear >= Some(at("2027-01-01T00:00:00Z")), "{newyear:?}");
        // From one window into the next.
        let all = scheduled_off_by("0 20 * * * for 2h; 0 22 * * * for 1h", at("2026-01-05T21:00:00Z")).unwrap();
        assert_eq!(all, Some(at("2026-01-05T23:00:00Z")));
    }

    #[test]
    fn refuses_what_is_no_schedule() {
        for text in
            ["", "0 20 * * *", "0 25 * * * for 1h", "0 20 * * * for a while", "0 20 * * * for 0s", "@daily for 1h;"]
        {
            let error = scheduled_off_by(text, at("2026-01-05T21:00:00Z")).unwrap_err();
            assert!(error.to_string().contains("keeps its nodes"), "{error}");
        }
    }
}
