//! Predictions for small clusters, with scores that were computed by hand or are upstream's.

use super::*;
use crate::existing::existing_node;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::requirement::{Operator, RequirementTerm};
use nodeless_model::test_support::{labelled, node, pod, selector, topology_spread};
use nodeless_model::{Node, Taint, labels};

fn within(mut node: Node, key: &str, value: &str) -> Node {
    node.labels.insert(key.into(), value.into());
    node
}

fn spread(topology_key: &str, hard: bool) -> TopologySpread {
    TopologySpread { hard, ..topology_spread(topology_key, selector("app", "web")) }
}

fn near(key: &str, value: &str, topology_key: &str) -> PodAffinityTerm {
    PodAffinityTerm { selector: Some(selector(key, value)), topology_key: topology_key.into(), ..Default::default() }
}

/// The nodes with their pods, for these pods to bind.
fn bindings<'a>(nodes: &'a [(Node, Vec<Pod>)], pods: &'a [Pod]) -> Bindings<'a> {
    let resources = ResourceIndex::new(pods.iter().map(|pod| &pod.template.requests));
    let running = nodes.iter().map(|(node, pods)| BoundPods::on(node, pods.iter().collect())).collect();
    let mut bindings = Bindings::new(resources, ClusterFacts::default(), pods.iter().collect(), running);
    for (node, running) in nodes {
        let running: Vec<&Pod> = running.iter().collect();
        let known = existing_node(Some(node), None, &running, &[]).unwrap();
        bindings.add(BindingNode { node: known, allocatable: node.allocatable.clone(), pods: running });
    }
    bindings
}

/// Where pods are bound in the order of a seed.
fn bound(nodes: &[(Node, Vec<Pod>)], pods: &[Pod], seed: u64) -> Vec<Option<usize>> {
    let queue: Vec<&Pod> = pods.iter().collect();
    bindings(nodes, pods).bind(&queue, [seed], BindingLimits::NONE).orders.remove(0)
}

