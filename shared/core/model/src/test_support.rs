//! Complete objects for tests, which change the fields that they are about. Compiled only with the feature `test-support`,
//! which nothing that ships enables.

use crate::node_pool::BudgetNodes;
use crate::{
    Budget, Disruption, NodePool, NodeTemplate, Pod, Quantity, Requirement, Requirements, ResourceList, labels,
};

/// A NodePool that is ready and requires nothing, of the EC2NodeClass `default`, with Karpenter's defaults for disruption.
#[must_use]
pub fn node_pool(name: &str) -> NodePool {
    NodePool {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 1,
        template: NodeTemplate { node_class: "default".to_owned(), ..NodeTemplate::default() },
        disruption: Disruption::default(),
        limits: ResourceList::new(),
        limit_dollars_per_hour: None,
        weight: 0,
        replicas: None,
        ready: Ok(()),
        deleting: false,
        hash: String::new(),
    }
}

/// [`node_pool`] with on-demand nodes only.
#[must_use]
pub fn on_demand_node_pool(name: &str) -> NodePool {
    let mut pool = node_pool(name);
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]))]);
    pool
}

/// A budget for all reasons that is always active.
#[must_use]
pub fn budget(nodes: BudgetNodes) -> Budget {
    Budget { reasons: Vec::new(), nodes, window: None }
}

/// A pod in the namespace `default` with these requests, in thousandths of a cpu and in MiB.
#[must_use]
pub fn pod(name: impl Into<String>, cpu_milli: i64, memory_mib: i64) -> Pod {
    let name = name.into();
    Pod {
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        name,
        requests: ResourceList::new()
            .with("cpu", Quantity::from_milli(cpu_milli))
            .with("memory", Quantity::from_mebibytes(memory_mib))
            .with("pods", Quantity::from_units(1)),
        ..Pod::default()
    }
}
