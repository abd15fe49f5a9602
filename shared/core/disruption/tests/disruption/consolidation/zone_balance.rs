//! `nodeless.sh/balance-zones`: nodes with pods that are uneven over zones are replaced, within a cost, and consolidation keeps it.

use crate::support::preferences::soft_spread;
use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::pod::TopologySpread;
use nodeless_model::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

fn world(allowed: Option<&str>) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    if let Some(allowed) = allowed {
        world.pools[0].options.set(labels::BALANCE_ZONES, Some(allowed));
    }
    world
}

/// A pod of a cpu with a preferred spread over zones.
fn web(name: &str) -> Pod {
    let mut pod = labelled(pod(name, 1000, 1024), "app", "web");
    pod.template_mut().topology_spread = soft_spread(labels::ZONE, "web");
    pod
}

fn filler(name: &str) -> Pod {
    labelled(pod(name, 1000, 1024), "app", "other")
}

/// Four pods in one zone and one in each of the others, on full nodes: even, they need three nodes of $0.08 in place of one of $0.16.
fn uneven(allowed: Option<&str>) -> TestCluster {
    let mut world = world(allowed);
    let pods = ["a", "b", "c", "d"].map(web).to_vec();
    world.node("default", "c9.xlarge", CapacityType::OnDemand, ZONES[0], pods);
    for (zone, name) in [(1, "e"), (2, "f")] {
        let pods = vec![web(name), filler(&format!("with-{name}"))];
        world.node("default", "c9.large", CapacityType::OnDemand, ZONES[zone], pods);
    }
    world
}

/// The number of pods of the workload in each zone.
fn zones(world: &TestCluster) -> [i64; 3] {
    counts(world, |pod| pod.template.labels.get("app").is_some_and(|app| app == "web"))
}

fn counts(world: &TestCluster, counted: impl Fn(&Pod) -> bool) -> [i64; 3] {
    ZONES.map(|zone| {
        let here = world.places.iter().filter(|place| place.node.labels.get(labels::ZONE).is_some_and(|it| it == zone));
        i64::try_from(here.flat_map(|place| &place.pods).filter(|pod| counted(pod)).count()).unwrap()
    })
}

fn moved(world: &TestCluster) -> Option<Command> {
    let decision = world.decide();
    assert!(decision.commands.iter().all(|command| command.method == Method::ZoneBalance), "{decision:#?}");
    assert!(decision.commands.len() <= 1);
    decision.commands.into_iter().next()
}

/// Whether the first command of zone balance is valid later, and nothing follows it.
fn assert_lasts(world: &mut TestCluster, command: &Command) {
    let later = now() + SignedDuration::from_secs(15);
    let again = revalidate(command, &world.cluster(), later, &world.options).expect("it is still valid");
    assert_eq!((&again.candidates, &again.id), (&command.candidates, &command.id));
    world.apply(std::slice::from_ref(command));
    let after = world.decide();
    assert_eq!(after.commands, Vec::new(), "{:#?}", after.commands);
}

#[test]
fn an_uneven_workload_becomes_even_for_what_its_node_pool_allows() {
    assert_eq!(moved(&uneven(None)), None, "without the annotation");
    assert_eq!(moved(&uneven(Some("0.07"))), None);
    let mut world = uneven(Some("0.08"));
    let command = moved(&world).expect("it is worth $0.08");
    assert_eq!((command.reason, command.candidates.len()), (DisruptionReason::Unbalanced, 1));
    assert!((command.savings_per_hour + 0.08).abs() < 1e-9, "{command:#?}");
    let zones_of = command.zones.as_ref().unwrap().to_string();
    assert!(zones_of.ends_with("over zones: us-east-1a 4 to 2, us-east-1b 1 to 2, us-east-1c 1 to 2"), "{zones_of}");
    assert_lasts(&mut world, &command);
    assert_eq!(zones(&world), [2, 2, 2]);
}

#[test]
fn a_required_spread_is_balanced_too() {
    let mut world = uneven(Some("0.1"));
    for pod in world.places.iter_mut().flat_map(|place| &mut place.pods) {
        pod.template_mut().topology_spread.iter_mut().for_each(|spread| spread.hard = true);
    }
    let command = moved(&world).unwrap();
    assert_lasts(&mut world, &command);
    assert_eq!(zones(&world), [2, 2, 2]);
}

#[test]
fn a_node_that_stays_reports_the_cost() {
    let why = uneven(Some("0.05")).kept(0);
    let expected = "is uneven over zones, a move costs at least $0.0800/h more, and NodePool default allows $0.0500/h \
                    (nodeless.sh/balance-zones)";
    assert!(why.contains(expected), "{why}");
    assert!(!uneven(None).kept(0).contains("uneven"));
}

