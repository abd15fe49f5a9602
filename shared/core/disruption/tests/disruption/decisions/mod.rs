//! The nodes that are removed, and the messages for those that stay.

use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::held_back::{HeldBack, Hold, NodeShape};
use nodeless_disruption::*;
use nodeless_model::claim::{LaunchedInstance, NO_PODS, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::NodeCondition;
use nodeless_model::node_pool::{BudgetNodes, BudgetWindow, PoolUsage};
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
fn reports_why_a_node_stays() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 21] = [
        (
            "pod default/web fits on no other node; it costs $0.1000/h, and for the pods that fit on no other node \
             m9.large would cost $0.1000/h, which is no less",
            |w| w.nodes[0].2 = vec![web()],
        ),
        ("disruption is paused for the cluster", |w| {
            w.options.set(labels::PAUSE, Some("true"));
        }),
        ("disruption is paused for NodePool default until 1970-01-01T03:00:00Z", |w| {
            w.pools[0].options.set(labels::PAUSE, Some("1970-01-01T03:00:00Z"));
        }),
        ("it evicts and evicts", |w| {
            w.stopped.insert("default".into(), "it evicts and evicts".into());
            w.nodes[0].2 = vec![web()];
        }),
        ("it runs 1 pod, and consolidationPolicy is WhenEmpty", |w| {
            w.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmpty;
            w.nodes[0].2 = vec![web()];
        }),
        ("consolidateAfter is Never", |w| w.pools[0].disruption.consolidate_after = NillableDuration::Never),
        (
            "its pods changed less than consolidateAfter (2h) ago; it can be consolidated from 1970-01-01T03:00:00Z",
            |w| {
                w.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::from_secs(7200));
            },
        ),
        (
            "its pods changed less than consolidateAfter (30s) ago; it can be consolidated from 1970-01-01T02:00:10Z",
            |w| {
                w.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::from_secs(30));
                w.nodes[0].1.status.last_pod_event = Some(at(7180));
            },
        ),
        ("it is not initialized yet", |w| {
            w.nodes[0].0.labels.remove(labels::INITIALIZED);
            w.nodes[0].1.phase = Phase::Registered;
        }),
        ("it is already terminating", |w| w.nodes[0].1.phase = Phase::Draining),
        ("it is already terminating", |w| w.nodes[0].0.taints = vec![Taint::disrupted()]),
        ("it is already terminating", |w| w.nodes[0].0.deletion_timestamp = Some(now())),
        ("it is annotated karpenter.sh/do-not-disrupt", |w| {
            w.nodes[0].0.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
        }),
        ("pod default/web is annotated karpenter.sh/do-not-disrupt", |w| {
            let mut daemon = web();
            daemon.owner_kind = Some("DaemonSet".into());
            daemon.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
            w.nodes[0].2 = vec![daemon];
        }),
        ("its NodePool gone does not exist", |w| w.nodes[0].1.node_pool = Some("gone".into())),
        ("NodePool default keeps a fixed number of nodes", |w| w.pools[0].replicas = Some(1)),
        ("pending pod default/waiting fits on it", |w| w.pending = vec![pod("waiting")]),
        ("it is nominated for pending pods until 1970-01-01T02:00:10Z", |w| {
            w.nodes[0].1.spec.nominated_pods = vec!["default/waiting".into()];
            w.nodes[0].1.clear_condition(condition::INITIALIZED);
            w.nodes[0].1.set_condition(condition::INITIALIZED, ConditionStatus::True, "", "", at(7190));
        }),
        (
            "the disruption budgets of NodePool default allow 0 at once for Empty (spec.disruption.budgets[0]), and 0 are disrupted or not ready",
            |w| {
                w.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(0))];
            },
        ),
        (
            "the disruption budgets of NodePool default allow 1 at once for Empty (spec.disruption.budgets[0]), and 1 is disrupted or not ready",
            |w| {
                w.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(1))];
                w.nodes[0].0.conditions[0].status = Some(false);
            },
        ),
        (
            "the disruption budgets of NodePool default allow 0 at once for Empty (spec.disruption.budgets[0]), and 0 are disrupted or not ready",
            |w| {
                let window = BudgetWindow { schedule: "every day".into(), duration: Duration::from_secs(60) };
                w.pools[0].disruption.budgets =
                    vec![Budget { window: Some(window), ..budget(BudgetNodes::Percent(100)) }];
            },
        ),
    ];
    for (expected, change) in cases {
        assert_eq!(World::new(1).with(change).kept(), expected);
    }
}

