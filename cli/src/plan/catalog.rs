//! The catalog that a plan uses.

use crate::catalog::load::load;
use crate::error::CliError;
use nodeless_catalog::Catalog;
use std::path::Path;

/// A catalog, with messages about it.
pub(crate) struct LoadedCatalog {
    pub(crate) catalog: Catalog,
    /// Warnings: what could not be read, and what is assumed.
    pub(crate) notes: Vec<String>,
    /// The sources of the prices, for the text output.
    pub(crate) described: String,
}

impl LoadedCatalog {
    /// The catalog of a simulated EC2.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn simulated(catalog: Catalog) -> Self {
        let described = format!(
            "Prices: simulated {}: on-demand prices of us-east-1 of the time of the build, spot prices synthetic.",
            catalog.region
        );
        Self { catalog, notes: Vec::new(), described }
    }
}

/// Reads a catalog file, or the embedded catalog.
pub(crate) fn read(path: Option<&Path>) -> Result<LoadedCatalog, CliError> {
    let loaded = load(path, None)?;
    let region = loaded.catalog.region.clone();
    let Some(shown) = path.map(|path| path.display().to_string()) else {
        let described = format!(
            "Prices: {region}, on-demand prices of the time of the build, spot prices synthetic; set others with --catalog."
        );
        return Ok(LoadedCatalog { catalog: loaded.catalog, notes: Vec::new(), described });
    };
    let mut notes: Vec<String> = loaded.notes.iter().map(|note| format!("{shown}: {note}")).collect();
    if !loaded.left_out.is_empty() {
        let names = loaded.left_out.iter().cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{shown}: ignored, because they cannot be nodes: {names}"));
    }
    let described = format!("Prices: {region}, {shown}.");
    Ok(LoadedCatalog { catalog: loaded.catalog, notes, described })
}
