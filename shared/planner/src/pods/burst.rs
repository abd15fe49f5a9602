//! Pods of a burst, which keep the batch window although a plan is made for others at once: those that are planned together need fewer and
//! cheaper nodes.

use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Leaves out the pods that became pending within this time and that no plan has seen yet. Returns whether there are any.
pub(crate) fn leave(view: &mut ClusterView, seen: &BTreeSet<String>, longest: Duration, now: Timestamp) -> bool {
    let is_recent = |at: Timestamp| at.checked_add(longest).is_ok_and(|until| now < until);
    let waits = |pod: &Pod| {
        pod.is_provisionable() && !seen.contains(&pod.uid) && pod.reported.or(pod.created).is_some_and(is_recent)
    };
    let mut leaves = false;
    for pod in &mut view.pods {
        if waits(pod) {
            Arc::make_mut(pod).marked_unschedulable = false;
            leaves = true;
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_that_became_pending_lately_and_that_no_plan_has_seen_are_left() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let pod = |uid: &str, reported| Pod {
            uid: uid.into(),
            created: Some(second(reported)),
            reported: Some(second(reported)),
            marked_unschedulable: true,
            ..Pod::default()
        };
        let unmarked = Pod { reported: None, ..pod("counted", 90) };
        let pods = [pod("old", 80), pod("new", 81), pod("ahead", 101), pod("seen", 99), unmarked];
        let mut view = ClusterView { pods: pods.into_iter().map(Arc::new).collect(), ..ClusterView::default() };
        let left = |view: &ClusterView| -> Vec<String> {
            view.pods().filter(|pod| !pod.is_provisionable()).map(|pod| pod.uid.clone()).collect()
        };
        let seen = BTreeSet::from(["seen".to_owned()]);
        assert!(!leave(&mut view.clone(), &seen, Duration::ZERO, second(200)));
        assert!(leave(&mut view, &seen, Duration::from_secs(20), second(100)));
        assert_eq!(left(&view), ["new", "ahead", "counted"]);
        assert!(!leave(&mut view, &seen, Duration::from_secs(20), second(100)), "they are left already");
    }
}
