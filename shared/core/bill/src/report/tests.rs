use super::*;
use crate::hour::{Amounts, Consolidation, Group, Interruptions, OfferingCost};
use crate::open::PoolTotals;
use nodeless_model::CapacityType;
use std::collections::BTreeMap;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn offering(kind: CapacityType, hours: f64, dollars: f64, on_demand: f64) -> OfferingCost {
    OfferingCost {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: kind,
        seconds: hours * 3600.0,
        dollars,
        on_demand_dollars: on_demand,
        unpriced_seconds: 0.0,
    }
}

/// An hour of a spot and an on-demand instance, half of it requested.
fn hour(hour: &str, node_pool: &str) -> HourRecord {
    let group = |dollars| Group { dollars, requested: Amounts { cpu: 1.0, memory: 2.0, gpu: 0.0 } };
    HourRecord {
        offerings: vec![offering(CapacityType::OnDemand, 1.0, 3.0, 3.0), offering(CapacityType::Spot, 1.0, 1.0, 3.0)],
        requested: Amounts { cpu: 2.0, memory: 4.0, gpu: 0.0 },
        allocatable: Amounts { cpu: 4.0, memory: 16.0, gpu: 0.0 },
        idle: 1.5,
        starting: 0.3,
        leaving: 0.2,
        namespaces: BTreeMap::from([("a,b".into(), group(1.5)), ("batch".into(), group(0.5))]),
        controllers: BTreeMap::from([("batch/Job/load".into(), group(0.5)), ("a,b/Deployment/web".into(), group(1.2))]),
        labels: BTreeMap::from([("team".into(), BTreeMap::from([("web".into(), group(0.5))]))]),
        consolidation: Consolidation { nodes: 1, dollars_per_hour: 0.25 },
        interruptions: Interruptions { nodes: 1, dollars: 0.1 },
        ..HourRecord::new(at(hour), node_pool)
    }
}

fn query(from: &str, to: &str, by: &str) -> Query {
    Query { cluster: "prod".into(), from: at(from), to: at(to), by: by.parse().unwrap() }
}

fn names(report: &Report) -> Vec<(&str, f64)> {
    report.rows.iter().map(|row| (row.name.as_str(), (row.costs.dollars * 1e6).round() / 1e6)).collect()
}

const DAY: (&str, &str) = ("2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z");

