//! Facts for [`nodeless_doctor`] that only the API server knows: what the caller may not read is part of them.

use crate::connection::Connection;
use crate::export;
use crate::install::{self, InstallError};
use crate::store;
use jiff::{SignedDuration, Timestamp};
use kube::core::params::ListParams;
use nodeless_api::managed::Owned;
use nodeless_api::view::ClusterView;
use nodeless_cluster::kinds::{
    CapacityBuffers, DisruptionBudgets, Kind, NodeClaims, NodeClasses, NodeOverlays, NodePools, Pods,
    ProvisioningRequests,
};
use nodeless_cluster::{Encoded, decoded, separate};
use nodeless_doctor::{Definition, EarlierObjects, Facts, Read, Surging, Workload};
use nodeless_model::events::OTHER_DEPLOYMENT;
use nodeless_model::labels::{SURGE_BEFORE_DRAIN, is_ours};
use nodeless_model::object::ObjectRef;
use nodeless_model::surge::SurgeMode;
use nodeless_model::{OptionFault, OptionHolder, Pod};
use nodeless_ports::cluster::SYSTEM_NAMESPACE;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The kinds that v1 replaced.
const EARLIER: [(&str, &str); 3] = [
    ("Provisioner", "/apis/karpenter.sh/v1alpha5/provisioners"),
    ("AWSNodeTemplate", "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates"),
    ("Machine", "/apis/karpenter.sh/v1alpha5/machines"),
];
const DEPLOYMENTS: (&str, &str) = ("Deployment", "/apis/apps/v1/deployments");
const DAEMON_SETS: (&str, &str) = ("DaemonSet", "/apis/apps/v1/namespaces/kube-system/daemonsets");
/// The DaemonSet of the VPC CNI, and the variable by which it assigns prefixes.
const VPC_CNI: &str = "aws-node";
const PREFIX_DELEGATION: &str = "ENABLE_PREFIX_DELEGATION";
const LEASES: (&str, &str) = ("Lease", "/apis/coordination.k8s.io/v1/leases");
const LEASE: &str = "karpenter-leader-election";
/// Events about cluster-scoped objects are in this namespace.
const EVENTS: (&str, &str) = ("Event", "/api/v1/namespaces/default/events");
/// A planner that does not serve the cluster publishes its Event again after at least five minutes.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The groups of lifecycle: those that the module gives to its access entry, and that of every user.
const LIFECYCLE: [&str; 2] = ["nodeless:lifecycle", "system:authenticated"];
/// The rights that each value of the annotation needs besides reading: verb, API group and resource.
const RESTART: &[[&str; 3]] = &[["patch", "apps", "deployments"]];
const SCALE: &[[&str; 3]] = &[["patch", "apps", "deployments"], ["patch", "", "pods"]];

