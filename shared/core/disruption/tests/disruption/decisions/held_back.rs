//! Nodes whose like was removed in vain.

use super::*;
use nodeless_disruption::held_back::{HeldBack, Hold, NodeShape};

/// A hold on nodes of this shape until a minute from now, as long as they run these Deployments.
fn hold(instance_type: &str, capacity_type: CapacityType, deployments: &[&str]) -> BTreeMap<String, HeldBack> {
    let workload =
        |name: &&str| Workload { namespace: "default".into(), kind: "Deployment".into(), name: (*name).to_owned() };
    let hold = Hold {
        shape: NodeShape { instance_type: instance_type.into(), capacity_type },
        workloads: deployments.iter().map(workload).collect(),
        since: at(7140),
        until: at(7260),
    };
    BTreeMap::from([("default".to_owned(), HeldBack { removals: Vec::new(), holds: vec![hold] })])
}

/// Two nodes with a pod each, of the Deployments `web` and `api`; a node has the capacity for both.
fn two_nodes() -> World {
    World::new(2).with(|world| {
        for (index, name) in ["web", "api"].into_iter().enumerate() {
            let labels = StringMap::from([("pod-template-hash".into(), "1".into())]);
            let owner_name = Some(format!("{name}-1"));
            let mut running = Pod { node_name: Some(format!("node-{index}")), owner_name, ..pod(name) }
                .with_template(|it| it.labels = labels);
            running.template_mut().requests =
                resources(1).with("pods", Quantity::from_units(1)).with("memory", Quantity::from_mebibytes(64));
            world.nodes[index].2 = vec![running];
        }
    })
}

#[test]
fn a_node_whose_like_was_removed_in_vain_is_not_consolidated_for_a_time() {
    let world = two_nodes();
    let going = |held_back: &BTreeMap<String, HeldBack>, now: Timestamp| {
        let cluster = Cluster { held_back: held_back.clone(), ..world.cluster() };
        let decision = decide(&cluster, now, &options());
        let nodes: Vec<String> =
            decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.clone()).collect();
        (nodes.join(" "), decision)
    };
    let none = BTreeMap::new();
    let on_demand = CapacityType::OnDemand;
    let first = going(&none, now()).0;
    assert!(first == "node-0" || first == "node-1", "one of them goes: {first:?}");
    let both = hold("m9.large", on_demand, &["web"]);
    let held = going(&both, now());
    assert_eq!(held.0, "node-1", "the other one");
    let kept = held.1.kept.iter().find(|kept| kept.node == "node-0").unwrap();
    assert_eq!(
        kept.reasons[0].to_string(),
        "consolidation removed such a node, and another was launched for pods of Deployment default/web; nodes of this \
         instance type with these pods are not consolidated until 1970-01-01T02:01:00Z"
    );
    assert_eq!(kept.reasons[0].event(), Some(KeptEvent::Unconsolidatable));
    for other in [
        hold("m9.xlarge", on_demand, &["web"]),
        hold("m9.large", CapacityType::Spot, &["web"]),
        hold("m9.large", on_demand, &["web", "api"]),
    ] {
        assert_eq!(going(&other, now()).0, first, "{other:?}");
    }
    assert_eq!(going(&both, at(7260)).0, first, "the hold has ended");
    // An earlier decision is not executed either.
    let command = going(&none, now()).1.commands.remove(0);
    let deployment = if first == "node-0" { "web" } else { "api" };
    let cluster = Cluster { held_back: hold("m9.large", on_demand, &[deployment]), ..world.cluster() };
    assert!(revalidate(&command, &world.cluster(), at(7220), &options()).is_some());
    assert_eq!(revalidate(&command, &cluster, at(7220), &options()), None);
}

#[test]
fn empty_and_drifted_nodes_are_not_held_back() {
    let held = hold("m9.large", CapacityType::OnDemand, &["web"]);
    let mut world = two_nodes();
    world.nodes[0].1.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "old".into());
    let cluster = Cluster { held_back: held.clone(), ..world.cluster() };
    let decision = decide(&cluster, now(), &options());
    assert_eq!(
        (decision.commands[0].method, decision.commands[0].candidates[0].node.as_str()),
        (Method::Drift, "node-0")
    );
    let mut world = two_nodes();
    world.nodes[0].2[0].template_mut().annotations.insert(labels::POD_DELETION_COST.into(), "-134217728".into());
    let cluster = Cluster { held_back: held, ..world.cluster() };
    let decision = decide(&cluster, now(), &options());
    assert_eq!(
        (decision.commands[0].method, decision.commands[0].candidates[0].node.as_str()),
        (Method::Emptiness, "node-0")
    );
}
