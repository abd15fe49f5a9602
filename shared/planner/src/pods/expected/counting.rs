//! How many pods a workload is about to create.

use nodeless_model::{Desired, POD_TEMPLATE_HASH, Pod, PodController};

/// How many pods a workload with these pods, ended ones left out, creates next.
pub(super) fn missing(controller: &PodController, pods: &[&Pod]) -> u32 {
    let active = || pods.iter().filter(|pod| pod.is_active());
    match controller.desired {
        Desired::Nothing | Desired::Refused => 0,
        Desired::Active { count, awaits_deleted } => {
            let is_present = |pod: &&&Pod| pod.is_active() || (awaits_deleted && pod.is_terminating());
            count.saturating_sub(number(pods.iter().filter(is_present).count()))
        }
        Desired::Replicas { count, surge, recreates } => {
            let current = of_newest_template(pods).filter(|pod| pod.is_active()).count();
            if recreates && of_newest_template(pods).count() < pods.len() {
                return 0;
            }
            let within = count.saturating_add(surge).saturating_sub(number(active().count()));
            count.saturating_sub(number(current)).min(within)
        }
        // A pod that is being deleted keeps its name until it is gone.
        Desired::Ordinals { first, count } => {
            let ordinal = |pod: &&&Pod| pod.name.rsplit_once('-')?.1.parse::<u32>().ok();
            let is_own = |ordinal: &u32| (first..first.saturating_add(count)).contains(ordinal);
            count.saturating_sub(number(pods.iter().filter_map(|pod| ordinal(&pod)).filter(is_own).count()))
        }
    }
}

/// The pods of the newest template: those of the ReplicaSet that created the newest pod, or all if there are no ReplicaSets.
pub(super) fn of_newest_template<'p, 'a>(pods: &'p [&'a Pod]) -> impl Iterator<Item = &'a Pod> + use<'p, 'a> {
    let hash = |pod: &Pod| pod.template.labels.get(POD_TEMPLATE_HASH).cloned();
    let newest = pods.iter().filter(|pod| pod.is_active()).max_by_key(|pod| (pod.created, &pod.name));
    let newest = newest.map(|pod| hash(pod));
    pods.iter().copied().filter(move |pod| newest.as_ref() == Some(&hash(pod)))
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{controller, pod};
    use super::*;
    use jiff::Timestamp;

    fn terminating(pod: Pod) -> Pod {
        Pod { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..pod }
    }

    /// Pods of two templates, each with the number of pods.
    fn of_templates(old: usize, new: usize) -> Vec<Pod> {
        let pods = |hash: &str, created: i64, count| {
            let made = (0..count).map(|number| pod("Deployment", &format!("web-{hash}-{number}"), created));
            let labelled = made.map(|pod| Pod {
                owner_name: Some(format!("web-{hash}")),
                ..pod.with_template(|it| it.labels = [(POD_TEMPLATE_HASH.to_owned(), hash.to_owned())].into())
            });
            labelled.collect::<Vec<_>>()
        };
        [pods("a", 0, old), pods("b", 10, new)].concat()
    }

    #[test]
    fn a_deployment_creates_what_its_replicas_and_the_surge_allow() {
        let replicas = |count, surge, recreates| Desired::Replicas { count, surge, recreates };
        for (desired, old, new, expected) in [
            (replicas(10, 3, false), 0, 0, 10),
            (replicas(10, 3, false), 0, 1, 9),
            (replicas(10, 3, false), 0, 10, 0),
            (replicas(10, 3, false), 10, 1, 2),
            (replicas(10, 0, false), 10, 0, 0),
            (replicas(10, 3, false), 4, 5, 4),
            (replicas(10, 3, false), 14, 0, 0),
            (replicas(20, 5, false), 10, 0, 10),
            (replicas(10, 0, true), 3, 1, 0),
            (replicas(10, 0, true), 0, 4, 6),
            (Desired::Nothing, 0, 1, 0),
            (Desired::Refused, 0, 1, 0),
        ] {
            let pods = of_templates(old, new);
            let found = missing(&controller("Deployment", desired), &pods.iter().collect::<Vec<_>>());
            assert_eq!(found, expected, "{desired:?} with {old} and {new}");
        }
        let mut pods = of_templates(0, 4);
        pods[0] = terminating(pods[0].clone());
        let desired = replicas(4, 0, false);
        assert_eq!(missing(&controller("Deployment", desired), &pods.iter().collect::<Vec<_>>()), 1);
    }

    #[test]
    fn a_stateful_set_creates_the_pods_whose_numbers_are_missing() {
        let set = controller("StatefulSet", Desired::Ordinals { first: 2, count: 4 });
        let pods = |ordinals: &[u32]| -> Vec<Pod> {
            ordinals.iter().map(|ordinal| pod("StatefulSet", &format!("web-{ordinal}"), 0)).collect()
        };
        let of = |pods: &[Pod]| missing(&set, &pods.iter().collect::<Vec<_>>());
        assert_eq!([&[][..], &[2], &[2, 5], &[1, 6], &[2, 3, 4, 5]].map(|own| of(&pods(own))), [4, 3, 2, 4, 0]);
        assert_eq!(of(&[terminating(pods(&[2]).remove(0))]), 3, "its name is not free");
    }

    #[test]
    fn a_job_creates_the_pods_that_are_to_run_at_once() {
        let job = |awaits_deleted| controller("Job", Desired::Active { count: 3, awaits_deleted });
        let pods: Vec<Pod> = (0..4).map(|number| pod("Job", &format!("web-{number}"), 0)).collect();
        let of = |job: PodController, pods: &[Pod]| missing(&job, &pods.iter().collect::<Vec<_>>());
        assert_eq!([0, 2, 3, 4].map(|count| of(job(false), &pods[..count])), [3, 1, 0, 0]);
        let one_is_deleted = [terminating(pods[0].clone()), pods[1].clone()];
        assert_eq!([false, true].map(|awaits_deleted| of(job(awaits_deleted), &one_is_deleted)), [2, 1]);
    }
}