#[test]
fn a_move_onto_free_capacity_costs_nothing() {
    // Consolidation leaves nodes alone that stay in any case.
    let free = |allowed: &str| {
        let mut world = world(Some(allowed));
        let pods = ["a", "b", "c", "d"].map(web).to_vec();
        world.node("default", "c9.xlarge", CapacityType::OnDemand, ZONES[0], pods);
        world.pools[0].options.set(labels::MIN_SAVINGS, Some("1"));
        for (zone, name) in [(0, "with"), (1, "e"), (2, "f")] {
            let pods = if zone == 0 { vec![filler(name)] } else { vec![web(name)] };
            world.node("default", "c9.xlarge", CapacityType::OnDemand, ZONES[zone], pods);
        }
        world
    };
    let mut world = free("0");
    let command = moved(&world).unwrap();
    assert!(command.replacements.is_empty() && command.savings_per_hour > 0.0, "{command:#?}");
    assert_lasts(&mut world, &command);
    assert_eq!(zones(&world), [2, 2, 2]);
}

#[test]
fn a_zone_without_nodes_counts_where_the_node_pool_launches() {
    let mut world = world(Some("0.1"));
    for (zone, names) in [(0, ["a", "b", "c"]), (1, ["d", "e", "f"])] {
        let pods = names.map(web).into_iter().chain([filler(&format!("with-{zone}"))]).collect();
        world.node("default", "c9.xlarge", CapacityType::OnDemand, ZONES[zone], pods);
    }
    let command = moved(&world).unwrap();
    world.apply(std::slice::from_ref(&command));
    assert!(zones(&world)[2] > 0, "{:?}", zones(&world));
    let mut only = self::world(Some("0.1"));
    only.places = world.places.clone();
    only.pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
    only.places.retain(|place| place.node.labels[labels::ZONE] != ZONES[2]);
    assert_eq!(moved(&only), None, "no node can be launched there");
}

#[test]
fn what_keeps_a_node_from_consolidation_keeps_it_here() {
    type Change = fn(&mut TestCluster);
    let cases: [(&str, Change); 5] = [
        ("do-not-disrupt", |world| {
            world.places[0].node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
        }),
        ("do-not-disrupt", |world| {
            world.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
        }),
        ("consolidateAfter", |world| {
            world.pools[0].disruption.consolidate_after = NillableDuration::After(std::time::Duration::from_secs(3600));
            world.places[0].claim.status.last_pod_event = Some(now());
        }),
        ("consolidateAfter is Never", |world| world.pools[0].disruption.consolidate_after = NillableDuration::Never),
        ("WhenEmpty", |world| world.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmpty),
    ];
    for (expected, change) in cases {
        let mut world = uneven(Some("1"));
        change(&mut world);
        assert_eq!(moved(&world), None, "{expected}");
        assert!(world.kept(0).contains(expected), "{}", world.kept(0));
    }
}

#[test]
fn budgets_without_reasons_apply() {
    let decide = |reasons: Vec<DisruptionReason>| {
        let mut world = uneven(Some("1"));
        world.pools[0].disruption.budgets = vec![Budget { reasons, ..budget(BudgetNodes::Count(0)) }];
        if moved(&world).is_some() { None } else { Some(world.kept(0)) }
    };
    assert_eq!(decide(vec![DisruptionReason::Drifted]), None);
    let why = decide(Vec::new()).expect("it stays");
    assert!(why.contains("allow 0 at once for Unbalanced"), "{why}");
}

#[test]
fn nothing_is_balanced_while_pods_of_the_workload_wait() {
    let mut world = uneven(Some("1"));
    let waiting = |pod: Pod| Pod { phase: pod::PodPhase::Pending, node_name: None, ..pod };
    world.pending = vec![waiting(labelled(pod("huge", 999_000, 1024), "app", "other"))];
    assert!(moved(&world).is_some());
    world.pending =
        vec![waiting(web("huge")).with_template(|it| it.requests = world.pending[0].template.requests.clone())];
    assert_eq!(moved(&world), None);
}

#[test]
fn nothing_is_balanced_during_a_zonal_shift_or_beside_another_command() {
    let world = uneven(Some("1"));
    let mut cluster = world.cluster();
    cluster.shifted_zones.insert(ZONES[2].into(), at(9000));
    assert_eq!(decide(&cluster, now(), &world.options).commands, Vec::new());
    let command = moved(&world).unwrap();
    let mut other = uneven(Some("1"));
    let pods = ["g", "h", "i", "j"].map(web).to_vec();
    other.node("default", "c9.xlarge", CapacityType::OnDemand, ZONES[0], pods);
    let during = other.cluster_during([&command].into_iter());
    assert_eq!(decide(&during, now(), &other.options).commands, Vec::new());
}

