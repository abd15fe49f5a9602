//! Validates an EC2NodeClass before anything is launched with it.

use super::conditions::Problem;
use crate::ClusterDetails;
use crate::kubelet_values;
use crate::user_data::{UserDataError, UserDataInput, user_data};
use nodeless_api::EC2NodeClassSpec;
use nodeless_api::nodeclass::kubelet::{self, MaxPods};
use nodeless_api::nodeclass::{AmiFamily, KubeletConfiguration, PlacementGroupSelector};
use nodeless_expressions::Expression;
use nodeless_model::{StringMap, labels};

/// The kubelet's settings that every family supports; Custom and AL2023 support all settings of the kubelet.
const MANAGED: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];
/// A placeholder for a type's own number: only the size of the user data depends on its number of digits.
const SOME_MAX_PODS: u32 = 110;
/// A placeholder for the service addresses of a cluster.
const SOME_CIDR: &str = "10.100.0.0/16";

/// The first error of the class, if any.
pub fn validate(cluster: &ClusterDetails, spec: &EC2NodeClassSpec) -> Option<Problem> {
    let family = spec.resolved_ami_family().unwrap_or(AmiFamily::Custom);
    let configuration = match kubelet::parse(&spec.kubelet) {
        Ok(configuration) => configuration,
        Err(problems) => return Some(Problem::new("InvalidKubeletConfiguration", problems.to_string())),
    };
    expression_problem(&configuration)
        .or_else(|| user_data_problem(cluster, spec, family, &configuration))
        .or_else(|| kubelet_problem(spec, family, &configuration))
        .or_else(|| tag_problem(spec))
}

/// The first error of the class that does not depend on the cluster, if any: for a spec that has not been resolved yet. User data
/// that is too long only with the details of the cluster is an error of the launch.
#[must_use]
pub fn validate_spec(spec: &EC2NodeClassSpec) -> Option<Problem> {
    let cluster = ClusterDetails { service_cidr: Some(SOME_CIDR.to_owned()), ..ClusterDetails::default() };
    validate(&cluster, spec)
}

/// The error of the selected placement group, if any. `groups` are the account's: id and name.
#[must_use]
pub fn placement_group<'a>(
    groups: impl IntoIterator<Item = (&'a str, &'a str)>,
    selector: &PlacementGroupSelector,
) -> Option<Problem> {
    let expected = selector.id.as_deref().or(selector.name.as_deref()).unwrap_or_default();
    let found = groups.into_iter().any(|(id, name)| match &selector.id {
        Some(expected) => id == expected,
        None => Some(name) == selector.name.as_deref(),
    });
    (!found).then(|| {
        let message = format!("spec.placementGroupSelector: this account and region has no placement group {expected}");
        Problem::new("PlacementGroupNotFound", message)
    })
}

/// The first expression of the kubelet's configuration that cannot be evaluated for any instance type.
fn expression_problem(kubelet: &KubeletConfiguration) -> Option<Problem> {
    let max_pods = kubelet.max_pods_expression().map(|text| ("maxPods".to_owned(), text));
    let reserved = kubelet.reserved_expressions();
    let reserved = reserved.map(|(field, resource, text)| (format!("{}.{resource}", field.name()), text));
    max_pods.into_iter().chain(reserved).find_map(|(field, text)| {
        let error = Expression::parse(text).err()?;
        Some(Problem::new("KubeletExpressionInvalid", format!("spec.kubelet.{field}: {error}")))
    })
}

