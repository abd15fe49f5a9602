//! The reasons for which nodes stay, and budgets.

use super::*;
use nodeless_model::node_pool::BudgetWindow;

type Change = fn(&mut World);

/// The reason for which a node stays, and the change of the cluster that has it stay.
const KEPT: [(&str, Change); 21] = [
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
    ("its pods changed less than consolidateAfter (2h) ago; it can be consolidated from 1970-01-01T03:00:00Z", |w| {
        w.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::from_secs(7200));
    }),
    ("its pods changed less than consolidateAfter (30s) ago; it can be consolidated from 1970-01-01T02:00:10Z", |w| {
        w.pools[0].disruption.consolidate_after = NillableDuration::After(Duration::from_secs(30));
        w.nodes[0].1.status.last_pod_event = Some(at(7180));
    }),
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
            w.pools[0].disruption.budgets = vec![Budget { window: Some(window), ..budget(BudgetNodes::Percent(100)) }];
        },
    ),
];

#[test]
fn reports_why_a_node_stays() {
    for (expected, change) in KEPT {
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
