//! The stored form of the catalog: the catalog function writes it, the planner reads it once per execution environment.
//!
//! The bytes are a format number, followed by [postcard](https://docs.rs/postcard) compressed with zlib. They are much
//! smaller than a DynamoDB item may be (400 kB). Zlib's checksum detects damaged bytes.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::str::FromStr;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use nodeless_model::ReservedInstances;
use nodeless_model::listed_commitments::AccountCommitments;
use serde::{Deserialize, Serialize};

use crate::facts::{EmbeddedPrices, Facts, FactsError, Zone, is_local_zone, synthetic_spot_price};
use crate::type_facts::TypeFacts;

/// Increased with every change of the fields of [`Catalog`] or their meaning, because postcard is not self-describing.
const FORMAT: u8 = 8;
/// The maximum decompressed size of a catalog, ten times that of a large region. It protects memory from damaged bytes.
const MAXIMUM_DECOMPRESSED: u64 = 8 << 20;

/// A price in millionths of a dollar per hour, the precision of the spot price history; more precise prices are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Price(u64);

impl Price {
    /// `None` for invalid prices: zero, negative, not a number, or above a million dollars per hour.
    #[must_use]
    pub fn from_dollars(dollars_an_hour: f64) -> Option<Self> {
        let micros = (dollars_an_hour * 1e6).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in the range")]
        (1.0..=1e12).contains(&micros).then_some(Self(micros as u64))
    }

    /// Dollars per hour.
    #[must_use]
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "at most 10^12")]
        let micros = self.0 as f64;
        micros / 1e6
    }
}

/// Spot prices in dollars per hour, by instance type and zone name.
pub type SpotPrices = BTreeMap<String, BTreeMap<String, f64>>;

/// The source of on-demand prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDemandPriceSource {
    /// The AWS Price List.
    PriceList,
    /// The built-in table of the region, or else of us-east-1, which becomes outdated.
    Embedded,
    /// A catalog file that a person gave.
    File,
}

/// The source of spot prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpotPriceSource {
    /// DescribeSpotPriceHistory.
    History,
    /// None have been read yet, so the on-demand prices are used, as in Karpenter.
    OnDemand,
    /// Synthetic; see [`synthetic_spot_price`].
    Synthetic,
    /// A catalog file that a person gave.
    File,
}

/// The deployment's settings for the capacity of all nodes. They are stored with the catalog, so that all functions use the same
/// settings.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacitySettings {
    /// Karpenter's `RESERVED_ENIS`: interfaces of the default card that pods cannot use, as with custom networking.
    pub reserved_enis: u32,
    /// Karpenter's `VM_MEMORY_OVERHEAD_PERCENT`.
    pub memory_overhead: MemoryOverhead,
}

/// The fraction of memory that the hypervisor and the system use, in billionths: 75,000,000 for 0.075, which is 7.5%.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryOverhead(u32);

/// Why a text is not a fraction of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a fraction of at least 0 and less than 1; write 0.075 for 7.5%")]
pub struct MemoryOverheadError;

impl Default for MemoryOverhead {
    /// Karpenter's default.
    fn default() -> Self {
        Self(75_000_000)
    }
}

impl MemoryOverhead {
    /// The fraction, 0.075 for 7.5%.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e9
    }
}

impl FromStr for MemoryOverhead {
    type Err = MemoryOverheadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let share: f64 = text.parse().map_err(|_| MemoryOverheadError)?;
        if !(0.0..1.0).contains(&share) {
            return Err(MemoryOverheadError);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a billion")]
        Ok(Self((share * 1e9).round() as u32))
    }
}

/// The instance types, offerings and prices of a region, for all EC2NodeClasses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Increases with every change, so that readers can detect it. The writer sets it.
    pub version: u64,
    /// The region, such as `us-east-1`.
    pub region: String,
    /// The region's zones; [`ZoneOffer::zone`] is an index of this list.
    pub zones: Vec<Zone>,
    /// Where on-demand prices come from.
    pub on_demand_price_source: OnDemandPriceSource,
    /// When instance types, offerings and spot prices were last read completely from EC2; `None` if never.
    pub read: Option<Timestamp>,
    /// When on-demand prices were last read from the Price List; `None` if never. They are read again only when they are old.
    pub on_demand_prices_read: Option<Timestamp>,
    /// Where spot prices come from.
    pub spot_price_source: SpotPriceSource,
    /// The instances of each active capacity reservation that the account may use, by id.
    pub reservations: BTreeMap<String, ReservedInstances>,
    /// The account's placement groups.
    pub placement_groups: Vec<NamedPlacementGroup>,
    /// The deployment's settings for the capacity of nodes.
    pub capacity: CapacitySettings,
    /// The account's Savings Plans and Reserved Instances, if the deployment uses them and they were read.
    pub commitments: Option<AccountCommitments>,
    /// Instance types, by name.
    pub types: Vec<CatalogType>,
}

/// A placement group of the account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedPlacementGroup {
    /// The id, `pg-…`.
    pub id: String,
    /// The name.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// The number of partitions; 0 with another strategy.
    pub partitions: u32,
}