/// Creates user data as a launch would, for a node without labels and taints.
fn user_data_problem(
    cluster: &ClusterDetails,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
    kubelet: &KubeletConfiguration,
) -> Option<Problem> {
    let max_pods = match kubelet.max_pods {
        Some(MaxPods::Count(count)) => count,
        Some(MaxPods::Expression(_)) | None => SOME_MAX_PODS,
    };
    let values = kubelet_values::placeholders(kubelet);
    let (kubelet, kubelet_fields) = kubelet_values::with_values(kubelet.clone(), &spec.kubelet, &values);
    let input = UserDataInput {
        cluster,
        family,
        image: None,
        custom: spec.user_data.as_deref(),
        kubelet: &kubelet,
        kubelet_fields: &kubelet_fields,
        max_pods,
        instance_store: spec.instance_store_policy,
        labels: &StringMap::new(),
        taints: &[],
    };
    let error = user_data(&input).err()?;
    let reason = match &error {
        UserDataError::InstanceStore { .. } => "Unsupported",
        UserDataError::Quote { .. } => "InvalidUserData",
        UserDataError::Cluster { .. } => "ClusterCIDRResolutionFailed",
        UserDataError::Custom { .. } => "InvalidUserData",
        UserDataError::TooLong { .. } => "UserDataSizeLimitExceeded",
    };
    Some(Problem::new(reason, error.to_string()))
}

/// Settings of the kubelet that the family does not support.
fn kubelet_problem(spec: &EC2NodeClassSpec, family: AmiFamily, kubelet: &KubeletConfiguration) -> Option<Problem> {
    let takes_all = matches!(family, AmiFamily::AL2023 | AmiFamily::Custom);
    let refused = |field: &str| {
        let message =
            format!("spec.kubelet.{field}: nodes of amiFamily {} do not support it; remove it", family.name());
        Some(Problem::new("UnsupportedKubeletConfiguration", message))
    };
    if let Some(field) = spec.kubelet.keys().find(|field| !takes_all && !MANAGED.contains(&field.as_str())) {
        return refused(field);
    }
    if family == AmiFamily::Bottlerocket && kubelet.pods_per_core.is_some() {
        return refused("podsPerCore");
    }
    if family != AmiFamily::AL2023 && kubelet.cluster_dns.as_ref().is_some_and(|addresses| addresses.len() > 1) {
        let message = format!(
            "spec.kubelet.clusterDNS: nodes of amiFamily {} support one address; only AL2023 supports more",
            family.name()
        );
        return Some(Problem::new("UnsupportedKubeletConfiguration", message));
    }
    None
}

