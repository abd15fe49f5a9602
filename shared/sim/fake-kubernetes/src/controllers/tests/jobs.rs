//! Jobs and CronJobs.

use super::{Cluster, spec};
use crate::server::resource::{CRON_JOBS, EVENTS, JOBS, PODS};
use crate::server::{DeleteOptions, ListOptions, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};

fn job(sleep: &str) -> Value {
    let mut template = spec("100m");
    template["restartPolicy"] = json!("Never");
    template["containers"][0]["command"] = json!(["sh", "-c", sleep]);
    json!({ "metadata": { "name": "once" }, "spec": {
        "completions": 3, "parallelism": 2, "template": { "spec": template },
    } })
}

#[test]
fn a_job_completes() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&JOBS, job("sleep 20"));
    cluster.run(5);
    assert_eq!(cluster.running(), 2);
    cluster.run(60);
    let job = cluster.get(&JOBS, "once");
    assert_eq!((&job["status"]["succeeded"], &job["status"]["active"]), (&json!(3), &json!(0)));
    assert!(crate::controllers::object::is_true(&job, "Complete"));
}

#[test]
fn pods_of_a_job_count_when_they_are_deleted() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&JOBS, job("sleep 20"));
    cluster.run(10);
    let counts = |cluster: &Cluster| {
        let status = cluster.get(&JOBS, "once")["status"].clone();
        (status["succeeded"].clone(), status["failed"].clone(), status["active"].clone())
    };
    let delete = |cluster: &Cluster, resource: &Resource, name: &str| {
        cluster.api.delete(resource, "default", name, &DeleteOptions::default()).unwrap();
    };
    let in_phase = |cluster: &Cluster, phase: &str| -> Vec<String> {
        let pods = cluster.list(&PODS).into_iter().filter(|pod| pod["status"]["phase"] == phase);
        pods.map(|pod| crate::controllers::object::name(&pod).to_owned()).collect()
    };
    delete(&cluster, &PODS, &in_phase(&cluster, "Running")[0]);
    cluster.run(5);
    assert_eq!(counts(&cluster), (json!(0), json!(1), json!(2)), "a pod that was running has failed");
    cluster.run(15);
    let succeeded = in_phase(&cluster, "Succeeded");
    assert_eq!(succeeded.len(), 1);
    delete(&cluster, &PODS, &succeeded[0]);
    cluster.run(50);
    assert_eq!(counts(&cluster), (json!(3), json!(1), json!(0)), "a pod that had succeeded still counts");
    assert_eq!(in_phase(&cluster, "Succeeded").len(), 2);
    delete(&cluster, &JOBS, "once");
    cluster.run(5);
    assert!(cluster.list(&PODS).is_empty(), "the pods of a deleted Job are deleted");
}

fn cron_job(schedule: &str, policy: &str, command: &str) -> Value {
    let mut template = spec("100m");
    template["restartPolicy"] = json!("Never");
    template["containers"][0]["command"] = json!(["sh", "-c", command]);
    json!({ "metadata": { "name": "nightly" }, "spec": {
        "schedule": schedule, "concurrencyPolicy": policy, "successfulJobsHistoryLimit": 2,
        "jobTemplate": { "metadata": { "labels": { "app": "nightly" } }, "spec": { "template": { "spec": template } } },
    } })
}

/// The names of Jobs, sorted, with `+` if they are complete.
fn jobs(cluster: &Cluster) -> Vec<String> {
    let list = cluster.api.list(&JOBS, &ListOptions::default()).unwrap().items;
    let done = |job: &Value| if crate::controllers::object::is_true(job, "Complete") { "+" } else { "" };
    let mut names: Vec<String> =
        list.iter().map(|job| format!("{}{}", crate::controllers::object::name(job), done(job))).collect();
    names.sort();
    names
}

#[test]
fn a_cron_job_creates_jobs_at_its_times() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    // From the beginning of a minute on.
    cluster.run(60 - cluster.now().as_second() % 60);
    let minute = cluster.now().as_second() / 60;
    cluster.create(&CRON_JOBS, cron_job("* * * * *", "Allow", "sleep 5"));
    cluster.run(30);
    assert!(jobs(&cluster).is_empty());
    cluster.run(60);
    assert_eq!(jobs(&cluster), [format!("nightly-{}+", minute + 1)]);
    let created = cluster.get(&JOBS, &format!("nightly-{}", minute + 1));
    assert_eq!(created["metadata"]["labels"]["app"], "nightly");
    assert_eq!(created["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    // The history keeps two.
    cluster.run(240);
    assert_eq!(jobs(&cluster), [format!("nightly-{}+", minute + 4), format!("nightly-{}+", minute + 5)]);
    let status = cluster.get(&CRON_JOBS, "nightly")["status"].clone();
    let last: Timestamp = status["lastScheduleTime"].as_str().unwrap().parse().unwrap();
    assert_eq!(last.as_second() / 60, minute + 5);
    assert!(status.get("active").is_none(), "{status}");
    cluster.patch(&CRON_JOBS, "nightly", &json!({ "spec": { "suspend": true } }));
    cluster.run(120);
    assert_eq!(jobs(&cluster).len(), 2);
}

#[test]
fn a_cron_job_that_forbids_concurrency_waits_for_its_job() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    // From the beginning of a minute on.
    cluster.run(60 - cluster.now().as_second() % 60);
    let minute = cluster.now().as_second() / 60;
    cluster.create(&CRON_JOBS, cron_job("* * * * *", "Forbid", "sleep 90"));
    cluster.run(130);
    assert_eq!(jobs(&cluster), [format!("nightly-{}", minute + 1)]);
    assert_eq!(cluster.get(&CRON_JOBS, "nightly")["status"]["active"].as_array().unwrap().len(), 1);
    cluster.run(40);
    assert_eq!(jobs(&cluster), [format!("nightly-{}+", minute + 1), format!("nightly-{}", minute + 2)]);
}

#[test]
fn a_cron_job_without_a_valid_schedule_reports_an_event() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&CRON_JOBS, cron_job("61 * * * *", "Allow", "true"));
    cluster.run(5);
    let events = cluster.api.list(&EVENTS, &ListOptions::default()).unwrap().items;
    let event = events.iter().find(|event| event["reason"] == "UnparseableSchedule").unwrap();
    assert!(event["message"].as_str().unwrap().contains("minute"), "{event}");
}
