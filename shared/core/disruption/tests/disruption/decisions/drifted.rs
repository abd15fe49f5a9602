//! Nodes that drift: why, and what becomes of them.

use super::*;

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

/// A node, and an EC2NodeClass with what the node was launched with.
fn with_class() -> World {
    World::new(1).with(|world| {
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
    })
}

/// The reason for which the node drifts after a change.
fn reason(change: impl FnOnce(&mut World)) -> Option<DriftReason> {
    let changed = with_class().with(change);
    let cluster = changed.cluster();
    let class = cluster.node_classes.get("default");
    drift(&changed.nodes[0].1, &cluster.node_pools[0], class, "v-test", now()).map(|drift| drift.reason)
}

#[test]
fn drift_from_the_node_pool_has_a_reason() {
    assert_eq!(reason(|_| ()), None);
    assert_eq!(reason(drift_pool), Some(DriftReason::NodePoolDrifted));
    // A hash that was made another way reports nothing.
    let adopted = |world: &mut World| {
        drift_pool(world);
        world.nodes[0].1.spec.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v3".into());
    };
    assert_eq!(reason(adopted), None);
    let require = |requirement: Requirement| {
        move |world: &mut World| world.pools[0].template.requirements.add("team", requirement)
    };
    assert_eq!(reason(require(Requirement::one_of(["a"]))), Some(DriftReason::RequirementsDrifted));
    assert_eq!(reason(require(Requirement::none_of(["a"]))), None);
    assert_eq!(
        reason(|world| world.types = vec![instance_type("m9.xlarge", 4, 0.2)].into()),
        Some(DriftReason::InstanceTypeNotFound)
    );
    assert_eq!(reason(|world| world.types = Vec::new().into()), None);
}

#[test]
fn drift_from_the_class_has_a_reason() {
    let class_hash = |version: &'static str| {
        move |world: &mut World| {
            let annotations = &mut world.nodes[0].1.spec.annotations;
            annotations.insert(labels::EC2_NODE_CLASS_HASH.into(), "class-0".into());
            annotations.insert(labels::EC2_NODE_CLASS_HASH_VERSION.into(), version.into());
        }
    };
    assert_eq!(reason(class_hash("v-test")), Some(DriftReason::NodeClassDrift));
    assert_eq!(reason(class_hash("v3")), None);
    let grouped = |world: &mut World| {
        world.nodes[0].1.status.labels.insert(labels::PLACEMENT_GROUP_ID.into(), "pg-1".into());
        let mut kind = instance_type("m9.large", 2, 0.1);
        kind.requirements.add(labels::PLACEMENT_GROUP_ID, Requirement::one_of(["pg-2"]));
        world.types = vec![kind].into();
    };
    assert_eq!(reason(grouped), Some(DriftReason::PlacementGroupDrift));
}

#[test]
fn drift_of_the_instance_has_a_reason() {
    let instance =
        |change: fn(&mut LaunchedInstance)| reason(|world| change(world.nodes[0].1.status.instance.as_mut().unwrap()));
    let later = instance(|it| it.image_id = "ami-0".into());
    assert_eq!(later, Some(DriftReason::AMIDrift), "the first that is for such nodes is the one");
    assert_eq!(instance(|it| it.image_id = "ami-arm".into()), Some(DriftReason::AMIDrift));
    assert_eq!(instance(|it| it.certificate_authority = Some("authority-1".into())), None);
    let earlier = instance(|it| it.certificate_authority = Some("authority-0".into()));
    assert_eq!(earlier, Some(DriftReason::NodeClassDrift));
    let groups = |ids: &[&str]| {
        reason(|world| {
            let instance = world.nodes[0].1.status.instance.as_mut().unwrap();
            instance.security_group_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        })
    };
    assert_eq!(groups(&["sg-1", "sg-2"]), None);
    assert_eq!(groups(&["sg-2"]), Some(DriftReason::SecurityGroupDrift));
    assert_eq!(groups(&["sg-1", "sg-2", "sg-3"]), Some(DriftReason::SecurityGroupDrift));
    assert_eq!(instance(|it| it.subnet_id = Some("subnet-2".into())), None);
    assert_eq!(instance(|it| it.subnet_id = Some("subnet-3".into())), Some(DriftReason::SubnetDrift));
    let reserved = |id: &str, kind: &str| {
        reason(|world| {
            let claim = &mut world.nodes[0].1;
            claim.status.labels.insert(labels::CAPACITY_TYPE.into(), kind.into());
            let instance = claim.status.instance.as_mut().unwrap();
            instance.capacity_type = CapacityType::from_label(kind).unwrap();
            instance.reservation_id = Some(id.into());
        })
    };
    assert_eq!(reserved("cr-1", "reserved"), None);
    assert_eq!(reserved("cr-2", "reserved"), Some(DriftReason::CapacityReservationDrift));
    assert_eq!(reserved("cr-2", "on-demand"), None, "EC2 matched it with an open reservation");
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
