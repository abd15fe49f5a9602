//! How many pods workloads are to have, as it is read of Deployments, StatefulSets and Jobs.

use crate::admission::Admission;
use crate::deployment::surge_and_unavailable;
use crate::pod_shapes::ReadShape;
use crate::slim;
use crate::view::ClusterView;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use nodeless_model::{Desired, Pod, PodController, Workload};
use std::collections::BTreeMap;

/// A Deployment, StatefulSet or Job, with the template of its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadController {
    controller: PodController,
    template: Option<ReadShape>,
}

impl ReadController {
    /// A Deployment.
    #[must_use]
    pub fn deployment(object: &slim::PodController) -> Self {
        let spec = &object.spec;
        let replicas = spec.replicas.unwrap_or(1);
        let recreates = spec.strategy.type_.as_deref() == Some("Recreate");
        let (surge, _) =
            if recreates { (0, 0) } else { surge_and_unavailable(&spec.strategy.rolling_update, replicas) };
        let desired = if holds(object, "ReplicaFailure") {
            Desired::Refused
        } else if spec.paused {
            Desired::Nothing
        } else {
            Desired::Replicas { count: count(replicas), surge: count(surge), recreates }
        };
        Self::new("Deployment", object, desired)
    }

    /// A StatefulSet. No pods are expected of one that creates its pods one after the other, or replaces them.
    #[must_use]
    pub fn stateful_set(object: &slim::PodController) -> Self {
        let (spec, status) = (&object.spec, &object.status);
        let is_parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let desired = if is_parallel && status.current_revision == status.update_revision {
            Desired::Ordinals { first: count(spec.ordinals.start), count: count(spec.replicas.unwrap_or(1)) }
        } else {
            Desired::Nothing
        };
        Self::new("StatefulSet", object, desired)
    }

    /// A Job. One with a failed pod waits before it creates the next.
    #[must_use]
    pub fn job(object: &slim::PodController) -> Self {
        let (spec, status) = (&object.spec, &object.status);
        let is_ours = spec.managed_by.as_deref().is_none_or(|by| by == "kubernetes.io/job-controller");
        let has_ended =
            ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"].iter().any(|it| holds(object, it));
        let uncounted = &status.uncounted_terminated_pods;
        let has_failed = status.failed > 0 || !uncounted.failed.is_empty();
        let creates = is_ours && !has_ended && spec.suspend != Some(true) && !has_failed;
        let succeeded =
            count(status.succeeded).saturating_add(u32::try_from(uncounted.succeeded.len()).unwrap_or(u32::MAX));
        let left = match spec.completions {
            Some(completions) => count(completions).saturating_sub(succeeded),
            None if succeeded > 0 => 0,
            None => u32::MAX,
        };
        let desired = if creates {
            Desired::Active {
                count: count(spec.parallelism.unwrap_or(1)).min(left),
                awaits_deleted: spec.pod_replacement_policy.as_deref() == Some("Failed"),
            }
        } else {
            Desired::Nothing
        };
        Self::new("Job", object, desired)
    }

    fn new(kind: &str, object: &slim::PodController, desired: Desired) -> Self {
        let metadata = &object.metadata;
        let generation = metadata.generation.unwrap_or_default();
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let workload = Workload::new(namespace.unwrap_or_default(), kind, name.unwrap_or_default(), None);
        let mut owners = metadata.owner_references.iter().flatten();
        let is_cron_job = |owner: &&OwnerReference| {
            owner.controller == Some(true) && owner.kind == "CronJob" && owner.api_version.starts_with("batch/")
        };
        let cron_job = owners.find(is_cron_job);
        let controller = PodController {
            cron_job: cron_job.map(|owner| Workload::new(&workload.namespace, &owner.kind, &owner.name, None)),
            workload,
            uid: metadata.uid.clone().unwrap_or_default(),
            generation,
            is_observed: object.status.observed_generation.is_some_and(|observed| observed >= generation),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            desired: if metadata.deletion_timestamp.is_some() { Desired::Nothing } else { desired },
            shape: None,
        };
        Self { controller, template: ReadShape::new(metadata, &object.spec.template, "spec.template").ok() }
    }

    /// The name.
    #[must_use]
    pub const fn workload(&self) -> &Workload {
        &self.controller.workload
    }

    /// Which pods it is to have.
    #[must_use]
    pub const fn desired(&self) -> &Desired {
        &self.controller.desired
    }

    /// The workload, with a pod as admission makes it.
    #[must_use]
    pub fn admitted(&self, admission: &Admission) -> PodController {
        let shape = self.template.as_ref().and_then(|template| template.admitted(admission).ok());
        PodController { shape, ..self.controller.clone() }
    }
}

impl ClusterView {
    /// Takes over the workloads that have fewer pods than they are to have. Call it once pods are there.
    pub fn set_pod_controllers<'a>(
        &mut self,
        read: impl IntoIterator<Item = &'a ReadController>,
        admission: &Admission,
    ) {
        let mut active: BTreeMap<Workload, u32> = BTreeMap::new();
        for workload in self.pods().filter(|pod| pod.is_active()).filter_map(Pod::pod_controller) {
            *active.entry(workload).or_default() += 1;
        }
        let lacks = |read: &&ReadController| {
            let (workload, desired) = (read.workload(), read.desired());
            *desired == Desired::Refused || active.get(workload).copied().unwrap_or_default() < desired.most()
        };
        self.pod_controllers = read.into_iter().filter(lacks).map(|read| read.admitted(admission)).collect();
    }
}

