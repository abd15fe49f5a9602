//! Consolidation: which nodes go for which others, and the words for those that stay.

mod binding;
mod buffers;
mod just_launched;
mod local_volumes;
mod merge;
mod min_savings;
mod paid;
mod preferences;
mod zone_balance;

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::*;
use std::time::Duration;

fn world() -> TestCluster {
    TestCluster::new(vec![node_pool("default")])
}

fn pods(name: &str, count: usize, cpu_milli: i64, memory_mib: i64) -> Vec<Pod> {
    (0..count).map(|index| pod(&format!("{name}-{index:03}"), cpu_milli, memory_mib)).collect()
}

fn names(command: &Command) -> Vec<&str> {
    command.candidates.iter().map(|candidate| candidate.node.as_str()).collect()
}

fn types(command: &Command) -> Vec<&str> {
    command.replacements.iter().map(|one| one.launch.offering.instance_type.as_str()).collect()
}

#[test]
fn a_node_whose_pods_fit_elsewhere_goes() {
    let mut world = world();
    world.on_demand("m9.large", pods("a", 1, 1000, 1024));
    // All pods together fit on no cheaper node.
    world.on_demand("m9.xlarge", pods("b", 2, 1000, 6 * 1024));
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!((command.method, command.reason), (Method::SingleNodeConsolidation, DisruptionReason::Underutilized));
    assert_eq!(names(command), ["node-00000"]);
    assert!(command.replacements.is_empty());
    assert!((command.savings_per_hour - 0.1).abs() < 1e-9);
    assert_eq!(command.evictions.len(), 1);
    assert_eq!(command.placements[0], PodPlacement { pod: "default/a-000".into(), node: "node-00001".into() });
    assert_eq!(decision.kept[0].reasons, [KeptReason::Receives(command.id.clone())]);
    let report = serde_json::to_value(command.report()).unwrap();
    assert_eq!(report["nodes"], serde_json::json!(["node-00000"]));
    assert_eq!((&report["method"], &report["evictions"]), (&"SingleNodeConsolidation".into(), &1.into()));
}

#[test]
fn a_node_that_is_too_large_is_replaced_by_a_cheaper_one() {
    let mut world = world();
    world.on_demand("m9.4xlarge", pods("a", 3, 1300, 5 * 1024));
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(types(command), ["m9.xlarge"]);
    assert!((command.savings_per_hour - 0.6).abs() < 1e-9);
    let launch = &command.replacements[0].launch;
    // Nothing that could come out as dear as what goes.
    assert!(launch.instance_types.iter().all(|kind| kind.price < 0.8), "{launch:#?}");
    assert!(launch.charge.dollars_per_hour < 0.8 && launch.instance_types.len() > 3);
    assert_eq!(command.replacements[0].pods.len(), 3);
    world.apply(&decision.commands);
    assert!(world.decide().commands.is_empty());
}

#[test]
fn a_pod_does_not_join_more_than_the_spread_of_another_allows() {
    let spread = TopologySpread {
        match_label_keys: vec!["version".into()],
        ..topology_spread(labels::HOSTNAME, selector("app", "web"))
    };
    let of = |name: &str, version: &str| labelled(labelled(pod(name, 500, 512), "app", "web"), "version", version);
    let decide = |mover: &str| {
        let mut world = world();
        world.on_demand("c9.large", vec![of("mover", mover)]);
        // The kube-scheduler would let the other in, which has no spread itself.
        world.on_demand(
            "c9.xlarge",
            vec![of("owner", "1").with_template(|it| it.topology_spread = vec![spread.clone()]), pod("x", 2500, 512)],
        );
        world.decide()
    };
    let decision = decide("1");
    assert_eq!(decision.commands, []);
    let (mover, owner) = ("default/mover".to_owned(), "default/owner".to_owned());
    let crowds = KeptReason::HostSpread { pod: mover, node: "node-00001".into(), owner };
    assert!(decision.kept[0].reasons.contains(&crowds), "{:#?}", decision.kept[0]);
    assert_eq!(names(&decide("2").commands[0]), ["node-00000"], "another version is not counted");
}

#[test]
fn one_node_is_replaced_by_two_smaller_ones() {
    let mut world = world();
    // 20 of 32 cpu: the next smaller has 16, and 4 are left.
    world.on_demand("c9.8xlarge", pods("a", 20, 1000, 2 * 1024));
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    let mut launched = types(command);
    launched.sort_unstable();
    assert_eq!(launched, ["c9.4xlarge", "c9.xlarge"]);
    assert!((command.savings_per_hour - 0.48).abs() < 1e-9);
}

