//! The stopped instances of warm nodes, as capacity of a plan: offerings of a limited number, as those of capacity reservations.

use nodeless_model::{
    CapacityType, InstanceType, NodeClaim, NodePool, Offering, Requirement, Requirements, Reservation, Reuse,
    StringMap, labels,
};
use nodeless_scheduling::{Launch, PRICE_OF_NODE, PoolOffer, Problem};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The stopped instances that a plan may start.
#[derive(Clone, Debug, Default)]
pub struct StoppedInstances<'a>(Vec<Alike<'a>>);

/// Stopped instances of one NodePool and offering, whose nodes have the same labels.
#[derive(Clone, Debug)]
struct Alike<'a> {
    node_pool: &'a str,
    instance_type: &'a str,
    zone: &'a str,
    labels: StringMap,
    claims: Vec<&'a NodeClaim>,
}

impl<'a> StoppedInstances<'a> {
    /// Those of these claims.
    #[must_use]
    pub fn new(stopped: impl IntoIterator<Item = &'a NodeClaim>) -> Self {
        let mut groups: BTreeMap<(&str, &str, &str, StringMap), Vec<&NodeClaim>> = BTreeMap::new();
        for claim in stopped {
            let (Some(pool), Some(instance)) = (claim.node_pool.as_deref(), &claim.status.instance) else { continue };
            let key = (pool, instance.instance_type.as_str(), instance.zone.as_str(), claim.node_labels());
            groups.entry(key).or_default().push(claim);
        }
        let alike = groups.into_iter().map(|((node_pool, instance_type, zone, labels), mut claims)| {
            claims.sort_by(|one, other| one.name.cmp(&other.name));
            Alike { node_pool, instance_type, zone, labels, claims }
        });
        Self(alike.collect())
    }

    /// The problem in which nodes may also be stopped instances.
    pub(crate) fn offered<'p, 'q>(&self, problem: &'p Problem<'q>) -> Cow<'p, Problem<'q>> {
        if self.0.is_empty() {
            return Cow::Borrowed(problem);
        }
        let mut offered = problem.clone();
        for offer in &mut offered.node_pools {
            let own: Vec<&Alike<'_>> = self.0.iter().filter(|alike| alike.node_pool == offer.pool.name).collect();
            if own.is_empty() {
                continue;
            }
            let mut types = offer.instance_types.to_vec();
            for kind in &mut types {
                let of_kind = own.iter().filter(|alike| alike.instance_type == kind.name);
                let offerings: Vec<Offering> = of_kind.filter_map(|alike| alike.offering(kind, offer.pool)).collect();
                kind.offerings.extend(offerings);
            }
            offer.instance_types = types.into();
        }
        Cow::Owned(offered)
    }

    /// Names the claim of each launch that starts an instance, at the price that is billed. One whose node has too little capacity for the
    /// pods, because the catalog estimates more, is launched. `offers` are without stopped instances.
    pub(crate) fn assign(&self, launches: &mut [Launch], offers: &[PoolOffer<'_>]) {
        let mut free: BTreeMap<String, Vec<&NodeClaim>> =
            self.0.iter().map(|alike| (alike.id(), alike.claims.clone())).collect();
        for launch in launches {
            let Some(id) = launch.starts.take() else { continue };
            let holds = |claim: &&NodeClaim| {
                launch.requests.iter().all(|(name, requested)| requested <= claim.status.allocatable.get(name))
            };
            if let Some(claims) = free.get_mut(&id)
                && let Some(place) = claims.iter().position(holds)
            {
                launch.starts = Some(claims.remove(place).name.clone());
            }
            let offer = offers.iter().find(|offer| offer.pool.name == launch.node_pool);
            let kind = offer.and_then(|offer| offer.instance_type(&launch.offering.instance_type));
            if let Some(listed) = kind.and_then(|kind| on_demand(kind, &launch.offering.zone)) {
                launch.offering.price = listed.price;
                launch.instance_types.iter_mut().for_each(|kind| kind.price = listed.price);
                launch.charge.dollars_per_hour = listed.price + kind.map_or(0.0, InstanceType::root_volume_price);
            }
        }
    }
}

impl Alike<'_> {
    fn id(&self) -> String {
        let first = self.claims.first().map_or("", |claim| claim.name.as_str());
        format!("{}{first}", Reservation::STOPPED)
    }

    /// The offering, if that of a launch is available. It costs as much, less the volume, which is paid already: so of nodes at the same
    /// price, those are started that are stopped.
    fn offering(&self, kind: &InstanceType, pool: &NodePool) -> Option<Offering> {
        let launched = on_demand(kind, self.zone).filter(|offering| offering.available)?;
        let remaining = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        Some(Offering {
            price: (launched.price - PRICE_OF_NODE).max(launched.price / 2.0),
            reservation: Some(Reservation { id: self.id(), remaining, each: 1, reuse: Reuse::No }),
            requirements: launched.requirements.with(&self.own_labels(kind, pool)),
            ..launched.clone()
        })
    }

    /// The labels of the node that neither the instance type nor the offering determines, and those that it could have and has not.
    fn own_labels(&self, kind: &InstanceType, pool: &NodePool) -> Requirements {
        let is_own = |key: &str| {
            let of_offering = [labels::ZONE, labels::CAPACITY_TYPE, labels::INSTANCE_TYPE, labels::HOSTNAME];
            !of_offering.contains(&key) && kind.requirements.get(key).is_none_or(|it| it.single().is_none())
        };
        let mut own = Requirements::new();
        for (key, value) in self.labels.iter().filter(|(key, _)| is_own(key)) {
            own.add(key, Requirement::one_of([value.as_str()]));
        }
        let open = pool.template.requirements.iter().map(|(key, _)| key);
        for key in open.filter(|key| is_own(key) && !self.labels.contains_key(*key)) {
            own.add(key, Requirement::does_not_exist());
        }
        own
    }
}

/// The on-demand offering of an instance type in a zone.
fn on_demand<'k>(kind: &'k InstanceType, zone: &str) -> Option<&'k Offering> {
    let mut own = kind.offerings.iter().filter(|one| one.zone == zone && one.reservation.is_none());
    own.find(|one| one.capacity_type == CapacityType::OnDemand)
}
