//! Node repair: which nodes are replaced, after how long, and how.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::repair::{Verdict, unhealthy};
use nodeless_disruption::*;
use nodeless_model::claim::{Reboot, RebootEnd};
use nodeless_model::node::NodeCondition;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;
use std::time::Duration;

fn sick(world: &mut TestCluster, place: usize, kind: &str, status: Option<bool>, since: i64) {
    let conditions = &mut world.places[place].node.conditions;
    conditions.retain(|condition| condition.kind != kind);
    conditions.push(NodeCondition { kind: kind.into(), status, since: Some(at(since)), reason: String::new() });
}

#[test]
fn nodes_are_repaired_when_they_have_been_unhealthy_for_too_long() {
    let half_an_hour_ago = 7200 - 1800;
    for (kind, status, since, due) in [
        ("Ready", Some(false), half_an_hour_ago, true),
        ("Ready", Some(false), half_an_hour_ago + 1, false),
        ("Ready", None, half_an_hour_ago, true),
        ("AcceleratedHardwareReady", Some(false), half_an_hour_ago, true),
        ("AcceleratedHardwareReady", Some(false), half_an_hour_ago + 1, false),
        ("KernelReady", Some(false), half_an_hour_ago, true),
    ] {
        let mut world = TestCluster::new(vec![node_pool("default")]);
        world.on_demand("c9.large", Vec::new());
        sick(&mut world, 0, kind, status, since);
        let [found] = &unhealthy(&world.cluster(), &world.options, now())[..] else { panic!("{kind} {since}") };
        assert_eq!(found.verdict, if due { Verdict::Repair } else { Verdict::Wait }, "{kind} {status:?} {since}");
        assert!(found.message.contains(kind));
    }
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("c9.large", Vec::new());
    for (kind, status) in [("Ready", Some(true)), ("KernelReady", None), ("DiskPressure", Some(false))] {
        sick(&mut world, 0, kind, status, 0);
    }
    assert_eq!(unhealthy(&world.cluster(), &world.options, now()), []);
}

#[test]
fn nothing_is_repaired_while_too_much_is_unhealthy() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for _ in 0..6 {
        world.on_demand("c9.large", Vec::new());
    }
    let verdicts = |world: &TestCluster| -> Vec<Verdict> {
        unhealthy(&world.cluster(), &world.options, now()).into_iter().map(|found| found.verdict).collect()
    };
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Percent(100))];
    // A fifth of six, rounded up, is two.
    sick(&mut world, 0, "Ready", Some(false), 0);
    sick(&mut world, 1, "Ready", Some(false), 0);
    assert_eq!(verdicts(&world), [Verdict::Repair, Verdict::Repair]);
    // The third counts although it has only just begun.
    sick(&mut world, 2, "Ready", Some(false), 7199);
    let [Verdict::Blocked(why), Verdict::Blocked(_), Verdict::Wait] = &verdicts(&world)[..] else {
        panic!("{:?}", verdicts(&world))
    };
    assert_eq!(why, "3 of 6 nodes of NodePool default are unhealthy, more than 20%: none is repaired");
    // A node that never became ready serves nothing.
    let place = &mut world.places[1];
    place.node.labels.remove(labels::INITIALIZED);
    place.claim.phase = Phase::Registered;
    let [Verdict::Blocked(_), Verdict::Terminate, Verdict::Wait] = &verdicts(&world)[..] else {
        panic!("{:?}", verdicts(&world))
    };
}

#[test]
fn budgets_pace_repairs_and_an_annotation_prevents_them() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for _ in 0..10 {
        world.on_demand("c9.large", Vec::new());
    }
    let verdicts = |world: &TestCluster| -> Vec<Verdict> {
        unhealthy(&world.cluster(), &world.options, now()).into_iter().map(|found| found.verdict).collect()
    };
    let blocked = |verdict: &Verdict| match verdict {
        Verdict::Blocked(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Percent(10))];
    sick(&mut world, 0, "Ready", Some(false), 1);
    sick(&mut world, 1, "Ready", Some(false), 0);
    // A tenth of ten nodes, and the one that has been unhealthy for longest comes first. Nodes that are not ready use no budget.
    let found = verdicts(&world);
    assert_eq!(found[1], Verdict::Repair);
    let why = "the disruption budgets of NodePool default allow 1 at once for Unhealthy (spec.disruption.budgets[0]), and 1 is disrupted";
    assert_eq!(blocked(&found[0]), why);
    // A budget for other reasons does not hold repairs, and one for this reason does.
    let about = |reason| Budget { reasons: vec![reason], ..budget(BudgetNodes::Count(0)) };
    world.pools[0].disruption.budgets = vec![about(DisruptionReason::Drifted)];
    assert_eq!(verdicts(&world), [Verdict::Repair, Verdict::Repair]);
    world.pools[0].disruption.budgets = vec![about(DisruptionReason::Unhealthy)];
    assert!(verdicts(&world).iter().all(|verdict| blocked(verdict).contains("allow 0 at once for Unhealthy")));
    // A node that was never initialized needs no budget.
    let place = &mut world.places[1];
    place.node.labels.remove(labels::INITIALIZED);
    place.claim.phase = Phase::Registered;
    assert_eq!(verdicts(&world)[1], Verdict::Terminate);

    world.places[1].node.annotations.insert(labels::DO_NOT_REPAIR.to_owned(), "true".to_owned());
    assert!(blocked(&verdicts(&world)[1]).ends_with("has the annotation karpenter.sh/do-not-repair"));
}

