//! NodePools.

use super::{ConvertError, FieldError, duration, nillable_duration, requirements, resource_list, taints, validate};
use crate::nodepool::{self, NodePool};
use crate::{hash, labels};
use model::node_pool::{
    Budget, BudgetNodes, BudgetWindow, ConsolidationPolicy, Disruption, DisruptionReason, NodeTemplate,
};
use nodeless_model as model;
use std::num::IntErrorKind;

/// The annotation that limits what a NodePool's nodes may cost together, in dollars per hour.
pub(super) const DOLLARS_PER_HOUR: &str = "nodeless.sh/dollars-per-hour";

/// What the keys of annotations of our own begin with.
const OWN_ANNOTATIONS: &str = "nodeless.sh/";

impl TryFrom<&NodePool> for model::NodePool {
    type Error = ConvertError;

    /// A pool that can be read but breaks a rule is converted and says in `ready` why it must not be used. Whether its
    /// EC2NodeClass is ready is for the planner to see: the pool's own condition is what the planner said last time.
    fn try_from(pool: &NodePool) -> Result<Self, ConvertError> {
        let name = pool.metadata.name.clone().unwrap_or_default();
        convert(pool).map_err(|error| error.of(format!("NodePool {name}")))
    }
}

fn convert(pool: &NodePool) -> Result<model::NodePool, FieldError> {
    let spec = &pool.spec;
    Ok(model::NodePool {
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        generation: pool.metadata.generation.unwrap_or_default(),
        template: template(pool)?,
        disruption: disruption(pool)?,
        limits: spec
            .limits
            .as_ref()
            .map(|limits| resource_list(limits, "spec.limits"))
            .transpose()?
            .unwrap_or_default(),
        limit_dollars_per_hour: dollars_per_hour(pool)?,
        weight: spec.weight.unwrap_or(0),
        replicas: spec.replicas,
        ready: readiness(pool),
        deleting: pool.metadata.deletion_timestamp.is_some(),
        hash: hash::node_pool(pool),
    })
}

fn dollars_per_hour(pool: &NodePool) -> Result<Option<f64>, FieldError> {
    let Some(text) = pool.metadata.annotations.as_ref().and_then(|all| all.get(DOLLARS_PER_HOUR)) else {
        return Ok(None);
    };
    match text.parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars >= 0.0 => Ok(Some(dollars)),
        _ => {
            let problem = format!("{text:?} is no amount of money; write dollars per hour like 12.50");
            Err(FieldError::new(format!("metadata.annotations[{DOLLARS_PER_HOUR}]"), problem))
        }
    }
}

fn readiness(pool: &NodePool) -> Result<(), String> {
    let problems = validate::node_pool(pool);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn template(pool: &NodePool) -> Result<NodeTemplate, FieldError> {
    const FIELD: &str = "spec.template.spec";
    let spec = &pool.spec.template.spec;
    let metadata = pool.spec.template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels;
    labels.insert(labels::NODE_POOL.to_owned(), pool.metadata.name.clone().unwrap_or_default());
    labels.insert(labels::EC2_NODE_CLASS.to_owned(), spec.node_class_ref.name.clone());
    let mut requirements = requirements(&spec.requirements, &format!("{FIELD}.requirements"))?;
    requirements.add_all(&model::Requirements::from_labels(&labels));
    let grace = spec.termination_grace_period.as_deref();
    Ok(NodeTemplate {
        node_class: spec.node_class_ref.name.clone(),
        requirements,
        labels,
        annotations: metadata.annotations,
        taints: taints(&spec.taints),
        startup_taints: taints(&spec.startup_taints),
        expire_after: Some(nillable_duration(&spec.expire_after, &format!("{FIELD}.expireAfter"))?),
        termination_grace_period: grace
            .map(|text| duration(text, &format!("{FIELD}.terminationGracePeriod")))
            .transpose()?,
    })
}

fn disruption(pool: &NodePool) -> Result<Disruption, FieldError> {
    let from = &pool.spec.disruption;
    let annotations = pool.metadata.annotations.iter().flatten();
    let budgets = from.budgets.iter().enumerate();
    Ok(Disruption {
        consolidation_policy: match from.consolidation_policy {
            nodepool::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            nodepool::ConsolidationPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
            nodepool::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
        },
        consolidate_after: nillable_duration(&from.consolidate_after, "spec.disruption.consolidateAfter")?,
        budgets: budgets
            .map(|(index, entry)| budget(entry, &format!("spec.disruption.budgets[{index}]")))
            .collect::<Result<_, _>>()?,
        annotations: annotations
            .filter(|(key, _)| key.starts_with(OWN_ANNOTATIONS))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    })
}

fn budget(from: &nodepool::Budget, field: &str) -> Result<Budget, FieldError> {
    let number = |text: &str| {
        text.parse::<u32>().or_else(|error| match error.kind() {
            // More nodes than there will ever be.
            IntErrorKind::PosOverflow => Ok(u32::MAX),
            _ => {
                let message = format!("{:?} is neither a number nor a percentage", from.nodes);
                Err(FieldError::new(format!("{field}.nodes"), message))
            }
        })
    };
    let nodes = match from.nodes.strip_suffix('%') {
        Some(percent) => BudgetNodes::Percent(number(percent)?),
        None => BudgetNodes::Count(number(&from.nodes)?),
    };
    let window = match (&from.schedule, &from.duration) {
        (Some(schedule), Some(length)) => {
            let duration = duration(length, &format!("{field}.duration"))?;
            Some(BudgetWindow { schedule: schedule.clone(), duration })
        }
        (None, None) => None,
        _ => return Err(FieldError::new(field, "schedule and duration must be set together")),
    };
    let reasons = from.reasons.iter().flatten().map(|reason| match reason {
        nodepool::DisruptionReason::Underutilized => DisruptionReason::Underutilized,
        nodepool::DisruptionReason::Empty => DisruptionReason::Empty,
        nodepool::DisruptionReason::Drifted => DisruptionReason::Drifted,
    });
    Ok(Budget { reasons: reasons.collect(), nodes, window })
}
