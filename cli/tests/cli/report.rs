//! `nodeless report`.

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

NODEPOOL  NODE HOURS  DOLLARS   SHARE  ON-DEMAND     IDLE
default          2.0  $0.0800  100.0%    $0.1920  $0.0400
";
    assert_eq!(of(&[]), expected);
    let namespaces = of(&["--by", "namespace", "--from", "2026-11-23T13:00:00Z"]);
    assert!(namespaces.contains("\nshop        $0.0100  25.0%         0.5        1.0        0.0\n"), "{namespaces}");
    let window = of(&["--window", "1h"]);
    assert!(window.starts_with("Nodes of cluster prod, 2026-11-23 13:00 to 2026-11-23 14:00 UTC\n"), "{window}");
    let json: Value = serde_json::from_str(&of(&["-o", "json", "--by", "type"])).unwrap();
    assert_eq!((&json["cluster"], &json["totals"]["nodeHours"]), (&json!("prod"), &json!(2.0)));
    assert_eq!((&json["rows"][0]["name"], &json["rows"][0]["capacityType"]), (&json!("m6i.large"), &json!("spot")));
    let csv = of(&["-o", "csv", "--by", "type"]);
    assert!(csv.starts_with("ChargePeriodStart,") && csv.contains(",Dynamic,2,Hours,AWS,"), "{csv}");
    let html = of(&["-o", "html"]);
    assert!(html.starts_with("<!doctype html>") && html.contains("What the nodes of prod cost"), "{html}");
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
    refused(&good, &["--window", "week"], 2, "write a number of days or hours such as 7d or 24h");
    refused(&good, &["--window", "7d", "--to", "2026-11-24"], 2, "cannot be used with '--to <TIME>'");
    refused(&good, &["--window", "last-month"], 1, later);
    refused(&good, &["--by", "team"], 2, "is not nodepool, namespace, controller, type or label=KEY");
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