#[test]
fn hours_are_added_up_within_the_time_only() {
    let closed = [
        hour("2026-11-22T23:00:00Z", "default"),
        hour("2026-11-23T00:00:00Z", "default"),
        hour("2026-11-23T01:00:00Z", "gpu"),
        hour("2026-11-24T00:00:00Z", "default"),
    ];
    let made = report(&query(DAY.0, DAY.1, "nodepool"), &closed, None).unwrap();
    assert_eq!(names(&made), [("default", 4.0), ("gpu", 4.0)]);
    let totals = &made.totals;
    assert_eq!((totals.costs.dollars, totals.costs.on_demand_dollars, totals.costs.node_hours), (8.0, 12.0, 4.0));
    assert_eq!((totals.requested_dollars, totals.spot.saved_dollars), (4.0, 4.0));
    assert_eq!((totals.interruptions.nodes, totals.interruptions.dollars), (2, 0.2));
    // Until the end of the records: an hour after the first, and nothing after the second.
    assert_eq!((made.to, totals.consolidation.nodes), (at("2026-11-23T02:00:00Z"), 2));
    assert_eq!(totals.consolidation.dollars_until_the_end, 0.25);
    assert_eq!(made.periods.len(), 2);
    assert_eq!(report(&query("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "nodepool"), &closed, None), None);
}

#[test]
fn the_rows_of_each_kind_add_up_to_what_was_spent() {
    let closed = [hour("2026-11-23T00:00:00Z", "default")];
    let rows = |by: &str| {
        names(&report(&query(DAY.0, DAY.1, by), &closed, None).unwrap())
            .iter()
            .map(|(name, dollars)| format!("{name} {dollars}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("namespace"), ["(idle) 1.5", "a,b 1.5", "batch 0.5", "(starting) 0.3", "(terminating) 0.2"]);
    assert_eq!(
        rows("label=team"),
        ["(idle) 1.5", "(no label team) 1.5", "web 0.5", "(starting) 0.3", "(terminating) 0.2"]
    );
    assert_eq!(
        rows("controller"),
        [
            "(idle) 1.5",
            "a,b/Deployment/web 1.2",
            "batch/Job/load 0.5",
            "(no controller) 0.3",
            "(starting) 0.3",
            "(terminating) 0.2"
        ]
    );
    assert_eq!(rows("type"), ["m5.large 3", "m5.large 1"]);
    for by in ["nodepool", "namespace", "controller", "label=team", "label=other", "type"] {
        let made = report(&query(DAY.0, DAY.1, by), &closed, None).unwrap();
        let sum: f64 = made.rows.iter().map(|row| row.costs.dollars).sum();
        assert!((sum - 4.0).abs() < 1e-9, "{by}: {sum}");
    }
    assert!(
        "team"
            .parse::<By>()
            .unwrap_err()
            .to_string()
            .starts_with("\"team\" is not nodepool, namespace, controller, type or label=KEY")
    );
    assert_eq!("label".parse::<By>().unwrap().to_string(), "label=app.kubernetes.io/name");
}

#[test]
fn long_times_are_divided_by_days_in_utc() {
    let closed: Vec<HourRecord> = (0..96)
        .map(|number| {
            hour(&at("2026-11-20T12:00:00Z").checked_add(SignedDuration::from_hours(number)).unwrap().to_string(), "a")
        })
        .collect();
    let made = report(&query("2026-11-20T12:00:00Z", "2026-11-24T12:00:00Z", "nodepool"), &closed, None).unwrap();
    let days: Vec<(String, f64)> =
        made.periods.iter().map(|day| (day.start.to_string(), day.rows[0].costs.dollars)).collect();
    let expected = [
        ("2026-11-20T12:00:00Z", 48.0),
        ("2026-11-21T00:00:00Z", 96.0),
        ("2026-11-22T00:00:00Z", 96.0),
        ("2026-11-23T00:00:00Z", 96.0),
        ("2026-11-24T00:00:00Z", 48.0),
    ];
    assert_eq!(days, expected.map(|(day, dollars)| (day.to_owned(), dollars)));
}

#[test]
fn the_hour_that_has_not_ended_counts_and_budgets_are_compared() {
    let mut open = Open::begin(at("2026-11-23T00:30:00Z"));
    open.through = at("2026-11-23T10:20:00Z");
    open.hours = vec![hour("2026-11-23T10:00:00Z", "default")];
    open.totals
        .insert("default".into(), PoolTotals { this_month: 90.0, ..PoolTotals::new("2026-11-23".parse().unwrap()) });
    open.paces.insert("default".into(), 130.0);
    open.budgets = BTreeMap::from([(String::new(), 100.0), ("default".into(), 80.0), ("gpu".into(), 5.0)]);
    let made = report(&query(DAY.0, DAY.1, "nodepool"), &[], Some(&open)).unwrap();
    assert_eq!((made.recorded_since, made.to), (Some(open.since), open.through));
    let budgets: Vec<_> = made.budgets.iter().map(|it| (it.node_pool.as_deref(), it.warning)).collect();
    assert_eq!(
        budgets,
        [(None, Some("exceeded-at-this-pace")), (Some("default"), Some("exceeded")), (Some("gpu"), None)]
    );
    assert_eq!(made.budgets[0].dollars_at_this_pace, Some(130.0));
    assert!(made.budgets.iter().all(|it| it.month.to_string() == "2026-11-01"), "{:?}", made.budgets);
}

#[test]
fn a_whole_past_month_is_compared_with_the_budgets_and_other_past_times_are_not() {
    let mut open = Open::begin(at("2026-09-01T00:00:00Z"));
    open.through = at("2026-11-23T10:20:00Z");
    open.totals
        .insert("default".into(), PoolTotals { this_month: 90.0, ..PoolTotals::new("2026-11-23".parse().unwrap()) });
    open.budgets = BTreeMap::from([(String::new(), 10.0), ("default".into(), 8.0), ("gpu".into(), 3.0)]);
    // Four dollars each. The NodePool old does not exist any more.
    let closed = [
        hour("2026-09-30T23:00:00Z", "default"),
        hour("2026-10-01T00:00:00Z", "default"),
        hour("2026-10-14T07:00:00Z", "old"),
        hour("2026-10-31T23:00:00Z", "gpu"),
        hour("2026-11-01T00:00:00Z", "default"),
    ];
    let of = |from: &str, to: &str| report(&query(from, to, "namespace"), &closed, Some(&open)).unwrap().budgets;
    let october = of("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z");
    let compared: Vec<_> = october.iter().map(|it| (it.node_pool.as_deref(), it.dollars, it.warning)).collect();
    assert_eq!(
        compared,
        [(None, 12.0, Some("exceeded")), (Some("default"), 4.0, None), (Some("gpu"), 4.0, Some("exceeded"))]
    );
    assert!(october.iter().all(|it| it.month.to_string() == "2026-10-01" && it.dollars_at_this_pace.is_none()));
    for (from, to) in [
        ("2026-10-01T00:00:00Z", "2026-10-31T00:00:00Z"),
        ("2026-10-01T01:00:00Z", "2026-11-01T00:00:00Z"),
        ("2026-10-01T00:00:00Z", "2026-11-01T01:00:00Z"),
        ("2026-09-01T00:00:00Z", "2026-11-01T00:00:00Z"),
    ] {
        assert_eq!(of(from, to), [], "{from} to {to}");
    }
    let now = of("2026-10-01T00:00:00Z", "2026-11-23T11:00:00Z");
    assert_eq!((now[1].dollars, now[1].month.to_string().as_str()), (90.0, "2026-11-01"), "until now: this month");
}

#[test]
fn csv_has_the_columns_of_focus_and_quotes_what_it_must() {
    let closed = [hour("2026-11-23T00:00:00Z", "default")];
    let of = |by: &str| csv(&report(&query(DAY.0, DAY.1, by), &closed, None).unwrap());
    let text = of("type");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines[0].starts_with("ChargePeriodStart,ChargePeriodEnd,ChargeCategory,"), "{}", lines[0]);
    assert!(lines[0].contains(",EffectiveCost,ListCost,PricingCategory,") && lines[0].contains(",x_NodePool,"));
    assert!(
        lines[2].starts_with("2026-11-23T00:00:00Z,2026-11-23T01:00:00Z,Usage,Usage-Based,Nodes of cluster prod: type m5.large,USD,1,3,Dynamic,1,Hours,AWS,AWS,Compute,Amazon Elastic Compute Cloud,us-east-1,us-east-1a,Instance,prod,"),
        "{}",
        lines[2]
    );
    assert!(lines[2].ends_with(",m5.large,,,,,,"), "the parts of a type are not recorded: {}", lines[2]);
    assert!(of("nodepool").contains(",default,,,,,,1.5,0.3,0.2,2,4,0\r\n"), "{}", of("nodepool"));
    let mut unpriced = hour("2026-11-23T00:00:00Z", "default");
    unpriced.offerings.truncate(1);
    unpriced.offerings[0] =
        OfferingCost { unpriced_seconds: 3600.0, ..offering(CapacityType::OnDemand, 1.0, 0.0, 0.0) };
    for by in ["type", "nodepool"] {
        let text = csv(&report(&query(DAY.0, DAY.1, by), &[unpriced.clone()], None).unwrap());
        assert!(
            text.contains(",USD,,,") && text.contains(",1,Hours,"),
            "a price that is not known is not zero: {text}"
        );
    }
    assert!(of("namespace").contains(",\"a,b\","), "{}", of("namespace"));
    assert!(of("controller").contains(",prod,,,batch/Job/load,,,,"), "{}", of("controller"));
    for by in ["type", "namespace", "nodepool"] {
        let text = of(by).replace("\"a,b\"", "x").replace("\"Nodes of cluster prod: namespace a,b\"", "x");
        assert!(text.lines().all(|line| line.split(',').count() == 31), "{text}");
    }
}
