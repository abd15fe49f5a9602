//! `nodeless report`.

use crate::support::browser::Browser;
use crate::support::{Folder, nodeless, run};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;

fn deflated(value: &Value) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(value.to_string().as_bytes()).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}

/// The record of an hour of a spot node.
pub(crate) fn record() -> Value {
    json!({
        "hour": "2026-11-23T12:00:00Z", "nodePool": "default", "idle": 0.02, "starting": 0.01,
        "offerings": [{
            "instanceType": "m6i.large", "zone": "us-east-1a", "capacityType": "spot",
            "seconds": 3600.0, "dollars": 0.04, "onDemandDollars": 0.096
        }],
        "namespaces": { "shop": { "dollars": 0.01, "cpu": 0.5, "memory": 1.0 } },
        "requested": { "cpu": 0.5, "memory": 1.0 },
    })
}

/// A record of an hour, as the table returns it.
pub(crate) fn item(at: &str, format: u32, record: &Value) -> Value {
    json!({
        "pk": { "S": "prod" }, "sk": { "S": format!("hour#{at}#default") },
        "record": { "B": deflated(&json!({ "format": format, "record": record })) }
    })
}

/// An hour of a spot node, as the table returns it.
fn hour(hour: u32, format: u32) -> Value {
    let at = format!("2026-11-23T{hour:02}");
    let mut record = record();
    record["hour"] = json!(format!("{at}:00:00Z"));
    item(&at, format, &record)
}

fn file(folder: &Folder, items: &[Value]) -> PathBuf {
    let path = folder.path().join("hours.json");
    std::fs::write(&path, json!({ "Items": items }).to_string()).unwrap();
    path
}

