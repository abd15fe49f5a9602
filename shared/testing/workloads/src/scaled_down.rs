//! Running clusters whose workloads were scaled down.

use crate::build;
use crate::catalog::{self, ZONES};
use crate::draw::Draw;
use crate::mixes::Mix;
use crate::pools::node_pool;
use crate::running::{Offered, place};
use crate::workload::Workload;
use nodeless_model::{CapacityType, DaemonSet, InstanceType, LabelSelector, Pod, PodDisruptionBudget, ResourceList};

/// A cluster of nodes of one type in three zones. The pods of each workload are distributed over the zones, and in each over
/// random nodes, one of a workload on a node. Then a third of the workloads have lost every other pod, so that nodes are filled
/// very differently.
#[derive(Clone, Copy, Debug)]
pub struct ScaledDown {
    /// The mix of its pods.
    pub mix: Mix,
    /// The number of nodes.
    pub nodes: usize,
    /// The cpus or the memory that pods requested before workloads were scaled down, whichever was more, in percent of those of the
    /// nodes. What does not fit was never created.
    pub fill: u32,
    /// The seed.
    pub seed: u64,
}

/// The type of the nodes.
const TYPE: &str = "m6i.2xlarge";

/// Nodes on which a pod is tried before all nodes of the zone.
const ATTEMPTS: usize = 20;

/// A workload with as many pods has a budget, which allows one eviction.
const PODS_WITH_BUDGET: usize = 3;

impl ScaledDown {
    /// The cluster, without pending pods. Pods of DaemonSets run on each node. The NodePool allows only on-demand, because otherwise
    /// all nodes would be replaced with spot.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let mut draw = Draw::new(self.seed ^ 0x005c_a1ed);
        let instance_types = catalog::embedded();
        let daemon_sets = build::five_daemon_sets();
        let pool = node_pool("default", self.mix.categories(), &[CapacityType::OnDemand]);
        let mut workload = Workload { node_pools: vec![pool], daemon_sets, ..Workload::default() };
        let Some(kind) = instance_types.iter().find(|kind| kind.name == TYPE) else { return workload };
        let mut free = kind.allocatable();
        workload.daemon_sets.iter().for_each(|set| free.subtract(&set.template.template.requests));
        let mut nodes = vec![Filled { free: free.clone(), pods: Vec::new() }; self.nodes];
        for group in self.groups(&free) {
            if group.len() >= PODS_WITH_BUDGET {
                workload.disruption_budgets.extend(disruption_budget(&group[0]));
            }
            let placed = spread(&group, &mut nodes, &mut draw);
            let step = if draw.percent(33) { 2 } else { 1 };
            for (pod, node) in group.into_iter().zip(placed).step_by(step) {
                nodes[node].pods.push(pod);
            }
        }
        for (index, node) in nodes.into_iter().enumerate() {
            let daemons = workload.daemon_sets.iter().map(|set| daemon(set, index));
            let pods = daemons.chain(node.pods).collect();
            workload.places.push(place(index, &workload.node_pools[0], kind, offered(kind, index), pods));
        }
        Workload { instance_types, ..workload }.shared()
    }

    /// The pods of each workload.
    fn groups(&self, free: &ResourceList) -> Vec<Vec<Pod>> {
        let most = ["cpu", "memory"]
            .map(|name| (name, i128::from(free.get(name).milli()) * self.nodes as i128 * i128::from(self.fill) / 100));
        let most_pods = self.nodes * usize::try_from(free.get("pods").milli() / 1000).unwrap_or_default();
        let mut asked = [0; 2];
        let mut groups: Vec<Vec<Pod>> = Vec::new();
        for pod in self.mix.pods(most_pods, self.seed) {
            for ((name, most), asked) in most.iter().zip(&mut asked) {
                *asked += i128::from(pod.template.requests.get(name).milli());
                if *asked > *most {
                    return groups;
                }
            }
            match groups
                .last_mut()
                .filter(|group| group[0].template.labels.get("app") == pod.template.labels.get("app"))
            {
                Some(group) => group.push(pod),
                None => groups.push(vec![pod]),
            }
        }
        groups
    }
}

/// A node while pods are placed.
#[derive(Clone)]
struct Filled {
    free: ResourceList,
    pods: Vec<Pod>,
}

/// The nodes of the pods of a workload, as many as fit: each on its own, and in the next zone.
fn spread(group: &[Pod], nodes: &mut [Filled], draw: &mut Draw) -> Vec<usize> {
    let mut placed: Vec<usize> = Vec::new();
    for (ordinal, pod) in group.iter().enumerate() {
        let requests = &pod.template.requests;
        let zone = ordinal % ZONES.len();
        let of_zone = nodes.len().saturating_sub(zone).div_ceil(ZONES.len());
        let fits = |number: usize| {
            let node = number % of_zone * ZONES.len() + zone;
            (requests.fits(&nodes[node].free) && !placed.contains(&node)).then_some(node)
        };
        let found = (of_zone > 0).then(|| {
            let any = (0..ATTEMPTS).find_map(|_| fits(draw.below(of_zone)));
            any.or_else(|| (0..of_zone).find_map(fits))
        });
        let Some(node) = found.flatten() else { break };
        nodes[node].free.subtract(requests);
        placed.push(node);
    }
    placed
}

fn offered(kind: &InstanceType, index: usize) -> Offered<'_> {
    let (zone, capacity_type) = (ZONES[index % ZONES.len()], CapacityType::OnDemand);
    let mut offerings = kind.offerings.iter();
    let offering = offerings.find(|one| one.zone == zone && one.capacity_type == capacity_type);
    Offered { zone, capacity_type, price: offering.map_or(0.0, |offering| offering.price) }
}

fn daemon(set: &DaemonSet, node: usize) -> Pod {
    let name = format!("{}-{node:05}", set.name);
    Pod { uid: format!("uid-{name}"), name, owner_name: Some(set.name.clone()), ..set.template.clone() }
}

fn disruption_budget(pod: &Pod) -> Option<PodDisruptionBudget> {
    let name = pod.template.labels.get("app")?.clone();
    let selector = Some(LabelSelector::from_labels(build::labelled("app", &name)));
    Some(PodDisruptionBudget {
        namespace: pod.namespace.clone(),
        name,
        selector,
        disruptions_allowed: 1,
        ..Default::default()
    })
}
