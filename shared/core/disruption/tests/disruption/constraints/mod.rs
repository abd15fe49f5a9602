//! The constraints that consolidation respects, one by one: each node here would be removed or replaced by something cheaper,
//! were it not for one constraint. `docs/scheduling-constraints.md` lists them; those of topology are in `topology.rs`.

mod daemon_sets;
mod volumes;

use crate::support::first_node::*;
use crate::support::*;
use nodeless_model::pod::HostPort;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::*;
use nodeless_scheduling::MinValuesPolicy;
use std::collections::BTreeSet;

#[test]
fn labels_decide_where_pods_move() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let decide = |terms: Vec<Vec<RequirementTerm>>| {
        let mut world = pair(web("mover").with_template(|it| it.required_node_affinity = terms));
        for (place, labels) in [
            (0, [("tier", "gold"), ("level", "5"), ("load", "1"), ("special", "yes")]),
            (1, [("tier", "silver"), ("level", "3"), ("load", "7"), ("plain", "yes")]),
        ] {
            world.places[place].node.labels.extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        goes(&world)
    };
    assert!(decide(Vec::new()));
    for (holds, breaks) in [
        (term("tier", In, &["silver"]), term("tier", In, &["gold"])),
        (term("tier", NotIn, &["gold"]), term("tier", NotIn, &["silver"])),
        (term("plain", Exists, &[]), term("special", Exists, &[])),
        (term("special", DoesNotExist, &[]), term("plain", DoesNotExist, &[])),
        (term("level", Gt, &["2"]), term("level", Gt, &["4"])),
        (term("load", Lt, &["9"]), term("load", Lt, &["5"])),
    ] {
        assert!(!decide(vec![vec![breaks.clone()]]), "{breaks:?}");
        assert!(decide(vec![vec![holds.clone()]]), "{holds:?}");
        assert!(decide(vec![vec![breaks], vec![holds.clone()]]), "any of two terms will do: {holds:?}");
    }
    let mut selecting = web("mover");
    selecting.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[0].into());
    assert!(goes(&pair(selecting.clone())));
    selecting.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[1].into());
    assert!(!goes(&pair(selecting)));
}

#[test]
fn a_replacement_meets_what_the_pool_and_the_pod_ask_of_labels() {
    let types = |pool: Requirements, pod: Pod| {
        let mut world = oversized(vec![pod]);
        world.pools[0].template.requirements.add_all(&pool);
        replaced(&world).unwrap().0
    };
    assert_eq!(types(Requirements::new(), web("a")), ["c9.large"]);
    let family = Requirements::from([(labels::INSTANCE_FAMILY, Requirement::one_of(["m9", "r9"]))]);
    assert_eq!(types(family.clone(), web("a")), ["m9.large"]);
    let mut choosy = web("a");
    choosy.template_mut().required_node_affinity = vec![vec![term(labels::INSTANCE_FAMILY, Operator::NotIn, &["m9"])]];
    assert_eq!(types(family, choosy), ["r9.large"]);
    let bounds = [(Operator::Gte, "4"), (Operator::Lte, "16")]
        .map(|(operator, bound)| term(labels::INSTANCE_CPU, operator, &[bound]));
    assert_eq!(types(Requirements::from_terms(&bounds).unwrap(), web("a")), ["c9.xlarge"], "bounds from both sides");
}

#[test]
fn a_replacement_has_the_value_that_a_pod_asks_of_a_label_of_the_users_own() {
    let mut racked = web("a");
    racked.template_mut().node_selector.insert("rack".into(), "r7".into());
    let mut world = oversized(vec![racked]);
    let place = &mut world.places[0];
    for labels in [&mut place.node.labels, &mut place.claim.status.labels] {
        labels.insert("rack".into(), "r7".into());
    }
    assert!(!goes(&world), "nothing new has the label");
    world.pools[0].template.requirements.add("rack", Requirement::exists());
    let (_, command) = replaced(&world).unwrap();
    assert_eq!(command.replacements[0].launch.requirements.get("rack").unwrap().single(), Some("r7"));
}

#[test]
fn min_values_hold_for_what_is_cheaper() {
    // Only c9.large is cheaper than m9.large.
    let decide = |kind: &str, least: Option<u32>| {
        let mut world = world();
        world.on_demand(kind, vec![web("a")]);
        let families = Requirement::exists().with_min_values(least);
        world.pools[0].template.requirements.add(labels::INSTANCE_FAMILY, families);
        world
    };
    assert!(goes(&decide("m9.large", None)));
    let short = decide("m9.large", Some(2));
    assert!(!goes(&short) && short.kept(0).contains("minValues"), "{}", short.kept(0));
    let (_, command) = replaced(&decide("m9.xlarge", Some(3))).unwrap();
    let families: BTreeSet<&str> =
        command.replacements[0].launch.instance_types.iter().map(|kind| &kind.name[..2]).collect();
    assert_eq!(families.len(), 3, "{command:#?}");
    // There are no more than three families at any price, and `minValues` are not relaxed to save.
    let mut relaxed = decide("m9.xlarge", Some(4));
    assert!(!goes(&relaxed));
    relaxed.options.scheduling.min_values = MinValuesPolicy::BestEffort;
    assert!(!goes(&relaxed));
}

