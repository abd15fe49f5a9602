//! User data: how an instance becomes a node of the cluster, by the family of its image.
//!
//! The node gets the settings of its claim (labels, taints) and of its EC2NodeClass (kubelet settings, disks), merged
//! with the user's data. If they conflict, the settings of nodeless take precedence, as in Karpenter.

mod al2;
mod al2023;
mod bottlerocket;
mod mime;
mod windows;

use crate::ClusterDetails;
use nodeless_api::nodeclass::{AmiFamily, InstanceStorePolicy, KubeletConfiguration};
use nodeless_model::{StringMap, Taint, labels};
use serde_json::Value;
use std::collections::BTreeMap;

/// EC2's maximum size of user data in bytes, before base64.
const MAXIMUM_BYTES: usize = 16_384;

/// The input of user data.
#[derive(Clone, Debug)]
pub struct UserDataInput<'a> {
    /// The cluster to join.
    pub cluster: &'a ClusterDetails,
    /// The image's family.
    pub family: AmiFamily,
    /// The image's name in EC2, if it is known.
    pub image: Option<&'a str>,
    /// The user's own data.
    pub custom: Option<&'a str>,
    /// The kubelet's settings with typed fields.
    pub kubelet: &'a KubeletConfiguration,
    /// All of the kubelet's settings, including those that only the image supports.
    pub kubelet_fields: &'a BTreeMap<String, Value>,
    /// The maximum number of pods.
    pub max_pods: u32,
    /// How local disks are used.
    pub instance_store: Option<InstanceStorePolicy>,
    /// All labels of the node.
    pub labels: &'a StringMap,
    /// All taints of the node.
    pub taints: &'a [Taint],
}

/// Why there is no user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// Windows does not support an array of local disks.
    #[error("spec.instanceStorePolicy: nodes of amiFamily {family} do not support it; remove it")]
    InstanceStore {
        /// The family's name.
        family: &'static str,
    },
    /// A value contains the quotation mark that the family's script puts around it.
    #[error(
        "{what} contains a quotation mark ('), which the bootstrap script of amiFamily {family} does not support; remove it"
    )]
    Quote {
        /// The field with the value.
        what: &'static str,
        /// The family's name.
        family: &'static str,
    },
    /// The cluster lacks a property that nodes need.
    #[error("the cluster has no {what}, which a node of amiFamily {family} needs; check `aws eks describe-cluster`")]
    Cluster {
        /// What is missing.
        what: &'static str,
        /// The family's name.
        family: &'static str,
    },
    /// The user's own data cannot be merged.
    #[error("spec.userData: {why}")]
    Custom {
        /// The error.
        why: String,
    },
    /// The user data is too large.
    #[error(
        "user data has {bytes} bytes together with the settings that nodeless adds, and EC2 accepts {MAXIMUM_BYTES}; shorten spec.userData"
    )]
    TooLong {
        /// The size.
        bytes: usize,
    },
}

/// The user data as text; EC2 requires base64.
///
/// # Errors
/// See [`UserDataError`]: each error contains the field that the user can change.
pub fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let text = match input.family {
        AmiFamily::AL2023 => al2023::user_data(input)?,
        AmiFamily::Bottlerocket => bottlerocket::user_data(input)?,
        AmiFamily::Custom => input.custom.unwrap_or_default().to_owned(),
        AmiFamily::AL2 => {
            refuse_quotes(input)?;
            al2::user_data(input)?
        }
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            refuse_quotes(input)?;
            windows::user_data(input)?
        }
    };
    if text.len() > MAXIMUM_BYTES { Err(UserDataError::TooLong { bytes: text.len() }) } else { Ok(text) }
}

