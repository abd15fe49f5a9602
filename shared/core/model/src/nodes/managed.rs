//! Which objects nodeless manages.
//!
//! Several controllers with Karpenter's API may run in a cluster: EKS Auto Mode, and other providers of Karpenter. As in Karpenter, a
//! NodePool or NodeClaim is of the controller whose class it refers to, by group and kind, whatever the name of the class. A Node is of
//! none that it does not name by the label of its class. The objects of others are read as capacity that is used, and never changed.

use crate::{StringMap, labels};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The group and kind of a class, such as `karpenter.k8s.aws` and `EC2NodeClass`, as a `nodeClassRef` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl ClassKind {
    /// Whether NodePools and NodeClaims of this kind of class are those of nodeless. All that decode them ask this before anything else.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.group == "karpenter.k8s.aws" && self.kind == "EC2NodeClass"
    }
}

impl fmt::Display for ClassKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.kind)
    }
}

/// Whether a Node with these labels may be one of nodeless. A Node without the label of an EC2NodeClass is not. Others can set the label
/// too, so nothing is launched, changed or deleted because of it alone: that takes a record, or the tags of the instance.
#[must_use]
pub fn may_be_managed(node_labels: &StringMap) -> bool {
    node_labels.contains_key(labels::EC2_NODE_CLASS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_kind_decide_whose_a_class_is() {
        let class = |group: &str, kind: &str| ClassKind { group: group.to_owned(), kind: kind.to_owned() };
        assert!(class("karpenter.k8s.aws", "EC2NodeClass").is_managed());
        for (group, kind) in [
            ("eks.amazonaws.com", "NodeClass"),
            ("eks.amazonaws.com", "EC2NodeClass"),
            ("karpenter.k8s.aws", "NodeClass"),
            ("karpenter.azure.com", "AKSNodeClass"),
            ("", "EC2NodeClass"),
            ("", ""),
        ] {
            assert!(!class(group, kind).is_managed(), "{group}/{kind}");
        }
    }

    #[test]
    fn a_node_without_the_label_of_an_ec2_node_class_is_of_others() {
        let labelled = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), "default".to_owned())).collect();
        assert!(may_be_managed(&labelled(&[labels::NODE_POOL, labels::EC2_NODE_CLASS])));
        assert!(may_be_managed(&labelled(&[labels::EC2_NODE_CLASS])), "a NodeClaim without a NodePool");
        assert!(!may_be_managed(&labelled(&[labels::NODE_POOL, "eks.amazonaws.com/nodeclass"])));
    }
}
