//! Jobs: pods that terminate.

use super::Controller;
use super::feed::Feed;
use super::object::{
    after, all, delete, int, is_active, is_deleting, is_true, list, seconds, set_condition, text, time, uid,
    write_status,
};
use super::workload::{OwnedPods, create_pods, is_ready};
use crate::server::path::Path as _;
use crate::server::resource::{JOBS, PODS, Resource};
use crate::server::{ApiServer, DeleteOptions, Propagation, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

const WATCHED: &[Resource] = &[JOBS, PODS];

/// Runs Jobs to completion. Indexed Jobs run like other Jobs: their pods get no index.
#[derive(Debug)]
pub struct JobController {
    feed: Feed,
}

impl Default for JobController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for JobController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let jobs = all(api, &JOBS)?;
        if jobs.is_empty() {
            return Ok(());
        }
        let pods = OwnedPods::read(api)?;
        for job in jobs {
            let next = reconcile(api, &job, pods.of(uid(&job)), now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

fn reconcile(api: &ApiServer, job: &Value, pods: &[Arc<Value>], now: Timestamp) -> Result<Option<Timestamp>, Status> {
    if is_true(job, "Complete") || is_true(job, "Failed") {
        return forget(api, job, now);
    }
    let count = |phase: &str| pods.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
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
        create_pods(api, job, parallelism.min(left).saturating_sub(active.len()))?;
    }
    if !conditions.is_empty() {
        status["conditions"] = Value::Array(conditions);
    }
    write_status(api, &JOBS, job, status)?;
    Ok(deadline.filter(|deadline| *deadline > now))
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
    super::object::lenient(api.delete(&JOBS, text(job, "/metadata/namespace"), text(job, "/metadata/name"), &options))?;
    Ok(None)
}
