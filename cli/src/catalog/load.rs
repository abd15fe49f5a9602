//! From the files that a command line names to a catalog.

use crate::error::CliError;
use nodeless_catalog::file::{CatalogFileError, from_instance_types, parse, parse_with_types};
use nodeless_catalog::{Catalog, CatalogFile};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The catalog of these files; without any, the embedded one.
pub(crate) fn load(catalog: Option<&Path>, instance_types: Option<&Path>) -> Result<CatalogFile, CliError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |source: CatalogFileError| CliError::Catalog { path, source }
    };
    match (catalog, instance_types) {
        (None, None) => {
            let catalog = Catalog::embedded().map_err(CliError::Facts)?;
            Ok(CatalogFile { catalog, notes: Vec::new(), left_out: BTreeSet::new() })
        }
        (Some(path), None) => parse(&read(path)?).map_err(wrong(path)),
        (None, Some(path)) => from_instance_types(&read(path)?).map_err(wrong(path)),
        (Some(path), Some(types)) => {
            let (file, answer) = (read(path)?, read(types)?);
            parse_with_types(&file, Some(&answer)).map_err(|source| {
                let culprit = if matches!(source, CatalogFileError::NoInstanceTypesAnswer) { types } else { path };
                CliError::Catalog { path: culprit.to_owned(), source }
            })
        }
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
