//! NodePools and NodeClaims of other controllers, which nodeless reads and never changes.

use crate::NodeClaim;
use crate::nodes::managed::ClassKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A NodePool of another controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherNodePool {
    /// The name.
    pub name: String,
    /// The kind of its class.
    pub class: ClassKind,
}

impl OtherNodePool {
    /// One sentence about all NodePools of other controllers; `None` if there is none.
    #[must_use]
    pub fn in_words(all: &[Self]) -> Option<String> {
        let mut by_class: BTreeMap<&ClassKind, Vec<&str>> = BTreeMap::new();
        for pool in all {
            by_class.entry(&pool.class).or_default().push(&pool.name);
        }
        let described: Vec<String> =
            by_class.iter().map(|(class, pools)| format!("{} (class {class})", pools.join(", "))).collect();
        let plural = if all.len() == 1 { "" } else { "s" };
        (!all.is_empty()).then(|| {
            format!(
                "NodePool{plural} of other controllers: {}. nodeless launches nothing for them and never changes them, their NodeClaims and \
                 their nodes; their nodes count as capacity that is used",
                described.join("; ")
            )
        })
    }
}

impl fmt::Display for OtherNodePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&described("NodePool", &self.name, &self.class))
    }
}

/// A NodeClaim of another controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherNodeClaim {
    /// The name.
    pub name: String,
    /// The kind of its class.
    pub class: ClassKind,
    /// The provider id of its instance, once it is launched.
    pub provider_id: Option<String>,
    /// The node that it describes, in the form of a claim, for the capacity of a node that joins. It is no claim of nodeless: nothing else
    /// may be done with it. None if the NodeClaim cannot be decoded; its capacity is not counted then.
    pub capacity: Option<Box<NodeClaim>>,
}

impl OtherNodeClaim {
    /// The id of its EC2 instance, if it has one.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id.as_deref().and_then(crate::nodes::node::instance_id)
    }
}

impl fmt::Display for OtherNodeClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&described("NodeClaim", &self.name, &self.class))
    }
}

fn described(kind: &str, name: &str, class: &ClassKind) -> String {
    format!("{kind} {name} refers to a {class}, so it is of another controller, and nodeless does nothing with it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_pools_of_others_are_named_in_one_sentence_by_class() {
        let pool = |name: &str, group: &str, kind: &str| OtherNodePool {
            name: name.to_owned(),
            class: ClassKind { group: group.to_owned(), kind: kind.to_owned() },
        };
        assert_eq!(OtherNodePool::in_words(&[]), None);
        let auto_mode = ["general-purpose", "system"].map(|name| pool(name, "eks.amazonaws.com", "NodeClass"));
        let azure = pool("windows", "karpenter.azure.com", "AKSNodeClass");
        let text = OtherNodePool::in_words(&[auto_mode.as_slice(), &[azure]].concat()).unwrap();
        let expected = "NodePools of other controllers: general-purpose, system (class eks.amazonaws.com/NodeClass); windows (class \
                        karpenter.azure.com/AKSNodeClass). ";
        assert!(text.starts_with(expected), "{text}");
    }
}
