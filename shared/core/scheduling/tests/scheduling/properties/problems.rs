//! Problems of small numbers.

use super::*;
use nodeless_scheduling::{ExistingNode, MinValuesPolicy};

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

fn make_pod(index: usize, seed: PodSeed) -> Pod {
    let (size, place, extra, group) = seed;
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

fn make_pool(index: usize, seed: PoolSeed) -> NodePool {
    let (kind, limit, weight) = seed;
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
pub(crate) struct RandomProblem {
    pub(crate) pods: Vec<Pod>,
    pub(super) pools: Vec<NodePool>,
    pub(super) nodes: Vec<ExistingNode>,
    pub(super) running: Vec<(Node, Vec<Pod>)>,
    pub(super) daemons: Vec<DaemonSet>,
    pub(super) best_effort: bool,
}

impl RandomProblem {
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

pub(crate) fn worlds() -> impl Strategy<Value = RandomProblem> {
    let small = 0..1000_usize;
    let pods = prop::collection::vec((small.clone(), small.clone(), small.clone(), small.clone()), 0..60);
    let pools = prop::collection::vec((small.clone(), small, 0..3_u32), 0..4);
    let nodes = prop::collection::vec(0..6_i64, 0..4);
    (pods, pools, nodes, any::<bool>(), any::<bool>()).prop_map(|(pods, pools, nodes, daemons, best_effort)| {
        RandomProblem {
            pods: pods.into_iter().enumerate().map(|(index, seed)| make_pod(index, seed)).collect(),
            pools: pools.into_iter().enumerate().map(|(index, seed)| make_pool(index, seed)).collect(),
            nodes: nodes.into_iter().enumerate().map(|(index, cpu)| make_node(index, cpu)).collect(),
            running: Vec::new(),
            daemons: if daemons { daemon_sets() } else { Vec::new() },
            best_effort,
        }
    })
}

/// Worlds in which pods care about each other.
pub(crate) fn related_worlds(limits: bool, affine: bool) -> impl Strategy<Value = RandomProblem> {
    let small = 0..1000_usize;
    let seed = || (small.clone(), small.clone(), small.clone(), small.clone());
    let pods = prop::collection::vec(seed(), 0..40);
    let running = prop::collection::vec(seed(), 0..5);
    let pools = prop::collection::vec((small.clone(), small.clone(), 0..3_u32), 1..4);
    (pods, pools, running, any::<bool>()).prop_map(move |(pods, pools, running, daemons)| RandomProblem {
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

/// Nodes with running pods, and a few small pods without regard to others.
pub(super) fn running_worlds() -> impl Strategy<Value = RandomProblem> {
    let small = 0..1000_usize;
    let seed = || (small.clone(), small.clone(), small.clone(), small.clone());
    (prop::collection::vec(seed(), 0..8), prop::collection::vec(seed(), 1..12)).prop_map(|(pods, running)| {
        RandomProblem {
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
        }
    })
}
