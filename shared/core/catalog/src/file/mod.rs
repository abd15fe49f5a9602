//! The catalog file of a user: `nodeless plan --catalog FILE`, `nodeless catalog show --catalog FILE`.
//!
//! ```json
//! {
//!   "region": "us-east-1",
//!   "zones": ["us-east-1a", "us-east-1b"],
//!   "instanceTypes": [ entries of a DescribeInstanceTypes response ],
//!   "offerings": [
//!     {"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "spot", "pricePerHour": 0.035, "available": true}
//!   ],
//!   "placementGroups": [{"id": "pg-1", "name": "kafka", "strategy": "partition", "partitions": 7}]
//! }
//! ```
//!
//! Only the entries of `offerings` are sold; the default of `available` is true, and `derived: true` marks an on-demand price that was
//! derived and not published. `placementGroups` may be left out. A zone is a name, or `{"name", "id"}`. Trunk interfaces and baseline
//! bandwidths are not in a DescribeInstanceTypes response: they are read from the embedded tables by the name of the type.
//!
//! An invalid entry does not affect the others: it is omitted, and a [`Note`] contains it and its field.

mod offerings;
mod types;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::facts::{Answer, Facts, FactsError, InstanceTypeInfo, Zone, region_of_zone};
use crate::stored::{
    CapacitySettings, Catalog, CatalogType, NamedPlacementGroup, OnDemandPriceSource, SpotPriceSource,
};
use crate::type_facts::TypeFacts;

pub use write::write;

/// The maximum number of zones: [`ZoneOffer::zone`](crate::stored::ZoneOffer::zone) is a byte.
const MAXIMUM_ZONES: usize = 256;

/// A catalog from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogFile {
    /// The valid entries.
    pub catalog: Catalog,
    /// Entries that are invalid or incomplete, in the order of the file.
    pub notes: Vec<Note>,
    /// Types that cannot be nodes, such as Macs; neither they nor their offerings are in the catalog.
    pub left_out: BTreeSet<String>,
}

/// A problem of an entry of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The entry, such as `offerings[3] (m5.large in us-east-1a)`.
    pub place: String,
    /// The field, what is wrong with it, and how it is handled.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Why a file is not a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogFileError {
    /// The file is not JSON.
    #[error("not JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The file is a DescribeInstanceTypes response, which has neither zones nor prices.
    #[error(
        "this is a DescribeInstanceTypes response, not a catalog: it has no zones and no prices; pass it with --instance-types"
    )]
    InstanceTypesAnswer,
    /// The file is a catalog instead of a DescribeInstanceTypes response.
    #[error(
        "not a DescribeInstanceTypes response: expected a JSON array of entries, or an object with the array `InstanceTypes`"
    )]
    NoInstanceTypesAnswer,
    /// The file is other JSON.
    #[error(
        "not a catalog: expected a JSON object with `region`, `zones`, `instanceTypes` and `offerings`, found {found}"
    )]
    Shape {
        /// The kind of JSON value.
        found: &'static str,
    },
    /// A field of the file is missing or invalid.
    #[error("`{field}`: {message}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// The embedded tables are damaged.
    #[error(transparent)]
    Facts(#[from] &'static FactsError),
}

/// The file if every entry is valid, which is read in one pass. Other files are read entry by entry, to report the invalid ones.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoodFile {
    region: String,
    zones: Vec<GoodZone>,
    instance_types: Vec<InstanceTypeInfo>,
    offerings: Vec<offerings::OfferingEntry>,
    #[serde(default)]
    placement_groups: Vec<NamedPlacementGroup>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GoodZone {
    Name(String),
    Whole(Zone),
}

impl From<GoodZone> for Zone {
    fn from(zone: GoodZone) -> Self {
        match zone {
            GoodZone::Name(name) => Self { name, id: String::new() },
            GoodZone::Whole(zone) => zone,
        }
    }
}

/// The parts of a file.
struct Parts {
    region: Option<String>,
    zones: Option<Vec<Zone>>,
    types: Option<types::List>,
    offerings: Vec<(usize, offerings::OfferingEntry)>,
    placement_groups: Vec<NamedPlacementGroup>,
}

/// Reads a catalog file.
///
/// # Errors
/// When it is not a catalog, or its region or zones are unknown. An invalid entry is a [`Note`], not an error.
pub fn parse(json: &[u8]) -> Result<CatalogFile, CatalogFileError> {
    parse_with_types(json, None)
}

/// Reads a catalog file. Entries of a DescribeInstanceTypes response, if given, replace its `instanceTypes`.
///
/// # Errors
/// As [`parse`], and when the second text is not a DescribeInstanceTypes response.
pub fn parse_with_types(json: &[u8], answer: Option<&[u8]>) -> Result<CatalogFile, CatalogFileError> {
    let mut notes = Vec::new();
    let mut parts = read(json, &mut notes)?;
    if let Some(answer) = answer {
        parts.types = Some(types::read(answer_entries(answer)?, "InstanceTypes", &mut notes));
    }
    assemble(parts, notes)
}

