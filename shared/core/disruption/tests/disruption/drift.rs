//! Drifted nodes are replaced at the pace that their budgets allow, and never count on capacity that others need.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;
use std::time::Duration;

/// A number of drifted nodes that their pods fill, and a budget.
fn full(nodes: usize, budgeted: u32) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(budgeted))];
    for node in 0..nodes {
        world.on_demand("c9.large", vec![pod(&format!("web-{node}"), 1900, 3500)]);
    }
    world.pools[0].hash = "hash-2".into();
    world
}

fn going(commands: &[Command]) -> Vec<&str> {
    commands.iter().flat_map(|command| &command.candidates).map(|candidate| candidate.node.as_str()).collect()
}

/// The replacement of a node whose pods have not left it yet: it was made from the present NodePool.
fn launch_for(world: &mut TestCluster, place: usize, ready: bool) {
    let replaces = world.places[place].claim.name.clone();
    let pods = world.places[place].pods.iter().map(Pod::key).collect();
    let made = world.on_demand("c9.large", Vec::new());
    made.claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-2".into());
    made.claim.spec.replaces = vec![replaces];
    made.claim.spec.nominated_pods = pods;
    if !ready {
        made.claim.phase = Phase::Registered;
        made.node.labels.remove(labels::INITIALIZED);
    }
}

#[test]
fn as_many_drifted_nodes_are_replaced_at_once_as_their_budget_allows() {
    let world = full(4, 2);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000", "node-00001"]);
    for command in &decision.commands {
        assert_eq!((command.method, command.replacements.len()), (Method::Drift, 1));
        let others = decision.commands.iter().filter(|other| other.id != command.id);
        let later = now() + SignedDuration::from_secs(15);
        let again = revalidate(command, &world.cluster_during(others), later, &world.options).unwrap();
        assert_eq!((again.candidates, again.replacements), (command.candidates.clone(), command.replacements.clone()));
    }
    assert!(world.kept(2).contains("allow 2 at once for Drifted"), "{}", world.kept(2));
}

#[test]
fn a_replacement_keeps_its_capacity_for_the_pods_it_was_launched_for() {
    for ready in [false, true] {
        // The first node drains slowly: its command has ended, and its pods are still there.
        let mut world = full(4, 2);
        world.places[0].claim.phase = Phase::Draining;
        launch_for(&mut world, 0, ready);
        let decision = world.decide();
        assert_eq!(going(&decision.commands), ["node-00001"], "ready: {ready}");
        let [replacement] = &decision.commands[0].replacements[..] else { panic!("{decision:#?}") };
        assert_eq!(replacement.pods, ["default/web-1"]);
    }
}

#[test]
fn a_replacement_keeps_its_capacity_while_its_command_is_in_progress() {
    let mut world = full(4, 2);
    let first = world.decide().commands.remove(0);
    assert_eq!(first.candidates[0].node, "node-00000");
    for ready in [false, true] {
        launch_for(&mut world, 0, ready);
        let decision = decide(&world.cluster_during([&first].into_iter()), now(), &world.options);
        assert_eq!(going(&decision.commands), ["node-00001"], "ready: {ready}");
        assert_eq!(decision.commands[0].replacements.len(), 1);
        world.places.pop();
    }
}

#[test]
fn a_drift_command_reports_the_nodes_of_pods_that_need_no_new_node() {
    let mut world = full(1, 1);
    world.places[0].pods = vec![pod("small", 100, 100), pod("web", 1700, 3000)];
    let other = world.on_demand("c9.xlarge", vec![pod("other", 3500, 6000)]);
    other.claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-2".into());
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    let expected = PodPlacement { pod: "default/small".into(), node: "node-00001".into() };
    assert_eq!(command.placements, [expected]);
    assert_eq!(command.replacements[0].pods, ["default/web"]);
}

#[test]
fn a_node_that_takes_pods_of_another_waits() {
    let mut world = full(2, 2);
    world.places[0].pods = vec![pod("a", 100, 100)];
    world.places[1].pods = vec![pod("b", 100, 100), pod("c", 100, 100)];
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    assert_eq!(decision.commands[0].placements[0].node, "node-00001");
    assert!(world.kept(1).contains("other nodes are disrupted first"), "{}", world.kept(1));
}

#[test]
fn pods_that_are_on_their_way_to_a_node_that_goes_find_another_place() {
    let mut world = full(2, 2);
    // The pods of the first node are moving to the second, which has drifted too.
    world.places[0].pods = vec![pod("a", 100, 100)];
    world.places[1].pods = vec![pod("b", 1000, 1000)];
    world.places[0].claim.phase = Phase::Draining;
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(command.candidates[0].node, "node-00001");
    assert_eq!(command.replacements[0].pods, ["default/a", "default/b"]);
}

#[test]
fn drift_commands_of_one_decision_keep_a_limit_together() {
    let mut world = full(4, 4);
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(10))]);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    // The limit allows one at a time, which is in use.
    assert!(world.kept(1).contains("other nodes are disrupted first"), "{}", world.kept(1));
}

