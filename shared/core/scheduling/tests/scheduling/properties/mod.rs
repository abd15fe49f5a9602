//! Properties of every problem.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{
    BindingLimits, BindingNode, Bindings, BoundPods, ExistingNode, Launch, MinValuesPolicy, Options, Placement,
    Problem, Reason, Solution, Unschedulable, existing_node, solve,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The choices that make a pod, as small numbers.
type PodSeed = (usize, usize, usize, usize);

/// Gives a pod one of the apps, and perhaps constraints on where pods of some app are.
fn relate(pod: &mut Pod, kind: usize, group: usize) {
    let app = |number: usize| ["web", "db", "cache"][number % 3];
    pod.template_mut().labels.insert("app".into(), app(group).into());
    let key = [labels::ZONE, labels::HOSTNAME][group / 3 % 2];
    let itself = group + usize::from((group / 6).is_multiple_of(4));
    let selector = Some(selector("app", app(itself)));
    let near = nodeless_model::pod::PodAffinityTerm {
        selector: selector.clone(),
        topology_key: key.into(),
        ..Default::default()
    };
    let spread = |hard| nodeless_model::pod::TopologySpread {
        max_skew: 1 + i32::try_from(group / 24 % 2).unwrap(),
        topology_key: key.into(),
        hard,
        selector: selector.clone(),
        match_label_keys: Vec::new(),
        min_domains: (group / 48).is_multiple_of(4).then_some(3),
        honor_node_affinity: !group.is_multiple_of(5),
        honor_node_taints: (group / 48).is_multiple_of(2),
    };
    let weighted = |term| vec![nodeless_model::pod::Weighted { weight: 1, preference: term }];
    match kind % 12 {
        0 | 1 => pod.template_mut().topology_spread = vec![spread(true)],
        2 => pod.template_mut().required_pod_affinity = vec![near],
        3 => pod.template_mut().required_pod_anti_affinity = vec![near],
        4 => pod.template_mut().topology_spread = vec![spread(false)],
        5 => pod.template_mut().preferred_pod_affinity = weighted(near),
        6 => pod.template_mut().preferred_pod_anti_affinity = weighted(near),
        _ => {}
    }
}

/// A pod with constraints on where others are. Without `affine` it requires no label that a NodePool leaves open: whether
/// a new node then counts for its spread is known only once the node is there, and a plan has to suit either way.
fn make_related_pod(index: usize, seed: PodSeed, affine: bool) -> Pod {
    let place = if !affine && [1, 2, 3, 4].contains(&(seed.1 % 9)) { 5 } else { seed.1 };
    let mut pod = make_pod(index, (seed.0, place, 5, seed.3));
    relate(&mut pod, seed.2, seed.3);
    pod
}

/// Nodes with running pods.
fn make_running(index: usize, seed: PodSeed) -> (Node, Vec<Pod>) {
    let cpu_milli = 1000 * i64::try_from(seed.0 % 6).unwrap();
    let mut node = test_support::node(&format!("node-{index}"), cpu_milli, 8 * 1024);
    node.labels.insert(labels::ZONE.into(), ZONES[index % 3].into());
    node.allocatable.set("pods", Quantity::from_units(9));
    let pods = (0..seed.1 % 3).map(|number| {
        let mut pod = pod(format!("running-{index}-{number}"), 100, 100);
        relate(&mut pod, seed.2 + number, seed.3 + number);
        pod
    });
    let pods = pods.collect();
    (node, pods)
}

