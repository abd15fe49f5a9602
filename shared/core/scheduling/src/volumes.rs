//! The number of volumes that a node can attach.
//!
//! Each driver with a limit has a column behind the resources in rows of amounts ([`ResourceIndex::columns`]), on existing nodes and on
//! new ones. A volume counts once on a node, however many pods mount it. One that a single pending pod mounts is part of the requests of
//! that pod, so it is packed as a resource is. Others count with the first pod that mounts them on a node ([`SharedVolumes`]).

use crate::dense::Amounts;
use crate::problem::{ClusterFacts, ExistingNode, PoolOffer, Problem};
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::pod::VolumeClaim;
use nodeless_model::{EBS_DRIVER, InstanceType, Pod, ResourceIndex, labels};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

/// A volume, in thousandths as resources are.
const ONE: i64 = 1000;
/// More volumes than any plan has.
const UNLIMITED: i64 = 1_000_000 * ONE;
/// The column of a driver is named by this and the driver. No resource has such a name.
const COLUMN: &str = "volumes of ";

/// A claim in its namespace.
type ClaimKey<'p> = (&'p str, &'p str);

/// A claim that pending pods mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Volume {
    id: usize,
    /// The column of its driver.
    place: usize,
}

/// The driver of a column; `None` for resources.
pub(crate) fn driver(column: &str) -> Option<&str> {
    column.strip_prefix(COLUMN)
}

/// A number of volumes in a row of amounts.
pub(crate) const fn count(amount: i64) -> i64 {
    amount / ONE
}

/// Adds the drivers of a pod's volumes.
pub(crate) fn add_drivers<'f>(drivers: &mut BTreeSet<&'f str>, pod: &Pod, facts: &ClusterFacts<'f>) {
    drivers.extend(pod.template.volume_claims.iter().filter_map(|claim| driver_of(facts, pod, claim)));
}

/// The columns of those of the drivers of which any node attaches a limited number.
pub(crate) fn columns(drivers: &BTreeSet<&str>, facts: &ClusterFacts<'_>, offers: &[&PoolOffer<'_>]) -> Vec<String> {
    let limits_ebs = |offer: &&PoolOffer<'_>| offer.instance_types.iter().any(|kind| kind.ebs_volumes.is_some());
    let is_limited = |driver: &&&str| {
        facts.volume_limits.values().any(|limits| limits.contains_key(**driver))
            || (**driver == EBS_DRIVER && offers.iter().any(limits_ebs))
    };
    drivers.iter().filter(is_limited).map(|driver| format!("{COLUMN}{driver}")).collect()
}

/// Sets in a row of amounts how many volumes a new node of this type attaches.
pub(crate) fn set_limits(amounts: &mut Amounts, kind: &InstanceType, resources: &ResourceIndex) {
    for (place, column) in resources.columns() {
        let limit = kind.ebs_volumes.filter(|_| driver(column) == Some(EBS_DRIVER));
        amounts[place] = limit.map_or(UNLIMITED, |limit| i64::from(limit) * ONE);
    }
}

/// Sets in a row of amounts that the volumes of a node are not limited.
pub(crate) fn unlimited(mut amounts: Amounts, resources: &ResourceIndex) -> Amounts {
    resources.columns().for_each(|(place, _)| amounts[place] = UNLIMITED);
    amounts
}

fn driver_of<'f>(facts: &ClusterFacts<'f>, pod: &Pod, claim: &VolumeClaim) -> Option<&'f str> {
    facts.volume_drivers.get(&format!("{}/{}", pod.namespace, claim.claim_name)).map(String::as_str)
}

/// The volumes of pending pods whose drivers have a column.
#[derive(Debug, Default)]
pub(crate) struct PendingVolumes<'a> {
    known: HashMap<ClaimKey<'a>, Known>,
}

#[derive(Debug)]
struct Known {
    volume: Volume,
    /// The first pod that mounts it, as an index.
    pod: usize,
    /// Whether other pods mount it, or pods that run on a node of the problem.
    is_shared: bool,
}

