//! Current spot prices.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::SpotPrice;
use aws_smithy_types::DateTime;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::{SpotPriceSource, SpotPrices};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;

const OPERATION: &str = "EC2 DescribeSpotPriceHistory";
const PRICES_A_PAGE: i32 = 1000;
/// Newer accounts have the first, the oldest ones the second.
const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// A price with its age, by instance type and zone.
type Aged = BTreeMap<(String, String), (DateTime, f64)>;

/// Reads the current price of every type in every zone: a history that starts now contains only the last entry of each.
///
/// # Errors
/// When EC2 cannot be read, or returns no price at all.
pub(super) async fn read(client: &Client, now: Timestamp) -> Result<SpotPrices, PortError> {
    let mut latest = Aged::new();
    let mut pages = client
        .describe_spot_price_history()
        .set_product_descriptions(Some(PRODUCTS.map(str::to_owned).to_vec()))
        .start_time(DateTime::from_secs(now.as_second()))
        .into_paginator()
        .page_size(PRICES_A_PAGE)
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error(OPERATION, &error))?;
        for entry in page.spot_price_history() {
            add(&mut latest, entry);
        }
    }
    if latest.is_empty() {
        return Err(PortError::new(ErrorKind::Unavailable, OPERATION, "EC2 returned no spot price in this region"));
    }
    let mut prices = SpotPrices::new();
    for ((instance_type, zone), (_, price)) in latest {
        prices.entry(instance_type).or_default().insert(zone, price);
    }
    Ok(prices)
}

/// Adds an entry, unless there is a newer one of its type and zone. Entries without type, zone, time or price are ignored.
fn add(latest: &mut Aged, entry: &SpotPrice) {
    let price = entry.spot_price().and_then(|price| price.parse::<f64>().ok());
    let (Some(kind), Some(zone), Some(at), Some(price)) =
        (entry.instance_type(), entry.availability_zone(), entry.timestamp(), price)
    else {
        return;
    };
    let key = (kind.as_str().to_owned(), zone.to_owned());
    if latest.get(&key).is_none_or(|(known, _)| known < at) {
        latest.insert(key, (*at, price));
    }
}

/// The prices of a catalog, if they were read from the history.
pub(super) fn of_catalog(catalog: Option<&Catalog>) -> Option<SpotPrices> {
    let catalog = catalog.filter(|catalog| catalog.spot_price_source == SpotPriceSource::History)?;
    let priced = catalog.types.iter().map(|entry| {
        let prices =
            entry.zones(catalog).filter_map(|(zone, offer)| Some((zone.name.clone(), offer.spot_price?.dollars())));
        (entry.facts.name.clone(), prices.collect())
    });
    Some(priced.collect())
}

/// New prices override old ones: a pool without a current price keeps its last one.
pub(super) fn merge(old: Option<SpotPrices>, new: SpotPrices) -> SpotPrices {
    let mut merged = old.unwrap_or_default();
    for (instance_type, zones) in new {
        merged.entry(instance_type).or_default().extend(zones);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ec2::types::InstanceType;
    use nodeless_catalog::Facts;
    use nodeless_catalog::stored::OnDemandPriceSource;

    fn prices(list: &[(&str, &str, f64)]) -> SpotPrices {
        let mut prices = SpotPrices::new();
        for (kind, zone, price) in list {
            prices.entry((*kind).to_owned()).or_default().insert((*zone).to_owned(), *price);
        }
        prices
    }

    #[test]
    fn the_newest_entry_of_a_pool_counts() {
        let entry = |zone: &str, at: i64, price: &str| {
            SpotPrice::builder()
                .instance_type(InstanceType::from("m5.large"))
                .availability_zone(zone)
                .timestamp(DateTime::from_secs(at))
                .spot_price(price)
                .build()
        };
        let mut latest = Aged::new();
        for entry in [entry("a", 2, "0.03"), entry("a", 1, "0.01"), entry("a", 3, "0.04"), entry("b", 1, "none")] {
            add(&mut latest, &entry);
        }
        let found: Vec<f64> = latest.values().map(|(_, price)| *price).collect();
        assert_eq!(found, [0.04]);
    }

    #[test]
    fn only_prices_of_the_history_are_carried_on() {
        let facts = Facts::embedded().unwrap().within_zones(&["us-east-1a"]);
        let read = prices(&[("m5.large", "us-east-1a", 0.031)]);
        let catalog = Catalog::new(1, &facts, OnDemandPriceSource::Embedded, Some(&read));
        assert_eq!(of_catalog(Some(&catalog)).unwrap()["m5.large"]["us-east-1a"], 0.031);
        assert_eq!(of_catalog(Some(&Catalog::new(1, &facts, OnDemandPriceSource::Embedded, None))), None);
        assert_eq!(of_catalog(Some(&Catalog::synthetic(1, &facts))), None);
    }

    #[test]
    fn a_pool_without_a_price_now_keeps_its_last_one() {
        let old = prices(&[("m5.large", "a", 0.03), ("m5.large", "b", 0.02)]);
        let merged = merge(Some(old), prices(&[("m5.large", "a", 0.05)]));
        assert_eq!(merged, prices(&[("m5.large", "a", 0.05), ("m5.large", "b", 0.02)]));
    }
}