#[test]
fn a_gpu_that_works_no_more_is_tolerated_for_ten_minutes() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("c9.large", Vec::new());
    for (reason, minutes, drain) in [
        ("NvidiaXID79Error", 10, 5),
        ("NvidiaXID46Error", 10, 5),
        ("NvidiaXID158Error", 10, 5),
        ("NvidiaXID13Error", 30, 10),
        ("NvidiaXID7Error", 30, 10),
        ("NvidiaXIDError", 30, 10),
        ("NvidiaNVLinkError", 30, 10),
        ("NeuronDMAError", 30, 10),
        ("", 30, 10),
    ] {
        sick(&mut world, 0, "AcceleratedHardwareReady", Some(false), 7200);
        world.places[0].node.conditions.last_mut().unwrap().reason = reason.into();
        let [found] = &unhealthy(&world.cluster(), &world.options, now())[..] else { panic!("{reason}") };
        assert_eq!(found.due, now() + SignedDuration::from_mins(minutes), "{reason}");
        assert_eq!(found.drain, Duration::from_mins(drain), "{reason}");
        assert_eq!(found.message.ends_with(&format!(" ({reason})")), !reason.is_empty(), "{}", found.message);
    }
    // The condition of another kind does not concern GPUs.
    sick(&mut world, 0, "AcceleratedHardwareReady", Some(true), 7200);
    sick(&mut world, 0, "KernelReady", Some(false), 7200);
    world.places[0].node.conditions.last_mut().unwrap().reason = "NvidiaXID79Error".into();
    assert_eq!(unhealthy(&world.cluster(), &world.options, now())[0].drain, Duration::from_mins(10));
    // No condition is older than its node, and one of unknown age is as old.
    world.places[0].node.created = Some(at(7100));
    for since in [Some(at(0)), None] {
        world.places[0].node.conditions.last_mut().unwrap().since = since;
        let found = unhealthy(&world.cluster(), &world.options, now());
        assert_eq!(found[0].due, at(7100) + SignedDuration::from_mins(30), "{since:?}");
    }
}

/// A world with a node whose GPU has failed with this error of NVIDIA's driver for ten minutes.
fn with_failed_gpu(code: u32) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.options.reboot_for_repair = true;
    world.on_demand("c9.large", vec![pod("web", 1500, 1024)]);
    sick(&mut world, 0, "AcceleratedHardwareReady", Some(false), 6600);
    let node = &mut world.places[0].node;
    node.boot_id = "boot-1".into();
    node.conditions.last_mut().unwrap().reason = format!("NvidiaXID{code}Error");
    world
}

fn verdict(world: &TestCluster) -> Verdict {
    unhealthy(&world.cluster(), &world.options, now())[0].verdict.clone()
}

#[test]
fn a_reboot_comes_first_for_the_faults_of_gpus_that_it_may_cure() {
    let rebooted = [46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158];
    for code in rebooted.into_iter().chain([64, 74, 79, 119, 120]) {
        let expected = if rebooted.contains(&code) { Verdict::Reboot } else { Verdict::Repair };
        assert_eq!(verdict(&with_failed_gpu(code)), expected, "{code}");
    }
    let unless = |why: &str, change: &dyn Fn(&mut TestCluster)| {
        let mut world = with_failed_gpu(48);
        change(&mut world);
        assert_eq!(verdict(&world), Verdict::Repair, "{why}");
    };
    unless("the gate is off", &|world| world.options.reboot_for_repair = false);
    unless("a reboot could not be proved", &|world| world.places[0].node.boot_id.clear());
    unless("another condition asks for a replacement", &|world| sick(world, 0, "KernelReady", Some(false), 0));
    unless("a command has taken the node", &|world| world.places[0].claim.status.command = Some("drift".into()));
    // One that is tolerated still does not.
    let mut world = with_failed_gpu(48);
    sick(&mut world, 0, "KernelReady", Some(false), 7000);
    assert_eq!(verdict(&world), Verdict::Reboot);
    // What prevents a repair prevents a reboot.
    world.places[0].node.annotations.insert(labels::DO_NOT_REPAIR.to_owned(), "true".to_owned());
    assert!(matches!(verdict(&world), Verdict::Blocked(_)));
    let mut world = with_failed_gpu(48);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(0))];
    assert!(matches!(verdict(&world), Verdict::Blocked(_)));
    let place = &mut world.places[0];
    place.node.labels.remove(labels::INITIALIZED);
    place.claim.phase = Phase::Registered;
    assert_eq!(verdict(&world), Verdict::Terminate);
}