/// The result of a read, or why it is denied; a kind that is not served has no objects.
fn permitted<T: Default>(read: Result<T, PortError>) -> Result<Read<T>, PortError> {
    match read {
        Ok(done) => Ok(Read::Done(done)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Read::Done(T::default())),
        Err(error) if error.kind == ErrorKind::Denied => Ok(Read::Not(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Reads the facts that the checks after an installation need from the API server. Other facts are not read: the installation has no
/// catalog for the planner, and of large clusters it keeps only the pods that a PodDisruptionBudget covers.
///
/// # Errors
/// When the API server does not answer.
pub async fn after_installation(connection: &Connection, now: Timestamp) -> Result<Facts, InstallError> {
    let mut inspection = Inspection { connection, view: ClusterView::default(), unread: Vec::new() };
    inspection.read().await?;
    let Inspection { view, unread, .. } = inspection;
    Ok(Facts {
        definitions: definitions(connection).await?,
        karpenter: karpenter(&deployments(connection).await?),
        lease: lease(connection).await?,
        earlier: earlier(connection).await?,
        view,
        unread,
        ..Facts::unread(now, "the installation does not read it")
    })
}

/// The objects that the checks after an installation need.
struct Inspection<'c> {
    connection: &'c Connection,
    view: ClusterView,
    unread: Vec<(String, String)>,
}

impl Inspection<'_> {
    async fn read(&mut self) -> Result<(), PortError> {
        let pools = Owned::separate(self.selected::<NodePools, _>(Some).await?);
        let managed = pools.0.into_iter().map(|(pool, _)| pool).collect();
        let classes = self.selected::<NodeClasses, _>(Some).await?;
        let named = classes.into_iter().map(|class| (class.metadata.name.clone().unwrap_or_default(), class));
        let budgets = self.selected::<DisruptionBudgets, _>(Some).await?;
        let is_covered = |pod: &Pod| budgets.iter().any(|budget| budget.covers(&pod.namespace, &pod.template.labels));
        let pods = self.selected::<Pods, _>(|pod| is_covered(&pod).then_some(pod)).await?;
        (self.view.node_pools, self.view.other_node_pools) = (managed, pools.1);
        self.view.node_classes = named.collect();
        (self.view.disruption_budgets, self.view.pods) = (budgets, pods);
        // Only objects of these kinds that cannot be decoded are of interest.
        self.selected::<NodeClaims, ()>(|_| None).await?;
        self.selected::<NodeOverlays, ()>(|_| None).await?;
        self.selected::<CapacityBuffers, ()>(|_| None).await?;
        self.selected::<ProvisioningRequests, ()>(|_| None).await?;
        Ok(())
    }

    /// Applies `select` to the objects of a kind. Records objects that cannot be decoded, or why the kind may not be read.
    async fn selected<K: Kind, T: Send>(
        &mut self,
        mut select: impl FnMut(K::Model) -> Option<T> + Send,
    ) -> Result<Vec<T>, PortError> {
        let params = ListParams::default();
        let listed = store::list_selected::<K, _>(self.connection, K::PATH, &params, |object| {
            match decoded::<K>(Encoded::Text(object)) {
                Ok(model) => select(model).map(Ok),
                Err(invalid) => Some(Err(invalid)),
            }
        });
        match permitted(listed.await)? {
            Read::Done(listed) => {
                let (objects, invalid) = separate(listed);
                self.view.invalid.extend(invalid);
                Ok(objects)
            }
            Read::Not(why) => {
                self.unread.push((K::NAME.to_owned(), why));
                Ok(Vec::new())
            }
        }
    }
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

/// The Deployments that run Karpenter's controller, and those with annotations of nodeless.
///
/// # Errors
/// When the API server does not answer.
pub async fn deployments(connection: &Connection) -> Result<Read<Vec<Value>>, PortError> {
    let params = ListParams::default();
    let listed = export::list_selected(connection, DEPLOYMENTS.0, DEPLOYMENTS.1, &params, |object| {
        let object = serde_json::from_str(object.get()).ok();
        object.filter(|object| {
            is_karpenter(object) || surge_annotation(object).is_some() || own_keys(object).next().is_some()
        })
    });
    permitted(listed.await)
}

/// The Deployments that run Karpenter's controller.
#[must_use]
pub fn karpenter(deployments: &Read<Vec<Value>>) -> Read<Vec<Workload>> {
    match deployments {
        Read::Done(all) => Read::Done(all.iter().filter(|object| is_karpenter(object)).map(workload).collect()),
        Read::Not(why) => Read::Not(why.clone()),
    }
}

/// The annotations of Deployments, apart from their pod templates, that are not read. Those that ask for successors are in [`surges`].
#[must_use]
pub fn deployment_options(deployments: &Read<Vec<Value>>) -> Vec<OptionFault> {
    let Read::Done(all) = deployments else { return Vec::new() };
    let faults = all.iter().flat_map(|deployment| {
        let Workload { namespace, name, .. } = workload(deployment);
        let keys = own_keys(deployment).filter(|key| *key != SURGE_BEFORE_DRAIN);
        let object = ObjectRef::workload("Deployment", &namespace, &name);
        OptionFault::unknown(&object, OptionHolder::Deployment, keys).collect::<Vec<_>>()
    });
    faults.collect()
}

/// The Deployments that ask for a successor of their pods before their node is drained, and whether lifecycle may create it.
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
        let Some((value, in_template)) = surge_annotation(deployment) else { continue };
        let Workload { namespace, name, .. } = workload(deployment);
        let needed = match SurgeMode::parse(value) {
            _ if !in_template => &[],
            Some(SurgeMode::Restart) => RESTART,
            Some(SurgeMode::Scale) => SCALE,
            None => &[],
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
        surges.push(Surging { namespace, name, value: value.to_owned(), in_template, denied });
    }
    Ok(Read::Done(surges))
}

/// Whether lifecycle has a right in a namespace. The API server evaluates the request and stores nothing.
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

/// The annotation of a Deployment that asks for successors, and whether its pod template has it. On the Deployment itself it has no effect.
fn surge_annotation(deployment: &Value) -> Option<(&str, bool)> {
    let value = |annotations| deployment.pointer(annotations)?.get(SURGE_BEFORE_DRAIN)?.as_str();
    let of_template = value("/spec/template/metadata/annotations").map(|value| (value, true));
    of_template.or_else(|| Some((value("/metadata/annotations")?, false)))
}

/// The annotations of a Deployment in the domain of nodeless.
fn own_keys(deployment: &Value) -> impl Iterator<Item = &str> {
    let annotations = deployment.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.into_iter().flat_map(|all| all.keys()).map(String::as_str).filter(|key| is_ours(key))
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

/// When Karpenter's leader last renewed its lease, in any namespace.
///
/// # Errors
/// When the API server does not answer.
pub async fn lease(connection: &Connection) -> Result<Read<Option<Timestamp>>, PortError> {
    let params = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let renewed = export::list_selected(connection, LEASES.0, LEASES.1, &params, |lease| {
        let lease = serde_json::from_str::<Value>(lease.get()).ok()?;
        lease.pointer("/spec/renewTime")?.as_str()?.parse::<Timestamp>().ok()
    });
    Ok(match permitted(renewed.await)? {
        Read::Done(times) => Read::Done(times.into_iter().max()),
        Read::Not(why) => Read::Not(why),
    })
}

/// Whether an Event on the Namespace `kube-system` states lately that a deployment runs which does not serve the cluster. Nobody has verified
/// who wrote it.
///
/// # Errors
/// When the API server does not answer.
pub async fn other_deployment(connection: &Connection, now: Timestamp) -> Result<Read<bool>, PortError> {
    let about = format!("involvedObject.kind=Namespace,involvedObject.name={SYSTEM_NAMESPACE}");
    let params = ListParams::default().fields(&format!("{about},reason={OTHER_DEPLOYMENT}"));
    let recent = export::list_selected(connection, EVENTS.0, EVENTS.1, &params, |event| {
        let event = serde_json::from_str::<Value>(event.get()).ok()?;
        let last = event["lastTimestamp"].as_str()?.parse::<Timestamp>().ok()?;
        (now.duration_since(last) < RECENT).then_some(())
    });
    Ok(match permitted(recent.await)? {
        Read::Done(events) => Read::Done(!events.is_empty()),
        Read::Not(why) => Read::Not(why),
    })
}

/// Whether the VPC CNI assigns prefixes instead of single addresses; `None` without its DaemonSet.
///
/// # Errors
/// When the API server does not answer.
pub async fn prefix_delegation(connection: &Connection) -> Result<Read<Option<bool>>, PortError> {
    let params = ListParams::default().fields(&format!("metadata.name={VPC_CNI}"));
    let assigns = export::list_selected(connection, DAEMON_SETS.0, DAEMON_SETS.1, &params, |daemon_set| {
        let daemon_set = serde_json::from_str::<Value>(daemon_set.get()).ok()?;
        let containers = daemon_set.pointer("/spec/template/spec/containers")?.as_array()?;
        let container = containers.iter().find(|container| container["name"] == VPC_CNI)?;
        let mut variables = container["env"].as_array().into_iter().flatten();
        let set = variables.find(|variable| variable["name"] == PREFIX_DELEGATION);
        // The VPC CNI assigns single addresses without the variable. A value from elsewhere is not known.
        set.map_or(Some(false), |variable| Some(variable["value"].as_str()? == "true"))
    });
    Ok(match permitted(assigns.await)? {
        Read::Done(found) => Read::Done(found.first().copied()),
        Read::Not(why) => Read::Not(why),
    })
}
