//! Reads a cluster from files.

use crate::error::CliError;
use nodeless_snapshot::Reader;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Reads files, directories of files and standard input (`-`), in the given order.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Reader, CliError> {
    let mut reader = Reader::default();
    for path in paths {
        let failed = |source| CliError::Read { path: path.clone(), source };
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
            reader.read("standard input", &bytes);
        } else if path.is_dir() {
            let files = exports(path).map_err(failed)?;
            if files.is_empty() {
                return Err(CliError::EmptyFolder { path: path.clone() });
            }
            for file in files {
                read_file(&mut reader, &file)?;
            }
        } else {
            read_file(&mut reader, path)?;
        }
    }
    Ok(reader)
}

fn read_file(reader: &mut Reader, path: &Path) -> Result<(), CliError> {
    let bytes = fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    reader.read(&path.display().to_string(), &bytes);
    Ok(())
}

/// The YAML and JSON files of a directory, sorted by name.
fn exports(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_file() && matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