/// Reads a DescribeInstanceTypes response: an array of entries, or the output of the AWS CLI. Zones, offerings and prices are
/// those of the embedded catalog. A type that is not in it has no offering, and a [`Note`] reports it.
///
/// # Errors
/// When the text is not such a response.
pub fn from_instance_types(json: &[u8]) -> Result<CatalogFile, CatalogFileError> {
    let embedded = Catalog::embedded()?;
    let mut notes = Vec::new();
    let entries = types::read(answer_entries(json)?, "InstanceTypes", &mut notes);
    let (types, left_out) = types::condense(entries, &mut notes)?;
    let mut catalog = Catalog { types: Vec::with_capacity(types.len()), ..embedded.clone() };
    for (name, mut facts) in types {
        let known = embedded.get(&name);
        if let Some(known) = known.filter(|_| !facts.on_demand && !facts.spot) {
            // An entry without a usage class does not restrict how the type is sold.
            (facts.on_demand, facts.spot) = (known.facts.on_demand, known.facts.spot);
        }
        if known.is_none_or(|known| known.offers.is_empty()) {
            let zones: Vec<&str> = embedded.zones.iter().map(|zone| zone.name.as_str()).collect();
            notes.push(Note {
                place: name,
                message: format!("it has no known offering in {}; it is listed without offerings", zones.join(", ")),
            });
        }
        catalog.types.push(match known {
            Some(known) => CatalogType { facts, ..known.clone() },
            None => CatalogType { facts, on_demand_price: None, derived_price: false, offers: Vec::new() },
        });
    }
    Ok(CatalogFile { catalog, notes, left_out })
}

fn answer_entries(json: &[u8]) -> Result<Vec<Value>, CatalogFileError> {
    let value: Value = serde_json::from_slice(json).map_err(CatalogFileError::Json)?;
    let (Answer::Entries(entries) | Answer::Object { entries }) =
        serde_json::from_value(value).map_err(|_| CatalogFileError::NoInstanceTypesAnswer)?;
    Ok(entries)
}

fn read(json: &[u8], notes: &mut Vec<Note>) -> Result<Parts, CatalogFileError> {
    if let Ok(good) = serde_json::from_slice::<GoodFile>(json) {
        let types =
            types::List { name: "instanceTypes", entries: good.instance_types.into_iter().enumerate().collect() };
        return Ok(Parts {
            region: Some(good.region),
            zones: Some(good.zones.into_iter().map(Zone::from).collect()),
            types: Some(types),
            offerings: good.offerings.into_iter().enumerate().collect(),
            placement_groups: good.placement_groups,
        });
    }
    let value: Value = serde_json::from_slice(json).map_err(CatalogFileError::Json)?;
    let mut fields = match value {
        Value::Object(fields) => fields,
        Value::Array(entries) if entries.iter().any(|entry| entry.get("InstanceType").is_some()) => {
            return Err(CatalogFileError::InstanceTypesAnswer);
        }
        other => return Err(CatalogFileError::Shape { found: kind(&other) }),
    };
    if !fields.contains_key("offerings") && fields.contains_key("InstanceTypes") {
        return Err(CatalogFileError::InstanceTypesAnswer);
    }
    let region = match fields.remove("region") {
        None | Some(Value::Null) => None,
        Some(Value::String(region)) => Some(region),
        Some(other) => return Err(field("region", &format!("expected a string such as \"us-east-1\", found {other}"))),
    };
    let zones = list(&mut fields, "zones")?.map(read_zones).transpose()?;
    let types = list(&mut fields, "instanceTypes")?.map(|entries| types::read(entries, "instanceTypes", notes));
    let Some(entries) = list(&mut fields, "offerings")? else {
        return Err(field(
            "offerings",
            "missing; expected an array of {\"instanceType\", \"zone\", \"capacityType\", \"pricePerHour\"}",
        ));
    };
    let groups = list(&mut fields, "placementGroups")?.unwrap_or_default();
    let placement_groups = read_placement_groups(groups, notes);
    Ok(Parts { region, zones, types, offerings: offerings::read(entries, notes), placement_groups })
}

fn read_placement_groups(entries: Vec<Value>, notes: &mut Vec<Note>) -> Vec<NamedPlacementGroup> {
    let mut read = |(index, value): (usize, Value)| match entry(value) {
        Ok(group) => Some(group),
        Err(error) => {
            let message = format!("{error}; the placement group is omitted");
            notes.push(Note { place: format!("placementGroups[{index}]"), message });
            None
        }
    };
    entries.into_iter().enumerate().filter_map(&mut read).collect()
}