#[test]
fn each_revision_is_counted_by_itself() {
    let revision = |mut pod: Pod, hash: &str| {
        pod.template_mut().labels.insert("pod-template-hash".into(), hash.into());
        pod.template_mut().topology_spread[0].match_label_keys = vec!["pod-template-hash".into()];
        pod
    };
    let mut world = uneven(Some("1"));
    for place in &mut world.places {
        let spread = place.pods.iter_mut().filter(|pod| !pod.template.topology_spread.is_empty());
        for (number, pod) in spread.enumerate() {
            // One of each revision in the first zone, which its spread allows.
            *pod = revision(pod.clone(), &number.to_string());
        }
    }
    assert_eq!(moved(&world), None);
}

#[test]
fn min_domains_count_as_in_plans() {
    let mut world = world(Some("1"));
    let domains = |mut pod: Pod, least| {
        pod.template_mut().topology_spread[0].min_domains = Some(least);
        pod
    };
    let pods = ["a", "b"].map(|name| domains(web(name), 4)).to_vec();
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], pods);
    let pods = ["c", "d"].map(|name| domains(web(name), 4)).to_vec();
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[1], pods);
    let pods = ["e", "f"].map(|name| domains(web(name), 4)).to_vec();
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[2], pods);
    // Three zones are fewer than four, so the least is none, and no move helps.
    assert_eq!(moved(&world), None);
    assert!(!world.kept(0).is_empty());
}

#[test]
fn consolidation_does_not_make_an_uneven_spread_worse() {
    // Four, four and two: a pod of the first zone fits on the node of the second, and not elsewhere.
    let decide = |allowed: Option<&str>| {
        let mut world = world(allowed);
        // Zone balance can launch nothing in the zone with the fewest pods.
        world.pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
        let all = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(web);
        world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], all[..1].to_vec());
        world.node("default", "m9.xlarge", CapacityType::OnDemand, ZONES[0], all[1..4].to_vec());
        world.node("default", "r9.2xlarge", CapacityType::OnDemand, ZONES[1], all[4..8].to_vec());
        world.node("default", "c9.large", CapacityType::OnDemand, ZONES[2], all[8..].to_vec());
        for place in &mut world.places[1..] {
            place.node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
        }
        // The other node of the zone is full.
        let mut large = filler("large");
        large.template_mut().requests = ResourceList::from([("cpu", Quantity::from_units(1)), ("memory", gib(1))]);
        world.places[1].pods.push(large);
        world
    };
    let before = zones(&decide(None));
    assert_eq!(before, [4, 4, 2]);
    let removed = decide(None).decide();
    assert_eq!(removed.commands.len(), 1, "{removed:#?}");
    let kept = decide(Some("0"));
    assert_eq!(kept.decide().commands, Vec::new());
    assert!(kept.kept(0).contains("would be less even over zones"), "{}", kept.kept(0));
}

#[test]
fn an_invalid_amount_balances_nothing() {
    assert_eq!(moved(&uneven(Some("much"))), None);
}

/// The pods above the spread of each workload over the three zones, and how far the fullest zone is above it.
fn imbalances(world: &TestCluster) -> BTreeMap<String, (i64, i64)> {
    let mut all: BTreeMap<String, &TopologySpread> = BTreeMap::new();
    for pod in world.places.iter().flat_map(|place| &place.pods) {
        if let (Some(app), Some(spread)) = (pod.template.labels.get("app"), pod.template.topology_spread.first()) {
            all.insert(app.clone(), spread);
        }
    }
    let of = |(app, spread): (String, &TopologySpread)| {
        let counts = counts(world, |pod| pod.template.labels.get("app") == Some(&app));
        let least = counts.into_iter().min().unwrap();
        let above = counts.map(|count| (count - least - i64::from(spread.max_skew)).max(0));
        (app, (above.into_iter().sum(), above.into_iter().max().unwrap()))
    };
    all.into_iter().map(of).collect()
}

/// A node as small numbers: its type, its zone, and the size and workload of each of its pods.
type NodeSeed = (usize, usize, Vec<(usize, usize)>);