/// A replacement is spot only, because on-demand could cost more: the API server refuses a NodeClaim with fewer values than `minValues`.
#[test]
fn min_values_count_the_capacity_types_that_a_replacement_may_have() {
    let decide = |least: Option<u32>| {
        let mut world = oversized(vec![web("a")]);
        let both = Requirement::one_of(["spot", "on-demand"]).with_min_values(least);
        world.pools[0].template.requirements.remove(labels::CAPACITY_TYPE);
        world.pools[0].template.requirements.add(labels::CAPACITY_TYPE, both);
        world
    };
    let (_, command) = replaced(&decide(None)).unwrap();
    let capacity_types = command.replacements[0].launch.requirements.get(labels::CAPACITY_TYPE);
    assert_eq!(capacity_types.and_then(Requirement::single), Some("spot"));
    let short = decide(Some(2));
    assert!(!goes(&short), "{:#?}", commands(&short));
    assert!(short.kept(0).contains("minValues"), "{}", short.kept(0));
}

#[test]
fn taints_of_other_nodes_have_to_be_tolerated() {
    let decide = |effect: Option<TaintEffect>, tolerates: bool| {
        let mut mover = web("mover");
        if tolerates {
            let exists = Toleration { operator: taint::TolerationOperator::Exists, ..Toleration::default() };
            mover.template_mut().tolerations = vec![Toleration { key: "team".into(), ..exists }];
        }
        let mut world = pair(mover);
        world.places[1].node.taints.extend(effect.map(|effect| Taint::new("team", effect)));
        goes(&world)
    };
    assert!(decide(None, false));
    for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
        assert!(!decide(Some(effect), false), "{effect:?}");
        assert!(decide(Some(effect), true), "{effect:?}");
    }
}

#[test]
fn taints_of_pools_have_to_be_tolerated_but_startup_taints_do_not() {
    let decide = |change: fn(&mut NodeTemplate)| {
        let mut world = oversized(vec![web("a")]);
        change(&mut world.pools[0].template);
        goes(&world)
    };
    assert!(decide(|_| ()));
    assert!(!decide(|template| template.taints.push(Taint::new("team", TaintEffect::NoSchedule))));
    assert!(decide(|template| template.startup_taints.push(Taint::new("team", TaintEffect::NoSchedule))));
}

#[test]
fn host_ports_are_taken_once_a_node() {
    let port = |ip: &str, port, protocol: &str| HostPort { ip: ip.into(), port, protocol: protocol.into() };
    let decide = |there: HostPort, of_daemon_set: bool| {
        let mut mover = web("mover");
        mover.template_mut().host_ports = vec![port("", 80, "TCP")];
        let mut world = pair(mover);
        if of_daemon_set {
            let mut template = pod("agent", 10, 10);
            template.template_mut().host_ports = vec![there];
            template.template_mut().node_selector.insert(labels::HOSTNAME.into(), world.places[1].node.name.clone());
            world.daemon_sets =
                vec![DaemonSet { namespace: "default".into(), name: "agent".into(), template, ..DaemonSet::default() }];
        } else {
            world.places[1].pods[0].template_mut().host_ports = vec![there];
        }
        goes(&world)
    };
    for of_daemon_set in [false, true] {
        assert!(decide(port("", 81, "TCP"), of_daemon_set));
        assert!(decide(port("", 80, "UDP"), of_daemon_set));
        assert!(!decide(port("", 80, "TCP"), of_daemon_set));
        assert!(!decide(port("10.0.0.1", 80, "TCP"), of_daemon_set), "all addresses clash with each");
    }
}

#[test]
fn extended_resources_are_there_or_not() {
    let decide = |asked: i64, there: i64| {
        let mut mover = web("mover");
        mover.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(asked));
        let mut world = pair(mover);
        world.places[1].node.allocatable.set("nvidia.com/gpu", Quantity::from_units(there));
        goes(&world)
    };
    assert!(decide(0, 0));
    assert!(!decide(1, 0));
    assert!(!decide(2, 1));
    assert!(decide(1, 1));
}

