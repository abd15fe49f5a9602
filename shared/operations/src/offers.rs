//! The catalog, decoded once for each version, and the instance types of each EC2NodeClass.

use crate::{node_class, reported_memory};
use futures::lock::Mutex;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_catalog::overlay::{self, Overlaid, Plain};
use nodeless_catalog::unavailable::Unavailable;
use nodeless_catalog::{Catalog, NodeClassSettings, ReportedMemory, UnavailableOfferings};
use nodeless_lifecycle::Learned;
use nodeless_model::instance_type::Offering;
use nodeless_model::shortage::Shortage;
use nodeless_model::{
    CapacityType, Instance, InstanceType, InstanceTypes, NodeClaim, NodeOverlay, Requirement, Requirements, StringMap,
    labels, resources,
};
use nodeless_ports::cloud::LaunchCandidate;
use nodeless_ports::cluster::ClusterView;
use nodeless_ports::{PortError, ShiftedZone};
use nodeless_state::State;
use nodeless_state::capacity::UnavailableOffering;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Why there is no catalog to plan with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The table could not be read.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The catalog function has not run.
    #[error("there is no catalog yet; run the catalog function once, or wait for its schedule")]
    Missing,
    /// The stored catalog cannot be decoded.
    #[error("{0}")]
    Damaged(String),
}

/// Caches the decoded catalog for the life of the process. Decoding takes longer than planning for a small cluster.
#[derive(Default)]
pub struct CatalogCache {
    held: Mutex<Option<(String, Arc<Catalog>)>>,
}

impl CatalogCache {
    /// The stored catalog and its version. It is read and decoded only if the version changed.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn current(&self, stored: &State) -> Result<Arc<Catalog>, CatalogError> {
        let mut held = self.held.lock().await;
        let version = stored.catalog_version().await?.ok_or(CatalogError::Missing)?;
        if let Some((present, catalog)) = held.as_ref()
            && *present == version
        {
            return Ok(catalog.clone());
        }
        let (version, bytes) = stored.catalog().await?.ok_or(CatalogError::Missing)?;
        let catalog = Catalog::decode(&bytes).map_err(|error| CatalogError::Damaged(error.to_string()))?;
        let catalog = Arc::new(catalog);
        *held = Some((version, catalog.clone()));
        Ok(catalog)
    }
}

/// The offerings that are unavailable or in a zone that is shifted away from, in the catalog's form.
pub fn shortages(offerings: &[UnavailableOffering], shifted: &[ShiftedZone], now: Timestamp) -> UnavailableOfferings {
    let records =
        offerings.iter().map(|offering| Unavailable { shortage: offering.shortage.clone(), until: offering.until });
    let zones =
        shifted.iter().map(|shifted| Unavailable { shortage: Shortage::of_zone(&shifted.zone), until: shifted.until });
    UnavailableOfferings::new(records.chain(zones), now)
}

/// The instance types to launch from, cached until their inputs change: a plan every minute must not build hundreds of instance
/// types each time.
#[derive(Default)]
pub struct OfferCache {
    held: std::sync::Mutex<Held>,
}

#[derive(Default)]
struct Held {
    catalog: Option<Arc<Catalog>>,
    short: Vec<UnavailableOffering>,
    shifted: Vec<String>,
    classes: BTreeMap<String, (NodeClassSettings, InstanceTypes)>,
    /// Those of NodePools that determine the size of root volumes.
    pools: BTreeMap<String, (NodeClassSettings, InstanceTypes)>,
    overlaid: Option<(Vec<NodeOverlay>, Vec<PlainPool>, Overlaid)>,
}

/// The properties of a NodePool that decide which overlays apply to it.
type PlainPool = (String, String, StringMap, InstanceTypes);

/// The instance types of one EC2NodeClass, or why there are none.
type OfClass = Result<InstanceTypes, String>;