fn holds(object: &slim::PodController, condition: &str) -> bool {
    object.status.conditions.iter().any(|one| one.type_ == condition && one.status == "True")
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    fn read(spec: &Value, status: &Value) -> slim::PodController {
        let metadata = json!({ "namespace": "shop", "name": "web", "uid": "u", "generation": 3 });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        slim::PodController::deserialize(object).unwrap()
    }

    #[test]
    fn a_deployment_has_its_replicas_and_those_of_a_rolling_update() {
        let failure = json!({ "conditions": [{ "type": "ReplicaFailure", "status": "True" }] });
        let replicas = |count, surge, recreates| Desired::Replicas { count, surge, recreates };
        for (spec, status, desired) in [
            (json!({}), json!({}), replicas(1, 1, false)),
            (json!({ "replicas": 10 }), json!({}), replicas(10, 3, false)),
            (
                json!({ "replicas": 10, "strategy": { "rollingUpdate": { "maxSurge": 0 } } }),
                json!({}),
                replicas(10, 0, false),
            ),
            (json!({ "replicas": 10, "strategy": { "type": "Recreate" } }), json!({}), replicas(10, 0, true)),
            (json!({ "replicas": 10, "paused": true }), json!({}), Desired::Nothing),
            (json!({ "replicas": 10 }), failure, Desired::Refused),
        ] {
            let read = ReadController::deployment(&read(&spec, &status));
            assert_eq!(*read.desired(), desired, "{spec}");
        }
        let observed = |observed| {
            let read = read(&json!({}), &json!({ "observedGeneration": observed }));
            ReadController::deployment(&read).admitted(&Admission::default()).is_observed
        };
        assert_eq!([2, 3].map(observed), [false, true]);
        let mut deleted = read(&json!({ "replicas": 10 }), &json!({}));
        deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(*ReadController::deployment(&deleted).desired(), Desired::Nothing);
    }

    #[test]
    fn a_stateful_set_that_is_parallel_has_its_replicas() {
        let parallel = json!({ "replicas": 4, "podManagementPolicy": "Parallel", "ordinals": { "start": 2 } });
        for (spec, status, desired) in [
            (parallel.clone(), json!({}), Desired::Ordinals { first: 2, count: 4 }),
            (parallel, json!({ "currentRevision": "a", "updateRevision": "b" }), Desired::Nothing),
            (json!({ "replicas": 4 }), json!({}), Desired::Nothing),
        ] {
            assert_eq!(*ReadController::stateful_set(&read(&spec, &status)).desired(), desired, "{spec}");
        }
    }

    #[test]
    fn a_job_is_one_of_its_cron_job() {
        let owned = |version: &str| {
            let owner =
                json!({ "apiVersion": version, "kind": "CronJob", "name": "night", "uid": "v", "controller": true });
            let mut object = read(&json!({}), &json!({}));
            object.metadata.owner_references = serde_json::from_value(json!([owner])).unwrap();
            ReadController::job(&object).admitted(&Admission::default()).cron_job
        };
        assert_eq!(owned("batch/v1"), Some(Workload::new("shop", "CronJob", "night", None)));
        assert_eq!(owned("example.com/v1"), None);
    }

    #[test]
    fn a_job_has_as_many_pods_as_it_still_needs() {
        let job = |spec: &Value, status: &Value| *ReadController::job(&read(spec, status)).desired();
        let (ten, all) = (json!({ "parallelism": 10, "completions": 25 }), json!({ "parallelism": 10 }));
        let active = |count| Desired::Active { count, awaits_deleted: false };
        assert_eq!(job(&ten, &json!({})), active(10));
        assert_eq!(job(&ten, &json!({ "succeeded": 20 })), active(5));
        assert_eq!(job(&ten, &json!({ "failed": 1 })), Desired::Nothing, "it waits");
        let uncounted = |pods: Value| json!({ "succeeded": 20, "uncountedTerminatedPods": pods });
        assert_eq!(job(&ten, &uncounted(json!({ "succeeded": ["a", "b"] }))), active(3), "two more have succeeded");
        assert_eq!(job(&ten, &uncounted(json!({ "failed": ["a"] }))), Desired::Nothing);
        let replaced_late = json!({ "parallelism": 10, "podReplacementPolicy": "Failed" });
        assert_eq!(job(&replaced_late, &json!({})), Desired::Active { count: 10, awaits_deleted: true });
        assert_eq!(job(&all, &json!({})), active(10));
        assert_eq!(job(&all, &json!({ "succeeded": 1 })), active(0), "the queue is empty");
        assert_eq!(job(&all, &json!({ "uncountedTerminatedPods": { "succeeded": ["a"] } })), active(0));
        assert_eq!(job(&json!({}), &json!({})), active(1));
        let ended = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
        assert_eq!(job(&ten, &ended), Desired::Nothing);
        for field in [json!({ "suspend": true }), json!({ "managedBy": "kueue.x-k8s.io/multikueue" })] {
            let mut spec = ten.clone();
            spec.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            assert_eq!(job(&spec, &json!({})), Desired::Nothing, "{spec}");
        }
    }
}