/// An instance type, its zones and its prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogType {
    /// The facts.
    pub facts: TypeFacts,
    /// The on-demand price in all zones without a [`ZoneOffer::on_demand_price`]; `None` if it is unknown.
    pub on_demand_price: Option<Price>,
    /// Whether that price was derived from those of other types and regions, because it is not known.
    pub derived_price: bool,
    /// The zones that offer it.
    pub offers: Vec<ZoneOffer>,
}

/// An instance type in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneOffer {
    /// The index in [`Catalog::zones`].
    pub zone: u8,
    /// The spot price; `None` if it is unknown.
    pub spot_price: Option<Price>,
    /// The on-demand price if the zone has its own, as Local Zones do.
    pub on_demand_price: Option<Price>,
    /// Whether it is sold on demand in this zone.
    pub on_demand: Listing,
    /// Whether it is sold as spot in this zone.
    pub spot: Listing,
}

/// Whether an instance type is sold in a zone with a capacity type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// The type is sold if its facts contain the capacity type, as in EC2.
    #[default]
    Open,
    /// The type has a price but is not available: `available: false` in a catalog file.
    Withheld,
    /// The type is not listed, so it is not sold in this zone.
    Absent,
}

/// Why stored bytes are not a catalog, or a catalog cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoredCatalogError {
    /// There are no bytes.
    #[error("the stored catalog is empty; run the catalog function to write it again")]
    Empty,
    /// Another release wrote the catalog.
    #[error(
        "the stored catalog has format {found}, this release reads format {FORMAT}; run this release's catalog function"
    )]
    Format {
        /// The format number found.
        found: u8,
    },
    /// The bytes are damaged.
    #[error("the stored catalog is damaged ({0}); run the catalog function to write it again")]
    Compression(#[from] std::io::Error),
    /// The bytes are damaged, or have other fields.
    #[error("the stored catalog is damaged ({0}); run the catalog function to write it again")]
    Shape(#[from] postcard::Error),
    /// An instance type has a zone that is not listed.
    #[error(
        "the stored catalog is damaged ({instance_type} is offered in zone number {zone}, which is not listed); run the catalog function to write it again"
    )]
    Zone {
        /// The type.
        instance_type: String,
        /// The index of the zone.
        zone: u8,
    },
}

impl CatalogType {
    /// The zones that offer it, with capacity types and prices.
    pub fn zones<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = (&'a Zone, &'a ZoneOffer)> {
        self.offers.iter().filter_map(|offer| Some((catalog.zones.get(usize::from(offer.zone))?, offer)))
    }
}

impl Catalog {
    /// Creates a catalog from facts and spot prices. Without any spot prices, the on-demand prices are used, except in Local Zones and
    /// Wavelength Zones.
    ///
    /// Types that cannot be nodes, and zones that are not in [`Facts::zones`], are omitted.
    #[must_use]
    pub fn new(
        version: u64,
        facts: &Facts,
        on_demand_price_source: OnDemandPriceSource,
        spot: Option<&SpotPrices>,
    ) -> Self {
        let mut catalog = Self {
            version,
            region: facts.region.clone(),
            zones: facts.zones.clone(),
            on_demand_price_source,
            read: None,
            on_demand_prices_read: None,
            spot_price_source: if spot.is_some() { SpotPriceSource::History } else { SpotPriceSource::OnDemand },
            reservations: BTreeMap::new(),
            placement_groups: Vec::new(),
            capacity: CapacitySettings::default(),
            commitments: None,
            types: Vec::new(),
        };
        catalog.types = facts
            .instance_types
            .iter()
            .filter_map(|(name, info)| {
                let bandwidth = facts.network_bandwidth.get(name).copied();
                let type_facts = TypeFacts::new(info, facts.vpc_limits.get(name), bandwidth)?;
                let on_demand_price = facts.on_demand_prices.get(name).and_then(|price| Price::from_dollars(*price));
                let offers = offers(facts, name, |zone| match spot {
                    Some(spot) => spot.get(name)?.get(&zone.name).and_then(|price| Price::from_dollars(*price)),
                    // Many Local Zones sell no spot capacity.
                    None => on_demand_price.filter(|_| !zone.is_local()),
                });
                let derived_price = facts.derived_prices.contains(name);
                Some(CatalogType { facts: type_facts, on_demand_price, derived_price, offers })
            })
            .collect();
        catalog
    }

    /// A catalog of the embedded facts with synthetic spot prices, for demonstrations, simulations and benchmarks.
    #[must_use]
    pub fn synthetic(version: u64, facts: &Facts) -> Self {
        let spot = facts.offerings.iter().filter_map(|(name, zones)| {
            let on_demand = *facts.on_demand_prices.get(name)?;
            let price = |zone: &String| (zone.clone(), synthetic_spot_price(name, zone, on_demand));
            Some((name.clone(), zones.iter().filter(|zone| !is_local_zone(zone)).map(price).collect()))
        });
        let catalog = Self::new(version, facts, OnDemandPriceSource::Embedded, Some(&spot.collect()));
        Self { spot_price_source: SpotPriceSource::Synthetic, ..catalog }
    }

