//! Metadata: what the API server and controllers set, and annotations with new names.

use crate::report::Log;
use crate::yaml::{Map, YamlNode};

/// Fields that the API server sets. They are not part of a manifest.
const SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Annotations of controllers and of kubectl, which describe the old object.
const OF_THE_OLD_OBJECT: [&str; 12] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.sh/stored-version-migrated",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "compatibility.karpenter.sh/provider",
    KUBELET,
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
    UBUNTU,
];

/// The annotation in which Karpenter 1.0, and no later version, keeps the kubelet's settings of a NodePool that was v1beta1.
const KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";

/// The annotation in which Karpenter 1.0 keeps what it changed in an EC2NodeClass of Ubuntu that was v1beta1.
const UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
/// The value of that annotation if Karpenter 1.0 found no images for the class, and uses a placeholder.
const INCOMPATIBLE: &str = "incompatible";

/// The label of nodes that v1beta1 renamed.
pub(crate) const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";
/// The name of that label since v1beta1.
pub(crate) const NODE_POOL: &str = "karpenter.sh/nodepool";
/// The annotations that v1 replaced by [`DO_NOT_DISRUPT`].
pub(crate) const DO_NOT: [&str; 2] = ["karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"];
/// Protects a node, or the node of a pod.
pub(crate) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Removes the status and what a manifest does not have.
pub(crate) fn clean(object: &mut Map, log: &mut Log) {
    if object.take("status").is_some_and(|entry| !entry.value.is_empty()) {
        log.changed("status", "removed: controllers write it");
    }
    let Some(metadata) = object.get_mut("metadata").and_then(YamlNode::as_map_mut) else {
        return log.problem("metadata.name", "it is missing");
    };
    if metadata.get("name").and_then(YamlNode::as_str).is_none() {
        log.problem("metadata.name", "it is missing");
    }
    let set = SERVER.into_iter().filter(|field| metadata.take(field).is_some()).collect::<Vec<_>>();
    if !set.is_empty() {
        log.changed("metadata", format!("removed {}: the API server sets them", set.join(", ")));
    }
    if metadata.take("ownerReferences").is_some() {
        log.lost("metadata.ownerReferences", "removed: they name the owner by a uid of the old object");
    }
    let Some(annotations) = metadata.get_mut("annotations").and_then(YamlNode::as_map_mut) else { return };
    let gone = OF_THE_OLD_OBJECT.into_iter().filter(|key| annotations.take(key).is_some()).collect::<Vec<_>>();
    if !gone.is_empty() {
        log.changed("metadata.annotations", format!("removed {}: written for the old object", gone.join(", ")));
    }
    if annotations.entries.is_empty() {
        metadata.take("annotations");
    }
}

/// Reports settings of the kubelet that only Karpenter 1.0 would use.
pub(crate) fn check_kubelet(object: &Map, log: &mut Log) {
    if annotation(object, KUBELET).is_some() {
        log.check(
            &format!("metadata.annotations[{KUBELET}]"),
            "only Karpenter 1.0 reads it; write the settings into spec.kubelet of the EC2NodeClass, and remove it",
        );
    }
}

/// Reports that a class was made of one of Ubuntu, which Karpenter after 1.0 treats as any other.
pub(crate) fn check_ubuntu(object: &Map, log: &mut Log) {
    let Some(value) = annotation(object, UBUNTU) else { return };
    let advice = if value.as_str().is_some_and(|value| value.split(',').any(|part| part == INCOMPATIBLE)) {
        "Karpenter 1.0 found no Ubuntu images for the class; set spec.amiSelectorTerms instead of its placeholder, and remove it"
    } else {
        "Karpenter 1.0 made amiFamily AL2 of Ubuntu; whether later Ubuntu images boot with AL2's user data is not certain; with Custom the \
         user data is yours. Remove it afterwards"
    };
    log.check(&format!("metadata.annotations[{UBUNTU}]"), advice);
}

fn annotation<'o>(object: &'o Map, key: &str) -> Option<&'o YamlNode> {
    object.get("metadata")?.at(&["annotations"])?.as_map()?.get(key)
}

/// Renames the annotations of nodes.
pub(crate) fn node_annotations(annotations: &mut Map, field: &str, log: &mut Log) {
    for old in DO_NOT {
        let Some(entry) = annotations.take(old) else { continue };
        let of = format!("{field}[{old}]");
        if annotations.get(DO_NOT_DISRUPT).is_some() {
            log.changed(&of, format!("removed: {DO_NOT_DISRUPT} is set, which replaced it"));
        } else {
            log.changed(&of, format!("is {DO_NOT_DISRUPT}, which replaced it"));
            annotations.entries.push(entry.renamed(DO_NOT_DISRUPT));
        }
    }
}

/// Removes the label of the old object's name, which nodes get by themselves.
pub(crate) fn node_labels(labels: &mut Map, field: &str, log: &mut Log) {
    if labels.take(PROVISIONER_NAME).is_some() {
        log.changed(&format!("{field}[{PROVISIONER_NAME}]"), format!("removed: nodes have {NODE_POOL} without it"));
    }
}
