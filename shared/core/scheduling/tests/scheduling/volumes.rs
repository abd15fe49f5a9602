//! The number of volumes that new nodes attach.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, ClusterFacts, ExistingNode, Options, Problem, explain_launch, solve};
use std::collections::BTreeMap;

/// As nodes of types whose limit is shared with network interfaces, and of those with a dedicated limit.
const SHARED: u32 = 25;
const DEDICATED: u32 = 31;

fn mounting(name: impl Into<String>, claims: &[&str]) -> Pod {
    let claim = |claim: &&str| pod::VolumeClaim { claim_name: (*claim).to_owned(), ephemeral: false };
    pod(name, 50, 64).with_template(|it| it.volume_claims = claims.iter().map(claim).collect())
}

/// Pods with a volume each.
fn stateful(count: usize) -> Vec<Pod> {
    (0..count).map(|index| mounting(format!("db-{index:02}"), &[&format!("data-{index:02}")])).collect()
}

/// The types of other tests, of which those of m9g have a dedicated limit.
fn limited() -> InstanceTypes {
    let limit = |kind: &InstanceType| if kind.name.starts_with("m9g.") { DEDICATED } else { SHARED };
    catalog().iter().map(|kind| InstanceType { ebs_volumes: Some(limit(kind)), ..kind.clone() }).collect()
}

/// What a problem refers to.
#[derive(Default)]
struct World {
    volumes: BTreeMap<String, Vec<Requirements>>,
    drivers: BTreeMap<String, String>,
    limits: BTreeMap<String, BTreeMap<String, u32>>,
}

impl World {
    fn new(pods: &[Pod], driver: &str) -> Self {
        let claims = pods
            .iter()
            .flat_map(|pod| &pod.template.volume_claims)
            .map(|claim| format!("default/{}", claim.claim_name));
        let claims: Vec<String> = claims.collect();
        Self {
            volumes: claims.iter().map(|claim| (claim.clone(), Vec::new())).collect(),
            drivers: claims.iter().map(|claim| (claim.clone(), driver.to_owned())).collect(),
            limits: BTreeMap::new(),
        }
    }

    fn problem<'a>(&'a self, pods: &'a [Pod], pools: &'a [NodePool], types: &InstanceTypes) -> Problem<'a> {
        let mut made = Problem {
            facts: ClusterFacts {
                volumes: &self.volumes,
                volume_drivers: &self.drivers,
                volume_limits: &self.limits,
                ..ClusterFacts::default()
            },
            ..problem(pods, pools)
        };
        made.node_pools.iter_mut().for_each(|offer| offer.instance_types = types.clone());
        made
    }
}

fn numbers_of_pods(solution: &nodeless_scheduling::Solution) -> Vec<usize> {
    solution.launches.iter().map(|launch| launch.pods.len()).collect()
}

#[test]
fn pods_with_a_volume_each_are_divided_by_the_limits_of_the_nodes() {
    let (pods, pools) = (stateful(60), [node_pool("default")]);
    let world = World::new(&pods, EBS_DRIVER);
    let solution = solve_checked(&world.problem(&pods, &pools, &limited()));
    let planned = numbers_of_pods(&solution);
    assert!(solution.unschedulable.is_empty());
    assert_eq!(planned.iter().sum::<usize>(), 60);
    assert!(planned.len() <= 3 && planned.iter().all(|pods| *pods <= DEDICATED as usize), "{planned:?}");
    for (world, types) in
        [(World::new(&pods, EBS_DRIVER), catalog()), (World::new(&pods, "efs.csi.aws.com"), limited())]
    {
        let unlimited = solve_checked(&world.problem(&pods, &pools, &types));
        assert_eq!(numbers_of_pods(&unlimited), [60], "there is no limit");
    }
}

#[test]
fn a_type_that_attaches_more_volumes_takes_more_pods() {
    let claims: Vec<String> = (0..28).map(|claim| format!("data-{claim}")).collect();
    let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
    let (pods, pools) = ([mounting("db", &claims)], [node_pool("default")]);
    let world = World::new(&pods, EBS_DRIVER);
    let problem = world.problem(&pods, &pools, &limited());
    let solution = solve_checked(&problem);
    assert!(solution.launches[0].instance_types.iter().all(|kind| kind.name.starts_with("m9g.")), "{solution:?}");
    assert!(solution.launches[0].requests.iter().all(|(name, _)| ["cpu", "memory", "pods"].contains(&name)));
    let mut dear = problem.clone();
    let all = limited();
    let types = all.iter().map(|kind| {
        let mut kind = kind.clone();
        let factor = if kind.name.starts_with("m9g.") { 10.0 } else { 1.0 };
        kind.offerings.iter_mut().for_each(|offering| offering.price *= factor);
        kind
    });
    dear.node_pools[0].instance_types = types.collect();
    let why = explain_launch(&dear, &solve_checked(&dear).launches[0]).unwrap();
    let why = why.ruled_out.iter().find(|kind| kind.name == "c9.large").unwrap();
    assert_eq!(why.cause.to_string(), "it permits 25 volume attachments for pods, and these mount 28 volumes of EBS");
}

#[test]
fn a_pod_with_more_volumes_than_any_node_attaches_is_reported() {
    let claims: Vec<String> = (0..40).map(|claim| format!("data-{claim}")).collect();
    let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
    let expected =
        "NodePool default: no instance type permits 40 volume attachments of ebs.csi.aws.com, the most is 31";
    let pools = [node_pool("default")];
    let alone = vec![mounting("db", &claims)];
    let world = World::new(&alone, EBS_DRIVER);
    assert_eq!(reasons(&solve_checked(&world.problem(&alone, &pools, &limited()))), [expected]);
    // The same volumes for two pods, which are one class.
    let both = vec![mounting("db-1", &claims), mounting("db-2", &claims)];
    let solution = solve_checked(&world.problem(&both, &pools, &limited()));
    let reasons: Vec<String> = solution.unschedulable.iter().map(|pod| pod.reasons[0].to_string()).collect();
    assert_eq!(reasons, [expected, expected]);
}

