//! Schedules: NodePools that are scheduled off, for example at night, and have no nodes then.

use crate::cluster::Cluster;
use crate::output::Candidate;
use crate::pause;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::cron::Cron;
use nodeless_model::duration::parse_go_duration;
use nodeless_model::{NodePool, labels};
use std::time::Duration;

/// The annotation of a NodePool: when it has no nodes. One or more of `SCHEDULE for DURATION`, separated by semicolons,
/// like `0 20 * * mon-fri for 11h; 0 20 * * fri for 59h`. Times are in UTC.
pub const SLEEP: &str = "nodeless.sh/sleep";

/// A recurring time at which a NodePool has no nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OffWindow {
    start: Cron,
    length: Duration,
}

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
/// as any drain, and a node with the annotation `karpenter.sh/do-not-disrupt` stays. A pause keeps all nodes.
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
            let Some(claim) = node.claim.filter(|claim| claim.node_pool == pool.name) else { continue };
            let protected = node.node.and_then(|node| node.annotations.get(labels::DO_NOT_DISRUPT));
            if node.is_leaving() || protected.is_some_and(|value| value == "true") {
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
    let windows = parse(schedule)?;
    let mut until = windows.iter().filter_map(|window| window.until(now)).max();
    // One window may continue into the next.
    for _ in 0..windows.len() {
        until = until
            .map(|end| windows.iter().filter_map(|window| window.until(end)).max().map_or(end, |next| next.max(end)));
    }
    Ok(until)
}

fn parse(schedule: &str) -> Result<Vec<OffWindow>, ScheduleError> {
    schedule.split(';').map(str::trim).map(parse_one).collect()
}

fn parse_one(part: &str) -> Result<OffWindow, ScheduleError> {
    let error = |why: String| ScheduleError { part: part.to_owned(), why };
    let (start, length) = part.rsplit_once(" for ").ok_or_else(|| error("the duration is missing".to_owned()))?;
    let start: Cron = start.trim().parse().map_err(|why: nodeless_model::cron::CronError| error(why.to_string()))?;
    let length = parse_go_duration(length.trim()).map_err(|why| error(why.to_string()))?;
    if length.is_zero() {
        return Err(error("the duration is zero".to_owned()));
    }
    Ok(OffWindow { start, length })
}

impl OffWindow {
    /// The end of the current window, if there is one.
    fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let length = SignedDuration::try_from(self.length).ok()?;
        // The latest started window counts, because windows may overlap. The search goes back in increasing steps.
        let mut back = SignedDuration::from_mins(1);
        loop {
            back = back.min(length);
            let begun = |after| self.start.next_after(after).filter(|start| *start <= now);
            if let Some(first) = begun(now.checked_sub(back).unwrap_or(Timestamp::MIN)) {
                return std::iter::successors(Some(first), |start| begun(*start)).last()?.checked_add(length).ok();
            }
            if back == length {
                return None;
            }
            back = back.saturating_mul(2);
        }
    }
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
