//! Reads a cluster from files.

use crate::definitions;
use crate::error::CliError;
use crate::input_files::each;
use nodeless_snapshot::Reader;
use std::path::PathBuf;

/// Reads files, directories of files and standard input (`-`), in the given order. Workloads without pods get those of their
/// replicas, and NodePools and EC2NodeClasses are checked by their definitions.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Reader, CliError> {
    let mut reader = Reader::default().with_pods_of_workloads().with_check(definitions::errors);
    for path in paths {
        each(path, &mut |name, bytes| reader.read(&name, &bytes))?;
    }
    Ok(reader)
}
