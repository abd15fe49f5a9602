//! Reads the facts about a cluster.

use super::planned::planned;
use crate::error::CliError;
use crate::plan::live;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_doctor::{Access, Definition, DefinitionState, EarlierObjects, Facts, Read, Workload};
use nodeless_kubernetes::install::{self, InstallError, Review};
use nodeless_kubernetes::{Connection, export};
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

/// Reads the facts. What the user may not read is part of them.
///
/// # Errors
/// When the cluster cannot be reached.
pub(crate) async fn facts(
    connection: &Connection,
    catalog: Catalog,
    cluster_name: Option<&str>,
) -> Result<Facts, CliError> {
    let (reader, unread) = live::read_permitted(connection).await?;
    let snapshot = reader.finish();
    // The clock of `nodeless local --speed` is ahead of the system clock.
    let now = Timestamp::now().max(snapshot.latest);
    let planned = if unread.is_empty() {
        planned(&snapshot.view, &snapshot.claims, &catalog, now)
    } else {
        let kinds = unread.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        Read::Not(format!("the planner needs objects that cannot be read: {kinds}"))
    };
    let karpenter = deployments(connection).await?;
    let namespaces = match &karpenter {
        Read::Done(found) => found.iter().map(|workload| workload.namespace.clone()).collect(),
        Read::Not(_) => Vec::new(),
    };
    Ok(Facts {
        now,
        planned,
        unread,
        definitions: definitions(connection).await?,
        earlier: earlier(connection).await?,
        lease: lease(connection, namespaces).await?,
        karpenter,
        access: access(cluster_name).await,
        quotas: Read::Not("nodeless does not read the quotas of an account".to_owned()),
        view: snapshot.view,
    })
}

/// What the user may read; a kind that is not served has no objects.
fn permitted<T: Default>(read: Result<T, PortError>) -> Result<Read<T>, CliError> {
    match read {
        Ok(done) => Ok(Read::Done(done)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Read::Done(T::default())),
        Err(error) if error.kind == ErrorKind::Denied => Ok(Read::Not(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

async fn definitions(connection: &Connection) -> Result<Read<Vec<Definition>>, CliError> {
    match install::review(connection).await {
        Ok(reviewed) => {
            let definitions = reviewed.into_iter().map(|reviewed| Definition {
                name: reviewed.name,
                optional: reviewed.optional,
                state: match reviewed.review {
                    Review::Missing => DefinitionState::Missing,
                    Review::Refused(reason) => DefinitionState::Refused(reason),
                    Review::Noted(note) => DefinitionState::Noted(note),
                    Review::Fine => DefinitionState::Fine,
                },
            });
            Ok(Read::Done(definitions.collect()))
        }
        Err(InstallError::Api(error)) => permitted::<Vec<Definition>>(Err(error)),
        Err(error) => Err(error.into()),
    }
}

async fn earlier(connection: &Connection) -> Result<Read<Vec<EarlierObjects>>, CliError> {
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
async fn deployments(connection: &Connection) -> Result<Read<Vec<Workload>>, CliError> {
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

/// When Karpenter's leader last renewed its lease.
async fn lease(connection: &Connection, mut namespaces: Vec<String>) -> Result<Read<Option<Timestamp>>, CliError> {
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

#[cfg(feature = "aws")]
async fn access(cluster_name: Option<&str>) -> Read<Access> {
    let Some(name) = cluster_name else {
        return Read::Not("the checks in AWS need the name of the cluster; give --cluster-name".to_owned());
    };
    let config = nodeless_aws::load_config().await;
    match nodeless_eks::authentication(&config, name).await {
        Ok(read) => Read::Done(Access {
            cluster: name.to_owned(),
            mode: read.mode,
            entries: read
                .entries
                .into_iter()
                .map(|entry| nodeless_doctor::AccessEntry { principal: entry.principal, kind: entry.kind })
                .collect(),
        }),
        Err(error) => Read::Not(error.to_string()),
    }
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for EKS")]
async fn access(_: Option<&str>) -> Read<Access> {
    Read::Not("this build does not include the AWS SDK".to_owned())
}
