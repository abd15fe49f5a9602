//! Spot offerings that EC2 interrupted often lately are left out of launches: the annotation `nodeless.sh/spot-interruptions`.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::OfferingKey;
use nodeless_model::hashed::HashMap;
use nodeless_model::spot_interruption::SpotInterruption;
use nodeless_model::{CapacityType, InstanceType, NodeClaim, NodePool, Setting};
use nodeless_scheduling::{ChosenOffering, Launch, PoolOffer};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The time for which an interruption is remembered.
pub const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

/// After this time an interruption counts half.
const HALF_LIFE: SignedDuration = SignedDuration::from_hours(6);

/// By which fraction the price by which an offering is ranked exceeds its price at most: if all of its instances were
/// interrupted just now.
const MAX_PREMIUM: f64 = 0.5;

/// The number of spot offerings of a launch that are never left out, so that EC2 keeps a choice.
const CHOICES: usize = 10;

/// Whether a NodePool is configured to avoid offerings that were interrupted.
#[must_use]
pub fn avoids(pool: &NodePool) -> bool {
    pool.options.spot_interruptions == Setting::Valid(true)
}

/// The recent interruptions of offerings.
#[derive(Clone, Debug, Default)]
pub struct RecentInterruptions {
    /// By instance type and zone: the interruptions, each halved with every [`HALF_LIFE`], and the running spot instances.
    offerings: BTreeMap<(String, String), (f64, u32)>,
}

/// A spot offering that a launch does not use.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The offering.
    #[serde(flatten)]
    pub offering: OfferingKey,
    /// The price in dollars per hour.
    pub price_per_hour: f64,
    /// The price by which it is ranked.
    pub ranked_by: f64,
    /// The interruptions, each halved with every six hours.
    pub interruptions: f64,
}

