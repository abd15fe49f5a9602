//! Launches for other pods than the scheduler packed.

#[cfg(feature = "test-support")]
use nodeless_disruption::meter;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{Quantity, Requirement, Requirements, ResourceList, labels, resources};
use nodeless_scheduling::{ClusterUsage, Launch, PoolOffer, Prepared, Problem, Solution};

/// Creates launches for other pods.
pub(super) struct LaunchResizer<'p, 'a, 'q> {
    pub(super) problem: &'p Problem<'a>,
    pub(super) prepared: &'p mut Prepared<'q>,
    /// The work so far, in the units of [`Solution::work`].
    pub(super) work: u64,
    /// The limit of the work: no launch is evaluated that may take more.
    pub(super) max_work: u64,
}

impl LaunchResizer<'_, '_, '_> {
    /// The launch with more pods: of the same NodePool, with requirements at least as narrow, and for all of them on
    /// one node. Limits are not checked. With `in_zone` it stays in the zone that was chosen for it. `None` where no
    /// such launch exists.
    pub(super) fn grown(&mut self, launch: &Launch, more: &[usize], in_zone: bool) -> Option<Launch> {
        if launch.is_fixed() {
            return None;
        }
        let offer = self.problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
        let mut within = narrowing(launch);
        if in_zone {
            within.add(labels::ZONE, Requirement::one_of([launch.offering.zone.as_str()]));
        }
        let pods = launch.pods.iter().chain(more).copied().collect();
        self.together(&unlimited(offer), &within, pods)
    }

    /// Extends the launches of all NodePools with limits to as many instance types as the limits allow, each with an
    /// equal part of what is left. `None` where the limits do not allow all launches.
    pub(super) fn within_limits(&mut self, mut solution: Solution) -> Option<Solution> {
        let problem = self.problem;
        let mut limits = RemainingLimits::new(problem, &solution.launches);
        for offer in &problem.node_pools {
            if !is_limited(offer) {
                continue;
            }
            let of_pool = |launch: &&mut Launch| launch.node_pool == offer.pool.name;
            let own: Vec<&mut Launch> = solution.launches.iter_mut().filter(of_pool).collect();
            limits.begin(offer, &own);
            for launch in own {
                let least = min_charge(offer, launch);
                if launch.starts.is_some() {
                    limits.launch(&least, &least);
                    continue;
                }
                let widened = self.together(&limits.offer(offer, &least), &narrowing(launch), launch.pods.clone())?;
                limits.launch(&least, &widened.charge);
                *launch = widened;
            }
        }
        Some(solution)
    }

    fn together(&mut self, offer: &PoolOffer<'_>, within: &Requirements, mut pods: Vec<usize>) -> Option<Launch> {
        if self.work.saturating_add(work_of_launch(pods.len())) > self.max_work {
            return None;
        }
        pods.sort_unstable();
        let alone = Problem {
            pods: pods.iter().map(|pod| self.problem.pods[*pod]).collect(),
            daemon_sets: self.problem.daemon_sets,
            facts: self.problem.facts,
            ..Problem::default()
        };
        let mut work = 0;
        let launch = self.prepared.launch_together(&alone, offer, within, &mut work);
        #[cfg(feature = "test-support")]
        meter::add(meter::Counts { scheduler: work, ..meter::Counts::default() });
        self.work = self.work.saturating_add(work).saturating_add(count(pods.len()).saturating_mul(WORK_PER_POD));
        Some(Launch { pods, ..launch? })
    }
}

/// The work to evaluate a pod of a launch, in the units of [`Solution::work`].
const WORK_PER_POD: u64 = 60;

/// The work to list the instance types of a launch.
const WORK_PER_LAUNCH: u64 = 2000;

/// The work to find the instance types that meet requirements which were not evaluated before, for each type.
const WORK_PER_TYPE: u64 = 100;

/// The work of a launch of these pods, if its requirements were evaluated before.
fn work_of_launch(pods: usize) -> u64 {
    count(pods).saturating_mul(WORK_PER_POD).saturating_add(WORK_PER_LAUNCH)
}

