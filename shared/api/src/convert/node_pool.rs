//! NodePools.

use super::{FieldError, duration, nillable_duration, requirements, taints, validate};
use crate::custom::nodepool::{self, NodePool};
use crate::{hash, labels};
use model::node_pool::{
    Budget, BudgetNodes, BudgetWindow, ConsolidationPolicy, Disruption, DisruptionReason, NodeTemplate,
};
use nodeless_model as model;
use std::num::IntErrorKind;

impl From<&NodePool> for model::NodePool {
    /// A pool that cannot be decoded completely, or that violates a rule, has the reason in `ready`: its nodes still
    /// belong to it, and its conditions show the reason to users. The planner determines whether its EC2NodeClass is ready: the
    /// pool's own condition is the one that the planner wrote last.
    fn from(pool: &NodePool) -> Self {
        let mut problems = validate::node_pool(pool);
        let options = pool.metadata.annotations.as_ref().map(model::NodePoolOptions::new).unwrap_or_default();
        let limits = Limits::new(pool, &options, &mut problems);
        // The cause of an error above may be a field without a rule, which is then reported only here.
        let found_problems = !problems.is_empty();
        let template = template(pool).unwrap_or_else(|error| {
            if !found_problems {
                problems.push(error.to_string());
            }
            NodeTemplate { node_class: pool.spec.template.spec.node_class_ref.name.clone(), ..NodeTemplate::default() }
        });
        let disruption = disruption(pool).unwrap_or_else(|error| {
            problems.push(error.to_string());
            undisturbed()
        });
        let spec = &pool.spec;
        Self {
            name: pool.metadata.name.clone().unwrap_or_default(),
            uid: pool.metadata.uid.clone().unwrap_or_default(),
            generation: pool.metadata.generation.unwrap_or_default(),
            template,
            disruption,
            options,
            label_keys: own_keys(pool),
            limits: limits.resources,
            limit_dollars_per_hour: limits.dollars_per_hour,
            weight: spec.weight.unwrap_or(0),
            replicas: spec.replicas,
            ready: if problems.is_empty() { Ok(()) } else { Err(problems.join("; ").into()) },
            deleting: pool.metadata.deletion_timestamp.is_some(),
            hash: hash::node_pool(pool),
        }
    }
}

/// The keys of the NodePool's own labels in the domain of nodeless.
fn own_keys(pool: &NodePool) -> Vec<String> {
    pool.metadata.labels.iter().flatten().map(|(key, _)| key).filter(|key| labels::is_ours(key)).cloned().collect()
}

/// The limits of a NodePool.
#[derive(Default)]
struct Limits {
    resources: model::ResourceList,
    dollars_per_hour: Option<f64>,
}

impl Limits {
    /// Adds limits that cannot be parsed to `problems`. Such a limit is zero, because its meaning is unknown.
    fn new(pool: &NodePool, options: &model::NodePoolOptions, problems: &mut Vec<String>) -> Self {
        let mut limits = Self::default();
        for (name, quantity) in pool.spec.limits.iter().flatten() {
            let field = format!("spec.limits[{name}]");
            if name == labels::DOLLARS_PER_HOUR {
                let dollars = model::money::parse_dollars(&quantity.0).unwrap_or_else(|| {
                    problems.push(format!(
                        "{field}: {:?} is no amount of money; write the most dollars per hour as a quantity that is not negative, such as \
                         \"12.50\"",
                        quantity.0
                    ));
                    0.0
                });
                limits.dollars_per_hour = Some(dollars);
                continue;
            }
            let amount = quantity.0.parse::<model::Quantity>().unwrap_or_else(|error| {
                problems.push(format!("{field}: {error}"));
                model::Quantity::ZERO
            });
            limits.resources.set(name, amount);
        }
        let invalid = options.dollars_per_hour.invalid();
        problems.extend(invalid.map(|why| format!("metadata.annotations[{}]: {why}", labels::DOLLARS_PER_HOUR)));
        // The smaller of both applies.
        if let Some(dollars) = options.dollars_per_hour.or_zero(0.0) {
            limits.dollars_per_hour = Some(limits.dollars_per_hour.map_or(dollars, |other| other.min(dollars)));
        }
        limits
    }
}

/// The disruption settings of a NodePool whose settings cannot be parsed: no voluntary disruption.
fn undisturbed() -> Disruption {
    Disruption {
        consolidation_policy: ConsolidationPolicy::WhenEmpty,
        consolidate_after: model::NillableDuration::Never,
        budgets: vec![Budget { reasons: Vec::new(), nodes: BudgetNodes::Count(0), window: None }],
    }
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
    })
}

fn budget(from: &nodepool::Budget, field: &str) -> Result<Budget, FieldError> {
    let number = |text: &str| {
        text.parse::<u32>().or_else(|error| match error.kind() {
            // More nodes than any cluster has.
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
        nodepool::DisruptionReason::Unhealthy => DisruptionReason::Unhealthy,
    });
    Ok(Budget { reasons: reasons.collect(), nodes, window })
}
