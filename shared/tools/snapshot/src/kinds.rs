//! The kinds that planning uses, and the identification of objects.

use crate::decode::{Undecoded, decode};
use crate::documents::Body;
use crate::workloads::TemplatePath;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A kind that planning uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlannedKind {
    Node,
    Pod,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    ResourceSlice,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    DaemonSet,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    LimitRange,
    ResourceQuota,
    NodePool,
    NodeClaim,
    NodeClass,
    NodeOverlay,
    CapacityBuffer,
    PodTemplate,
    /// A kind whose controller creates pods.
    Workload(&'static str),
    /// Another such kind, whose templates are where an option names.
    Templated(&'static TemplatePath),
    /// A kind that sets the replicas of workloads.
    Autoscaler(&'static str),
    VerticalPodAutoscaler,
    PodGroup,
    /// A kind that selects pods by labels, which only default topology spread constraints depend on.
    Selecting(&'static str),
}

impl PlannedKind {
    const ALL: [(Self, &'static str, &'static str); 42] = [
        (Self::Node, "", "Node"),
        (Self::Pod, "", "Pod"),
        (Self::Namespace, "", "Namespace"),
        (Self::PersistentVolume, "", "PersistentVolume"),
        (Self::PersistentVolumeClaim, "", "PersistentVolumeClaim"),
        (Self::StorageClass, "storage.k8s.io", "StorageClass"),
        (Self::CsiNode, "storage.k8s.io", "CSINode"),
        (Self::ResourceSlice, "resource.k8s.io", "ResourceSlice"),
        (Self::DeviceClass, "resource.k8s.io", "DeviceClass"),
        (Self::ResourceClaim, "resource.k8s.io", "ResourceClaim"),
        (Self::ResourceClaimTemplate, "resource.k8s.io", "ResourceClaimTemplate"),
        (Self::DaemonSet, "apps", "DaemonSet"),
        (Self::PodDisruptionBudget, "policy", "PodDisruptionBudget"),
        (Self::PriorityClass, "scheduling.k8s.io", "PriorityClass"),
        (Self::RuntimeClass, "node.k8s.io", "RuntimeClass"),
        (Self::LimitRange, "", "LimitRange"),
        (Self::ResourceQuota, "", "ResourceQuota"),
        (Self::NodePool, "karpenter.sh", "NodePool"),
        (Self::NodeClaim, "karpenter.sh", "NodeClaim"),
        (Self::NodeClass, "karpenter.k8s.aws", "EC2NodeClass"),
        (Self::NodeOverlay, "karpenter.sh", "NodeOverlay"),
        (Self::CapacityBuffer, "autoscaling.x-k8s.io", "CapacityBuffer"),
        (Self::PodTemplate, "", "PodTemplate"),
        (Self::Workload("Deployment"), "apps", "Deployment"),
        (Self::Workload("StatefulSet"), "apps", "StatefulSet"),
        (Self::Workload("ReplicaSet"), "apps", "ReplicaSet"),
        (Self::Workload("Job"), "batch", "Job"),
        (Self::Workload("CronJob"), "batch", "CronJob"),
        (Self::Workload("ReplicationController"), "", "ReplicationController"),
        (Self::Workload("Rollout"), "argoproj.io", "Rollout"),
        (Self::Workload("CloneSet"), "apps.kruise.io", "CloneSet"),
        (Self::Workload("StatefulSet"), "apps.kruise.io", "StatefulSet"),
        (Self::Workload("JobSet"), "jobset.x-k8s.io", "JobSet"),
        (Self::Workload("LeaderWorkerSet"), "leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        (Self::Workload("RayCluster"), "ray.io", "RayCluster"),
        (Self::Workload("RayJob"), "ray.io", "RayJob"),
        (Self::Workload("RayService"), "ray.io", "RayService"),
        (Self::Autoscaler("HorizontalPodAutoscaler"), "autoscaling", "HorizontalPodAutoscaler"),
        (Self::Autoscaler("ScaledObject"), "keda.sh", "ScaledObject"),
        (Self::VerticalPodAutoscaler, "autoscaling.k8s.io", "VerticalPodAutoscaler"),
        (Self::PodGroup, "scheduling.k8s.io", "PodGroup"),
        (Self::Selecting("Service"), "", "Service"),
    ];

    /// The kind with this name in the group of this apiVersion; without an apiVersion, the kind with this name.
    pub(crate) fn new(api_version: Option<&str>, name: &str) -> Option<Self> {
        let group = api_version.map(|version| version.rsplit_once('/').map_or("", |(group, _)| group));
        let found = Self::ALL.iter().find(|(_, own, kind)| *kind == name && group.is_none_or(|group| group == *own));
        found.map(|(kind, _, _)| *kind)
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        if let Self::Templated(path) = self {
            return path.kind();
        }
        Self::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, _, name)| name)
    }

    /// The apiVersion of manifests without one.
    pub(crate) fn default_version(self) -> String {
        let group = Self::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, group, _)| group);
        match group {
            "" => "v1".to_owned(),
            "autoscaling" => "autoscaling/v2".to_owned(),
            _ => format!("{group}/v1"),
        }
    }

    /// Whether it is namespaced.
    pub(crate) const fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::Pod
                | Self::PersistentVolumeClaim
                | Self::DaemonSet
                | Self::PodDisruptionBudget
                | Self::LimitRange
                | Self::ResourceQuota
                | Self::ResourceClaim
                | Self::ResourceClaimTemplate
                | Self::CapacityBuffer
                | Self::PodTemplate
                | Self::Workload(_)
                | Self::Templated(_)
                | Self::Autoscaler(_)
                | Self::VerticalPodAutoscaler
                | Self::PodGroup
                | Self::Selecting(_)
        )
    }

    /// Whether this version of the kind can be read.
    pub(crate) fn reads(self, api_version: Option<&str>) -> bool {
        match self {
            // Earlier versions have other fields under the same names.
            Self::NodePool | Self::NodeClaim | Self::NodeClass => {
                api_version.is_none_or(|version| version.ends_with("/v1"))
            }
            _ => true,
        }
    }
}