#[test]
fn a_node_is_rebooted_twice_a_day_and_only_while_that_helps() {
    let now = now().as_second();
    let ended = |requested: i64, succeeded: bool| Reboot {
        why: String::new(),
        requested: at(requested),
        drained_by: at(requested),
        call: None,
        end: Some(RebootEnd { at: at(requested + 60), succeeded }),
    };
    let day = 24 * 3600;
    for (reboots, expected) in [
        (vec![ended(now - 9000, true)], Verdict::Reboot),
        (vec![ended(now - 9000, true), ended(now - 8000, true)], Verdict::Repair),
        (vec![ended(now - day, true), ended(now - 8000, true)], Verdict::Reboot),
        (vec![ended(now - 9000, false)], Verdict::Repair),
        (vec![ended(now - day, false)], Verdict::Reboot),
    ] {
        let mut world = with_failed_gpu(48);
        world.places[0].claim.status.reboots.clone_from(&reboots);
        assert_eq!(verdict(&world), expected, "{reboots:?}");
    }
    // The agent has the same time as before to report what the reboot changed.
    let mut world = with_failed_gpu(48);
    world.places[0].claim.status.reboots = vec![ended(now - 660, true)];
    assert_eq!(verdict(&world), Verdict::Reboot);
    world.places[0].claim.status.reboots = vec![ended(now - 659, true)];
    assert_eq!(verdict(&world), Verdict::Wait);
}

#[test]
fn a_node_that_is_being_rebooted_stays_and_uses_the_budget() {
    let mut world = with_failed_gpu(48);
    for _ in 0..5 {
        world.on_demand("c9.large", Vec::new());
    }
    let claim = &mut world.places[0].claim;
    claim.status.reboots =
        vec![Reboot { why: String::new(), requested: at(7100), drained_by: at(7300), call: None, end: None }];
    assert_eq!(unhealthy(&world.cluster(), &world.options, now()), []);
    let decision = world.decide();
    let kept = decision.kept.iter().find(|kept| kept.node == "node-00000").unwrap();
    assert!(kept.reasons.contains(&KeptReason::Rebooting), "{kept:?}");
    sick(&mut world, 1, "KernelReady", Some(false), 0);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(1))];
    assert!(matches!(verdict(&world), Verdict::Blocked(why) if why.contains("and 1 is disrupted")));
}

/// A world with the gate `NodeRepair` and healthy nodes, of which the first has these pods and has been unhealthy for long.
fn with_sick_node(nodes: usize, pods: Vec<Pod>) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.options.node_repair = true;
    world.pools[0].disruption.consolidate_after = NillableDuration::Never;
    world.on_demand("c9.large", pods);
    for _ in 1..nodes {
        world.on_demand("c9.large", vec![pod(&format!("other-{}", world.places.len()), 1500, 1024)]);
    }
    sick(&mut world, 0, "KernelReady", Some(false), 0);
    world
}

fn only_command(world: &TestCluster) -> Command {
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    command.clone()
}

#[test]
fn what_the_pods_of_an_unhealthy_node_need_is_launched_before_it_is_drained() {
    let world = with_sick_node(5, vec![pod("web", 1500, 1024)]);
    let command = only_command(&world);
    assert_eq!((command.method, command.reason), (Method::Repair, DisruptionReason::Unhealthy));
    assert_eq!(command.candidates[0].node, "node-00000");
    assert_eq!((command.replacements.len(), command.drains_first), (1, false));
    assert_eq!(command.replacements[0].pods, ["default/web"]);
    let repair = command.repair.clone().unwrap();
    assert!(repair.why.starts_with("its condition KernelReady has been False since"), "{}", repair.why);
    assert_eq!(repair.drain_within, Duration::from_mins(10));
    let later = now() + SignedDuration::from_secs(20);
    let again = revalidate(&command, &world.cluster(), later, &world.options).unwrap();
    assert_eq!((&again.id, &again.repair), (&command.id, &command.repair));

    let mut recovered = world.clone();
    sick(&mut recovered, 0, "KernelReady", Some(true), 7200);
    assert_eq!(revalidate(&command, &recovered.cluster(), later, &recovered.options), None);
    let mut off = world;
    off.options.node_repair = false;
    assert_eq!(off.decide().commands, []);
    assert_eq!(revalidate(&command, &off.cluster(), later, &off.options), None);
}

