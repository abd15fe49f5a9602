use super::clusters::{Clusters, of_items};
use super::times::Times;
use super::*;
use crate::table::Item;
use jiff::Timestamp;
use nodeless_bill::report::{By, csv, text};
use nodeless_bill::{HourRecord, OfferingCost, Open, encode};
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_model::CapacityType;
use nodeless_telemetry::Null;
use std::path::Path;
use std::sync::Arc;

/// Three hours of a Deployment on three nodes, of which one is enough after it is scaled down.
const HOURS: &str = r#"
name: hours
hours: 3
instanceFamilies: [m6i, c6i]
objects:
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: { name: default, annotations: { nodeless.sh/dollars-per-month: "1" } }
    spec:
      template:
        spec:
          nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
          requirements: [{ key: karpenter.sh/capacity-type, operator: In, values: [spot] }]
      disruption: { consolidateAfter: 1m, budgets: [{ nodes: "100%" }] }
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: web, namespace: default }
    spec:
      replicas: 9
      selector: { matchLabels: { app.kubernetes.io/name: web } }
      template:
        metadata: { labels: { app.kubernetes.io/name: web } }
        spec:
          containers: [{ name: c, image: pause, resources: { requests: { cpu: "1500m", memory: 1Gi } } }]
          topologySpreadConstraints:
            - maxSkew: 3
              topologyKey: kubernetes.io/hostname
              whenUnsatisfiable: DoNotSchedule
              labelSelector: { matchLabels: { app.kubernetes.io/name: web } }
scale: [{ kind: Deployment, namespace: default, name: web, after: { 80m: 2 } }]
"#;

const NEVER: Times = Times { from: None, to: None, window: None };

async fn records() -> Clusters {
    let run = Run::new(Scenario::parse(HOURS).unwrap(), 1, Some(3), Arc::new(Null)).unwrap();
    let claims = run.driver().claims().clone();
    assert!(run.finish().unwrap().holds());
    let stored = claims.open_costs().await.unwrap();
    let open: Open = decoded("cost#open", &stored.encoded).unwrap();
    let hours = claims.hours(Timestamp::MIN, open.through).await.unwrap();
    let hours = hours.iter().map(|hour| decoded("hour", &hour.encoded).unwrap()).collect();
    Clusters::from_iter([("hours".to_owned(), Records { hours, open: Some(open) })])
}

