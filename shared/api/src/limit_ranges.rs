//! LimitRanges: the defaults that a pod gets when it is created (the admission plugin LimitRanger), so that a template shows the requests
//! of its pods only where no LimitRange has defaults.

use crate::convert::{ConvertError, requests, resource_list};
use crate::slim;
use nodeless_model::ResourceList;

/// The requests and the limits that the LimitRanges of a namespace give to containers without any.
pub(crate) fn defaults(ranges: &[LimitRange], namespace: &str) -> (ResourceList, ResourceList) {
    let mut own: Vec<&LimitRange> = ranges.iter().filter(|range| range.namespace == namespace).collect();
    // Of several LimitRanges, the first one that has a default sets it. Kubernetes does not define their order.
    own.sort_by(|one, other| one.name.cmp(&other.name));
    let merged = |of: fn(&LimitRange) -> &ResourceList| {
        own.iter().fold(ResourceList::new(), |found, range| requests::filled(found, of(range)))
    };
    (merged(|range| &range.requests), merged(|range| &range.limits))
}

/// A LimitRange, reduced to the requests and limits that it sets.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRange {
    namespace: String,
    name: String,
    /// The requests of a container without requests.
    requests: ResourceList,
    /// The limits of a container without limits.
    limits: ResourceList,
}

impl TryFrom<&slim::LimitRange> for LimitRange {
    type Error = ConvertError;

    /// The default limit of a resource is `default`, otherwise `max`, and the default request `defaultRequest`, otherwise the default limit,
    /// otherwise `min`, as the API server sets them when it stores a LimitRange (`SetDefaults_LimitRangeItem`).
    fn try_from(range: &slim::LimitRange) -> Result<Self, ConvertError> {
        let namespace = range.metadata.namespace.clone().unwrap_or_default();
        let name = range.metadata.name.clone().unwrap_or_default();
        let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
        let containers = |(_, item): &(usize, &slim::LimitRangeItem)| item.type_ == "Container";
        for (index, item) in range.spec.limits.iter().enumerate().filter(containers) {
            let list = |list: &crate::custom::common::ResourceList, field: &str| {
                resource_list(list, &format!("spec.limits[{index}].{field}"))
                    .map_err(|error| error.for_object(format!("LimitRange {namespace}/{name}")))
            };
            let default_limits = requests::filled(list(&item.default_limit, "default")?, &list(&item.max, "max")?);
            for defaults in [&list(&item.default_request, "defaultRequest")?, &default_limits, &list(&item.min, "min")?]
            {
                requests = requests::filled(requests, defaults);
            }
            limits = requests::filled(limits, &default_limits);
        }
        Ok(Self { namespace, name, requests, limits })
    }
}
