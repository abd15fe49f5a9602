//! DaemonSets as they are read, and what LimitRanges change in the requests of their first pods.
//!
//! A pod gets the defaults of the LimitRanges of its namespace when it is created (the admission plugin LimitRanger), so the template of a
//! DaemonSet shows the requests of its pods only where no LimitRange has defaults.

use crate::convert::{ConvertError, requests, resource_list};
use crate::slim;
use nodeless_model::{DaemonSet, DaemonSetName, ResourceList};

/// A DaemonSet, with the spec of its template.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadDaemonSet {
    /// The DaemonSet, with the requests of its template.
    pub set: DaemonSet,
    spec: slim::PodSpec,
}

impl TryFrom<&slim::DaemonSet> for ReadDaemonSet {
    type Error = ConvertError;

    fn try_from(daemon_set: &slim::DaemonSet) -> Result<Self, ConvertError> {
        Ok(Self { set: DaemonSet::try_from(daemon_set)?, spec: daemon_set.spec.template.spec.clone() })
    }
}

impl ReadDaemonSet {
    /// The name.
    #[must_use]
    pub fn name(&self) -> DaemonSetName {
        DaemonSetName { namespace: self.set.namespace.clone(), name: self.set.name.clone() }
    }

    /// The requests of its first pod: those of the template, with the defaults of the LimitRanges of its namespace.
    pub(crate) fn first_requests(&self, ranges: &[LimitRange]) -> Result<ResourceList, ConvertError> {
        let mut own: Vec<&LimitRange> = ranges.iter().filter(|range| range.namespace == self.set.namespace).collect();
        // Of several LimitRanges, the first one that has a default sets it. Kubernetes does not define their order.
        own.sort_by(|one, other| one.name.cmp(&other.name));
        let mut defaults = ResourceList::new();
        for (name, quantity) in own.into_iter().flat_map(|range| range.requests.iter()) {
            if !defaults.contains(name) {
                defaults.set(name, quantity);
            }
        }
        let requests = requests::of_template(&self.spec, &defaults);
        requests.map_err(|error| error.of(format!("DaemonSet {}", self.name())))
    }
}

/// A LimitRange, reduced to the requests that it sets.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRange {
    namespace: String,
    name: String,
    /// The requests of a container without requests.
    requests: ResourceList,
}

impl TryFrom<&slim::LimitRange> for LimitRange {
    type Error = ConvertError;

    /// The default request of a resource is `defaultRequest`, otherwise `default`, otherwise `max`, otherwise `min`, as the API server sets
    /// it when it stores a LimitRange (`SetDefaults_LimitRangeItem`).
    fn try_from(range: &slim::LimitRange) -> Result<Self, ConvertError> {
        let namespace = range.metadata.namespace.clone().unwrap_or_default();
        let name = range.metadata.name.clone().unwrap_or_default();
        let mut requests = ResourceList::new();
        let containers = |(_, item): &(usize, &slim::LimitRangeItem)| item.type_ == "Container";
        for (index, item) in range.spec.limits.iter().enumerate().filter(containers) {
            for (list, field) in [
                (&item.default_request, "defaultRequest"),
                (&item.default_limit, "default"),
                (&item.max, "max"),
                (&item.min, "min"),
            ] {
                let list = resource_list(list, &format!("spec.limits[{index}].{field}"))
                    .map_err(|error| error.of(format!("LimitRange {namespace}/{name}")))?;
                for (resource, quantity) in list.iter() {
                    if !requests.contains(resource) {
                        requests.set(resource, quantity);
                    }
                }
            }
        }
        Ok(Self { namespace, name, requests })
    }
}