#[test]
fn several_nodes_are_replaced_by_fewer() {
    let mut world = world();
    // Five nodes, each three fifths full of memory only: no pod fits elsewhere, and nothing smaller holds three.
    for name in ["a", "b", "c", "d", "e"] {
        world.on_demand("c9.2xlarge", pods(name, 3, 100, 5 * 1024));
    }
    let decision = world.decide();
    let before = world.price();
    let moved: usize = decision.commands.iter().map(|command| command.evictions.len()).sum();
    world.apply(&decision.commands);
    assert!(world.price() < before * 0.75, "{before} to {} with {decision:#?}", world.price());
    assert!(decision.commands.iter().any(|command| command.method == Method::MultiNodeConsolidation));
    assert!(moved <= 15);
    assert_eq!(world.pods(), 15);
}

#[test]
fn full_nodes_stay_and_report_why() {
    let mut world = world();
    world.options.explain = true;
    for name in ["a", "b"] {
        world.on_demand("m9.xlarge", pods(name, 4, 1000, 4 * 1024));
    }
    assert_eq!(
        world.kept(0),
        "pod default/a-000 fits on no other node: insufficient cpu on 1; it costs $0.2000/h, and its pods would cost at \
         least $0.1933/h anywhere else; it costs $0.2000/h, and for the pods that fit on no other node m9.xlarge would \
         cost $0.2000/h, which is no less"
    );
}

#[test]
fn pods_are_not_sent_where_they_may_not_run() {
    let mut picky = pod("picky", 500, 512);
    picky.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[1].into());
    let mut world = world();
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[1], vec![picky.clone()]);
    world.on_demand("c9.large", pods("a", 2, 500, 512));
    let command = world.decide().commands;
    assert_eq!(names(&command[0]), ["node-00001"], "the other node's pods go there, not the other way round");
    // Once there is a node in its zone it may go there.
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[1], pods("b", 2, 500, 512));
    let going: Vec<String> = world.decide().commands.iter().flat_map(|one| names(one)).map(str::to_owned).collect();
    assert!(going.contains(&"node-00000".to_owned()), "{going:?}");
}

#[test]
fn anti_affinity_is_evaluated_by_the_scheduler() {
    let apart = |name: &str| {
        let mut pod = labelled(pod(name, 500, 512), "app", "web");
        pod.template_mut().required_pod_anti_affinity = vec![PodAffinityTerm {
            selector: Some(LabelSelector::from_labels(pod.template.labels.clone())),
            topology_key: labels::HOSTNAME.into(),
            ..PodAffinityTerm::default()
        }];
        pod
    };
    let mut world = world();
    for name in ["a", "b", "c"] {
        world.on_demand("c9.large", vec![apart(name)]);
    }
    assert!(world.decide().commands.is_empty(), "each needs its own node: {:#?}", world.decide());
    world.on_demand("c9.large", pods("other", 1, 500, 512));
    let decision = world.decide();
    // A pod of one of the two kinds moves to the node of the other.
    assert_eq!(decision.commands.len(), 1, "{decision:#?}");
    world.apply(&decision.commands);
    assert!(world.decide().commands.is_empty());
    for place in &world.places {
        assert!(place.pods.iter().filter(|pod| pod.template.labels.contains_key("app")).count() <= 1);
    }
}

#[test]
fn a_pod_that_others_keep_away_is_not_sent_to_them() {
    let mut lonely = labelled(pod("lonely", 500, 512), "app", "lonely");
    lonely.template_mut().required_pod_anti_affinity = vec![PodAffinityTerm {
        selector: Some(selector("app", "noisy")),
        topology_key: labels::HOSTNAME.into(),
        ..PodAffinityTerm::default()
    }];
    let mut world = world();
    world.on_demand("c9.large", vec![lonely]);
    world.on_demand("c9.large", vec![labelled(pod("noisy", 500, 512), "app", "noisy")]);
    let decision = world.decide();
    assert!(decision.commands.is_empty(), "{decision:#?}");
    assert!(world.kept(1).contains("pod default/noisy"), "{}", world.kept(1));
}