/// The kinds that Karpenter 1.0 removed: group, kind, and what to do with an object.
const REMOVED: [(&str, &str, &str); 3] = [
    ("karpenter.sh", "Provisioner", "make a NodePool of it with `nodeless convert -f FILE`"),
    ("karpenter.k8s.aws", "AWSNodeTemplate", "make an EC2NodeClass of it with `nodeless convert -f FILE`"),
    ("karpenter.sh", "Machine", "convert the file with `nodeless convert -f FILE`, which leaves Machines out"),
];

/// The advice for an object of a kind that Karpenter 1.0 removed.
pub(crate) fn removed(api_version: Option<&str>, name: &str) -> Option<&'static str> {
    let group = api_version.map(|version| version.rsplit_once('/').map_or("", |(group, _)| group));
    let found = REMOVED.iter().find(|(own, kind, _)| *kind == name && group.is_none_or(|group| group == *own));
    found.map(|(_, _, advice)| *advice)
}

/// The fields that are read before the kind of an object is known.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a mapping with apiVersion and kind")]
pub(crate) struct Head<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) kind: Option<Cow<'a, str>>,
    /// Whether an API server has accepted the object.
    #[serde(skip)]
    pub(crate) has_uid: bool,
}

/// The same, with the text of the metadata.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a mapping with apiVersion and kind")]
struct RawHead<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

impl<'a> RawHead<'a> {
    fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        Self::first(text).map_or_else(|| serde_json::from_str(text), Ok)
    }

    /// The fields without what follows them, which is most of an object, if they are not given again there.
    fn first(text: &'a str) -> Option<Self> {
        let mut head = Self::default();
        let ended = serde_json::Deserializer::from_str(text).deserialize_map(Fields(&mut head));
        let metadata = head.metadata.filter(|_| ended.is_err())?.get();
        let end = (metadata.as_ptr().addr() + metadata.len()).checked_sub(text.as_ptr().addr())?;
        let rest = text.get(end..)?;
        let may_be_given_again =
            ["\"apiVersion\"", "\"kind\"", "\"metadata\"", "\\u"].into_iter().any(|name| rest.contains(name));
        (!may_be_given_again && metadata != "null").then_some(head)
    }
}