fn make_pod(index: usize, (size, place, extra, group): PodSeed) -> Pod {
    let cpu = [100, 250, 500, 1000, 1500, 6000, 70_000][size % 7];
    let memory = [100, 256, 512, 1024, 2048, 4096][(size / 7) % 6];
    let mut made = pod(format!("pod-{index:04}"), cpu, memory);
    match place % 9 {
        0 => drop(made.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[group % 3].into())),
        1 => drop(made.template_mut().node_selector.insert(labels::ARCH.into(), "arm64".into())),
        2 => drop(made.template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "spot".into())),
        3 => drop(made.template_mut().node_selector.insert("team".into(), ["a", "b", "c"][group % 3].into())),
        4 => {
            made.template_mut().required_node_affinity = vec![
                vec![
                    term(labels::INSTANCE_CPU, Operator::Gt, &["7"]),
                    term(labels::ZONE, Operator::NotIn, &[ZONES[0]]),
                ],
                vec![term(labels::INSTANCE_FAMILY, Operator::In, &["r9"])],
            ];
        }
        _ => {}
    }
    match extra % 8 {
        0 => made.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(1)),
        1 => {
            made.template_mut().tolerations = vec![Toleration {
                key: "team".into(),
                operator: taint::TolerationOperator::Exists,
                ..Toleration::default()
            }];
        }
        2 => {
            made.template_mut().host_ports =
                vec![nodeless_model::pod::HostPort { ip: String::new(), port: 80, protocol: "TCP".into() }];
        }
        3 => made.template_mut().priority = 100,
        4 => {
            made.template_mut().preferred_node_affinity = vec![nodeless_model::pod::Weighted {
                weight: 10,
                preference: vec![term(labels::ZONE, Operator::In, &[ZONES[group % 3]])],
            }];
        }
        _ => {}
    }
    made
}

/// The choices that make a NodePool.
type PoolSeed = (usize, usize, u32);

fn make_pool(index: usize, (kind, limit, weight): PoolSeed) -> NodePool {
    let mut pool = node_pool(&format!("pool-{index}"));
    pool.weight = i32::try_from(weight).unwrap();
    let requirements = &mut pool.template.requirements;
    match kind % 6 {
        0 => *requirements = Requirements::new(),
        1 => requirements.add(labels::ARCH, Requirement::one_of(["arm64"])),
        2 => requirements.add("team", Requirement::one_of(["a", "b"])),
        3 => requirements.add(labels::INSTANCE_FAMILY, Requirement::exists().with_min_values(Some(2))),
        4 => pool.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)],
        _ => {}
    }
    match limit % 6 {
        0 => pool.limits = ResourceList::new().with("cpu", Quantity::from_units(40)),
        1 => pool.limits = ResourceList::new().with("nodes", Quantity::from_units(2)),
        2 => pool.limit_dollars_per_hour = Some(1.0),
        3 => pool.limits = ResourceList::new().with("memory", gib(100)).with("cpu", Quantity::from_units(30)),
        4 => pool.template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]])),
        _ => {}
    }
    pool
}

fn make_node(index: usize, cpu: i64) -> ExistingNode {
    let mut node = Node { name: format!("node-{index}"), ..Node::default() };
    node.labels.insert(labels::ZONE.into(), ZONES[index % 3].into());
    node.labels.insert(labels::ARCH.into(), "amd64".into());
    node.allocatable = ResourceList::new()
        .with("cpu", Quantity::from_units(cpu))
        .with("memory", gib(8))
        .with("pods", Quantity::from_units(5));
    existing_node(Some(&node), None, &[], &[]).unwrap()
}

fn daemon_sets() -> Vec<DaemonSet> {
    let mut arm = pod("arm-agent", 50, 64);
    arm.template_mut().node_selector.insert(labels::ARCH.into(), "arm64".into());
    let set = |name: &str, template| DaemonSet {
        namespace: "kube-system".into(),
        name: name.into(),
        template,
        ..DaemonSet::default()
    };
    vec![set("agent", pod("agent", 100, 128)), set("arm-agent", arm)]
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) pods: Vec<Pod>,
    pools: Vec<NodePool>,
    nodes: Vec<ExistingNode>,
    running: Vec<(Node, Vec<Pod>)>,
    daemons: Vec<DaemonSet>,
    best_effort: bool,
}

impl World {
    pub(crate) fn problem(&self) -> Problem<'_> {
        let place = |(node, pods): &(Node, Vec<Pod>)| {
            existing_node(Some(node), None, &pods.iter().collect::<Vec<_>>(), &self.daemons).unwrap()
        };
        Problem {
            nodes: self.nodes.iter().cloned().chain(self.running.iter().map(place)).collect(),
            bound_pods: self.running.iter().map(|(node, pods)| BoundPods::on(node, pods.iter().collect())).collect(),
            daemon_sets: &self.daemons,
            ..problem(&self.pods, &self.pools)
        }
    }

    pub(crate) fn options(&self) -> Options {
        let min_values = if self.best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict };
        Options { min_values, ..Options::default() }
    }
}

