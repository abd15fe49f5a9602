//! On-demand prices from the Price List.

use aws_sdk_pricing::Client;
use aws_sdk_pricing::types::{Filter, FilterType};
use jiff::{SignedDuration, Timestamp};
use nodeless_aws::port_error;
use nodeless_catalog::Catalog;
use nodeless_catalog::facts::AssumedPrices;
use nodeless_catalog::stored::OnDemandPriceSource;
use nodeless_ports::{ErrorKind, PortError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const OPERATION: &str = "Price List GetProducts";
/// How long prices are used before they are read again, as in Karpenter. On-demand prices change a few times a year.
const REFRESH: SignedDuration = SignedDuration::from_hours(12);
/// The maximum page size of the Price List.
const PRODUCTS_A_PAGE: i32 = 100;

/// The tenancies of Linux instances in the Price List: virtual machines as shared, bare metal as dedicated.
const KINDS: [(&str, &str); 2] = [("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)")];

/// On-demand prices by instance type, in dollars an hour (yuan in China's regions).
type ByType = BTreeMap<String, f64>;

/// On-demand prices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Prices {
    /// Those of the region.
    pub(super) by_type: ByType,
    /// Those of Local Zones and Wavelength Zones, by zone. Where the Price List has none, the region's are used.
    pub(super) by_local_zone: BTreeMap<String, ByType>,
    /// The instance types whose price in `by_type` is derived, as embedded ones may be.
    pub(super) derived: BTreeSet<String>,
}

/// On-demand prices and their source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnDemandPrices {
    pub(super) prices: Prices,
    pub(super) source: OnDemandPriceSource,
    pub(super) read: Option<Timestamp>,
}

/// The region of the Price List endpoint for a region; `None` if there is none, as in the GovCloud regions.
pub(super) fn price_list_region(region: &str) -> Option<&'static str> {
    if region.starts_with("us-gov-") || region.contains("-iso") || region.starts_with("eusc-") {
        return None;
    }
    let prefix = region.split('-').next().unwrap_or_default();
    Some(match prefix {
        "ap" => "ap-south-1",
        "cn" => "cn-northwest-1",
        "eu" => "eu-central-1",
        _ => "us-east-1",
    })
}

/// Whether prices are to be read again.
pub(super) fn due(previous: Option<&Catalog>, now: Timestamp) -> bool {
    previous.and_then(|catalog| catalog.on_demand_prices_read).is_none_or(|read| now.duration_since(read) >= REFRESH)
}

/// The prices if none were read: those of the previous catalog if they came from the Price List, otherwise the embedded ones.
pub(super) fn fallback(previous: Option<&Catalog>, embedded: AssumedPrices) -> OnDemandPrices {
    match previous {
        Some(catalog) if catalog.on_demand_price_source == OnDemandPriceSource::PriceList => OnDemandPrices {
            prices: of_catalog(catalog),
            source: OnDemandPriceSource::PriceList,
            read: catalog.on_demand_prices_read,
        },
        _ => {
            let AssumedPrices { by_type, derived } = embedded;
            let prices = Prices { by_type, derived, by_local_zone: BTreeMap::new() };
            OnDemandPrices { prices, source: OnDemandPriceSource::Embedded, read: None }
        }
    }
}

/// New prices override those of the previous catalog, so that a type that is missing in the Price List keeps its price. Embedded
/// prices are not combined with new ones, because they may be of another region.
pub(super) fn merge(previous: Option<&Catalog>, new: Prices, now: Timestamp) -> OnDemandPrices {
    let mut prices = match previous {
        Some(catalog) if catalog.on_demand_price_source == OnDemandPriceSource::PriceList => of_catalog(catalog),
        _ => Prices::default(),
    };
    prices.by_type.extend(new.by_type);
    for (zone, by_type) in new.by_local_zone {
        prices.by_local_zone.entry(zone).or_default().extend(by_type);
    }
    OnDemandPrices { prices, source: OnDemandPriceSource::PriceList, read: Some(now) }
}

