//! VerticalPodAutoscalers: what new pods of a workload request.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_api::ResourceList;
use nodeless_api::convert::ConvertError;
use nodeless_api::pod_shapes::{Recommendation, Recommended};
use nodeless_model as model;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The name of a policy for all containers without one of their own.
const ANY: &str = "*";
/// The resources that it controls by default.
const CONTROLLED: [&str; 2] = ["cpu", "memory"];

/// A VerticalPodAutoscaler.
#[derive(Clone, Debug)]
pub(crate) struct VerticalAutoscaler {
    /// The kind and the name of the workload.
    pub(crate) target: (String, String),
    pub(crate) created: Option<Timestamp>,
    /// What it gives to new pods; nothing with `updateMode: Off`.
    pub(crate) given: Option<Recommendation>,
}

/// A VerticalPodAutoscaler as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Written {
    pub(crate) metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_ref: Target,
    update_policy: UpdatePolicy,
    resource_policy: ResourcePolicy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdatePolicy {
    update_mode: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourcePolicy {
    container_policies: Vec<ContainerPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPolicy {
    container_name: String,
    mode: String,
    min_allowed: ResourceList,
    max_allowed: ResourceList,
    controlled_resources: Option<Vec<String>>,
    controlled_values: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    recommendation: Recommendations,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Recommendations {
    container_recommendations: Vec<ContainerRecommendation>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerRecommendation {
    container_name: String,
    target: ResourceList,
}

impl TryFrom<&Written> for VerticalAutoscaler {
    type Error = ConvertError;

    fn try_from(written: &Written) -> Result<Self, ConvertError> {
        let Spec { target_ref, update_policy, resource_policy } = &written.spec;
        let policies = &resource_policy.container_policies;
        let mut given = BTreeMap::new();
        for ContainerRecommendation { container_name, target } in
            &written.status.recommendation.container_recommendations
        {
            let of = |name: &str| policies.iter().find(|policy| policy.container_name == name);
            let none = ContainerPolicy::default();
            let policy = of(container_name).or_else(|| of(ANY)).unwrap_or(&none);
            if policy.mode != "Off" {
                given.insert(container_name.clone(), recommended(target, policy)?);
            }
        }
        Ok(Self {
            target: (target_ref.kind.clone(), target_ref.name.clone()),
            created: written.metadata.creation_timestamp.as_ref().map(|time| time.0),
            given: (update_policy.update_mode != "Off").then_some(Recommendation(given)),
        })
    }
}

fn recommended(target: &ResourceList, policy: &ContainerPolicy) -> Result<Recommended, ConvertError> {
    let of_policy = |bound: &str| format!("spec.resourcePolicy.containerPolicies.{bound}");
    Ok(Recommended {
        target: controlled(target, policy, "status.recommendation.containerRecommendations.target")?,
        least: controlled(&policy.min_allowed, policy, &of_policy("minAllowed"))?,
        most: controlled(&policy.max_allowed, policy, &of_policy("maxAllowed"))?,
        keeps_limits: policy.controlled_values == "RequestsOnly",
    })
}

/// The quantities of the resources that it controls.
fn controlled(list: &ResourceList, policy: &ContainerPolicy, field: &str) -> Result<model::ResourceList, ConvertError> {
    let is_controlled = |name: &str| match &policy.controlled_resources {
        Some(controlled) => controlled.iter().any(|it| it == name),
        None => CONTROLLED.contains(&name),
    };
    let parsed = |(name, amount): (&String, &nodeless_api::Quantity)| {
        let invalid = |error| ConvertError {
            object: String::new(),
            field: format!("{field}.{name}"),
            problem: format!("{error}"),
        };
        Ok((name.clone(), amount.0.parse::<model::Quantity>().map_err(invalid)?))
    };
    list.iter().filter(|(name, _)| is_controlled(name)).map(parsed).collect()
}