pub(crate) fn worlds() -> impl Strategy<Value = World> {
    let small = 0..1000_usize;
    let pods = prop::collection::vec((small.clone(), small.clone(), small.clone(), small.clone()), 0..60);
    let pools = prop::collection::vec((small.clone(), small, 0..3_u32), 0..4);
    let nodes = prop::collection::vec(0..6_i64, 0..4);
    (pods, pools, nodes, any::<bool>(), any::<bool>()).prop_map(|(pods, pools, nodes, daemons, best_effort)| World {
        pods: pods.into_iter().enumerate().map(|(index, seed)| make_pod(index, seed)).collect(),
        pools: pools.into_iter().enumerate().map(|(index, seed)| make_pool(index, seed)).collect(),
        nodes: nodes.into_iter().enumerate().map(|(index, cpu)| make_node(index, cpu)).collect(),
        running: Vec::new(),
        daemons: if daemons { daemon_sets() } else { Vec::new() },
        best_effort,
    })
}

/// Worlds in which pods care about each other.
pub(crate) fn related_worlds(limits: bool, affine: bool) -> impl Strategy<Value = World> {
    let small = 0..1000_usize;
    let seed = || (small.clone(), small.clone(), small.clone(), small.clone());
    let pods = prop::collection::vec(seed(), 0..40);
    let running = prop::collection::vec(seed(), 0..5);
    let pools = prop::collection::vec((small.clone(), small.clone(), 0..3_u32), 1..4);
    (pods, pools, running, any::<bool>()).prop_map(move |(pods, pools, running, daemons)| World {
        pods: pods.into_iter().enumerate().map(|(index, seed)| make_related_pod(index, seed, affine)).collect(),
        pools: pools
            .into_iter()
            .enumerate()
            .map(|(index, (kind, limit, weight))| make_pool(index, (kind, if limits { limit } else { 5 }, weight)))
            .collect(),
        nodes: Vec::new(),
        running: running.into_iter().enumerate().map(|(index, seed)| make_running(index, seed)).collect(),
        daemons: if daemons { daemon_sets() } else { Vec::new() },
        best_effort: false,
    })
}

/// A solution with names for indices, so that it can be compared across orders of the input.
fn named(problem: &Problem<'_>, options: &Options) -> Vec<String> {
    let solution = solve(problem, options);
    let pod = |index: usize| problem.pods[index].name.clone();
    let mut lines: Vec<String> = Vec::new();
    for launch in &solution.launches {
        let mut pods: Vec<String> = launch.pods.iter().map(|index| pod(*index)).collect();
        pods.sort();
        let mut launch = launch.clone();
        launch.pods.clear();
        lines.push(format!("{pods:?} {launch:?}"));
    }
    lines.extend(solution.placements.iter().map(|p| format!("{} on {}", pod(p.pod), problem.nodes[p.node].name)));
    lines.extend(solution.unschedulable.iter().map(|u| format!("{} unschedulable {:?}", pod(u.pod), u.reasons)));
    lines.sort();
    lines
}

/// Packing is a heuristic, and one more instance type may change its result: a plan may then cost up to this factor, or one node
/// of that type, more.
const MAX_PRICE_RATIO: f64 = 2.0;

/// The node that comes of the cheapest of a launch.
fn become_node(index: usize, launch: &Launch) -> Node {
    let types = catalog();
    let kind = types.iter().find(|kind| kind.name == launch.offering.instance_type).unwrap();
    let mut node = Node { name: format!("launched-{index:03}"), allocatable: kind.allocatable(), ..Node::default() };
    let of_kind = launch.requirements.with(&kind.requirements);
    node.labels = of_kind.single_values();
    node.labels.insert(labels::HOSTNAME.into(), node.name.clone());
    node.labels.insert(labels::ZONE.into(), launch.offering.zone.clone());
    node.labels.insert(labels::CAPACITY_TYPE.into(), launch.offering.capacity_type.as_str().into());
    node.labels.insert(labels::REGISTERED.into(), "true".into());
    node.labels.insert(labels::INITIALIZED.into(), "true".into());
    node
}