fn of_catalog(catalog: &Catalog) -> Prices {
    let mut prices = Prices::default();
    for entry in &catalog.types {
        let name = &entry.facts.name;
        prices.by_type.extend(entry.on_demand_price.map(|price| (name.clone(), price.dollars())));
        for (zone, offer) in entry.zones(catalog) {
            if let Some(price) = offer.on_demand_price {
                prices.by_local_zone.entry(zone.name.clone()).or_default().insert(name.clone(), price.dollars());
            }
        }
    }
    prices
}

/// Reads the prices of a region, and those of its Local Zones and Wavelength Zones, given with their zone groups: in the Price List the
/// region code of such a zone is its group, such as `us-west-2-lax-1`.
///
/// # Errors
/// When the Price List cannot be read, or lists no virtual machines or no bare metal, which every region has.
pub(super) async fn read(
    client: &Client,
    region: &str,
    local_groups: &BTreeMap<String, String>,
) -> Result<Prices, PortError> {
    let mut prices = Prices::default();
    for (tenancy, family) in KINDS {
        let found = read_kind(client, region, tenancy, family).await?;
        if found.is_empty() {
            let message = format!("the Price List has no Linux price of {family} in {region}");
            return Err(PortError::new(ErrorKind::Unavailable, OPERATION, message));
        }
        prices.by_type.extend(found);
    }
    let groups: BTreeSet<&String> = local_groups.values().collect();
    for group in groups {
        let found = read_group(client, group).await?;
        let zones = local_groups.iter().filter(|(_, of_zone)| *of_zone == group);
        prices.by_local_zone.extend(zones.map(|(zone, _)| (zone.clone(), found.clone())));
    }
    Ok(prices)
}

async fn read_group(client: &Client, group: &str) -> Result<ByType, PortError> {
    let mut prices = ByType::new();
    for (tenancy, family) in KINDS {
        prices.extend(read_kind(client, group, tenancy, family).await?);
    }
    Ok(prices)
}

async fn read_kind(client: &Client, region: &str, tenancy: &str, family: &str) -> Result<ByType, PortError> {
    let filters = [
        ("regionCode", region),
        ("operatingSystem", "Linux"),
        ("preInstalledSw", "NA"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ];
    let filters = filters
        .into_iter()
        .map(|(field, value)| Filter::builder().r#type(FilterType::TermMatch).field(field).value(value).build())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string()))?;
    let mut pages = client
        .get_products()
        .service_code("AmazonEC2")
        .format_version("aws_v1")
        .set_filters(Some(filters))
        .into_paginator()
        .page_size(PRODUCTS_A_PAGE)
        .send();
    let mut prices = BTreeMap::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error(OPERATION, &error))?;
        for product in page.price_list() {
            let read = product_price(product, currency(region)).map_err(|error| {
                PortError::new(ErrorKind::Unavailable, OPERATION, format!("a product of another form: {error}"))
            })?;
            prices.extend(read);
        }
    }
    Ok(prices)
}

fn currency(region: &str) -> &'static str {
    if region.starts_with("cn-") { "CNY" } else { "USD" }
}

#[derive(Deserialize)]
struct Document {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(rename = "instanceType")]
    instance_type: String,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
