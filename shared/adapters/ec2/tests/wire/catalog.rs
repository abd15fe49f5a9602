//! The catalog as it is read from EC2 and the Price List.

use crate::support::{SimulatedAws, facts};
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::{OnDemandPriceSource, SpotPriceSource};
use nodeless_fake_aws::RegionFacts;
use nodeless_model::CapacityType;
use nodeless_ports::{CatalogSource, ErrorKind};
use std::sync::Arc;

#[tokio::test]
async fn the_catalog_contains_what_ec2_and_the_price_list_return() {
    // The simulated account sells the embedded facts at synthetic spot prices, so the catalog of those is what is expected.
    let facts = facts();
    let world = SimulatedAws::selling(&facts).await;
    world.calls_take(200);
    let catalog = world.source().catalog(None).await.unwrap();
    let expected = Catalog::synthetic(0, &facts);
    assert_eq!((&catalog.region, &catalog.zones), (&expected.region, &expected.zones));
    let names = |catalog: &Catalog| catalog.types.iter().map(|entry| entry.facts.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&catalog), names(&expected));
    for (read, other) in catalog.types.iter().zip(&expected.types) {
        assert_eq!(read.facts, other.facts);
        assert_eq!(read.on_demand_price, other.on_demand_price, "{}", read.facts.name);
        // A type that is not sold as spot has a made-up price in the expected catalog only.
        if read.facts.spot {
            assert_eq!(read.offers, other.offers, "{}", read.facts.name);
        }
    }
    assert_eq!(catalog.on_demand_price_source, OnDemandPriceSource::PriceList);
    assert_eq!(catalog.spot_price_source, SpotPriceSource::History);
    assert!(catalog.read.is_some() && catalog.on_demand_prices_read.is_some());
}

#[tokio::test]
async fn a_price_list_that_throttles_is_read_to_the_end() {
    let world = SimulatedAws::selling(&facts()).await;
    world.calls_take(40);
    let catalog = world.source().catalog(None).await.unwrap();
    assert_eq!(catalog.on_demand_price_source, OnDemandPriceSource::PriceList);
    let throttled = |call: &nodeless_fake_aws::RecordedCall| call.error.as_deref() == Some("ThrottlingException");
    assert!(world.ec2.calls().iter().any(throttled), "more calls than the bucket has tokens");

    // Another program uses it up, for as long as it is asked.
    world.calls_take(0);
    let aged = Catalog { on_demand_prices_read: hours_ago(12), ..catalog.clone() };
    let read = world.source().catalog(Some(&aged)).await.unwrap();
    assert_eq!((read.on_demand_price_source, &read.types), (OnDemandPriceSource::PriceList, &catalog.types));
    assert_eq!(read.on_demand_prices_read, aged.on_demand_prices_read, "the next refresh tries again");
}

#[tokio::test]
async fn a_fresh_catalog_is_not_read_again() {
    let world = SimulatedAws::new().await;
    let source = world.source();
    let catalog = source.catalog(None).await.unwrap();
    let calls = world.ec2.call_counts();
    assert_eq!(source.catalog(Some(&catalog)).await.unwrap(), catalog);
    // Reservations and placement groups change by the minute.
    let mut calls_after = world.ec2.call_counts();
    for each_time in ["ec2:DescribeCapacityReservations", "ec2:DescribePlacementGroups"] {
        calls_after.insert(each_time.to_owned(), calls.get(each_time).copied().unwrap_or_default());
    }
    calls_after.retain(|_, count| *count > 0);
    assert_eq!(calls_after, calls);

    // An hour later types and spot prices are read again, but on-demand prices serve on.
    let aged = Catalog { read: hours_ago(1), on_demand_prices_read: hours_ago(11), ..catalog.clone() };
    let read = source.catalog(Some(&aged)).await.unwrap();
    assert_eq!(world.calls("pricing:GetProducts"), calls["pricing:GetProducts"]);
    assert!(world.calls("ec2:DescribeInstanceTypes") > calls["ec2:DescribeInstanceTypes"]);
    assert_eq!((read.on_demand_prices_read, &read.types), (aged.on_demand_prices_read, &catalog.types));

    let aged = Catalog { on_demand_prices_read: hours_ago(12), ..aged };
    let read = source.catalog(Some(&aged)).await.unwrap();
    assert_eq!(world.calls("pricing:GetProducts"), 2 * calls["pricing:GetProducts"]);
    assert!(read.on_demand_prices_read > aged.on_demand_prices_read);

    // Another region's catalog is no help.
    let foreign = Catalog { region: "eu-west-1".into(), ..catalog };
    source.catalog(Some(&foreign)).await.unwrap();
    assert_eq!(world.calls("pricing:GetProducts"), 3 * calls["pricing:GetProducts"]);
}

fn hours_ago(hours: i64) -> Option<Timestamp> {
    Some(Timestamp::now() - SignedDuration::from_hours(hours))
}