/// The nodes of one pod for ten seeds.
fn choices(nodes: &[(Node, Vec<Pod>)], pod: &Pod) -> Vec<usize> {
    let mut found: Vec<usize> = (0..10).map(|seed| bound(nodes, std::slice::from_ref(pod), seed)[0].unwrap()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_pod_is_bound_where_most_is_free() {
    let nodes = [
        (node("a", 4000, 16_384), vec![pod("a-1", 2000, 8192)]),
        (node("b", 4000, 16_384), vec![pod("b-1", 1000, 4096)]),
    ];
    assert_eq!(choices(&nodes, &pod("p", 1000, 4096)), [1]);
    // By the scores of `least_allocated_test.go` and `balanced_allocation_test.go`: 57 + 82 and 45 + 95.
    let unequal = [
        (node("a", 10_000, 20_000), vec![pod("a-1", 3000, 0)]),
        (node("b", 10_000, 20_000), vec![pod("b-1", 3000, 5000)]),
    ];
    assert_eq!(choices(&unequal, &pod("p", 3000, 5000)), [1]);
}

#[test]
fn pods_that_fit_by_a_plan_may_not_fit_as_bound() {
    // The small pod fits beside the large one only on the first node, and is bound to the second.
    let nodes = [
        (node("a", 4000, 16_384), vec![pod("a-1", 3000, 12_288)]),
        (node("b", 4000, 16_384), vec![pod("b-1", 1000, 4096)]),
    ];
    let pods = [pod("p-small", 1000, 4096), pod("q-large", 3000, 12_288)];
    assert_eq!(bound(&nodes, &pods, 0), [Some(1), None]);
    let turned = [pod("p-large", 3000, 12_288), pod("q-small", 1000, 4096)];
    assert_eq!(bound(&nodes, &turned, 0), [Some(1), Some(0)]);
    let urgent = [pod("p-small", 1000, 4096), pod("q-large", 3000, 12_288).with_template(|it| it.priority = 1)];
    assert_eq!(bound(&nodes, &urgent, 0), [Some(0), Some(1)], "higher priority comes first");
    let queue: Vec<&Pod> = pods.iter().collect();
    let mut model = bindings(&nodes, &pods);
    assert!(!model.always_bound(&queue));
    let all = model.bind(&queue, 0..9, BindingLimits::NONE);
    assert_eq!((all.orders.len(), all.unbound(), all.out_of_work), (1, Some(1), false));
    let none = model.bind(&queue, 0..9, BindingLimits { max_work: 1, ..BindingLimits::NONE });
    assert!(none.out_of_work && none.orders.is_empty());
}

#[test]
fn a_seed_decides_between_equal_nodes() {
    let nodes = [(node("a", 4000, 16_384), Vec::new()), (node("b", 4000, 16_384), Vec::new())];
    assert_eq!(choices(&nodes, &pod("p", 1000, 4096)), [0, 1]);
    let pods = [pod("p", 1000, 4096), pod("q", 1000, 4096), pod("r", 1000, 4096)];
    for seed in 0..20 {
        assert_eq!(bound(&nodes, &pods, seed), bound(&nodes, &pods, seed));
    }
}

#[test]
fn filters_hold() {
    let mut tainted = node("a", 8000, 32_768);
    tainted.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    let nodes = [
        (tainted, Vec::new()),
        (within(node("b", 8000, 32_768), labels::ZONE, "z1"), vec![labelled(pod("b-1", 100, 0), "app", "web")]),
        (within(node("c", 4000, 16_384), labels::ZONE, "z2"), vec![pod("c-1", 2000, 8192)]),
    ];
    let plain = pod("p", 1000, 4096);
    assert_eq!(choices(&nodes, &plain), [1]);
    let mut selecting = plain.clone();
    selecting.template_mut().node_selector.insert(labels::ZONE.into(), "z2".into());
    assert_eq!(choices(&nodes, &selecting), [2]);
    let mut apart = plain.clone();
    apart.template_mut().required_pod_anti_affinity = vec![near("app", "web", labels::HOSTNAME)];
    assert_eq!(choices(&nodes, &apart), [2]);
    let mut balanced = labelled(plain.clone(), "app", "web");
    balanced.template_mut().topology_spread = vec![spread(labels::ZONE, true)];
    assert_eq!(choices(&nodes, &balanced), [2]);
    let pair = [Pod { name: "p-1".into(), ..apart }, Pod { name: "p-2".into(), ..balanced }];
    // The second counts for the first one's anti-affinity, and the first does not count for the spread.
    assert_eq!(bound(&nodes, &pair, 0), [Some(2), None]);
    let mut together = plain;
    together.template_mut().required_pod_affinity = vec![near("app", "web", labels::ZONE)];
    assert_eq!(choices(&nodes, &together), [1]);
    let mut alone = bindings(&nodes, std::slice::from_ref(&selecting));
    alone.close(2);
    assert_eq!(alone.bind(&[&selecting], [0], BindingLimits::NONE).unbound(), Some(0));
    alone.open(2);
    alone.place(2, &nodes[2].1[0]);
    assert_eq!(alone.bind(&[&selecting], [0], BindingLimits::NONE).unbound(), Some(0), "its capacity is used");
}

#[test]
fn counts_of_one_order_do_not_remain() {
    let zone = |name: &str, zone| (within(node(name, 8000, 32_768), labels::ZONE, zone), Vec::new());
    let nodes = [zone("a", "z1"), zone("b", "z2")];
    let mut web = labelled(pod("p", 1000, 4096), "app", "web");
    web.template_mut().topology_spread = vec![spread(labels::ZONE, true)];
    web.template_mut().required_pod_affinity = vec![near("app", "web", labels::HOSTNAME)];
    let pods = [web];
    let queue: Vec<&Pod> = pods.iter().collect();
    let found = bindings(&nodes, &pods).bind(&queue, 0..20, BindingLimits::NONE);
    assert_eq!((found.orders.len(), found.unbound()), (20, None), "each order begins without the others' pods");
}

/// Pods of a workload without constraints are spread over nodes by the default constraints.
#[test]
fn pods_of_a_workload_are_spread_by_default() {
    let replica =
        |name: &str, app| Pod { owner_kind: Some("ReplicaSet".into()), ..labelled(pod(name, 500, 2048), "app", app) };
    // Without them the first node would win: 62 of 100 are free, and of the second 50.
    let nodes = [
        (node("a", 4000, 16_384), vec![replica("a-1", "web"), replica("a-2", "web")]),
        (node("b", 4000, 16_384), vec![replica("b-1", "db"), replica("b-2", "db"), replica("b-3", "db")]),
    ];
    assert_eq!(choices(&nodes, &replica("p", "web")), [1]);
    assert_eq!(choices(&nodes, &replica("p", "cache")), [0]);
    let mut own = replica("p", "web");
    own.template_mut().topology_spread = vec![spread(labels::ZONE, false)];
    assert_eq!(choices(&nodes, &own), [0], "its own constraints replace the default ones, and no node has the label");
    let pods = [replica("p-1", "cache"), replica("p-2", "cache")];
    let found = bound(&nodes, &pods, 0);
    assert_eq!(found, [Some(0), Some(1)], "pods of the queue count too");
}

#[test]
fn preferred_spread_counts_zones() {
    let zone = |name: &str, zone, pods| (within(node(name, 4000, 16_384), labels::ZONE, zone), pods);
    let web = |name: &str| labelled(pod(name, 500, 2048), "app", "web");
    let nodes = [
        zone("a", "z1", Vec::new()),
        zone("b", "z1", vec![web("b-1"), web("b-2")]),
        zone("c", "z2", vec![pod("c-1", 500, 2048)]),
    ];
    let mut pod = web("p");
    pod.template_mut().topology_spread = vec![spread(labels::ZONE, false)];
    assert_eq!(choices(&nodes, &pod), [2]);
    pod.template_mut().topology_spread =
        vec![TopologySpread { selector: Some(selector("app", "db")), ..spread(labels::ZONE, false) }];
    assert_eq!(choices(&nodes, &pod), [0]);
}

/// The cases of `interpodaffinity/scoring_test.go`: both kinds of preferences, and those of running pods.
#[test]
fn preferences_for_other_pods_count_both_ways() {
    let weighted = |weight, term| vec![Weighted { weight, preference: term }];
    let mut friend = pod("friend", 100, 128);
    friend.template_mut().preferred_pod_affinity = weighted(8, near("security", "s1", "region"));
    let mut enemy = pod("enemy", 100, 128);
    enemy.template_mut().preferred_pod_anti_affinity = weighted(5, near("security", "s1", "az"));
    let mut mover = labelled(pod("p", 100, 128), "security", "s1");
    mover.template_mut().preferred_pod_affinity = weighted(8, near("security", "s1", "region"));
    mover.template_mut().preferred_pod_anti_affinity = weighted(5, near("security", "s2", "az"));
    let place =
        |name: &str, key: &str, value: &str, pod: Pod| (within(node(name, 4000, 16_384), key, value), vec![pod]);
    let nodes = [
        place("node1", "region", "China", labelled(pod("n1", 100, 128), "security", "s1")),
        place("node2", "az", "az1", labelled(pod("n2", 100, 128), "security", "s2")),
        place("node3", "region", "India", friend),
        place("node4", "az", "az2", enemy),
    ];
    let mut queue = bindings(&nodes, std::slice::from_ref(&mover));
    // Weights: 8, -5, 8, -5.
    assert_eq!(choices(&nodes, &mover), [0, 2]);
    queue.close(0);
    queue.close(2);
    let mut found: Vec<_> =
        (0..10).map(|seed| queue.bind(&[&mover], [seed], BindingLimits::NONE).orders[0][0]).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [Some(1), Some(3)], "pods of closed nodes do not count");
}

#[test]
fn taints_and_node_affinity_are_preferences() {
    let mut tainted = node("a", 8000, 32_768);
    tainted.taints = vec![Taint::new("team", TaintEffect::PreferNoSchedule)];
    let nodes = [(tainted, Vec::new()), (within(node("b", 2000, 8192), "disk", "ssd"), vec![pod("b-1", 500, 2048)])];
    let mut mover = pod("p", 500, 2048);
    assert_eq!(choices(&nodes, &mover), [1]);
    let open = [(node("a", 8000, 32_768), Vec::new()), nodes[1].clone()];
    assert_eq!(choices(&open, &mover), [0]);
    mover.template_mut().preferred_node_affinity = vec![Weighted {
        weight: 1,
        preference: vec![RequirementTerm {
            key: "disk".into(),
            operator: Operator::In,
            values: vec!["ssd".into()],
            min_values: None,
        }],
    }];
    assert_eq!(choices(&open, &mover), [1]);
}

#[test]
fn with_much_free_capacity_any_binding_works() {
    let empty = |name: &str| (node(name, 4000, 16_384), Vec::new());
    let pods: Vec<Pod> = (0..4).map(|number| pod(format!("p-{number}"), 1000, 4096)).collect();
    let queue: Vec<&Pod> = pods.iter().collect();
    let always = |nodes: &[(Node, Vec<Pod>)]| bindings(nodes, &pods).always_bound(&queue);
    assert!(always(&[empty("a")]), "one node has free capacity for all");
    let half = |name: &str| (node(name, 2000, 8192), Vec::new());
    assert!(always(&[half("a"), half("b")]), "three others cannot use up both");
    assert!(!always(&[half("a")]));
    let one = |name: &str| (node(name, 1000, 4096), Vec::new());
    assert!(always(&[one("a"), one("b"), one("c"), one("d")]), "each pod takes one");
    assert!(!always(&[one("a"), one("b"), one("c")]));
    let mut large = pods.clone();
    large[0] = pod("p-large", 2000, 8192);
    let queue: Vec<&Pod> = large.iter().collect();
    let nodes = [half("a"), half("b"), half("c")];
    assert!(
        !bindings(&nodes, &large).always_bound(&queue),
        "one small pod on each leaves too little for the large one"
    );
}

#[test]
fn workloads_that_no_term_concerns_take_no_work() {
    let preferring_apart = |pod: Pod, app: &str| {
        let preference = near("app", app, labels::HOSTNAME);
        let soft = TopologySpread { hard: false, ..topology_spread(labels::ZONE, selector("app", app)) };
        labelled(pod, "app", app).with_template(|it| {
            it.preferred_pod_anti_affinity = vec![Weighted { weight: 1, preference }];
            it.topology_spread = vec![soft];
        })
    };
    let mover = preferring_apart(pod("p", 100, 64), "web");
    let work = |others: usize| {
        let mut nodes = [(node("a", 4000, 16_384), Vec::new()), (node("b", 4000, 16_384), Vec::new())];
        nodes[1].1.push(preferring_apart(pod("web-1", 100, 64), "web"));
        for other in 0..others {
            let name = format!("other-{other}");
            nodes[other % 2].1.push(preferring_apart(pod(&name, 1, 1), &name));
        }
        let mut model = bindings(&nodes, std::slice::from_ref(&mover));
        let read = model.bind(&[&mover], 0..5, BindingLimits::NONE);
        assert!(read.orders.iter().all(|order| *order == [Some(0)]), "apart from its own: {read:?}");
        let before = model.work();
        assert_eq!(model.bind(&[&mover], 0..5, BindingLimits::NONE), read);
        model.work() - before
    };
    assert_eq!(work(10), work(100));
}

/// A pod of one of six workloads: plain, apart from its own, near another, and three kinds of spread.
fn of_workload(index: usize, choices: &mut order::Choices) -> Pod {
    let app = ["plain", "apart", "near", "zones", "hosts", "soft"][index % 6];
    let size = i64::try_from(1 + choices.below(4)).unwrap();
    let mut pod = labelled(pod(format!("{app}-{index:02}"), 250 * size, 1024 * size), "app", app);
    pod.owner_kind = Some("ReplicaSet".into());
    let own = |key: &str, hard| TopologySpread { hard, ..topology_spread(key, selector("app", app)) };
    let template = pod.template_mut();
    match app {
        "apart" => template.required_pod_anti_affinity.push(near("app", "apart", labels::HOSTNAME)),
        "near" => {
            template.preferred_pod_affinity.push(Weighted { weight: 7, preference: near("app", "soft", labels::ZONE) });
        }
        "zones" => template.topology_spread.push(own(labels::ZONE, true)),
        "hosts" => template.topology_spread.push(TopologySpread { max_skew: 2, ..own(labels::HOSTNAME, true) }),
        "soft" => template.topology_spread.push(own(labels::ZONE, false)),
        _ => {}
    }
    pod
}

/// What changes between predictions, in its order.
#[derive(Clone, Copy)]
enum Step<'a> {
    Add(&'a Node),
    Truncate(usize),
    Close(usize),
    Open(usize),
    Place(usize, &'a Pod),
    Move(&'a Pod, Option<&'a str>),
}

fn make<'a>(model: &mut Bindings<'a>, step: Step<'a>) {
    match step {
        Step::Add(node) => {
            let known = existing_node(Some(node), None, &[], &[]).unwrap();
            model.add(BindingNode { node: known, allocatable: node.allocatable.clone(), pods: Vec::new() });
        }
        Step::Truncate(count) => model.truncate(count),
        Step::Close(node) => model.close(node),
        Step::Open(node) => model.open(node),
        Step::Place(node, pod) => model.place(node, pod),
        Step::Move(pod, to) => model.move_running(pod, to),
    }
}

/// A prediction after others is the same as that of a model to which nothing else happened.
#[test]
fn what_is_known_from_earlier_predictions_changes_nothing() {
    for seed in 0..40 {
        let mut choices = order::Choices::new(seed);
        let zones = ["z1", "z2", "z3"];
        let mut nodes: Vec<(Node, Vec<Pod>)> = (0..9)
            .map(|index| (within(node(&format!("n{index}"), 4000, 16_384), labels::ZONE, zones[index % 3]), Vec::new()))
            .collect();
        for index in 0..36 {
            let pod = of_workload(index, &mut choices);
            let node = choices.below(9);
            nodes[node].1.push(pod);
        }
        // The last one is in a zone of its own.
        let more: Vec<Node> = ["z1", "z2", "z4"]
            .iter()
            .enumerate()
            .map(|(index, zone)| within(node(&format!("more{index}"), 4000, 16_384), labels::ZONE, zone))
            .collect();
        let pods: Vec<Pod> = nodes.iter().flat_map(|(_, pods)| pods.clone()).collect();
        let mut model = bindings(&nodes, &pods);
        let mut steps: Vec<Step<'_>> = Vec::new();
        for round in 0..12 {
            let count = 9 + steps.iter().filter(|step| matches!(step, Step::Add(_))).count();
            let node = choices.below(9);
            let step = match choices.below(6) {
                0 if count < 12 => Step::Add(&more[count - 9]),
                1 => Step::Place(node, &pods[choices.below(pods.len())]),
                2 => Step::Move(&pods[choices.below(pods.len())], None),
                3 => Step::Move(&pods[choices.below(pods.len())], Some(&nodes[node].0.name)),
                4 => Step::Open(node),
                _ => Step::Close(node),
            };
            make(&mut model, step);
            steps.push(step);
            let queue: Vec<&Pod> = nodes[node].1.iter().chain(&nodes[(node + 1) % 9].1).collect();
            let mut fresh = bindings(&nodes, &pods);
            steps.iter().for_each(|step| make(&mut fresh, *step));
            assert_eq!(model.always_bound(&queue), fresh.always_bound(&queue), "seed {seed}, round {round}");
            let expected = fresh.bind(&queue, 0..4, BindingLimits::NONE);
            assert_eq!(model.bind(&queue, 0..4, BindingLimits::NONE), expected, "seed {seed}, round {round}");
            // A command that is not accepted.
            if model.len() == 9 {
                let saved = model.save(node);
                make(&mut model, Step::Place(node, &pods[0]));
                make(&mut model, Step::Add(&more[2]));
                model.bind(&queue, 0..2, BindingLimits::NONE);
                make(&mut model, Step::Truncate(9));
                model.restore(saved);
                assert_eq!(model.bind(&queue, 0..4, BindingLimits::NONE), expected, "seed {seed}, round {round}");
            }
        }
    }
}