/// The offerings that cannot be launched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Availability<'a> {
    /// Offerings that EC2 had no capacity for.
    pub unavailable: &'a [UnavailableOffering],
    /// Zones that the cluster is shifted away from.
    pub shifted: &'a [ShiftedZone],
}

impl OfferCache {
    /// The instance types of each EC2NodeClass. They are shared with the previous call if settings, catalog, unavailable
    /// offerings and zonal shifts are unchanged.
    pub fn instance_types(
        &self,
        catalog: &Arc<Catalog>,
        classes: &BTreeMap<String, EC2NodeClass>,
        availability: Availability<'_>,
        memory: &ReportedMemory,
        now: Timestamp,
    ) -> BTreeMap<String, OfClass> {
        let Availability { unavailable: short, shifted } = availability;
        let mut short: Vec<UnavailableOffering> =
            short.iter().filter(|offering| offering.until > now).cloned().collect();
        short.sort();
        // Extending a shift changes no offering.
        let away: Vec<String> = shifted.iter().map(|zone| zone.zone.clone()).collect();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.catalog.as_ref().is_some_and(|known| Arc::ptr_eq(known, catalog))
            || held.short != short
            || held.shifted != away
        {
            *held = Held { catalog: Some(catalog.clone()), short, shifted: away, ..Held::default() };
        }
        held.classes.retain(|name, _| classes.contains_key(name));
        let mut types = BTreeMap::new();
        for (name, class) in classes {
            let of_class = node_class::settings_with(class, catalog).map_err(|problems| problems.to_string()).map(
                |mut settings| {
                    reported_memory::apply(&mut settings, class, memory, now);
                    match held.classes.get(name) {
                        Some((known, types)) if *known == settings => types.clone(),
                        _ => {
                            let short = shortages(&held.short, shifted, now);
                            let types = InstanceTypes::from(catalog.instance_types(&settings, &short));
                            held.classes.insert(name.clone(), (settings, types.clone()));
                            types
                        }
                    }
                },
            );
            types.insert(name.clone(), of_class);
        }
        types
    }

    /// The instance types of each NodePool that determines the size of root volumes, by its name. Everything else is as in the last call of
    /// [`Self::instance_types`].
    pub fn with_root_volumes(
        &self,
        catalog: &Catalog,
        view: &ClusterView,
        shifted: &[ShiftedZone],
        now: Timestamp,
    ) -> BTreeMap<String, InstanceTypes> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut types = BTreeMap::new();
        let before = std::mem::take(&mut held.pools);
        for pool in &view.node_pools {
            let name = &pool.template.node_class;
            let (Some(size), Some(class)) = (pool.options.root_volume.valid(), view.node_classes.get(name)) else {
                continue;
            };
            let Some((settings, _)) = held.classes.get(name) else { continue };
            let settings = node_class::with_root_volume(settings.clone(), class, Some(size.clone()), None);
            let of_pool = match before.get(&pool.name) {
                Some((known, types)) if *known == settings => types.clone(),
                _ => catalog.instance_types(&settings, &shortages(&held.short, shifted, now)).into(),
            };
            held.pools.insert(pool.name.clone(), (settings, of_pool.clone()));
            types.insert(pool.name.clone(), of_pool);
        }
        types
    }

    /// The instance types of each NodePool, with all overlays.
    pub fn overlaid(&self, overlays: &[NodeOverlay], pools: &[Plain<'_>]) -> Overlaid {
        if overlays.is_empty() {
            return overlay::apply(overlays, pools);
        }
        let plain = |plain: &Plain<'_>| {
            let template = &plain.pool.template;
            let (name, class) = (plain.pool.name.clone(), template.node_class.clone());
            (name, class, template.labels.clone(), plain.instance_types.clone())
        };
        let pools_now: Vec<PlainPool> = pools.iter().map(plain).collect();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, before, overlaid)) = &held.overlaid
            && known == overlays
            && before.len() == pools_now.len()
            && before.iter().zip(&pools_now).all(|(a, b)| same_pool(a, b))
        {
            return overlaid.clone();
        }
        let overlaid = overlay::apply(overlays, pools);
        held.overlaid = Some((overlays.to_vec(), pools_now, overlaid.clone()));
        overlaid
    }
}

