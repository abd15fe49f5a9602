//! The manifests of `--if`, which replace or add objects of the cluster.

use crate::error::CliError;
use crate::input_files;
use crate::plan::input::files;
use nodeless_snapshot::{Reader, Snapshot, TemplatePath};
use std::path::Path;

/// The cluster with the manifests of a file or directory.
pub(crate) struct Changed {
    /// The path as it was given.
    pub(crate) file: String,
    /// The manifests alone.
    pub(crate) alone: Snapshot,
    /// The cluster with them.
    pub(crate) snapshot: Snapshot,
}

/// Reads the manifests. `cluster` has the objects of the cluster.
pub(crate) fn read(
    cluster: &Reader,
    path: &Path,
    template_paths: &[&'static TemplatePath],
) -> Result<Changed, CliError> {
    let (mut alone, mut changed) = (files::checking(template_paths), cluster.clone());
    input_files::check_rendered(path)?;
    for (name, bytes) in input_files::contents(&[path.to_owned()])? {
        alone.replace(&name, &bytes);
        changed.replace(&name, &bytes);
    }
    let (alone, snapshot) = (alone.finish(), changed.finish());
    let refused = |why: &str| CliError::Alternative { path: path.to_owned(), why: why.to_owned() };
    let created: usize = alone.created.values().sum();
    if !alone.view.nodes.is_empty() || !alone.claims.is_empty() || alone.view.pods.len() > created {
        return Err(refused("Nodes, NodeClaims and Pods are those of --cluster in every alternative"));
    }
    if alone.objects == 0 && alone.created.is_empty() && alone.faults.is_empty() {
        return Err(refused("it has no object that changes the plan"));
    }
    Ok(Changed { file: path.display().to_string(), alone, snapshot })
}