/// The problem that is left when all that was planned has come about: what was left out waits still.
fn come_true<'a>(problem: &Problem<'a>, solution: &Solution, nodes: &'a [Node], world: &'a World) -> Problem<'a> {
    let mut again = problem.clone();
    again.pods = solution.unschedulable.iter().map(|pod| problem.pods[pod.pod]).collect();
    for placement in &solution.placements {
        let pod = problem.pods[placement.pod];
        let node = &mut again.nodes[placement.node];
        node.available.subtract(&pod.template.requests);
        node.host_ports.extend(pod.template.host_ports.iter().cloned());
        if let Some(bound) = again.bound_pods.iter_mut().find(|bound| bound.name == node.name) {
            bound.pods.push(pod);
        }
    }
    for (launch, node) in solution.launches.iter().zip(nodes) {
        let pods: Vec<&Pod> = launch.pods.iter().map(|pod| problem.pods[*pod]).collect();
        let offer = again.node_pools.iter_mut().find(|offer| offer.pool.name == launch.node_pool).unwrap();
        offer.usage.resources.add(&launch.charge.resources);
        offer.usage.dollars_per_hour += launch.charge.dollars_per_hour;
        let mut existing = existing_node(Some(node), None, &pods, &world.daemons).unwrap();
        existing.taints.clone_from(&offer.pool.template.taints);
        again.nodes.push(existing);
        again.bound_pods.push(BoundPods {
            name: &node.name,
            labels: &node.labels,
            taints: &offer.pool.template.taints,
            pods,
        });
    }
    again
}

/// Nodes with running pods, and a few small pods without regard to others.
fn running_worlds() -> impl Strategy<Value = World> {
    let small = 0..1000_usize;
    let seed = || (small.clone(), small.clone(), small.clone(), small.clone());
    (prop::collection::vec(seed(), 0..8), prop::collection::vec(seed(), 1..12)).prop_map(|(pods, running)| World {
        pods: pods
            .into_iter()
            .enumerate()
            .map(|(index, (size, place, extra, group))| make_pod(index, (size % 3, place, 1 + extra % 7, group)))
            .collect(),
        pools: Vec::new(),
        nodes: Vec::new(),
        running: running
            .into_iter()
            .enumerate()
            .map(|(index, (cpu, count, _, group))| make_running(index, (cpu, count, 7, group)))
            .collect(),
        daemons: Vec::new(),
        best_effort: false,
    })
}

/// The nodes of a problem for predictions.
fn nodes<'a>(problem: &Problem<'a>, world: &'a World) -> Bindings<'a> {
    let requests = problem.pods.iter().map(|pod| &pod.template.requests);
    let (resources, running) = (ResourceIndex::new(requests), problem.bound_pods.clone());
    let mut bindings =
        Bindings::new(resources, problem.facts, problem.pods.clone(), running).with_daemon_sets(problem.daemon_sets);
    for (node, (place, pods)) in problem.nodes.iter().zip(&world.running) {
        let allocatable = place.allocatable.clone();
        bindings.add(BindingNode { node: node.clone(), allocatable, pods: pods.iter().collect() });
    }
    bindings
}

/// Where the kube-scheduler is predicted to bind the pods of a problem.
fn predicted(problem: &Problem<'_>, world: &World, seed: u64) -> Vec<Option<usize>> {
    nodes(problem, world).bind(&problem.pods, [seed], BindingLimits::NONE).orders.remove(0)
}

fn as_solution(bound: &[Option<usize>]) -> Solution {
    let pods = || bound.iter().copied().enumerate();
    Solution {
        placements: pods().filter_map(|(pod, node)| Some(Placement { pod, node: node? })).collect(),
        unschedulable: pods()
            .filter(|(_, node)| node.is_none())
            .map(|(pod, _)| Unschedulable { pod, reasons: vec![Reason::NotExplained] })
            .collect(),
        ..Solution::default()
    }
}

/// Without PROPTEST_CASES and PROPTEST_RNG_SEED in the environment, the same cases each time.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let given = |name| std::env::var_os(name).is_some();
    let mut config = ProptestConfig { failure_persistence: None, max_shrink_iters: 4096, ..ProptestConfig::default() };
    if !given("PROPTEST_CASES") {
        config.cases = cases;
    }
    if !given("PROPTEST_RNG_SEED") {
        config.rng_seed = RngSeed::Fixed(20);
    }
    config
}

