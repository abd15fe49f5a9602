//! Reads a cluster from files.

use crate::definitions;
use crate::error::CliError;
use crate::input_files::each;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_snapshot::Reader;
use std::path::PathBuf;

/// Reads files, directories of files and standard input (`-`), in the given order. Workloads without pods get those of their
/// replicas, and NodePools and EC2NodeClasses are checked by their definitions.
pub(crate) fn read(paths: &[PathBuf], config: SchedulerConfig) -> Result<Reader, CliError> {
    let reader = Reader::default().with_pods_of_workloads().with_check(definitions::errors);
    let mut reader = reader.with_scheduler_config(config);
    for path in paths {
        each(path, &mut |name, bytes| reader.read(&name, &bytes))?;
    }
    Ok(reader)
}