/// Reads the fields of a [`RawHead`] in their usual order, and ends with an error after the last of them.
struct Fields<'h, 'a>(&'h mut RawHead<'a>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping with apiVersion and kind")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(head) = self;
        if map.next_key::<&str>()? == Some("apiVersion") {
            head.api_version = Some(Cow::Borrowed(map.next_value()?));
            if map.next_key::<&str>()? == Some("kind") {
                head.kind = Some(Cow::Borrowed(map.next_value()?));
                if map.next_key::<&str>()? == Some("metadata") {
                    head.metadata = Some(map.next_value()?);
                }
            }
        }
        Err(A::Error::custom("what follows is not read"))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Accepted {
    uid: String,
}

#[derive(Deserialize)]
struct RawItems<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// apiVersion and kind of an object.
pub(crate) fn head<'b>(body: &'b Body<'_>) -> Result<Head<'b>, Undecoded> {
    let head = match body {
        Body::Raw(raw) => RawHead::read(raw.get()).map(|RawHead { api_version, kind, metadata }| {
            // Most objects are exported ones, so the metadata is parsed only if it may have the field.
            let metadata = metadata.map(RawValue::get).filter(|text| text.contains("\"uid\""));
            let accepted = metadata.and_then(|text| serde_json::from_str::<Accepted>(text).ok());
            Head { api_version, kind, has_uid: accepted.is_some_and(|accepted| !accepted.uid.is_empty()) }
        }),
        Body::Tree(value) => Head::deserialize(value).map(|head| {
            let uid = value.pointer("/metadata/uid").and_then(serde_json::Value::as_str);
            Head { has_uid: uid.is_some_and(|uid| !uid.is_empty()), ..head }
        }),
    };
    let problem =
        |error| Undecoded { field: String::new(), problem: format!("it is not a Kubernetes object: {error}") };
    head.map_err(problem)
}

/// The items of a List, or of a sequence.
pub(crate) fn items<'a>(body: Body<'a>) -> Result<Vec<Body<'a>>, Undecoded> {
    match body {
        Body::Raw(raw) if raw.get().trim_start().starts_with('[') => {
            let items: Vec<&'a RawValue> = decode_raw(raw)?;
            Ok(items.into_iter().map(Body::Raw).collect())
        }
        Body::Raw(raw) => {
            let list: RawItems<'a> = decode_raw(raw)?;
            Ok(list.items.into_iter().flatten().map(Body::Raw).collect())
        }
        Body::Tree(serde_json::Value::Array(items)) => Ok(items.into_iter().map(Body::Tree).collect()),
        Body::Tree(mut value) => match value.get_mut("items").map(serde_json::Value::take) {
            None | Some(serde_json::Value::Null) => Ok(Vec::new()),
            Some(serde_json::Value::Array(items)) => Ok(items.into_iter().map(Body::Tree).collect()),
            Some(_) => Err(Undecoded { field: "items".to_owned(), problem: "it is not a sequence".to_owned() }),
        },
    }
}

fn decode_raw<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Undecoded> {
    serde_json::from_str(raw.get()).map_err(|error| Undecoded { field: "items".to_owned(), problem: error.to_string() })
}

/// Whether a body is a sequence.
pub(crate) fn is_sequence(body: &Body<'_>) -> bool {
    match body {
        Body::Raw(raw) => raw.get().trim_start().starts_with('['),
        Body::Tree(value) => value.is_array(),
    }
}

/// The name of an object that cannot be decoded, if it can be read.
pub(crate) fn identity(body: &Body<'_>) -> (String, String) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        metadata: NamesOf,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct NamesOf {
        namespace: String,
        name: String,
        generate_name: String,
    }
    let names: NamesOf = decode::<Names>(body).unwrap_or_default().metadata;
    let name = if names.name.is_empty() { names.generate_name } else { names.name };
    (names.namespace, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading only the beginning of an object finds what reading all of it does.
    #[test]
    fn the_head_is_that_of_the_whole_object() {
        for text in [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"1"},"spec":{"x":[1,{"y":"z"}]}}"#,
            r#" { "apiVersion" : "v1" , "kind" : "Pod" , "metadata" : { } , "status" : null } "#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":null}"#,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
            r#"{"metadata":{},"kind":"Pod"}"#,
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"kind":"Node"}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"kind":"Node","metadata":{}}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"\u006bind":"Node"}"#,
            r#"{"apiVersion":"v1","apiVersion":"v1","kind":"Pod","metadata":{}}"#,
            r#"{"apiVersion":null,"kind":"Pod","metadata":{}}"#,
            r#"{"apiVersion":"v\u0031","kind":"Pod","metadata":{}}"#,
            r#"{"apiVersion":1,"kind":"Pod","metadata":{}}"#,
            r#"{"apiVersion":"v1","kind":["Pod"],"metadata":{}}"#,
            "{}",
            "1",
        ] {
            let shown = |head: Result<RawHead<'_>, serde_json::Error>| match head {
                Ok(RawHead { api_version, kind, metadata }) => {
                    Ok((api_version.map(Cow::into_owned), kind.map(Cow::into_owned), metadata.map(ToString::to_string)))
                }
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(shown(RawHead::read(text)), shown(serde_json::from_str(text)), "{text}");
        }
    }
}
