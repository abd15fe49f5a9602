//! The controllers of pods, by which costs are divided.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::Pod;

/// How long before a pod its Job may have been scheduled: Jobs that wait or are retried create pods later.
const SCHEDULED: SignedDuration = SignedDuration::from_hours(24 * 31);

/// The controller of a pod as `namespace/Kind/name`: its owner, of a ReplicaSet its Deployment, and of a Job its CronJob. `None` for
/// a pod without an owner, and for the pods of a kubelet, which belong to no workload.
pub(crate) fn controller(pod: &Pod) -> Option<String> {
    if pod.is_owned_by_node() {
        return None;
    }
    let workload = pod.workload()?;
    let cron_job = if workload.kind == "Job" { cron_job(&workload.name, pod.created) } else { None };
    let (kind, name) = cron_job.map_or((workload.kind.as_str(), workload.name.as_str()), |name| ("CronJob", name));
    Some(format!("{}/{kind}/{name}", workload.namespace))
}

/// The CronJob of a Job. A pod names only the Job, whose name is that of the CronJob and the scheduled time in minutes since 1970
/// (`getJobName` in `pkg/controller/cronjob/cronjob_controllerv2.go` of Kubernetes). Other Jobs may end with a number, but not with that of a time
/// shortly before their pods.
fn cron_job(job: &str, created: Option<Timestamp>) -> Option<&str> {
    let (name, minutes) = job.rsplit_once('-')?;
    if name.is_empty() || !minutes.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scheduled = Timestamp::from_second(minutes.parse::<i64>().ok()?.checked_mul(60)?).ok()?;
    let waited = created?.duration_since(scheduled);
    (waited > -SignedDuration::from_mins(2) && waited <= SCHEDULED).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::PodTemplate;
    use nodeless_model::StringMap;

    #[test]
    fn the_controller_of_a_pod_is_its_workload() {
        let created: Timestamp = "2026-11-23T12:00:05Z".parse().unwrap();
        let minutes = created.as_second() / 60;
        let of = |kind: Option<&str>, name: &str| {
            let labels = StringMap::from([("pod-template-hash".to_owned(), "7d4b9".to_owned())]);
            let owner = (kind.map(str::to_owned), Some(name.to_owned()));
            let (owner_kind, owner_name) = owner;
            let created = Some(created);
            let pod = Pod {
                namespace: "shop".into(),
                owner_kind,
                owner_name,
                created,
                template: PodTemplate { labels, ..PodTemplate::default() }.into(),
                ..Pod::default()
            };
            controller(&pod)
        };
        for (kind, name, expected) in [
            ("ReplicaSet", "cart-7d4b9", "shop/Deployment/cart"),
            ("ReplicaSet", "cart", "shop/ReplicaSet/cart"),
            ("StatefulSet", "queue", "shop/StatefulSet/queue"),
            ("DaemonSet", "agent", "shop/DaemonSet/agent"),
            ("Workflow", "build", "shop/Workflow/build"),
            ("Job", &format!("nightly-{minutes}"), "shop/CronJob/nightly"),
            ("Job", &format!("nightly-report-{}", minutes - 600), "shop/CronJob/nightly-report"),
            ("Job", &format!("nightly-{}", minutes + 600), &format!("shop/Job/nightly-{}", minutes + 600)),
            ("Job", "migrate-20261123", "shop/Job/migrate-20261123"),
            ("Job", "migrate-1", "shop/Job/migrate-1"),
            ("Job", "migrate", "shop/Job/migrate"),
            ("Job", "-", "shop/Job/-"),
            ("Job", "a-99999999999999999999", "shop/Job/a-99999999999999999999"),
            ("Job", "a-9223372036854775807", "shop/Job/a-9223372036854775807"),
        ] {
            assert_eq!(of(Some(kind), name).as_deref(), Some(expected), "{kind} {name}");
        }
        assert_eq!((of(None, "web"), of(Some("Node"), "ip-10-0-0-1")), (None, None));
    }
}
