//! NodePools: whether they can be used, and their status.

use super::{PlanReport, Planner};
use crate::lines::{Failed, ObjectSkipped};
use crate::node_class;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodeless_api::{Condition, ConditionStatus, NodePoolStatus, Quantity};
use nodeless_lifecycle::NodeClassState;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::resources::format_quantity;
use nodeless_model::{InstanceTypes, NodePool, ResourceList, labels};
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::PoolOffer;
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Karpenter shows these of every NodePool, zero or not.
const BASE_RESOURCES: [&str; 6] = ["cpu", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "memory", "pods"];

/// A NodePool with what it can launch, and whether it may.
pub(super) struct Judged {
    /// The pool, its readiness as found out here.
    pub(super) pool: NodePool,
    instance_types: InstanceTypes,
    usage: PoolUsage,
    /// Condition, reason and message, for those that are not true.
    valid: Result<(), String>,
    class_ready: Result<(), (&'static str, String)>,
}

impl Judged {
    pub(super) fn offer(&self) -> PoolOffer<'_> {
        PoolOffer { pool: &self.pool, instance_types: self.instance_types.clone(), usage: self.usage.clone() }
    }
}

/// Which NodePools can be used. One that cannot stands in nobody's way.
pub(super) fn judge(
    view: &ClusterView,
    types: &BTreeMap<String, Result<InstanceTypes, String>>,
    usage: &BTreeMap<String, PoolUsage>,
) -> Vec<Judged> {
    let one = |pool: &NodePool| {
        let name = &pool.template.node_class;
        let valid = pool.ready.clone();
        let class_ready = class_readiness(view, name);
        let instance_types = types.get(name).cloned().unwrap_or_else(|| Ok(InstanceTypes::from([])));
        let ready = match (&valid, &class_ready, &instance_types) {
            (Err(problem), _, _) => Err(problem.clone()),
            (_, Err((_, problem)), _) => Err(problem.clone()),
            (_, _, Err(problem)) => Err(format!("EC2NodeClass {name}: {problem}")),
            _ => Ok(()),
        };
        Judged {
            pool: NodePool { ready, ..pool.clone() },
            instance_types: instance_types.unwrap_or_else(|_| InstanceTypes::from([])),
            usage: usage.get(&pool.name).cloned().unwrap_or_default(),
            valid,
            class_ready,
        }
    };
    view.node_pools.iter().map(one).collect()
}

fn class_readiness(view: &ClusterView, name: &str) -> Result<(), (&'static str, String)> {
    let Some(class) = view.node_classes.get(name) else {
        let faulty = view.invalid.iter().find(|object| object.kind == "EC2NodeClass" && object.name == name);
        let why = faulty.map_or(format!("EC2NodeClass {name} does not exist; create it"), |object| {
            format!("EC2NodeClass {name} cannot be understood: {}", object.message)
        });
        return Err(("NodeClassNotFound", why));
    };
    match node_class::state(class) {
        NodeClassState::Ready => Ok(()),
        NodeClassState::Missing => Err(("NodeClassNotFound", format!("EC2NodeClass {name} does not exist"))),
        NodeClassState::Terminating => Err(("NodeClassTerminating", format!("EC2NodeClass {name} is being deleted"))),
        NodeClassState::NotYetKnown => {
            Err(("NodeClassReadinessUnknown", format!("EC2NodeClass {name} has not been resolved yet")))
        }
        NodeClassState::NotReady { message } => {
            Err(("NodeClassNotReady", format!("EC2NodeClass {name} is not ready: {message}")))
        }
    }
}

impl Planner {
    /// Writes the status of NodePools that changed since this planner last wrote it.
    pub(super) async fn write_pool_status(
        &self,
        view: &ClusterView,
        judged: &[Judged],
        now: Timestamp,
        report: &mut PlanReport,
    ) {
        for one in judged {
            let name = &one.pool.name;
            if let Err(why) = &one.pool.ready {
                self.context.log(&ObjectSkipped { kind: "NodePool", name, why });
                report.problems.push(format!("NodePool {name} is left out: {why}"));
            }
            let before = self.warm.lock().unwrap_or_else(PoisonError::into_inner).pools.get(name).cloned();
            let status = status(view, one, before.as_ref(), now);
            if before.as_ref() == Some(&status) {
                continue;
            }
            match self.cluster.write_node_pool_status(name, &status).await {
                Ok(()) => {
                    self.warm.lock().unwrap_or_else(PoisonError::into_inner).pools.insert(name.clone(), status);
                }
                Err(error) => {
                    self.context.log(&Failed { what: "write the NodePool's status", why: &error.to_string() });
                }
            }
        }
    }
}

fn status(view: &ClusterView, judged: &Judged, before: Option<&NodePoolStatus>, now: Timestamp) -> NodePoolStatus {
    let pool = &judged.pool;
    let mut total = ResourceList::new();
    let mut nodes = 0_i64;
    for node in view.nodes.iter().filter(|node| node.labels.get(labels::NODE_POOL) == Some(&pool.name)) {
        total.add(&node.capacity);
        nodes += 1;
    }
    let mut resources: nodeless_api::ResourceList =
        BASE_RESOURCES.iter().map(|name| ((*name).to_owned(), Quantity("0".to_owned()))).collect();
    resources.extend(total.iter().map(|(name, quantity)| (name.to_owned(), Quantity(format_quantity(name, quantity)))));
    resources.insert("nodes".to_owned(), Quantity(nodes.to_string()));
    let ready = match (&judged.valid, &judged.class_ready, &pool.ready) {
        (Err(why), _, _) => Err(("NodePoolValidationFailed", why.clone())),
        (_, Err(why), _) => Err(why.clone()),
        (_, _, Err(why)) => Err(("NodeClassNotReady", why.clone())),
        _ => Ok(()),
    };
    let conditions = vec![
        condition(
            "ValidationSucceeded",
            judged.valid.clone().map_err(|why| ("NodePoolValidationFailed", why)),
            before,
            now,
        ),
        condition("NodeClassReady", judged.class_ready.clone(), before, now),
        condition("Ready", ready, before, now),
    ];
    NodePoolStatus { resources, nodes, conditions, ..NodePoolStatus::default() }
}

fn condition(
    kind: &str,
    holds: Result<(), (&'static str, String)>,
    before: Option<&NodePoolStatus>,
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match holds {
        Ok(()) => (ConditionStatus::True, kind.to_owned(), String::new()),
        Err((reason, message)) => (ConditionStatus::False, reason.to_owned(), message),
    };
    let same =
        before.iter().flat_map(|status| &status.conditions).find(|old| old.type_ == kind && old.status == status);
    Condition {
        type_: kind.to_owned(),
        status,
        reason,
        message,
        last_transition_time: same.map_or(Time(now), |old| old.last_transition_time.clone()),
        observed_generation: None,
    }
}
