//! `nodeless decisions`.

use crate::support::{Folder, in_a_terminal, nodeless, run};
use serde_json::{Value, json};

/// An item of a decision as the table returns it.
fn item(id: &str, kind: &str, detail: &Value) -> Value {
    let record = json!({
        "id": id, "at": "2026-01-10T12:00:00Z", "kind": kind, "subjects": ["default-1"], "summary": "1 node may go, 2 stay",
        "detail": detail.to_string()
    });
    json!({
        "pk": { "S": "prod" }, "sk": { "S": format!("decision#{id}") }, "expires": { "N": "1" },
        "record": { "S": record.to_string() }
    })
}

#[test]
fn decisions_are_printed_from_a_file() {
    let offering =
        json!({ "instanceType": "c6a.xlarge", "zone": "us-east-1a", "capacityType": "spot", "pricePerHour": 0.153 });
    let replacement = json!({
        "nodePool": "default", "offering": offering, "instanceTypes": ["c6a.xlarge", "c5.xlarge"], "pods": ["shop/web-1"]
    });
    let detail = json!({
        "commands": [{
            "id": "single-node-1", "method": "SingleNodeConsolidation", "reason": "Underutilized", "nodes": ["ip-1"],
            "replacements": [replacement], "savingsPerHour": 0.25, "evictions": 2, "score": 0.75,
            "placements": [{ "pod": "shop/web-2", "node": "ip-2" }]
        }],
        "kept": [
            { "node": "ip-2", "reasons": ["it is not initialized yet"] },
            { "node": "ip-3", "reasons": ["it is not initialized yet"] }
        ],
        "notLookedAt": []
    });
    let folder = Folder::new();
    let path = folder.path().join("decisions.json");
    let other = json!({ "pk": { "S": "prod" }, "sk": { "S": "nodeclaim#a" } });
    let items = json!({ "Items": [item("2", "disruption-proposed", &detail), other], "Count": 2 });
    std::fs::write(&path, items.to_string()).unwrap();

    let printed = run(nodeless().arg("decisions").arg(&path));
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let expected = "\
2026-01-10T12:00:00Z  disruption-proposed  1 node may go, 2 stay

  SingleNodeConsolidation (Underutilized): $0.2500/h saved, score 0.75
     disrupt  ip-1
     launch   c6a.xlarge spot us-east-1a $0.1530/h of NodePool default
              or c5.xlarge
     evict    2 pods: 1 to the new node, 1 to ip-2

  ip-2, ip-3: it is not initialized yet

";
    assert_eq!(printed.stdout, expected);

    let about = run(nodeless().arg("decisions").arg(&path).args(["--about", "ip-3"]));
    assert!(about.stdout.contains("\n  ip-3: it is not") && !about.stdout.contains("ip-1"), "{}", about.stdout);
    let none = run(nodeless().arg("decisions").arg(&path).args(["--kind", "provisioning"]));
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.contains("no decision in the input has a kind given with --kind"), "{}", none.stderr);
    let json = run(nodeless().arg("decisions").arg(&path).args(["-o", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json[0]["kind"], &json[0]["detail"]), (&json!("disruption-proposed"), &detail));
}

/// As `nodeless-state` stores a record that is longer than an item can be.
#[test]
fn a_record_in_several_items_is_printed_whole_or_named() {
    let offering =
        json!({ "instanceType": "c6a.xlarge", "zone": "us-east-1a", "capacityType": "spot", "pricePerHour": 0.153 });
    let pods: Vec<String> = (0..1_000).map(|number| format!("shop/web-{number}")).collect();
    let launch = json!({ "nodePool": "default", "offering": offering, "instanceTypes": ["c6a.xlarge"], "pods": pods });
    let whole = item("7", "provisioning", &json!({ "launches": [launch], "claims": ["default-1"] }));
    let record = whole["record"]["S"].as_str().unwrap();
    let part = |key: &str, from: usize, to: usize| json!({ "sk": { "S": key }, "record": { "S": &record[from..to] } });
    let mut first = part("decision#7", 0, 1_000);
    first["parts"] = json!({ "N": "3" });
    // With --no-scan-index-forward, the first item follows the others.
    let items = [part("decision#7#002", 9_000, record.len()), part("decision#7#001", 1_000, 9_000), first];
    let folder = Folder::new();
    let path = folder.path().join("decisions.json");
    let printed = |items: &[Value]| {
        std::fs::write(&path, json!({ "Items": items }).to_string()).unwrap();
        run(nodeless().arg("decisions").arg(&path).args(["--about", "shop/web-999"]))
    };
    let complete = printed(&items);
    assert_eq!(complete.code, Some(0), "{}", complete.stderr);
    assert!(complete.stdout.contains("     for      1000 pods: shop/web-0, "), "{}", complete.stdout);
    let without_one = printed(&items[1..]);
    assert_eq!((without_one.code, without_one.stdout.as_str()), (Some(0), ""));
    let expected = "note: decision#7 is left out, because the input does not have all of its 3 items";
    assert!(without_one.stderr.contains(expected), "{}", without_one.stderr);
}

#[test]
fn a_record_of_another_version_is_named_without_other_advice() {
    let folder = Folder::new();
    let path = folder.path().join("decisions.json");
    let items = json!({ "Items": [item("9", "disruption", &json!({ "commands": { "form": 2 } }))] });
    std::fs::write(&path, items.to_string()).unwrap();
    let ended = run(nodeless().arg("decisions").arg(&path));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let expected =
        format!("error: {}: item decision#9: attribute detail: this version cannot read it (", path.display());
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    assert!(
        ended.stderr.ends_with("; another version of nodeless may have written it: use that version\n"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("aws dynamodb query"), "the file is what the command reads: {}", ended.stderr);
}

#[test]
fn a_file_without_items_of_the_table_is_an_error() {
    let folder = Folder::new();
    let path = folder.path().join("cluster.yaml");
    std::fs::write(&path, "apiVersion: v1\n").unwrap();
    let wrong = run(nodeless().arg("decisions").arg(&path));
    assert_eq!(wrong.code, Some(1));
    assert!(
        wrong.stderr.contains("cluster.yaml: it is not JSON") && wrong.stderr.contains("aws dynamodb query"),
        "{}",
        wrong.stderr
    );
    let missing = run(nodeless().args(["decisions", "no-such-file.json"]));
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no-such-file.json cannot be read"), "{}", missing.stderr);
}

#[test]
fn without_a_cluster_and_a_file_no_input_is_waited_for() {
    const EXPECTED: &str = "error: standard input has no records; give --cluster NAME";
    for command in ["decisions", "report"] {
        let ended = run(nodeless().arg(command));
        assert!(ended.code == Some(1) && ended.stderr.starts_with(EXPECTED), "{ended:?}");
        let commands = format!("stty cols 200; timeout --foreground 20 {} {command}", env!("CARGO_BIN_EXE_nodeless"));
        let Some(output) = in_a_terminal(&commands, "", "") else { return };
        assert!(output.starts_with(EXPECTED), "{output}");
    }
}