proptest! {
    // The seed is fixed: the checker looks for an order of placing greedily, and over some thousand cases it misses one now
    // and then; a test must not depend on luck.
    #![proptest_config(config(256))]

    #[test]
    fn every_solution_is_valid(world in worlds()) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn predicted_bindings_violate_no_filter(
        world in prop_oneof![related_worlds(true, true), running_worlds()],
        seed in any::<u64>(),
    ) {
        let problem = Problem { node_pools: Vec::new(), ..world.problem() };
        let bound = predicted(&problem, &world, seed);
        let solution = as_solution(&bound);
        let wrong = nodeless_checker::violations(&problem, &solution, &world.options());
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
        prop_assert_eq!(&bound, &predicted(&problem, &world, seed), "the same for the same seed");
    }

    #[test]
    fn pods_that_are_always_bound_are_bound_in_every_order(
        world in prop_oneof![related_worlds(true, true), running_worlds()],
        seeds in prop::array::uniform4(any::<u64>()),
    ) {
        let problem = Problem { node_pools: Vec::new(), ..world.problem() };
        if nodes(&problem, &world).always_bound(&problem.pods) {
            for seed in seeds {
                prop_assert!(predicted(&problem, &world, seed).iter().all(Option::is_some));
            }
        }
    }

    #[test]
    fn every_solution_keeps_topology_constraints(world in prop_oneof![related_worlds(true, true), related_worlds(false, true)]) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn limits_are_never_passed_whatever_is_used_already(world in worlds(), used in 0..50_i64) {
        let options = world.options();
        let mut problem = world.problem();
        for offer in &mut problem.node_pools {
            offer.usage.resources = ResourceList::new()
                .with("cpu", Quantity::from_units(used))
                .with("memory", gib(used))
                .with("nodes", Quantity::from_units(used % 3));
            offer.usage.dollars_per_hour = used as f64 / 40.0;
        }
        let solution = solve(&problem, &options);
        for offer in &problem.node_pools {
            let launches = || solution.launches.iter().filter(|launch| launch.node_pool == offer.pool.name);
            let mut total = offer.usage.resources.clone();
            launches().for_each(|launch| total.add(&launch.charge.resources));
            for (name, limit) in offer.pool.limits.iter().filter(|_| launches().next().is_some()) {
                prop_assert!(total.get(name) <= limit, "{name}: {} of {limit}", total.get(name));
            }
            let dollars: f64 = launches().map(|launch| launch.charge.dollars_per_hour).sum();
            let limit = offer.pool.limit_dollars_per_hour.filter(|_| dollars > 0.0).unwrap_or(f64::INFINITY);
            prop_assert!(offer.usage.dollars_per_hour + dollars <= limit + 1e-5);
        }
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn an_instance_type_more_never_costs_much(world in worlds(), which in 0..26_usize) {
        let mut world = world;
        for pool in &mut world.pools {
            pool.limits = ResourceList::new();
            pool.limit_dollars_per_hour = None;
        }
        let options = world.options();
        let more = world.problem();
        let mut fewer = world.problem();
        for offer in &mut fewer.node_pools {
            let kinds = offer.instance_types.iter().enumerate();
            offer.instance_types = kinds.filter(|(place, _)| *place != which).map(|(_, kind)| kind.clone()).collect();
        }
        let (with, without) = (solve(&more, &options), solve(&fewer, &options));
        if with.unschedulable.len() == without.unschedulable.len() {
            let (with, without) = (with.price_per_hour(), without.price_per_hour());
            let types = catalog();
            let one = types[which % types.len()].offerings.iter().map(|offering| offering.price).fold(0.0, f64::max);
            let most = (without * MAX_PRICE_RATIO).max(without + one);
            prop_assert!(with <= most + 1e-9, "{with} with the type, {without} without");
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(world in prop_oneof![worlds(), related_worlds(true, true)], turn in 0..60_usize) {
        let options = world.options();
        let mut turned = world.clone();
        let middle = turn.min(turned.pods.len());
        turned.pods.rotate_left(middle);
        turned.pools.reverse();
        turned.nodes.reverse();
        turned.running.reverse();
        turned.daemons.reverse();
        let mut problem = turned.problem();
        for offer in &mut problem.node_pools {
            offer.instance_types = offer.instance_types.iter().rev().cloned().collect();
        }
        prop_assert_eq!(named(&world.problem(), &options), named(&problem, &options));
    }
}

proptest! {
    // The checker evaluates every node that could be launched, which is slow. The property after a plan has an exception once in
    // some hundred worlds, which docs/scheduling-constraints.md describes.
    #![proptest_config(config(64))]

    #[test]
    fn nothing_changes_once_the_plan_has_come_true(world in prop_oneof![worlds(), related_worlds(true, false), related_worlds(false, false)]) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let nodes: Vec<Node> = solution.launches.iter().enumerate().map(|(index, one)| become_node(index, one)).collect();
        let again = come_true(&problem, &solution, &nodes, &world);
        let next = solve(&again, &options);
        let left_out: Vec<(&str, String)> =
            solution.unschedulable.iter().map(|pod| (&*problem.pods[pod.pod].name, pod.reasons[0].to_string())).collect();
        prop_assert!(next.launches.is_empty(), "{left_out:?} found a place: {next:#?}");
        // A pod that `minValues` or a limit refused a node of its own may fit on an existing node.
        let bounded = |pool: &NodePool| {
            let choosy = pool.template.requirements.iter().any(|(_, one)| one.min_values().is_some());
            choosy || !pool.limits.is_empty() || pool.limit_dollars_per_hour.is_some()
        };
        if !world.pools.iter().any(bounded) {
            prop_assert!(next.placements.is_empty(), "{left_out:?} found a place: {next:#?}");
            prop_assert_eq!(next.unschedulable.len(), solution.unschedulable.len());
        }
    }

    #[test]
    fn no_pod_is_left_out_that_fits_on_a_fresh_node(world in worlds()) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        for left_out in &solution.unschedulable {
            let pod = problem.pods[left_out.pod];
            let place = nodeless_checker::fresh_node(&problem, &solution, pod, &options);
            prop_assert!(place.is_none(), "{} fits on {place:?}: {:?}", pod.name, left_out.reasons);
        }
    }

    #[test]
    fn no_pod_is_left_out_that_topology_lets_onto_a_fresh_node(world in related_worlds(false, false)) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        for left_out in &solution.unschedulable {
            let pod = problem.pods[left_out.pod];
            let place = nodeless_checker::fresh_node(&problem, &solution, pod, &options);
            prop_assert!(place.is_none(), "{} fits on {place:?}: {:?}", pod.name, left_out.reasons);
        }
    }
}