#[test]
fn a_volume_of_several_pods_counts_once_on_a_node() {
    let one: InstanceTypes =
        catalog().iter().map(|kind| InstanceType { ebs_volumes: Some(2), ..kind.clone() }).collect();
    let pools = [node_pool("default")];
    let larger = |name: &str, claims: &[&str]| {
        mounting(name, claims).with_template(|it| it.requests = pod(name, 200, 300).template.requests.clone())
    };
    for (what, pods, nodes) in [
        ("equal pods", (0..5).map(|pod| mounting(format!("a-{pod}"), &["a"])).collect(), 1),
        (
            "different pods",
            vec![mounting("a-1", &["a"]), mounting("a-2", &["a"]), larger("a-3", &["a"]), larger("b", &["b", "b"])],
            1,
        ),
        (
            "both volumes are attached already",
            vec![mounting("ab-1", &["a", "b"]), mounting("ab-2", &["a", "b"]), larger("b", &["b"])],
            1,
        ),
        ("a third volume", vec![mounting("a-1", &["a"]), larger("a-2", &["a"]), mounting("bc", &["b", "c"])], 2),
    ] {
        let world = World::new(&pods, EBS_DRIVER);
        let solution = solve_checked(&world.problem(&pods, &pools, &one));
        assert_eq!((solution.launches.len(), solution.unschedulable.len()), (nodes, 0), "{what}: {solution:#?}");
    }
}

fn launching(name: &str, nominated: &[&str], initialized: bool) -> ExistingNode {
    let kind = limited().iter().find(|kind| kind.name == "c9.16xlarge").unwrap().clone();
    ExistingNode {
        name: name.into(),
        node_claim: Some(name.into()),
        node_pool: Some("default".into()),
        initialized,
        requirements: Requirements::from([(labels::INSTANCE_TYPE, Requirement::one_of([kind.name.as_str()]))]),
        available: kind.allocatable(),
        nominated: nominated.iter().map(|pod| (*pod).to_owned()).collect(),
        ..ExistingNode::default()
    }
}

#[test]
fn a_node_that_is_not_initialized_has_the_limit_of_its_type() {
    let (pods, pools) = (stateful(30), [node_pool("default")]);
    let world = World::new(&pods, EBS_DRIVER);
    let mut problem = world.problem(&pods, &pools, &limited());
    problem.nodes = vec![launching("joining", &[], false)];
    assert_eq!(solve_checked(&problem).placements.len(), SHARED as usize);
    problem.nodes = vec![launching("ready", &[], true)];
    assert_eq!(solve_checked(&problem).placements.len(), 30, "its CSINode reports no limit");
}

#[test]
fn a_node_with_a_lower_limit_than_planned_keeps_as_many_of_its_pods() {
    let (pods, pools) = (stateful(4), [node_pool("default")]);
    let mut world = World::new(&pods, EBS_DRIVER);
    world.limits.insert("n".into(), BTreeMap::from([(EBS_DRIVER.to_owned(), 2)]));
    let mut problem = world.problem(&pods, &pools, &limited());
    problem.nodes = vec![launching("n", &["default/db-00", "default/db-01", "default/db-02"], true)];
    let solution = solve_checked(&problem);
    assert_eq!(solution.placements.len(), 2);
    assert!(solution.placements.iter().all(|placement| placement.pod < 3));
    let plain = [pod("web", 50, 64)];
    problem.pods = plain.iter().collect();
    assert_eq!(solve_checked(&problem).placements.len(), 1, "a pod without volumes");
}

#[test]
fn the_checker_refuses_nodes_with_too_many_volumes() {
    let (pods, pools) = (stateful(60), [node_pool("default")]);
    let world = World::new(&pods, EBS_DRIVER);
    let crowded = solve(&world.problem(&pods, &pools, &catalog()), &Options::default());
    let problem = world.problem(&pods, &pools, &limited());
    let wrong = nodeless_checker::violations(&problem, &crowded, &Options::default());
    assert!(wrong.iter().any(|why| why.contains("60 volumes of EBS, and it attaches")), "{wrong:?}");
    let mut joining = world.problem(&pods, &pools, &limited());
    joining.nodes = vec![launching("joining", &[], false)];
    let mut full = solve(&joining, &Options::default());
    let moved = full.launches.drain(..).flat_map(|launch| launch.pods);
    full.placements.extend(moved.map(|pod| nodeless_scheduling::Placement { pod, node: 0 }));
    let wrong = nodeless_checker::violations(&joining, &full, &Options::default());
    assert!(wrong.iter().any(|why| why == "node joining: more than 25 volumes of ebs.csi.aws.com"), "{wrong:?}");
}

#[test]
fn running_pods_have_their_volumes_attached() {
    let all = stateful(4);
    let (running, waiting) = all.split_at(2);
    let pools: [NodePool; 0] = [];
    let mut world = World::new(&all, EBS_DRIVER);
    world.limits.insert("n".into(), BTreeMap::from([(EBS_DRIVER.to_owned(), 3)]));
    let node = Node { name: "n".into(), ..Node::default() };
    let mut problem = world.problem(waiting, &pools, &limited());
    problem.nodes = vec![launching("n", &[], true)];
    problem.bound_pods = vec![BoundPods::on(&node, running.iter().collect())];
    assert_eq!(solve_checked(&problem).placements.len(), 1);
}
