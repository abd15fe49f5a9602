//! A reference to one pod.

use serde::{Deserialize, Serialize};

/// A reference to a pod, such as one to evict or delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid: a later pod with the same name is a different one.
    pub uid: String,
}
