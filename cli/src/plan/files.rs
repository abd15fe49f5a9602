//! Reads a cluster from files.

use crate::definitions;
use crate::error::CliError;
use crate::input_files::{check_rendered, each};
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_snapshot::Reader;
use std::path::PathBuf;

/// A reader of manifests, which are checked by their definitions.
pub(crate) fn checking() -> Reader {
    Reader::default().with_check(definitions::errors).with_field_check(definitions::unknown_fields)
}

/// Reads files, directories of files and standard input (`-`), in the given order. Workloads without pods get those of their
/// replicas.
pub(crate) fn read(paths: &[PathBuf], config: SchedulerConfig) -> Result<Reader, CliError> {
    let mut reader = checking().with_pods_of_workloads().with_assumed_objects().with_scheduler_config(config);
    for path in paths {
        check_rendered(path)?;
        each(path, &mut |name, bytes| reader.read(&name, &bytes))?;
    }
    Ok(reader)
}
