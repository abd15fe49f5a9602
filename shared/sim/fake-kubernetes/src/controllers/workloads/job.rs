//! Jobs: pods that terminate.
//!
//! Each pod has the finalizer `batch.kubernetes.io/job-tracking` until it is counted in the status of its Job, so a pod that is deleted
//! after it has ended counts. A pod that is deleted before it has succeeded counts as failed.

use crate::controllers::Controller;
use crate::controllers::creations::Creations;
use crate::controllers::feed::{Feed, Work};
use crate::controllers::object::{
    after, all, controller_uid, delete, int, is_active, is_deleting, is_true, list, name, namespace, seconds,
    set_condition, text, time, uid, update, write_status,
};
use crate::controllers::workload::{create_pods, is_ready};
use crate::server::path::Path as _;
use crate::server::resource::{JOBS, PODS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, ChangeKind, DeleteOptions, Propagation, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const TRACKED: &str = "batch.kubernetes.io/job-tracking";
const WATCHED: &[Resource] = &[JOBS, PODS, RESOURCE_QUOTAS];

/// Runs Jobs to completion. Indexed Jobs run like other Jobs: their pods get no index.
#[derive(Debug)]
pub struct JobController {
    feed: Feed,
    /// Namespace and name of the pods that have the finalizer.
    tracked: BTreeSet<(String, String)>,
    pub(in crate::controllers) creations: Creations,
}

impl Default for JobController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), tracked: BTreeSet::new(), creations: Creations::default() }
    }
}

