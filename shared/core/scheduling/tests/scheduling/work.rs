//! The bound for the work of a plan.

use crate::claims::{claiming, devices_by_model, slice_of_models};
use crate::properties::{RandomProblem, config, related_worlds, worlds};
use crate::support::*;
use nodeless_model::test_support::node;
use nodeless_model::*;
use nodeless_scheduling::{
    BindingLimits, BindingNode, Bindings, ClusterFacts, Options, Problem, advise, existing_node, solve,
};
use proptest::prelude::*;

/// The numbers in a problem: pods, pending and running; nodes; instance types of all NodePools; devices.
struct Size {
    pods: u64,
    nodes: u64,
    types: u64,
    devices: u64,
}

impl Size {
    fn new(problem: &Problem<'_>) -> Self {
        let count = |count: usize| u64::try_from(count).unwrap();
        let running: usize = problem.bound_pods.iter().map(|node| node.pods.len()).sum();
        let devices = &problem.facts.devices.slices;
        Self {
            pods: count(problem.pods.len() + running),
            nodes: count(problem.nodes.len()),
            types: count(problem.node_pools.iter().map(|offer| offer.instance_types.len()).sum()),
            devices: count(devices.iter().map(|slice| slice.spec.devices.len()).sum()),
        }
    }

    /// The bound for the work of a plan without a limit: every pod may be compared with every node, with every instance type of every
    /// NodePool, and with every other pod, and may try every device.
    fn bound(&self) -> u64 {
        let Self { pods, nodes, types, devices } = self;
        self.linear() + pods * (PER_PAIR * (nodes + types + pods) + PER_DEVICE * devices)
    }

    /// The bound for what a plan does whatever its limit: reading the problem, preparing the NodePools, and listing the instance types of
    /// launches.
    fn linear(&self) -> u64 {
        PER_TYPE * self.types + PER_POD * self.pods + PER_NODE * self.nodes + PER_DEVICE * self.devices
    }
}

const PER_TYPE: u64 = 2_000;
const PER_POD: u64 = 5_000;
const PER_NODE: u64 = 400;
const PER_PAIR: u64 = 100;
const PER_DEVICE: u64 = 100;

/// Worlds of every shape: pods with and without constraints on each other, nodes, limits, taints, priorities, ports, DaemonSets.
fn shapes() -> impl Strategy<Value = RandomProblem> {
    prop_oneof![worlds(), related_worlds(true, true), related_worlds(false, true)]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn the_work_of_a_plan_is_bounded_by_pods_nodes_and_types(world in shapes(), limit in 0..200_000_u64) {
        let (problem, options) = (world.problem(), world.options());
        let size = Size::new(&problem);
        let solution = solve(&problem, &options);
        prop_assert!(solution.work <= size.bound(), "{} of {}", solution.work, size.bound());
        let limited = solve(&problem, &Options { max_work: Some(limit), ..options });
        let most = limit + limit / 4 + size.linear();
        prop_assert!(limited.work <= most, "{} of {most} with the limit {limit}", limited.work);
        let advised = advise(&problem, &solution, &solution.unschedulable, &options);
        prop_assert!(advised.work <= 10_000_000 + size.bound(), "{}", advised.work);
    }

    #[test]
    fn the_work_of_a_plan_with_claims_is_bounded(
        nodes in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..12), 0..12),
        templates in prop::collection::vec(prop::sample::select(vec!["one", "two", "a", "b", "all", "mig"]), 0..40),
    ) {
        let pools = [node_pool("default")];
        let name = |index: usize| format!("node-{index}");
        let mut devices = devices_by_model();
        devices.slices = nodes.iter().enumerate().map(|(index, models)| slice_of_models(&name(index), models)).collect();
        let pods: Vec<Pod> =
            templates.iter().enumerate().map(|(index, template)| claiming(&format!("p{index}"), template)).collect();
        let mut problem = problem(&pods, &pools);
        problem.facts = ClusterFacts { devices: &devices, ..problem.facts };
        problem.nodes = (0..nodes.len()).map(|index| crate::claims::existing(&name(index), "g9.12xlarge")).collect();
        let (work, size) = (solve(&problem, &Options::default()).work, Size::new(&problem));
        prop_assert!(work <= size.bound(), "{work} of {}", size.bound());
    }
}

#[test]
fn predictions_read_the_pods_once_for_nodes_that_come_and_go() {
    let pods: Vec<Pod> = (0..50).map(|number| pod(format!("p-{number:02}"), 1000, 4096)).collect();
    let queue: Vec<&Pod> = pods.iter().take(2).collect();
    let resources = ResourceIndex::new(pods.iter().map(|pod| &pod.template.requests));
    let mut bindings = Bindings::new(resources, ClusterFacts::default(), pods.iter().collect(), Vec::new());
    let add = |bindings: &mut Bindings<'_>, name: &str| {
        let new = node(name, 1000, 4096);
        let known = existing_node(Some(&new), None, &[], &[]).unwrap();
        bindings.add(BindingNode { node: known, allocatable: new.allocatable, pods: Vec::new() });
    };
    add(&mut bindings, "stays");
    bindings.prepare();
    let before = bindings.work();
    for _ in 0..5 {
        add(&mut bindings, "new");
        assert_eq!(bindings.bind(&queue, [0], BindingLimits::NONE).unbound(), None);
        bindings.truncate(1);
        assert_eq!(bindings.bind(&queue, [0], BindingLimits::NONE).unbound(), Some(1));
    }
    let work = bindings.work() - before;
    assert!(work < 100, "the pods are read again: {work}");
}