#[test]
fn budgets_bound_how_many_go() {
    for (nodes, budgets, going) in [
        (10, vec![budget(BudgetNodes::Percent(10))], 1),
        (11, vec![budget(BudgetNodes::Percent(10))], 2),
        (10, vec![budget(BudgetNodes::Count(3)), budget(BudgetNodes::Percent(50))], 3),
        (10, vec![], 10),
        (4, vec![Budget { reasons: vec![DisruptionReason::Drifted], ..budget(BudgetNodes::Count(0)) }], 4),
        (4, vec![Budget { reasons: vec![DisruptionReason::Empty], ..budget(BudgetNodes::Count(2)) }], 2),
    ] {
        let world = World::new(nodes).with(|world| world.pools[0].disruption.budgets = budgets.clone());
        assert_eq!(world.going().len(), going, "{budgets:?}");
    }
}

#[test]
fn a_budget_holds_only_inside_its_window() {
    let blocked = |schedule: &str| {
        let window = BudgetWindow { schedule: schedule.into(), duration: Duration::from_secs(3600) };
        let world = World::new(1).with(|world| {
            world.pools[0].disruption.budgets = vec![Budget { window: Some(window), ..budget(BudgetNodes::Count(0)) }];
        });
        world.going().is_empty()
    };
    // The time is two o'clock on a Thursday.
    assert!(blocked("0 2 * * *") && blocked("30 1 * * thu"));
    assert!(!blocked("0 1 * * *") && !blocked("30 1 * * fri"));
}

#[test]
fn a_bad_schedule_is_reported_on_the_pool() {
    let world = World::new(1).with(|world| {
        let window = BudgetWindow { schedule: "0 25 * * *".into(), duration: Duration::from_secs(60) };
        world.pools[0].disruption.budgets = vec![Budget { window: Some(window), ..budget(BudgetNodes::Count(1)) }];
    });
    let events = world.decide().events;
    let event = events.iter().find(|event| event.is_warning()).expect("a warning");
    assert_eq!((event.object.kind.as_str(), event.reason.as_str()), ("NodePool", "DisruptionBlocked"));
    assert!(event.message.contains("\"0 25 * * *\" is not a schedule: the hour \"25\""), "{}", event.message);
}

#[test]
fn a_bad_annotation_protects_nothing_and_is_reported_on_the_pod() {
    let mut daemon = web();
    daemon.owner_kind = Some("DaemonSet".into());
    daemon.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "sometimes".into());
    let world = World::new(1).with(|world| world.nodes[0].2 = vec![daemon]);
    let decision = world.decide();
    assert_eq!(decision.commands.len(), 1);
    assert_eq!(decision.events[0].reason, "InvalidDoNotDisruptAnnotation");
}

#[test]
fn a_pod_is_protected_for_a_duration_from_its_start() {
    for (start, protected) in [(Some(at(7200 - 1799)), true), (Some(at(7200 - 1800)), false), (None, true)] {
        let mut daemon = web();
        daemon.owner_kind = Some("DaemonSet".into());
        daemon.start_time = start;
        daemon.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "30m".into());
        let world = World::new(1).with(|world| world.nodes[0].2 = vec![daemon]);
        assert_eq!(world.going().is_empty(), protected, "{start:?}");
    }
}

fn drift_pool(world: &mut World) {
    world.pools[0].hash = "hash-2".into();
}

