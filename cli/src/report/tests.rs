use super::*;
use nodeless_bill::encode;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
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

async fn records() -> Records {
    let run = Run::new(Scenario::parse(HOURS).unwrap(), 1, Some(3), Arc::new(Null)).unwrap();
    let claims = run.driver().claims().clone();
    assert!(run.finish().unwrap().holds());
    let stored = claims.open_costs().await.unwrap();
    let open: Open = decoded("cost#open", &stored.encoded).unwrap();
    let hours = claims.hours(Timestamp::MIN, open.through).await.unwrap();
    Records { hours: hours.iter().map(|hour| decoded("hour", &hour.encoded).unwrap()).collect(), open: Some(open) }
}

#[tokio::test]
async fn a_simulated_cluster_is_reported_in_every_form() {
    let records = records().await;
    assert!(records.hours.len() >= 2, "{}", records.hours.len());
    let made = records.report("hours", NEVER, "namespace".parse().unwrap()).unwrap();
    let totals = &made.totals;
    assert!(totals.costs.dollars > 0.0 && totals.spot.saved_dollars > 0.0, "{totals:?}");
    assert!(totals.consolidation.nodes > 0 && totals.consolidation.dollars_per_hour > 0.0, "{totals:?}");
    let text = text::summary(&made) + &text::rows(&made);
    for part in [
        "Nodes of cluster hours, ",
        "  saved by spot ",
        "  consolidation ",
        "\nNAMESPACE  ",
        "\ndefault ",
        "(idle)",
        "exceeded",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let by_label = text::rows(&records.report("hours", NEVER, "label".parse().unwrap()).unwrap());
    assert!(by_label.contains("\nweb "), "{by_label}");
    let by_controller = text::rows(&records.report("hours", NEVER, "controller".parse().unwrap()).unwrap());
    assert!(by_controller.contains("\ndefault/Deployment/web "), "{by_controller}");
    let page = html::page(&made);
    assert!(page.contains("<svg") && page.contains("<rect class=\"c0\"") && !page.contains("<script"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"));
    let error = records.report("hours", NEVER, "label=team".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("but by app.kubernetes.io/name"), "{error}");
    let early = Times { from: None, window: None, to: Some("2001-01-01T00:00:00Z".parse().unwrap()) };
    let error = records.report("hours", early, "type".parse().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("there is no cost record of this time: costs are recorded from "), "{error}");
}

#[test]
fn an_item_that_cannot_be_read_is_named() {
    use base64::Engine as _;
    let item = |key: &str, bytes: &[u8]| {
        let record = base64::engine::general_purpose::STANDARD.encode(bytes);
        let items = serde_json::json!([{ "pk": { "S": "prod" }, "sk": { "S": key }, "record": { "B": record } }]);
        crate::table::parse(&items.to_string(), Path::new("items.json")).unwrap()
    };
    let hour = HourRecord::new(Timestamp::UNIX_EPOCH, "default");
    assert_eq!(of_items(&item("hour#1970-01-01T00#default", &encode(&hour).unwrap())).unwrap().hours, [hour]);
    let error = of_items(&item("hour#1970-01-01T00#default", b"?")).unwrap_err().to_string();
    assert!(error.starts_with("item hour#1970-01-01T00#default: it is damaged"), "{error}");
    let nothing = of_items(&item("decision#1", b"?")).unwrap();
    let error = nothing.report("prod", NEVER, By::Type).unwrap_err().to_string();
    assert!(error.contains("no costs are recorded"), "{error}");
}
