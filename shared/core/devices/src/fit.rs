//! How many pods with claims fit on a node.

use crate::allocation::Taken;
use crate::pod_claims::PodClaims;
use crate::refusal::Refusal;
use crate::search::Search;
use crate::site::SiteDevices;
use crate::slices::node_selector::Place;
use crate::slices::pools::Pool;
use std::collections::{BTreeMap, BTreeSet};

/// More pods than a node runs.
const MAX_PODS: u32 = 256;

/// A node with its devices.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The node.
    pub place: &'a Place<'a>,
    /// Its pools.
    pub pools: &'a [Pool<'a>],
    /// The devices that claims have.
    pub taken: &'a Taken,
}

/// How many pods of several kinds fit on a node, as numbers that can be added: pods of all kinds fit together if there are no more of
/// each than `times`, and if what all of them take of each driver is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// For each kind of pods, how many fit; or why none.
    pub times: Vec<Result<u32, Refusal>>,
    /// For each kind, the number of devices of each driver that a pod takes.
    pub takes: Vec<BTreeMap<String, u32>>,
    /// For each kind, what a pod gets of each request with alternatives, if it is the first on the node: their indices.
    pub alternatives: Vec<Vec<usize>>,
    /// The free devices of each driver; a driver that is missing has no limit beside `times`.
    pub free: BTreeMap<String, u32>,
}

impl Site<'_> {
    /// How many pods fit of each kind.
    ///
    /// The kube-scheduler allocates devices for one pod after the other, so pods of one kind are counted by allocating devices for them in
    /// turn. Pods of several kinds are counted by the devices of each driver where these are interchangeable: each request selects all
    /// devices of a driver, or none; and where a pod takes no more of a driver than `counted` has for its kind. Elsewhere the node counts
    /// for the first kind only of those that compete for a device.
    ///
    /// A kind that has used up its attempts fits nowhere from then on.
    #[must_use]
    pub fn fit(&self, kinds: &mut [PodClaims<'_>], counted: Option<&[BTreeMap<String, u32>]>) -> Fit {
        let devices = SiteDevices::new(self.place, self.pools, self.taken);
        let mut fit = Fit::default();
        for kind in kinds.iter_mut() {
            let alone = Alone::new(kind, &devices);
            fit.times.push(alone.times);
            fit.takes.push(alone.takes);
            fit.alternatives.push(alone.alternatives);
        }
        let present: Vec<usize> = (0..kinds.len()).filter(|kind| fit.times[*kind].is_ok()).collect();
        if present.len() > 1 {
            self.share(kinds, &devices, &present, counted, &mut fit);
        }
        fit
    }

    fn share(
        &self,
        kinds: &mut [PodClaims<'_>],
        devices: &SiteDevices<'_>,
        present: &[usize],
        counted: Option<&[BTreeMap<String, u32>]>,
        fit: &mut Fit,
    ) {
        let is_counted = |kind: &usize| {
            let enough = |(driver, count): (&String, &u32)| {
                let of_kind = counted.map(|counted| counted.get(*kind).and_then(|of_kind| of_kind.get(driver)));
                of_kind.is_none_or(|most| most.is_some_and(|most| most >= count))
            };
            fit.takes[*kind].iter().all(enough)
        };
        let selected: Vec<(usize, Selected)> =
            present.iter().filter_map(|kind| Some((*kind, selected(&mut kinds[*kind], devices)?))).collect();
        if present.iter().all(is_counted)
            && selected.len() == present.len()
            && present.iter().all(|kind| kinds[*kind].are_plain())
            && let Some(free) = self.interchangeable(&selected)
        {
            fit.free = free;
            return;
        }
        let mut kept: BTreeSet<(usize, usize)> = BTreeSet::new();
        for kind in present {
            let own = selected.iter().find(|(known, _)| known == kind);
            let own: Option<BTreeSet<(usize, usize)>> = own.map(|(_, sets)| sets.iter().flatten().copied().collect());
            match own {
                Some(own) if own.is_disjoint(&kept) => kept.extend(own),
                _ => {
                    let claim = kinds[*kind].first_claim().to_owned();
                    fit.times[*kind] = Err(Refusal::Competes { claim });
                }
            }
        }
    }

    /// The free devices of each driver, if the devices of each are interchangeable.
    fn interchangeable(&self, selected: &[(usize, Selected)]) -> Option<BTreeMap<String, u32>> {
        let mut by_driver: BTreeMap<&str, &BTreeSet<(usize, usize)>> = BTreeMap::new();
        for set in selected.iter().flat_map(|(_, sets)| sets) {
            let drivers: BTreeSet<&str> = set.iter().map(|(pool, _)| self.pools[*pool].id.driver.as_str()).collect();
            let [driver] = drivers.into_iter().collect::<Vec<_>>()[..] else { return None };
            if *by_driver.entry(driver).or_insert(set) != set {
                return None;
            }
        }
        let mut free = BTreeMap::new();
        for (driver, set) in by_driver {
            let mut count = 0;
            for (pool, device) in set {
                let (_, it) = self.pools[*pool].devices[*device];
                if !it.consumes_counters.is_empty() || !it.taints.is_empty() {
                    return None;
                }
                let is_taken = self.taken.of_pool(&self.pools[*pool].id).is_some_and(|taken| taken.contains(&it.name));
                count += u32::from(!is_taken);
            }
            free.insert(driver.to_owned(), count);
        }
        Some(free)
    }
}

/// The devices that each request selects, as indices of pool and device.
type Selected = Vec<BTreeSet<(usize, usize)>>;

/// How many pods of a kind fit, without others, and what the first of them takes.
struct Alone {
    times: Result<u32, Refusal>,
    takes: BTreeMap<String, u32>,
    alternatives: Vec<usize>,
}

impl Alone {
    fn new(kind: &mut PodClaims<'_>, devices: &SiteDevices<'_>) -> Self {
        let most = kind.pods.min(MAX_PODS);
        let mut alone = Self { times: Ok(most), takes: BTreeMap::new(), alternatives: Vec::new() };
        let mut search = match kind.search(devices) {
            Ok(search) => search,
            Err(refusal) => return Self { times: Err(refusal), ..alone },
        };
        for count in 0..most {
            match search.allocate() {
                Err(refusal) if count == 0 => return Self { times: Err(refusal), ..alone },
                Err(_) => return Self { times: Ok(count), ..alone },
                Ok(allocations) if count == 0 => {
                    alone.alternatives.clone_from(&search.alternatives);
                    let given = allocations.iter().flat_map(|allocation| &allocation.devices);
                    for device in given.filter(|given| !given.admin_access) {
                        *alone.takes.entry(device.device.driver.clone()).or_insert(0) += 1;
                    }
                }
                Ok(_) => {}
            }
        }
        alone
    }
}

/// The devices that the requests of a pod select; `None` where that is unknown.
fn selected(kind: &mut PodClaims<'_>, devices: &SiteDevices<'_>) -> Option<Selected> {
    kind.search(devices).and_then(Search::selected).ok()
}
