//! The changes that the reasons of a pod suggest, in the order in which they are tried.

use super::change::{Change, PodChange, PoolChange, RootVolume};
use crate::constraints::required_alternatives;
use crate::problem::PoolOffer;
use crate::problem::reason::{Barrier, BarrierKind, Cause, LimitScope, PodFault, Reason};
use nodeless_model::resources::name;
use nodeless_model::{NodePool, Pod, labels};

/// The changes for a pod with these reasons, the smallest first.
pub(super) fn candidates(reasons: &[Reason], pod: &Pod, offers: &[PoolOffer<'_>]) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for reason in reasons {
        let found = match reason {
            Reason::Pod(fault) => of_fault(fault).into_iter().map(Change::Pod).collect(),
            Reason::NodePool { node_pool, cause } => offers
                .iter()
                .find(|offer| offer.pool.name == *node_pool)
                .map(|offer| of_cause(cause, pod, offer))
                .unwrap_or_default(),
            Reason::NoNodePools | Reason::NoValidNodePools | Reason::OutOfWork | Reason::NotExplained => Vec::new(),
        };
        found.into_iter().for_each(|change| {
            if !all.contains(&change) {
                all.push(change);
            }
        });
    }
    all.sort_by(|one, other| one.rank().cmp(&other.rank()).then_with(|| by_amount(one, other)));
    all
}

/// The larger amount that a pod may request, and the smaller limit, are the smaller change.
fn by_amount(one: &Change, other: &Change) -> std::cmp::Ordering {
    match (one, other) {
        (Change::Pod(PodChange::AtMost(own, amount)), Change::Pod(PodChange::AtMost(theirs, than)))
            if own == theirs =>
        {
            than.cmp(amount)
        }
        _ => std::cmp::Ordering::Equal,
    }
}

fn of_fault(fault: &PodFault) -> Vec<PodChange> {
    vec![match fault {
        PodFault::ResourceClaims { .. } | PodFault::Claim { .. } => PodChange::WithoutResourceClaims(String::new()),
        PodFault::UnknownVolume { claim } => PodChange::WithoutVolume(claim.clone()),
        PodFault::VolumesApart { .. } => PodChange::WithoutVolumes,
        PodFault::LocalVolume { .. } | PodFault::PodGroup { .. } => return Vec::new(),
        PodFault::Topology { constraints } => return constraints.iter().filter_map(of_barrier).collect(),
        PodFault::NoDomain { topology_key } => PodChange::WithoutDomains(topology_key.clone()),
        PodFault::TooMany { excess, .. } => PodChange::Fewer(*excess),
        PodFault::TooManyDomains { .. } => PodChange::WithoutTopology,
        PodFault::MatchFields => PodChange::WithoutMatchFields,
        PodFault::EmptyAffinity | PodFault::Requirements { .. } => PodChange::WithoutNodeAffinity,
        PodFault::NegativeRequest { resource } => PodChange::Nonnegative(resource.clone()),
    }]
}

fn of_barrier(barrier: &Barrier) -> Option<PodChange> {
    let key = barrier.topology_key.clone();
    Some(match barrier.kind {
        BarrierKind::Spread { min_count, .. } => {
            let fewest = barrier.domains.iter().map(|(_, count)| *count).min()?;
            let skew = (fewest + 1).saturating_sub(min_count);
            PodChange::MaxSkew(key, i32::try_from(skew).unwrap_or(i32::MAX))
        }
        BarrierKind::Affinity => PodChange::WithoutAffinity(key),
        BarrierKind::AntiAffinity => PodChange::WithoutAntiAffinity(key),
        BarrierKind::AntiAffinityOfOthers { .. } => PodChange::Unselected(key),
    })
}