fn random(nodes: &[NodeSeed], allowed: usize) -> TestCluster {
    const KINDS: [&str; 5] = ["c9.large", "c9.xlarge", "m9.large", "m9.xlarge", "m9.2xlarge"];
    let mut world = world(Some(["0", "0.05", "0.1", "1"][allowed]));
    let mut other = NodePool { weight: 5, ..node_pool("other") };
    other.disruption.consolidation_policy = ConsolidationPolicy::Balanced;
    world.pools.push(other);
    for (index, (kind, zone, pods)) in nodes.iter().enumerate() {
        let mut left = world.types.iter().find(|one| one.name == KINDS[*kind]).unwrap().allocatable();
        let mut here = Vec::new();
        for (number, (size, app)) in pods.iter().enumerate() {
            let mut pod = pod(&format!("pod-{index}-{number}"), [250, 500, 1000, 1900][*size], 512);
            if *app < 4 {
                pod = labelled(pod, "app", &format!("app-{app}"));
                pod.template_mut().topology_spread = soft_spread(labels::ZONE, &format!("app-{app}"));
                pod.template_mut().topology_spread[0].max_skew = if *app == 3 { 2 } else { 1 };
                pod.template_mut().topology_spread[0].hard = *app == 2;
            }
            if pod.template.requests.fits(&left) {
                left.subtract(&pod.template.requests);
                here.push(pod);
            }
        }
        let pool = if index % 4 == 3 { "other" } else { "default" };
        world.node(pool, KINDS[*kind], CapacityType::OnDemand, ZONES[*zone], here);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// No command makes a spread less even, zone balance makes it more even for what the NodePool allows, and it ends.
    #[test]
    fn balance_and_consolidation_come_to_rest(
        nodes in prop::collection::vec((0..5_usize, 0..3_usize, prop::collection::vec((0..4_usize, 0..6_usize), 0..7)), 1..12),
        allowed in 0..4_usize,
    ) {
        let mut world = random(&nodes, allowed);
        let pods = world.pods();
        let max_cost = [0.0, 0.05, 0.1, 1.0][allowed];
        let mut rounds = 0;
        loop {
            let decision = world.decide();
            if decision.commands.is_empty() {
                break;
            }
            let (before, price) = (imbalances(&world), world.price());
            world.apply(&decision.commands);
            let after = imbalances(&world);
            for (app, after) in &after {
                let before = before[app];
                prop_assert!(after.0 <= before.0 && after.1 <= before.1, "{} {:?} {:?}: {:#?}", app, before, after, decision.commands);
            }
            if decision.commands[0].method == Method::ZoneBalance {
                let sum = |all: &BTreeMap<String, (i64, i64)>| all.values().map(|one| one.0).sum::<i64>();
                prop_assert!(decision.commands.len() == 1 && sum(&after) < sum(&before), "{:#?}", decision.commands);
                prop_assert!(world.price() <= price + max_cost + 1e-9, "{:#?}", decision.commands);
            }
            prop_assert_eq!(world.pods(), pods);
            rounds += 1;
            prop_assert!(rounds < 60, "no end");
        }
    }
}

/// A small generator of numbers, so that the clusters are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// What is left of random clusters once they are quiescent: pods above their spread, dollars per hour, commands of zone balance, and evictions of these and
/// of all commands.
fn at_rest(clusters: u64, allowed: Option<usize>) -> [f64; 5] {
    let mut sums = [0.0; 5];
    for seed in 0..clusters {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = 4 + numbers.below(8);
        let mut node = || {
            let pods = 1 + numbers.below(6);
            let head = (numbers.below(5), numbers.below(3));
            (head.0, head.1, (0..pods).map(|_| (numbers.below(4), numbers.below(6))).collect())
        };
        let nodes: Vec<NodeSeed> = (0..count).map(|_| node()).collect();
        let mut world = random(&nodes, allowed.unwrap_or(0));
        if allowed.is_none() {
            world.pools[0].options = NodePoolOptions::default();
        }
        for _ in 0..60 {
            let decision = world.decide();
            if decision.commands.is_empty() {
                break;
            }
            let evictions: usize = decision.commands.iter().map(|command| command.evictions.len()).sum();
            sums[4] += evictions as f64;
            if decision.commands[0].method == Method::ZoneBalance {
                sums[2] += 1.0;
                sums[3] += evictions as f64;
            }
            world.apply(&decision.commands);
        }
        sums[0] += imbalances(&world).values().map(|one| one.0 as f64).sum::<f64>();
        sums[1] += world.price();
    }
    sums
}

/// The more a move may cost, the fewer pods are above their spread. With `--nocapture` it prints the figures of
/// docs/benchmarks/disruption.md, which are of 300 clusters (`NODELESS_CLUSTERS=300`).
#[test]
fn random_clusters_are_more_even_at_rest() {
    let clusters = std::env::var("NODELESS_CLUSTERS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let all = [None, Some(0), Some(1), Some(2), Some(3)].map(|allowed| at_rest(clusters, allowed));
    for [above, dollars, commands, evictions, evicted] in all {
        println!(
            "{above} above, ${dollars:.2}/h, {commands} commands with {evictions} evictions, {evicted} evictions in all"
        );
    }
    assert!(all[3][0] < all[0][0] && all[4][0] <= all[1][0], "{all:?}");
}
