//! The table of `nodeless catalog show`.

use nodeless_catalog::CatalogFile;
use nodeless_model::money::amount;
use nodeless_model::resources::{format_quantity, name};
use nodeless_model::{CapacityType, InstanceType, labels};
use std::fmt::Write as _;

const HEADINGS: [&str; 8] = ["NAME", "ARCH", "CPU", "MEMORY", "PODS", "ON-DEMAND", "SPOT", "ZONES"];

/// One line for each type: its allocatable resources, the lowest price of each capacity type, and the number of zones. The
/// last line names the sources of the prices.
pub(crate) fn table(file: &CatalogFile, types: &[InstanceType]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(types.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let zones: Vec<&str> = file.catalog.zones.iter().map(|zone| zone.name.as_str()).collect();
    let [on_demand, spot] = file.catalog.price_sources();
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "\n{} instance types in {} ({}); {on_demand}; {spot}.",
        types.len(),
        file.catalog.region,
        zones.join(", ")
    );
    if !file.left_out.is_empty() {
        let _ = writeln!(text, "Not listed, because they cannot be nodes: {}.", join(file.left_out.iter()));
    }
    text
}

fn join<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn row(kind: &InstanceType) -> [String; 8] {
    let allocatable = kind.allocatable();
    let quantity = |name: &str| format_quantity(name, allocatable.get(name));
    let price = |capacity_type: CapacityType| {
        let offered = kind.offerings.iter().filter(|offering| offering.available);
        let prices = offered.filter(|offering| offering.capacity_type == capacity_type).map(|offering| offering.price);
        prices.min_by(f64::total_cmp).map_or_else(|| "-".to_owned(), amount)
    };
    let mut zones: Vec<&str> =
        kind.offerings.iter().filter(|offering| offering.available).map(|offering| offering.zone.as_str()).collect();
    zones.dedup();
    let arch = kind.requirements.get(labels::ARCH).and_then(|arch| arch.single()).unwrap_or("-");
    [
        kind.name.clone(),
        arch.to_owned(),
        quantity(name::CPU),
        quantity(name::MEMORY),
        quantity(name::PODS),
        price(CapacityType::OnDemand),
        price(CapacityType::Spot),
        zones.len().to_string(),
    ]
}