#[test]
fn an_unhealthy_node_needs_no_replacement_if_its_pods_fit_elsewhere_or_it_has_none() {
    for pods in [vec![], vec![pod("small", 100, 100)]] {
        let world = with_sick_node(5, pods.clone());
        let command = only_command(&world);
        assert_eq!((command.replacements.len(), command.placements.len()), (0, pods.len()));
        assert_eq!(command.method, Method::Repair);
    }
}

#[test]
fn what_keeps_other_nodes_does_not_keep_an_unhealthy_one() {
    let mut world = with_sick_node(5, vec![labelled(pod("db", 1500, 1024), "app", "db")]);
    world.places[0].node.annotations.insert(labels::DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    world.places[0].claim.spec.nominated_pods = vec!["default/db".to_owned()];
    world.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    world.pools[0].options.set(labels::PAUSE, Some("true"));
    world.budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "db".into(),
        selector: Some(selector("app", "db")),
        ..PodDisruptionBudget::default()
    }];
    // Its pods move by force in the end, so they get a node first too.
    let command = only_command(&world);
    assert_eq!(command.replacements.len(), 1);
    // The NodePool may allow a shorter drain, but no longer one.
    for (minutes, within) in [(3, 3), (60, 10)] {
        world.places[0].claim.spec.termination_grace_period = Some(Duration::from_mins(minutes));
        assert_eq!(only_command(&world).repair.unwrap().drain_within, Duration::from_mins(within));
    }
    world.places[0].node.annotations.insert(labels::DO_NOT_REPAIR.to_owned(), "true".to_owned());
    assert_eq!(world.decide().commands, []);
}

#[test]
fn unhealthy_nodes_are_first_and_as_many_as_the_budgets_allow() {
    let mut world = with_sick_node(10, vec![pod("web", 1500, 1024)]);
    sick(&mut world, 1, "KernelReady", Some(false), 1);
    world.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::ZERO);
    world.on_demand("c9.large", Vec::new());
    let nodes = |world: &TestCluster| -> Vec<String> {
        let commands = world.decide().commands;
        assert!(commands.iter().all(|command| command.method == Method::Repair), "{commands:#?}");
        commands.iter().map(|command| command.candidates[0].node.clone()).collect()
    };
    assert_eq!(nodes(&world), ["node-00000", "node-00001"]);
    assert_eq!(world.kept(10), "unhealthy nodes are replaced first");
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(1))];
    assert_eq!(nodes(&world), ["node-00000"]);
}

#[test]
fn an_unhealthy_node_stays_while_its_pods_could_run_nowhere_else() {
    let mut world = with_sick_node(5, vec![pod("web", 1500, 1024)]);
    world.places[0].pods[0].template_mut().node_selector.insert("disk".into(), "special".into());
    let decision = world.decide();
    assert_eq!(decision.commands, []);
    let why = world.kept(0);
    assert!(why.contains("its condition KernelReady has been False since"), "{why}");
    assert!(why.contains("but pod default/web cannot be scheduled elsewhere"), "{why}");
}

#[test]
fn an_unhealthy_node_of_a_static_pool_is_replaced_one_for_one() {
    let mut world = with_sick_node(5, vec![pod("web", 100, 100)]);
    world.pools[0].replicas = Some(5);
    let command = only_command(&world);
    assert_eq!((command.method, command.replacements.len(), command.drains_first), (Method::Repair, 1, false));
    assert_eq!(command.repair.unwrap().drain_within, Duration::from_mins(10));
    // Within its limit, its replacement is launched once it is gone.
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(5))]);
    let command = only_command(&world);
    assert!(command.drains_first && command.replacements.is_empty(), "{command:#?}");
}

#[test]
fn a_node_without_a_node_pool_is_not_repaired() {
    let mut world = with_sick_node(5, Vec::new());
    let place = &mut world.places[0];
    place.claim.node_pool = None;
    place.node.labels.remove(labels::NODE_POOL);
    let [found] = &unhealthy(&world.cluster(), &world.options, now())[..] else { panic!("one") };
    let Verdict::Blocked(why) = &found.verdict else { panic!("{found:?}") };
    assert!(why.starts_with("its NodeClaim has no NodePool, which could launch a replacement"), "{why}");
}
