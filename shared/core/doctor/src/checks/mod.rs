//! The checks, each a function of the facts.

mod access;
mod boot_time;
mod classes;
mod definitions;
mod karpenter;
mod nodes;
mod objects;
mod options;
mod other_controllers;
mod pod_disruption_budgets;
mod pools;
mod quotas;
mod surges;
mod table;

use crate::facts::Facts;
use crate::finding::Finding;

/// The findings of all checks.
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    let checks = [
        access::check as fn(&Facts, &mut Vec<Finding>),
        definitions::check,
        karpenter::check,
        other_controllers::check,
        table::check,
        objects::check,
        options::check,
        classes::check,
        pools::check,
        nodes::check,
        quotas::check,
        pod_disruption_budgets::check,
        surges::check,
        boot_time::check,
    ];
    let mut findings = Vec::new();
    checks.iter().for_each(|check| check(facts, &mut findings));
    findings
}