#[test]
fn pods_move_only_to_nodes_that_take_them() {
    let decide = |change: fn(&mut Place)| {
        let mut world = world();
        going(&mut world, ZONES[0], vec![web("mover")]);
        // The pods of this node are too large for the first node, which therefore waits for none of them.
        change(world.on_demand("c9.xlarge", vec![held(pod("filler", 3000, 512))]));
        goes(&world)
    };
    assert!(decide(|_| ()));
    assert!(!decide(|place| place.node.unschedulable = true), "cordoned");
    assert!(!decide(|place| place.node.deletion_timestamp = Some(at(7000))), "its Node is being deleted");
    let on_its_way = |place: &mut Place| {
        place.claim.phase = Phase::Registered;
        place.node.labels.remove(labels::INITIALIZED);
    };
    assert!(!decide(on_its_way), "not initialised");
    assert!(!decide(|place| place.claim.phase = Phase::Terminating), "going away");
}

#[test]
fn a_pool_that_may_not_launch_gives_no_replacement() {
    let decide = |change: fn(&mut NodePool)| {
        let mut world = oversized(vec![web("a")]);
        world.pools.push(node_pool("other"));
        world.places[0].claim.node_pool = Some("other".into());
        world.places[0].node.labels.insert(labels::NODE_POOL.into(), "other".into());
        // So that only the first launches.
        world.pools[1].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
        change(&mut world.pools[0]);
        goes(&world)
    };
    assert!(decide(|_| ()));
    assert!(!decide(|pool| pool.deleting = true), "it is being deleted");
    assert!(!decide(|pool| pool.replicas = Some(1)), "a fixed number");
    assert!(!decide(|pool| pool.ready = Err("no".into())), "not ready");
    assert!(!decide(|pool| pool.limits = ResourceList::from([("cpu", Quantity::from_units(1))])), "at its limit");
    assert!(!decide(|pool| pool.limit_dollars_per_hour = Some(0.01)), "too dear");
}

#[test]
fn pods_do_not_leave_a_heavier_pool_for_a_lighter_one() {
    let decide = |weight: i32| {
        let mut world = oversized(vec![web("a")]);
        world.pools[0].weight = weight;
        world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
        world.pools.push(node_pool("lighter"));
        world
    };
    assert!(goes(&decide(0)));
    let kept = decide(10);
    assert!(!goes(&kept), "{}", kept.kept(0));
    assert!(kept.kept(0).contains("lighter"), "{}", kept.kept(0));
}

#[test]
fn a_replacement_is_of_what_can_be_had_now() {
    let mut world = oversized(vec![web("a")]);
    assert_eq!(replaced(&world).unwrap().0, ["c9.large"]);
    let mut types = world.types.to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name.starts_with("c9")) {
        kind.offerings.iter_mut().for_each(|offering| offering.available = false);
    }
    world.types = types.into();
    assert_eq!(replaced(&world).unwrap().0, ["m9.large"]);
}

#[test]
fn a_reservation_is_used_only_as_often_as_it_has_instances_left() {
    let decide = |remaining: u32| {
        let mut world = world();
        let capacity_types = Requirement::one_of(["on-demand", "reserved"]);
        world.pools[0].template.requirements = Requirements::from([(labels::CAPACITY_TYPE, capacity_types)]);
        for name in ["a", "b"] {
            world.on_demand("m9.large", vec![pod(name, 1500, 5 * 1024)]);
        }
        let mut types = world.types.to_vec();
        let kind = types.iter_mut().find(|kind| kind.name == "m9.large").unwrap();
        kind.requirements.remove(labels::CAPACITY_TYPE);
        kind.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot", "reserved"]));
        kind.offerings.push(Offering {
            capacity_type: CapacityType::Reserved,
            price: 0.001,
            reservation: Some(Reservation { id: "cr-1".into(), remaining, each: 1, reuse: Reuse::No }),
            requirements: Requirements::from([(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(["cr-1"]))]),
            ..kind.offerings[0].clone()
        });
        world.types = types.into();
        commands(&world).iter().map(|command| command.candidates.len()).sum::<usize>()
    };
    // With one instance left, only one of the nodes goes: the other would come again at the same price.
    assert_eq!([decide(0), decide(1), decide(2)], [0, 1, 2]);
}

#[test]
fn unschedulable_pods_keep_their_node() {
    let decide = |change: &dyn Fn(&mut Pod)| {
        let mut mover = web("mover");
        change(&mut mover);
        goes(&pair(mover))
    };
    assert!(decide(&|_| ()));
    assert!(
        !decide(&|pod| pod.template_mut().resource_claims =
            vec![pod::ResourceClaim { name: "gpu".into(), ..Default::default() }]),
        "Dynamic Resource Allocation"
    );
    assert!(!decide(&|pod| pod.template_mut().has_match_fields = true), "matchFields");
    let key = |index: usize| Toleration { key: format!("example.com/{index}"), ..Toleration::default() };
    assert!(decide(&|pod| pod.template_mut().tolerations = (0..100).map(key).collect()), "the maximum");
    assert!(!decide(&|pod| pod.template_mut().tolerations = (0..101).map(key).collect()), "too many tolerations");
}

