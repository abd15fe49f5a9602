//! `nodeless.sh/ami-canary`: one node gets a new AMI first, and the others when it has been running healthily.

use crate::support::*;
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::*;
use nodeless_model::claim::condition;
use nodeless_model::node::NodeCondition;
use nodeless_model::*;

/// Drifted nodes that their pods fill, of a NodePool with a canary of half an hour.
fn drifted(nodes: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.pools[0].options.set(labels::AMI_CANARY, Some("30m"));
    for node in 0..nodes {
        world.on_demand("c9.large", vec![web(node)]);
    }
    world
}

fn web(number: usize) -> Pod {
    let pod = Pod { ready: Some(true), ..pod(&format!("web-{number}"), 1900, 3500) };
    labelled(pod, "app", "web")
}

/// A node with the new AMI, initialized at a time.
fn with_new_image(world: &mut TestCluster, since: Timestamp) -> &mut Place {
    let number = world.places.len();
    let place = world.on_demand("c9.large", vec![web(number)]);
    place.claim.status.instance.as_mut().unwrap().image_id = "ami-2".into();
    place.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, "", "", at(0));
    place.claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", since);
    place
}

fn cluster(world: &TestCluster) -> Cluster<'_> {
    let mut cluster = world.cluster();
    let image = ClassImage { id: "ami-2".into(), requirements: Requirements::new() };
    cluster.node_classes.insert("default".into(), NodeClassFacts { images: vec![image], ..NodeClassFacts::default() });
    cluster
}

fn decided(world: &TestCluster) -> Decision {
    decide(&cluster(world), now(), &world.options)
}

fn going(decision: &Decision) -> Vec<&str> {
    decision.commands.iter().flat_map(|command| &command.candidates).map(|candidate| candidate.node.as_str()).collect()
}

