//! Commands wait that launch from a NodePool whose replacements did not become ready.

use crate::support::*;
use nodeless_disruption::*;

/// Two nodes that one cheaper node would replace.
fn replaceable() -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.4xlarge", vec![pod("a", 1300, 5 * 1024)]);
    world
}

#[test]
fn no_command_launches_while_replacements_do_not_become_ready() {
    let mut world = replaceable();
    let command = world.decide().commands.remove(0);
    assert_eq!(command.replacements.len(), 1);
    let until = now() + VALIDATION_DELAY * 80;
    let mut cluster = world.cluster();
    cluster.unready.insert("default".into(), until);
    let decision = decide(&cluster, now(), &world.options);
    assert!(decision.commands.is_empty());
    let why = decision.kept[0].reasons.first().unwrap();
    assert_eq!(
        why.to_string(),
        format!(
            "the replacements of an earlier command did not become ready; no command launches a node of NodePool default \
             until one of its nodes becomes ready, or until {until:.0}"
        )
    );
    assert_eq!(why.event(), Some(KeptEvent::DisruptionBlocked));
    // What was proposed before is not validated.
    let later = now() + VALIDATION_DELAY;
    assert_eq!(revalidate(&command, &cluster, later, &world.options), None);
    cluster.unready = [("other".to_owned(), until)].into();
    assert!(revalidate(&command, &cluster, later, &world.options).is_some());
    drop(cluster);
    world.pools[0].hash = "hash-2".into();
    let mut cluster = world.cluster();
    assert_eq!(decide(&cluster, now(), &world.options).commands[0].method, Method::Drift);
    cluster.unready.insert("default".into(), until);
    assert!(decide(&cluster, now(), &world.options).commands.is_empty(), "drift waits, too");
}

#[test]
fn nodes_are_removed_without_replacements_all_the_same() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("c9.large", vec![pod("a", 1000, 1024)]);
    world.on_demand("m9.xlarge", vec![pod("b", 2900, 13 * 1024)]);
    let mut cluster = world.cluster();
    cluster.unready.insert("default".into(), now() + VALIDATION_DELAY);
    assert_eq!(decide(&cluster, now(), &world.options).commands.len(), 1);
}
