//! Conditions of initialized claims. The sweep keeps them current because no message does.

use super::{Read, SweepReport, Sweeper};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use nodeless_disruption::consolidatable_since;
use nodeless_lifecycle::consistency::set_consistent;
use nodeless_lifecycle::transitions;
use nodeless_model::claim::condition;
use nodeless_model::events::{condition_changed, failed_consistency_check};
use nodeless_model::object::{MirroredClaim, ObjectRef};
use nodeless_model::{ConditionStatus, Node, NodeClaim, NodePool, Phase};
use nodeless_ports::ErrorKind;
use std::collections::BTreeMap;

/// The maximum number of NodeClaim objects whose status one sweep updates.
const SHOWN: usize = 400;
/// How many statuses are updated concurrently.
const AT_ONCE: usize = 8;

impl Sweeper {
    /// Compares each node with the capacity of its instance type, for the condition `ConsistentStateFound`. Returns the updated
    /// claims.
    pub(super) async fn check_consistency(
        &self,
        mut claims: Vec<NodeClaim>,
        read: &Read,
        now: Timestamp,
        report: &mut SweepReport,
    ) -> Vec<NodeClaim> {
        let nodes: BTreeMap<&str, &Node> =
            read.nodes.iter().filter_map(|node| Some((node.instance_id()?, node))).collect();
        for claim in claims.iter_mut().filter(|claim| claim.phase == Phase::Initialized) {
            let Some(launched) = &claim.status.instance else { continue };
            let Some(node) = nodes.get(launched.id.as_str()) else { continue };
            // A node whose kubelet has not reported its capacity is not inconsistent.
            let mut next = claim.clone();
            if node.capacity.is_empty() || !set_consistent(&mut next, node, now) {
                continue;
            }
            match self.claims.update(&next, None).await {
                Ok(version) => next.version = version,
                // Another process is writing the claim. The next sweep retries.
                Err(error) if error.kind == ErrorKind::Conflict => continue,
                Err(error) => {
                    report.problems.push(format!("NodeClaim {}: {error}", claim.name));
                    continue;
                }
            }
            let uid = read.mirror(&claim.name).map_or("", |mirror| &mirror.uid);
            let mut events = transitions(claim, &next, uid);
            let failed = next.condition(condition::CONSISTENT_STATE_FOUND);
            if let Some(failed) = failed.filter(|condition| condition.status == ConditionStatus::False) {
                events.push(failed_consistency_check(ObjectRef::node_claim(&claim.name, uid), &failed.message));
            }
            self.publish(&events).await;
            *claim = next;
        }
        claims
    }

    /// Updates the status of NodeClaim objects whose conditions differ from their records: conditions that a plan noted, and
    /// `Consolidatable`, which follows from the record and the time.
    pub(super) async fn mirror_changed(
        &self,
        claims: &[NodeClaim],
        read: &Read,
        now: Timestamp,
        report: &mut SweepReport,
    ) {
        let mirrors: BTreeMap<&str, &MirroredClaim> =
            read.mirrors.iter().map(|mirror| (mirror.name.as_str(), mirror)).collect();
        let initialized = claims.iter().filter(|claim| claim.phase == Phase::Initialized);
        let changed = initialized.filter_map(|claim| {
            let mirror = mirrors.get(claim.name.as_str()).filter(|mirror| mirror.deletion_timestamp.is_none())?;
            let pool = read.node_pools.iter().find(|pool| claim.is_of(&pool.name));
            let shown = shown(claim, pool, mirror, now);
            (!mirror.shows(&shown.status.conditions)).then_some((shown, *mirror))
        });
        let mut events = Vec::new();
        let changed: Vec<(NodeClaim, &MirroredClaim)> = changed.take(SHOWN).collect();
        for (claim, mirror) in &changed {
            let became = !mirror.conditions.contains_key(condition::CONSOLIDATABLE);
            if became && claim.has_condition(condition::CONSOLIDATABLE) {
                let kind = condition::CONSOLIDATABLE;
                let object = ObjectRef::node_claim(&claim.name, &mirror.uid);
                events.push(condition_changed(object, kind, ["Unknown", "True"], kind, ""));
            }
        }
        let writes = changed.iter().map(async |(claim, _)| {
            let written = self.cluster.mirror_claim(claim).await;
            written.err().map(|error| format!("NodeClaim {}: {error}", claim.name))
        });
        let writes: Vec<_> = writes.collect();
        let failed: Vec<Option<String>> = stream::iter(writes).buffered(AT_ONCE).collect().await;
        report.problems.extend(failed.into_iter().flatten());
        self.publish(&events).await;
    }
}

/// The claim as its object should show it. If the NodePool is missing or invalid, it is unknown whether the claim may be
/// consolidated, and the object keeps its condition.
fn shown(claim: &NodeClaim, pool: Option<&NodePool>, mirror: &MirroredClaim, now: Timestamp) -> NodeClaim {
    let mut shown = claim.clone();
    let kind = condition::CONSOLIDATABLE;
    let since = match pool {
        Some(pool) => consolidatable_since(claim, pool, now),
        None => mirror.conditions.contains_key(kind).then_some(now),
    };
    match since {
        Some(since) => shown.set_condition(kind, ConditionStatus::True, kind, "", since),
        None => shown.clear_condition(kind),
    }
    shown
}
