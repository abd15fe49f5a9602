//! CronJobs: Jobs at the times of a schedule.

use crate::controllers::Controller;
use crate::controllers::feed::Feed;
use crate::controllers::object::{
    NewEvent, after, all, controller_reference, controller_uid, delete, int, is_deleting, is_true, lenient, name,
    namespace, publish, seconds, text, time, uid, write_status,
};
use crate::controllers::workload::{Refusal, create_for};
use crate::server::resource::{CRON_JOBS, JOBS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, DeleteOptions, Propagation, Status};
use jiff::Timestamp;
use nodeless_model::cron::{Cron, CronError};
use serde_json::{Value, json};
use std::sync::Arc;

const WATCHED: &[Resource] = &[CRON_JOBS, JOBS, RESOURCE_QUOTAS];
/// The annotation of a Job with the time for which it was created.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Creates the Jobs of CronJobs, and deletes old ones beyond the history limits.
///
/// Of several missed starts, only the last is made up for, as in Kubernetes. Unlike Kubernetes, both `timeZone` and `CRON_TZ=` in the
/// schedule are accepted.
#[derive(Debug)]
pub struct CronJobController {
    feed: Feed,
}

impl Default for CronJobController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for CronJobController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let cron_jobs = all(api, &CRON_JOBS)?;
        if cron_jobs.is_empty() {
            return Ok(());
        }
        let jobs = all(api, &JOBS)?;
        for cron_job in cron_jobs {
            let own: Vec<&Arc<Value>> = jobs.iter().filter(|job| controller_uid(job) == uid(&cron_job)).collect();
            let next = reconcile(api, &cron_job, &own, now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

fn has_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// Returns the next start.
fn reconcile(
    api: &ApiServer,
    cron_job: &Value,
    jobs: &[&Arc<Value>],
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    forget(api, cron_job, jobs)?;
    let mut status = cron_job.get("status").filter(|status| !status.is_null()).cloned().unwrap_or_else(|| json!({}));
    let mut active: Vec<Value> =
        jobs.iter().filter(|job| !has_finished(job)).map(|job| reference(name(job), uid(job), cron_job)).collect();
    let next = match schedule(cron_job) {
        _ if is_deleting(cron_job) || cron_job["spec"]["suspend"] == true => None,
        Err(error) => {
            let message = error.to_string();
            let event = NewEvent {
                component: "cronjob-controller",
                kind: "Warning",
                reason: "UnparseableSchedule",
                message: &message,
            };
            publish(api, cron_job, &event, now)?;
            None
        }
        Ok(schedule) => {
            if let Some(start) = due(cron_job, &schedule, now)
                && begin(api, cron_job, jobs, start, now)?
            {
                status["lastScheduleTime"] = json!(seconds(start));
                if let Ok(job) = api.get(&JOBS, namespace(cron_job), &job_name(cron_job, start)) {
                    active.push(reference(name(&job), uid(&job), cron_job));
                }
            }
            schedule.next_after(now)
        }
    };
    match active.is_empty() {
        true => drop(status.as_object_mut().and_then(|status| status.remove("active"))),
        false => status["active"] = Value::Array(active),
    }
    write_status(api, &CRON_JOBS, cron_job, status)?;
    Ok(next)
}

fn schedule(cron_job: &Value) -> Result<Cron, CronError> {
    let schedule: Cron = text(cron_job, "/spec/schedule").parse()?;
    match text(cron_job, "/spec/timeZone") {
        "" => Ok(schedule),
        zone => schedule.in_zone(zone),
    }
}

/// The last start that is due and has no Job yet.
fn due(cron_job: &Value, schedule: &Cron, now: Timestamp) -> Option<Timestamp> {
    let since = time(cron_job, "/status/lastScheduleTime").or_else(|| time(cron_job, "/metadata/creationTimestamp"))?;
    let deadline = int(cron_job, "/spec/startingDeadlineSeconds").map(|limit| after(now, -limit));
    let since = deadline.map_or(since, |deadline| since.max(deadline));
    let starts = std::iter::successors(schedule.next_after(since), |start| schedule.next_after(*start));
    starts.take_while(|start| *start <= now).last()
}

/// Creates the Job of a start. Returns whether the start counts as made: with `Forbid`, not before the earlier Job has finished.
fn begin(
    api: &ApiServer,
    cron_job: &Value,
    jobs: &[&Arc<Value>],
    start: Timestamp,
    now: Timestamp,
) -> Result<bool, Status> {
    let running = || jobs.iter().filter(|job| !has_finished(job));
    match text(cron_job, "/spec/concurrencyPolicy") {
        "Forbid" if running().next().is_some() => return Ok(false),
        "Replace" => running().try_for_each(|job| delete(api, &JOBS, job, None))?,
        _ => {}
    }
    let template = &cron_job["spec"]["jobTemplate"];
    let mut metadata = json!({
        "name": job_name(cron_job, start), "namespace": namespace(cron_job),
        "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
        "ownerReferences": [controller_reference(cron_job)],
    });
    if metadata["annotations"].is_null() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][SCHEDULED] = json!(seconds(start));
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"] });
    let refusal = Refusal { before: "Error creating job: ", ..Refusal::new("cronjob-controller") };
    Ok(create_for(api, cron_job, &JOBS, job, refusal, now)?.is_none())
}

/// The name that Kubernetes gives the Job, with the minutes since 1970.
fn job_name(cron_job: &Value, start: Timestamp) -> String {
    format!("{}-{}", name(cron_job), start.as_second() / 60)
}

fn reference(name: &str, uid: &str, cron_job: &Value) -> Value {
    json!({ "apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": namespace(cron_job), "uid": uid })
}

/// Deletes the oldest finished Jobs beyond the history limits.
fn forget(api: &ApiServer, cron_job: &Value, jobs: &[&Arc<Value>]) -> Result<(), Status> {
    for (kind, field, default) in
        [("Complete", "/spec/successfulJobsHistoryLimit", 3), ("Failed", "/spec/failedJobsHistoryLimit", 1)]
    {
        let limit = int(cron_job, field).and_then(|limit| usize::try_from(limit).ok()).unwrap_or(default);
        let mut ended: Vec<&&Arc<Value>> = jobs.iter().filter(|job| is_true(job, kind) && !is_deleting(job)).collect();
        ended.sort_by_key(|job| (text(job, "/status/startTime").to_owned(), name(job).to_owned()));
        let more = ended.len().saturating_sub(limit);
        for job in &ended[..more] {
            let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
            lenient(api.delete(&JOBS, namespace(job), name(job), &options))?;
        }
    }
    Ok(())
}