#[tokio::test]
async fn a_simulated_cluster_is_reported_in_every_form() {
    let records = records().await;
    let of = |by: &str, times: Times| {
        records.report(times, &by.split(',').map(|by| by.parse().unwrap()).collect::<Vec<_>>())
    };
    let made = of("namespace,label,controller,cluster,type", NEVER).unwrap();
    let totals = &made.totals;
    assert!(totals.costs.dollars > 0.0 && totals.spot.saved_dollars > 0.0, "{totals:?}");
    assert!(totals.consolidation.nodes > 0 && totals.consolidation.dollars_per_hour > 0.0, "{totals:?}");
    let text = text::summary(&made) + &text::tables(&made);
    for part in [
        "Nodes of cluster hours, ",
        "  saved by spot ",
        "  consolidation ",
        "  change ",
        "  forecast ",
        "\n\nNAMESPACE ",
        "\ndefault ",
        "(idle)",
        "exceeded",
        "\nweb ",
        "\ndefault/Deployment/web ",
        "\n\nCLUSTER ",
        "\nhours ",
        "\n\nTYPE ",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let page = html::page(&made);
    assert!(page.contains("<svg") && page.contains("<rect class=\"c0\"") && !page.contains("<script"), "{page}");
    assert!(page.contains("<h2>By namespace</h2>") && page.contains("<h2>By type</h2>"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"));
    let error = of("label=team", NEVER).unwrap_err().to_string();
    assert!(error.contains("but by app.kubernetes.io/name"), "{error}");
    let early = Times { to: Some("2001-01-01T00:00:00Z".parse().unwrap()), ..NEVER };
    let error = of("type", early).unwrap_err().to_string();
    assert!(error.starts_with("there is no cost record of this time: costs are recorded from "), "{error}");
    // The last hour is compared with the one before it, and the records of both are needed.
    let last = Times { window: Some("1h".parse().unwrap()), ..NEVER };
    let made = of("namespace", last).unwrap();
    let needed = records.needed(last).unwrap();
    assert_eq!((needed.from, needed.to), (Some(made.before.from), Some(made.to)));
    assert!(made.before.dollars > Some(0.0) && made.forecast.is_some(), "{made:?}");
    let text = text::summary(&made) + &text::tables(&made);
    assert!(text.contains(" in the time before\n") && text.contains("  CHANGE "), "{text}");
}

fn item(cluster: &str, key: &str, bytes: &[u8]) -> Vec<Item> {
    use base64::Engine as _;
    let record = base64::engine::general_purpose::STANDARD.encode(bytes);
    let items = serde_json::json!([{ "pk": { "S": cluster }, "sk": { "S": key }, "record": { "B": record } }]);
    crate::table::parse(&items.to_string(), Path::new("items.json")).unwrap()
}

#[test]
fn an_item_that_cannot_be_read_is_named() {
    let error = of_items(&item("prod", "hour#1970-01-01T00#default", b"?")).unwrap_err().to_string();
    assert!(error.starts_with("item hour#1970-01-01T00#default: it is damaged"), "{error}");
    let nothing = of_items(&item("prod", "decision#1", b"?")).unwrap();
    let error = nothing.report(NEVER, &[By::Type]).unwrap_err().to_string();
    assert!(error.contains("no costs are recorded"), "{error}");
    let one = Clusters::from_iter([("prod".to_owned(), Records::default())]);
    let error = one.needed(NEVER).unwrap_err().to_string();
    assert!(error.contains("no costs of cluster prod are recorded"), "{error}");
}

#[test]
fn each_partition_is_a_cluster_and_an_item_counts_once() {
    let record = |hour: &str| {
        let cost = OfferingCost {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::Spot,
            seconds: 3600.0,
            dollars: 1.0,
            on_demand_dollars: 2.0,
            unpriced_seconds: 0.0,
        };
        encode(&HourRecord { offerings: vec![cost], ..HourRecord::new(hour.parse().unwrap(), "default") }).unwrap()
    };
    let mut items = Vec::new();
    for (cluster, hour) in [("test", "00"), ("prod", "00"), ("prod", "01"), ("prod", "00")] {
        let bytes = record(&format!("2026-11-23T{hour}:00:00Z"));
        items.extend(item(cluster, &format!("hour#2026-11-23T{hour}#default"), &bytes));
    }
    let clusters = of_items(&items).unwrap();
    let made = clusters.report(NEVER, &[By::Cluster, By::Cluster, By::NodePool]).unwrap();
    let rows = |index: usize| -> Vec<(&str, f64)> {
        made.divisions[index].rows.iter().map(|row| (row.name.as_str(), row.costs.dollars)).collect()
    };
    assert_eq!((rows(0), rows(1)), (vec![("prod", 2.0), ("test", 1.0)], vec![("default", 3.0)]));
    let text = text::summary(&made);
    assert!(text.starts_with("Nodes of clusters prod, test, 2026-11-01 00:00 to 2026-11-23 02:00 UTC ("), "{text}");
    assert!(
        text.contains("(prod is recorded since 2026-11-23 00:00, test is recorded since 2026-11-23 00:00)"),
        "{text}"
    );
    assert!(
        text.contains("\n  change             not known without records of test from 2026-10-09 22:00 on\n"),
        "{text}"
    );
    // In CSV each line is of one cluster.
    let csv = csv(&clusters.reports(NEVER, &[By::NodePool]).unwrap());
    let lines =
        |cluster: &str| csv.lines().filter(|line| line.contains(&format!(",nodepool,{cluster},default,"))).count();
    assert_eq!((lines("prod"), lines("test"), csv.lines().count()), (1, 1, 3), "{csv}");
}