fn same_pool(a: &PlainPool, b: &PlainPool) -> bool {
    (&a.0, &a.1, &a.2) == (&b.0, &b.1, &b.2) && Arc::ptr_eq(&a.3, &b.3)
}

/// The offerings that may be launched for a claim, the cheapest first: those of its instance types that its requirements allow.
pub fn candidates(claim: &NodeClaim, types: &[InstanceType]) -> Vec<LaunchCandidate> {
    let by_name: BTreeMap<&str, &InstanceType> = types.iter().map(|kind| (kind.name.as_str(), kind)).collect();
    let mut candidates = Vec::new();
    for kind in claim.spec.instance_types.iter().filter_map(|name| by_name.get(name.as_str())) {
        let labels = kind.requirements.single_values();
        let architecture = labels.get(labels::ARCH).cloned().unwrap_or_default();
        let count = |name: &str| u32::try_from(kind.capacity.get(name).units()).unwrap_or(0);
        for offering in kind.available_offerings(&claim.spec.requirements) {
            let mut labels = labels.clone();
            labels.extend(offering.requirements.single_values());
            candidates.push(LaunchCandidate {
                instance_type: kind.name.clone(),
                architecture: architecture.clone(),
                labels,
                max_pods: count(resources::name::PODS),
                kube_reserved: kind.overhead.kube_reserved.clone(),
                system_reserved: kind.overhead.system_reserved.clone(),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
                price: offering.price,
                reservation_id: offering.reservation.as_ref().map(|reservation| reservation.id.clone()),
                partition: partition(claim, kind, offering),
                efa_interfaces: count(nodeless_catalog::instance_types::resource::AWS_EFA),
                root_volume_gib: kind.root_volume.map(|volumes| volumes.planned.gib),
            });
        }
    }
    let key = |candidate: &LaunchCandidate| {
        (candidate.instance_type.clone(), candidate.zone.clone(), candidate.capacity_type)
    };
    candidates.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| key(a).cmp(&key(b))));
    let avoided = &claim.spec.avoided_offerings;
    let is_avoided = |candidate: &LaunchCandidate| {
        avoided.iter().any(|key| {
            key.capacity_type == candidate.capacity_type
                && key.instance_type == candidate.instance_type
                && key.zone == candidate.zone
        })
    };
    // A launch budget is a precaution. If the offerings that it left are unavailable now, launching anyway is better than
    // failing.
    if !candidates.iter().all(is_avoided) {
        candidates.retain(|candidate| !is_avoided(candidate));
    }
    candidates
}

/// The partition of the placement group to launch into: the first with capacity that the claim allows, as in Karpenter, or `None`
/// if the claim allows all, so that EC2 chooses.
fn partition(claim: &NodeClaim, kind: &InstanceType, offering: &Offering) -> Option<u32> {
    let numbers = |requirements: &Requirements| {
        let values = requirements.get(labels::PLACEMENT_GROUP_PARTITION).and_then(Requirement::values);
        values.into_iter().flatten().filter_map(|value| value.parse().ok()).collect::<Vec<u32>>()
    };
    let required = claim.spec.requirements.get(labels::PLACEMENT_GROUP_PARTITION)?;
    let allows = |number: &u32| required.has(&number.to_string());
    if numbers(&kind.requirements).iter().all(allows) {
        return None;
    }
    numbers(&offering.requirements).into_iter().filter(allows).min()
}