#[test]
fn what_blocks_drift_is_named_once() {
    let mut protected = web();
    protected.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let world = World::new(1).with(drift_pool).with(|world| world.nodes[0].2 = vec![protected.clone()]);
    let decision = decide(&world.cluster(), now(), &Options { explain: true, ..options() });
    assert_eq!(decision.commands, []);
    let reasons: Vec<String> = decision.kept[0].reasons.iter().map(ToString::to_string).collect();
    assert_eq!(reasons.iter().filter(|why| why.contains("do-not-disrupt")).count(), 1, "{reasons:?}");
}

#[test]
fn a_drifted_node_is_replaced() {
    let world = World::new(1).with(drift_pool).with(|world| world.nodes[0].2 = vec![web()]);
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!((command.method, command.reason), (Method::Drift, DisruptionReason::Drifted));
    assert_eq!(command.replacements[0].pods, ["default/web"]);
    assert_eq!(command.replacements[0].launch.offering.instance_type, "m9.large");
    assert_eq!(command.evictions.len(), 1);
    assert!(command.savings_per_hour.abs() < 1e-9);
}

#[test]
fn a_drifted_node_whose_pods_fit_elsewhere_needs_no_replacement() {
    let mut elsewhere = web();
    elsewhere.name = "other".into();
    let world = World::new(2).with(drift_pool).with(|world| {
        world.nodes[0].2 = vec![web()];
        world.nodes[1].2 = vec![elsewhere];
    });
    let decision = world.decide();
    assert_eq!(decision.commands[0].candidates[0].node, "node-0");
    assert!(decision.commands[0].replacements.is_empty());
    let kept: Vec<String> = decision.kept[0].reasons.iter().map(ToString::to_string).collect();
    assert!(kept[0].starts_with("it drifted (NodePoolDrifted): the template of NodePool default changed"), "{kept:?}");
}

#[test]
fn a_drifted_node_stays_while_its_pods_cannot_move() {
    let drifted = |change: fn(&mut World)| {
        World::new(1).with(drift_pool).with(|world| world.nodes[0].2 = vec![web()]).with(change).kept()
    };
    let pdb = |name: &str| PodDisruptionBudget {
        namespace: "default".into(),
        name: name.into(),
        selector: Some(LabelSelector::default()),
        ..PodDisruptionBudget::default()
    };
    let world = World::new(1).with(drift_pool).with(|world| {
        world.nodes[0].2 = vec![web()];
        world.budgets = vec![pdb("web")];
    });
    assert!(world.kept().ends_with("PodDisruptionBudget default/web allows no eviction of pod default/web"));
    let world = world.with(|world| world.budgets.push(pdb("all")));
    assert!(
        world.kept().ends_with("cover pod default/web, and a pod with several cannot be evicted"),
        "{}",
        world.kept()
    );
    let world = world.with(|world| world.nodes[0].1.spec.termination_grace_period = Some(Duration::from_secs(60)));
    assert_eq!(world.going(), ["node-0"]);

    let stuck = drifted(|world| world.nodes[0].2[0].template_mut().requests.set("cpu", Quantity::from_units(9)));
    assert!(
        stuck.contains(
            "but pod default/web cannot be scheduled elsewhere: NodePool default: no instance type has enough cpu"
        ),
        "{stuck}"
    );
    let held = drifted(|world| {
        world.pools[0].disruption.budgets =
            vec![Budget { reasons: vec![DisruptionReason::Drifted], ..budget(BudgetNodes::Count(0)) }];
    });
    assert!(held.contains("allow 0 at once for Drifted"), "{held}");
}

