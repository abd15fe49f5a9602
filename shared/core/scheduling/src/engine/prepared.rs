//! NodePools prepared for plans.

use super::solve_with;
use crate::claims::Claims;
use crate::pools::{self, Pool, limits};
use crate::problem::excess;
use crate::problem::solution::Solution;
use crate::problem::{ClusterFacts, Options, PoolOffer, Problem};
use crate::volumes;
use crate::work::Work;
use nodeless_model::hashed::HashMap;
use nodeless_model::{DaemonSet, Pod, ResourceIndex};
use std::collections::BTreeSet;
use std::rc::Rc;

/// NodePools prepared for several plans, because that takes longer than a small plan.
pub struct Prepared<'p> {
    pub(crate) pools: Vec<Pool<'p>>,
    pub(crate) resources: ResourceIndex,
    pub(crate) options: Options,
    pub(super) claims: Rc<Claims>,
    /// The work of preparing them.
    pub(super) work: u64,
}

impl<'p> Prepared<'p> {
    /// Prepares NodePools for plans with these DaemonSets and facts, for pods that request these resources and drivers of volumes, or
    /// fewer.
    pub fn new<'r>(
        offers: impl IntoIterator<Item = &'p PoolOffer<'p>>,
        daemon_sets: &'r [DaemonSet],
        pods: impl Iterator<Item = &'r Pod>,
        facts: ClusterFacts<'_>,
        options: &Options,
    ) -> Self {
        let daemon_requests = daemon_sets.iter().map(|set| &set.template.template.requests);
        // Each resource makes all comparisons longer, and pods with too many of them are not placed.
        let mut drivers: BTreeSet<&str> = BTreeSet::new();
        let mut claiming: Vec<&Pod> = Vec::new();
        let requests = pods.map(|pod| {
            volumes::add_drivers(&mut drivers, pod, &facts);
            claiming.extend((!pod.template.resource_claims.is_empty()).then_some(pod));
            pod.template.next_requests()
        });
        let requests = requests.filter(|requests| !excess::has_too_many(requests));
        let resources = ResourceIndex::new(requests.chain(daemon_requests));
        let ordered = pools::order(offers);
        let claims = Claims::new(&claiming, &facts, &ordered);
        let columns = volumes::columns(&drivers, &facts, &ordered).into_iter().chain(claims.columns());
        let resources = resources.with_columns(columns);
        let usable = ordered.into_iter().filter(|offer| pools::unusable(offer.pool).is_none());
        let pools = pools::ready(usable, daemon_sets, (&resources, &claims), options);
        let mut counted = Work::default();
        counted.add(claims.work());
        let work = pools.iter().map(|pool| pool.work.done).sum::<u64>().saturating_add(counted.done);
        Self { pools, resources, options: *options, claims: Rc::new(claims), work }
    }

    /// The work of preparing them, in the units of [`Solution::work`].
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work
    }

    /// Sets for how many classes of unschedulable pods the reasons are determined.
    pub const fn explain_at_most(&mut self, kinds: u32) {
        self.options.max_explained = kinds;
    }

    /// [`solve`](crate::solve) with the options given to [`Prepared::new`]. It uses the NodePools of the problem with their usage; everything
    /// else about NodePools and DaemonSets has to be as in [`Prepared::new`].
    #[must_use]
    pub fn solve(&mut self, input: &Problem<'_>) -> Solution {
        solve_with(self, input)
    }

    /// The NodePools of a problem.
    pub(super) fn pools_of(&mut self, input: &Problem<'_>, max_work: Option<u64>) -> Vec<Pool<'p>> {
        let places: HashMap<&str, usize> =
            input.node_pools.iter().enumerate().rev().map(|(place, offer)| (offer.pool.name.as_str(), place)).collect();
        let listed = |pool: &Pool<'_>| places.get(pool.pool.name.as_str()).copied();
        let (mut used, unused): (Vec<Pool<'p>>, Vec<Pool<'p>>) =
            std::mem::take(&mut self.pools).into_iter().partition(|pool| listed(pool).is_some());
        self.pools = unused;
        let cluster = limits::shared(input.node_pools.iter().find_map(|offer| offer.cluster.as_ref()));
        for pool in &mut used {
            if let Some(place) = listed(pool) {
                pool.reset(&input.node_pools[place], &cluster, Work::at_most(max_work));
            }
        }
        used
    }

    /// Takes NodePools back after a plan.
    pub(crate) fn keep(&mut self, pools: Vec<Pool<'p>>) {
        self.pools.extend(pools);
        self.pools.sort_by_key(|pool| pools::rank(pool.pool));
    }
}