#[test]
fn the_checker_finds_faults() {
    let pods = pods(4, 1000, 1024);
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let options = Options::default();
    let good = solve(&problem, &options);
    type Spoil = fn(&mut nodeless_scheduling::Solution);
    let faults: [(&str, Spoil); 7] = [
        ("occurs 0 times", |solution| {
            let _ = solution.launches[0].pods.pop();
        }),
        ("occurs 2 times", |solution| {
            let pods = solution.launches[0].pods.clone();
            solution.launches[0].pods.extend(pods);
        }),
        ("no NodePool", |solution| solution.launches[0].node_pool = "none".into()),
        ("not sorted", |solution| solution.launches[0].instance_types.reverse()),
        ("more than is charged", |solution| solution.launches[0].charge.resources.set("cpu", Quantity::from_units(1))),
        ("requested, ", |solution| {
            solution.launches[0].instance_types[0] =
                nodeless_scheduling::PricedType { name: "c9.large".into(), price: 0.08 };
        }),
        ("costs more than is charged", |solution| solution.launches[0].charge.dollars_per_hour = 0.0),
    ];
    for (expected, spoil) in faults {
        let mut bad = good.clone();
        spoil(&mut bad);
        let wrong = nodeless_checker::violations(&problem, &bad, &options).join("\n");
        assert!(wrong.contains(expected), "{expected}: {wrong}");
    }
    assert!(nodeless_checker::violations(&problem, &good, &options).is_empty());
}