#[test]
fn drift_has_a_reason() {
    let world = World::new(1).with(|world| {
        let image = |id: &str, arch: &str| ClassImage {
            id: id.into(),
            requirements: Requirements::from([(labels::ARCH, Requirement::one_of([arch]))]),
        };
        let class = NodeClassFacts {
            hash: "class-1".into(),
            images: vec![image("ami-arm", "arm64"), image("ami-1", "amd64"), image("ami-0", "amd64")],
            subnet_ids: ["subnet-1".to_owned(), "subnet-2".to_owned()].into(),
            security_group_ids: ["sg-1".to_owned(), "sg-2".to_owned()].into(),
            reservation_ids: ["cr-1".to_owned()].into(),
            certificate_authority: Some("authority-1".into()),
        };
        world.classes.insert("default".into(), class);
    });
    let reason = |change: &dyn Fn(&mut World)| {
        let mut changed = World { nodes: world.nodes.clone(), classes: world.classes.clone(), ..World::new(0) };
        change(&mut changed);
        let cluster = changed.cluster();
        let class = cluster.node_classes.get("default");
        drift(&changed.nodes[0].1, &cluster.node_pools[0], class, "v-test", now()).map(|drift| drift.reason)
    };
    let class_hash = |world: &mut World, version: &str| {
        let annotations = &mut world.nodes[0].1.spec.annotations;
        annotations.insert(labels::EC2_NODE_CLASS_HASH.into(), "class-0".into());
        annotations.insert(labels::EC2_NODE_CLASS_HASH_VERSION.into(), version.into());
    };
    assert_eq!(reason(&|_| ()), None);
    assert_eq!(reason(&drift_pool), Some(DriftReason::NodePoolDrifted));
    // A hash that was made another way reports nothing.
    let adopted = |world: &mut World| {
        drift_pool(world);
        world.nodes[0].1.spec.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v3".into());
    };
    assert_eq!(reason(&adopted), None);
    let require = |requirement: Requirement| {
        move |world: &mut World| world.pools[0].template.requirements.add("team", requirement.clone())
    };
    assert_eq!(reason(&require(Requirement::one_of(["a"]))), Some(DriftReason::RequirementsDrifted));
    assert_eq!(reason(&require(Requirement::none_of(["a"]))), None);
    assert_eq!(
        reason(&|world| world.types = vec![instance_type("m9.xlarge", 4, 0.2)].into()),
        Some(DriftReason::InstanceTypeNotFound)
    );
    assert_eq!(reason(&|world| world.types = Vec::new().into()), None);
    assert_eq!(reason(&|world| class_hash(world, "v-test")), Some(DriftReason::NodeClassDrift));
    assert_eq!(reason(&|world| class_hash(world, "v3")), None);
    let other_image = |world: &mut World| {
        world.nodes[0].1.status.instance.as_mut().unwrap().image_id = "ami-0".into();
    };
    assert_eq!(reason(&other_image), Some(DriftReason::AMIDrift), "the first that is for such nodes is the one");
    let instance = |change: fn(&mut LaunchedInstance)| {
        move |world: &mut World| change(world.nodes[0].1.status.instance.as_mut().unwrap())
    };
    assert_eq!(reason(&instance(|it| it.image_id = "ami-arm".into())), Some(DriftReason::AMIDrift));
    assert_eq!(reason(&instance(|it| it.certificate_authority = Some("authority-1".into()))), None);
    let earlier = instance(|it| it.certificate_authority = Some("authority-0".into()));
    assert_eq!(reason(&earlier), Some(DriftReason::NodeClassDrift));
    let groups = |ids: &'static [&'static str]| {
        move |world: &mut World| {
            let instance = world.nodes[0].1.status.instance.as_mut().unwrap();
            instance.security_group_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        }
    };
    assert_eq!(reason(&groups(&["sg-1", "sg-2"])), None);
    assert_eq!(reason(&groups(&["sg-2"])), Some(DriftReason::SecurityGroupDrift));
    assert_eq!(reason(&groups(&["sg-1", "sg-2", "sg-3"])), Some(DriftReason::SecurityGroupDrift));
    assert_eq!(reason(&instance(|it| it.subnet_id = Some("subnet-2".into()))), None);
    assert_eq!(reason(&instance(|it| it.subnet_id = Some("subnet-3".into()))), Some(DriftReason::SubnetDrift));
    let reserved = |id: &'static str, kind: &'static str| {
        move |world: &mut World| {
            let claim = &mut world.nodes[0].1;
            claim.status.labels.insert(labels::CAPACITY_TYPE.into(), kind.into());
            let instance = claim.status.instance.as_mut().unwrap();
            instance.capacity_type = CapacityType::from_label(kind).unwrap();
            instance.reservation_id = Some(id.into());
        }
    };
    assert_eq!(reason(&reserved("cr-1", "reserved")), None);
    assert_eq!(reason(&reserved("cr-2", "reserved")), Some(DriftReason::CapacityReservationDrift));
    assert_eq!(reason(&reserved("cr-2", "on-demand")), None, "EC2 matched it with an open reservation");
    let grouped = |world: &mut World| {
        world.nodes[0].1.status.labels.insert(labels::PLACEMENT_GROUP_ID.into(), "pg-1".into());
        let mut kind = instance_type("m9.large", 2, 0.1);
        kind.requirements.add(labels::PLACEMENT_GROUP_ID, Requirement::one_of(["pg-2"]));
        world.types = vec![kind].into();
    };
    assert_eq!(reason(&grouped), Some(DriftReason::PlacementGroupDrift));
}