#[test]
fn the_intersection_of_the_requirements_of_pool_and_pod_holds_for_replacements() {
    let decide = |of_pod: &[&str]| {
        let mut choosy = web("a");
        choosy.template_mut().required_node_affinity = vec![vec![term(labels::INSTANCE_FAMILY, Operator::In, of_pod)]];
        let mut world = oversized(vec![choosy]);
        world.pools[0].template.requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of(["c9", "m9"]));
        world
    };
    let (types, command) = replaced(&decide(&["m9", "r9"])).unwrap();
    assert_eq!(types, ["m9.large"]);
    let family = command.replacements[0].launch.requirements.get(labels::INSTANCE_FAMILY).and_then(Requirement::single);
    assert_eq!(family, Some("m9"));
    assert!(!goes(&decide(&["r9"])), "they have nothing in common");
}

#[test]
fn requests_decide_where_pods_move() {
    let decide = |resource: &str, amount: Quantity| {
        let mut mover = web("mover");
        mover.template_mut().requests.set(resource, amount);
        goes(&pair(mover))
    };
    // The other node has 600 thousandths of a cpu and 3.5 GiB left.
    assert!(decide("cpu", Quantity::from_milli(600)));
    assert!(!decide("cpu", Quantity::from_milli(601)));
    assert!(decide("memory", Quantity::from_mebibytes(3584)));
    assert!(!decide("memory", Quantity::from_mebibytes(3585)));
}

#[test]
fn no_pod_is_left_out_for_one_of_higher_priority() {
    let decide = |cpu_limit: i64| {
        let mut pods = [pod("high", 1500, 512), pod("low", 1500, 512)];
        pods[0].template_mut().priority = 1000;
        let mut world = oversized(pods.into());
        world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(cpu_limit))]);
        goes(&world)
    };
    // Until it is removed, the node counts with its 16 cpus. The pods need 4 together, and 2 alone.
    assert!(decide(20));
    assert!(!decide(18));
}

#[test]
fn prices_of_overlays_decide_about_replacements() {
    // A NodeOverlay changes the instance types before a decision.
    let overlaid = |price: f64| {
        let mut world = oversized(vec![web("a")]);
        let mut types = world.types.to_vec();
        for kind in types.iter_mut().filter(|kind| kind.name != "m9.4xlarge") {
            kind.offerings.iter_mut().for_each(|offering| offering.price = price);
        }
        world.types = types.into();
        goes(&world)
    };
    assert!(overlaid(0.5));
    assert!(!overlaid(5.0), "m9.4xlarge costs $0.80");
}

/// A pod that was resized in place, by what it requests now and what the pod that takes its place requests, in thousandths of a CPU.
fn resized(name: &str, now: i64, again: i64) -> Pod {
    let next = pod(name, again, 512).template.requests.clone();
    pod(name, now, 512).with_template(|template| template.requests_again = Some(next))
}

#[test]
fn pods_move_with_the_requests_of_the_pods_that_take_their_place() {
    // Requests before and after, free CPUs on another node, and whether the node goes and gets a replacement.
    for (now, again, beside, goes, replaced) in [
        (500, 7000, 0, false, false),
        (500, 500, 0, true, true),
        (7000, 500, 0, true, true),
        (500, 7000, 4, false, false),
        (500, 3000, 4, true, false),
    ] {
        let mut world = TestCluster::new(vec![node_pool("default")]);
        world.types = world.types.iter().filter(|kind| kind.name.starts_with("m9.")).cloned().collect();
        world.on_demand("m9.2xlarge", vec![resized("java", now, again)]);
        if beside > 0 {
            world.on_demand("m9.2xlarge", vec![pod("full", (7 - beside) * 1000, 512)]);
            world.places[1].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
        }
        let decision = world.decide();
        let first = &world.places[0].node.name;
        let command = decision.commands.iter().find(|it| it.candidates.iter().any(|one| one.node == *first));
        let found = (command.is_some(), command.is_some_and(|command| !command.replacements.is_empty()));
        assert_eq!(found, (goes, replaced), "{now} {again} {beside}: {decision:#?}");
    }
}

#[test]
fn a_replacement_of_a_drifted_node_has_space_for_the_pods_that_take_the_place_of_its_own() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.4xlarge", vec![resized("java", 500, 7000)]);
    world.pools[0].hash = "hash-2".into();
    let decision = world.decide();
    let launches = decision.commands.iter().flat_map(|command| &command.replacements);
    let cpus: Vec<i64> = launches.map(|one| one.launch.requests.get("cpu").milli()).collect();
    assert!(cpus.len() == 1 && cpus[0] >= 7000, "{decision:#?}");
}