fn why(decision: &Decision, node: &str) -> String {
    let kept = decision.kept.iter().find(|kept| kept.node == node).unwrap();
    kept.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn one_node_goes_first_and_the_others_wait_for_it() {
    let world = drifted(3);
    let decision = decided(&world);
    assert_eq!(going(&decision), ["node-00000"]);
    assert!(decision.failed_canaries.is_empty() && decision.events.is_empty(), "{:#?}", decision.events);
    let expected = "it waits for the replacement of node-00000, the first node of NodePool default with AMI ami-2";
    assert!(why(&decision, "node-00001").contains(expected), "{}", why(&decision, "node-00001"));
    let reason = decision.kept.iter().flat_map(|kept| &kept.reasons).find_map(KeptReason::event);
    assert_eq!(reason, Some(KeptEvent::DisruptionBlocked));
    // While its command is under way, and when it is validated.
    let command = &decision.commands[0];
    let mut during = world.cluster_during([command].into_iter());
    during.node_classes = cluster(&world).node_classes;
    assert!(decide(&during, now(), &world.options).commands.is_empty());
    let later = now() + SignedDuration::from_secs(15);
    let again = revalidate(command, &cluster(&world), later, &world.options).unwrap();
    assert_eq!(again.candidates, command.candidates);
    // Without the annotation all go.
    let mut world = world;
    world.pools[0].options = NodePoolOptions::default();
    assert_eq!(going(&decided(&world)).len(), 3);
}

#[test]
fn the_others_wait_until_the_first_has_run_for_the_time() {
    for (minutes, count) in [(29, 0), (30, 2), (31, 2)] {
        let mut world = drifted(2);
        with_new_image(&mut world, now() - SignedDuration::from_mins(minutes));
        let decision = decided(&world);
        assert_eq!(going(&decision).len(), count, "{minutes}");
        if count == 0 {
            let until = "it waits for node-00002, the first node of NodePool default with AMI ami-2, until 1970-01-01T02:01:00Z";
            assert!(why(&decision, "node-00000").contains(until), "{}", why(&decision, "node-00000"));
        }
    }
    // A younger node does not begin the time again, and one that has not joined is waited for.
    let mut world = drifted(2);
    with_new_image(&mut world, now() - SignedDuration::from_mins(40));
    with_new_image(&mut world, now() - SignedDuration::from_mins(1));
    assert_eq!(going(&decided(&world)).len(), 2);
    let mut world = drifted(2);
    let joining = with_new_image(&mut world, now());
    joining.claim.phase = Phase::Registered;
    joining.node.labels.remove(labels::INITIALIZED);
    let decision = decided(&world);
    assert!(decision.commands.is_empty());
    assert!(
        why(&decision, "node-00000")
            .contains("node-00002, the first node of NodePool default with AMI ami-2, which is not initialized yet")
    );
}

#[test]
fn a_failing_pod_stops_the_replacement_if_its_workload_is_ready_elsewhere() {
    let mut world = drifted(2);
    let first = with_new_image(&mut world, now() - SignedDuration::from_mins(40));
    first.pods[0].ready = Some(false);
    let decision = decided(&world);
    assert!(decision.commands.is_empty());
    let expected = "because pod default/web-2 is not ready on node-00002, and pods of the same workload are ready on nodes with other AMIs";
    assert!(why(&decision, "node-00000").contains(expected), "{}", why(&decision, "node-00000"));
    assert_eq!(decision.failed_canaries.iter().collect::<Vec<_>>(), ["default"]);
    let [event] = &decision.events[..] else { panic!("{:#?}", decision.events) };
    assert_eq!((event.reason.as_str(), event.is_warning()), ("AmiCanaryFailed", true));
    assert!(
        event.message.starts_with("Nodes are not replaced by ones with AMI ami-2: pod default/web-2"),
        "{}",
        event.message
    );
    // The pod may take five minutes to start.
    world.places[2].pods[0].start_time = Some(now() - SignedDuration::from_secs(299));
    assert_eq!(going(&decided(&world)).len(), 2);
    world.places[2].pods[0].start_time = Some(now() - SignedDuration::from_secs(300));
    assert!(decided(&world).commands.is_empty());
    // A failing pod counts only if its workload has ready pods on other nodes.
    world.places[2].pods[0].template_mut().labels.insert("app".into(), "other".into());
    assert_eq!(going(&decided(&world)).len(), 2);
    world.places[2].pods[0].template_mut().labels.insert("app".into(), "web".into());
    world.places[..2].iter_mut().for_each(|place| place.pods[0].ready = Some(false));
    assert_eq!(going(&decided(&world)).len(), 2);
}

#[test]
fn pods_of_a_stateful_set_are_one_workload() {
    let mut world = drifted(2);
    with_new_image(&mut world, now() - SignedDuration::from_mins(40)).pods[0].ready = Some(false);
    for (number, place) in world.places.iter_mut().enumerate() {
        let pod = &mut place.pods[0];
        pod.template_mut().labels.insert("statefulset.kubernetes.io/pod-name".into(), format!("web-{number}"));
        pod.template_mut().labels.insert("apps.kubernetes.io/pod-index".into(), number.to_string());
    }
    assert!(decided(&world).commands.is_empty());
}

#[test]
fn nodes_that_are_not_ready_or_do_not_register_stop_the_replacement() {
    let mut world = drifted(2);
    let first = with_new_image(&mut world, now() - SignedDuration::from_mins(40));
    let unready = |minutes| NodeCondition {
        kind: "Ready".into(),
        status: None,
        since: Some(now() - SignedDuration::from_mins(minutes)),
        reason: String::new(),
    };
    first.node.conditions = vec![unready(5)];
    assert!(why(&decided(&world), "node-00000").contains("because node node-00002 is not ready"));
    world.places[2].node.conditions = vec![unready(4)];
    world.pools[0].disruption.budgets = vec![budget(nodeless_model::node_pool::BudgetNodes::Count(3))];
    assert_eq!(going(&decided(&world)).len(), 2);
    let world = drifted(2);
    let mut failing = cluster(&world);
    failing.registration_failures.insert("default".into(), "RegistrationFailed: Failed to register node".into());
    let decision = decide(&failing, now(), &world.options);
    assert!(decision.commands.is_empty() && !decision.failed_canaries.is_empty());
    assert!(
        why(&decision, "node-00000")
            .contains("the last nodes of NodePool default did not register (RegistrationFailed")
    );
}

#[test]
fn only_the_drift_of_an_ami_waits() {
    let mut world = drifted(3);
    world.pools[0].hash = "hash-2".into();
    assert_eq!(going(&decided(&world)).len(), 3);
    assert!(decided(&world).failed_canaries.is_empty());
}

#[test]
fn each_node_pool_has_its_own_first_node() {
    let mut world = drifted(2);
    world.pools.push(NodePool { name: "other".into(), ..world.pools[0].clone() });
    for node in 2..4 {
        world.node("other", "c9.large", CapacityType::OnDemand, ZONES[0], vec![web(node)]);
    }
    assert_eq!(going(&decided(&world)), ["node-00000", "node-00002"]);
}

#[test]
fn an_invalid_duration_keeps_nodes_with_their_ami() {
    let mut world = drifted(2);
    world.pools[0].options.set(labels::AMI_CANARY, Some("soon"));
    let decision = decided(&world);
    assert!(decision.commands.is_empty());
    assert!(why(&decision, "node-00000").contains("no node is replaced because of its AMI until it is corrected"));
}

#[test]
fn nodes_of_a_static_node_pool_wait_too() {
    let mut world = drifted(3);
    world.pools[0].replicas = Some(3);
    assert_eq!(going(&decided(&world)), ["node-00000"]);
    with_new_image(&mut world, now() - SignedDuration::from_mins(40));
    world.pools[0].replicas = Some(4);
    assert_eq!(going(&decided(&world)).len(), 3);
}
