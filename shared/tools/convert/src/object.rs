//! The kinds of objects.

use crate::yaml::{Map, YamlNode};
use nodeless_model::quotes::shortened;

/// The group of NodePools.
pub(crate) const CORE: &str = "karpenter.sh";
/// The group of EC2NodeClasses.
pub(crate) const AWS: &str = "karpenter.k8s.aws";

/// The kind of an object, which determines its conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// v1alpha5.
    Provisioner,
    /// v1alpha1.
    AwsNodeTemplate,
    /// v1beta1.
    NodePool,
    /// v1beta1.
    Ec2NodeClass,
    /// A v1alpha5 Machine or v1beta1 NodeClaim: the state of an instance.
    Claim,
    /// A current NodePool, which is not changed.
    CurrentNodePool,
    /// A current EC2NodeClass, which is not changed.
    CurrentEc2NodeClass,
    /// Something with a pod template, whose labels and annotations may have old names.
    Workload,
    /// Anything else, which is not changed.
    Other,
}

const WORKLOADS: [(&str, &str); 10] = [
    ("", "Pod"),
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "DaemonSet"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("argoproj.io", "Rollout"),
];

impl ObjectKind {
    /// The kind of an object, or an unsupported version of one of Karpenter's kinds.
    pub(crate) fn new(api_version: &str, kind: &str) -> Result<Self, String> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Ok(match (group, kind, version) {
            (CORE, "Provisioner", "v1alpha5") => Self::Provisioner,
            (AWS, "AWSNodeTemplate", "v1alpha1") => Self::AwsNodeTemplate,
            (CORE, "NodePool", "v1beta1") => Self::NodePool,
            (AWS, "EC2NodeClass", "v1beta1") => Self::Ec2NodeClass,
            (CORE, "Machine", "v1alpha5") | (CORE, "NodeClaim", "v1beta1") => Self::Claim,
            (CORE, "NodePool", "v1") => Self::CurrentNodePool,
            (AWS, "EC2NodeClass", "v1") => Self::CurrentEc2NodeClass,
            (CORE, "Provisioner" | "NodePool" | "Machine", _)
            | (AWS, "AWSNodeTemplate" | "EC2NodeClass", _)
            | (CORE, "NodeClaim", "v1alpha1" | "v1alpha5") => {
                return Err(format!(
                    "{api_version:?} is not a version of {kind} that can be converted; convert takes v1alpha5 Provisioner, \
                     v1alpha1 AWSNodeTemplate, v1beta1 NodePool and v1beta1 EC2NodeClass"
                ));
            }
            _ if WORKLOADS.contains(&(group, kind)) => Self::Workload,
            _ => Self::Other,
        })
    }

    /// Whether the object is one of an API that v1 replaced.
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::Provisioner | Self::AwsNodeTemplate | Self::NodePool | Self::Ec2NodeClass | Self::Claim)
    }
}

/// apiVersion and kind.
pub(crate) fn head(object: &Map) -> (String, String) {
    let text = |key| object.get(key).and_then(YamlNode::as_str).unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// The name of an object.
pub(crate) fn name(object: &Map) -> String {
    let name = object.get("metadata").and_then(|metadata| metadata.at(&["name"])).and_then(YamlNode::as_str);
    name.unwrap_or_default().to_owned()
}

/// Kind and name, such as `NodePool default`.
pub(crate) fn described(object: &Map) -> String {
    let (_, kind) = head(object);
    let kind = shortened(&kind);
    let namespace = object.get("metadata").and_then(|metadata| metadata.at(&["namespace"])).and_then(YamlNode::as_str);
    match (namespace.map(shortened), &*shortened(&name(object))) {
        (_, "") => format!("{kind} without a name"),
        (Some(namespace), name) => format!("{kind} {namespace}/{name}"),
        (None, name) => format!("{kind} {name}"),
    }
}
