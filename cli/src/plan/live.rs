//! Reads a cluster from the API server.

use crate::error::CliError;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_api::resources::{self, CustomResource};
use nodeless_kubernetes::{Connection, export};
use nodeless_ports::ErrorKind;
use nodeless_snapshot::Reader;

const fn custom(of: CustomResource, needed: bool) -> (&'static str, &'static str, &'static str, bool) {
    (of.api_version, of.kind, of.path, needed)
}

/// The kinds that are read, and whether a plan needs them.
const KINDS: [(&str, &str, &str, bool); 20] = [
    ("v1", "Node", "/api/v1/nodes", true),
    ("v1", "Pod", "/api/v1/pods", true),
    custom(resources::NODE_POOLS, true),
    custom(resources::NODE_CLASSES, true),
    custom(resources::NODE_CLAIMS, true),
    ("apps/v1", "DaemonSet", "/apis/apps/v1/daemonsets", true),
    ("policy/v1", "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", false),
    ("scheduling.k8s.io/v1", "PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses", false),
    ("v1", "LimitRange", "/api/v1/limitranges", false),
    ("v1", "Namespace", "/api/v1/namespaces", false),
    ("v1", "PersistentVolume", "/api/v1/persistentvolumes", false),
    ("v1", "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", false),
    ("storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses", false),
    ("storage.k8s.io/v1", "CSINode", "/apis/storage.k8s.io/v1/csinodes", false),
    ("resource.k8s.io/v1", "ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices", false),
    ("resource.k8s.io/v1", "DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses", false),
    ("resource.k8s.io/v1", "ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims", false),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", "/apis/resource.k8s.io/v1/resourceclaimtemplates", false),
    custom(resources::NODE_OVERLAYS, false),
    custom(resources::CAPACITY_BUFFERS, false),
];
const BUFFER: &str = resources::CAPACITY_BUFFERS.kind;
/// The kinds that a CapacityBuffer can refer to, and the quotas that its pods count against; read only if the cluster has one.
const SOURCES: [(&str, &str, &str, bool); 5] = [
    ("v1", "ResourceQuota", "/api/v1/resourcequotas", false),
    ("v1", "PodTemplate", "/api/v1/podtemplates", false),
    ("apps/v1", "Deployment", "/apis/apps/v1/deployments", false),
    ("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets", false),
    ("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets", false),
];

/// The kinds whose selectors are those of default topology spread constraints.
const SELECTING: [(&str, &str, &str, bool); 4] = [
    ("v1", "Service", "/api/v1/services", true),
    ("v1", "ReplicationController", "/api/v1/replicationcontrollers", true),
    ("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets", true),
    ("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets", true),
];

/// Reads the objects that a plan needs. Optional kinds that the user may not list are skipped with a warning.
pub(crate) async fn read(connection: &Connection) -> Result<Reader, CliError> {
    read_with(connection, SchedulerConfig::default()).await
}

/// Reads the same, and what the settings of the scheduler depend on.
pub(crate) async fn read_with(connection: &Connection, config: SchedulerConfig) -> Result<Reader, CliError> {
    let constrained = !config.is_empty();
    let mut reader = Reader::default().with_scheduler_config(config);
    let mut buffers = 0;
    for kind in KINDS {
        let read = read_kind(connection, kind, &mut reader).await?;
        buffers += if kind.1 == BUFFER { read } else { 0 };
    }
    let sources = if buffers > 0 { &SOURCES[..] } else { &[] };
    let selecting = if constrained { &SELECTING[..] } else { &[] };
    let is_read = |kind: &&(&str, &str, &str, bool)| !selecting.iter().any(|read| read.1 == kind.1);
    for kind in sources.iter().filter(is_read).chain(selecting) {
        read_kind(connection, *kind, &mut reader).await?;
    }
    Ok(reader)
}

/// Reads the same, and returns the kinds that the user may not list, each with the reason. A kind without a definition has no
/// objects.
pub(crate) async fn read_permitted(connection: &Connection) -> Result<(Reader, Vec<(String, String)>), CliError> {
    let mut reader = Reader::default();
    let mut denied = Vec::new();
    for (api_version, kind, path, _) in KINDS {
        match export::list(connection, kind, path).await {
            Ok(objects) => {
                let objects = objects.iter().enumerate();
                objects.for_each(|(index, object)| reader.item(path, index, api_version, kind, object));
            }
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) if error.kind == ErrorKind::Denied => denied.push((kind.to_owned(), error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((reader, denied))
}

/// Reads the objects of one kind, and returns their number.
async fn read_kind(
    connection: &Connection,
    (api_version, kind, path, essential): (&str, &str, &str, bool),
    reader: &mut Reader,
) -> Result<usize, CliError> {
    let objects = match export::list(connection, kind, path).await {
        Ok(objects) => objects,
        // The definitions of NodeOverlay and CapacityBuffer may not be installed.
        Err(error) if !essential && error.kind == ErrorKind::NotFound => return Ok(0),
        Err(error) if !essential && error.kind == ErrorKind::Denied => {
            reader.warn(format!("the plan ignores objects of kind {kind}: {error}"));
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
    for (index, object) in objects.iter().enumerate() {
        reader.item(path, index, api_version, kind, object);
    }
    Ok(objects.len())
}