struct Term {
    #[serde(rename = "priceDimensions")]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
struct Dimension {
    #[serde(rename = "pricePerUnit")]
    price_per_unit: BTreeMap<String, String>,
}

/// The instance type and price of a product; `None` if it has none, or costs nothing: such products are not available separately.
fn product_price(product: &str, currency: &str) -> Result<Option<(String, f64)>, serde_json::Error> {
    let document: Document = serde_json::from_str(product)?;
    let dimensions = document.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
    let price = dimensions
        .filter_map(|dimension| dimension.price_per_unit.get(currency)?.parse::<f64>().ok())
        .find(|price| price.is_finite() && *price > 0.0);
    Ok(price.map(|price| (document.product.attributes.instance_type, price)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_catalog::{Facts, stored};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn previous(source: OnDemandPriceSource, read: Option<Timestamp>) -> Catalog {
        let facts = Facts::embedded().unwrap();
        Catalog { on_demand_prices_read: read, ..Catalog::new(1, facts, source, None) }
    }

    #[test]
    fn a_region_has_its_price_list() {
        for (region, list) in [
            ("us-west-2", Some("us-east-1")),
            ("sa-east-1", Some("us-east-1")),
            ("ap-northeast-1", Some("ap-south-1")),
            ("eu-north-1", Some("eu-central-1")),
            ("cn-north-1", Some("cn-northwest-1")),
            ("us-gov-west-1", None),
            ("eusc-de-east-1", None),
            ("us-iso-east-1", None),
        ] {
            assert_eq!(price_list_region(region), list, "{region}");
        }
    }

    #[test]
    fn prices_serve_for_twelve_hours() {
        let catalog = previous(OnDemandPriceSource::PriceList, Some(at(1_000_000)));
        assert!(!due(Some(&catalog), at(1_000_000 + 12 * 3600 - 1)));
        assert!(due(Some(&catalog), at(1_000_000 + 12 * 3600)));
        assert!(due(None, at(1_000_000)));
        assert!(due(Some(&previous(OnDemandPriceSource::Embedded, None)), at(1_000_000)));
    }

    #[test]
    fn the_embedded_prices_stand_in_and_are_marked() {
        let by_type = BTreeMap::from([("m5.large".to_owned(), 0.1)]);
        let embedded = AssumedPrices { by_type, derived: BTreeSet::from(["m5.large".to_owned()]) };
        let prices = fallback(None, embedded.clone());
        assert_eq!((prices.source, prices.read), (OnDemandPriceSource::Embedded, None));
        assert_eq!((&prices.prices.by_type, &prices.prices.derived), (&embedded.by_type, &embedded.derived));
        let prices = fallback(Some(&previous(OnDemandPriceSource::PriceList, Some(at(5)))), embedded);
        assert_eq!((prices.source, prices.read), (OnDemandPriceSource::PriceList, Some(at(5))));
        assert_eq!((prices.prices.by_type["m5.large"], prices.prices.derived.len()), (0.096, 0));
    }

    #[test]
    fn new_prices_come_over_those_that_were_read_before() {
        let mut before = previous(OnDemandPriceSource::PriceList, Some(at(5)));
        for entry in before.types.iter_mut().filter(|entry| entry.facts.name.starts_with("m5.")) {
            entry.offers[0].on_demand_price = stored::Price::from_dollars(0.3);
        }
        let zone = before.zones[0].name.clone();
        let prices = BTreeMap::from([("m5.large".to_owned(), 0.2)]);
        let new =
            Prices { by_type: prices.clone(), by_local_zone: [(zone.clone(), prices)].into(), ..Prices::default() };
        let merged = merge(Some(&before), new.clone(), at(9));
        let (by_type, local) = (&merged.prices.by_type, &merged.prices.by_local_zone[&zone]);
        assert_eq!((by_type["m5.large"], by_type["m5.xlarge"], merged.read), (0.2, 0.192, Some(at(9))));
        assert_eq!((local["m5.large"], local["m5.xlarge"]), (0.2, 0.3));
        let merged = merge(Some(&previous(OnDemandPriceSource::Embedded, None)), new.clone(), at(9));
        assert_eq!(merged.prices, new);
    }

    #[test]
    fn a_product_has_its_price_in_the_currency_of_the_region() {
        let product = |price: &str| {
            format!(
                r#"{{"product":{{"sku":"A","attributes":{{"instanceType":"m5.large"}}}},"terms":{{"OnDemand":{{"A.B":
                {{"priceDimensions":{{"A.B.C":{{"unit":"Hrs","pricePerUnit":{{"USD":"{price}"}}}}}}}}}}}}}}"#
            )
        };
        let read = |price: &str, currency| product_price(&product(price), currency).unwrap();
        assert_eq!(read("0.0960000000", "USD"), Some(("m5.large".to_owned(), 0.096)));
        assert_eq!(read("0.0000000000", "USD"), None);
        assert_eq!(read("0.0960000000", "CNY"), None);
        assert!(product_price("{}", "USD").is_err());
    }
}
