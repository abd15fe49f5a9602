//! Reads the two sets of manifests, and the cluster that they belong to.

use crate::error::CliError;
use crate::input_files;
use crate::plan::input::catalog::add_location;
use crate::plan::input::files;
use jiff::Timestamp;
use nodeless_catalog::Location;
use nodeless_snapshot::{Identity, Manifest, Snapshot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What to give in place of paths that have nothing to compare.
const GIVE: &str = "give workloads, NodePools, EC2NodeClasses or other manifests";

/// The cluster with each set of manifests. The objects of BASE that HEAD lacks are removed with HEAD.
pub(crate) struct Sets {
    pub(super) base: Snapshot,
    pub(super) head: Snapshot,
    /// Both with as many pods as autoscalers allow, if there are any.
    pub(super) maximum: Option<[Snapshot; 2]>,
    /// Whether there is a cluster besides the manifests.
    pub(super) with_cluster: bool,
    path: PathBuf,
}

/// Reads `base` and `head` into the cluster of these files, if any.
pub(crate) fn read(
    cluster: &[PathBuf],
    base: &Path,
    head_path: &Path,
    settings: files::Settings,
) -> Result<Sets, CliError> {
    let piped = |path: &&Path| path.as_os_str() == "-";
    if [base, head_path].into_iter().chain(cluster.iter().map(PathBuf::as_path)).filter(piped).count() > 1 {
        return Err(refused(Path::new("-"), "standard input can be given once".to_owned()));
    }
    let reader = files::read(cluster, settings)?;
    let mut sets = [reader.clone(), reader];
    // A field that HEAD corrects is no error.
    sets[1].set_strict_fields();
    for (reader, path) in sets.iter_mut().zip([base, head_path]) {
        input_files::check_rendered(path)?;
        for (name, bytes) in input_files::contents(&[path.to_owned()])? {
            reader.replace(&name, &bytes);
        }
        if let Some(why) = reader.replaced().find_map(|(object, manifest)| foreign(object, manifest)) {
            return Err(refused(path, why));
        }
    }
    let [before, mut after] = sets;
    let of_head: BTreeSet<Identity> = after.replaced().map(|(object, _)| object.clone()).collect();
    let removed = before.replaced().map(|(object, _)| object).filter(|object| !of_head.contains(*object));
    removed.for_each(|object| after.remove(object));
    let is_scaled = before.is_scaled() || after.is_scaled();
    let maximum = is_scaled.then(|| [&before, &after].map(|reader| reader.clone().at_maximum().finish()));
    let (base, head) = (before.finish(), after.finish());
    Ok(Sets { base, head, maximum, with_cluster: !cluster.is_empty(), path: head_path.to_owned() })
}

/// Why an object is not one of a set: it is the state of a cluster.
fn foreign(object: &Identity, manifest: &Manifest) -> Option<String> {
    let is_state = match object.kind {
        "Node" | "NodeClaim" => true,
        "Pod" => manifest.object().pointer("/spec/nodeName").is_some(),
        _ => false,
    };
    is_state.then(|| format!("{object}: Nodes, NodeClaims and Pods with a node are those of --cluster; {GIVE}"))
}

fn refused(path: &Path, why: String) -> CliError {
    CliError::Compared { path: path.to_owned(), why }
}

impl Sets {
    /// The region and zones that the objects of both sets name.
    pub(crate) fn location(&self) -> Location {
        let mut location = Location::default();
        [&self.base, &self.head].into_iter().for_each(|set| add_location(&mut location, &set.view));
        location
    }

    /// The latest time in the input.
    pub(crate) fn latest(&self) -> Timestamp {
        self.base.latest.max(self.head.latest)
    }

    /// Neither set has an object.
    pub(super) fn nothing(&self, skipped: &str) -> CliError {
        let only = if skipped.is_empty() { String::new() } else { format!(", only {skipped}") };
        refused(&self.path, format!("neither BASE nor HEAD has an object that planning uses{only}; {GIVE}"))
    }
}
