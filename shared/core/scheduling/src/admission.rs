//! What a pod requires of a node by itself, as a quick check. [`crate::solve`] decides.

use crate::constraints::{covers, first_repelling, hard_alternatives};
use crate::{ExistingNode, Reason};
use nodeless_model::{NodePool, Pod, Requirement, Requirements, Taint, Toleration, labels};
use std::collections::BTreeMap;

/// What a pod requires of a node's labels and taints: preferences, resources and other pods left out.
///
/// It is a necessary condition. A node that it refuses is never chosen by [`crate::solve`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Admission {
    alternatives: Vec<Requirements>,
    tolerations: Vec<Toleration>,
}

impl Admission {
    /// What a pod requires, its volumes included.
    ///
    /// # Errors
    /// Why no plan can place the pod at all.
    pub fn of(pod: &Pod, volumes: &BTreeMap<String, Vec<Requirements>>) -> Result<Self, Reason> {
        let alternatives = hard_alternatives(pod, volumes).map_err(Reason::Pod)?;
        Ok(Self { alternatives, tolerations: pod.tolerations.clone() })
    }

    /// Whether a node's labels and taints admit the pod.
    #[must_use]
    pub fn admits(&self, node: &ExistingNode) -> bool {
        self.tolerates(&node.taints) && self.alternatives.iter().any(|required| covers(&node.requirements, required))
    }

    /// Whether the pod tolerates all of these taints, those that only prefer to keep pods away left out.
    #[must_use]
    pub fn tolerates(&self, taints: &[Taint]) -> bool {
        first_repelling(taints, &self.tolerations, false).is_none()
    }

    /// The alternatives of required labels: any of them suffices.
    #[must_use]
    pub fn alternatives(&self) -> &[Requirements] {
        &self.alternatives
    }
}

/// What the labels of a NodePool's new nodes may be, before anything is known of their instance types.
pub(crate) fn new_node_requirements(pool: &NodePool) -> Requirements {
    let mut requirements = pool.template.requirements.clone();
    requirements.add_all(&Requirements::from_labels(&pool.template.labels));
    requirements.add(labels::NODE_POOL, Requirement::one_of([pool.name.as_str()]));
    requirements.add(labels::EC2_NODE_CLASS, Requirement::one_of([pool.template.node_class.as_str()]));
    requirements
}
