//! Volumes: on which nodes a pod can mount its volumes, and the provisioning of those that wait for their first consumer.
//!
//! The work of the volume controller and the CSI driver's provisioner happens here at once, when the pod is bound. Claims of
//! classes with immediate binding stay unchanged, and volumes of deleted claims are not deleted.

use super::info::{NodeInfo, PodInfo, Term};
use crate::controllers::object::{all, create, list, name, namespace, text, update, write_status};
use crate::server::path::Path as _;
use crate::server::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use crate::server::{ApiServer, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const ZONE: &str = "topology.kubernetes.io/zone";
/// Labels by which StorageClasses and volumes may name the zone of a node.
const FORMER_ZONES: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"];

/// The provisioner of volumes in a directory of the node, which has no topology but the host.
const LOCAL_PATH: &str = "rancher.io/local-path";
const HOST: &str = "kubernetes.io/hostname";

/// All volumes of the cluster.
#[derive(Debug, Default)]
pub(super) struct Storage {
    claims: BTreeMap<(String, String), Arc<Value>>,
    volumes: BTreeMap<String, Arc<Value>>,
    classes: BTreeMap<String, Arc<Value>>,
}

/// A claim of a pod.
pub(super) enum Mount<'a> {
    /// A claim that is bound to a volume.
    Bound(&'a Value),
    /// A claim whose volume is provisioned where the pod is scheduled.
    Waiting { claim: &'a Value, class: &'a Value },
}

impl Storage {
    pub(super) fn read(api: &ApiServer) -> Result<Self, Status> {
        let by_name = |objects: Vec<Arc<Value>>| objects.into_iter().map(|it| (name(&it).to_owned(), it)).collect();
        let claims = all(api, &PERSISTENT_VOLUME_CLAIMS)?.into_iter();
        Ok(Self {
            claims: claims.map(|it| ((namespace(&it).to_owned(), name(&it).to_owned()), it)).collect(),
            volumes: by_name(all(api, &PERSISTENT_VOLUMES)?),
            classes: by_name(all(api, &STORAGE_CLASSES)?),
        })
    }

    /// The claims that a pod mounts; or why no node is feasible, as kube-scheduler words it.
    pub(super) fn mounts(&self, pod: &PodInfo) -> Result<Vec<Mount<'_>>, String> {
        pod.volume_claims.iter().map(|claim| self.mount(&pod.namespace, claim)).collect()
    }

    fn mount(&self, namespace: &str, claim_name: &str) -> Result<Mount<'_>, String> {
        let Some(claim) = self.claims.get(&(namespace.to_owned(), claim_name.to_owned())) else {
            return Err(format!("persistentvolumeclaim \"{claim_name}\" not found"));
        };
        if claim.at("/metadata/deletionTimestamp").is_some() {
            return Err(format!("persistentvolumeclaim \"{claim_name}\" is being deleted"));
        }
        let volume = text(claim, "/spec/volumeName");
        if !volume.is_empty() {
            let found = self.volumes.get(volume).map(|volume| Mount::Bound(volume));
            return found.ok_or_else(|| format!("persistentvolume \"{volume}\" not found"));
        }
        let class = self.classes.get(text(claim, "/spec/storageClassName"));
        match class.filter(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer") {
            Some(class) => Ok(Mount::Waiting { claim, class }),
            None => Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
        }
    }
}

impl Mount<'_> {
    /// Why a node cannot mount the claim, as kube-scheduler words it.
    pub(super) fn against(&self, node: &NodeInfo) -> Option<&'static str> {
        match self {
            Self::Bound(volume) => {
                let terms = list(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
                let fits = terms.is_empty() || terms.iter().any(|term| Term::new(term).matches(node));
                (!fits).then_some("node(s) had volume node affinity conflict")
            }
            Self::Waiting { class, .. } => {
                let terms = list(class, "/allowedTopologies");
                let allows = |term: &Value| {
                    list(term, "/matchLabelExpressions").iter().all(|expression| {
                        let key = text(expression, "/key");
                        let label = node.labels.get(if FORMER_ZONES.contains(&key) { ZONE } else { key });
                        label.is_some_and(|label| list(expression, "/values").iter().any(|value| value == label))
                    })
                };
                let fits = terms.is_empty() || terms.iter().any(allows);
                (!fits).then_some("node(s) didn't find available persistent volumes to bind")
            }
        }
    }

    /// Provisions the volume of a claim that waited for a node, in the zone of this node.
    pub(super) fn provision(&self, api: &ApiServer, node: &NodeInfo) -> Result<(), Status> {
        let Self::Waiting { claim, class } = self else { return Ok(()) };
        let volume = format!("pvc-{}", text(claim, "/metadata/uid"));
        let mut object = json!({
            "metadata": { "name": volume },
            "spec": {
                "capacity": claim.at("/spec/resources/requests"), "accessModes": claim["spec"]["accessModes"],
                "storageClassName": name(class), "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim),
                    "name": name(claim), "uid": claim["metadata"]["uid"],
                },
            },
        });
        let is_local = text(class, "/provisioner") == LOCAL_PATH;
        if is_local {
            object["spec"]["local"] = json!({ "path": format!("/opt/local-path-provisioner/{volume}") });
        } else {
            let handle = format!("vol-{}", text(claim, "/metadata/uid"));
            object["spec"]["csi"] = json!({ "driver": class["provisioner"], "volumeHandle": handle });
        }
        let key = if is_local { HOST } else { ZONE };
        if let Some(value) = node.labels.get(key) {
            let expression = json!({ "key": key, "operator": "In", "values": [value] });
            object["spec"]["nodeAffinity"] =
                json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } });
        }
        create(api, &PERSISTENT_VOLUMES, object)?;
        if let Ok(made) = api.get(&PERSISTENT_VOLUMES, "", &volume) {
            write_status(api, &PERSISTENT_VOLUMES, &made, json!({ "phase": "Bound" }))?;
        }
        let mut bound = (*claim).clone();
        bound["spec"]["volumeName"] = json!(volume);
        let annotations = &mut bound["metadata"]["annotations"];
        annotations["pv.kubernetes.io/bind-completed"] = json!("yes");
        annotations["pv.kubernetes.io/bound-by-controller"] = json!("yes");
        annotations["volume.kubernetes.io/selected-node"] = json!(node.name);
        update(api, &PERSISTENT_VOLUME_CLAIMS, bound)?;
        if let Ok(bound) = api.get(&PERSISTENT_VOLUME_CLAIMS, namespace(claim), name(claim)) {
            let status = json!({
                "phase": "Bound", "accessModes": claim["spec"]["accessModes"],
                "capacity": claim.at("/spec/resources/requests"),
            });
            write_status(api, &PERSISTENT_VOLUME_CLAIMS, &bound, status)?;
        }
        Ok(())
    }
}
