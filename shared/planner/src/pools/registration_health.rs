//! The condition `NodeRegistrationHealthy` of each NodePool: whether the nodes that it launches register.

use crate::snapshot::Snapshot;
use nodeless_api::{ConditionStatus, NodePoolStatus};
use nodeless_lifecycle::RegistrationHealth;
use nodeless_lifecycle::registration_health::{Described, HealthStatus};
use nodeless_model::NodePool;
use nodeless_operations::registrations::{decode, encode};
use nodeless_ports::cluster::ClusterView;
use nodeless_state::StoredRecord;

/// The condition.
pub(crate) const HEALTHY: &str = "NodeRegistrationHealthy";

/// The new status of a NodePool's condition, and the generations that it applies to.
pub(crate) struct Registrations {
    pub(crate) described: Described,
    pub(crate) health: HealthStatus,
}

/// The launch results of a NodePool, and the record to write first, if any.
pub(crate) struct PoolRegistrations {
    pub(crate) node_pool: String,
    pub(crate) registrations: Registrations,
    pub(crate) record: Option<StoredRecord>,
}

/// Evaluates the results of the last launches. If a NodePool or its EC2NodeClass has changed, the results are reset, and the
/// reset is recorded before anything is launched from the new specs. A NodePool that is missing in the result cannot be evaluated
/// now: its condition stays as it is. Also returns the errors.
pub(crate) fn evaluate<'p>(
    snapshot: &Snapshot,
    node_pools: impl Iterator<Item = &'p NodePool>,
) -> (Vec<PoolRegistrations>, Vec<String>) {
    let (mut known, mut problems) = (Vec::new(), Vec::new());
    let stored = match &snapshot.registrations {
        Ok(stored) => stored,
        Err(error) => {
            return (known, vec![format!("it is unknown whether the nodes of NodePools register: {error}")]);
        }
    };
    for node_pool in node_pools {
        let name = &node_pool.name;
        let Some(described) = described(&snapshot.view, node_pool) else { continue };
        let present = stored.iter().find(|stored| stored.node_pool == *name);
        let before = present.and_then(|stored| match decode(stored) {
            Ok(health) => Some(health),
            Err(why) => {
                problems.push(format!("{why}; the launch results of the NodePool are reset"));
                None
            }
        });
        let status = snapshot.view.node_pool_statuses.get(name);
        let after = match before.clone() {
            Some(health) => health.about(described.clone(), snapshot.now),
            None => RegistrationHealth::taken_over(described.clone(), stated(status, &described)),
        };
        let mut record = None;
        if before.as_ref() != Some(&after) {
            match encode(name, present.map_or(0, |stored| stored.version), &after, snapshot.now) {
                Ok(encoded) => record = Some(encoded),
                Err(error) => {
                    problems.push(format!("launch results of NodePool {name}: {error}"));
                    continue;
                }
            }
        }
        let registrations = Registrations { described, health: after.status() };
        known.push(PoolRegistrations { node_pool: name.clone(), registrations, record });
    }
    (known, problems)
}

fn described(view: &ClusterView, node_pool: &NodePool) -> Option<Described> {
    let class = view.node_classes.get(&node_pool.template.node_class)?;
    Some(Described {
        node_pool_uid: node_pool.uid.clone(),
        node_pool: node_pool.generation,
        node_class: class.metadata.generation.unwrap_or_default(),
    })
}

/// The status of the condition for the current NodePool, whichever controller wrote it: Karpenter, or a planner whose record has
/// expired.
fn stated(status: Option<&NodePoolStatus>, described: &Described) -> HealthStatus {
    let of_now = status.filter(|status| status.node_class_observed_generation == Some(described.node_class));
    let condition = of_now.and_then(|status| status.conditions.iter().find(|condition| condition.type_ == HEALTHY));
    match condition.filter(|condition| condition.observed_generation == Some(described.node_pool)) {
        Some(condition) if condition.status == ConditionStatus::True => HealthStatus::Healthy,
        Some(condition) if condition.status == ConditionStatus::False => {
            HealthStatus::Unhealthy { reason: condition.reason.clone(), message: condition.message.clone() }
        }
        _ => HealthStatus::Unknown,
    }
}
