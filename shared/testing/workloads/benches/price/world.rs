//! A workload as plain numbers, for the bound and the baseline. It uses nothing of the engine.

use nodeless_model::{LabelSelector, Pod, ResourceList, labels};
use nodeless_workloads::Workload;
use nodeless_workloads::catalog::ZONES;

/// The resources: millicores, mebibytes, pods, GPUs.
pub const RESOURCES: [&str; 4] = ["cpu", "memory", "pods", "nvidia.com/gpu"];

pub type Amounts = [f64; RESOURCES.len()];

/// A topology constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// The maximum skew.
    Spread(u32),
    Together,
    Apart,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub rule: Rule,
    /// Whether the topology is the zone; otherwise the host.
    pub zonal: bool,
    pub selector: LabelSelector,
}

#[derive(Clone, Debug)]
pub struct FlatPod {
    pub index: usize,
    pub amounts: Amounts,
    /// A bit for each allowed zone.
    pub zones: u8,
    /// The groups whose rules apply to it.
    pub owned: Vec<usize>,
    /// The groups that select it.
    pub selected: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct FlatKind {
    /// The capacity without DaemonSets.
    pub allocatable: Amounts,
    /// The cheapest offering in each zone.
    pub prices: [f64; 3],
}

pub struct FlatWorld {
    pub pods: Vec<FlatPod>,
    pub groups: Vec<Group>,
    pub kinds: Vec<FlatKind>,
}

fn amounts(list: &ResourceList) -> Amounts {
    RESOURCES.map(|name| {
        let milli = list.get(name).milli() as f64;
        match name {
            "cpu" => milli,
            "memory" => milli / 1000.0 / 1_048_576.0,
            _ => milli / 1000.0,
        }
    })
}

pub fn world(workload: &Workload) -> FlatWorld {
    let mut groups: Vec<Group> = Vec::new();
    let mut owned = Vec::new();
    for pod in &workload.pending {
        let of_pod = rules(pod).into_iter().map(|group| {
            groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            })
        });
        owned.push(of_pod.collect::<Vec<usize>>());
    }
    let pods = workload.pending.iter().zip(owned).enumerate().map(|(index, (pod, owned))| FlatPod {
        index,
        amounts: amounts(&pod.template.requests),
        zones: zones(workload, pod),
        owned,
        selected: (0..groups.len()).filter(|group| groups[*group].selector.matches(&pod.template.labels)).collect(),
    });
    let pods = pods.collect();
    let mut daemons = ResourceList::new();
    workload.daemon_sets.iter().for_each(|set| daemons.add(&set.template.template.requests));
    let requirements = &workload.node_pools[0].template.requirements;
    let kinds =
        workload.instance_types.iter().filter(|kind| requirements.intersects(&kind.requirements)).filter_map(|kind| {
            let price = |zone: &str| {
                let offerings = kind.available_offerings(requirements).filter(|offering| offering.zone == zone);
                offerings.map(|offering| offering.price).fold(f64::INFINITY, f64::min)
            };
            let prices = ZONES.map(price);
            let mut allocatable = kind.allocatable();
            allocatable.subtract(&daemons);
            prices
                .iter()
                .any(|price| price.is_finite())
                .then(|| FlatKind { allocatable: amounts(&allocatable), prices })
        });
    FlatWorld { pods, groups, kinds: kinds.collect() }
}

/// The topology constraints of a pod of the mixes.
fn rules(pod: &Pod) -> Vec<Group> {
    let rule = |rule, key: &str, selector: &Option<LabelSelector>| Group {
        rule,
        zonal: key == labels::ZONE,
        selector: selector.clone().unwrap(),
    };
    let spread = pod.template.topology_spread.iter().map(|spread| {
        rule(Rule::Spread(u32::try_from(spread.max_skew).unwrap()), &spread.topology_key, &spread.selector)
    });
    let near =
        pod.template.required_pod_affinity.iter().map(|term| rule(Rule::Together, &term.topology_key, &term.selector));
    let apart = pod
        .template
        .required_pod_anti_affinity
        .iter()
        .map(|term| rule(Rule::Apart, &term.topology_key, &term.selector));
    spread.chain(near).chain(apart).collect()
}

/// The zones of a pod's volumes.
fn zones(workload: &Workload, pod: &Pod) -> u8 {
    let mut zones = 0b111;
    for claim in &pod.template.volume_claims {
        let topology = &workload.volumes[&format!("{}/{}", pod.namespace, claim.claim_name)];
        let allows =
            |zone: &str| topology.iter().any(|one| one.get(labels::ZONE).is_none_or(|allowed| allowed.has(zone)));
        for (place, zone) in ZONES.iter().enumerate() {
            if !allows(zone) {
                zones &= !(1 << place);
            }
        }
    }
    zones
}
