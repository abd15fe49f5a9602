//! Loads a catalog from the files that the command line names.

use crate::error::CliError;
use nodeless_catalog::file::{CatalogFileError, from_instance_types, parse, parse_with_types};
use nodeless_catalog::{Catalog, CatalogFile, Location};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The catalog from these files, or the embedded catalog of a region if none is given.
pub(crate) fn load(
    catalog: Option<&Path>,
    instance_types: Option<&Path>,
    region: &str,
) -> Result<CatalogFile, CliError> {
    let invalid = |path: &Path| {
        let path = path.to_owned();
        move |source: CatalogFileError| CliError::Catalog { path, source }
    };
    match (catalog, instance_types) {
        (None, None) => {
            let facts = Location::default().facts(Some(region)).map_err(CliError::Region)?;
            let catalog = Catalog::synthetic(1, &facts);
            Ok(CatalogFile { catalog, notes: Vec::new(), left_out: BTreeSet::new() })
        }
        (Some(path), None) => file(path),
        (None, Some(path)) => from_instance_types(&read(path)?).map_err(invalid(path)),
        (Some(path), Some(types)) => {
            let (file, answer) = (read(path)?, read(types)?);
            parse_with_types(&file, Some(&answer)).map_err(|source| {
                let invalid_file = if matches!(source, CatalogFileError::NoInstanceTypesAnswer) { types } else { path };
                CliError::Catalog { path: invalid_file.to_owned(), source }
            })
        }
    }
}

/// The catalog of a file.
pub(crate) fn file(path: &Path) -> Result<CatalogFile, CliError> {
    parse(&read(path)?).map_err(|source| CliError::Catalog { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|source| CliError::Read { path: PathBuf::from("standard input"), source });
    }
    std::fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })
}
