//! NodePools.

use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{CapacityType, NodePool, Operator, Requirement, Requirements, labels, test_support};

/// A NodePool as in Karpenter's getting started guide: these categories, generations above 2, and these capacity types. Its
/// budgets allow the disruption of all nodes.
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
    let mut pool = test_support::node_pool(name);
    pool.template.requirements = requirements;
    pool.disruption.budgets = vec![test_support::budget(BudgetNodes::Percent(100))];
    pool
}