fn list(
    fields: &mut serde_json::Map<String, Value>,
    name: &'static str,
) -> Result<Option<Vec<Value>>, CatalogFileError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(entries)) => Ok(Some(entries)),
        Some(other) => Err(field(name, &format!("expected an array, found {}", kind(&other)))),
    }
}

fn read_zones(entries: Vec<Value>) -> Result<Vec<Zone>, CatalogFileError> {
    let zone = |(index, entry): (usize, Value)| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = entry.as_str() {
            return Ok(Zone { name: name.to_owned(), id: String::new() });
        }
        match text("name").or_else(|| text("ZoneName")) {
            Some(name) => Ok(Zone { name, id: text("id").or_else(|| text("ZoneId")).unwrap_or_default() }),
            None => Err(field(
                "zones",
                &format!("[{index}]: expected a name such as \"us-east-1a\", or {{\"name\", \"id\"}}, found {entry}"),
            )),
        }
    };
    entries.into_iter().enumerate().map(zone).collect()
}

fn assemble(parts: Parts, mut notes: Vec<Note>) -> Result<CatalogFile, CatalogFileError> {
    let embedded = Facts::embedded()?;
    let zones = zones(parts.zones, &parts.offerings, embedded)?;
    let region = match parts.region.filter(|region| !region.is_empty()) {
        Some(region) => region,
        None => region_of(&zones)?,
    };
    let (types, left_out) = match parts.types {
        Some(entries) => types::condense(entries, &mut notes)?,
        None => embedded_types(embedded, &parts.offerings),
    };
    let mut catalog = Catalog {
        version: 1,
        region,
        zones,
        on_demand_price_source: OnDemandPriceSource::File,
        read: None,
        on_demand_prices_read: None,
        spot_price_source: SpotPriceSource::File,
        reservations: BTreeMap::new(),
        placement_groups: parts.placement_groups,
        capacity: CapacitySettings::default(),
        commitments: None,
        types: Vec::new(),
    };
    catalog.types = offerings::attach(types, &left_out, &catalog.zones, parts.offerings, &mut notes);
    Ok(CatalogFile { catalog, notes, left_out })
}

/// The types of a file without `instanceTypes`: those of its offerings that the embedded facts contain.
fn embedded_types(
    embedded: &Facts,
    offerings: &[(usize, offerings::OfferingEntry)],
) -> (BTreeMap<String, TypeFacts>, BTreeSet<String>) {
    let mut types = BTreeMap::new();
    let mut left_out = BTreeSet::new();
    for (_, entry) in offerings {
        let name = &entry.instance_type;
        if let Some(info) = embedded.instance_types.get(name) {
            match types::facts_of(info, embedded) {
                Some(facts) => drop(types.insert(name.clone(), facts)),
                None => drop(left_out.insert(name.clone())),
            }
        }
    }
    (types, left_out)
}

/// The file's zones, or those of its offerings, with the ids in the embedded facts.
fn zones(
    given: Option<Vec<Zone>>,
    offerings: &[(usize, offerings::OfferingEntry)],
    embedded: &Facts,
) -> Result<Vec<Zone>, CatalogFileError> {
    let named = |name: &String| Zone { name: name.clone(), id: String::new() };
    let mut zones = given.unwrap_or_else(|| {
        let names: BTreeSet<&String> = offerings.iter().map(|(_, entry)| &entry.zone).collect();
        names.into_iter().map(named).collect()
    });
    let mut seen = BTreeSet::new();
    zones.retain(|zone| seen.insert(zone.name.clone()));
    if zones.is_empty() {
        return Err(field("zones", "empty; expected the names of availability zones, such as [\"us-east-1a\"]"));
    }
    if zones.len() > MAXIMUM_ZONES {
        return Err(field("zones", &format!("{} zones; at most {MAXIMUM_ZONES} are supported", zones.len())));
    }
    for zone in zones.iter_mut().filter(|zone| zone.id.is_empty()) {
        if let Some(known) = embedded.zones.iter().find(|known| known.name == zone.name) {
            zone.id.clone_from(&known.id);
        }
    }
    Ok(zones)
}

/// `us-east-1` of `us-east-1a`.
fn region_of(zones: &[Zone]) -> Result<String, CatalogFileError> {
    let regions: BTreeSet<Option<&str>> = zones.iter().map(|zone| region_of_zone(&zone.name)).collect();
    match regions.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(region)] => Ok((*region).to_owned()),
        _ => Err(field(
            "region",
            "missing, and the names of the zones do not contain it; expected a string such as \"us-east-1\"",
        )),
    }
}

fn field(field: &'static str, message: &str) -> CatalogFileError {
    CatalogFileError::Field { field, message: message.to_owned() }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Deserializes one entry; the error contains the field.
fn entry<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        if path == "." { inner } else { format!("{path}: {inner}") }
    })
}

#[cfg(test)]
mod tests;
