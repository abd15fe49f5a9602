//! Small clusters for tests and benchmarks: round prices, nodes of any type with pods on them, and what becomes of all that
//! when commands are carried out.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    missing_docs,
    reason = "each test file uses its own part"
)]

pub mod first_node;
pub mod preferences;

use jiff::Timestamp;
use nodeless_disruption::*;
use nodeless_model::claim::{Charge, LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::NodeCondition;
use nodeless_model::node_pool::{BudgetNodes, PoolUsage};
pub use nodeless_model::test_support::{budget, labelled, selector, topology_spread};
use nodeless_model::*;
use nodeless_scheduling::{ClusterFacts, ClusterUsage, PoolOffer};
use std::collections::{BTreeMap, BTreeSet};

pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// GiB of memory for each cpu, and dollars per hour for each cpu.
const FAMILIES: [(&str, i64, f64); 3] = [("c9", 2, 0.04), ("m9", 4, 0.05), ("r9", 8, 0.065)];
const SIZES: [(&str, i64); 6] =
    [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16), ("8xlarge", 32), ("16xlarge", 64)];

/// The spot price as a fraction of the on-demand price.
pub const SPOT: f64 = 0.4;

pub fn gib(amount: i64) -> Quantity {
    Quantity::from_mebibytes(amount * 1024)
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Two hours after everything began.
pub fn now() -> Timestamp {
    at(7200)
}

pub fn catalog() -> InstanceTypes {
    let all = FAMILIES.iter().flat_map(|&(family, memory, price)| {
        SIZES.iter().map(move |&(size, cpu)| instance_type(family, size, cpu, cpu * memory, price * cpu as f64))
    });
    all.collect()
}

pub fn instance_type(family: &str, size: &str, cpu: i64, memory: i64, price: f64) -> InstanceType {
    let name = format!("{family}.{size}");
    let one = |value: &str| Requirement::one_of([value]);
    let mut offerings = Vec::new();
    for zone in ZONES {
        for (capacity_type, share) in [(CapacityType::OnDemand, 1.0), (CapacityType::Spot, SPOT)] {
            offerings.push(Offering {
                zone: zone.into(),
                capacity_type,
                price: price * share,
                available: true,
                lacks_price: false,
                reservation: None,
                requirements: Requirements::new(),
            });
        }
    }
    InstanceType {
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, one(&name)),
            (labels::INSTANCE_FAMILY, one(family)),
            (labels::INSTANCE_CPU, one(&cpu.to_string())),
            (labels::ARCH, one("amd64")),
            (labels::OS, one("linux")),
            (labels::ZONE, Requirement::one_of(ZONES)),
            (labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot"])),
        ]),
        name,
        capacity: ResourceList::new()
            .with("cpu", Quantity::from_units(cpu))
            .with("memory", gib(memory))
            .with("pods", Quantity::from_units(110)),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings,
    }
}

/// A NodePool of on-demand nodes whose budget allows to disrupt all of them at once.
pub fn node_pool(name: &str) -> NodePool {
    let mut pool = test_support::on_demand_node_pool(name);
    pool.disruption.budgets = vec![budget(BudgetNodes::Percent(100))];
    pool.hash = "hash-1".into();
    pool
}

/// A running pod of a ReplicaSet.
pub fn pod(name: &str, cpu_milli: i64, memory_mib: i64) -> Pod {
    Pod {
        owner_kind: Some("ReplicaSet".into()),
        phase: pod::PodPhase::Running,
        start_time: Some(at(3700)),
        ..test_support::pod(name, cpu_milli, memory_mib)
    }
}

/// A node with its claim and its pods.
#[derive(Clone, Debug)]
pub struct Place {
    pub node: Node,
    pub claim: NodeClaim,
    pub pods: Vec<Pod>,
}

/// A world that owns what a [`Cluster`] borrows.
#[derive(Clone, Debug)]
pub struct TestCluster {
    pub pools: Vec<NodePool>,
    pub places: Vec<Place>,
    pub pending: Vec<Pod>,
    /// The virtual pods of buffers.
    pub buffers: Vec<Pod>,
    pub budgets: Vec<PodDisruptionBudget>,
    pub types: InstanceTypes,
    pub daemon_sets: Vec<DaemonSet>,
    /// Where volumes can be used, their drivers and how many a node attaches, as in [`Cluster`].
    pub volumes: BTreeMap<String, Vec<Requirements>>,
    pub volume_hosts: BTreeMap<String, BTreeSet<String>>,
    pub volume_drivers: BTreeMap<String, String>,
    pub volume_limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<String, StringMap>,
    pub not_evaluated: std::collections::BTreeSet<String>,
    /// The limits of the cluster.
    pub limits: ClusterLimits,
    pub options: Options,
    made: usize,
}

