//! The kubelet settings of an instance type: expressions are replaced by their values, with the units and the rounding of Karpenter
//! (`formatResourceResult` in `pkg/cel/environment.go`).

use nodeless_expressions::{Expression, ExpressionError, Variables};
use nodeless_model::resources::name;
use nodeless_model::{Quantity, ResourceList};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::capacity::pods;
use crate::node_class::{KubeletSettings, NodeClassSettings};
use crate::type_facts::TypeFacts;

/// Millicores are rounded up to multiples of this number, so that fewer instance types differ.
const CPU_STEP_MILLI: i64 = 10;
/// MiB of memory are rounded up to multiples of this number.
const MEMORY_STEP_MIB: i64 = 16;
const MIB_PER_GIB: i64 = 1024;

/// Why an expression has no usable value for an instance type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeletExpressionError {
    /// It cannot be evaluated.
    #[error("spec.kubelet.{field}: {source}")]
    Evaluation {
        /// The field below `spec.kubelet`.
        field: String,
        /// The error.
        source: ExpressionError,
    },
    /// The value is out of range.
    #[error("spec.kubelet.{field}: the expression results in {value} for {instance_type}, which is {problem}")]
    Range {
        /// The field below `spec.kubelet`.
        field: String,
        /// The instance type.
        instance_type: String,
        /// The result.
        value: i64,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// The kubelet settings of an instance type, without expressions.
///
/// # Errors
/// The first expression without a usable value.
pub(super) fn settings<'a>(
    facts: &TypeFacts,
    settings: &'a NodeClassSettings,
) -> Result<Cow<'a, KubeletSettings>, KubeletExpressionError> {
    let expressions = &settings.kubelet.expressions;
    if expressions.is_empty() {
        return Ok(Cow::Borrowed(&settings.kubelet));
    }
    let mut own = settings.kubelet.clone();
    if let Some(expression) = &expressions.max_pods {
        let value = evaluate(expression, "maxPods", facts, pods(facts, settings, &own))?;
        let count = i32::try_from(value).ok().and_then(|count| u32::try_from(count).ok());
        own.max_pods = Some(count.ok_or_else(|| out_of_range("maxPods", facts, value, "more than 2147483647"))?);
    }
    let max_pods = pods(facts, settings, &own);
    reserve("kubeReserved", &expressions.kube_reserved, facts, max_pods, &mut own.kube_reserved)?;
    reserve("systemReserved", &expressions.system_reserved, facts, max_pods, &mut own.system_reserved)?;
    Ok(Cow::Owned(own))
}

fn reserve(
    field: &str,
    expressions: &BTreeMap<String, Expression>,
    facts: &TypeFacts,
    max_pods: u32,
    reserved: &mut ResourceList,
) -> Result<(), KubeletExpressionError> {
    for (resource, expression) in expressions {
        let value = evaluate(expression, &format!("{field}.{resource}"), facts, max_pods)?;
        reserved.set(resource, quantity(resource, value));
    }
    Ok(())
}

/// The value of an expression, which is not negative.
fn evaluate(
    expression: &Expression,
    field: &str,
    facts: &TypeFacts,
    max_pods: u32,
) -> Result<i64, KubeletExpressionError> {
    let card = facts.network_cards.iter().find(|card| card.index == facts.default_network_card);
    let variables = Variables {
        instance_type: &facts.name,
        vcpus: facts.cpus.into(),
        memory_mib: i64::try_from(facts.memory_mib).unwrap_or(i64::MAX),
        default_enis: card.map_or(0, |card| card.maximum_interfaces).into(),
        ips_per_eni: facts.ipv4_per_interface.into(),
        max_pods: max_pods.into(),
    };
    let value = expression
        .evaluate(&variables)
        .map_err(|source| KubeletExpressionError::Evaluation { field: field.to_owned(), source })?;
    if value < 0 { Err(out_of_range(field, facts, value, "negative")) } else { Ok(value) }
}

fn out_of_range(field: &str, facts: &TypeFacts, value: i64, problem: &'static str) -> KubeletExpressionError {
    KubeletExpressionError::Range { field: field.to_owned(), instance_type: facts.name.clone(), value, problem }
}

/// The quantity of a value in the unit of its resource: millicores, MiB of memory, GiB of disk; other resources have no unit.
fn quantity(resource: &str, value: i64) -> Quantity {
    let up_to = |step: i64| value.checked_add(step - 1).map_or(value, |above| above / step * step);
    match resource {
        name::CPU => Quantity::from_milli(up_to(CPU_STEP_MILLI)),
        name::MEMORY => Quantity::from_mebibytes(up_to(MEMORY_STEP_MIB)),
        name::EPHEMERAL_STORAGE => Quantity::from_mebibytes(value.saturating_mul(MIB_PER_GIB)),
        _ => Quantity::from_units(value),
    }
}
