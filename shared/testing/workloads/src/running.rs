//! Running clusters.

use crate::catalog::ZONES;
use crate::draw::Draw;
use crate::mixes::Mix;
use crate::pools::node_pool;
use crate::workload::{Place, Workload};
use crate::{NOW, build, catalog};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::{NodeCondition, provider_id};
use nodeless_model::pod::PodPhase;
use nodeless_model::{
    CapacityType, ConditionStatus, InstanceType, Node, NodeClaim, NodePool, Phase, Pod, Requirement, Requirements,
    ResourceList, StringMap, labels,
};
use nodeless_scheduling::{ChosenOffering, Solution};

/// A cluster in which some pods were deleted since its nodes were launched.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// The mix of its pods.
    pub mix: Mix,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pods on each of them, without those of DaemonSets.
    pub pods_per_node: usize,
    /// The percentage of the pods that the nodes were launched for that were deleted.
    pub waste: u32,
    /// The seed.
    pub seed: u64,
}

/// The instance families of nodes.
const FAMILIES: [&str; 9] = ["c5", "m5", "r5", "c6i", "m6i", "r6i", "c7i", "m7i", "r7i"];

impl Running {
    /// The cluster, without pending pods. Each node is the cheapest on-demand type of a few common families that fits all
    /// pods that it was launched for. Pods of a group are on consecutive nodes, so they are on different hosts and evenly
    /// distributed over the zones. The NodePool allows only on-demand, because otherwise all nodes would be replaced with
    /// spot.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let mut draw = Draw::new(self.seed ^ 0x5eed);
        let instance_types = catalog::embedded();
        let daemon_sets = build::five_daemon_sets();
        let pool = node_pool("default", self.mix.categories(), &[CapacityType::OnDemand]);
        let kept = 100_usize.saturating_sub(self.waste as usize).max(1);
        let held = (self.pods_per_node * 100).div_ceil(kept);
        let mut dealt: Vec<Vec<Pod>> = vec![Vec::new(); self.nodes];
        for (index, pod) in self.mix.pods(self.nodes * held, self.seed).into_iter().enumerate() {
            dealt[index % self.nodes].push(pod);
        }
        let choice: Vec<&InstanceType> = instance_types.iter().filter(|kind| common(kind)).collect();
        let daemons = daemon_sets.iter().fold(ResourceList::new(), |mut sum, set| {
            sum.add(&set.template.template.requests);
            sum
        });
        let places = dealt.into_iter().enumerate().filter_map(|(index, mut pods)| {
            let zone = ZONES[index % ZONES.len()];
            let (kind, price) = cheapest(&choice, zone, &pods, &daemons)?;
            while pods.len() > self.pods_per_node {
                pods.swap_remove(draw.below(pods.len()));
            }
            let offering = Offered { zone, capacity_type: CapacityType::OnDemand, price };
            Some(place(index, &pool, kind, offering, pods))
        });
        let places = places.collect();
        Workload { node_pools: vec![pool], instance_types, places, daemon_sets, ..Workload::default() }.shared()
    }
}

impl Workload {
    /// The cluster two days after the launches of a plan: each node is the cheapest of its launch, and runs the pods that it was
    /// planned for. Pods without a launch stay pending.
    #[must_use]
    pub fn launched(&self, solution: &Solution) -> Self {
        let mut pending: Vec<Option<Pod>> = self.pending.iter().cloned().map(Some).collect();
        let mut places = self.places.clone();
        for launch in &solution.launches {
            let pods = launch.pods.iter().filter_map(|pod| pending[*pod].take()).collect();
            let pool = self.node_pools.iter().find(|pool| pool.name == launch.node_pool);
            let kind = self.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type);
            if let (Some(pool), Some(kind)) = (pool, kind) {
                let ChosenOffering { zone, capacity_type, price, .. } = &launch.offering;
                let offered = Offered { zone, capacity_type: *capacity_type, price: *price };
                places.push(place(places.len(), pool, kind, offered, pods));
            }
        }
        Self { pending: pending.into_iter().flatten().collect(), places, ..self.clone() }
    }
}

fn common(kind: &InstanceType) -> bool {
    let family = kind.requirements.get(labels::INSTANCE_FAMILY).and_then(Requirement::single);
    family.is_some_and(|family| FAMILIES.contains(&family)) && !kind.name.ends_with(".metal")
}

