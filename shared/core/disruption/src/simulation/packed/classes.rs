//! Classes of equal pods, so that many pods are evaluated quickly.

use super::relations::{Neighbours, Repelling};
use crate::cluster::Cluster;
use nodeless_model::hashed::HashMap;
use nodeless_model::pod::{HostPort, ResourceClaim, VolumeClaim};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{ByTemplate, Pod, ResourceIndex, ResourceList, StringMap, Toleration};
use nodeless_scheduling::Admission;

/// Pods that are equal in everything that the packed cluster compares.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    pub(crate) asked: Box<[i64]>,
    /// The index of their label requirements and tolerations in [`Classes::admissions`]; or why they cannot be scheduled on any
    /// node.
    pub(crate) admission: Result<usize, String>,
    pub(crate) ports: &'a [HostPort],
    /// The relation to other pods ([`Neighbours`]), if there is one.
    pub(crate) relation: Option<usize>,
    /// Whether the number of volumes on a node matters.
    pub(crate) counts_volumes: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct AdmissionKey<'a> {
    node_selector: &'a StringMap,
    affinity: &'a [Vec<RequirementTerm>],
    tolerations: &'a [Toleration],
    volumes: Option<(&'a str, &'a [VolumeClaim])>,
    resource_claims: &'a [ResourceClaim],
    match_fields: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct ClassKey<'a> {
    requests: &'a ResourceList,
    admission: Result<usize, String>,
    ports: &'a [HostPort],
    relation: Option<usize>,
    counts_volumes: bool,
}

/// All classes of pods that may have to move.
#[derive(Default)]
pub(crate) struct Classes<'a> {
    pub(crate) list: Vec<Class<'a>>,
    pub(crate) admissions: Vec<Admission>,
    pub(super) neighbours: Neighbours<'a>,
    by_template: ByTemplate<'a, usize>,
    ids: HashMap<ClassKey<'a>, usize>,
    admission_ids: HashMap<AdmissionKey<'a>, Result<usize, String>>,
    known: HashMap<Admission, usize>,
}

impl<'a> Classes<'a> {
    /// The class of a pod.
    pub(crate) fn class_of(
        &mut self,
        pod: &'a Pod,
        cluster: &Cluster<'a>,
        resources: &ResourceIndex,
        repelling: &Repelling<'a>,
    ) -> usize {
        if let Some(known) = self.by_template.get(pod) {
            return *known;
        }
        let class = self.find(pod, cluster, resources, repelling);
        self.by_template.insert(pod, class);
        class
    }

    fn find(
        &mut self,
        pod: &'a Pod,
        cluster: &Cluster<'a>,
        resources: &ResourceIndex,
        repelling: &Repelling<'a>,
    ) -> usize {
        let admission = self.admission(pod, cluster);
        let counts_volumes = !pod.template.volume_claims.is_empty() && !cluster.facts.volume_limits.is_empty();
        let relation = repelling.concern(pod).then(|| self.neighbours.relation(pod));
        let key = ClassKey {
            requests: pod.template.next_requests(),
            admission,
            ports: &pod.template.host_ports,
            relation,
            counts_volumes,
        };
        if let Some(known) = self.ids.get(&key) {
            return *known;
        }
        let class = Class {
            asked: resources.amounts(pod.template.next_requests()),
            admission: key.admission.clone(),
            ports: key.ports,
            relation,
            counts_volumes,
        };
        self.list.push(class);
        self.ids.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Whether pods on a node are known to exclude a class.
    pub(super) fn is_blocked(&self, class: &Class<'_>, leaf: usize) -> bool {
        class.relation.is_some_and(|relation| self.neighbours.is_blocked(relation, leaf))
    }

    fn admission(&mut self, pod: &'a Pod, cluster: &Cluster<'a>) -> Result<usize, String> {
        let volumes = (!pod.template.volume_claims.is_empty())
            .then_some((pod.namespace.as_str(), &pod.template.volume_claims[..]));
        let key = AdmissionKey {
            node_selector: &pod.template.node_selector,
            affinity: &pod.template.required_node_affinity,
            tolerations: &pod.template.tolerations,
            volumes,
            resource_claims: &pod.template.resource_claims,
            match_fields: pod.template.has_match_fields,
        };
        if let Some(known) = self.admission_ids.get(&key) {
            return known.clone();
        }
        let made = Admission::new(pod, cluster.facts.volumes).map_err(|why| why.to_string()).map(|admission| {
            *self.known.entry(admission.clone()).or_insert_with(|| {
                self.admissions.push(admission);
                self.admissions.len() - 1
            })
        });
        self.admission_ids.insert(key, made.clone());
        made
    }
}
