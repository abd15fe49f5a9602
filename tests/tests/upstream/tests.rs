//! Tests of the table itself: that a case can fail, and which cases are refused.

use crate::evaluate_all;
use crate::table::{Table, entries};

const HOLDS: &str = "cases:
  - case: three large pods need three nodes
    suite: pkg/a_test.go
    catalog: [m5.large]
    pods: { count: 3, cpu: 1500m }
    expect: { nodes: 3, each: { type: m5.large } }
";

fn failures(text: &str) -> Vec<String> {
    let entries = entries("some.yaml", text).unwrap();
    evaluate_all(&entries.iter().collect::<Vec<_>>())
}

fn refusal(text: &str) -> String {
    entries("some.yaml", text).unwrap_err()
}

#[test]
fn a_case_with_another_outcome_fails_with_its_place_and_both_outcomes() {
    assert_eq!(failures(HOLDS), Vec::<String>::new());
    assert_eq!(
        failures(&HOLDS.replace("nodes: 3", "nodes: 2")),
        [
            "tests/upstream/some.yaml:2: three large pods need three nodes\n  number of new nodes: expected 2, but it is 3"
        ]
    );
    let other = failures(&HOLDS.replace("type: m5.large }", "type: c5.large }"));
    assert!(other[0].contains("instance type: expected \"c5.large\", but it is \"m5.large\""), "{other:?}");
}

#[test]
fn every_pod_has_to_be_scheduled_unless_the_case_states_which_are_not() {
    let large = HOLDS.replace("1500m", "64").replace("nodes: 3, each: { type: m5.large }", "nodes: 0");
    assert!(failures(&large)[0].contains("all pods have to be scheduled"), "{large}");
    assert!(failures(&large.replace("nodes: 0", "unschedulable: 3")).is_empty());
}

#[test]
fn a_known_failure_has_to_fail() {
    let known = |text: &str| text.replace("    catalog", "    fails: a known fault\n    catalog");
    assert!(failures(&known(&HOLDS.replace("nodes: 3", "nodes: 2"))).is_empty());
    assert!(failures(&known(HOLDS))[0].contains("it holds now"));
}

#[test]
fn an_incomplete_or_misspelled_case_is_refused() {
    assert!(refusal(&HOLDS.replace("nodes: 3, each: { type: m5.large }", "")).contains("it expects nothing"));
    assert!(refusal(&HOLDS.replace("nodes: 3", "node: 3")).contains("unknown field `node`"));
    assert!(refusal(&HOLDS.replace("cpu: 1500m", "cpus: 1500m")).contains("some.yaml:2: unknown field `cpus`"));
    assert!(refusal(&HOLDS.replace("pkg/a_test.go", "a_test.go")).contains("its suite is not"));
    assert!(refusal("cases: [").contains("some.yaml"));
}

#[test]
fn two_cases_of_one_name_or_a_page_that_does_not_exist_are_refused() {
    let read = |text: &str| {
        let folder = std::env::temp_dir().join(format!("nodeless-upstream-{}-{}", std::process::id(), text.len()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("some.yaml"), text).unwrap();
        let read = Table::read(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        read.map(|table| table.entries.len())
    };
    let cases = HOLDS.strip_prefix("cases:\n").unwrap();
    assert_eq!(read(HOLDS), Ok(1));
    assert!(read(&format!("{HOLDS}{cases}")).unwrap_err().contains("some.yaml:2 has the same name"));
    let differs = HOLDS.replace("    catalog", "    differs: { page: docs/none.md#none, upstream: one }\n    catalog");
    assert!(read(&differs).unwrap_err().contains("docs/none.md"));
}