#[test]
fn spread_holds_after_the_move() {
    let spread = |name: String| {
        let mut pod = labelled(pod(&name, 1000, 512), "app", "web");
        pod.template_mut().topology_spread = vec![topology_spread(labels::ZONE, selector("app", "web"))];
        pod
    };
    let mut world = world();
    for zone in ZONES {
        world.node("default", "c9.large", CapacityType::OnDemand, zone, vec![spread(format!("web-{zone}"))]);
    }
    // Each zone needs its pod, and nothing smaller exists.
    assert!(world.decide().commands.is_empty(), "{:#?}", world.decide());
}

#[test]
fn spot_is_replaced_by_spot_only_if_enabled_and_with_enough_types() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    let mut world = TestCluster::new(vec![pool]);
    world.node("default", "r9.16xlarge", CapacityType::Spot, ZONES[0], pods("a", 1, 1000, 512));
    assert_eq!(world.decide().commands.len(), 0);
    assert!(world.kept(0).ends_with("spot-to-spot consolidation is disabled, so no spot node replaces it"));
    world.options.spot_to_spot = true;
    let decision = world.decide();
    let launch = &decision.commands[0].replacements[0].launch;
    assert_eq!(launch.instance_types.len(), 15);
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE).unwrap().single(), Some("spot"));
    world.apply(&decision.commands);
    assert!(world.decide().commands.is_empty(), "no churn among the cheapest");
    // Too few are cheaper than a small one.
    let mut small = TestCluster::new(world.pools.clone());
    small.options.spot_to_spot = true;
    small.node("default", "m9.xlarge", CapacityType::Spot, ZONES[0], pods("a", 1, 1000, 512));
    assert!(
        small.kept(0).contains("spot-to-spot consolidation requires 15 cheaper instance types"),
        "{}",
        small.kept(0)
    );
}

#[test]
fn on_demand_is_replaced_by_spot_alone_where_both_are_allowed() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    let mut world = TestCluster::new(vec![pool]);
    world.on_demand("m9.large", pods("a", 1, 1900, 6 * 1024));
    let decision = world.decide();
    let launch = &decision.commands[0].replacements[0].launch;
    assert_eq!(launch.offering.capacity_type, CapacityType::Spot);
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE).unwrap().single(), Some("spot"));
    assert!(launch.charge.dollars_per_hour < 0.1);
}

#[test]
fn pods_move_to_a_cheaper_pool() {
    let mut cheap = node_pool("cheap");
    cheap.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]);
    cheap.weight = 10;
    let mut world = TestCluster::new(vec![node_pool("default"), cheap]);
    world.on_demand("m9.large", pods("a", 1, 1900, 6 * 1024));
    let decision = world.decide();
    assert_eq!(decision.commands[0].replacements[0].launch.node_pool, "cheap");
}

#[test]
fn limits_and_readiness_of_pools_hold_for_replacements() {
    let mut world = world();
    world.on_demand("m9.4xlarge", pods("a", 3, 1300, 5 * 1024));
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(18))]);
    assert!(world.decide().commands.is_empty(), "16 of 18 are used");
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(20))]);
    assert_eq!(types(&world.decide().commands[0]), ["m9.xlarge"]);
    world.pools[0].ready = Err("no".into());
    assert!(world.decide().commands.is_empty());
}

#[test]
fn budgets_hold_over_all_commands_of_a_decision() {
    let mut world = world();
    for index in 0..10 {
        world.on_demand("m9.4xlarge", pods(&format!("a{index}"), 15, 1000, 1024));
    }
    for index in 0..10 {
        world.on_demand("m9.large", pods(&format!("b{index}"), 1, 500, 512));
    }
    for (nodes, most) in [(BudgetNodes::Count(0), 0), (BudgetNodes::Count(3), 3), (BudgetNodes::Percent(10), 2)] {
        world.pools[0].disruption.budgets = vec![budget(nodes)];
        let going: usize = world.decide().commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!(going, most, "{nodes:?}");
    }
    world.pools[0].disruption.budgets =
        vec![Budget { reasons: vec![DisruptionReason::Underutilized], ..budget(BudgetNodes::Count(0)) }];
    assert!(world.kept(19).contains("allow 0 at once for Underutilized"), "{}", world.kept(19));
}

