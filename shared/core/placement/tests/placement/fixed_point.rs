//! Consolidation leaves newly provisioned nodes alone.

use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::*;
use nodeless_placement::{Policy, plan};
use nodeless_scheduling::{BoundPods, Problem, Solution, existing_node, solve};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const POLICIES: [ConsolidationPolicy; 3] =
    [ConsolidationPolicy::WhenEmptyOrUnderutilized, ConsolidationPolicy::Balanced, ConsolidationPolicy::WhenEmpty];

/// A pod as small numbers: its size, and what it asks for beside resources.
type PodSeed = (usize, usize);

fn make_pod(name: &str, seed: PodSeed) -> Pod {
    let app = ["web", "db", "cache", "queue"][seed.1 % 4];
    make_pod_of(app, name, seed)
}

/// A pod of an application, related to others of it.
fn make_pod_of(app: &str, name: &str, seed: PodSeed) -> Pod {
    let (size, special) = seed;
    let cpu = [50, 100, 250, 500, 1000, 1500, 2500, 3000][size % 8];
    let mut pod = pod(name, cpu, [64, 256, 512, 1024, 2048, 4096, 6144, 9000][size / 8 % 8]);
    pod.template_mut().labels.insert("app".into(), app.into());
    let selector = selector("app", app);
    let term = |key: &str| PodAffinityTerm {
        selector: Some(selector.clone()),
        topology_key: key.into(),
        ..PodAffinityTerm::default()
    };
    let spread = |key: &str, max_skew| TopologySpread { max_skew, ..topology_spread(key, selector.clone()) };
    match special / 4 {
        0 => pod.template_mut().required_pod_anti_affinity = vec![term(labels::HOSTNAME)],
        1 => pod.template_mut().topology_spread = vec![spread(labels::ZONE, 1)],
        2 => pod.template_mut().topology_spread = vec![spread(labels::HOSTNAME, 2)],
        3 => pod.template_mut().required_pod_affinity = vec![term(labels::ZONE)],
        4 => drop(pod.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[size % 3].into())),
        5 => drop(pod.template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "on-demand".into())),
        _ => {}
    }
    pod
}

/// The properties of NodePools: possible launches, budgets, limits, DaemonSets.
type PoolSeed = (usize, usize, usize, bool, bool);

fn make_world(seed: PoolSeed) -> TestCluster {
    let (kinds, budgets, limit, daemons, spot_to_spot) = seed;
    let mut pool = node_pool("default");
    if kinds % 3 > 0 {
        pool.template.requirements = Requirements::new();
    }
    pool.disruption.budgets = match budgets % 4 {
        0 => vec![budget(BudgetNodes::Count(2))],
        1 => vec![budget(BudgetNodes::Percent(10))],
        2 => vec![budget(BudgetNodes::Percent(30)), budget(BudgetNodes::Count(3))],
        _ => vec![budget(BudgetNodes::Percent(100))],
    };
    let limit = i64::try_from(limit).unwrap();
    match limit % 6 {
        0 => pool.limits = ResourceList::from([("cpu", Quantity::from_units(16 + limit))]),
        1 => pool.limits = ResourceList::from([("nodes", Quantity::from_units(3 + limit / 3))]),
        // Where spot is allowed too, a node may cost what on-demand costs until it is there, and then leaves more free capacity.
        2 if kinds % 3 == 0 => pool.limit_dollars_per_hour = Some(0.5 + limit as f64 / 30.0),
        _ => {}
    }
    let mut pools = vec![pool];
    if kinds / 3 % 3 == 0 {
        pools.push(NodePool { weight: 5, ..node_pool("other") });
        pools[1].limits = ResourceList::from([("cpu", Quantity::from_units(12))]);
    }
    let mut world = TestCluster::new(pools);
    world.options.spot_to_spot = spot_to_spot;
    if daemons {
        let template = Pod { owner_kind: None, ..pod("agent", 100, 200) };
        world.daemon_sets =
            vec![DaemonSet { namespace: "kube-system".into(), name: "agent".into(), template, ..DaemonSet::default() }];
    }
    world
}

fn pool_seeds() -> impl Strategy<Value = PoolSeed> {
    (0..9_usize, 0..4_usize, 0..60_usize, any::<bool>(), any::<bool>())
}

/// Pods that fit anywhere, that choose a zone or a capacity type, that keep away from others, are spread over them, or want to
/// be near them.
fn related_pod_seeds(most: usize) -> impl Strategy<Value = Vec<PodSeed>> {
    prop::collection::vec((0..64_usize, 0..64_usize), 1..most)
}

/// Workloads as Deployments are: pods of one size, which all ask for the same.
fn workload_seeds(most: usize) -> impl Strategy<Value = Vec<(PodSeed, usize)>> {
    prop::collection::vec(((0..64_usize, 0..40_usize), 1..12_usize), 1..most)
}

fn make_workloads(prefix: &str, seeds: &[(PodSeed, usize)]) -> Vec<Pod> {
    let pods = |(index, (seed, replicas)): (usize, &(PodSeed, usize))| {
        let (app, seed) = (format!("{prefix}-{index}"), *seed);
        (0..*replicas).map(move |replica| make_pod_of(&app, &format!("{app}-{replica}"), seed)).collect::<Vec<Pod>>()
    };
    seeds.iter().enumerate().flat_map(pods).collect()
}

fn make_pods(prefix: &str, seeds: &[PodSeed]) -> Vec<Pod> {
    seeds.iter().enumerate().map(|(index, seed)| make_pod(&format!("{prefix}-{index}"), *seed)).collect()
}

