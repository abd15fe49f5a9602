//! Facts for [`nodeless_doctor`] that only the API server knows: what the caller may not read is part of them.

use crate::connection::Connection;
use crate::export;
use crate::install::{self, InstallError};
use jiff::Timestamp;
use nodeless_doctor::{Definition, EarlierObjects, Facts, Read, Surging, Workload};
use nodeless_model::labels::SURGE_BEFORE_DRAIN;
use nodeless_model::surge::SurgeMode;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The kinds that v1 replaced.
const EARLIER: [(&str, &str); 3] = [
    ("Provisioner", "/apis/karpenter.sh/v1alpha5/provisioners"),
    ("AWSNodeTemplate", "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates"),
    ("Machine", "/apis/karpenter.sh/v1alpha5/machines"),
];
/// The namespaces in which Karpenter is installed by its documentation.
const NAMESPACES: [&str; 2] = ["kube-system", "karpenter"];
const LEASE: &str = "karpenter-leader-election";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The groups of lifecycle: those that the module gives to its access entry, and that of every user.
const LIFECYCLE: [&str; 3] = ["nodeless:controllers", "nodeless:lifecycle", "system:authenticated"];
/// What each value of the annotation needs besides reading: a verb, an API group and a resource.
const RESTART: &[[&str; 3]] = &[["patch", "apps", "deployments"]];
const SCALE: &[[&str; 3]] = &[["patch", "apps", "deployments"], ["patch", "", "pods"]];

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
    let karpenter = karpenter(&deployments(connection).await?);
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

/// All Deployments.
///
/// # Errors
/// When the API server does not answer.
pub async fn deployments(connection: &Connection) -> Result<Read<Vec<Value>>, PortError> {
    let objects = match permitted(export::list(connection, "Deployment", "/apis/apps/v1/deployments").await)? {
        Read::Done(objects) => objects,
        Read::Not(why) => return Ok(Read::Not(why)),
    };
    Ok(Read::Done(objects.iter().filter_map(|object| serde_json::from_str(object.get()).ok()).collect()))
}

/// Those of the Deployments that run Karpenter's controller.
#[must_use]
pub fn karpenter(deployments: &Read<Vec<Value>>) -> Read<Vec<Workload>> {
    match deployments {
        Read::Done(all) => Read::Done(all.iter().filter(|object| is_karpenter(object)).map(workload).collect()),
        Read::Not(why) => Read::Not(why.clone()),
    }
}

/// Those of the Deployments whose pods ask for a successor before their node is drained, and whether lifecycle may create it.
///
/// # Errors
/// When the API server does not answer.
pub async fn surges(connection: &Connection, deployments: &Read<Vec<Value>>) -> Result<Read<Vec<Surging>>, PortError> {
    let all = match deployments {
        Read::Done(all) => all,
        Read::Not(why) => return Ok(Read::Not(why.clone())),
    };
    let mut reviewed = BTreeMap::new();
    let mut surges = Vec::new();
    for deployment in all {
        let annotations = deployment.pointer("/spec/template/metadata/annotations");
        let Some(value) = annotations.and_then(|all| all[SURGE_BEFORE_DRAIN].as_str()) else { continue };
        let Workload { namespace, name, .. } = workload(deployment);
        let needed = match SurgeMode::parse(value) {
            Ok(SurgeMode::Restart) => RESTART,
            Ok(SurgeMode::Scale) => SCALE,
            Err(_) => &[],
        };
        let mut denied = Vec::new();
        for right in needed {
            let key = (namespace.clone(), *right);
            let allowed = match reviewed.get(&key) {
                Some(allowed) => *allowed,
                None => match permitted(review(connection, &namespace, *right).await)? {
                    Read::Done(allowed) => *reviewed.entry(key).or_insert(allowed),
                    Read::Not(why) => return Ok(Read::Not(why)),
                },
            };
            let [verb, _, resource] = right;
            denied.extend((!allowed).then(|| format!("{verb} {resource}")));
        }
        surges.push(Surging { namespace, name, value: value.to_owned(), denied });
    }
    Ok(Read::Done(surges))
}

/// Whether lifecycle has a right in a namespace. The API server answers it, and stores nothing.
async fn review(connection: &Connection, namespace: &str, right: [&str; 3]) -> Result<bool, PortError> {
    let [verb, group, resource] = right;
    let request = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "nodeless:lifecycle", "groups": LIFECYCLE,
            "resourceAttributes": { "namespace": namespace, "verb": verb, "group": group, "resource": resource },
        },
    });
    let answer = connection.post("Kubernetes create SubjectAccessReview", REVIEWS, &request).await?;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
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
