use super::*;

fn catalog() -> Catalog {
    Catalog::synthetic(7, Facts::embedded().unwrap())
}

#[test]
fn an_encoded_catalog_is_decoded_unchanged() {
    let at = |second| Timestamp::from_second(second).ok();
    let catalog = Catalog { read: at(1_800_000_000), on_demand_prices_read: at(1_700_000_000), ..catalog() };
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
}

#[test]
fn the_catalog_of_a_region_is_smaller_than_300_kb() {
    let catalog = catalog();
    assert!(catalog.types.len() > 1_200 && catalog.zones.len() == 6);
    let size = catalog.encode().unwrap().len();
    assert!(size < 300_000, "{size} bytes");
}

#[test]
fn damaged_bytes_are_an_error() {
    let bytes = catalog().encode().unwrap();
    assert!(matches!(Catalog::decode(&[]), Err(StoredCatalogError::Empty)));
    assert!(matches!(Catalog::decode(&[9, 1, 2]), Err(StoredCatalogError::Format { found: 9 })));
    assert!(matches!(Catalog::decode(&bytes[..bytes.len() / 2]), Err(StoredCatalogError::Compression(_))));
    let mut flipped = bytes;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x40;
    let error = Catalog::decode(&flipped).unwrap_err();
    assert!(error.to_string().contains("run the catalog function"), "{error}");
}

#[test]
fn an_unlisted_zone_is_an_error() {
    let mut catalog = catalog();
    catalog.types[0].offers[0].zone = 200;
    let error = Catalog::decode(&catalog.encode().unwrap()).unwrap_err();
    assert!(matches!(error, StoredCatalogError::Zone { zone: 200, .. }), "{error}");
}

#[test]
fn prices_are_stored_with_their_precision() {
    let catalog = catalog();
    for (name, dollars) in &Facts::embedded().unwrap().on_demand_prices {
        if let Some(entry) = catalog.get(name) {
            assert_eq!(entry.on_demand_price.unwrap().dollars(), *dollars, "{name}");
        }
    }
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        assert_eq!(Price::from_dollars(bad), None, "{bad}");
    }
}

#[test]
fn without_spot_prices_on_demand_prices_are_used() {
    let facts = Facts::embedded().unwrap();
    let catalog = Catalog::new(1, facts, OnDemandPriceSource::Embedded, None);
    assert_eq!(catalog.spot_price_source, SpotPriceSource::OnDemand);
    let entry = catalog.get("m5.large").unwrap();
    assert!(entry.offers.iter().all(|offer| offer.spot_price == entry.on_demand_price));
}

#[test]
fn a_zone_without_a_spot_price_has_none() {
    let facts = Facts::embedded().unwrap();
    let spot = SpotPrices::from([("m5.large".into(), BTreeMap::from([("us-east-1b".into(), 0.03)]))]);
    let catalog = Catalog::new(1, facts, OnDemandPriceSource::PriceList, Some(&spot));
    let entry = catalog.get("m5.large").unwrap();
    let priced: Vec<_> = entry.zones(&catalog).filter(|(_, offer)| offer.spot_price.is_some()).collect();
    assert_eq!(priced.len(), 1);
    assert_eq!(priced[0].0.name, "us-east-1b");
    assert!(catalog.get("c5.large").unwrap().offers.iter().all(|offer| offer.spot_price.is_none()));
}

#[test]
fn the_embedded_catalog_has_three_zones_and_reports_that_its_spot_prices_are_synthetic() {
    let catalog = Catalog::embedded().unwrap();
    let zones: Vec<&str> = catalog.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!((catalog.region.as_str(), zones), ("us-east-1", vec!["us-east-1a", "us-east-1b", "us-east-1c"]));
    assert_eq!(catalog.get("m5.large").unwrap().on_demand_price.unwrap().dollars(), 0.096);
    let [on_demand, spot] = catalog.price_sources();
    assert!(on_demand.contains("us-east-1") && spot.contains("synthetic"), "{on_demand}; {spot}");
}

#[test]
fn a_catalog_counts_its_derived_prices_and_keeps_them() {
    let mut facts = Facts::embedded().unwrap().clone();
    assert_eq!(Catalog::synthetic(1, &facts).derived_prices(), None);
    facts.derived_prices = ["c5.large", "m5.large"].map(str::to_owned).into();
    let catalog = Catalog::synthetic(1, &facts);
    let priced = catalog.types.iter().filter(|entry| entry.on_demand_price.is_some()).count();
    assert_eq!(catalog.derived_prices(), Some(format!("2 of {priced} derived from those of us-east-1")));
    assert!(
        catalog.price_sources()[0]
            .ends_with(&format!("(us-east-1, July 2026), 2 of {priced} derived from those of us-east-1"))
    );
    let read = Catalog::decode(&catalog.encode().unwrap()).unwrap();
    assert!(read.has_derived_price("m5.large") && !read.has_derived_price("m5.xlarge"));
}

/// The embedded facts with a Local Zone, where m5.large has a price of its own, and m5.xlarge none.
fn with_local_zone() -> Facts {
    let mut facts = Facts::embedded().unwrap().clone();
    let name = "us-east-1-bos-1a".to_owned();
    facts.zones.insert(0, Zone { name: name.clone(), id: "use1-bos1-az1".to_owned() });
    for instance_type in ["m5.large", "m5.xlarge"] {
        facts.offerings.get_mut(instance_type).unwrap().push(name.clone());
    }
    facts.local_prices.insert(name, BTreeMap::from([("m5.large".to_owned(), 0.115)]));
    facts
}

#[test]
fn a_local_zone_has_prices_of_its_own_or_those_of_the_region_and_no_spot_without_a_price() {
    use nodeless_model::CapacityType::{OnDemand, Spot};
    let facts = with_local_zone();
    let without_spot = Catalog::new(1, &facts, OnDemandPriceSource::PriceList, None);
    for catalog in [&without_spot, &Catalog::synthetic(1, &facts)] {
        let price = |name, zone, kind| catalog.dollars_per_hour(name, zone, kind);
        assert_eq!(price("m5.large", "us-east-1-bos-1a", OnDemand), Some(0.115));
        assert_eq!(price("m5.xlarge", "us-east-1-bos-1a", OnDemand), Some(0.192));
        assert_eq!(price("m5.large", "us-east-1a", OnDemand), Some(0.096));
        assert_eq!(price("m5.large", "us-east-1-bos-1a", Spot), None);
        assert!(price("m5.large", "us-east-1a", Spot).is_some());
    }
    let spot = SpotPrices::from([("m5.large".into(), BTreeMap::from([("us-east-1-bos-1a".into(), 0.04)]))]);
    let catalog = Catalog::new(1, &facts, OnDemandPriceSource::PriceList, Some(&spot));
    assert_eq!(catalog.dollars_per_hour("m5.large", "us-east-1-bos-1a", Spot), Some(0.04));
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
}