impl Controller for JobController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => {
                for change in changes.iter().filter(|change| change.resource == PODS) {
                    self.note(&change.object, change.kind != ChangeKind::Deleted);
                }
            }
            Work::Everything => {
                self.tracked.clear();
                all(api, &PODS)?.iter().for_each(|pod| self.note(pod, true));
            }
        }
        let jobs = all(api, &JOBS)?;
        self.release_orphans(api, &jobs)?;
        let creates = |job: &&Arc<Value>| {
            !(is_deleting(job) || is_true(job, "Complete") || is_true(job, "Failed") || job["spec"]["suspend"] == true)
        };
        self.creations.retain(jobs.iter().filter(creates).map(|job| uid(job).to_owned()));
        for job in jobs {
            let next = reconcile(api, &job, &mut self.creations, now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        self.creations.next().into_iter().for_each(|at| self.feed.wake_at(at));
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

impl JobController {
    /// Notes whether a pod has the finalizer.
    fn note(&mut self, pod: &Value, exists: bool) {
        let key = (namespace(pod).to_owned(), name(pod).to_owned());
        if exists && is_tracked(pod) {
            self.tracked.insert(key);
        } else {
            self.tracked.remove(&key);
        }
    }

    /// Removes the finalizer from pods whose Job is gone.
    fn release_orphans(&self, api: &ApiServer, jobs: &[Arc<Value>]) -> Result<(), Status> {
        let known: BTreeSet<&str> = jobs.iter().map(|job| uid(job)).collect();
        let pods = self.tracked.iter().filter_map(|(namespace, name)| api.get(&PODS, namespace, name).ok());
        let mut orphans = pods.filter(|pod| is_tracked(pod) && !known.contains(controller_uid(pod)));
        orphans.try_for_each(|pod| release(api, &pod))
    }
}

fn reconcile(
    api: &ApiServer,
    job: &Value,
    creations: &mut Creations,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let pods = api.controlled_pods(uid(job));
    if is_true(job, "Complete") || is_true(job, "Failed") {
        pods.iter().filter(|pod| is_tracked(pod)).try_for_each(|pod| release(api, pod))?;
        return forget(api, job, now);
    }
    let ended = |pod: &&Arc<Value>| is_tracked(pod) && !is_active(pod);
    let (succeeded, failed): (Vec<_>, Vec<_>) =
        pods.iter().filter(ended).partition(|pod| text(pod, "/status/phase") == "Succeeded");
    let counted = |field: &str| {
        int(job, &format!("/status/{field}")).and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
    };
    let uncounted: Vec<&Arc<Value>> = succeeded.iter().chain(&failed).copied().collect();
    let (succeeded, failed) = (counted("succeeded") + succeeded.len(), counted("failed") + failed.len());
    let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let ready = active.iter().filter(|pod| is_ready(pod)).count();
    let number = |field: &str| int(job, &format!("/spec/{field}")).and_then(|count| usize::try_from(count).ok());
    let parallelism = number("parallelism").unwrap_or(1);
    let needed = number("completions");
    let suspended = job["spec"]["suspend"] == true;
    let deadline =
        int(job, "/spec/activeDeadlineSeconds").and_then(|limit| Some(after(time(job, "/status/startTime")?, limit)));
    let mut status = json!({ "succeeded": succeeded, "failed": failed, "active": active.len(), "ready": ready });
    status["startTime"] =
        job.at("/status/startTime").filter(|it| !it.is_null()).cloned().unwrap_or(json!(seconds(now)));
    let mut conditions = list(job, "/status/conditions").to_vec();
    let complete = match needed {
        Some(needed) => succeeded >= needed,
        // A work queue: one success means that the queue is empty.
        None => succeeded > 0 && active.is_empty(),
    };
    let too_late = deadline.is_some_and(|deadline| deadline <= now);
    if complete {
        let message = "Reached expected number of succeeded pods";
        set_condition(&mut conditions, "Complete", "True", "CompletionsReached", message, now);
        status["completionTime"] = json!(seconds(now));
    } else if too_late || failed > number("backoffLimit").unwrap_or(6) {
        let (reason, message) = if too_late {
            ("DeadlineExceeded", "Job was active longer than specified deadline")
        } else {
            ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        };
        set_condition(&mut conditions, "Failed", "True", reason, message, now);
        remove(api, &active)?;
    } else if suspended {
        set_condition(&mut conditions, "Suspended", "True", "JobSuspended", "Job suspended", now);
        remove(api, &active)?;
    } else if !is_deleting(job) {
        conditions.retain(|condition| condition["type"] != "Suspended");
        let left = match needed {
            Some(needed) => needed.saturating_sub(succeeded),
            None if succeeded > 0 => active.len(),
            None => parallelism,
        };
        create_missing(api, job, parallelism.min(left).saturating_sub(active.len()), creations, now)?;
    }
    if !conditions.is_empty() {
        status["conditions"] = Value::Array(conditions);
    }
    write_status(api, &JOBS, job, status)?;
    uncounted.into_iter().try_for_each(|pod| release(api, pod))?;
    Ok(deadline.filter(|deadline| *deadline > now))
}

/// Creates as many of the missing pods as the limit of the controller's client allows now.
fn create_missing(
    api: &ApiServer,
    job: &Value,
    missing: usize,
    creations: &mut Creations,
    now: Timestamp,
) -> Result<(), Status> {
    let created = creations.take(uid(job), missing, now);
    if created > 0 && create_pods(api, &tracking(job), created, "job-controller", now)?.is_some() {
        creations.refused(uid(job));
    }
    Ok(())
}

/// The Job with the finalizer in its template.
fn tracking(job: &Value) -> Value {
    let mut job = job.clone();
    let template = &mut job["spec"]["template"];
    let mut finalizers = list(template, "/metadata/finalizers").to_vec();
    finalizers.push(json!(TRACKED));
    template["metadata"]["finalizers"] = Value::Array(finalizers);
    job
}

fn is_tracked(pod: &Value) -> bool {
    list(pod, "/metadata/finalizers").iter().any(|finalizer| finalizer == TRACKED)
}

/// Removes the finalizer from a pod.
fn release(api: &ApiServer, pod: &Value) -> Result<(), Status> {
    let mut pod = pod.clone();
    let mut finalizers = list(&pod, "/metadata/finalizers").to_vec();
    finalizers.retain(|finalizer| finalizer != TRACKED);
    pod["metadata"]["finalizers"] = Value::Array(finalizers);
    update(api, &PODS, pod)
}

fn remove(api: &ApiServer, pods: &[&Arc<Value>]) -> Result<(), Status> {
    pods.iter().try_for_each(|pod| delete(api, &PODS, pod, None))
}

/// Deletes a finished Job after its time to live.
fn forget(api: &ApiServer, job: &Value, now: Timestamp) -> Result<Option<Timestamp>, Status> {
    let Some(limit) = int(job, "/spec/ttlSecondsAfterFinished") else { return Ok(None) };
    let ended = list(job, "/status/conditions").iter().find(|it| it["type"] == "Complete" || it["type"] == "Failed");
    let Some(ended) = ended.and_then(|condition| time(condition, "/lastTransitionTime")) else { return Ok(None) };
    let due = after(ended, limit);
    if due > now {
        return Ok(Some(due));
    }
    let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
    crate::controllers::object::lenient(api.delete(
        &JOBS,
        text(job, "/metadata/namespace"),
        text(job, "/metadata/name"),
        &options,
    ))?;
    Ok(None)
}
