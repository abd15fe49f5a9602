//! User data: how an instance becomes a node of the cluster, by the family of its image.
//!
//! The node gets what its claim says (labels, taints) and what its EC2NodeClass says (kubelet settings, disks), merged
//! with the user's own data so that both take effect and ours wins where they meet, as in Karpenter.

mod al2023;
mod bottlerocket;
mod mime;

use crate::ClusterDetails;
use nodeless_api::nodeclass::{AmiFamily, InstanceStorePolicy, KubeletConfiguration};
use nodeless_model::{StringMap, Taint, labels};
use serde_json::Value;
use std::collections::BTreeMap;

/// EC2 takes at most this many bytes of user data, before base64.
const MAXIMUM_BYTES: usize = 16_384;

/// What goes into user data.
#[derive(Clone, Debug)]
pub struct UserDataInput<'a> {
    /// The cluster to join.
    pub cluster: &'a ClusterDetails,
    /// The image's family.
    pub family: AmiFamily,
    /// The user's own data.
    pub custom: Option<&'a str>,
    /// The kubelet's settings that are known by name.
    pub kubelet: &'a KubeletConfiguration,
    /// All of the kubelet's settings, those that only the image knows among them.
    pub kubelet_fields: &'a BTreeMap<String, Value>,
    /// The greatest number of pods.
    pub max_pods: u32,
    /// What becomes of local disks.
    pub instance_store: Option<InstanceStorePolicy>,
    /// All labels of the node.
    pub labels: &'a StringMap,
    /// All taints of the node.
    pub taints: &'a [Taint],
}

/// Why there is no user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The family is not built yet.
    #[error("amiFamily {family} is not supported; use AL2023, Bottlerocket or Custom")]
    Family {
        /// The family's name.
        family: &'static str,
    },
    /// The cluster does not say something that a node needs.
    #[error("the cluster has no {what}, which a node of amiFamily {family} needs; look at `aws eks describe-cluster`")]
    Cluster {
        /// What is missing.
        what: &'static str,
        /// The family's name.
        family: &'static str,
    },
    /// The user's own data cannot be merged.
    #[error("spec.userData: {why}")]
    Custom {
        /// What is wrong with it.
        why: String,
    },
    /// It is too long.
    #[error("user data has {bytes} bytes with what nodeless adds, EC2 takes {MAXIMUM_BYTES}; shorten spec.userData")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

/// The user data as text; EC2 wants it in base64.
///
/// # Errors
/// See [`UserDataError`]: each names what the user can change.
pub fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let text = match input.family {
        AmiFamily::AL2023 => al2023::user_data(input)?,
        AmiFamily::Bottlerocket => bottlerocket::user_data(input)?,
        AmiFamily::Custom => input.custom.unwrap_or_default().to_owned(),
        AmiFamily::AL2 | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            return Err(UserDataError::Family { family: input.family.name() });
        }
    };
    if text.len() > MAXIMUM_BYTES { Err(UserDataError::TooLong { bytes: text.len() }) } else { Ok(text) }
}

impl UserDataInput<'_> {
    /// The labels that a kubelet may set on its own node: the API server refuses those in Kubernetes' domains. The others
    /// are set when the claim recognises the node.
    fn kubelet_labels(&self) -> StringMap {
        let mut kept: StringMap =
            self.labels.iter().filter(|(key, _)| kubelet_may_set(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
        // The kubelet registers the taints itself, so that the claim need not add them again and undo a removal.
        kept.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
        kept
    }
}

fn kubelet_may_set(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    !["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|ours| domain == ours || domain.strip_suffix(ours).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests;
