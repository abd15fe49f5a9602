//! The pods that the controllers of Kubernetes create for workloads: those of a manifest that has not been applied yet.

use crate::decode::{Undecoded, decode, without_nulls};
use crate::documents::Body;
use crate::fault::Place;
use nodeless_api::slim;
use serde::Deserialize;
use serde_json::{Value, json};

/// A workload, and the pods that its controller would create for it.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) place: Place,
    pub(crate) kind: &'static str,
    /// The controller of the workload by kind and name, as the Deployment of a ReplicaSet.
    pub(crate) controller: Option<(String, String)>,
    pub(crate) pods: u32,
    /// Whether the manifest leaves the number of pods to an autoscaler.
    pub(crate) is_scaled: bool,
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
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller);
        Ok(Self {
            place: place.clone(),
            kind,
            is_scaled: !matches!(kind, "Job" | "CronJob") && spec.replicas.is_none(),
            controller: controller.map(|owner| (owner.kind, owner.name)),
            pods,
            start: spec.ordinals.start,
            template: without_nulls(spec.template),
            claims: spec.volume_claim_templates,
        })
    }

    /// Whether each of its pods has volumes of its own.
    pub(crate) fn has_own_volumes(&self) -> bool {
        let volumes = self.template["spec"]["volumes"].as_array();
        !self.claims.is_empty() || volumes.into_iter().flatten().any(|volume| volume["ephemeral"].is_object())
    }

    /// The field with the number of its pods.
    pub(crate) fn number_field(&self) -> &'static str {
        match self.kind {
            "CronJob" => "spec.jobTemplate.spec.parallelism",
            "Job" => "spec.parallelism",
            _ => "spec.replicas",
        }
    }

    /// The field of the template of its pods.
    pub(crate) fn template_field(&self) -> &'static str {
        if self.kind == "CronJob" { "spec.jobTemplate.spec.template" } else { "spec.template" }
    }

    /// The name of the pod with this index.
    pub(crate) fn pod_name(&self, name: &str, index: u32) -> String {
        format!("{name}-{}", u64::from(index) + u64::from(self.start))
    }

    /// The pod with this index, and its PersistentVolumeClaims.
    pub(crate) fn pod(&self, namespace: &str, name: &str, index: u32) -> (Value, Vec<slim::PersistentVolumeClaim>) {
        let pod_name = self.pod_name(name, index);
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
                claim.metadata.namespace = Some(namespace.to_owned());
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
