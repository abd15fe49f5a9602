//! The pods that controllers create for workloads: those of a manifest that has not been applied yet.

mod autoscalers;
mod gangs;
mod grouped;
mod template_path;
mod vertical;

pub(crate) use autoscalers::Autoscaler;
pub(crate) use gangs::WrittenPodGroup;
pub use template_path::TemplatePath;
pub(crate) use vertical::{VerticalAutoscaler, Written as WrittenVerticalAutoscaler};

use crate::decode::{Undecoded, decode, without_nulls};
use crate::documents::Body;
use crate::fault::SourcePlace;
use nodeless_api::slim;
use nodeless_model::object::ObjectRef;
use nodeless_model::{OptionFault, OptionHolder, StringMap};
use serde::Deserialize;
use serde_json::{Value, json};

/// A workload, and the pods that its controller would create for it.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) place: SourcePlace,
    /// The controller of the workload by kind and name, as the Deployment of a ReplicaSet.
    pub(crate) controller: Option<(String, String)>,
    /// Its annotations, apart from those of the template.
    pub(crate) annotations: StringMap,
    /// The workload with the template of its pods, by kind and name, if it has none.
    pub(crate) template_of: Option<Template>,
    /// The replicas; `None` if the manifest leaves them to an autoscaler.
    pub(crate) replicas: Option<u32>,
    /// The pods of each replica.
    pub(crate) groups: Vec<PodGroup>,
}

/// Another workload whose template is used.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Whether that workload is scaled down to zero.
    pub(crate) is_scaled_down: bool,
}

/// Pods of a workload with the same template.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodGroup {
    /// What their names have between that of the workload and the ordinal.
    pub(crate) infix: String,
    /// The number of them for each replica of the workload.
    pub(crate) pods: u32,
    /// The number to which the controller of the workload itself may increase it.
    pub(crate) most: u32,
    /// The ordinal of the first pod.
    pub(crate) start: u32,
    /// A pod without a name.
    pub(crate) template: Value,
    pub(crate) template_field: String,
    /// The field with the number.
    pub(crate) number_field: String,
    /// The PersistentVolumeClaims of each pod of a StatefulSet, without names.
    pub(crate) claims: Vec<slim::PersistentVolumeClaim>,
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
    annotations: Option<StringMap>,
    owner_references: Vec<Owner>,
}

impl Metadata {
    fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    controller: bool,
}

/// The fields of the kinds whose pods have one template.
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
    /// Of a Rollout.
    workload_ref: Option<WorkloadRef>,
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
struct WorkloadRef {
    kind: String,
    name: String,
    scale_down: String,
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

impl Status {
    fn has_ended(&self) -> bool {
        let ended = ["Complete", "Completed", "Failed"];
        self.conditions.iter().any(|it| ended.contains(&it.type_.as_str()) && it.status == "True")
    }
}

/// The pods of a Job that run at the same time.
fn parallel_pods(spec: &Spec, succeeded: u32) -> u32 {
    let left = spec.completions.map_or(u32::MAX, |all| all.saturating_sub(succeeded));
    spec.parallelism.unwrap_or(1).min(left)
}

impl Workload {
    /// Reads a workload of this kind.
    pub(crate) fn read(place: &SourcePlace, kind: &'static str, body: &Body<'_>) -> Result<Self, Undecoded> {
        let made = |metadata: Metadata, replicas, groups| Self {
            place: place.clone(),
            controller: metadata.controller().map(|owner| (owner.kind.clone(), owner.name.clone())),
            annotations: metadata.annotations.unwrap_or_default(),
            template_of: None,
            replicas,
            groups,
        };
        if let Some(read) = grouped::read(kind, body) {
            let (metadata, replicas, groups) = read?;
            return Ok(made(metadata, replicas, groups));
        }
        let Object { metadata, spec, status } = decode::<Object>(body)?;
        let is_job = matches!(kind, "Job" | "CronJob");
        let suspended = spec.suspend;
        let (spec, within) = match spec.job_template {
            Some(job) => (*job.spec, "spec.jobTemplate.spec"),
            None => (spec, "spec"),
        };
        let replicas =
            if is_job { Some(u32::from(!(suspended || spec.suspend || status.has_ended()))) } else { spec.replicas };
        let pods = if is_job { parallel_pods(&spec, status.succeeded) } else { 1 };
        let group = PodGroup {
            pods,
            most: pods,
            start: spec.ordinals.start,
            template: without_nulls(spec.template),
            template_field: format!("{within}.template"),
            number_field: format!("{within}.{}", if is_job { "parallelism" } else { "replicas" }),
            claims: spec.volume_claim_templates,
            ..PodGroup::default()
        };
        let template_of = spec.workload_ref.filter(|_| group.template.is_null()).map(|other| Template {
            kind: other.kind,
            name: other.name,
            is_scaled_down: !matches!(other.scale_down.as_str(), "" | "never"),
        });
        Ok(Self { template_of, ..made(metadata, replicas, vec![group]) })
    }

    /// The pods of each replica.
    pub(crate) fn pods_of_replica(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.pods)).sum()
    }

    /// Its annotations, apart from those of the template, that nodeless does not read.
    pub(crate) fn unread_options(&self, kind: &'static str, namespace: &str, name: &str) -> Vec<OptionFault> {
        let object = ObjectRef::workload(kind, namespace, name);
        let keys = self.annotations.keys().map(String::as_str);
        OptionFault::unknown(&object, OptionHolder::Deployment, keys).collect()
    }
}

impl PodGroup {
    /// Whether each of the pods has volumes of its own.
    pub(crate) fn has_own_volumes(&self) -> bool {
        let volumes = self.template["spec"]["volumes"].as_array();
        !self.claims.is_empty() || volumes.into_iter().flatten().any(|volume| volume["ephemeral"].is_object())
    }

    /// The name of the pod with this index.
    pub(crate) fn pod_name(&self, workload: &str, index: u32) -> String {
        format!("{workload}{}-{}", self.infix, u64::from(index) + u64::from(self.start))
    }

    /// The pod with this index, and its PersistentVolumeClaims. `kind` is that of the workload.
    pub(crate) fn pod(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        index: u32,
    ) -> (Value, Vec<slim::PersistentVolumeClaim>) {
        let pod_name = self.pod_name(name, index);
        let owner = json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "", "controller": true });
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
