//! What the claims of the pods of one new node get on an instance type.

use super::PLANNED;
use crate::claim_needs::{Need, needs};
use crate::problem::ClusterFacts;
use nodeless_devices::{Allocation, ClusterDevices, Inventory, Place, ResourceClaim, Selectors, Taken, allocate};
use nodeless_model::{InstanceType, Pod, StringMap};
use std::collections::BTreeSet;

/// The claims of the pods of a node.
pub(crate) struct Together<'a> {
    facts: ClusterFacts<'a>,
    /// By pod.
    claims: Vec<Vec<ResourceClaim>>,
    selectors: Selectors,
    names_network: bool,
}

impl<'a> Together<'a> {
    /// `None` if the pods claim no devices.
    pub(crate) fn new(pods: &[&'a Pod], facts: ClusterFacts<'a>) -> Option<Self> {
        let mut shared_before: BTreeSet<String> = BTreeSet::new();
        let mut claims = Vec::new();
        for needs in pods.iter().map(|pod| needs(pod, &facts)) {
            let of_pod = needs.into_iter().filter_map(|need| match need {
                Need::Devices { name, devices, shared } => {
                    let is_first = shared.is_none_or(|claim| shared_before.insert(claim));
                    is_first.then(|| ResourceClaim { name: name.to_owned(), devices: devices.clone() })
                }
                Need::Allocated { .. } | Need::Missing { .. } => None,
            });
            claims.push(of_pod.collect());
        }
        claims.retain(|of_pod: &Vec<ResourceClaim>| !of_pod.is_empty());
        let classes = &facts.devices.classes;
        let names_network = claims.iter().flatten().any(|claim| claim.names_network(classes));
        (!claims.is_empty()).then(|| Self { facts, claims, selectors: Selectors::default(), names_network })
    }

    /// The alternatives that the claims get on a new node of an instance type, as `request/alternative`.
    ///
    /// # Errors
    /// Why they do not get devices.
    pub(crate) fn on(&self, kind: &InstanceType) -> Result<Vec<String>, String> {
        let given = self.allocated(kind)?.into_iter().flat_map(|allocation| allocation.devices);
        Ok(given.map(|given| given.request).filter(|request| request.contains('/')).collect())
    }

    fn allocated(&self, kind: &InstanceType) -> Result<Vec<Allocation>, String> {
        let slices = self.facts.devices.predicted_with_network(kind, PLANNED, self.names_network);
        let (inventory, mut taken) = (Inventory::new(&slices), Taken::default());
        let place = Place { name: Some(PLANNED), labels: &StringMap::new() };
        let pools = inventory.pools(&place).map_err(|error| error.to_string())?;
        let mut allocations = Vec::new();
        for claims in &self.claims {
            let claims: Vec<&ResourceClaim> = claims.iter().collect();
            let classes = &self.facts.devices.classes;
            let allocated = allocate(&claims, &place, &pools, classes, &taken, &self.selectors);
            let allocated = allocated.map_err(|refusal| refusal.to_string())?;
            allocated.iter().for_each(|allocation| taken.add_all(allocation));
            allocations.extend(allocated);
        }
        Ok(allocations)
    }
}

/// The drivers of the devices that the pods of a new node claim, on any of the instance types that it may have.
#[must_use]
pub fn claimed_drivers<'t>(
    pods: &[&Pod],
    devices: &ClusterDevices,
    types: impl IntoIterator<Item = &'t InstanceType>,
) -> BTreeSet<String> {
    let facts = ClusterFacts { devices, ..ClusterFacts::default() };
    let Some(claims) = Together::new(pods, facts) else { return BTreeSet::new() };
    let allocations = types.into_iter().filter_map(|kind| claims.allocated(kind).ok()).flatten();
    allocations.flat_map(|allocation| allocation.devices).map(|given| given.device.driver).collect()
}
