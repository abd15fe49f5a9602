//! The pods that the controllers of Kubernetes create for workloads: those of a manifest that has not been applied yet.

use crate::decode::{Undecoded, decode, without_nulls};
use crate::documents::Body;
use crate::fault::Place;
use crate::objects::{Key, Objects, ReadPod};
use nodeless_api::slim;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of pods of a workload that are planned for, so that an invalid number does not use all memory.
const MAXIMUM_PODS: u32 = 100_000;

/// A workload, and the pods that its controller would create for it.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) place: Place,
    pub(crate) kind: &'static str,
    /// The controller of the workload by kind and name, as the Deployment of a ReplicaSet.
    controller: Option<(String, String)>,
    pods: u32,
    /// The ordinal of the first pod.
    start: u32,
    /// A pod without a name.
    template: Value,
    /// The PersistentVolumeClaims of each pod of a StatefulSet, without names.
    claims: Vec<slim::PersistentVolumeClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    controller: bool,
}

/// The fields of all kinds of workloads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<u32>,
    ordinals: Ordinals,
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: bool,
    template: Value,
    volume_claim_templates: Vec<slim::PersistentVolumeClaim>,
    job_template: Option<JobTemplate>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ordinals {
    start: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: Box<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    succeeded: u32,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Workload {
    /// Reads a workload of this kind.
    pub(crate) fn read(place: &Place, kind: &'static str, body: &Body<'_>) -> Result<Self, Undecoded> {
        let Object { metadata, spec, status } = decode::<Object>(body)?;
        let ended = status
            .conditions
            .iter()
            .any(|condition| ["Complete", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True");
        let (spec, suspended) = match spec.job_template {
            Some(job) => (*job.spec, spec.suspend),
            None => {
                let suspended = spec.suspend;
                (spec, suspended)
            }
        };
        let pods = match kind {
            _ if suspended || ended => 0,
            "Job" | "CronJob" => {
                let left = spec.completions.map_or(u32::MAX, |all| all.saturating_sub(status.succeeded));
                spec.parallelism.unwrap_or(1).min(left)
            }
            _ => spec.replicas.unwrap_or(1),
        };
        if pods > MAXIMUM_PODS {
            let field = if matches!(kind, "Job" | "CronJob") { "parallelism" } else { "replicas" };
            let problem = format!("{pods} pods are more than the {MAXIMUM_PODS} that can be planned for");
            return Err(Undecoded { field: format!("spec.{field}"), problem });
        }
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller);
        Ok(Self {
            place: place.clone(),
            kind,
            controller: controller.map(|owner| (owner.kind, owner.name)),
            pods,
            start: spec.ordinals.start,
            template: without_nulls(spec.template),
            claims: spec.volume_claim_templates,
        })
    }

    /// The field of the template of its pods.
    fn template_field(&self) -> &'static str {
        if self.kind == "CronJob" { "spec.jobTemplate.spec.template" } else { "spec.template" }
    }

    /// The pod with this index, and its PersistentVolumeClaims.
    fn pod(&self, (namespace, name): &Key, index: u32) -> (Value, Vec<slim::PersistentVolumeClaim>) {
        let pod_name = format!("{name}-{}", index + self.start);
        let owner = json!({ "apiVersion": "apps/v1", "kind": self.kind, "name": name, "uid": "", "controller": true });
        let template = &self.template["metadata"];
        let mut pod = json!({
            "metadata": {
                "name": pod_name, "namespace": namespace, "ownerReferences": [owner],
                "labels": template["labels"], "annotations": template["annotations"],
            },
            "spec": self.template["spec"],
        });
        let made: Vec<slim::PersistentVolumeClaim> = self
            .claims
            .iter()
            .cloned()
            .map(|mut claim| {
                let volume = claim.metadata.name.take().unwrap_or_default();
                claim.metadata.name = Some(format!("{volume}-{pod_name}"));
                claim.metadata.namespace = Some(namespace.clone());
                claim
            })
            .collect();
        let mounts = self.claims.iter().zip(&made).map(|(template, claim)| {
            json!({ "name": template.metadata.name, "persistentVolumeClaim": { "claimName": claim.metadata.name } })
        });
        let mut volumes: Vec<Value> = mounts.collect();
        volumes.extend(pod["spec"]["volumes"].as_array().into_iter().flatten().cloned());
        if !volumes.is_empty() && pod["spec"].is_object() {
            pod["spec"]["volumes"] = Value::Array(volumes);
        }
        (without_nulls(pod), made)
    }
}

/// The pods that were created for workloads without any, and the workloads whose template is invalid.
#[derive(Default)]
pub(crate) struct Created {
    /// The number of pods of each workload.
    pub(crate) pods: BTreeMap<(&'static str, Key), usize>,
    pub(crate) faults: Vec<(Place, &'static str, Key, Undecoded)>,
}

/// Adds the pods of the workloads that have none, and the PersistentVolumeClaims of these pods. A workload that another one controls is
/// left out: its controller stands for its pods.
pub(crate) fn create_pods(objects: &mut Objects) -> Created {
    let mut created = Created::default();
    let workloads = std::mem::take(&mut objects.workloads);
    let controlled = |key: &Key, workload: &Workload| {
        let (kind, name) = workload.controller.as_ref()?;
        workloads.keys().find(|(known, (namespace, of))| known == kind && *namespace == key.0 && of == name)
    };
    let present = Present::of(objects);
    for ((kind, key), workload) in &workloads {
        if controlled(key, workload).is_some() || present.has(kind, key) {
            continue;
        }
        match create(objects, key, workload) {
            Ok(0) => {}
            Ok(pods) => drop(created.pods.insert((*kind, key.clone()), pods)),
            Err(undecoded) => created.faults.push((workload.place.clone(), kind, key.clone(), undecoded)),
        }
    }
    created
}

/// Creates the pods of a workload, and returns their number.
fn create(objects: &mut Objects, key: &Key, workload: &Workload) -> Result<usize, Undecoded> {
    let mut pods = Vec::new();
    for index in 0..workload.pods {
        let (pod, claims) = workload.pod(key, index);
        let body = Body::Tree(pod);
        let in_template = |undecoded: Undecoded| Undecoded {
            field: format!("{}.{}", workload.template_field(), undecoded.field),
            ..undecoded
        };
        let read = decode::<slim::Pod>(&body).map_err(in_template)?;
        let converted = ReadPod::try_from(&read)
            .map_err(|error| in_template(Undecoded { field: error.field, problem: error.problem }))?;
        pods.push((body, converted, claims));
    }
    let count = pods.len();
    for (body, read, claims) in pods {
        let key = (read.pod.namespace.clone(), read.pod.name.clone());
        if read.pod.volume_claims.iter().any(|claim| claim.ephemeral) {
            objects.note_ephemeral(&key, &body);
        }
        for claim in claims {
            let name = claim.metadata.name.clone().unwrap_or_default();
            objects.persistent_volume_claims.entry((key.0.clone(), name)).or_insert(claim);
        }
        objects.pods.insert(key, read);
    }
    Ok(count)
}

/// The controllers of the pods that were read: kind, namespace and name.
struct Present(BTreeSet<(String, String, String)>);

impl Present {
    fn of(objects: &Objects) -> Self {
        let owner = |read: &ReadPod| {
            let pod = &read.pod;
            Some((pod.owner_kind.clone()?, pod.namespace.clone(), pod.owner_name.clone()?))
        };
        let owners: Vec<_> = objects.pods.values().filter_map(owner).collect();
        // A Deployment names its ReplicaSets, and a CronJob its Jobs, by its own name and a suffix.
        let above = owners.iter().filter_map(|(kind, namespace, name)| {
            let controller = match kind.as_str() {
                "ReplicaSet" => "Deployment",
                "Job" => "CronJob",
                _ => return None,
            };
            let (prefix, _) = name.rsplit_once('-')?;
            Some((controller.to_owned(), namespace.clone(), prefix.to_owned()))
        });
        Self(above.collect::<Vec<_>>().into_iter().chain(owners).collect())
    }

    fn has(&self, kind: &str, (namespace, name): &Key) -> bool {
        self.0.contains(&(kind.to_owned(), namespace.clone(), name.clone()))
    }
}
