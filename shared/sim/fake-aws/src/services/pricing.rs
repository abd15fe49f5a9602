//! Pricing: GetProducts of AmazonEC2, with Linux on-demand prices. The price list of AmazonEKS, which has the prices of Fargate and of
//! Auto Mode, is empty.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::error::Ec2Error;
use super::super::objects::facts::{RegionFacts, TypeFacts, Zone};
use super::super::state::Ec2;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct GetProducts {
    service_code: Option<String>,
    #[serde(default)]
    filters: Vec<ProductFilter>,
    format_version: Option<String>,
    max_results: Option<usize>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ProductFilter {
    #[serde(rename = "Type")]
    kind: String,
    field: String,
    value: String,
}

const EC2: &str = "AmazonEC2";
const EKS: &str = "AmazonEKS";
/// The attribute with the code of the service.
const SERVICE_CODE: &str = "servicecode";
const OFFER_TERM: &str = "JRTCKXETXF";
const RATE: &str = "6YS6EN2CT7";

pub(in super::super) fn call(ec2: &Ec2, action: &str, parameters: &Value) -> Result<Value, Ec2Error> {
    if action != "GetProducts" {
        return Err(Ec2Error::unknown_operation(&format!("pricing:{action}")));
    }
    ec2.call("pricing", action, parameters, |state| {
        let request = GetProducts::deserialize(parameters).map_err(|error| invalid(&error.to_string()))?;
        check(&request)?;
        let facts = &state.account.facts;
        let is_ec2 = request.service_code.as_deref() == Some(EC2);
        let sold_types = facts.types.iter().filter(|_| is_ec2);
        let listed = sold_types.flat_map(|(name, sold)| {
            locations(facts, sold).into_iter().map(move |(region_code, price)| (name, sold, region_code, price))
        });
        let products = listed.filter_map(|(name, sold, region_code, price)| {
            let attributes = attributes(&region_code, &facts.region, name, sold);
            let family = if sold.bare_metal() { "Compute Instance (bare metal)" } else { "Compute Instance" };
            let matches = request.filters.iter().all(|filter| match filter.field.as_str() {
                "productFamily" => filter.value == family,
                field => attributes.get(attribute(field)).and_then(Value::as_str) == Some(filter.value.as_str()),
            });
            matches.then(|| product(name, family, &attributes, price).to_string())
        });
        let size = request.max_results.unwrap_or(100);
        let start: usize = match &request.next_token {
            None => 0,
            Some(token) => token.parse().map_err(|_| Ec2Error::new("InvalidNextTokenException", "Invalid token"))?,
        };
        let mut page: Vec<String> = products.skip(start).take(size + 1).collect();
        let more = page.len() > size;
        page.truncate(size);
        let mut answer = json!({ "FormatVersion": "aws_v1", "PriceList": page });
        if more {
            answer["NextToken"] = json!((start + size).to_string());
        }
        Ok(answer)
    })
}

/// The region codes under which a type has a price, with that price: the region, and the zone groups of Local Zones.
fn locations(facts: &RegionFacts, sold: &TypeFacts) -> BTreeMap<String, f64> {
    let own = |zone: &Zone| Some((zone.group(), *sold.local_prices.get(&zone.name)?));
    let region = sold.on_demand_price.map(|price| (facts.region.clone(), price));
    facts.zones.iter().filter_map(own).chain(region).collect()
}

fn invalid(message: &str) -> Ec2Error {
    Ec2Error::new("InvalidParameterException", message)
}

fn check(request: &GetProducts) -> Result<(), Ec2Error> {
    match request.service_code.as_deref() {
        Some(EC2 | EKS) => {}
        Some(other) => return Err(invalid(&format!("the simulated price list has {EC2} and {EKS}, not {other}"))),
        None => return Err(invalid("ServiceCode is missing")),
    }
    if let Some(version) = request.format_version.as_deref().filter(|version| *version != "aws_v1") {
        return Err(invalid(&format!("FormatVersion {version} is not known; use aws_v1")));
    }
    if let Some(size) = request.max_results.filter(|size| !(1..=100).contains(size)) {
        return Err(invalid(&format!("MaxResults must be between 1 and 100, not {size}")));
    }
    let known = attributes("us-east-1", "us-east-1", "", &TypeFacts::default());
    for filter in &request.filters {
        if filter.kind != "TERM_MATCH" {
            return Err(invalid(&format!(
                "the simulated price list supports the filter type TERM_MATCH, not {}",
                filter.kind
            )));
        }
        if filter.field != "productFamily" && !known.contains_key(attribute(&filter.field)) {
            return Err(invalid(&format!("the simulated price list has no attribute {}", filter.field)));
        }
    }
    Ok(())
}

/// The attribute that a filter names. The price list has `servicecode`, and filters may also write it as `ServiceCode`, as in the examples
/// of GetProducts, or `serviceCode`, as eks-node-viewer does.
fn attribute(field: &str) -> &str {
    if field.eq_ignore_ascii_case(SERVICE_CODE) { SERVICE_CODE } else { field }
}

/// The fields by which a product is found. Bare metal is listed as dedicated, as in the price list.
fn attributes(region_code: &str, region: &str, name: &str, sold: &TypeFacts) -> Map<String, Value> {
    let tenancy = if sold.bare_metal() { "Dedicated" } else { "Shared" };
    let gib = sold.memory_mib() / 1024;
    let text = [
        (SERVICE_CODE, EC2.to_owned()),
        ("locationType", if region_code == region { "AWS Region" } else { "AWS Local Zone" }.to_owned()),
        ("regionCode", region_code.to_owned()),
        ("instanceType", name.to_owned()),
        ("operatingSystem", "Linux".to_owned()),
        ("preInstalledSw", "NA".to_owned()),
        ("licenseModel", "No License required".to_owned()),
        ("capacitystatus", "Used".to_owned()),
        ("marketoption", "OnDemand".to_owned()),
        ("tenancy", tenancy.to_owned()),
        ("operation", "RunInstances".to_owned()),
        ("usagetype", format!("BoxUsage:{name}")),
        ("vcpu", sold.vcpus().to_string()),
        ("memory", format!("{gib} GiB")),
    ];
    text.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
}

/// A document of the price list.
fn product(name: &str, family: &str, attributes: &Map<String, Value>, price: f64) -> Value {
    let sku: String = name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_uppercase() as char).collect();
    let (offer, rate) = (format!("{sku}.{OFFER_TERM}"), format!("{sku}.{OFFER_TERM}.{RATE}"));
    let dimension = json!({
        "rateCode": rate,
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": format!("${price:.10} per On Demand Linux {name} Instance Hour"),
        "appliesTo": [],
        "pricePerUnit": { "USD": format!("{price:.10}") },
    });
    let term = json!({
        "sku": sku,
        "offerTermCode": OFFER_TERM,
        "termAttributes": {},
        "priceDimensions": { (rate): dimension },
    });
    json!({
        "product": { "sku": sku, "productFamily": family, "attributes": attributes },
        "serviceCode": EC2,
        "terms": { "OnDemand": { (offer): term } },
    })
}
