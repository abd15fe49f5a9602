//! The requirements of a pod for a node, as a quick check. [`crate::solve`] decides.

use crate::constraints::{covers, first_repelling, hard_alternatives};
use crate::{ExistingNode, PodFault, Reason};
use nodeless_model::{NodePool, Pod, Requirement, Requirements, Taint, Toleration, labels};
use std::collections::BTreeMap;

/// The label requirements and tolerations of a pod, without preferences, resources and other pods.
///
/// The condition is necessary: [`crate::solve`] never chooses a node that does not satisfy it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Admission {
    alternatives: Vec<Requirements>,
    tolerations: Vec<Toleration>,
}

impl Admission {
    /// The requirements of a pod, including those of its volumes. Pods with claims for devices are not evaluated quickly.
    ///
    /// # Errors
    /// Why no plan can schedule the pod.
    #[expect(clippy::result_large_err, reason = "made once for each pod that holds a node, and reported at once")]
    pub fn new(pod: &Pod, volumes: &BTreeMap<String, Vec<Requirements>>) -> Result<Self, Reason> {
        if !pod.template.resource_claims.is_empty() {
            let names = pod.template.resource_claims.iter().map(|claim| claim.name.clone()).collect();
            return Err(Reason::Pod(PodFault::ResourceClaims { names }));
        }
        let alternatives = hard_alternatives(pod, volumes).map_err(Reason::Pod)?;
        Ok(Self { alternatives, tolerations: pod.template.tolerations.clone() })
    }

    /// Whether a node's labels and taints admit the pod.
    #[must_use]
    pub fn admits(&self, node: &ExistingNode) -> bool {
        self.tolerates(&node.taints) && self.alternatives.iter().any(|required| covers(&node.requirements, required))
    }

    /// Whether the pod tolerates all of these taints except for `PreferNoSchedule`.
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

/// The possible labels of a NodePool's new nodes, for any instance type.
pub(crate) fn new_node_requirements(pool: &NodePool) -> Requirements {
    let mut requirements = pool.template.requirements.clone();
    requirements.add_all(&Requirements::from_labels(&pool.template.labels));
    requirements.add(labels::NODE_POOL, Requirement::one_of([pool.name.as_str()]));
    requirements.add(labels::EC2_NODE_CLASS, Requirement::one_of([pool.template.node_class.as_str()]));
    requirements
}