/// [`full`] at its limit of nodes, where only one node may be removed before its replacement is launched.
fn at_its_limit(nodes: usize, budgeted: u32) -> TestCluster {
    let mut world = full(nodes, budgeted);
    let units = i64::try_from(nodes).unwrap();
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(units))]);
    world
}

#[test]
fn at_a_full_limit_one_drifted_node_at_a_time_goes_before_its_replacement_comes() {
    let mut world = at_its_limit(3, 2);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    let command = &decision.commands[0];
    assert!(command.drains_first && command.replacements.is_empty() && command.placements.is_empty());
    // The price of the removed node does not count as savings.
    assert!(command.savings_per_hour.abs() < 1e-9, "{}", command.savings_per_hour);
    assert!(world.kept(1).contains("other nodes are disrupted first"), "{}", world.kept(1));
    let later = now() + SignedDuration::from_secs(15);
    assert_eq!(revalidate(command, &world.cluster(), later, &world.options).as_ref(), Some(command));
    // While that one leaves or its replacement is on its way, no other does.
    let cluster = world.cluster_during(std::iter::once(command));
    assert_eq!(decide(&cluster, now(), &world.options).commands, []);
    world.places[0].claim.phase = Phase::Registered;
    world.places[0].node.labels.remove(labels::INITIALIZED);
    assert_eq!(world.decide().commands, []);
}

#[test]
fn at_a_full_limit_no_node_is_removed_whose_replacement_would_exceed_it_too() {
    // The pods would need more than the removed node has.
    let mut world = at_its_limit(2, 2);
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(3))]);
    assert_eq!(world.decide().commands, []);
    assert!(world.kept(0).contains("cannot be scheduled elsewhere"), "{}", world.kept(0));
    // A pending pod would use the capacity.
    let mut world = full(2, 2);
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(4))]);
    assert_eq!(going(&world.decide().commands), ["node-00000"]);
    world.pending = vec![pod("waits", 1900, 3500).with_template(|it| it.priority = 1000)];
    assert_eq!(world.decide().commands, []);
    assert!(world.kept(0).contains("cannot be scheduled elsewhere"), "{}", world.kept(0));
    // The budget holds as ever, and so does a pod that must not be evicted.
    assert_eq!(at_its_limit(2, 0).decide().commands, []);
    let mut world = at_its_limit(1, 1);
    world.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    assert_eq!(world.decide().commands, []);
}

#[test]
fn below_the_limit_a_replacement_comes_first() {
    let mut world = at_its_limit(3, 1);
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(4))]);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    assert!(!decision.commands[0].drains_first && decision.commands[0].replacements.len() == 1);
}

#[test]
fn a_limit_in_dollars_is_one_that_a_node_may_go_first_for() {
    let mut world = full(2, 1);
    world.pools[0].limit_dollars_per_hour = Some(world.usage("default").dollars_per_hour);
    let decision = world.decide();
    assert!(decision.commands[0].drains_first, "{decision:#?}");
}

/// The cluster's limit allows no further node.
fn limit_nodes_of_cluster(world: &mut TestCluster, nodes: i64) {
    world.limits.resources = ResourceList::from([("nodes", Quantity::from_units(nodes))]);
}

#[test]
fn a_node_may_go_first_for_a_limit_of_the_cluster() {
    let mut world = full(2, 1);
    limit_nodes_of_cluster(&mut world, 3);
    assert!(!world.decide().commands[0].drains_first, "the limit allows the replacement");
    limit_nodes_of_cluster(&mut world, 2);
    let decision = world.decide();
    assert!(decision.commands[0].drains_first, "{decision:#?}");
}

#[test]
fn a_node_does_not_go_first_for_a_limit_of_the_cluster_while_any_other_node_is_coming() {
    let mut world = full(2, 1);
    world.pools.push(node_pool("other"));
    limit_nodes_of_cluster(&mut world, 3);
    let coming = world.node("other", "c9.large", CapacityType::OnDemand, ZONES[0], Vec::new());
    coming.claim.phase = Phase::Registered;
    coming.node.labels.remove(labels::INITIALIZED);
    assert!(world.decide().commands.is_empty(), "{:#?}", world.decide());
    // A limit of the NodePool itself does not wait for other NodePools, which have no capacity left here.
    world.limits = ClusterLimits::default();
    world.pools[1].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(2))]);
    assert!(world.decide().commands[0].drains_first);
}

#[test]
fn a_static_pool_replaces_drifted_nodes_one_after_the_other_at_a_limit_of_the_cluster() {
    let mut world = full(3, 3);
    world.pools[0].replicas = Some(3);
    limit_nodes_of_cluster(&mut world, 3);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    assert!(decision.commands[0].drains_first);
    world.pools.push(node_pool("other"));
    limit_nodes_of_cluster(&mut world, 4);
    let coming = world.node("other", "c9.large", CapacityType::OnDemand, ZONES[0], Vec::new());
    coming.claim.phase = Phase::Registered;
    coming.node.labels.remove(labels::INITIALIZED);
    assert!(world.decide().commands.is_empty(), "another node could use what one releases");
}

