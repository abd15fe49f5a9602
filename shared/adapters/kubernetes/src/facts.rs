//! Facts for [`nodeless_doctor`] that only the API server knows: what the caller may not read is part of them.

use crate::connection::Connection;
use crate::export;
use crate::install::{self, InstallError};
use jiff::Timestamp;
use nodeless_doctor::{Definition, EarlierObjects, Facts, Read, Workload};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::Value;

/// The kinds that v1 replaced.
const EARLIER: [(&str, &str); 3] = [
    ("Provisioner", "/apis/karpenter.sh/v1alpha5/provisioners"),
    ("AWSNodeTemplate", "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates"),
    ("Machine", "/apis/karpenter.sh/v1alpha5/machines"),
];
/// The namespaces in which Karpenter is installed by its documentation.
const NAMESPACES: [&str; 2] = ["kube-system", "karpenter"];
const LEASE: &str = "karpenter-leader-election";

/// What the user may read; a kind that is not served has no objects.
fn permitted<T: Default>(read: Result<T, PortError>) -> Result<Read<T>, PortError> {
    match read {
        Ok(done) => Ok(Read::Done(done)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Read::Done(T::default())),
        Err(error) if error.kind == ErrorKind::Denied => Ok(Read::Not(error.to_string())),
        Err(error) => Err(error),
    }
}

/// What the checks after an installation need: a Karpenter that runs, and objects of its earlier APIs. All other facts are not read.
///
/// # Errors
/// When the API server does not answer.
pub async fn after_installation(connection: &Connection, now: Timestamp) -> Result<Facts, PortError> {
    let karpenter = karpenter(connection).await?;
    let lease = lease(connection, Vec::new()).await?;
    let earlier = earlier(connection).await?;
    Ok(Facts { karpenter, lease, earlier, ..Facts::unread(now, "the installation does not read it") })
}

/// The CustomResourceDefinitions, as the installation would treat them.
///
/// # Errors
/// When the API server does not answer.
pub async fn definitions(connection: &Connection) -> Result<Read<Vec<Definition>>, InstallError> {
    match install::review(connection).await {
        Ok(definitions) => Ok(Read::Done(definitions)),
        Err(InstallError::Api(error)) => Ok(permitted(Err(error))?),
        Err(error) => Err(error),
    }
}

/// Objects of Karpenter's earlier APIs.
///
/// # Errors
/// When the API server does not answer.
pub async fn earlier(connection: &Connection) -> Result<Read<Vec<EarlierObjects>>, PortError> {
    let mut found = Vec::new();
    for (kind, path) in EARLIER {
        match permitted(export::list(connection, kind, path).await)? {
            Read::Done(objects) => found.push(EarlierObjects { kind: kind.to_owned(), count: objects.len() }),
            Read::Not(why) => return Ok(Read::Not(why)),
        }
    }
    Ok(Read::Done(found))
}

/// The Deployments that run Karpenter's controller.
///
/// # Errors
/// When the API server does not answer.
pub async fn karpenter(connection: &Connection) -> Result<Read<Vec<Workload>>, PortError> {
    let objects = match permitted(export::list(connection, "Deployment", "/apis/apps/v1/deployments").await)? {
        Read::Done(objects) => objects,
        Read::Not(why) => return Ok(Read::Not(why)),
    };
    let values = objects.iter().filter_map(|object| serde_json::from_str::<Value>(object.get()).ok());
    Ok(Read::Done(values.filter(is_karpenter).map(|object| workload(&object)).collect()))
}

fn is_karpenter(deployment: &Value) -> bool {
    let labelled =
        deployment.pointer("/metadata/labels/app.kubernetes.io~1name").and_then(Value::as_str) == Some("karpenter");
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let images = containers.into_iter().flatten().filter_map(|container| container["image"].as_str());
    labelled || images.into_iter().any(|image| image.contains("/karpenter/controller"))
}

fn workload(deployment: &Value) -> Workload {
    let text = |pointer| deployment.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |pointer| deployment.pointer(pointer).and_then(Value::as_i64);
    Workload {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        // The API server sets 1 where a manifest has no replicas.
        replicas: number("/spec/replicas").unwrap_or(1),
        running: number("/status/replicas").unwrap_or(0),
    }
}

/// When Karpenter's leader last renewed its lease, in these namespaces and those of Karpenter's documentation.
///
/// # Errors
/// When the API server does not answer.
pub async fn lease(connection: &Connection, mut namespaces: Vec<String>) -> Result<Read<Option<Timestamp>>, PortError> {
    namespaces.extend(NAMESPACES.map(str::to_owned));
    namespaces.sort();
    namespaces.dedup();
    let mut renewed = None;
    for namespace in namespaces {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let leases = match permitted(export::list(connection, "Lease", &path).await)? {
            Read::Done(leases) => leases,
            Read::Not(why) => return Ok(Read::Not(why)),
        };
        let values = leases.iter().filter_map(|lease| serde_json::from_str::<Value>(lease.get()).ok());
        let of_karpenter =
            values.filter(|lease| lease.pointer("/metadata/name").and_then(Value::as_str) == Some(LEASE));
        let times =
            of_karpenter.filter_map(|lease| lease.pointer("/spec/renewTime")?.as_str()?.parse::<Timestamp>().ok());
        renewed = renewed.max(times.max());
    }
    Ok(Read::Done(renewed))
}