/// The labels, capacity and price of an instance, from the catalog. For an instance type that the catalog does not list, only
/// what EC2 returned.
pub fn learn(instance: &Instance, types: &[InstanceType]) -> Learned {
    let mut fixed = StringMap::from([
        (labels::INSTANCE_TYPE.to_owned(), instance.instance_type.clone()),
        (labels::ZONE.to_owned(), instance.zone.clone()),
        (labels::CAPACITY_TYPE.to_owned(), instance.capacity_type.as_str().to_owned()),
    ]);
    let reservation = instance.reservation_id.as_ref().filter(|_| instance.capacity_type == CapacityType::Reserved);
    fixed.extend(reservation.map(|id| (labels::CAPACITY_RESERVATION_ID.to_owned(), id.clone())));
    let Some(kind) = types.iter().find(|kind| kind.name == instance.instance_type) else {
        return Learned { labels: fixed, ..Learned::default() };
    };
    let offering = kind.offerings.iter().find(|offering| {
        offering.zone == instance.zone
            && offering.capacity_type == instance.capacity_type
            && offering.reservation.as_ref().map(|reserved| &reserved.id) == reservation
    });
    let mut learned = kind.requirements.single_values();
    if let Some(offering) = offering {
        learned.extend(offering.requirements.single_values());
    }
    if instance.capacity_type != CapacityType::Reserved {
        learned.remove(labels::CAPACITY_RESERVATION_ID);
    }
    // Which of the partitions with capacity EC2 has chosen is not a fact about the offering.
    learned.remove(labels::PLACEMENT_GROUP_PARTITION);
    learned.extend(instance.partition.map(|number| (labels::PLACEMENT_GROUP_PARTITION.to_owned(), number.to_string())));
    learned.append(&mut fixed);
    let without_zeros = |list: nodeless_model::ResourceList| {
        list.iter()
            .filter(|(_, quantity)| !quantity.is_zero())
            .map(|(name, quantity)| (name.to_owned(), quantity))
            .collect()
    };
    let partitions = kind.requirements.get(labels::PLACEMENT_GROUP_PARTITION);
    Learned {
        labels: learned,
        awaits_partition: instance.partition.is_none() && partitions.is_some_and(|one| !one.allows_absence()),
        capacity: without_zeros(kind.capacity.clone()),
        allocatable: without_zeros(kind.allocatable()),
        price: offering.map_or(0.0, |offering| offering.price),
        root_volume: kind.root_volume.map(|volumes| volumes.planned),
    }
}

/// A catalog's version: when it was written, in seconds since 1970.
pub fn catalog_version(now: Timestamp) -> String {
    format!("{}", now.as_second())
}

