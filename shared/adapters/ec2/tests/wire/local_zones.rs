//! Local Zones: their offerings, their prices, and a launch there.

use crate::support::{SimulatedAws, candidate, claim};
use nodeless_catalog::facts::{Facts, Zone};
use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, NodeClassSettings, UnavailableOfferings};
use nodeless_model::CapacityType;
use nodeless_ports::cloud::{LaunchCandidate, LaunchRequest};
use nodeless_ports::{CatalogSource as _, Cloud as _};
use serde_json::json;
use std::collections::BTreeMap;

const LOCAL: &str = "us-west-2-lax-1a";

/// The zones a and b of us-west-2, and a Local Zone that sells two types, one of them at a price of its own.
fn with_local_zone() -> Facts {
    let mut facts = Facts::of_region("us-west-2").unwrap().within_zones(&["us-west-2a", "us-west-2b"]);
    facts.instance_types.retain(|name, _| ["m5.large", "m5.metal", "m5.xlarge"].contains(&name.as_str()));
    facts.zones.insert(0, Zone { name: LOCAL.to_owned(), id: "usw2-lax1-az1".to_owned() });
    for instance_type in ["m5.large", "m5.xlarge"] {
        facts.offerings.get_mut(instance_type).unwrap().push(LOCAL.to_owned());
    }
    facts.local_prices.insert(LOCAL.to_owned(), BTreeMap::from([("m5.large".to_owned(), 0.115)]));
    facts
}

fn on_demand(catalog: &Catalog, instance_type: &str, zone: &str) -> Option<f64> {
    catalog.dollars_per_hour(instance_type, zone, CapacityType::OnDemand)
}

#[tokio::test]
async fn the_catalog_has_the_offerings_and_prices_of_a_local_zone() {
    let world = SimulatedAws::selling(&with_local_zone()).await;
    let catalog = world.source().catalog(None).await.unwrap();
    let names: Vec<&str> = catalog.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, [LOCAL, "us-west-2a", "us-west-2b"]);
    assert_eq!(on_demand(&catalog, "m5.large", LOCAL), Some(0.115));
    assert_eq!(on_demand(&catalog, "m5.large", "us-west-2a"), Some(0.096));
    assert_eq!(on_demand(&catalog, "m5.xlarge", LOCAL), Some(0.192), "the region's, because the zone has none");
    assert_eq!(on_demand(&catalog, "m5.metal", LOCAL), on_demand(&catalog, "m5.metal", "us-west-2a"));
    assert!(catalog.get("m5.metal").unwrap().zones(&catalog).all(|(zone, _)| zone.name != LOCAL));

    // A refresh within twelve hours keeps the prices.
    world.ec2.deny("GetProducts");
    let aged = Catalog { read: None, ..catalog.clone() };
    assert_eq!(on_demand(&world.source().catalog(Some(&aged)).await.unwrap(), "m5.large", LOCAL), Some(0.115));
}

#[tokio::test]
async fn a_node_is_launched_in_the_local_zone_of_a_selected_subnet() {
    let world = SimulatedAws::selling(&with_local_zone()).await;
    let class = world.resolved(json!({ "subnetSelectorTerms": [{ "id": "subnet-0a000000000000000" }] })).await;
    let subnets = &class.status.as_ref().unwrap().subnets;
    assert_eq!(subnets.iter().map(|subnet| subnet.zone.as_str()).collect::<Vec<_>>(), [LOCAL]);
    let zones = subnets.iter().map(|subnet| Zone { name: subnet.zone.clone(), id: subnet.zone_id.clone().unwrap() });
    let settings = NodeClassSettings::new(AmiFamily::Al2023, zones.collect());
    let catalog = world.source().catalog(None).await.unwrap();
    let types = catalog.instance_types(&settings, &UnavailableOfferings::default());
    let available: Vec<_> = types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind.name.as_str(), offering)))
        .filter(|(_, offering)| offering.available)
        .map(|(name, offering)| (name, offering.zone.as_str(), offering.capacity_type, offering.price))
        .collect();
    let expected =
        [("m5.large", LOCAL, CapacityType::OnDemand, 0.115), ("m5.xlarge", LOCAL, CapacityType::OnDemand, 0.192)];
    assert_eq!(available, expected);

    let candidate = candidate("m5.large", "a", CapacityType::OnDemand, 0.115);
    let candidates = [LaunchCandidate { zone: LOCAL.to_owned(), ..candidate }];
    let request = LaunchRequest { claim: &claim("group-1", 1), node_class: &class, candidates: &candidates };
    let outcome = world.cloud().launch(request).await.unwrap();
    assert_eq!(outcome.instances[0].zone, LOCAL, "{outcome:?}");
}
