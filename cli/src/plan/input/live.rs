//! Reads a cluster from the API server.

use crate::error::CliError;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_api::resources::{self, CustomResource};
use nodeless_kubernetes::{Connection, export};
use nodeless_ports::ErrorKind;
use nodeless_snapshot::Reader;

/// A kind of objects that a plan is made from.
struct Listed {
    api_version: &'static str,
    kind: &'static str,
    path: &'static str,
    /// Whether there is no plan without its objects.
    needed: bool,
}

const fn needed(api_version: &'static str, kind: &'static str, path: &'static str) -> Listed {
    Listed { api_version, kind, path, needed: true }
}

const fn optional(api_version: &'static str, kind: &'static str, path: &'static str) -> Listed {
    Listed { needed: false, ..needed(api_version, kind, path) }
}

const fn custom(of: CustomResource, needed: bool) -> Listed {
    Listed { api_version: of.api_version, kind: of.kind, path: of.path, needed }
}

/// The kinds that are read.
const KINDS: [Listed; 20] = [
    needed("v1", "Node", "/api/v1/nodes"),
    needed("v1", "Pod", "/api/v1/pods"),
    custom(resources::NODE_POOLS, true),
    custom(resources::NODE_CLASSES, true),
    custom(resources::NODE_CLAIMS, true),
    needed("apps/v1", "DaemonSet", "/apis/apps/v1/daemonsets"),
    optional("policy/v1", "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    optional("scheduling.k8s.io/v1", "PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    optional("v1", "LimitRange", "/api/v1/limitranges"),
    optional("v1", "Namespace", "/api/v1/namespaces"),
    optional("v1", "PersistentVolume", "/api/v1/persistentvolumes"),
    optional("v1", "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    optional("storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    optional("storage.k8s.io/v1", "CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    optional("resource.k8s.io/v1", "ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices"),
    optional("resource.k8s.io/v1", "DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
    optional("resource.k8s.io/v1", "ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims"),
    optional("resource.k8s.io/v1", "ResourceClaimTemplate", "/apis/resource.k8s.io/v1/resourceclaimtemplates"),
    custom(resources::NODE_OVERLAYS, false),
    custom(resources::CAPACITY_BUFFERS, false),
];
const BUFFER: &str = resources::CAPACITY_BUFFERS.kind;
/// The kinds that a CapacityBuffer can refer to, and the quotas that its pods count against; read only if the cluster has one.
const SOURCES: [Listed; 5] = [
    optional("v1", "ResourceQuota", "/api/v1/resourcequotas"),
    optional("v1", "PodTemplate", "/api/v1/podtemplates"),
    optional("apps/v1", "Deployment", "/apis/apps/v1/deployments"),
    optional("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets"),
    optional("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets"),
];

/// The kinds whose selectors are those of default topology spread constraints.
const SELECTING: [Listed; 4] = [
    needed("v1", "Service", "/api/v1/services"),
    needed("v1", "ReplicationController", "/api/v1/replicationcontrollers"),
    needed("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets"),
    needed("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets"),
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
    for listed in &KINDS {
        let read = read_kind(connection, listed, &mut reader).await?;
        buffers += if listed.kind == BUFFER { read } else { 0 };
    }
    let sources = if buffers > 0 { &SOURCES[..] } else { &[] };
    let selecting = if constrained { &SELECTING[..] } else { &[] };
    let is_read = |source: &&Listed| !selecting.iter().any(|read| read.kind == source.kind);
    for listed in sources.iter().filter(is_read).chain(selecting) {
        read_kind(connection, listed, &mut reader).await?;
    }
    Ok(reader)
}

/// Reads the same, and returns the kinds that the user may not list, each with the reason. A kind without a definition has no
/// objects.
pub(crate) async fn read_permitted(connection: &Connection) -> Result<(Reader, Vec<(String, String)>), CliError> {
    let mut reader = Reader::default();
    let mut denied = Vec::new();
    for Listed { api_version, kind, path, .. } in KINDS {
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
async fn read_kind(connection: &Connection, listed: &Listed, reader: &mut Reader) -> Result<usize, CliError> {
    let Listed { api_version, kind, path, needed } = *listed;
    let objects = match export::list(connection, kind, path).await {
        Ok(objects) => objects,
        // The definitions of NodeOverlay and CapacityBuffer may not be installed.
        Err(error) if !needed && error.kind == ErrorKind::NotFound => return Ok(0),
        Err(error) if !needed && error.kind == ErrorKind::Denied => {
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
