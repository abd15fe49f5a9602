//! What there is to launch.

use crate::catalog::load::load;
use crate::error::CliError;
use nodeless_catalog::Catalog;
use std::path::Path;

/// A catalog, and what to tell of it.
pub(crate) struct Given {
    pub(crate) catalog: Catalog,
    /// What could not be read of it, or had to be assumed.
    pub(crate) notes: Vec<String>,
    /// Where prices come from, for people.
    pub(crate) described: String,
}

/// Reads a catalog file, or takes the catalog that is built in.
pub(crate) fn read(path: Option<&Path>) -> Result<Given, CliError> {
    let given = load(path, None)?;
    let region = given.catalog.region.clone();
    let Some(shown) = path.map(|path| path.display().to_string()) else {
        let described = format!(
            "Prices: {region}, on-demand as listed when this was built, spot synthetic; give your own with --catalog."
        );
        return Ok(Given { catalog: given.catalog, notes: Vec::new(), described });
    };
    let mut notes: Vec<String> = given.notes.iter().map(|note| format!("{shown}: {note}")).collect();
    if !given.left_out.is_empty() {
        let names = given.left_out.iter().cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{shown}: no node can be {names}; left out"));
    }
    let described = format!("Prices: {region}, {shown}.");
    Ok(Given { catalog: given.catalog, notes, described })
}
