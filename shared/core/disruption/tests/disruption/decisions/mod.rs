//! The nodes that are removed, and the messages for those that stay.

mod drifted;
mod kept;

use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::*;
use nodeless_model::claim::{LaunchedInstance, NO_PODS, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::NodeCondition;
use nodeless_model::node_pool::{BudgetNodes, PoolUsage};
use nodeless_model::test_support::budget;
use nodeless_model::*;
use nodeless_scheduling::PoolOffer;
use std::collections::BTreeMap;
use std::time::Duration;

/// One hour after everything began.
fn now() -> Timestamp {
    at(7200)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A world that owns what a [`Cluster`] borrows.
struct World {
    pools: Vec<NodePool>,
    nodes: Vec<(Node, NodeClaim, Vec<Pod>)>,
    pending: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    classes: BTreeMap<String, NodeClassFacts>,
    types: InstanceTypes,
    options: ClusterOptions,
    stopped: BTreeMap<String, String>,
}

fn options() -> Options {
    Options { hash_version: "v-test".into(), ..Options::default() }
}

impl World {
    /// A NodePool with unlimited budgets and a number of empty nodes that have been ready for an hour.
    fn new(nodes: usize) -> Self {
        let mut pool = node_pool();
        pool.disruption.budgets = vec![budget(BudgetNodes::Percent(100))];
        Self {
            pools: vec![pool],
            nodes: (0..nodes).map(node).collect(),
            pending: Vec::new(),
            budgets: Vec::new(),
            classes: BTreeMap::new(),
            types: vec![instance_type("m9.large", 2, 0.1), instance_type("m9.xlarge", 4, 0.2)].into(),
            options: ClusterOptions::default(),
            stopped: BTreeMap::new(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn cluster(&self) -> Cluster<'_> {
        let offers = self.pools.iter().map(|pool| PoolOffer {
            pool,
            instance_types: self.types.clone(),
            usage: PoolUsage::default(),
            cluster: None,
        });
        Cluster {
            nodes: self
                .nodes
                .iter()
                .map(|(node, claim, pods)| ClusterNode {
                    node: Some(node),
                    claim: Some(claim),
                    pods: pods.iter().collect(),
                    ..ClusterNode::default()
                })
                .collect(),
            node_pools: offers.collect(),
            node_classes: self.classes.clone(),
            pending_pods: self.pending.iter().collect(),
            disruption_budgets: &self.budgets,
            options: self.options.clone(),
            stopped: self.stopped.clone(),
            ..Cluster::default()
        }
    }

    fn decide(&self) -> Decision {
        let decision = decide(&self.cluster(), now(), &options());
        // Every node of ours either goes or has a reason to stay, never both.
        let going: Vec<&str> = decision.commands.iter().flat_map(|c| &c.candidates).map(|c| c.node.as_str()).collect();
        for (node, _, _) in &self.nodes {
            let kept = decision.kept.iter().any(|kept| kept.node == node.name && !kept.reasons.is_empty());
            assert_ne!(kept, going.contains(&node.name.as_str()), "{} in {decision:#?}", node.name);
        }
        decision
    }

    fn going(&self) -> Vec<String> {
        self.decide().commands.iter().flat_map(|command| &command.candidates).map(|c| c.node.clone()).collect()
    }

    /// The only reason of the first node.
    fn kept(&self) -> String {
        let decision = self.decide();
        let kept = decision.kept.iter().find(|kept| kept.node == "node-0").expect("the node is kept");
        kept.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

fn node_pool() -> NodePool {
    NodePool { uid: "pool".into(), hash: "hash-1".into(), ..test_support::node_pool("default") }
}

fn resources(cpu: i64) -> ResourceList {
    ResourceList::new()
        .with("cpu", Quantity::from_units(cpu))
        .with("memory", Quantity::from_mebibytes(cpu * 4096))
        .with("pods", Quantity::from_units(20))
}

fn instance_type(name: &str, cpu: i64, price: f64) -> InstanceType {
    InstanceType {
        name: name.into(),
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, Requirement::one_of([name])),
            (labels::ARCH, Requirement::one_of(["amd64"])),
        ]),
        capacity: resources(cpu),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings: vec![Offering {
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            price,
            available: true,
            lacks_price: false,
            reservation: None,
            requirements: Requirements::new(),
        }],
    }
}

fn node(index: usize) -> (Node, NodeClaim, Vec<Pod>) {
    let labels = StringMap::from([
        (labels::NODE_POOL.to_owned(), "default".to_owned()),
        (labels::EC2_NODE_CLASS.to_owned(), "default".to_owned()),
        (labels::ZONE.to_owned(), "us-east-1a".to_owned()),
        (labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned()),
        (labels::INSTANCE_TYPE.to_owned(), "m9.large".to_owned()),
        (labels::REGISTERED.to_owned(), "true".to_owned()),
        (labels::INITIALIZED.to_owned(), "true".to_owned()),
    ]);
    let ready = NodeCondition { kind: "Ready".into(), status: Some(true), since: None, reason: String::new() };
    let node = Node {
        name: format!("node-{index}"),
        labels: labels.clone(),
        allocatable: resources(2),
        conditions: vec![ready],
        ..Node::default()
    };
    let mut claim = NodeClaim {
        name: format!("default-{index}"),
        uid: format!("uid-{index}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: at(3000),
        version: 1,
        spec: NodeClaimSpec::default(),
        phase: Phase::Initialized,
        status: NodeClaimStatus { labels, ..NodeClaimStatus::default() },
    };
    claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-1".into());
    claim.spec.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v-test".into());
    claim.status.instance = Some(LaunchedInstance {
        id: format!("i-{index}"),
        instance_type: "m9.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        price: 0.1,
        image_id: "ami-1".into(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: at(3010),
        certificate_authority: None,
    });
    claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at(3600));
    (node, claim, Vec::new())
}

fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        owner_kind: Some("ReplicaSet".into()),
        template: PodTemplate {
            requests: resources(1).with("pods", Quantity::from_units(1)),
            ..PodTemplate::default()
        }
        .into(),
        ..Pod::default()
    }
}

fn web() -> Pod {
    Pod { node_name: Some("node-0".into()), ..pod("web") }
        .with_template(|it| it.labels = StringMap::from([("app".into(), "web".into())]))
}

#[test]
fn empty_nodes_go_together() {
    let decision = World::new(3).decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!((command.method, command.reason), (Method::Emptiness, DisruptionReason::Empty));
    assert_eq!(command.candidates.len(), 3);
    assert!((command.savings_per_hour - 0.3).abs() < 1e-9);
    assert!(command.replacements.is_empty() && command.evictions.is_empty());
    assert_eq!(command.id, "emptiness-default-0-7200");
}

#[test]
fn the_removal_of_a_node_that_took_no_pod_saves_nothing() {
    let world = World::new(3).with(|world| {
        let claim = &mut world.nodes[0].1;
        claim.spec.nominated_pods = vec!["default/web".into()];
        claim.status.pods_seen = Some(NO_PODS);
        claim.status.last_pod_event = Some(at(3500));
        claim.set_condition(condition::REGISTERED, ConditionStatus::True, "Registered", "", at(3500));
    });
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!((command.reason, command.candidates.len()), (DisruptionReason::Empty, 3));
    assert!((command.savings_per_hour - 0.2).abs() < 1e-9, "{}", command.savings_per_hour);
}

#[test]
fn pods_that_would_not_miss_the_node_leave_it_empty() {
    let mut daemon = web();
    daemon.owner_kind = Some("DaemonSet".into());
    let mut done = web();
    done.phase = pod::PodPhase::Succeeded;
    let mut leaving = web();
    leaving.deletion_timestamp = Some(now());
    let mut worthless = web();
    worthless.template_mut().annotations.insert(labels::POD_DELETION_COST.into(), "-134217728".into());
    let mut overridden = web();
    overridden.template_mut().annotations.insert(labels::DISRUPTION_COST.into(), "-134217728".into());
    overridden.template_mut().annotations.insert(labels::POD_DELETION_COST.into(), "134217728".into());
    for (what, pod) in
        [("daemon", daemon), ("done", done), ("leaving", leaving), ("worthless", worthless), ("overridden", overridden)]
    {
        assert_eq!(World::new(1).with(|world| world.nodes[0].2 = vec![pod]).going(), ["node-0"], "{what}");
    }
}

#[test]
fn nodes_without_pods_go_while_disruption_that_evicts_is_stopped() {
    let stop = |world: &mut World| drop(world.stopped.insert("default".into(), "it evicts and evicts".into()));
    assert_eq!(World::new(1).with(stop).going(), ["node-0"]);
}

#[test]
fn a_command_is_validated_on_a_fresh_view() {
    let world = World::new(2);
    let command = world.decide().commands.remove(0);
    let later = now() + SignedDuration::from_secs(15);
    let unchanged = revalidate(&command, &world.cluster(), later, &options()).unwrap();
    assert_eq!(unchanged, command);
    let world = world.with(|world| world.nodes[0].2 = vec![web()]);
    let left = revalidate(&command, &world.cluster(), later, &options()).unwrap();
    assert_eq!((left.id, left.candidates.len()), (command.id.clone(), 1));
    let world = world.with(|world| world.nodes[1].2 = vec![web()]);
    assert_eq!(revalidate(&command, &world.cluster(), later, &options()), None);
}

#[test]
fn claims_expire_by_force_at_their_age() {
    let mut young = node(0).1;
    young.spec.expire_after = Some(Duration::from_secs(7200));
    let mut old = node(1).1;
    old.spec.expire_after = Some(Duration::from_secs(4200));
    let mut leaving = old.clone();
    leaving.phase = Phase::Draining;
    let immortal = node(2).1;
    let found = expired([&young, &old, &leaving, &immortal], now());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].node_claim.as_str(), found[0].since), ("default-1", at(7200)));
    assert_eq!(found[0].message, "it has reached its expireAfter of 1h10m");
}

#[test]
fn a_claim_without_a_node_is_kept_with_a_reason() {
    let (_, mut claim, _) = node(0);
    claim.phase = Phase::Reserved;
    let cluster =
        Cluster { nodes: vec![ClusterNode { claim: Some(&claim), ..ClusterNode::default() }], ..Cluster::default() };
    let decision = decide(&cluster, now(), &options());
    assert_eq!(decision.kept[0].node, "default-0");
    assert_eq!(decision.kept[0].reasons[0].to_string(), "it is not initialized yet");
}