#[test]
fn a_root_volume_that_is_smaller_than_the_node_pool_states_is_drift() {
    let found = |own: Option<u32>, least: Option<u32>| {
        let world = World::new(1).with(|world| {
            let mut kind = instance_type("m9.large", 2, 0.1);
            let planned = RootVolume { gib: 500, dollars_per_hour: 0.05 };
            kind.root_volume = least.map(|least_gib| RootVolumes { planned, least_gib, class_gib: 20 });
            world.types = vec![kind].into();
            let volume = own.map(|gib| RootVolume { gib, dollars_per_hour: 0.0 });
            world.nodes[0].1.status.root_volume = volume;
        });
        let cluster = world.cluster();
        drift(&world.nodes[0].1, &cluster.node_pools[0], None, "v-test", now())
    };
    assert_eq!(found(None, None), None);
    assert_eq!(found(None, Some(20)), None, "the volume of the EC2NodeClass is large enough");
    assert_eq!(found(Some(60), Some(28)), None, "a larger one is no drift");
    assert_eq!(found(Some(60), None), None, "the NodePool no longer states one");
    let drift = found(Some(28), Some(36)).unwrap();
    assert_eq!(drift.reason, DriftReason::NodePoolDrifted);
    let why = "its root volume has 28 GiB, and nodeless.sh/root-volume of NodePool default states 36 for m9.large";
    assert_eq!(drift.message, why);
    assert!(found(None, Some(28)).unwrap().message.starts_with("its root volume has 20 GiB"));
}

