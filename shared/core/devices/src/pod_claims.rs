//! The claims of a pod, for which devices are searched on several nodes.

use crate::allocation::{Allocation, Taken};
use crate::attempts::{Attempts, MAX_ATTEMPTS};
use crate::checked_claims::CheckedClaims;
use crate::claim::{AllocationMode, DeviceClass, ExactRequest, ResourceClaim};
use crate::refusal::Refusal;
use crate::search::Search;
use crate::selector::Selectors;
use crate::site::SiteDevices;
use crate::slices::node_selector::Place;
use crate::slices::pools::Pool;
use std::collections::BTreeMap;

/// The claims of a pod for which devices are searched on one node after the other.
#[derive(Debug)]
pub struct PodClaims<'a> {
    /// The attempts of all searches for these claims.
    pub attempts: Attempts,
    /// The number of pods with such claims: no more are counted on a node.
    pub pods: u32,
    /// The requests, or why no node has devices for them.
    pub(crate) checked: Result<CheckedClaims<'a>, Refusal>,
}

impl<'a> PodClaims<'a> {
    /// The claims of one pod. All of them are claims without an allocation.
    #[must_use]
    pub fn new(
        claims: impl IntoIterator<Item = &'a ResourceClaim>,
        classes: &'a BTreeMap<String, DeviceClass>,
        selectors: &Selectors,
        pods: u32,
        attempts: Attempts,
    ) -> Self {
        Self { attempts, pods, checked: CheckedClaims::new(claims.into_iter().collect(), classes, selectors) }
    }

    /// Begins a search on a node.
    ///
    /// # Errors
    /// Why there are no devices for the claims.
    pub(crate) fn search<'s>(&'s mut self, site: &'s SiteDevices<'s>) -> Result<Search<'s>, Refusal> {
        let checked = self.checked.as_ref().map_err(Clone::clone)?;
        Search::new(checked, site, &mut self.attempts)
    }

    /// The name of the first claim.
    pub(crate) fn first_claim(&self) -> &str {
        self.checked.as_ref().ok().and_then(|checked| checked.claims.first()).map_or("", |claim| &claim.name)
    }

    /// Whether each request is for a number of devices, whichever of those that it selects.
    pub(crate) fn are_plain(&self) -> bool {
        let is_plain = |claim: &ResourceClaim| {
            let is_counted = |exact: &ExactRequest| {
                exact.allocation_mode == AllocationMode::ExactCount && exact.admin_access != Some(true)
            };
            claim.devices.constraints.is_empty()
                && claim.devices.requests.iter().all(|request| request.exactly.as_ref().is_some_and(is_counted))
        };
        self.checked.as_ref().is_ok_and(|checked| checked.claims.iter().copied().all(is_plain))
    }
}

/// Allocates devices to all claims of a pod on a node, or to none.
///
/// `pools` are those of the node, from [`crate::Inventory::pools`]; all claims are claims without an allocation.
///
/// # Errors
/// Why the claims get no devices on this node.
pub fn allocate(
    claims: &[&ResourceClaim],
    place: &Place<'_>,
    pools: &[Pool<'_>],
    classes: &BTreeMap<String, DeviceClass>,
    taken: &Taken,
    selectors: &Selectors,
) -> Result<Vec<Allocation>, Refusal> {
    let mut pod = PodClaims::new(claims.iter().copied(), classes, selectors, 1, Attempts::at_most(MAX_ATTEMPTS));
    let site = SiteDevices::new(place, pools, taken);
    pod.search(&site)?.allocate()
}
