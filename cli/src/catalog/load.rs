//! Loads a catalog from the files that the command line names.

use crate::error::CliError;
use nodeless_catalog::file::{CatalogFileError, from_instance_types, parse, parse_with_types};
use nodeless_catalog::{Catalog, CatalogFile, Location};
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The files that are catalogs.
const CATALOG: &str = "a catalog as `nodeless catalog export` writes it";
/// The files with instance types.
const INSTANCE_TYPES: &str = "the output of `aws ec2 describe-instance-types --output json`";

/// The catalog from these files, or the embedded catalog of a region if none is given.
pub(crate) fn load(
    catalog: Option<&Path>,
    instance_types: Option<&Path>,
    region: &str,
) -> Result<CatalogFile, CliError> {
    match (catalog, instance_types) {
        (None, None) => {
            let facts = Location::default().facts(Some(region)).map_err(CliError::Region)?;
            let catalog = Catalog::synthetic(1, &facts);
            Ok(CatalogFile { catalog, notes: Vec::new(), left_out: BTreeSet::new() })
        }
        (Some(path), None) => file(path),
        (None, Some(path)) => from_instance_types(&read(path)?).map_err(|source| invalid(path, source, INSTANCE_TYPES)),
        (Some(path), Some(types)) => {
            let (file, answer) = (read(path)?, read(types)?);
            parse_with_types(&file, Some(&answer)).map_err(|source| {
                let of_types = match &source {
                    CatalogFileError::NoInstanceTypesAnswer => true,
                    CatalogFileError::Json(_) => serde_json::from_slice::<IgnoredAny>(&file).is_ok(),
                    _ => false,
                };
                if of_types { invalid(types, source, INSTANCE_TYPES) } else { invalid(path, source, CATALOG) }
            })
        }
    }
}

/// The catalog of a file.
pub(crate) fn file(path: &Path) -> Result<CatalogFile, CliError> {
    parse(&read(path)?).map_err(|source| invalid(path, source, CATALOG))
}

/// The error for a file. `expected` is what the command reads.
fn invalid(path: &Path, source: CatalogFileError, expected: &'static str) -> CliError {
    let path = path.to_owned();
    match source {
        CatalogFileError::Json(_) => CliError::NotJson { path, source, expected },
        source => CliError::Catalog { path, source },
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|source| CliError::Read { path: PathBuf::from("standard input"), source });
    }
    std::fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })
}