#[test]
fn a_node_outside_the_reservations_of_its_class_goes_once_that_is_sure() {
    let world = |noted: Option<i64>| {
        World::new(1).with(|world| {
            world.classes.insert("default".into(), NodeClassFacts { hash: "class-1".into(), ..Default::default() });
            let (_, claim, pods) = &mut world.nodes[0];
            *pods = vec![web()];
            claim.status.labels.insert(labels::CAPACITY_TYPE.into(), "reserved".into());
            let instance = claim.status.instance.as_mut().unwrap();
            (instance.capacity_type, instance.reservation_id) = (CapacityType::Reserved, Some("cr-2".into()));
            if let Some(since) = noted {
                let reason = DriftReason::CapacityReservationDrift.as_str();
                claim.set_condition(condition::DRIFTED, ConditionStatus::True, reason, "", at(7200 - since));
            }
        })
    };
    let drifts = |world: &World| world.decide().commands.iter().any(|command| command.method == Method::Drift);
    assert!(!drifts(&world(None)));
    assert!(!drifts(&world(Some(179))));
    assert!(drifts(&world(Some(180))));
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

/// A hold on nodes of this shape until a minute from now, as long as they run these Deployments.
fn hold(instance_type: &str, capacity_type: CapacityType, deployments: &[&str]) -> BTreeMap<String, HeldBack> {
    let workload =
        |name: &&str| Workload { namespace: "default".into(), kind: "Deployment".into(), name: (*name).to_owned() };
    let hold = Hold {
        shape: NodeShape { instance_type: instance_type.into(), capacity_type },
        workloads: deployments.iter().map(workload).collect(),
        since: at(7140),
        until: at(7260),
    };
    BTreeMap::from([("default".to_owned(), HeldBack { removals: Vec::new(), holds: vec![hold] })])
}

/// Two nodes with a pod each, of the Deployments `web` and `api`; a node has the capacity for both.
fn two_nodes() -> World {
    World::new(2).with(|world| {
        for (index, name) in ["web", "api"].into_iter().enumerate() {
            let labels = StringMap::from([("pod-template-hash".into(), "1".into())]);
            let owner_name = Some(format!("{name}-1"));
            let mut running = Pod { node_name: Some(format!("node-{index}")), owner_name, ..pod(name) }
                .with_template(|it| it.labels = labels);
            running.template_mut().requests =
                resources(1).with("pods", Quantity::from_units(1)).with("memory", Quantity::from_mebibytes(64));
            world.nodes[index].2 = vec![running];
        }
    })
}

#[test]
fn a_node_whose_like_was_removed_in_vain_is_not_consolidated_for_a_time() {
    let world = two_nodes();
    let going = |held_back: &BTreeMap<String, HeldBack>, now: Timestamp| {
        let cluster = Cluster { held_back: held_back.clone(), ..world.cluster() };
        let decision = decide(&cluster, now, &options());
        let nodes: Vec<String> =
            decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.clone()).collect();
        (nodes.join(" "), decision)
    };
    let none = BTreeMap::new();
    let on_demand = CapacityType::OnDemand;
    let first = going(&none, now()).0;
    assert!(first == "node-0" || first == "node-1", "one of them goes: {first:?}");
    let both = hold("m9.large", on_demand, &["web"]);
    let held = going(&both, now());
    assert_eq!(held.0, "node-1", "the other one");
    let kept = held.1.kept.iter().find(|kept| kept.node == "node-0").unwrap();
    assert_eq!(
        kept.reasons[0].to_string(),
        "consolidation removed such a node, and another was launched for pods of Deployment default/web; nodes of this \
         instance type with these pods are not consolidated until 1970-01-01T02:01:00Z"
    );
    assert_eq!(kept.reasons[0].event(), Some(KeptEvent::Unconsolidatable));
    for other in [
        hold("m9.xlarge", on_demand, &["web"]),
        hold("m9.large", CapacityType::Spot, &["web"]),
        hold("m9.large", on_demand, &["web", "api"]),
    ] {
        assert_eq!(going(&other, now()).0, first, "{other:?}");
    }
    assert_eq!(going(&both, at(7260)).0, first, "the hold has ended");
    // An earlier decision is not executed either.
    let command = going(&none, now()).1.commands.remove(0);
    let deployment = if first == "node-0" { "web" } else { "api" };
    let cluster = Cluster { held_back: hold("m9.large", on_demand, &[deployment]), ..world.cluster() };
    assert!(revalidate(&command, &world.cluster(), at(7220), &options()).is_some());
    assert_eq!(revalidate(&command, &cluster, at(7220), &options()), None);
}

#[test]
fn empty_and_drifted_nodes_are_not_held_back() {
    let held = hold("m9.large", CapacityType::OnDemand, &["web"]);
    let mut world = two_nodes();
    world.nodes[0].1.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "old".into());
    let cluster = Cluster { held_back: held.clone(), ..world.cluster() };
    let decision = decide(&cluster, now(), &options());
    assert_eq!(
        (decision.commands[0].method, decision.commands[0].candidates[0].node.as_str()),
        (Method::Drift, "node-0")
    );
    let mut world = two_nodes();
    world.nodes[0].2[0].template_mut().annotations.insert(labels::POD_DELETION_COST.into(), "-134217728".into());
    let cluster = Cluster { held_back: held, ..world.cluster() };
    let decision = decide(&cluster, now(), &options());
    assert_eq!(
        (decision.commands[0].method, decision.commands[0].candidates[0].node.as_str()),
        (Method::Emptiness, "node-0")
    );
}