impl<'a> PendingVolumes<'a> {
    pub(crate) fn new(problem: &Problem<'a>, resources: &ResourceIndex) -> Self {
        let mut known: HashMap<ClaimKey<'a>, Known> = HashMap::default();
        if resources.columns().next().is_none() {
            return Self { known };
        }
        let mounting = |pod: &&Pod| !pod.template.volume_claims.is_empty();
        for (index, pod) in problem.pods.iter().enumerate().filter(|(_, pod)| mounting(pod)) {
            for claim in &pod.template.volume_claims {
                let Some(place) = place(problem, resources, pod, claim) else { continue };
                let id = known.len();
                match known.entry((&pod.namespace, &claim.claim_name)) {
                    Entry::Vacant(entry) => {
                        entry.insert(Known { volume: Volume { id, place }, pod: index, is_shared: false });
                    }
                    Entry::Occupied(mut entry) => {
                        let present = entry.get_mut();
                        present.is_shared |= present.pod != index;
                    }
                }
            }
        }
        let nodes: HashSet<&str> = problem.nodes.iter().map(|node| node.name.as_str()).collect();
        for bound in problem.bound_pods.iter().filter(|bound| nodes.contains(bound.name)) {
            for pod in bound.pods.iter().copied().filter(mounting) {
                for claim in &pod.template.volume_claims {
                    let running = known.get_mut(&(pod.namespace.as_str(), claim.claim_name.as_str()));
                    running.into_iter().for_each(|running| running.is_shared = true);
                }
            }
        }
        Self { known }
    }

    /// Adds the volumes that only this pod mounts to its requests, and returns its other volumes.
    pub(crate) fn request(&self, pod: &Pod, requests: &mut Amounts) -> Box<[Volume]> {
        if self.known.is_empty() || pod.template.volume_claims.is_empty() {
            return Box::default();
        }
        let claims = pod.template.volume_claims.iter();
        let mounted = claims.filter_map(|claim| self.known.get(&(pod.namespace.as_str(), claim.claim_name.as_str())));
        let mut mounted: Vec<&Known> = mounted.collect();
        mounted.sort_unstable_by_key(|known| known.volume);
        mounted.dedup_by_key(|known| known.volume);
        mounted.iter().filter(|known| !known.is_shared).for_each(|known| requests[known.volume.place] += ONE);
        mounted.iter().filter(|known| known.is_shared).map(|known| known.volume).collect()
    }
}

fn place(problem: &Problem<'_>, resources: &ResourceIndex, pod: &Pod, claim: &VolumeClaim) -> Option<usize> {
    let of_claim = driver_of(&problem.facts, pod, claim)?;
    resources.columns().find(|(_, column)| driver(column) == Some(of_claim)).map(|(place, _)| place)
}

/// What the limits of an existing node leave, with what its running pods have attached.
pub(crate) struct Attached {
    /// By column, the number of further volumes, in thousandths.
    pub(crate) left: Vec<(usize, i64)>,
    /// The volumes of pending pods that are attached already.
    pub(crate) volumes: SharedVolumes,
}

impl Attached {
    pub(crate) fn new(
        problem: &Problem<'_>,
        resources: &ResourceIndex,
        pending: &PendingVolumes<'_>,
        node: &ExistingNode,
        pods: &[&Pod],
    ) -> Self {
        let of_node = problem.facts.volume_limits.get(&node.name);
        let limit = |column: &str| {
            let driver = driver(column)?;
            let reported = of_node.and_then(|limits| limits.get(driver)).copied();
            reported.or_else(|| if driver == EBS_DRIVER { expected(problem, node) } else { None })
        };
        let limits: Vec<(usize, Option<u32>)> =
            resources.columns().map(|(place, column)| (place, limit(column))).collect();
        let mut volumes = SharedVolumes::default();
        let mut counts = vec![0_i64; resources.len()];
        if limits.iter().any(|(_, limit)| limit.is_some()) {
            let mut seen: HashSet<ClaimKey<'_>> = HashSet::default();
            let mounting = pods.iter().filter(|pod| !pod.template.volume_claims.is_empty() && !pod.is_terminal());
            for (pod, claim) in
                mounting.flat_map(|pod| pod.template.volume_claims.iter().map(move |claim| (pod, claim)))
            {
                let key = (pod.namespace.as_str(), claim.claim_name.as_str());
                if seen.insert(key)
                    && let Some(place) = place(problem, resources, pod, claim)
                {
                    counts[place] += ONE;
                    volumes.0.extend(pending.known.get(&key).map(|known| known.volume));
                }
            }
        }
        // A node may have more volumes than its limit, and still takes pods without any.
        let left = |limit: Option<u32>, count: i64| {
            limit.map_or(UNLIMITED, |limit| (i64::from(limit) * ONE).saturating_sub(count).max(0))
        };
        Self { left: limits.into_iter().map(|(place, limit)| (place, left(limit, counts[place]))).collect(), volumes }
    }
}