/// The instance of a node, without its id.
fn launched(kind: &InstanceType, capacity_type: CapacityType, zone: &str) -> LaunchedInstance {
    LaunchedInstance {
        id: String::new(),
        instance_type: kind.name.clone(),
        zone: zone.into(),
        capacity_type,
        price: offering(kind, capacity_type, zone).price,
        image_id: "ami-1".into(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: at(3010),
        certificate_authority: None,
    }
}

impl TestCluster {
    pub fn new(pools: Vec<NodePool>) -> Self {
        Self {
            pools,
            places: Vec::new(),
            pending: Vec::new(),
            buffers: Vec::new(),
            budgets: Vec::new(),
            types: catalog(),
            daemon_sets: Vec::new(),
            volumes: BTreeMap::new(),
            volume_hosts: BTreeMap::new(),
            volume_drivers: BTreeMap::new(),
            volume_limits: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            not_evaluated: Default::default(),
            limits: ClusterLimits::default(),
            options: Options { hash_version: "v-test".into(), ..Options::default() },
            made: 0,
        }
    }

    /// Adds a node of a NodePool that has been ready for an hour, with its pods.
    pub fn node(
        &mut self,
        pool: &str,
        kind: &str,
        capacity_type: CapacityType,
        zone: &str,
        pods: Vec<Pod>,
    ) -> &mut Place {
        let name = format!("node-{:05}", self.made);
        let claim_name = format!("{pool}-{:05}", self.made);
        self.made += 1;
        let kind = self.types.iter().find(|known| known.name == kind).unwrap();
        let pool = self.pools.iter().find(|known| known.name == pool).unwrap();
        let mut labels = kind.requirements.single_values();
        labels.extend(pool.template.requirements.single_values());
        labels.extend(pool.template.labels.clone());
        for (key, value) in [
            (labels::NODE_POOL, pool.name.as_str()),
            (labels::EC2_NODE_CLASS, "default"),
            (labels::ZONE, zone),
            (labels::CAPACITY_TYPE, capacity_type.as_str()),
            (labels::HOSTNAME, &name),
            (labels::REGISTERED, "true"),
            (labels::INITIALIZED, "true"),
        ] {
            labels.insert(key.into(), value.into());
        }
        let mut status = NodeClaimStatus { labels: labels.clone(), ..NodeClaimStatus::default() };
        status.instance = Some(LaunchedInstance { id: format!("i-{name}"), ..launched(kind, capacity_type, zone) });
        let charge = Charge {
            resources: kind.capacity.clone().with("nodes", Quantity::from_units(1)),
            dollars_per_hour: offering(kind, capacity_type, zone).price,
        };
        let mut spec = NodeClaimSpec { taints: pool.template.taints.clone(), charge, ..NodeClaimSpec::default() };
        spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-1".into());
        spec.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v-test".into());
        let mut claim = NodeClaim {
            name: claim_name,
            uid: format!("uid-{name}"),
            node_pool: Some(pool.name.clone()),
            node_class: "default".into(),
            created: at(3000),
            version: 1,
            spec,
            phase: Phase::Initialized,
            status,
        };
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at(3600));
        let node = Node {
            labels,
            taints: pool.template.taints.clone(),
            capacity: kind.capacity.clone(),
            allocatable: kind.allocatable(),
            conditions: vec![NodeCondition {
                kind: "Ready".into(),
                status: Some(true),
                since: None,
                reason: String::new(),
            }],
            name: name.clone(),
            ..Node::default()
        };
        let pods = pods.into_iter().map(|pod| Pod { node_name: Some(name.clone()), ..pod }).collect();
        self.places.push(Place { node, claim, pods });
        self.places.last_mut().unwrap()
    }

    pub fn on_demand(&mut self, kind: &str, pods: Vec<Pod>) -> &mut Place {
        let pool = self.pools[0].name.clone();
        self.node(&pool, kind, CapacityType::OnDemand, ZONES[0], pods)
    }

    pub fn cluster(&self) -> Cluster<'_> {
        let offers = self.pools.iter().map(|pool| PoolOffer {
            pool,
            instance_types: self.types.clone(),
            usage: self.usage(&pool.name),
            cluster: self.cluster_usage(),
        });
        Cluster {
            nodes: self
                .places
                .iter()
                .map(|place| ClusterNode {
                    node: Some(&place.node),
                    claim: Some(&place.claim),
                    pods: place.pods.iter().collect(),
                    ..ClusterNode::default()
                })
                .collect(),
            node_pools: offers.collect(),
            pending_pods: self.pending.iter().collect(),
            virtual_pods: self.buffers.iter().collect(),
            disruption_budgets: &self.budgets,
            daemon_sets: &self.daemon_sets,
            facts: ClusterFacts {
                volumes: &self.volumes,
                volume_hosts: &self.volume_hosts,
                volume_drivers: &self.volume_drivers,
                volume_limits: &self.volume_limits,
                namespaces: &self.namespaces,
                ..ClusterFacts::default()
            },
            not_evaluated: self.not_evaluated.clone(),
            ..Cluster::default()
        }
    }

    /// The cluster while these commands are under way.
    pub fn cluster_during<'a>(&'a self, commands: impl Iterator<Item = &'a Command>) -> Cluster<'a> {
        let mut cluster = self.cluster();
        for command in commands {
            for node in &mut cluster.nodes {
                if command.candidates.iter().any(|candidate| candidate.node == node.name()) {
                    node.command = Some(&command.id);
                }
            }
            cluster.under_way.push(command);
        }
        cluster
    }

    fn cluster_usage(&self) -> Option<ClusterUsage> {
        let usages: Vec<PoolUsage> = self.pools.iter().map(|pool| self.usage(&pool.name)).collect();
        let (limits, usage) = (self.limits.clone(), PoolUsage::sum(&usages));
        Some(ClusterUsage { limits, usage }).filter(|cluster| !cluster.limits.are_none())
    }

    pub fn usage(&self, pool: &str) -> PoolUsage {
        let mut usage = PoolUsage::default();
        for place in self.places.iter().filter(|place| place.claim.is_of(pool)) {
            usage.resources.add(&place.node.capacity);
            usage.resources.add(&ResourceList::from([("nodes", Quantity::from_units(1))]));
            usage.dollars_per_hour += place.claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
        }
        usage
    }

    /// The decision. Every node is either removed or has a reason to stay.
    pub fn decide(&self) -> Decision {
        let decision = decide(&self.cluster(), now(), &self.options);
        let mut going: Vec<&str> =
            decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.as_str()).collect();
        let count = going.len();
        going.sort_unstable();
        going.dedup();
        assert_eq!(going.len(), count, "a node is in two commands");
        for place in &self.places {
            let kept = decision.kept.iter().any(|kept| kept.node == place.node.name && !kept.reasons.is_empty());
            let goes = going.binary_search(&place.node.name.as_str()).is_ok();
            assert_ne!(kept, goes, "{} in {decision:#?}", place.node.name);
        }
        decision
    }

    /// Why a node stays, in one line.
    pub fn kept(&self, place: usize) -> String {
        let decision = self.decide();
        let name = &self.places[place].node.name;
        let kept = decision.kept.iter().find(|kept| kept.node == *name).expect("the node is kept");
        kept.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    pub fn price(&self) -> f64 {
        self.places.iter().map(|place| place.claim.status.instance.as_ref().unwrap().price).sum()
    }

    pub fn pods(&self) -> usize {
        self.places.iter().map(|place| place.pods.len()).sum()
    }

    /// Carries commands out: replacements are launched as their cheapest offering, and pods go where the commands state.
    /// Pods that would not miss their node are gone with it.
    pub fn apply(&mut self, commands: &[Command]) {
        let mut moving: BTreeMap<String, Pod> = BTreeMap::new();
        // The capacity of a buffer may be on any node with free capacity.
        let real = |key: &&String| self.buffers.iter().all(|pod| pod.key() != **key);
        let mut commands = commands.to_vec();
        for command in &mut commands {
            command.placements.retain(|to| real(&&to.pod));
            for replacement in &mut command.replacements {
                replacement.pods.retain(|pod| real(&pod));
            }
        }
        let commands = &commands[..];
        for candidate in commands.iter().flat_map(|command| &command.candidates) {
            let place = self.places.iter().position(|place| place.claim.name == candidate.node_claim).unwrap();
            let place = self.places.remove(place);
            moving.extend(place.pods.into_iter().filter(Pod::is_reschedulable).map(|pod| (pod.key(), pod)));
        }
        for command in commands {
            for to in &command.placements {
                let pod = moving.remove(&to.pod).expect("a pod moves once");
                let place = self.places.iter_mut().find(|place| place.node.name == to.node).expect("the node stays");
                place.pods.push(Pod { node_name: Some(to.node.clone()), ..pod });
            }
            for replacement in &command.replacements {
                let pods = replacement.pods.iter().map(|key| moving.remove(key).expect("a pod moves once")).collect();
                let chosen = &replacement.launch.offering;
                let pool = replacement.launch.node_pool.clone();
                let (kind, zone) = (chosen.instance_type.clone(), chosen.zone.clone());
                self.node(&pool, &kind, chosen.capacity_type, &zone, pods);
            }
        }
        let lost: Vec<&String> = moving.keys().collect();
        let expected = commands.iter().all(|command| command.method.is_consolidation());
        assert!(lost.is_empty() || !expected, "the plan has no node for {lost:?}");
    }
}

pub fn offering<'k>(kind: &'k InstanceType, capacity_type: CapacityType, zone: &str) -> &'k Offering {
    let mut offerings = kind.offerings.iter();
    offerings.find(|offering| offering.capacity_type == capacity_type && offering.zone == zone).unwrap()
}
