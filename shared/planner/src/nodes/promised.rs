//! Pending pods that are about to be bound to the nodes that were launched for them.
//!
//! A node's pods are nominated for it before it opens, and bound within seconds. Until then a nomination may be missing for a moment,
//! and a topology constraint may not allow a pod on its node before another pod is bound. A plan that evaluated such a pod could launch
//! a second node for it, so plans count the pod on its node instead.

use crate::nodes::place::Place;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::{DaemonSet, NodeClaim, Phase, Pod};
use nodeless_scheduling::existing_node;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The time within which a pod is expected to be bound after its node opened: lifecycle keeps nominations up for 15 seconds, and
/// the kube-scheduler attempts a pod again after a backoff of at most 10 seconds.
pub(crate) const BOUND_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// The pods that are expected on nodes, each with the Node's name: those of the newest claim with the pod, as far as they fit beside the
/// pods that are bound there.
pub(crate) fn promised<'a>(
    places: &[&Place<'a>],
    mut pending: HashMap<String, &'a Pod>,
    daemon_sets: &[DaemonSet],
    now: Timestamp,
) -> Vec<(String, &'a Pod)> {
    let joining = places.iter().filter_map(|place| Some((place.node?, place.claim?, &place.pods)));
    let mut joining: Vec<_> = joining.filter(|(_, claim, _)| opens(claim, now)).collect();
    joining.sort_by_key(|(_, claim, _)| (Reverse(claim.created), claim.name.as_str()));
    let mut promised = Vec::new();
    for (node, claim, bound) in joining {
        let Ok(existing) = existing_node(Some(node), Some(claim), bound, daemon_sets) else { continue };
        let mut left = existing.available;
        for pod in claim.spec.nominated_pods.iter().filter_map(|key| pending.remove(key)) {
            if pod.template.requests.fits(&left) {
                left.subtract(&pod.template.requests);
                promised.push((node.name.clone(), pod));
            }
        }
    }
    promised
}

/// Whether a claim's node has joined and is not open, or has opened a moment ago.
pub(crate) fn opens(claim: &NodeClaim, now: Timestamp) -> bool {
    match claim.phase {
        Phase::Registered => true,
        Phase::Initialized => claim
            .condition(condition::INITIALIZED)
            .is_some_and(|initialized| now.duration_since(initialized.last_transition_time) < BOUND_WITHIN),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::claim::ConditionStatus;
    use nodeless_model::test_support::node_claim;
    use nodeless_model::{Node, NodeClaimSpec, PodTemplate, Quantity, ResourceList};

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn requests(cpus: i64) -> ResourceList {
        ResourceList::from([("cpu", Quantity::from_units(cpus)), ("pods", Quantity::from_units(1))])
    }

    fn pod(name: &str, cpus: i64) -> Pod {
        Pod {
            namespace: "default".into(),
            name: name.into(),
            template: PodTemplate { requests: requests(cpus), ..PodTemplate::default() }.into(),
            ..Pod::default()
        }
    }

    /// A node with 2 CPUs.
    fn node(name: &str) -> Node {
        let allocatable = ResourceList::from([("cpu", Quantity::from_units(2)), ("pods", Quantity::from_units(9))]);
        Node { name: name.into(), allocatable, ..Node::default() }
    }

    fn claim(name: &str, created: i64, phase: Phase, pods: &[&str]) -> NodeClaim {
        let mut claim = NodeClaim {
            created: second(created),
            spec: NodeClaimSpec {
                nominated_pods: pods.iter().map(|pod| format!("default/{pod}")).collect(),
                ..NodeClaimSpec::default()
            },
            phase,
            ..node_claim(name)
        };
        if phase == Phase::Initialized {
            claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", second(created + 60));
        }
        claim
    }

    /// The names of the pods that are about to be bound, each with its node.
    fn found(places: &[(&Node, &NodeClaim, Vec<&Pod>)], pods: &[Pod], now: i64) -> Vec<(String, String)> {
        let places: Vec<Place<'_>> = places
            .iter()
            .map(|(node, claim, pods)| Place {
                node: Some(node),
                claim: Some(claim),
                pods: pods.clone(),
                ..Place::default()
            })
            .collect();
        let pending = pods.iter().map(|pod| (pod.key(), pod)).collect();
        promised(&places.iter().collect::<Vec<_>>(), pending, &[], second(now))
            .into_iter()
            .map(|(node, pod)| (node, pod.name.clone()))
            .collect()
    }

    fn on(node: &str, pods: &[&str]) -> Vec<(String, String)> {
        pods.iter().map(|pod| (node.to_owned(), (*pod).to_owned())).collect()
    }

    #[test]
    fn pods_are_promised_until_half_a_minute_after_their_node_opened() {
        let (node, pods) = (node("n"), [pod("a", 1), pod("stranger", 1)]);
        let joined = claim("c", 0, Phase::Registered, &["a", "bound"]);
        assert_eq!(found(&[(&node, &joined, vec![])], &pods, 500), on("n", &["a"]));
        let open = claim("c", 0, Phase::Initialized, &["a"]);
        assert_eq!(found(&[(&node, &open, vec![])], &pods, 89), on("n", &["a"]));
        assert_eq!(found(&[(&node, &open, vec![])], &pods, 90), []);
        for phase in [Phase::Launched, Phase::Draining] {
            assert_eq!(found(&[(&node, &claim("c", 0, phase, &["a"]), vec![])], &pods, 0), []);
        }
    }

    #[test]
    fn what_does_not_fit_any_more_is_not_promised() {
        let (node, claim) = (node("n"), claim("c", 0, Phase::Registered, &["large", "small"]));
        let (pods, other) = ([pod("large", 2), pod("small", 1)], pod("other", 1));
        assert_eq!(found(&[(&node, &claim, vec![])], &pods, 1), on("n", &["large"]));
        assert_eq!(found(&[(&node, &claim, vec![&other])], &pods, 1), on("n", &["small"]));
        let cordoned = Node { unschedulable: true, ..node };
        assert_eq!(found(&[(&cordoned, &claim, vec![])], &pods, 1), []);
    }

    #[test]
    fn the_newest_claim_of_a_pod_counts() {
        let (old, new, pods) = (node("old"), node("new"), [pod("a", 1)]);
        let (first, second) = (claim("x", 0, Phase::Registered, &["a"]), claim("y", 5, Phase::Registered, &["a"]));
        let places = [(&old, &first, vec![]), (&new, &second, vec![])];
        assert_eq!(found(&places, &pods, 6), on("new", &["a"]));
    }
}