#[tokio::test]
async fn prices_that_cannot_be_read_never_fail_the_catalog() {
    let world = SimulatedAws::new().await;
    let source = world.source();
    let good = source.catalog(None).await.unwrap();
    for api in ["GetProducts", "DescribeSpotPriceHistory"] {
        world.ec2.deny(api);
    }
    assert!(world.events().is_empty());
    let without = source.catalog(None).await.unwrap();
    let events = world.events();
    assert_eq!(events.keys().collect::<Vec<_>>(), ["on-demand-prices-unread", "spot-prices-unread"]);
    assert_eq!(events["on-demand-prices-unread"]["source"], "Embedded", "{events:?}");
    assert_eq!(events["spot-prices-unread"]["kept"], false, "{events:?}");
    assert_eq!(without.on_demand_price_source, OnDemandPriceSource::Embedded);
    assert_eq!(without.spot_price_source, SpotPriceSource::OnDemand);
    assert_eq!((without.read, without.on_demand_prices_read), (None, None), "so that the next refresh tries again");
    assert_eq!(without.get("m5.large").unwrap().on_demand_price, good.get("m5.large").unwrap().on_demand_price);

    let aged = Catalog { read: hours_ago(2), on_demand_prices_read: hours_ago(20), ..good.clone() };
    let kept = source.catalog(Some(&aged)).await.unwrap();
    assert_eq!(kept, aged);
}

#[tokio::test]
async fn new_prices_and_zones_come_through() {
    let world = SimulatedAws::new().await;
    let source = world.source();
    let before = source.catalog(None).await.unwrap();
    world.ec2.change_account(|account| {
        let mut facts: RegionFacts = (*account.facts).clone();
        let sold = facts.types.get_mut("m5.large").unwrap();
        sold.on_demand_price = Some(0.2);
        sold.spot_prices = [("us-east-1b".to_owned(), 0.05)].into();
        sold.zones = vec!["us-east-1b".to_owned()];
        account.facts = Arc::new(facts);
    });
    let aged = Catalog { read: hours_ago(2), on_demand_prices_read: hours_ago(20), ..before };
    let catalog = source.catalog(Some(&aged)).await.unwrap();
    let entry = catalog.get("m5.large").unwrap();
    assert_eq!(entry.on_demand_price.unwrap().dollars(), 0.2);
    let zones: Vec<(&str, f64)> =
        entry.zones(&catalog).map(|(zone, offer)| (zone.name.as_str(), offer.spot_price.unwrap().dollars())).collect();
    assert_eq!(zones, [("us-east-1b", 0.05)]);
}

#[tokio::test]
async fn types_and_offerings_that_cannot_be_read_fail_it() {
    let world = SimulatedAws::new().await;
    let source = world.source();
    for api in ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeAvailabilityZones"] {
        world.ec2.deny(api);
        let error = source.catalog(None).await.unwrap_err();
        assert!(error.kind == ErrorKind::Denied && error.operation.contains(api), "{error}");
        world.ec2.allow(api);
    }
    world.ec2.throttle("DescribeInstanceTypes", 3);
    assert_eq!(source.catalog(None).await.unwrap_err().kind, ErrorKind::Throttled);
}

#[tokio::test]
async fn instance_types_can_be_made_from_it() {
    let world = SimulatedAws::new().await;
    let class = world.resolved(serde_json::json!({})).await;
    let catalog = world.source().catalog(None).await.unwrap();
    let zones = class
        .status
        .unwrap()
        .subnets
        .into_iter()
        .map(|subnet| nodeless_catalog::facts::Zone { name: subnet.zone, id: subnet.zone_id.unwrap_or_default() });
    let settings =
        nodeless_catalog::NodeClassSettings::new(nodeless_catalog::node_class::AmiFamily::Al2023, zones.collect());
    let types = catalog.instance_types(&settings, &nodeless_catalog::UnavailableOfferings::default());
    let large = types.iter().find(|kind| kind.name == "m5.large").unwrap();
    let spot = large.offerings.iter().filter(|offering| offering.capacity_type == CapacityType::Spot);
    assert_eq!(spot.filter(|offering| offering.available).count(), 2);
}

#[tokio::test]
async fn a_regions_catalog_can_be_exported_and_read_again() {
    let world = SimulatedAws::new().await;
    let (facts, catalog) = nodeless_ec2::read_region(&world.config, world.context()).await.unwrap();
    assert_eq!(catalog.on_demand_price_source, OnDemandPriceSource::PriceList);
    let file = nodeless_catalog::file::write(&facts, &catalog).unwrap();
    let read = nodeless_catalog::file::parse(file.as_bytes()).unwrap();
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    assert_eq!((&read.catalog.region, &read.catalog.zones), (&catalog.region, &catalog.zones));
    let names = |catalog: &Catalog| catalog.types.iter().map(|entry| entry.facts.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&read.catalog), names(&catalog));
    let price = |catalog: &Catalog| catalog.get("m5.large").unwrap().on_demand_price;
    assert_eq!(price(&read.catalog), price(&catalog));
}