/// Tags that nodeless sets or that EC2 rejects. The CRD's validation rules reject all but the last one.
fn tag_problem(spec: &EC2NodeClassSpec) -> Option<Problem> {
    let ours = [labels::CLUSTER_NAME_TAG, labels::NODE_POOL, labels::NODE_CLAIM_TAG, labels::EC2_NODE_CLASS];
    let refused = spec.tags.keys().find(|key| {
        ours.contains(&key.as_str())
            || key.is_empty()
            || key.starts_with("kubernetes.io/cluster")
            || key.to_ascii_lowercase().starts_with("aws:")
    })?;
    Some(Problem::new(
        "TagValidationFailed",
        format!("spec.tags: the key {refused:?} cannot be set by a user; remove it"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_api::test_support::ec2_node_class;
    use serde_json::json;

    fn cluster() -> ClusterDetails {
        ClusterDetails {
            name: "prod".into(),
            version: "1.33".into(),
            endpoint: "https://api.example.com".into(),
            certificate_authority: "Q0E=".into(),
            service_cidr: Some("10.100.0.0/16".into()),
        }
    }

    fn reason(fields: &serde_json::Value) -> Option<&'static str> {
        let problem = validate(&cluster(), &ec2_node_class("default", "prod", fields).spec);
        problem.map(|problem| problem.reason)
    }

    #[test]
    fn an_invalid_class_is_reported_before_a_launch() {
        assert_eq!(reason(&json!({})), None);
        let long = "#!/bin/sh\n".repeat(2000);
        for (fields, expected) in [
            (json!({ "amiFamily": "Windows2022", "instanceStorePolicy": "RAID0" }), "Unsupported"),
            (json!({ "amiFamily": "AL2", "kubelet": { "clusterDNS": ["10.0.0.10'"] } }), "InvalidUserData"),
            (json!({ "amiFamily": "AL2", "kubelet": { "logging": {} } }), "UnsupportedKubeletConfiguration"),
            (json!({ "userData": long }), "UserDataSizeLimitExceeded"),
            (json!({ "amiFamily": "Bottlerocket", "userData": "not toml" }), "InvalidUserData"),
            (json!({ "kubelet": { "maxPods": -1 } }), "InvalidKubeletConfiguration"),
            (json!({ "kubelet": { "maxPods": "pods * 2" } }), "KubeletExpressionInvalid"),
            (json!({ "kubelet": { "maxPods": "max_pods > 2" } }), "KubeletExpressionInvalid"),
            (json!({ "kubelet": { "kubeReserved": { "cpu": "much" } } }), "KubeletExpressionInvalid"),
            (
                json!({ "amiFamily": "Custom", "kubelet": { "systemReserved": { "pid": "1 +" } } }),
                "KubeletExpressionInvalid",
            ),
            (json!({ "kubelet": { "maxPodz": 20 } }), "InvalidKubeletConfiguration"),
            (json!({ "amiFamily": "Custom", "kubelet": { "maxPodz": 20 } }), "InvalidKubeletConfiguration"),
            (json!({ "kubelet": { "logging": { "level": 3 } } }), "InvalidKubeletConfiguration"),
            (
                json!({ "amiFamily": "Bottlerocket", "kubelet": { "podsPerCore": 2 } }),
                "UnsupportedKubeletConfiguration",
            ),
            (json!({ "amiFamily": "Bottlerocket", "kubelet": { "logging": {} } }), "UnsupportedKubeletConfiguration"),
            (
                json!({ "amiFamily": "Custom", "kubelet": { "clusterDNS": ["10.0.0.10", "10.0.0.11"] } }),
                "UnsupportedKubeletConfiguration",
            ),
            (json!({ "tags": { "aws:mine": "1" } }), "TagValidationFailed"),
        ] {
            assert_eq!(reason(&fields), Some(expected), "{fields}");
            let spec = ec2_node_class("default", "prod", &fields).spec;
            assert_eq!(
                validate_spec(&spec).map(|problem| problem.reason),
                Some(expected),
                "without the cluster: {fields}"
            );
        }
        assert_eq!(validate_spec(&ec2_node_class("default", "prod", &json!({})).spec), None);
        assert_eq!(reason(&json!({ "kubelet": { "clusterDNS": ["10.0.0.10", "10.0.0.11"] } })), None);
        for family in ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2022"] {
            let kubelet = json!({
                "maxPods": "min(110, max_pods)",
                "kubeReserved": { "cpu": "instance_type.startsWith('m5') ? 100 : 200", "memory": "1Gi" },
            });
            assert_eq!(reason(&json!({ "amiFamily": family, "kubelet": kubelet })), None, "{family}");
        }
        assert_eq!(reason(&json!({ "kubelet": { "serializeImagePulls": false } })), None);
    }

    #[test]
    fn a_placement_group_must_exist() {
        let groups = || [("pg-1", "close"), ("pg-2", "parts")].into_iter();
        let by_name = |name: &str| PlacementGroupSelector { name: Some(name.into()), id: None };
        let by_id = |id: &str| PlacementGroupSelector { name: None, id: Some(id.into()) };
        assert_eq!(placement_group(groups(), &by_name("close")), None);
        assert_eq!(placement_group(groups(), &by_id("pg-1")), None);
        assert_eq!(placement_group(groups(), &by_id("pg-3")).unwrap().reason, "PlacementGroupNotFound");
        let missing = placement_group(groups(), &by_name("far")).unwrap();
        assert!(missing.reason == "PlacementGroupNotFound" && missing.message.contains("far"), "{missing:?}");
    }

    #[test]
    fn al2023_needs_the_service_addresses_of_the_cluster() {
        let class = ec2_node_class("default", "prod", &json!({}));
        let problem = validate(&ClusterDetails { service_cidr: None, ..cluster() }, &class.spec).unwrap();
        assert_eq!(problem.reason, "ClusterCIDRResolutionFailed");
    }
}