/// The limit of a managed node that is not initialized, whose CSINode may not report one yet: the least of the instance types that it
/// may have.
fn expected(problem: &Problem<'_>, node: &ExistingNode) -> Option<u32> {
    let pool = node.node_pool.as_ref().filter(|_| !node.initialized)?;
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == *pool)?;
    let names = node.requirements.get(labels::INSTANCE_TYPE)?.values()?;
    let kinds = offer.instance_types.iter().filter(|kind| names.contains(&kind.name));
    kinds.filter_map(|kind| kind.ebs_volumes).min()
}

/// The volumes of a node that other pods than one mount, and that are attached.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedVolumes(Vec<Volume>);

/// What the pods of a class request and mount.
#[derive(Clone, Copy)]
pub(crate) struct Mounts<'c> {
    pub(crate) requests: &'c [i64],
    /// The volumes that other pods mount too, which are not part of the requests.
    pub(crate) shared: &'c [Volume],
}

impl SharedVolumes {
    fn missing<'c>(&'c self, mounts: Mounts<'c>) -> impl Iterator<Item = &'c Volume> + Clone {
        mounts.shared.iter().filter(|volume| !self.0.contains(volume))
    }

    /// The number of pods of a class, at most `most`, that fit into what is free together with their volumes that are not attached.
    pub(crate) fn times(&self, mounts: Mounts<'_>, free: &[i64], most: u32) -> u32 {
        if most == 0 || mounts.shared.is_empty() {
            return most;
        }
        let missing = self.missing(mounts);
        let of_place = |place: usize| {
            let more: i64 = missing.clone().filter(|volume| volume.place == place).map(|_| ONE).sum();
            let (left, each) = (free[place] - more, mounts.requests[place]);
            match (left, each) {
                (..0, _) => 0,
                (_, ..=0) => i64::from(most),
                _ => left / each,
            }
        };
        let times = missing.clone().map(|volume| of_place(volume.place)).fold(i64::from(most), i64::min);
        u32::try_from(times).unwrap_or(0)
    }

    /// Takes the volumes of a class that are not attached from what is free.
    pub(crate) fn take(&self, mounts: Mounts<'_>, free: &mut [i64]) {
        self.missing(mounts).for_each(|volume| free[volume.place] -= ONE);
    }

    /// Adds the volumes of a class that are not attached to what is used.
    pub(crate) fn add(&self, mounts: Mounts<'_>, used: &mut [i64]) {
        self.missing(mounts).for_each(|volume| used[volume.place] += ONE);
    }

    /// Attaches the volumes of a class.
    pub(crate) fn attach(&mut self, mounts: Mounts<'_>) {
        for volume in mounts.shared {
            if !self.0.contains(volume) {
                self.0.push(*volume);
            }
        }
    }

    /// Attaches the volumes of another node as well. `used` is the sum of what both use.
    pub(crate) fn join(&mut self, other: &Self, used: &mut [i64]) {
        for volume in &other.0 {
            if self.0.contains(volume) {
                used[volume.place] -= ONE;
            } else {
                self.0.push(*volume);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The requests of a pod of a class that is alone on a node, with all its volumes.
pub(crate) fn alone(mounts: Mounts<'_>) -> Cow<'_, [i64]> {
    if mounts.shared.is_empty() {
        return Cow::Borrowed(mounts.requests);
    }
    let mut requests = mounts.requests.to_vec();
    mounts.shared.iter().for_each(|volume| requests[volume.place] += ONE);
    Cow::Owned(requests)
}

/// The number of different volumes of EBS that these pods mount.
pub(crate) fn of_ebs(facts: &ClusterFacts<'_>, pods: &[&Pod]) -> usize {
    let claims = pods.iter().flat_map(|pod| pod.template.volume_claims.iter().map(move |claim| (*pod, claim)));
    let of_ebs = claims.filter(|(pod, claim)| driver_of(facts, pod, claim) == Some(EBS_DRIVER));
    of_ebs.map(|(pod, claim)| (&pod.namespace, &claim.claim_name)).collect::<HashSet<_>>().len()
}