#[test]
fn nodes_inside_consolidate_after_neither_go_nor_receive() {
    let mut world = world();
    world.on_demand("c9.large", pods("a", 1, 1000, 1024));
    world.on_demand("c9.xlarge", pods("b", 3, 1000, 1024));
    world.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::from_secs(60));
    world.places[1].claim.status.last_pod_event = Some(at(7190));
    assert!(world.decide().commands.is_empty());
    assert!(world.kept(1).contains("less than consolidateAfter (1m) ago"));
    world.places[1].claim.status.last_pod_event = Some(at(7140));
    assert_eq!(world.decide().commands.len(), 1);
}

#[test]
fn capacity_is_reserved_for_moving_pods() {
    let mut world = world();
    world.on_demand("c9.large", pods("a", 1, 1000, 1024));
    world.on_demand("c9.xlarge", pods("b", 3, 1000, 1024));
    world.pending = pods("waiting", 1, 1000, 1024);
    let decision = world.decide();
    assert!(decision.commands.is_empty(), "{decision:#?}");
}

#[test]
fn balanced_weighs_the_saving_against_the_disruption() {
    let mut world = world();
    world.pools[0].disruption.consolidation_policy = ConsolidationPolicy::Balanced;
    // Nine full nodes of four pods, and one that a node of half the price could replace, moving as many pods.
    for index in 0..9 {
        let mut full = pods(&format!("full-{index}"), 3, 100, 1024);
        full.push(pod(&format!("large-{index}"), 3700, 11 * 1024));
        world.on_demand("m9.xlarge", full);
    }
    world.on_demand("m9.xlarge", pods("half", 4, 400, 3 * 512));
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(types(command), ["m9.large"]);
    assert!((command.score.unwrap() - 0.5).abs() < 1e-9, "{command:#?}");
    // With one pod more to move it is worth less than half.
    world.places[9].pods.push(pod("small", 1, 1));
    assert!(world.kept(9).contains("below 0.50"), "{}", world.kept(9));
    world.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    assert_eq!(world.decide().commands.len(), 1);
}

#[test]
fn a_command_is_validated_on_a_fresh_view() {
    let later = now() + SignedDuration::from_secs(15);
    let mut world = world();
    world.on_demand("m9.4xlarge", pods("a", 3, 1300, 5 * 1024));
    let command = world.decide().commands.remove(0);
    let again = |world: &TestCluster| revalidate(&command, &world.cluster(), later, &world.options);
    assert_eq!(again(&world).unwrap(), command);
    let mut grown = world.clone();
    grown.places[0].pods.extend(pods("b", 9, 1000, 3 * 1024));
    assert_eq!(again(&grown), None, "the replacement no longer holds its pods");
    let mut protected = world.clone();
    protected.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    assert_eq!(again(&protected), None);
    let mut paused = world.clone();
    paused.pools[0].options.set(labels::PAUSE, Some("true"));
    assert_eq!(again(&paused), None);
    let mut larger = world.clone();
    larger.on_demand("m9.xlarge", pods("c", 1, 100, 100));
    assert_eq!(again(&larger), None, "no replacement is needed any more");
    world.places.clear();
    assert_eq!(again(&world), None);
}

#[test]
fn what_is_too_much_work_is_reported_and_comes_first_next_time() {
    let mut world = world();
    for index in 0..60 {
        world.on_demand("m9.4xlarge", pods(&format!("a{index}"), 3, 1000, 20 * 1024));
    }
    let whole = world.decide();
    let going = |decision: &Decision| decision.commands.iter().map(|command| command.candidates.len()).sum::<usize>();
    // Enough for the first nodes.
    let decision = (6..20)
        .map(|power| {
            world.options.max_work = 1 << power;
            world.decide()
        })
        .find(|decision| going(decision) > 0)
        .expect("some limit is enough");
    assert!((1..60).contains(&going(&decision)) && going(&whole) == 60, "{decision:#?}");
    assert!(!decision.not_evaluated.is_empty());
    for name in &decision.not_evaluated {
        let kept = decision.kept.iter().find(|kept| kept.node == *name).unwrap();
        assert!(kept.reasons.contains(&KeptReason::NotEvaluated));
    }
    let seen: Vec<String> = decision.commands.iter().flat_map(names).map(str::to_owned).collect();
    world.not_evaluated = decision.not_evaluated;
    let next = world.decide();
    let first: Vec<String> = next.commands.iter().flat_map(names).map(str::to_owned).collect();
    assert!(first.iter().all(|name| !seen.contains(name)), "{first:?} after {seen:?}");
}
