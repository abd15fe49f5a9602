//! NodePools whose requirements no instance type meets.

use crate::pools::EvaluatedPool;
use nodeless_model::events::no_compatible_instance_types;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{InstanceType, NodePool, Requirement, Requirements, labels};
use nodeless_scheduling::MinValuesPolicy;
use std::collections::BTreeSet;

/// A warning, worded as in Karpenter, on each NodePool that is ready and still launches nothing for any pod.
pub(crate) fn warnings(evaluated: &[EvaluatedPool], policy: MinValuesPolicy) -> Vec<ObjectEvent> {
    let usable = evaluated.iter().filter(|one| {
        let pool = &one.pool;
        pool.ready.is_ok() && !pool.deleting && pool.replicas.is_none()
    });
    let warning = |one: &EvaluatedPool| {
        let cause = why_none(&requirements(&one.pool), &one.types.instance_types, policy)?;
        Some(no_compatible_instance_types(&one.pool, cause == Cause::MinValues))
    };
    usable.filter_map(warning).collect()
}

/// The requirements of a NodePool on the labels of its nodes.
fn requirements(pool: &NodePool) -> Requirements {
    let mut requirements = pool.template.requirements.clone();
    requirements.add_all(&Requirements::from_labels(&pool.template.labels));
    requirements
}

/// Why a NodePool launches nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// No instance type meets the requirements.
    Requirements,
    /// Too few instance types meet `minValues`.
    MinValues,
}

/// Why no instance type can be launched; `None` where one can.
fn why_none(required: &Requirements, types: &[InstanceType], policy: MinValuesPolicy) -> Option<Cause> {
    let mut launchable = types.iter().filter(|kind| is_launchable(kind, required)).peekable();
    if launchable.peek().is_none() {
        return Some(Cause::Requirements);
    }
    if policy == MinValuesPolicy::BestEffort {
        return None;
    }
    let launchable: Vec<&InstanceType> = launchable.collect();
    let too_few = |(key, requirement): (&str, &Requirement)| {
        let least = requirement.min_values().and_then(|least| usize::try_from(least).ok());
        least.is_some_and(|least| values(key, requirement, &launchable) < least)
    };
    required.iter().any(too_few).then_some(Cause::MinValues)
}

fn is_launchable(kind: &InstanceType, required: &Requirements) -> bool {
    let allows = |key: &str, value: &str| required.get(key).is_none_or(|requirement| requirement.has(value));
    required.intersects(&kind.requirements)
        && kind.offerings.iter().any(|offering| {
            offering.available
                && allows(labels::ZONE, &offering.zone)
                && allows(labels::CAPACITY_TYPE, offering.capacity_type.as_str())
                && required.intersects(&offering.requirements)
        })
}

/// The number of distinct values of a label among these instance types.
fn values(key: &str, requirement: &Requirement, types: &[&InstanceType]) -> usize {
    let of = types.iter().filter_map(|kind| kind.requirements.get(key));
    let allowed = of.map(|has| has.intersection(requirement));
    allowed.flat_map(|both| both.values().cloned().unwrap_or_default()).collect::<BTreeSet<String>>().len()
}
