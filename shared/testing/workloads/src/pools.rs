//! NodePools.

use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{
    Budget, CapacityType, Disruption, NodePool, NodeTemplate, Operator, Requirement, Requirements, ResourceList, labels,
};

/// A NodePool as in Karpenter's first steps: these categories of the generations above 2, bought in these ways. Its budgets let
/// all nodes go at once.
#[must_use]
pub fn node_pool(name: &str, categories: &[&str], bought: &[CapacityType]) -> NodePool {
    let generation = RequirementTerm {
        key: labels::INSTANCE_GENERATION.into(),
        operator: Operator::Gt,
        values: vec!["2".into()],
        min_values: None,
    };
    let mut requirements = Requirements::from_terms([&generation]).unwrap_or_default();
    requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(bought.iter().map(|way| way.as_str())));
    if !categories.is_empty() {
        requirements.add(labels::INSTANCE_CATEGORY, Requirement::one_of(categories.iter().copied()));
    }
    let all = Budget { reasons: Vec::new(), nodes: BudgetNodes::Percent(100), window: None };
    NodePool {
        template: NodeTemplate { node_class: "default".into(), requirements, ..NodeTemplate::default() },
        disruption: Disruption { budgets: vec![all], ..Disruption::default() },
        ..open_pool(name)
    }
}

/// A NodePool that requires nothing.
#[must_use]
pub fn open_pool(name: &str) -> NodePool {
    NodePool {
        name: name.into(),
        uid: format!("uid-{name}"),
        generation: 1,
        template: NodeTemplate { node_class: "default".into(), ..NodeTemplate::default() },
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