/// The cheapest type that fits all these pods, and its price.
fn cheapest<'k>(
    choice: &[&'k InstanceType],
    zone: &str,
    pods: &[Pod],
    daemons: &ResourceList,
) -> Option<(&'k InstanceType, f64)> {
    let mut asked = daemons.clone();
    pods.iter().for_each(|pod| asked.add(&pod.template.requests));
    let fitting = choice.iter().filter(|kind| asked.fits(&kind.allocatable()));
    let priced = fitting.filter_map(|kind| {
        let mut offerings = kind.offerings.iter();
        let offering = offerings.find(|it| it.zone == zone && it.capacity_type == CapacityType::OnDemand)?;
        Some((*kind, offering.price))
    });
    priced.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn ago(hours: i64) -> Timestamp {
    NOW - SignedDuration::from_hours(hours)
}

/// The offering of a node.
#[derive(Clone, Copy)]
pub(crate) struct Offered<'o> {
    pub(crate) zone: &'o str,
    pub(crate) capacity_type: CapacityType,
    pub(crate) price: f64,
}

pub(crate) fn place(index: usize, pool: &NodePool, kind: &InstanceType, offered: Offered<'_>, pods: Vec<Pod>) -> Place {
    let Offered { zone, capacity_type, price } = offered;
    let name = format!("ip-10-{}-{}-{}.ec2.internal", index >> 16, (index >> 8) & 255, index & 255);
    let node_labels = node_labels(&name, pool, kind, offered);
    let id = format!("i-{index:017x}");
    let node = Node {
        uid: format!("uid-{name}"),
        provider_id: Some(provider_id(zone, &id)),
        labels: node_labels.clone(),
        taints: pool.template.taints.clone(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        conditions: vec![NodeCondition {
            kind: "Ready".into(),
            status: Some(true),
            since: Some(ago(47)),
            reason: String::new(),
        }],
        created: Some(ago(48)),
        name: name.clone(),
        ..Node::default()
    };
    let instance = LaunchedInstance {
        id,
        instance_type: kind.name.clone(),
        zone: zone.into(),
        capacity_type,
        price,
        image_id: "ami-1".into(),
        private_dns_name: Some(name.clone()),
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: ago(48),
        certificate_authority: None,
    };
    let status = NodeClaimStatus {
        instance: Some(instance),
        labels: node_labels,
        node_name: Some(name.clone()),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        last_pod_event: Some(ago(24)),
        ..NodeClaimStatus::default()
    };
    let mut claim = NodeClaim {
        name: format!("{}-{index:05}", pool.name),
        uid: format!("uid-claim-{index:05}"),
        node_pool: Some(pool.name.clone()),
        node_class: pool.template.node_class.clone(),
        created: ago(48),
        version: 1,
        spec: NodeClaimSpec { taints: pool.template.taints.clone(), ..NodeClaimSpec::default() },
        phase: Phase::Initialized,
        status,
    };
    claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", ago(47));
    Place { node, claim, pods: pods.into_iter().map(|pod| bound(pod, &name)).collect() }
}

/// The pod, running on a node.
pub(crate) fn bound(pod: Pod, node: &str) -> Pod {
    Pod {
        node_name: Some(node.into()),
        marked_unschedulable: false,
        phase: PodPhase::Running,
        ready: Some(true),
        start_time: Some(ago(24)),
        created: Some(ago(24)),
        ..pod
    }
}

fn node_labels(name: &str, pool: &NodePool, kind: &InstanceType, offered: Offered<'_>) -> StringMap {
    let mut all: Requirements = kind.requirements.clone();
    all.remove(labels::ZONE);
    all.remove(labels::CAPACITY_TYPE);
    let mut map = all.single_values();
    map.extend(pool.template.labels.clone());
    let own = [
        (labels::NODE_POOL, pool.name.as_str()),
        (labels::EC2_NODE_CLASS, pool.template.node_class.as_str()),
        (labels::ZONE, offered.zone),
        (labels::CAPACITY_TYPE, offered.capacity_type.as_str()),
        (labels::HOSTNAME, name),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ];
    map.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    map
}
