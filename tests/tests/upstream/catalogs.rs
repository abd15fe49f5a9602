//! The catalogs of cases: the embedded one, as `nodeless plan` has it without files, with GPUs of AMD, or a part of it.

use jiff::Timestamp;
use nodeless_catalog::stored::Listing;
use nodeless_catalog::{Catalog, Facts};
use nodeless_ports::ShiftedZone;
use std::sync::LazyLock;

static EMBEDDED: LazyLock<Catalog> = LazyLock::new(|| {
    let zones = ["us-east-1a", "us-east-1b", "us-east-1c"];
    let mut facts = Facts::embedded().unwrap().within_zones(&zones);
    // EC2 no longer offers the only types with GPUs of AMD, which cases need.
    for (_, offered) in facts.offerings.iter_mut().filter(|(name, _)| name.starts_with("g4ad.")) {
        *offered = zones.map(str::to_owned).to_vec();
    }
    Catalog::synthetic(1, &facts)
});

/// The catalog with these instance types or families, all if there are none, without these offerings.
pub(crate) fn catalog_of(names: &[String], unavailable: &[String]) -> Result<Catalog, String> {
    let mut catalog = EMBEDDED.clone();
    for name in names {
        let is_known = |kind: &str| is_named(kind, name);
        if !catalog.types.iter().any(|one| is_known(&one.facts.name)) {
            return Err(format!("the catalog has no instance type or family {name}"));
        }
    }
    if !names.is_empty() {
        catalog.types.retain(|one| names.iter().any(|name| is_named(&one.facts.name, name)));
    }
    unavailable.iter().try_for_each(|offering| withhold(&mut catalog, offering))?;
    Ok(catalog)
}

fn is_named(kind: &str, name: &str) -> bool {
    kind == name || kind.split_once('.').is_some_and(|(family, _)| family == name)
}

fn withhold(catalog: &mut Catalog, offering: &str) -> Result<(), String> {
    let words: Vec<&str> = offering.split(' ').collect();
    let [kind, zone, capacity_type] = words[..] else {
        return Err(format!("{offering:?} is not TYPE ZONE CAPACITY-TYPE"));
    };
    let zones: Vec<bool> = catalog.zones.iter().map(|one| zone == "*" || one.name == zone).collect();
    for one in catalog.types.iter_mut().filter(|one| kind == "*" || is_named(&one.facts.name, kind)) {
        for offer in one.offers.iter_mut().filter(|offer| zones[usize::from(offer.zone)]) {
            if capacity_type != "spot" {
                offer.on_demand = Listing::Withheld;
            }
            if capacity_type != "on-demand" {
                offer.spot = Listing::Withheld;
            }
        }
    }
    Ok(())
}

/// A zone with a zonal shift.
pub(crate) fn shifted(catalog: &Catalog, name: &str) -> Result<ShiftedZone, String> {
    let zone = catalog.zones.iter().find(|zone| zone.name == name).ok_or_else(|| format!("there is no zone {name}"))?;
    Ok(ShiftedZone { zone_id: zone.id.clone(), zone: zone.name.clone(), until: Timestamp::MAX })
}
