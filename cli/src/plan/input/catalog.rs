//! The catalog that a plan or a view uses.

use crate::catalog::load;
use crate::error::CliError;
use clap::Args;
use nodeless_api::view::ClusterView;
use nodeless_catalog::facts::{EmbeddedPrices, Facts};
use nodeless_catalog::{Catalog, Location};
use nodeless_model::labels;
use std::path::{Path, PathBuf};

/// The options that choose a catalog.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CatalogArguments {
    /// The catalog (JSON), as `nodeless catalog export` writes it: region, zones, instanceTypes as returned by DescribeInstanceTypes, and
    /// offerings with prices [default: the embedded catalog of the cluster's region, with synthetic spot prices]
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The region of the embedded catalog [default: the region that the objects of the cluster name, or us-east-1]
    #[arg(long, value_name = "REGION", conflicts_with = "catalog")]
    region: Option<String>,
}

impl CatalogArguments {
    /// Reads the catalog file, or chooses the embedded catalog for a cluster.
    pub(crate) fn load(&self, location: &Location) -> Result<LoadedCatalog, CliError> {
        match &self.catalog {
            Some(path) => from_file(path),
            None => LoadedCatalog::embedded(location, self.region.as_deref()),
        }
    }

    /// Whether the spot prices are synthetic: those of the embedded catalog are.
    pub(crate) const fn has_synthetic_spot(&self) -> bool {
        self.catalog.is_none()
    }

    /// Whether the catalog depends on the cluster.
    #[cfg(feature = "kubernetes")]
    pub(crate) const fn follows_cluster(&self) -> bool {
        self.catalog.is_none() && self.region.is_none()
    }
}

/// A catalog, with messages about it.
pub(crate) struct LoadedCatalog {
    pub(crate) catalog: Catalog,
    /// Warnings: what could not be read, and what is assumed.
    pub(crate) notes: Vec<String>,
    /// The sources of the prices, for the text output.
    pub(crate) described: String,
}

impl LoadedCatalog {
    /// The embedded catalog of a region, by default that of the cluster.
    pub(crate) fn embedded(location: &Location, region: Option<&str>) -> Result<Self, CliError> {
        let catalog = Catalog::synthetic(1, &location.facts(region).map_err(CliError::Region)?);
        let described = format!("Prices: {}; set others with --catalog.", embedded_prices(&catalog));
        Ok(Self { catalog, notes: Vec::new(), described })
    }

    /// The catalog of a simulated EC2.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn simulated(catalog: Catalog) -> Self {
        let described = format!("Prices: simulated {}.", embedded_prices(&catalog));
        Self { catalog, notes: Vec::new(), described }
    }
}

/// The embedded prices of a catalog, in words.
fn embedded_prices(catalog: &Catalog) -> String {
    let region = &catalog.region;
    match Facts::embedded_prices(region) {
        EmbeddedPrices { of_region: true, month } => {
            format!("{region}, on-demand prices of {month}{}, spot prices synthetic", derived(catalog))
        }
        EmbeddedPrices { of_region: false, month } => format!(
            "{region}, for which no prices are embedded: on-demand prices of us-east-1 of {month}, spot prices synthetic"
        ),
    }
}

/// How many of the prices of a catalog are derived, in parentheses; nothing if none is.
fn derived(catalog: &Catalog) -> String {
    catalog.derived_prices().map_or_else(String::new, |derived| format!(" ({derived})"))
}

/// The region of a cluster and its zones, as its objects name them.
pub(crate) fn location(view: &ClusterView) -> Location {
    let mut location = Location::default();
    add_location(&mut location, view);
    location
}

/// Adds what the objects of a cluster name.
pub(crate) fn add_location(location: &mut Location, view: &ClusterView) {
    view.nodes.iter().for_each(|node| location.add_node(&node.labels));
    let statuses = view.node_classes.values().filter_map(|class| class.status.as_ref());
    for subnet in statuses.flat_map(|status| &status.subnets) {
        location.add_zone(&subnet.zone, subnet.zone_id.as_deref());
    }
    let of_pools = view.node_pools.iter().filter_map(|pool| pool.template.requirements.get(labels::ZONE));
    for term in of_pools.flat_map(|zones| zones.to_terms(labels::ZONE)) {
        term.values.iter().for_each(|zone| location.add_zone(zone, None));
    }
}

fn from_file(path: &Path) -> Result<LoadedCatalog, CliError> {
    let loaded = load::file(path)?;
    let shown = path.display();
    let mut notes: Vec<String> = loaded.notes.iter().map(|note| format!("{shown}: {note}")).collect();
    if !loaded.left_out.is_empty() {
        let names = loaded.left_out.iter().cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{shown}: ignored, because they cannot be nodes: {names}"));
    }
    let described = format!("Prices: {}, {shown}{}.", loaded.catalog.region, derived(&loaded.catalog));
    Ok(LoadedCatalog { catalog: loaded.catalog, notes, described })
}