/// The work of the last steps: [`LaunchResizer::within_limits`] for the launches of a solution, and one evaluation of new
/// requirements, because that is not interrupted.
pub(super) fn work_at_the_end(problem: &Problem<'_>, solution: &Solution) -> u64 {
    let types = problem.node_pools.iter().map(|offer| offer.instance_types.len()).max().unwrap_or(0);
    let offer = |name: &str| problem.node_pools.iter().find(|offer| offer.pool.name == name);
    let limited = |launch: &&Launch| offer(&launch.node_pool).is_some_and(is_limited);
    let works = solution.launches.iter().filter(limited).map(|launch| work_of_launch(launch.pods.len()));
    works.fold(count(types).saturating_mul(WORK_PER_TYPE), u64::saturating_add)
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// Whether any limit applies to the launches of a NodePool.
fn is_limited(offer: &PoolOffer<'_>) -> bool {
    let cluster = offer.cluster.as_ref().is_some_and(|cluster| !cluster.limits.are_none());
    cluster || !offer.pool.limits.is_empty() || offer.pool.limit_dollars_per_hour.is_some()
}

/// The offer with usages that never exceed a limit. The same amounts are limited as before.
fn unlimited<'a>(offer: &PoolOffer<'a>) -> PoolOffer<'a> {
    let below = |limits: &ResourceList, dollars: Option<f64>| PoolUsage {
        resources: limits.iter().map(|(name, _)| (name.to_owned(), Quantity::from_milli(i64::MIN / 4))).collect(),
        dollars_per_hour: dollars.map_or(0.0, |_| f64::MIN / 4.0),
        ..PoolUsage::default()
    };
    let cluster = offer.cluster.as_ref().map(|cluster| ClusterUsage {
        usage: below(&cluster.limits.resources, cluster.limits.dollars_per_hour),
        limits: cluster.limits.clone(),
    });
    PoolOffer { usage: below(&offer.pool.limits, offer.pool.limit_dollars_per_hour), cluster, ..offer.clone() }
}

/// The usage of the limits while launches are extended: each launch counts with its minimum until its turn.
struct RemainingLimits {
    /// The usage of the NodePool, and how many of its launches are left.
    own: (PoolUsage, usize),
    /// The usage of the cluster, and how many of its launches are left.
    cluster: (PoolUsage, usize),
}

impl RemainingLimits {
    fn new(problem: &Problem<'_>, launches: &[Launch]) -> Self {
        let cluster = problem.node_pools.iter().find_map(|offer| offer.cluster.as_ref());
        let mut used = cluster.map(|cluster| cluster.usage.clone()).unwrap_or_default();
        for launch in launches {
            let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
            offer.into_iter().for_each(|offer| used.add(&min_charge(offer, launch)));
        }
        Self { own: (PoolUsage::default(), 0), cluster: (used, launches.len()) }
    }

    /// Continues with the launches of a NodePool.
    fn begin(&mut self, offer: &PoolOffer<'_>, launches: &[&mut Launch]) {
        self.own = (offer.usage.clone(), launches.len());
        launches.iter().for_each(|launch| self.own.0.add(&min_charge(offer, launch)));
    }

    /// The offer with which the next launch takes at most its minimum and an equal part of the remaining limits.
    fn offer<'a>(&self, offer: &PoolOffer<'a>, least: &Charge) -> PoolOffer<'a> {
        let pool = offer.pool;
        let usage = usage_for(&pool.limits, pool.limit_dollars_per_hour, &self.own.0, self.own.1, least);
        let cluster = offer.cluster.as_ref().map(|cluster| {
            let (limits, (used, launches)) = (&cluster.limits, &self.cluster);
            let usage = usage_for(&limits.resources, limits.dollars_per_hour, used, *launches, least);
            ClusterUsage { usage, limits: limits.clone() }
        });
        PoolOffer { usage, cluster, ..offer.clone() }
    }

    /// Counts a launch that was extended.
    fn launch(&mut self, least: &Charge, charge: &Charge) {
        for (used, left) in [&mut self.own, &mut self.cluster] {
            used.subtract(least);
            used.add(charge);
            *left = left.saturating_sub(1);
        }
    }
}

/// The minimum usage of a launch: its cheapest instance type, at the price of the most expensive offering of that type.
pub(super) fn min_charge(offer: &PoolOffer<'_>, launch: &Launch) -> Charge {
    let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type) else {
        return launch.charge.clone();
    };
    let mut resources = kind.capacity.clone();
    resources.set(resources::name::NODES, Quantity::from_units(1));
    let prices = kind.available_offerings(&launch.requirements).map(|offering| offering.price);
    let dollars_per_hour = prices.fold(launch.offering.price, f64::max) + kind.root_volume_price();
    Charge { resources, dollars_per_hour }
}

/// The usage of limits with which a launch takes at most its minimum and an equal part of what is left for several.
fn usage_for(
    limits: &ResourceList,
    dollars: Option<f64>,
    used: &PoolUsage,
    launches: usize,
    least: &Charge,
) -> PoolUsage {
    let mut usage = used.clone();
    let parts = i64::try_from(launches).unwrap_or(i64::MAX).max(1);
    for (name, limit) in limits.iter() {
        let part = (limit - used.resources.get(name)).milli().max(0) / parts;
        usage.resources.set(name, limit - least.resources.get(name) - Quantity::from_milli(part));
    }
    if let Some(limit) = dollars {
        let launches = f64::from(u32::try_from(launches).unwrap_or(u32::MAX).max(1));
        let part = (limit - used.dollars_per_hour).max(0.0) / launches;
        usage.dollars_per_hour = limit - least.dollars_per_hour - part;
    }
    usage
}

/// The requirements that all instance types of a launch satisfy.
fn narrowing(launch: &Launch) -> Requirements {
    let mut requirements = launch.requirements.clone();
    requirements.remove(labels::INSTANCE_TYPE);
    requirements
}