fn of_cause(cause: &Cause, pod: &Pod, offer: &PoolOffer<'_>) -> Vec<Change> {
    let pool = offer.pool;
    let of_pool = |change| Change::NodePool(pool.name.clone(), change);
    match cause {
        Cause::Deleting | Cause::Limits => Vec::new(),
        Cause::NotReady { .. } => vec![of_pool(PoolChange::Ready)],
        Cause::Static => vec![of_pool(PoolChange::Dynamic)],
        Cause::Taint(taint) => vec![Change::Pod(PodChange::Tolerate(taint.clone()))],
        Cause::UndefinedLabel { key, .. } | Cause::Label { key, .. } => of_label(key, pod, pool),
        Cause::NoInstanceTypes => without_requirements(pool).collect(),
        Cause::NoTypeMatches { .. } | Cause::NoOffering { .. } => {
            without_labels(pod).chain(without_requirements(pool)).collect()
        }
        Cause::ResourceNotOffered { resource } => {
            let request = Change::Pod(PodChange::WithoutResource(resource.clone()));
            [request].into_iter().chain(without_requirements(pool)).collect()
        }
        Cause::TooLarge { resource, requested, largest, .. } => {
            let request = (!largest.is_zero()).then(|| Change::Pod(PodChange::AtMost(resource.clone(), *largest)));
            let of_disk = resource == name::EPHEMERAL_STORAGE;
            let volume = of_disk.then(|| RootVolume::with_more(offer, *requested - *largest)).flatten();
            let volume = volume.map(|volume| of_pool(PoolChange::RootVolume(volume)));
            without_labels(pod).chain(request).chain(volume).chain(without_requirements(pool)).collect()
        }
        Cause::Devices { offered, .. } => {
            let without = std::iter::once(Change::Pod(PodChange::WithoutResourceClaims(offered.clone())));
            without_labels(pod).chain(without).chain(without_requirements(pool)).collect()
        }
        Cause::TooManyVolumes { .. } => without_labels(pod).chain(without_requirements(pool)).collect(),
        Cause::NoTypeFits { most, .. } => {
            let requests = most.iter().map(|(resource, most)| Change::Pod(PodChange::AtMost(resource.clone(), *most)));
            without_labels(pod).chain(requests).chain(without_requirements(pool)).collect()
        }
        Cause::HostPort { port, .. } => vec![Change::Pod(PodChange::WithoutHostPort(*port))],
        Cause::DaemonSetPod { barrier, .. } => {
            let key = barrier.topology_key.clone();
            match barrier.kind {
                BarrierKind::AntiAffinity => vec![Change::Pod(PodChange::WithoutAntiAffinity(key))],
                BarrierKind::AntiAffinityOfOthers { .. } => vec![Change::Pod(PodChange::Unselected(key))],
                BarrierKind::Spread { .. } | BarrierKind::Affinity => Vec::new(),
            }
        }
        Cause::MinValues { key, found, .. } => vec![of_pool(PoolChange::MinValues(key.clone(), *found))],
        Cause::Limit { scope, resource, used, smallest_node, .. } => {
            let (resource, amount) = (resource.clone(), *used + *smallest_node);
            vec![match scope {
                LimitScope::NodePool => of_pool(PoolChange::Limit(resource, amount)),
                LimitScope::Cluster => Change::ClusterLimit(resource, amount),
            }]
        }
        Cause::DollarLimit { scope, used, min_charge, .. } => {
            let amount = used + min_charge;
            vec![match scope {
                LimitScope::NodePool => of_pool(PoolChange::Dollars(amount)),
                LimitScope::Cluster => Change::ClusterDollars(amount),
            }]
        }
    }
}

/// The name of a NodePool or EC2NodeClass is no label that a NodePool may allow.
fn of_label(key: &str, pod: &Pod, pool: &NodePool) -> Vec<Change> {
    let mut changes = vec![Change::Pod(PodChange::WithoutLabel(key.to_owned()))];
    let terms = required_alternatives(pod).unwrap_or_default();
    if let Some(required) = terms.iter().find_map(|term| term.get(key))
        && !labels::is_restricted(key)
        && key != labels::NODE_POOL
    {
        changes.push(Change::NodePool(pool.name.clone(), PoolChange::Allow(key.to_owned(), required.clone())));
    }
    changes
}

/// The labels that the pod requires.
fn without_labels(pod: &Pod) -> impl Iterator<Item = Change> + use<> {
    let conditions = pod.template.required_node_affinity.iter().flatten().map(|condition| &condition.key);
    let mut keys: Vec<String> =
        pod.template.node_selector.keys().chain(conditions).map(|key| labels::normalize(key).to_owned()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|key| Change::Pod(PodChange::WithoutLabel(key)))
}

/// The requirements of the NodePool.
fn without_requirements(pool: &NodePool) -> impl Iterator<Item = Change> {
    let requirements = pool.template.requirements.iter();
    let own = requirements.filter(|(key, _)| !pool.template.labels.contains_key(*key));
    own.map(|(key, own)| Change::NodePool(pool.name.clone(), PoolChange::Without(key.to_owned(), own.clone())))
}
