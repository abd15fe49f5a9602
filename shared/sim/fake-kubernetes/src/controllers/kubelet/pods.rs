//! The pods of a kubelet: how they start, become ready and end.

use super::{JOB_RUN, POD_START, POD_STOP, PodFaults};
use crate::controllers::object::{
    NewEvent, after, condition, controller_of, delete, has_ended, int, is_deleting, is_true, list, name, namespace,
    publish, seconds, set_condition, text, time, uid, write_status,
};
use crate::server::path::Path as _;
use crate::server::resource::PODS;
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Starts, completes or stops a pod when it is due. Returns when it is due next.
pub(super) fn run(
    api: &ApiServer,
    pod: &Value,
    node_ready: bool,
    faults: &PodFaults,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    if is_deleting(pod) && faults.hanging.contains(uid(pod)) {
        return Ok(None);
    }
    if is_deleting(pod) {
        let grace = int(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        let asked = after(time(pod, "/metadata/deletionTimestamp").unwrap_or(now), -grace);
        let gone = after(asked, grace.min(POD_STOP));
        if gone > now {
            return Ok(Some(gone));
        }
        delete(api, &PODS, pod, Some(0))?;
        return Ok(None);
    }
    match text(pod, "/status/phase") {
        // Pods on the host network start before the node is ready, because they make it ready.
        "Pending" if node_ready || pod["spec"]["hostNetwork"] == true => {
            let bound = condition(pod, "PodScheduled").and_then(|it| time(it, "/lastTransitionTime"));
            // A pod that was created with a nodeName never passes through the scheduler.
            let bound = bound.or_else(|| time(pod, "/metadata/creationTimestamp"));
            let start = after(bound.unwrap_or(now), POD_START);
            if start > now {
                return Ok(Some(start));
            }
            let ready = after(now, probe_delay(pod));
            let passes = ready <= now && !faults.unready.contains(uid(pod));
            write_status(api, &PODS, pod, running(pod, passes, now))?;
            let event =
                NewEvent { component: "kubelet", kind: "Normal", reason: "Started", message: "Started containers" };
            publish(api, pod, &event, now)?;
            let end = run_length(pod).map(|length| after(now, length));
            Ok(end.into_iter().chain((ready > now).then_some(ready)).min())
        }
        "Running" => {
            // The node lifecycle controller marks the pods of a kubelet that does not report.
            let started = time(pod, "/status/startTime").unwrap_or(now);
            let ready = after(started, probe_delay(pod));
            let passes = ready <= now && !faults.unready.contains(uid(pod));
            if node_ready && passes != is_true(pod, "Ready") {
                write_status(api, &PODS, pod, with_readiness(pod, passes, now))?;
            }
            let probed = (ready > now).then_some(ready);
            let Some(length) = run_length(pod) else { return Ok(probed) };
            let end = after(started, length);
            if end > now {
                return Ok(Some(probed.map_or(end, |probed| probed.min(end))));
            }
            write_status(api, &PODS, pod, succeeded(pod, now)).map(|()| None)
        }
        _ => Ok(None),
    }
}

/// The seconds after which a pod completes; `None` if it does not.
fn run_length(pod: &Value) -> Option<i64> {
    let of_job = controller_of(pod).is_some_and(|owner| owner["kind"] == "Job");
    // `helm test` waits for such a pod to complete.
    let of_job = of_job || pod.at("/metadata/annotations/helm.sh~1hook").is_some();
    if has_ended(pod) || !(of_job || text(pod, "/spec/restartPolicy") == "Never") {
        return None;
    }
    let words = ["command", "args"].into_iter().flat_map(|field| list(pod, &format!("/spec/containers/0/{field}")));
    let words: Vec<&str> = words.filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
    let slept = words.windows(2).find(|pair| pair[0] == "sleep").and_then(|pair| pair[1].parse::<u32>().ok());
    match slept {
        Some(length) => Some(i64::from(length)),
        None => of_job.then_some(JOB_RUN),
    }
}

/// The seconds after which the readiness probes of a pod's containers begin, and succeed.
fn probe_delay(pod: &Value) -> i64 {
    let delays = list(pod, "/spec/containers").iter().map(|it| it["readinessProbe"]["initialDelaySeconds"].as_i64());
    delays.flatten().max().unwrap_or(0)
}

fn running(pod: &Value, ready: bool, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let mut conditions = list(pod, "/status/conditions").to_vec();
    for kind in ["PodReadyToStartContainers", "Initialized", "PodScheduled"] {
        set_condition(&mut conditions, kind, "True", "", "", now);
    }
    let (value, reason) = readiness(ready);
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut conditions, kind, value, reason, "", now);
    }
    status["conditions"] = Value::Array(conditions);
    status["phase"] = json!("Running");
    status["startTime"] = json!(seconds(now));
    let address = address(pod);
    status["podIP"] = json!(address);
    status["podIPs"] = json!([{ "ip": address }]);
    let state = json!({ "running": { "startedAt": seconds(now) } });
    status["containerStatuses"] = container_statuses(pod, &state, ready);
    status
}

/// The status and the reason of the condition `Ready`.
const fn readiness(ready: bool) -> (&'static str, &'static str) {
    if ready { ("True", "") } else { ("False", "ContainersNotReady") }
}

fn with_readiness(pod: &Value, ready: bool, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let mut conditions = list(pod, "/status/conditions").to_vec();
    let (value, reason) = readiness(ready);
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut conditions, kind, value, reason, "", now);
    }
    status["conditions"] = Value::Array(conditions);
    let state = json!({ "running": { "startedAt": status["startTime"] } });
    status["containerStatuses"] = container_statuses(pod, &state, ready);
    status
}

fn succeeded(pod: &Value, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let mut conditions = list(pod, "/status/conditions").to_vec();
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut conditions, kind, "False", "PodCompleted", "", now);
    }
    status["conditions"] = Value::Array(conditions);
    status["phase"] = json!("Succeeded");
    let state = json!({ "terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": status["startTime"], "finishedAt": seconds(now),
    } });
    status["containerStatuses"] = container_statuses(pod, &state, false);
    status
}

fn container_statuses(pod: &Value, state: &Value, up: bool) -> Value {
    let statuses = list(pod, "/spec/containers").iter().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": container["image"],
            "containerID": format!("containerd://{}-{}", uid(pod), text(container, "/name")),
            "ready": up, "started": up, "restartCount": 0, "state": state,
        })
    });
    Value::Array(statuses.collect())
}

/// An address for a pod, the same each time.
fn address(pod: &Value) -> String {
    let number = crate::controllers::object::digest(&[namespace(pod), name(pod), uid(pod)]);
    let byte = |shift: u32| (number >> shift) & 0xff;
    format!("10.{}.{}.{}", 128 + byte(16) % 64, byte(8), 1 + byte(0) % 254)
}
