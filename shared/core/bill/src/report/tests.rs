use super::*;
use crate::hour::{Amounts, Consolidation, Group, Interruptions, OfferingCost, VolumeCost};
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
    Query { from: at(from), to: at(to), by: by.split(' ').map(|by| by.parse().unwrap()).collect() }
}

fn source<'a>(cluster: &'a str, hours: &'a [HourRecord], open: Option<&'a Open>) -> ClusterRecords<'a> {
    let first = || hours.iter().map(|record| record.hour).min().unwrap();
    ClusterRecords { cluster, since: open.map_or_else(first, |open| open.since), hours, open }
}

/// The report about the cluster prod.
fn one(query: &Query, hours: &[HourRecord], open: Option<&Open>) -> Option<Report> {
    report(query, &[source("prod", hours, open)])
}

fn names(report: &Report) -> Vec<(&str, f64)> {
    report.divisions[0].rows.iter().map(|row| (row.name.as_str(), (row.costs.dollars * 1e6).round() / 1e6)).collect()
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
    let made = one(&query(DAY.0, DAY.1, "nodepool"), &closed, None).unwrap();
    assert_eq!(names(&made), [("default", 4.0), ("gpu", 4.0)]);
    let totals = &made.totals;
    assert_eq!((totals.costs.dollars, totals.costs.on_demand_dollars, totals.costs.node_hours), (8.0, 12.0, 4.0));
    assert_eq!((totals.requested_dollars, totals.spot.saved_dollars), (4.0, 4.0));
    assert_eq!((totals.interruptions.nodes, totals.interruptions.dollars), (2, 0.2));
    assert_eq!((made.to, totals.consolidation.nodes), (at(DAY.1), 2));
    assert_eq!(totals.consolidation.dollars_until_the_end, 0.25 * (23.0 + 22.0));
    // Until the end of the records: an hour after the first, and nothing after the second.
    let ends = one(&query(DAY.0, DAY.1, "nodepool"), &closed[..3], None).unwrap();
    assert_eq!((ends.to, ends.totals.consolidation.dollars_until_the_end), (at("2026-11-23T02:00:00Z"), 0.25));
    assert_eq!(made.divisions[0].periods.len(), 2);
    assert_eq!(one(&query("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "nodepool"), &closed, None), None);
}

#[test]
fn the_rows_of_each_kind_add_up_to_what_was_spent() {
    let closed = [hour("2026-11-23T00:00:00Z", "default")];
    let rows = |by: &str| {
        names(&one(&query(DAY.0, DAY.1, by), &closed, None).unwrap())
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
    // All pods have a controller: what was rounded is no row.
    let mut whole = hour("2026-11-23T00:00:00Z", "default");
    let group = |dollars, cpu| Group { dollars, requested: Amounts { cpu, memory: 2.0, gpu: 0.0 } };
    whole.controllers =
        BTreeMap::from([("a/Job/b".into(), group(1.499_999, 0.999_999)), ("a/Job/c".into(), group(0.5, 1.0))]);
    let made = one(&query(DAY.0, DAY.1, "controller"), &[whole], None).unwrap();
    assert!(names(&made).iter().all(|(name, _)| *name != "(no controller)"), "{:?}", names(&made));
    for by in ["nodepool", "namespace", "controller", "label=team", "label=other", "type"] {
        let made = one(&query(DAY.0, DAY.1, by), &closed, None).unwrap();
        let sum: f64 = made.divisions[0].rows.iter().map(|row| row.costs.dollars).sum();
        assert!((sum - 4.0).abs() < 1e-9, "{by}: {sum}");
    }
    assert!(
        "team"
            .parse::<By>()
            .unwrap_err()
            .to_string()
            .starts_with("\"team\" is not cluster, nodepool, namespace, controller, type or label=KEY")
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
    let made = one(&query("2026-11-20T12:00:00Z", "2026-11-24T12:00:00Z", "nodepool"), &closed, None).unwrap();
    let days: Vec<(String, f64)> =
        made.divisions[0].periods.iter().map(|day| (day.start.to_string(), day.rows[0].costs.dollars)).collect();
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
    let made = one(&query(DAY.0, DAY.1, "nodepool"), &[], Some(&open)).unwrap();
    assert_eq!((made.clusters[0].recorded_since, made.to), (open.since, open.through));
    let forecast = made.forecast.unwrap();
    assert_eq!(
        (forecast.dollars, forecast.dollars_at_this_pace, forecast.month.to_string().as_str()),
        (90.0, 130.0, "2026-11-01")
    );
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
    let report = |from: &str, to: &str| one(&query(from, to, "namespace"), &closed, Some(&open)).unwrap();
    let of = |from: &str, to: &str| report(from, to).budgets;
    assert_eq!(report("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z").forecast, None);
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
    // The last full hours until now, but not those before.
    assert_eq!(of("2026-10-30T10:00:00Z", "2026-11-23T10:00:00Z"), now);
    assert_eq!(of("2026-10-30T10:00:00Z", "2026-11-23T09:00:00Z"), []);
}

#[test]
fn csv_has_the_columns_of_focus_and_quotes_what_it_must() {
    let closed = [hour("2026-11-23T00:00:00Z", "default")];
    let of = |by: &str| csv(&[one(&query(DAY.0, DAY.1, by), &closed, None).unwrap()]);
    let text = of("type");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines[0].starts_with("ChargePeriodStart,ChargePeriodEnd,ChargeCategory,"), "{}", lines[0]);
    assert!(lines[0].contains(",EffectiveCost,ListCost,PricingCategory,") && lines[0].contains(",x_NodePool,"));
    assert!(
        lines[2].starts_with("2026-11-23T00:00:00Z,2026-11-23T01:00:00Z,Usage,Usage-Based,Nodes of cluster prod: type m5.large,USD,1,3,Dynamic,1,Hours,AWS,AWS,Compute,Amazon Elastic Compute Cloud,us-east-1,us-east-1a,Instance,type,prod,"),
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
        let text = csv(&[one(&query(DAY.0, DAY.1, by), &[unpriced.clone()], None).unwrap()]);
        assert!(
            text.contains(",USD,,,") && text.contains(",1,Hours,"),
            "a price that is not known is not zero: {text}"
        );
    }
    assert!(of("namespace").contains(",\"a,b\","), "{}", of("namespace"));
    assert!(of("controller").contains(",prod,,,batch/Job/load,,,,"), "{}", of("controller"));
    for by in ["type", "namespace", "nodepool"] {
        let text = of(by).replace("\"a,b\"", "x").replace("\"Nodes of cluster prod: namespace a,b\"", "x");
        assert!(text.lines().all(|line| line.split(',').count() == 32), "{text}");
    }
}

#[test]
fn costs_are_divided_several_times_in_one_report() {
    let closed = [hour("2026-11-23T00:00:00Z", "default")];
    let made = one(&query(DAY.0, DAY.1, "nodepool namespace cluster"), &closed, None).unwrap();
    let divisions: Vec<(&str, &str)> =
        made.divisions.iter().map(|it| (it.by.as_str(), it.rows.last().unwrap().name.as_str())).collect();
    assert_eq!(divisions, [("nodepool", "default"), ("namespace", "(terminating)"), ("cluster", "prod")]);
    let text = csv(&[made]);
    let names: Vec<&str> = text.lines().skip(1).map(|line| line.split(",prod,").next().unwrap()).collect();
    assert!(names[0].ends_with(",nodepool") && names[1].ends_with(",namespace"), "{names:?}");
    assert!(names.last().unwrap().ends_with(",cluster"), "{names:?}");
}

#[test]
fn a_report_is_compared_with_the_equal_time_before_it() {
    let mut open = Open::begin(at("2026-11-23T08:00:00Z"));
    open.through = at("2026-11-23T11:30:00Z");
    open.hours = vec![hour("2026-11-23T11:00:00Z", "default")];
    let mut gone = hour("2026-11-23T08:00:00Z", "gone");
    gone.offerings.truncate(1);
    let closed = [gone, hour("2026-11-23T09:00:00Z", "default"), hour("2026-11-23T10:00:00Z", "default")];
    // An hour and a half from 10:00, and as long before it: half of the hour from 8:00.
    let of = |from: &str, by: &str| one(&query(from, "2026-11-23T12:00:00Z", by), &closed, Some(&open)).unwrap();
    let made = of("2026-11-23T10:00:00Z", "nodepool type");
    assert_eq!((made.before.from, made.before.to), (at("2026-11-23T08:30:00Z"), made.from));
    assert_eq!((made.totals.costs.dollars, made.before.dollars), (8.0, Some(5.5)));
    let rows = |made: &Report, index: usize| -> Vec<(String, f64, Option<f64>)> {
        let rows = made.divisions[index].rows.iter();
        rows.map(|row| (row.name.clone(), row.costs.dollars, row.dollars_before)).collect()
    };
    assert_eq!(rows(&made, 0), [("default".into(), 8.0, Some(4.0)), ("gone".into(), 0.0, Some(1.5))]);
    assert_eq!(rows(&made, 1), [("m5.large".into(), 6.0, Some(4.5)), ("m5.large".into(), 2.0, Some(1.0))]);
    assert!(made.divisions[0].periods.iter().flat_map(|it| &it.rows).all(|row| row.dollars_before.is_none()));
    // Not all of it is recorded.
    let made = of("2026-11-23T09:00:00Z", "nodepool");
    assert_eq!((made.before.from, made.before.dollars), (at("2026-11-23T06:30:00Z"), None));
    assert!(made.divisions[0].rows.iter().all(|row| row.dollars_before.is_none()));
}

#[test]
fn clusters_are_added_up_and_divided() {
    let (closed, other) = ([hour("2026-11-23T00:00:00Z", "default")], [hour("2026-11-23T01:00:00Z", "default")]);
    let sources = [source("prod", &closed, None), source("test", &other, None)];
    let made = report(&query(DAY.0, DAY.1, "nodepool cluster"), &sources).unwrap();
    assert_eq!(names(&made), [("default", 8.0)]);
    let clusters: Vec<(&str, f64)> =
        made.divisions[1].rows.iter().map(|row| (row.name.as_str(), row.costs.dollars)).collect();
    assert_eq!((made.totals.costs.dollars, clusters), (8.0, vec![("prod", 4.0), ("test", 4.0)]));
    assert_eq!(made.clusters[1].recorded_since, at("2026-11-23T01:00:00Z"));
    // The time before is compared only where all are recorded.
    let later = report(&query("2026-11-23T01:00:00Z", DAY.1, "cluster"), &sources).unwrap();
    assert_eq!((later.totals.costs.dollars, later.before.dollars), (4.0, None));
}

#[test]
fn the_forecast_is_that_of_all_clusters_and_each_has_its_budgets() {
    let open = |through: &str, dollars: f64| {
        let mut open = Open::begin(at("2026-10-01T00:00:00Z"));
        open.through = at(through);
        open.hours = vec![hour(&through.replace("20:00Z", "00:00Z"), "default")];
        let day = through[..10].parse().unwrap();
        open.totals.insert("default".into(), PoolTotals { this_month: dollars, ..PoolTotals::new(day) });
        open.paces.insert("default".into(), dollars * 2.0);
        open.budgets = BTreeMap::from([(String::new(), 15.0)]);
        open
    };
    let (prod, test) = (open("2026-11-23T10:20:00Z", 10.0), open("2026-11-23T10:20:00Z", 5.0));
    // Its records ended last month.
    let old = open("2026-10-20T10:20:00Z", 100.0);
    let sources = [source("prod", &[], Some(&prod)), source("test", &[], Some(&test)), source("old", &[], Some(&old))];
    let of =
        |sources: &[ClusterRecords<'_>]| report(&query("2026-10-01T00:00:00Z", DAY.1, "cluster"), sources).unwrap();
    let made = of(&sources);
    let forecast = made.forecast.unwrap();
    assert_eq!((forecast.dollars, forecast.dollars_at_this_pace), (15.0, 30.0));
    let budgets: Vec<_> = made.budgets.iter().map(|it| (it.cluster.as_str(), it.warning)).collect();
    assert_eq!(budgets, [("prod", Some("exceeded-at-this-pace")), ("test", None), ("old", Some("exceeded"))]);
    // Without the record of the current hour of one of them it is not known.
    let hours = [hour("2026-11-23T01:00:00Z", "default")];
    assert_eq!(of(&[sources[0], source("file", &hours, None)]).forecast, None);
}

#[test]
fn instances_in_reservations_are_a_table_of_their_own() {
    let reserved = |hours, on_demand| offering(CapacityType::Reserved, hours, 0.0, on_demand);
    let with = |at: &str, pool: &str, own: Vec<OfferingCost>| {
        let mut record = hour(at, pool);
        record.offerings.extend(own);
        record
    };
    let other_zone = OfferingCost { zone: "us-east-1b".into(), ..reserved(0.5, 0.25) };
    let hours = [
        with("2026-11-23T05:00:00Z", "search", vec![reserved(2.0, 1.0), other_zone]),
        with("2026-11-23T06:00:00Z", "search", vec![reserved(1.0, 0.5)]),
        with("2026-11-23T06:00:00Z", "web", vec![reserved(1.0, 0.5)]),
    ];
    let query = query(DAY.0, DAY.1, "nodepool");
    let made = one(&query, &hours, None).unwrap();
    let tables = text::tables(&made);
    let expected = "
RESERVED  ZONE        NODEPOOL  NODE HOURS  ON-DEMAND
m5.large  us-east-1a  search           3.0    $1.5000
m5.large  us-east-1b  search           0.5    $0.2500
m5.large  us-east-1a  web              1.0    $0.5000
";
    assert!(tables.ends_with(expected), "{tables}");
    let page = include_str!("../../../../../docs/report.md");
    assert!(page.contains(expected.trim()), "the example of docs/report.md is another one");
    assert_eq!(made.reserved.len(), 3);
    let sum: f64 = made.reserved.iter().map(|row| row.on_demand_dollars).sum();
    assert!((sum - made.totals.reserved.on_demand_dollars).abs() < 1e-9);
    let without = one(&query, &[hour("2026-11-23T05:00:00Z", "web")], None).unwrap();
    assert!(!text::tables(&without).contains("RESERVED") && without.reserved.is_empty());
}

#[test]
fn hours_that_were_recorded_late_are_reported() {
    let late = |time: &str, pool: &str| HourRecord { late: true, ..hour(time, pool) };
    let closed = [
        hour("2026-11-23T00:00:00Z", "default"),
        late("2026-11-23T01:00:00Z", "default"),
        late("2026-11-23T01:00:00Z", "gpu"),
        late("2026-11-23T02:00:00Z", "gpu"),
        hour("2026-11-23T03:00:00Z", "gpu"),
        late("2026-11-23T05:00:00Z", "gpu"),
    ];
    let inexact = |from: &str, to: &str| Inexact { cluster: "prod".into(), from: at(from), to: at(to) };
    let made = one(&query(DAY.0, DAY.1, "nodepool"), &closed, None).unwrap();
    let (two, one_hour) = (
        inexact("2026-11-23T01:00:00Z", "2026-11-23T03:00:00Z"),
        inexact("2026-11-23T05:00:00Z", "2026-11-23T06:00:00Z"),
    );
    assert_eq!(made.inexact, [two, one_hour]);
    let text = text::summary(&made);
    assert!(text.contains("not exact          2026-11-23 01:00 to 2026-11-23 03:00: recorded late"), "{text}");
    assert!(!text::summary(&one(&query(DAY.0, DAY.1, "nodepool"), &closed[..1], None).unwrap()).contains("not exact"));
    let other = [late("2026-11-23T01:00:00Z", "default")];
    let both =
        report(&query(DAY.0, DAY.1, "nodepool"), &[source("prod", &closed[..1], None), source("test", &other, None)]);
    assert!(text::summary(&both.unwrap()).contains("not exact of test"));
}

#[test]
fn volumes_are_a_figure_of_their_own() {
    let volumes = |dollars, seconds| HourRecord { volumes: VolumeCost { dollars, seconds }, ..hour(DAY.0, "default") };
    let summary = |record: HourRecord| text::summary(&one(&query(DAY.0, DAY.1, "nodepool"), &[record], None).unwrap());
    let partly = summary(volumes(0.25, 3600.0));
    assert!(
        partly.contains(
            "volumes            $0.2500, without those of 1.0 node hours; not in these amounts, by list prices"
        ),
        "{partly}"
    );
    assert!(summary(volumes(0.25, 7200.0)).contains("volumes            $0.2500; not in these"));
    assert!(summary(volumes(0.25, 6840.0)).contains("without those of 0.10 node hours; not in these"));
    assert!(!summary(volumes(0.0, 0.0)).contains("volumes"), "an earlier release recorded none");
    let record = crate::encode(&volumes(0.25, 3600.0)).unwrap();
    assert_eq!(crate::decode::<HourRecord>(&record).unwrap().volumes, VolumeCost { dollars: 0.25, seconds: 3600.0 });
}