    /// The default catalog: the embedded facts of us-east-1 in its zones a, b and c, with real on-demand prices and synthetic
    /// spot prices.
    ///
    /// # Errors
    ///
    /// If the embedded data is damaged, which the crate's tests exclude.
    pub fn embedded() -> Result<Self, &'static FactsError> {
        Ok(Self::synthetic(1, &Facts::embedded()?.within_zones(&["us-east-1a", "us-east-1b", "us-east-1c"])))
    }

    /// The sources of its prices as text: a sentence for each capacity type.
    #[must_use]
    pub fn price_sources(&self) -> [String; 2] {
        let on_demand = match self.on_demand_price_source {
            OnDemandPriceSource::PriceList => "on-demand prices are the AWS Price List's".to_owned(),
            OnDemandPriceSource::Embedded => self.embedded_prices(),
            OnDemandPriceSource::File => "on-demand prices are the catalog file's".to_owned(),
        };
        [
            match self.derived_prices() {
                Some(derived) => format!("{on_demand}, {derived}"),
                None => on_demand,
            },
            match self.spot_price_source {
                SpotPriceSource::History => "spot prices are EC2's spot price history",
                SpotPriceSource::OnDemand => "spot prices are unknown; on-demand prices are used instead",
                SpotPriceSource::Synthetic => {
                    "spot prices are synthetic (25% to 45% of on demand); they do not reflect the market"
                }
                SpotPriceSource::File => "spot prices are the catalog file's",
            }
            .to_owned(),
        ]
    }

    /// How many of its on-demand prices are derived, as text: `338 of 1093 derived from those of us-east-1`. `None` if none is.
    #[must_use]
    pub fn derived_prices(&self) -> Option<String> {
        let priced = self.types.iter().filter(|entry| entry.on_demand_price.is_some());
        let derived = priced.clone().filter(|entry| entry.derived_price).count();
        (derived > 0).then(|| format!("{derived} of {} derived from those of us-east-1", priced.count()))
    }

    /// Whether the on-demand price of an instance type is derived.
    #[must_use]
    pub fn has_derived_price(&self, instance_type: &str) -> bool {
        self.get(instance_type).is_some_and(|entry| entry.derived_price)
    }

    fn embedded_prices(&self) -> String {
        let EmbeddedPrices { of_region, month } = Facts::embedded_prices(&self.region);
        if of_region {
            format!("on-demand prices are the built-in table ({}, {month})", self.region)
        } else {
            format!("on-demand prices are the built-in table of us-east-1 ({month}); it has none of {}", self.region)
        }
    }

    /// The entry of an instance type.
    #[must_use]
    pub fn get(&self, instance_type: &str) -> Option<&CatalogType> {
        let position = self.types.binary_search_by(|entry| entry.facts.name.as_str().cmp(instance_type)).ok()?;
        self.types.get(position)
    }

    /// The catalog as bytes. Equal catalogs have equal bytes.
    ///
    /// # Errors
    ///
    /// Only when memory for the bytes cannot be allocated.
    pub fn encode(&self) -> Result<Vec<u8>, StoredCatalogError> {
        let mut encoder = ZlibEncoder::new(vec![FORMAT], Compression::best());
        encoder.write_all(&postcard::to_stdvec(self)?)?;
        Ok(encoder.finish()?)
    }

    /// Decodes the bytes of [`Catalog::encode`].
    ///
    /// # Errors
    ///
    /// When the bytes are damaged, or another release wrote them in another format.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoredCatalogError> {
        let (&format, compressed) = bytes.split_first().ok_or(StoredCatalogError::Empty)?;
        if format != FORMAT {
            return Err(StoredCatalogError::Format { found: format });
        }
        let mut plain = Vec::with_capacity(compressed.len().saturating_mul(6));
        ZlibDecoder::new(compressed).take(MAXIMUM_DECOMPRESSED).read_to_end(&mut plain)?;
        let catalog: Self = postcard::from_bytes(&plain)?;
        let zones = catalog.zones.len();
        for entry in &catalog.types {
            if let Some(offer) = entry.offers.iter().find(|offer| usize::from(offer.zone) >= zones) {
                return Err(StoredCatalogError::Zone { instance_type: entry.facts.name.clone(), zone: offer.zone });
            }
        }
        Ok(catalog)
    }
}

/// The zones that offer a type, in the order of [`Facts::zones`].
fn offers(facts: &Facts, name: &str, spot_price: impl Fn(&Zone) -> Option<Price>) -> Vec<ZoneOffer> {
    let Some(offered) = facts.offerings.get(name) else { return Vec::new() };
    let own_price = |zone: &Zone| Price::from_dollars(*facts.local_prices.get(&zone.name)?.get(name)?);
    (0_u8..)
        .zip(&facts.zones)
        .filter(|(_, zone)| offered.contains(&zone.name))
        .map(|(position, zone)| ZoneOffer {
            zone: position,
            spot_price: spot_price(zone),
            on_demand_price: own_price(zone),
            on_demand: Listing::Open,
            spot: Listing::Open,
        })
        .collect()
}

#[cfg(test)]
mod tests;