impl RecentInterruptions {
    /// From the remembered interruptions, and all claims.
    pub fn new<'i>(
        interruptions: &[SpotInterruption],
        claims: impl IntoIterator<Item = &'i NodeClaim>,
        now: Timestamp,
    ) -> Self {
        let mut offerings: BTreeMap<(String, String), (f64, u32)> = BTreeMap::new();
        for one in interruptions.iter().filter(|one| one.until > now) {
            let age = now.duration_since(one.at).as_secs_f64().max(0.0);
            let counts = 0.5_f64.powf(age / HALF_LIFE.as_secs_f64());
            offerings.entry((one.instance_type.clone(), one.zone.clone())).or_default().0 += counts;
        }
        let running = claims.into_iter().filter(|claim| !offerings.is_empty() && !claim.phase.is_leaving());
        let running: Vec<(String, String)> = running
            .filter_map(|claim| claim.status.instance.as_ref())
            .filter(|instance| instance.capacity_type == CapacityType::Spot)
            .map(|instance| (instance.instance_type.clone(), instance.zone.clone()))
            .collect();
        for key in running {
            if let Some((_, running)) = offerings.get_mut(&key) {
                *running += 1;
            }
        }
        Self { offerings }
    }

    /// Whether there are no recent interruptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offerings.is_empty()
    }

    /// The factor of a price by which an offering is ranked: 1 plus half of the fraction of its recent instances that were
    /// interrupted.
    fn factor(&self, instance_type: &str, zone: &str) -> (f64, f64) {
        let known = self.offerings.get(&(instance_type.to_owned(), zone.to_owned()));
        known.map_or((1.0, 0.0), |(count, running)| (1.0 + MAX_PREMIUM * count / (count + f64::from(*running)), *count))
    }

    /// The offerings that a launch of a NodePool does not use, in the order of their names: those behind which at least
    /// ten others rank that are not more expensive than their ranked price.
    #[must_use]
    pub fn left_out(&self, launch: &Launch, pool: &NodePool, types: &[InstanceType]) -> Vec<LeftOut> {
        if self.is_empty() || !avoids(pool) {
            return Vec::new();
        }
        let mut ranked = self.ranked(launch, types);
        ranked.sort_by(|a, b| a.ranked_by.total_cmp(&b.ranked_by).then_with(|| a.offering.cmp(&b.offering)));
        let mut left: Vec<LeftOut> =
            ranked.into_iter().skip(CHOICES).filter(|one| one.ranked_by > one.price_per_hour).collect();
        left.sort_by(|a, b| a.offering.cmp(&b.offering));
        left
    }

    /// The spot offerings that a launch may use.
    fn ranked(&self, launch: &Launch, types: &[InstanceType]) -> Vec<LeftOut> {
        let listed: BTreeSet<&str> = launch.instance_types.iter().map(|kind| kind.name.as_str()).collect();
        let mut ranked = Vec::new();
        for kind in types.iter().filter(|kind| listed.contains(kind.name.as_str())) {
            let offerings = kind.available_offerings(&launch.requirements);
            for offering in offerings.filter(|offering| offering.capacity_type == CapacityType::Spot) {
                let (factor, interruptions) = self.factor(&kind.name, &offering.zone);
                ranked.push(LeftOut {
                    offering: OfferingKey {
                        instance_type: kind.name.clone(),
                        zone: offering.zone.clone(),
                        capacity_type: CapacityType::Spot,
                    },
                    price_per_hour: offering.price,
                    ranked_by: offering.price * factor,
                    interruptions,
                });
            }
        }
        ranked
    }

    /// Replaces the most likely offering of launches that do not use it by their cheapest other one.
    pub fn choose_others(&self, launches: &mut [Launch], offers: &[PoolOffer<'_>]) {
        let offers: HashMap<&str, &PoolOffer<'_>> =
            offers.iter().map(|offer| (offer.pool.name.as_str(), offer)).collect();
        for launch in launches {
            let Some(offer) = offers.get(launch.node_pool.as_str()) else { continue };
            let left = self.left_out(launch, offer.pool, &offer.instance_types);
            let is_left = |key: &OfferingKey| left.iter().any(|one| one.offering == *key);
            let chosen = &launch.offering;
            let key = OfferingKey {
                instance_type: chosen.instance_type.clone(),
                zone: chosen.zone.clone(),
                capacity_type: chosen.capacity_type,
            };
            if !is_left(&key) {
                continue;
            }
            let others = self.ranked(launch, &offer.instance_types).into_iter().filter(|one| !is_left(&one.offering));
            let cheapest = others
                .min_by(|a, b| a.price_per_hour.total_cmp(&b.price_per_hour).then_with(|| a.offering.cmp(&b.offering)));
            if let Some(LeftOut { offering, price_per_hour, .. }) = cheapest {
                launch.offering = ChosenOffering {
                    instance_type: offering.instance_type,
                    zone: offering.zone,
                    capacity_type: CapacityType::Spot,
                    price: price_per_hour,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::claim::Charge;
    use nodeless_model::instance_type::Overhead;
    use nodeless_model::labels::SPOT_INTERRUPTIONS;
    use nodeless_model::{Offering, Requirement, Requirements, ResourceList, labels, test_support};
    use nodeless_scheduling::PricedType;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + hours * 3600).unwrap()
    }

    fn interruption(kind: &str, instance: &str, hours: i64) -> SpotInterruption {
        SpotInterruption {
            instance_type: kind.into(),
            zone: "a".into(),
            instance_id: instance.into(),
            at: at(hours),
            until: at(hours + 24),
        }
    }

    /// Types `t00` to `t19`, each 1% more expensive than the one before, as spot in one zone.
    fn types() -> Vec<InstanceType> {
        let offering = |price| Offering {
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            price,
            available: true,
            lacks_price: false,
            reservation: None,
            requirements: Requirements::new(),
        };
        let kind = |number: u32| InstanceType {
            name: format!("t{number:02}"),
            requirements: Requirements::new(),
            capacity: ResourceList::new(),
            ebs_volumes: None,
            root_volume: None,
            overhead: Overhead::default(),
            offerings: vec![offering(1.0 + f64::from(number) / 100.0)],
        };
        (0..20).map(kind).collect()
    }

    fn launch(count: usize) -> Launch {
        let kinds = types().into_iter().take(count);
        let instance_types = kinds.map(|kind| PricedType { price: kind.offerings[0].price, name: kind.name }).collect();
        Launch {
            node_pool: "default".into(),
            node_class: "default".into(),
            pods: vec![0],
            requests: ResourceList::new(),
            instance_types,
            offering: ChosenOffering {
                instance_type: "t00".into(),
                zone: "a".into(),
                capacity_type: CapacityType::Spot,
                price: 1.0,
            },
            requirements: Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]),
            charge: Charge::default(),
            min_values_relaxed: false,
            starts: None,
        }
    }

    fn pool(value: &str) -> NodePool {
        let mut pool = test_support::node_pool("default");
        pool.options.set(SPOT_INTERRUPTIONS, Some(value));
        pool
    }

    fn names(recent: &RecentInterruptions, count: usize) -> Vec<String> {
        let left = recent.left_out(&launch(count), &pool("avoid"), &types());
        left.into_iter().map(|left| left.offering.instance_type).collect()
    }

    #[test]
    fn an_interruption_counts_half_after_six_hours_and_is_forgotten_after_a_day() {
        let recent = |now| RecentInterruptions::new(&[interruption("t00", "i-1", 0)], [], at(now));
        let count = |now| recent(now).factor("t00", "a").1;
        assert!((count(0) - 1.0).abs() < 1e-9 && (count(6) - 0.5).abs() < 1e-9 && (count(12) - 0.25).abs() < 1e-9);
        assert!(recent(24).is_empty());
    }

    #[test]
    fn an_interrupted_offering_is_left_out_if_ten_others_rank_before_it() {
        let recent = RecentInterruptions::new(&[interruption("t00", "i-1", 0)], [], at(0));
        assert!((recent.factor("t00", "a").0 - 1.5).abs() < 1e-9);
        assert_eq!(names(&recent, 20), ["t00"]);
        assert_eq!(names(&recent, 11), ["t00"]);
        assert_eq!(names(&recent, 10), Vec::<String>::new(), "EC2 keeps a choice");
        let other = RecentInterruptions::new(&[interruption("t19", "i-1", 0), interruption("m5", "i-2", 0)], [], at(0));
        assert_eq!(names(&other, 20), ["t19"]);
        // After a day and more nothing is left out, and in between ever fewer others have to rank before it.
        assert_eq!(names(&RecentInterruptions::default(), 20), Vec::<String>::new());
    }

    #[test]
    fn interruptions_count_as_a_fraction_of_the_instances() {
        let mut claim = claim_of("t00");
        let claims: Vec<NodeClaim> = (0..20).map(|_| claim.clone()).collect();
        let recent = RecentInterruptions::new(&[interruption("t00", "i-1", 0)], &claims, at(0));
        assert!((recent.factor("t00", "a").0 - (1.0 + 0.5 / 21.0)).abs() < 1e-9);
        assert_eq!(names(&recent, 20), Vec::<String>::new(), "only three others are cheaper than 1.024");
        claim.status.instance.as_mut().unwrap().capacity_type = CapacityType::OnDemand;
        let on_demand: Vec<NodeClaim> = (0..20).map(|_| claim.clone()).collect();
        let recent = RecentInterruptions::new(&[interruption("t00", "i-1", 0)], &on_demand, at(0));
        assert_eq!(names(&recent, 20), ["t00"]);
    }

    fn claim_of(kind: &str) -> NodeClaim {
        let instance = nodeless_model::claim::LaunchedInstance {
            id: "i-0".into(),
            instance_type: kind.into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            price: 1.0,
            image_id: String::new(),
            private_dns_name: None,
            reservation_id: None,
            subnet_id: None,
            security_group_ids: Vec::new(),
            launched: at(0),
            certificate_authority: None,
        };
        NodeClaim {
            name: "default-abcde".into(),
            uid: "uid".into(),
            node_pool: Some("default".into()),
            node_class: "default".into(),
            created: at(0),
            version: 1,
            spec: Default::default(),
            phase: nodeless_model::Phase::Initialized,
            status: nodeless_model::NodeClaimStatus { instance: Some(instance), ..Default::default() },
        }
    }

    #[test]
    fn the_most_likely_offering_is_one_that_the_launch_uses_with_its_real_price() {
        let recent = RecentInterruptions::new(&[interruption("t00", "i-1", 0)], [], at(0));
        for (value, expected) in [("avoid", ("t01", 1.01)), ("ignore", ("t00", 1.0)), ("yes", ("t00", 1.0))] {
            let pool = pool(value);
            let (usage, cluster) = (Default::default(), None);
            let offers = [PoolOffer { pool: &pool, instance_types: types().into(), usage, cluster }];
            let mut launches = [launch(20)];
            recent.choose_others(&mut launches, &offers);
            let chosen = &launches[0].offering;
            assert_eq!((chosen.instance_type.as_str(), chosen.price), expected, "{value}");
        }
        assert!(avoids(&pool("avoid")) && !avoids(&pool("yes")));
    }
}