/// The time at which a version of the catalog was written.
pub fn catalog_written(version: &str) -> Option<Timestamp> {
    Timestamp::from_second(version.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_catalog::Facts;
    use nodeless_model::PriceChange;

    fn class(zone: &str) -> EC2NodeClass {
        serde_json::from_value(serde_json::json!({
            "metadata": { "name": "default" },
            "spec": {
                "role": "node", "amiSelectorTerms": [{ "alias": "al2023@latest" }],
                "subnetSelectorTerms": [{ "id": "subnet-1" }], "securityGroupSelectorTerms": [{ "id": "sg-1" }],
            },
            "status": { "subnets": [{ "id": "subnet-1", "zone": zone, "zoneID": "use1-az1" }] },
        }))
        .unwrap()
    }

    fn catalog() -> Arc<Catalog> {
        let mut catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
        catalog.types.retain(|entry| entry.facts.name == "m6i.large");
        Arc::new(catalog)
    }

    fn short(until: i64) -> UnavailableOffering {
        UnavailableOffering {
            shortage: Shortage::of_offering("m6i.large", "us-east-1a", CapacityType::Spot),
            until: Timestamp::from_second(until).unwrap(),
            reason: "InsufficientInstanceCapacity".into(),
        }
    }

    #[test]
    fn instance_types_are_made_anew_only_when_something_changed() {
        let (cache, catalog, now) = (OfferCache::default(), catalog(), Timestamp::from_second(100).unwrap());
        let made = |catalog: &Arc<Catalog>, zone: &str, short: &[UnavailableOffering]| {
            let availability = Availability { unavailable: short, shifted: &[] };
            let classes = BTreeMap::from([("default".to_owned(), class(zone))]);
            cache.instance_types(catalog, &classes, availability, &ReportedMemory::default(), now)["default"]
                .clone()
                .unwrap()
        };
        let first = made(&catalog, "us-east-1a", &[]);
        assert!(Arc::ptr_eq(&first, &made(&catalog, "us-east-1a", &[short(90)])), "that shortage has passed");
        let fewer = made(&catalog, "us-east-1a", &[short(190)]);
        assert!(!Arc::ptr_eq(&first, &fewer) && first != fewer);
        assert!(Arc::ptr_eq(&fewer, &made(&catalog, "us-east-1a", &[short(190)])));
        let elsewhere = made(&catalog, "us-east-1b", &[short(190)]);
        assert_ne!(fewer, elsewhere);
        let copy = Arc::new(catalog.as_ref().clone());
        assert!(!Arc::ptr_eq(&elsewhere, &made(&copy, "us-east-1b", &[short(190)])), "another catalog");
    }

    #[test]
    fn a_zone_that_is_shifted_away_from_offers_nothing_until_that_is_over() {
        let (cache, catalog, now) = (OfferCache::default(), catalog(), Timestamp::from_second(100).unwrap());
        let made = |until: &[i64]| {
            let zone = |until: &i64| ShiftedZone {
                zone_id: "use1-az1".into(),
                zone: "us-east-1a".into(),
                until: Timestamp::from_second(*until).unwrap(),
            };
            let shifted: Vec<ShiftedZone> = until.iter().map(zone).collect();
            let availability = Availability { unavailable: &[], shifted: &shifted };
            let classes = BTreeMap::from([("default".to_owned(), class("us-east-1a"))]);
            cache.instance_types(&catalog, &classes, availability, &ReportedMemory::default(), now)["default"]
                .clone()
                .unwrap()
        };
        let available = |types: &InstanceTypes| types[0].offerings.iter().filter(|offering| offering.available).count();
        assert_eq!(available(&made(&[])), 2, "on-demand and spot");
        let shifted = made(&[200]);
        assert_eq!(available(&shifted), 0);
        assert!(Arc::ptr_eq(&shifted, &made(&[300])), "it was extended, nothing else");
        assert_eq!(available(&made(&[])), 2);
    }

    #[test]
    fn overlays_are_applied_anew_only_when_something_changed() {
        let (cache, catalog, now) = (OfferCache::default(), catalog(), Timestamp::from_second(100).unwrap());
        let classes = BTreeMap::from([("default".to_owned(), class("us-east-1a"))]);
        let availability = Availability::default();
        let types = cache.instance_types(&catalog, &classes, availability, &ReportedMemory::default(), now)["default"]
            .clone()
            .unwrap();
        let pool = nodeless_api::NodePool::new(
            "default",
            serde_json::from_value(serde_json::json!({ "template": { "spec": {
                "requirements": [], "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            } } }))
            .unwrap(),
        );
        let pool = nodeless_model::NodePool::from(&pool);
        let overlay = |dollars| NodeOverlay {
            name: "o".into(),
            weight: 0,
            requirements: nodeless_model::Requirements::new(),
            price: Some(PriceChange::Absolute(dollars)),
            capacity: nodeless_model::ResourceList::new(),
            valid: Ok(()),
        };
        let made = |dollars| {
            let plain = Plain { pool: &pool, instance_types: types.clone() };
            cache.overlaid(&[overlay(dollars)], &[plain]).pools["default"].instance_types.clone()
        };
        let first = made(1.0);
        assert!(Arc::ptr_eq(&first, &made(1.0)));
        let other = made(2.0);
        assert!(!Arc::ptr_eq(&first, &other) && (other[0].offerings[0].price - 2.0).abs() < 1e-9);
    }
}