#[test]
fn a_report_is_printed_from_a_file_in_each_form() {
    let folder = Folder::new();
    let path = file(&folder, &[hour(12, 1), hour(13, 1)]);
    let of = |arguments: &[&str]| {
        let printed = run(nodeless().arg("report").arg(&path).args(arguments));
        assert_eq!(printed.code, Some(0), "{}", printed.stderr);
        printed.stdout
    };
    let expected = "\
Nodes of cluster prod, 2026-11-01 00:00 to 2026-11-23 14:00 UTC (recorded since 2026-11-23 12:00)

  spent              $0.0800, on-demand $0.1920
  requested by pods  $0.0200 (25.0%)
  idle               $0.0400 (50.0%)
  starting           $0.0200 (25.0%)
  terminating        $0.0000 (0.0%)
  saved by spot      $0.1120 in 2.0 node hours
  change             not known without records from 2026-10-09 10:00 on

NODEPOOL  NODE HOURS  DOLLARS   SHARE  ON-DEMAND     IDLE
default          2.0  $0.0800  100.0%    $0.1920  $0.0400
";
    assert_eq!(of(&[]), expected);
    let namespaces = of(&["--by", "namespace", "--from", "2026-11-23T13:00:00Z"]);
    assert!(namespaces.contains("\nshop        $0.0100  25.0%         0.5        1.0  $0.0000  +0%\n"), "{namespaces}");
    let window = of(&["--window", "1h"]);
    assert!(window.contains("\n  change             $0.0000 (+0.0%), from $0.0400 in the time before\n"), "{window}");
    assert!(window.starts_with("Nodes of cluster prod, 2026-11-23 13:00 to 2026-11-23 14:00 UTC\n"), "{window}");
    let json: Value = serde_json::from_str(&of(&["-o", "json", "--by", "type"])).unwrap();
    assert_eq!((&json["clusters"][0]["name"], &json["totals"]["nodeHours"]), (&json!("prod"), &json!(2.0)));
    let division = &json["divisions"][0];
    let row = &division["rows"][0];
    assert_eq!(
        (&division["by"], &row["name"], &row["capacityType"]),
        (&json!("type"), &json!("m6i.large"), &json!("spot"))
    );
    assert_eq!(
        (&json["before"]["dollars"], &row["dollarsBefore"], &json["forecast"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let csv = of(&["-o", "csv", "--by", "type"]);
    assert!(csv.starts_with("ChargePeriodStart,") && csv.contains(",Dynamic,2,Hours,AWS,"), "{csv}");
    let html = of(&["-o", "html"]);
    assert!(html.starts_with("<!doctype html>") && html.contains("What the nodes of cluster prod cost"), "{html}");
}

#[test]
fn clusters_in_several_files_are_reported_together_and_divided_several_times() {
    let folder = Folder::new();
    let mut other = hour(13, 1);
    other["pk"] = json!({ "S": "test" });
    let first = file(&folder, &[hour(12, 1), hour(13, 1)]);
    let second = folder.path().join("more.json");
    std::fs::write(&second, json!({ "Items": [other, hour(13, 1)] }).to_string()).unwrap();
    let of = |arguments: &[&str]| {
        let printed = run(nodeless().arg("report").args([&first, &second]).args(arguments));
        assert_eq!(printed.code, Some(0), "{}", printed.stderr);
        printed.stdout
    };
    let text = of(&["--by", "cluster", "--by", "namespace,type"]);
    for part in [
        "Nodes of clusters prod, test, ",
        "  spent              $0.1200, ",
        "\n\nCLUSTER  NODE HOURS  DOLLARS  SHARE  ON-DEMAND     IDLE\nprod            2.0  $0.0800  66.7%  ",
        "\ntest            1.0  $0.0400  33.3%  ",
        "\n\nNAMESPACE ",
        "\n\nTYPE ",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json: Value = serde_json::from_str(&of(&["-o", "json", "--by", "cluster,type"])).unwrap();
    let divisions: Vec<&str> =
        json["divisions"].as_array().unwrap().iter().map(|it| it["by"].as_str().unwrap()).collect();
    assert_eq!(divisions, ["cluster", "type"]);
    let csv = of(&["-o", "csv", "--by", "cluster,type"]);
    assert_eq!(csv.lines().filter(|line| line.contains(",cluster,test,")).count(), 1, "{csv}");
    assert_eq!(csv.lines().filter(|line| line.contains(",type,prod,")).count(), 1, "{csv}");
}

/// An hour with the longest names of an instance type and a zone, a long one of a controller, and amounts of five digits.
fn large(at: &str) -> Value {
    let mut record = record();
    record["hour"] = json!(format!("{at}:00:00Z"));
    let offering = &mut record["offerings"][0];
    offering["instanceType"] = json!("u7in-24tb.224xlarge");
    offering["zone"] = json!("us-west-2-lax-1a");
    offering["capacityType"] = json!("on-demand");
    offering["dollars"] = json!(12_345.67);
    offering["onDemandDollars"] = json!(12_345.67);
    record["requested"]["gpu"] = json!(8.0);
    let controllers = |number: usize| {
        (format!("payments/StatefulSet/{}-{number}", "orders".repeat(8)), json!({ "dollars": 9.5, "gpu": 1.0 }))
    };
    record["controllers"] = (0..8).map(controllers).collect::<serde_json::Map<_, _>>().into();
    item(at, 1, &record)
}

const ALL: [&str; 4] = ["--window", "1h", "--by", "nodepool,namespace,controller,type,cluster"];

#[test]
fn tables_fit_into_80_columns() {
    let folder = Folder::new();
    let path = file(&folder, &[large("2026-11-23T12"), large("2026-11-23T13")]);
    let printed = run(nodeless().arg("report").arg(&path).args(ALL));
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.contains("  CHANGE ") && printed.stdout.contains("GPU HOURS"), "{}", printed.stdout);
    let long: Vec<&str> = printed.stdout.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_page_fits_a_phone_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = Folder::new();
    let path = file(&folder, &[large("2026-11-23T12"), large("2026-11-23T13")]);
    let printed = run(nodeless().arg("report").arg(&path).args(ALL).args(["-o", "html"]));
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let page = folder.path().join("report.html");
    std::fs::write(&page, printed.stdout).unwrap();
    browser.open(&format!("file://{}", page.display()));
    for scheme in ["light", "dark"] {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call("Emulation.setEmulatedMedia", &feature);
        for width in [360, 390, 900] {
            let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
            browser.call("Emulation.setDeviceMetricsOverride", &size);
            // Tables of many columns scroll within their own box.
            let outside = "
                const out = (it) => { const { left, right } = it.getBoundingClientRect(); return left < 0 || right > window.innerWidth; };
                const all = [...document.querySelectorAll('h1, h2, p, span, svg, table, div.wide')].filter((it) => !it.closest('.wide table'));
                return [Math.max(0, document.documentElement.scrollWidth - window.innerWidth), all.filter(out).map((it) => it.textContent.slice(0, 60))]";
            assert_eq!(browser.script(outside), json!([0, []]), "{width} in {scheme}");
            let contrast = browser.script(include_str!("support/contrast.js"));
            assert_eq!(contrast, json!([]), "texts with too little contrast at {width} in {scheme}");
        }
    }
}

#[test]
fn what_cannot_be_reported_is_one_line_and_nothing_is_printed() {
    let folder = Folder::new();
    let good = file(&folder, &[hour(12, 1)]);
    let refused = |path: &PathBuf, arguments: &[&str], code: i32, expected: &str| {
        let printed = run(nodeless().arg("report").arg(path).args(arguments));
        assert_eq!((printed.code, printed.stdout.as_str()), (Some(code), ""), "{}", printed.stderr);
        assert!(printed.stderr.contains(expected), "no {expected:?} in {}", printed.stderr);
    };
    let other_time = ["--from", "2026-01-01", "--to", "2026-02-01"];
    refused(
        &good,
        &other_time,
        1,
        "error: there is no cost record of this time: costs are recorded from 2026-11-23T12:00:00Z to",
    );
    let later = "error: there is no cost record of this time: costs are recorded from 2026-11-23T12:00:00Z to";
    refused(&good, &["--from", "2026-11-24"], 1, later);
    let backwards = ["--from", "2026-02-01", "--to", "2026-01-01"];
    refused(&good, &backwards, 1, "error: --to 2026-01-01T00:00:00Z is not after --from 2026-02-01T00:00:00Z");
    refused(&good, &["--from", "yesterday"], 2, "write a date such as 2026-11-01");
    refused(&good, &["--window", "weeks"], 2, "write a number of days or hours such as 7d or 24h");
    refused(&good, &["--window", "7d", "--to", "2026-11-24"], 2, "cannot be used with '--to <TIME>'");
    refused(&good, &["--window", "last-month"], 1, later);
    refused(&good, &["--by", "team"], 2, "is not cluster, nodepool, namespace, controller, type or label=KEY");
    refused(&good, &["--by", "label=team"], 1, "costs of this time are not recorded by this label, nor by any other");
    let future = file(&folder, &[hour(12, 2)]);
    refused(
        &future,
        &[],
        1,
        "error: item hour#2026-11-23T12#default: it has the format 2, and this version of nodeless reads the format 1",
    );
    let unreadable = folder.path().join("other.json");
    std::fs::write(&unreadable, "hello").unwrap();
    refused(&unreadable, &[], 1, "other.json: it is not JSON");
}
