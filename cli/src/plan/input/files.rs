//! Reads a cluster from files.

use crate::definitions;
use crate::error::CliError;
use crate::input_files::{check_rendered, each};
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_snapshot::{Reader, TemplatePath};
use std::path::PathBuf;

/// What files do not have.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) scheduler_config: SchedulerConfig,
    /// The templates of kinds that planning does not know.
    pub(crate) template_paths: Vec<&'static TemplatePath>,
}

/// A reader of manifests, which are checked by their definitions.
pub(crate) fn checking(template_paths: &[&'static TemplatePath]) -> Reader {
    let reader = Reader::default().with_check(definitions::errors).with_field_check(definitions::FIELDS);
    reader.with_template_paths(template_paths.to_vec())
}

/// The value of `--pod-template`, which is kept until the process ends.
pub(crate) fn template_path(text: &str) -> Result<&'static TemplatePath, String> {
    text.parse::<TemplatePath>().map(|path| &*Box::leak(Box::new(path)))
}

/// Reads files, directories of files and standard input (`-`), in the given order. Workloads without pods get those of their
/// replicas.
pub(crate) fn read(paths: &[PathBuf], settings: Settings) -> Result<Reader, CliError> {
    let Settings { scheduler_config, template_paths } = settings;
    let reader = checking(&template_paths).with_pods_of_workloads().with_assumed_objects();
    let mut reader = reader.with_scheduler_config(scheduler_config);
    for path in paths {
        check_rendered(path)?;
        each(path, &mut |name, bytes| reader.read(&name, &bytes))?;
    }
    Ok(reader)
}