/// Whether the user's data has a script that runs at the first start of an instance, and not when it is started again after a stop:
/// cloud-init runs scripts once for each instance (<https://docs.cloud-init.io/en/latest/explanation/format/index.html>), but boothooks and
/// nodeadm at each start. Settings of Bottlerocket last.
#[must_use]
pub fn has_script_of_first_start(family: AmiFamily, custom: Option<&str>) -> bool {
    let Some(text) = custom.map(str::trim).filter(|text| !text.is_empty()) else { return false };
    match family {
        AmiFamily::AL2023 | AmiFamily::AL2 | AmiFamily::Custom => {
            let parts = al2023::parts(text).unwrap_or_default();
            parts.iter().any(|part| !mime::runs_at_each_start(part)) && !text.starts_with("#cloud-boothook")
        }
        AmiFamily::Bottlerocket | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => false,
    }
}

impl UserDataInput<'_> {
    /// The labels that a kubelet may set on its own node: the API server rejects those in Kubernetes' domains. The others are set
    /// when the claim registers the node.
    fn kubelet_labels(&self) -> StringMap {
        let mut kept: StringMap =
            self.labels.iter().filter(|(key, _)| kubelet_may_set(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
        // The kubelet registers the taints itself, so that the claim need not add them again and undo a removal.
        kept.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
        kept
    }
}

/// Values between quotation marks in a script must not contain them. Labels and taints cannot: the API server validates them.
fn refuse_quotes(input: &UserDataInput<'_>) -> Result<(), UserDataError> {
    let arguments = kubelet_arguments(input).concat();
    let dns = input.kubelet.cluster_dns.as_ref().is_some_and(|addresses| addresses.iter().any(|it| it.contains('\'')));
    let what = if arguments.contains('\'') || dns {
        "spec.kubelet"
    } else if input.cluster.name.contains('\'') || input.cluster.endpoint.contains('\'') {
        "the cluster's description"
    } else {
        return Ok(());
    };
    Err(UserDataError::Quote { what, family: input.family.name() })
}

/// The kubelet's settings as flags, for AMIs whose bootstrap script passes them on.
fn kubelet_arguments(input: &UserDataInput<'_>) -> Vec<String> {
    let kubelet = input.kubelet;
    let pairs = |map: &BTreeMap<String, String>, between: &str| {
        map.iter().map(|(key, value)| format!("{key}{between}{value}")).collect::<Vec<_>>().join(",")
    };
    let quantities = |list: &nodeless_api::ResourceList| {
        list.iter().map(|(name, quantity)| format!("{name}={}", quantity.0)).collect::<Vec<_>>().join(",")
    };
    let labels = input.kubelet_labels().into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
    let taints = input.taints.iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str()));
    let mut arguments = vec![format!("--node-labels=\"{}\"", labels.join(","))];
    let taints: Vec<String> = taints.collect();
    if !taints.is_empty() {
        arguments.push(format!("--register-with-taints=\"{}\"", taints.join(",")));
    }
    arguments.push(format!("--max-pods={}", input.max_pods));
    let numbers = [
        ("pods-per-core", kubelet.pods_per_core.map(i64::from)),
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period.map(i64::from)),
        ("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent.map(i64::from)),
        ("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent.map(i64::from)),
    ];
    arguments.extend(numbers.into_iter().filter_map(|(flag, number)| Some(format!("--{flag}={}", number?))));
    let maps = [
        ("system-reserved", quantities(&kubelet.system_reserved)),
        ("kube-reserved", quantities(&kubelet.kube_reserved)),
        ("eviction-hard", pairs(&kubelet.eviction_hard, "<")),
        ("eviction-soft", pairs(&kubelet.eviction_soft, "<")),
        ("eviction-soft-grace-period", pairs(&kubelet.eviction_soft_grace_period, "=")),
    ];
    let maps = maps.into_iter().filter(|(_, text)| !text.is_empty());
    arguments.extend(maps.map(|(flag, text)| format!("--{flag}=\"{text}\"")));
    arguments.extend(kubelet.cpu_cfs_quota.map(|enforced| format!("--cpu-cfs-quota={enforced}")));
    arguments
}

fn kubelet_may_set(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    !["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|ours| domain == ours || domain.strip_suffix(ours).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests;