/// Plans for pods that wait, and lets the plan come true: each node is the cheapest that its launch may be.
fn provision(world: &mut TestCluster, pods: &[Pod]) -> Vec<String> {
    let cluster = world.cluster();
    let places = &world.places;
    let problem = Problem {
        pods: pods.iter().collect(),
        nodes: places
            .iter()
            .map(|place| {
                let pods: Vec<&Pod> = place.pods.iter().collect();
                existing_node(Some(&place.node), Some(&place.claim), &pods, &world.daemon_sets).unwrap()
            })
            .collect(),
        bound_pods: places.iter().map(|place| BoundPods::on(&place.node, place.pods.iter().collect())).collect(),
        node_pools: cluster.node_pools.clone(),
        daemon_sets: &world.daemon_sets,
        ..Problem::default()
    };
    let options = world.options.scheduling;
    let plain = solve(&problem, &options);
    let solution = plan(&problem, &Policy::new(&options, true));
    assert_eq!(nodeless_checker::violations(&problem, &solution, &options), Vec::<String>::new());
    assert_eq!(solution.unschedulable, plain.unschedulable);
    assert!(solution.price_per_hour() <= plain.price_per_hour() + 1e-9, "it became dearer");
    let names: Vec<String> = problem.nodes.iter().map(|node| node.name.clone()).collect();
    let Solution { launches, placements, .. } = solution;
    for to in placements {
        let place = world.places.iter_mut().find(|place| place.node.name == names[to.node]).unwrap();
        place.pods.push(Pod { node_name: Some(names[to.node].clone()), ..pods[to.pod].clone() });
    }
    let mut made = Vec::new();
    for launch in launches {
        let own = launch.pods.iter().map(|index| pods[*index].clone()).collect();
        let chosen = &launch.offering;
        let place = world.node(&launch.node_pool, &chosen.instance_type, chosen.capacity_type, &chosen.zone, own);
        place.claim.created = at(7100);
        place.claim.spec.nominated_pods = launch.pods.iter().map(|index| pods[*index].key()).collect();
        made.push(place.node.name.clone());
    }
    made
}

fn config(cases: u32) -> ProptestConfig {
    let given = |name| std::env::var_os(name).is_some();
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if !given("PROPTEST_CASES") {
        config.cases = cases;
    }
    if !given("PROPTEST_RNG_SEED") {
        config.rng_seed = RngSeed::Fixed(5);
    }
    config
}

/// The next decision under each policy.
fn decisions(world: &TestCluster) -> Vec<Decision> {
    let under = |policy| {
        let mut world = world.clone();
        world.pools.iter_mut().for_each(|pool| pool.disruption.consolidation_policy = policy);
        world.decide()
    };
    POLICIES.into_iter().map(under).collect()
}

proptest! {
    #![proptest_config(config(32))]

    /// The nodes that were planned for an empty cluster stay, whatever the policy, the budgets and the limits. Where pods depend
    /// on each other, later commands have to save a tenth of the price of the launches.
    #[test]
    fn provisioning_is_left_alone(seeds in related_pod_seeds(120), pools in pool_seeds()) {
        let mut world = make_world(pools);
        let _nodes = provision(&mut world, &make_pods("pod", &seeds));
        let related = seeds.iter().any(|(_, special)| special / 4 < 4);
        for command in decisions(&world).into_iter().flat_map(|decision| decision.commands) {
            let launched = |pool: &str| -> f64 {
                let own = world.places.iter().filter(|place| place.claim.is_of(pool));
                own.map(|place| place.claim.status.instance.as_ref().unwrap().price).sum()
            };
            let least = command.candidates.iter().map(|one| launched(&one.node_pool) / 10.0).fold(0.0, f64::max);
            prop_assert!(related && command.savings_per_hour > least - 1e-9, "{:#?}", command);
        }
    }

    /// Where pods are spread or want to be near others, plans are valid as well.
    #[test]
    fn related_pods_keep_what_they_require(
        first in related_pod_seeds(60),
        then in related_pod_seeds(60),
        pools in pool_seeds(),
    ) {
        let mut world = make_world(pools);
        for (prefix, seeds) in [("pod", first), ("later", then)] {
            let _nodes = provision(&mut world, &make_pods(prefix, &seeds));
        }
    }

    /// Pods that are created in a quiescent cluster get nodes that stay. Others may be removed because of the new capacity, and
    /// together with them a new node.
    #[test]
    fn new_nodes_are_left_alone(
        first in workload_seeds(20),
        then in workload_seeds(8),
        gone in 0..5_usize,
        pools in pool_seeds(),
    ) {
        let mut world = make_world(pools);
        let _nodes = provision(&mut world, &make_workloads("first", &first));
        for (index, place) in world.places.iter_mut().enumerate() {
            let mut number = index;
            place.pods.retain(|_| {
                number += 1;
                number % 5 >= gone
            });
        }
        for _ in 0..40 {
            let commands = world.decide().commands;
            if commands.is_empty() {
                break;
            }
            world.apply(&commands);
        }
        prop_assert_eq!(world.decide().commands, Vec::new());
        let made = provision(&mut world, &make_workloads("later", &then));
        for decision in decisions(&world) {
            let only_new = |command: &&Command| command.candidates.iter().all(|one| made.contains(&one.node));
            let early: Vec<&Command> = decision.commands.iter().filter(only_new).collect();
            prop_assert!(early.is_empty(), "{:#?}", early);
        }
    }
}
