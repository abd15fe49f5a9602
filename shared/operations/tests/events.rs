//! What `kubectl describe` shows of nodes that stay and nodes that go: conditions and events, as Karpenter's users know them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, drift, pod, running_town};
use nodeless_model::node_pool::{BudgetNodes, ConsolidationPolicy};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{Budget, NillableDuration, Pod, Quantity};
use std::collections::BTreeSet;
use std::time::Duration;

/// Events of a reason, with kind and name of what they are about.
fn reported(town: &Town, reason: &str) -> Vec<ObjectEvent> {
    town.cluster.lock().events.iter().filter(|event| event.reason == reason).cloned().collect()
}

fn change_pod(town: &Town, name: &str, change: impl Fn(&mut Pod)) {
    town.cluster.lock().pods.values_mut().filter(|pod| pod.name == name).for_each(change);
}

fn kinds(events: &[ObjectEvent]) -> BTreeSet<&str> {
    events.iter().map(|event| event.object.kind.as_str()).collect()
}

/// The machine has just what its instance type promises.
async fn keep_promises(town: &Town) {
    let capacity = town.records().await[0].status.capacity.clone();
    town.cluster.lock().nodes.values_mut().for_each(|node| node.capacity = capacity.clone());
}

/// Status and reason of a condition of the only NodeClaim object.
fn shown(town: &Town, kind: &str) -> Option<(String, String)> {
    town.cluster.lock().mirrors.values().next().unwrap().conditions.get(kind).cloned()
}

#[tokio::test]
async fn a_node_that_cannot_be_consolidated_says_so_once_in_a_quarter_of_an_hour() {
    let mut town = running_town(1).await;
    town.minutes(20).await;
    let events = reported(&town, "Unconsolidatable");
    assert_eq!(kinds(&events), BTreeSet::from(["Node", "NodeClaim"]), "{events:?}");
    let per_object = events.iter().filter(|event| event.object.kind == "Node").count();
    assert!((1..=2).contains(&per_object), "{per_object} events on the Node in twenty minutes");
    assert!(events.iter().all(|event| !event.is_warning() && !event.object.uid.is_empty()), "{events:?}");
    assert!(events[0].message.contains('$') || events[0].message.contains("pod"), "{}", events[0].message);
}

#[tokio::test]
async fn a_node_that_is_kept_says_which_pod_keeps_it_and_a_candidate_what_is_saved() {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    {
        let mut state = town.cluster.lock();
        let pool = &mut state.pools[0].disruption;
        pool.consolidate_after = NillableDuration::After(Duration::from_secs(30));
        pool.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    }
    town.cluster.add_pods([pod("big", 3000), pod("small", 500)]);
    town.queue_wake().await;
    town.until("both run", |town| town.cluster.bound() == 2).await;
    change_pod(&town, "big", |pod| {
        pod.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    });
    town.minutes(3).await;
    let blocked = reported(&town, "DisruptionBlocked");
    let named = |event: &ObjectEvent| event.message == "Pod default/big is annotated karpenter.sh/do-not-disrupt";
    assert!(blocked.iter().any(named), "{blocked:?}");
    assert_eq!(kinds(&blocked), BTreeSet::from(["Node", "NodeClaim"]));
    change_pod(&town, "big", |pod| {
        pod.annotations.clear();
        pod.requests.set("cpu", Quantity::from_milli(100));
    });
    town.minutes(6).await;
    let candidates = reported(&town, "ConsolidationCandidate");
    assert_eq!(kinds(&candidates), BTreeSet::from(["Node", "NodeClaim"]), "{candidates:?}");
    assert!(candidates[0].message.contains("savings: $"), "{}", candidates[0].message);
}

#[tokio::test]
async fn conditions_of_the_nodeclaim_say_how_it_stands_with_disruption() {
    let mut town = running_town(1).await;
    keep_promises(&town).await;
    // Its pods change no more for as long as the NodePool wants.
    town.minutes(3).await;
    let is = |kind: &str, reason: &str| {
        assert_eq!(shown(&town, kind), Some(("True".into(), reason.into())), "{kind}");
    };
    is("Consolidatable", "Consolidatable");
    is("ConsistentStateFound", "ConsistentStateFound");
    assert_eq!(shown(&town, "Drifted"), None);

    // Nothing may replace it, so it stays drifted.
    town.cluster.lock().pools[0].disruption.budgets =
        vec![Budget { nodes: BudgetNodes::Count(0), reasons: Vec::new(), window: None }];
    drift(&town);
    town.minutes(3).await;
    assert_eq!(shown(&town, "Drifted"), Some(("True".into(), "NodePoolDrifted".into())));
    let since = town.records().await[0].condition("Drifted").unwrap().last_transition_time;
    let transitions = reported(&town, "Drifted");
    assert_eq!(transitions.len(), 1, "{transitions:?}");
    assert!(transitions[0].message.contains("Unknown -> True, Reason: NodePoolDrifted"), "{}", transitions[0].message);
    town.minutes(3).await;
    assert_eq!(town.records().await[0].condition("Drifted").unwrap().last_transition_time, since);

    // The NodePool is as it was.
    town.cluster.lock().pools[0].hash = common::node_pool("default").hash;
    town.minutes(3).await;
    assert_eq!(shown(&town, "Drifted"), None);
}

#[tokio::test]
async fn a_node_that_has_less_than_its_instance_type_promises_is_told() {
    let mut town = running_town(1).await;
    keep_promises(&town).await;
    town.minutes(2).await;
    town.cluster.lock().events.clear();
    town.cluster.lock().nodes.values_mut().for_each(|node| node.capacity.set("cpu", Quantity::from_units(1)));
    town.minutes(4).await;
    assert_eq!(shown(&town, "ConsistentStateFound"), Some(("False".into(), "ConsistencyCheckFailed".into())));
    let failed = reported(&town, "FailedConsistencyCheck");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].is_warning() && failed[0].message.contains("of resource cpu, but found 1"),
        "{}",
        failed[0].message
    );
}
