//! What is kept up from plan to plan: when pods last came and went, and what was said already.

use super::{PlanReport, Planner};
use jiff::Timestamp;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{NodeClaim, Phase, Pod};
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::ClusterView;
use sha2::{Digest as _, Sha256};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the same event is not published again.
const QUIET: Duration = Duration::from_mins(5);

/// Events that were published a short while ago.
#[derive(Default)]
pub(super) struct Recent {
    told: HashMap<ObjectEvent, Timestamp>,
}

impl Recent {
    /// Those of the events that were not published lately.
    pub(super) fn fresh(&mut self, events: Vec<ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        self.told.retain(|_, at| Duration::try_from(now.duration_since(*at)).is_ok_and(|age| age < QUIET));
        let mut fresh = Vec::new();
        for event in events {
            // One that is kept back stays as old as it is, so that what lasts is said again after a while.
            if let Entry::Vacant(first) = self.told.entry(event) {
                fresh.push(first.key().clone());
                first.insert(now);
            }
        }
        fresh
    }
}

impl Planner {
    /// Notes on each claim when pods last came to its node or left it. The record keeps a hash of the pods, so that a
    /// planner without memory sees a change too. Gives the claims as they are then.
    pub(super) async fn note_pod_events(
        &self,
        mut records: Vec<NodeClaim>,
        view: &ClusterView,
        now: Timestamp,
        report: &mut PlanReport,
    ) -> Vec<NodeClaim> {
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in view.pods.iter().filter(|pod| pod.is_active() && !pod.is_owned_by_daemon_set()) {
            if let Some(node) = &pod.node_name {
                pods.entry(node).or_default().push(pod);
            }
        }
        for claim in &mut records {
            let Some(name) = &claim.status.node_name else { continue };
            let settled = matches!(claim.phase, Phase::Registered | Phase::Initialized);
            if !settled || !view.nodes.iter().any(|node| node.name == *name) {
                continue;
            }
            let present = fingerprint(pods.get(name.as_str()).map_or(&[], Vec::as_slice));
            if claim.status.pods_seen == Some(present) {
                continue;
            }
            let mut next = claim.clone();
            if next.status.pods_seen.is_some() || next.status.last_pod_event.is_none() {
                next.status.last_pod_event = Some(now);
            }
            next.status.pods_seen = Some(present);
            match self.claims.update(&next, None).await {
                Ok(version) => {
                    next.version = version;
                    *claim = next;
                }
                // Someone else writes it just now; the next plan notes it, and until then it counts as changed.
                Err(error) if error.kind == ErrorKind::Conflict => claim.status.last_pod_event = Some(now),
                Err(error) => {
                    claim.status.last_pod_event = Some(now);
                    report.problems.push(format!("NodeClaim {}: {error}", claim.name));
                }
            }
        }
        records
    }
}

/// A hash of which pods these are.
fn fingerprint(pods: &[&Pod]) -> u64 {
    let mut ids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    ids.sort_unstable();
    let digest = Sha256::digest(ids.join("\n"));
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::object::ObjectRef;

    #[test]
    fn what_lasts_is_said_again_after_a_while() {
        let event = ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Node".into(),
                namespace: String::new(),
                name: "a".into(),
                uid: String::new(),
            },
            warning: false,
            reason: "DisruptionBlocked".into(),
            message: "A PodDisruptionBudget holds its pods".into(),
        };
        let mut recent = Recent::default();
        let said = (0..12).filter(|minute| {
            let now = Timestamp::UNIX_EPOCH + QUIET * *minute / 5;
            !recent.fresh(vec![event.clone(), event.clone()], now).is_empty()
        });
        assert_eq!(said.collect::<Vec<_>>(), [0, 5, 10]);
    }
}
