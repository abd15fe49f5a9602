//! Conversion of API objects to the plain values of `nodeless-model`, and of claims to NodeClaims.
//!
//! Each object is converted separately, so that a faulty one is omitted and reported, and the others are used.

mod buffer;
mod node;
mod node_claim;
mod node_pool;
mod overlay;
mod pod;
mod provisioning_request;
pub(crate) mod requests;
pub mod validate;
pub mod volumes;
mod workload;

pub(crate) use node_claim::capacity_of_other;
pub use node_claim::mirror;
pub use requests::limits;

use crate::custom::common::{self, Quantity};
use nodeless_model as model;
use std::collections::BTreeMap;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {problem}")]
pub struct ConvertError {
    /// The object, such as `NodePool default` or `Pod web/front-1`.
    pub object: String,
    /// The field, such as `spec.limits.cpu`.
    pub field: String,
    /// The problem of the field.
    pub problem: String,
}

/// An error with a field. The caller that knows the object adds it.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}")]
pub(crate) struct FieldError {
    field: String,
    problem: String,
}

impl FieldError {
    #[allow(clippy::needless_pass_by_value, reason = "callers pass an error or a text that they no longer need")]
    fn new(field: impl Into<String>, problem: impl ToString) -> Self {
        Self { field: field.into(), problem: problem.to_string() }
    }

    /// The error of a field within this one.
    pub(crate) fn within(self, field: &str) -> Self {
        Self { field: format!("{field}.{}", self.field), ..self }
    }

    pub(crate) fn for_object(self, object: impl Into<String>) -> ConvertError {
        ConvertError { object: object.into(), field: self.field, problem: self.problem }
    }
}

/// Quantities by name, as numbers. None is negative, as in the API server.
pub(crate) fn resource_list(list: &BTreeMap<String, Quantity>, field: &str) -> Result<model::ResourceList, FieldError> {
    list.iter()
        .map(|(name, quantity)| match quantity.0.parse::<model::Quantity>() {
            Ok(parsed) if parsed < model::Quantity::ZERO => {
                let problem = format!("{:?} must be greater than or equal to 0", quantity.0);
                Err(FieldError::new(format!("{field}.{name}"), problem))
            }
            Ok(parsed) => Ok((name.clone(), parsed)),
            Err(error) => Err(FieldError::new(format!("{field}.{name}"), error)),
        })
        .collect()
}

/// Quantities by name, in Kubernetes' form.
fn quantities(list: &model::ResourceList) -> common::ResourceList {
    list.iter()
        .map(|(name, quantity)| {
            let is_bytes = matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            let text = if is_bytes { quantity.to_binary_string() } else { quantity.to_decimal_string() };
            (name.to_owned(), Quantity(text))
        })
        .collect()
}

impl From<common::Operator> for model::Operator {
    fn from(operator: common::Operator) -> Self {
        match operator {
            common::Operator::In => Self::In,
            common::Operator::NotIn => Self::NotIn,
            common::Operator::Exists => Self::Exists,
            common::Operator::DoesNotExist => Self::DoesNotExist,
            common::Operator::Gt => Self::Gt,
            common::Operator::Lt => Self::Lt,
            common::Operator::Gte => Self::Gte,
            common::Operator::Lte => Self::Lte,
        }
    }
}

impl From<model::Operator> for common::Operator {
    fn from(operator: model::Operator) -> Self {
        match operator {
            model::Operator::In => Self::In,
            model::Operator::NotIn => Self::NotIn,
            model::Operator::Exists => Self::Exists,
            model::Operator::DoesNotExist => Self::DoesNotExist,
            model::Operator::Gt => Self::Gt,
            model::Operator::Lt => Self::Lt,
            model::Operator::Gte => Self::Gte,
            model::Operator::Lte => Self::Lte,
        }
    }
}

impl From<common::TaintEffect> for model::TaintEffect {
    fn from(effect: common::TaintEffect) -> Self {
        match effect {
            common::TaintEffect::NoSchedule => Self::NoSchedule,
            common::TaintEffect::PreferNoSchedule => Self::PreferNoSchedule,
            common::TaintEffect::NoExecute => Self::NoExecute,
        }
    }
}

impl From<model::TaintEffect> for common::TaintEffect {
    fn from(effect: model::TaintEffect) -> Self {
        match effect {
            model::TaintEffect::NoSchedule => Self::NoSchedule,
            model::TaintEffect::PreferNoSchedule => Self::PreferNoSchedule,
            model::TaintEffect::NoExecute => Self::NoExecute,
        }
    }
}

impl From<&common::Taint> for model::Taint {
    fn from(taint: &common::Taint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default(), effect: taint.effect.into() }
    }
}

impl From<&model::Taint> for common::Taint {
    fn from(taint: &model::Taint) -> Self {
        let value = Some(taint.value.clone()).filter(|value| !value.is_empty());
        Self { key: taint.key.clone(), value, effect: taint.effect.into(), time_added: None }
    }
}

fn taints(list: &[common::Taint]) -> Vec<model::Taint> {
    list.iter().map(Into::into).collect()
}

/// Requirements as terms, and the terms as sets.
fn requirements(list: &[common::Requirement], field: &str) -> Result<model::Requirements, FieldError> {
    let terms: Vec<_> = list.iter().map(term).collect();
    model::Requirements::from_terms(&terms).map_err(|error| FieldError::new(field, error))
}

fn term(requirement: &common::Requirement) -> model::requirement::RequirementTerm {
    model::requirement::RequirementTerm {
        key: requirement.key.clone(),
        operator: requirement.operator.into(),
        values: requirement.values.clone(),
        min_values: requirement.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}

fn duration(text: &str, field: &str) -> Result<std::time::Duration, FieldError> {
    model::duration::parse_go_duration(text).map_err(|error| FieldError::new(field, error))
}

fn nillable_duration(text: &str, field: &str) -> Result<model::NillableDuration, FieldError> {
    text.parse().map_err(|error| FieldError::new(field, error))
}

/// A label selector of Kubernetes.
pub(crate) fn selector(
    from: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
    field: &str,
) -> Result<model::LabelSelector, FieldError> {
    use model::selector::{LabelExpression, LabelOperator};
    let match_expressions = from.match_expressions.iter().flatten().map(|expression| {
        let operator = match expression.operator.as_str() {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            other => {
                return Err(FieldError::new(
                    format!("{field}.matchExpressions"),
                    format!("unknown operator {other:?}"),
                ));
            }
        };
        Ok(LabelExpression {
            key: expression.key.clone(),
            operator,
            values: expression.values.clone().unwrap_or_default(),
        })
    });
    Ok(model::LabelSelector {
        match_labels: from.match_labels.clone().unwrap_or_default(),
        match_expressions: match_expressions.collect::<Result<_, _>>()?,
    })
}

/// `True`, `False` or anything else.
fn status(text: &str) -> Option<bool> {
    match text {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}