#[test]
fn a_full_static_pool_replaces_drifted_nodes_one_after_the_other() {
    let mut world = at_its_limit(3, 3);
    world.pools[0].replicas = Some(3);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    let command = &decision.commands[0];
    assert!(command.drains_first && command.method == Method::StaticDrift && command.replacements.is_empty());
    let cluster = world.cluster_during(std::iter::once(command));
    assert_eq!(decide(&cluster, now(), &world.options).commands, []);
    assert!(world.kept(1).contains("cannot launch a replacement"), "{}", world.kept(1));
}

#[test]
fn a_node_whose_pods_would_go_to_one_that_is_not_ready_gets_a_replacement_of_its_own() {
    let mut world = full(1, 1);
    let coming = world.on_demand("c9.xlarge", Vec::new());
    coming.claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-2".into());
    coming.claim.phase = Phase::Registered;
    coming.node.labels.remove(labels::INITIALIZED);
    let decision = world.decide();
    assert_eq!(going(&decision.commands), ["node-00000"]);
    assert_eq!(decision.commands[0].replacements.len(), 1);
    // Where none can be had, it waits for that one.
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(6))]);
    assert!(world.decide().commands.is_empty());
    assert!(world.kept(0).contains("it would go to node-00001, which is not initialized yet"), "{}", world.kept(0));
}

#[test]
fn pods_that_stay_until_the_grace_period_ends_need_no_place() {
    let mut world = full(1, 1);
    let mut stays = pod("stays", 9_000_000, 100);
    stays.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let guarded = labelled(pod("guarded", 9_000_000, 100), "app", "guarded");
    world.places[0].pods.extend([stays, guarded].map(|pod| Pod { node_name: Some("node-00000".into()), ..pod }));
    world.budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "never".into(),
        selector: Some(selector("app", "guarded")),
        blocks_always: true,
        ..PodDisruptionBudget::default()
    }];
    assert!(world.kept(0).contains("annotated karpenter.sh/do-not-disrupt"), "{}", world.kept(0));
    world.places[0].claim.spec.termination_grace_period = Some(Duration::from_hours(1));
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(command.replacements[0].pods, ["default/web-0"]);
}

#[test]
fn a_proposal_is_validated_for_itself_whatever_else_could_be_done_meanwhile() {
    let later = now() + SignedDuration::from_secs(15);
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(1))];
    world.on_demand("c9.large", Vec::new());
    world.on_demand("c9.xlarge", vec![pod("web", 3800, 7000)]);
    let empty = world.decide().commands.remove(0);
    assert_eq!((empty.method, going(std::slice::from_ref(&empty))), (Method::Emptiness, vec!["node-00000"]));
    // A dearer node is empty now too, and the budget allows only one.
    world.places[1].pods.clear();
    assert_eq!(going(&world.decide().commands), ["node-00001"]);
    let again = revalidate(&empty, &world.cluster(), later, &world.options).unwrap();
    assert_eq!(again.candidates, empty.candidates);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(0))];
    assert_eq!(revalidate(&empty, &world.cluster(), later, &world.options), None);

    let mut world = full(2, 2);
    let replaced = world.decide().commands.remove(0);
    assert_eq!((replaced.method, going(std::slice::from_ref(&replaced))), (Method::Drift, vec!["node-00000"]));
    // Another node is empty now, and empty nodes go first.
    world.on_demand("c9.large", Vec::new());
    assert_eq!(world.decide().commands[0].method, Method::Emptiness);
    let again = revalidate(&replaced, &world.cluster(), later, &world.options).unwrap();
    assert_eq!(again.candidates, replaced.candidates);
    world.pools[0].hash = "hash-1".into();
    assert_eq!(revalidate(&replaced, &world.cluster(), later, &world.options), None);
}

#[test]
fn drifted_nodes_that_were_too_much_to_look_at_come_first_next_time() {
    let mut world = full(6, 6);
    // Nothing can be launched, not even once a node has gone, so one after another is looked at in vain.
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(11))]);
    // Half of it is for drifted nodes.
    world.options.max_work = 6800;
    let decision = world.decide();
    assert!(decision.commands.is_empty());
    let unseen: Vec<&str> = decision.not_evaluated.iter().map(String::as_str).collect();
    assert_eq!(unseen, ["node-00003", "node-00004", "node-00005"]);
    assert!(world.kept(3).contains("the next decision evaluates it first"), "{}", world.kept(3));
    world.not_evaluated = decision.not_evaluated;
    let unseen: Vec<String> = world.decide().not_evaluated.into_iter().collect();
    assert_eq!(unseen, ["node-00000", "node-00001", "node-00002"]);
}
