//! Properties of every comparison.

use super::{compared, deployment, pool, set};
use serde_json::{Value, json};

/// Sets that differ in workloads, NodePools and what can be scheduled.
fn sets() -> Vec<Vec<Value>> {
    let mut picky = deployment("picky", 3, "2");
    picky["spec"]["template"]["spec"]["nodeSelector"] = json!({ "karpenter.k8s.aws/instance-family": "r5" });
    let memory = [json!({ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["r5"] })];
    let mut more = pool("memory", &[]);
    more["spec"]["template"]["spec"]["requirements"][2] = memory[0].clone();
    let mut fixed = pool("fixed", &[]);
    fixed["spec"]["replicas"] = json!(2);
    vec![
        set(&[deployment("web", 2, "3")]),
        set(&[deployment("web", 9, "3"), deployment("api", 4, "500m")]),
        set(&[deployment("web", 2, "3"), picky.clone()]),
        set(&[deployment("web", 2, "3"), picky, more, fixed]),
        Vec::new(),
    ]
}

/// The exit code for this comparison.
fn code(base: &Value, head: &Value) -> i32 {
    let picky = |set: &Value| set.to_string().contains("picky") && !set.to_string().contains("memory\"},\"spec");
    if picky(head) && !picky(base) { 2 } else { 0 }
}

fn report(base: &[Value], head: &[Value]) -> Value {
    compared(code(&json!(base), &json!(head)), [base, head], &[])
}

#[test]
fn a_set_does_not_differ_from_itself() {
    for set in sets().iter().filter(|set| !set.is_empty()) {
        let mut reordered = set.clone();
        reordered.reverse();
        for report in [report(set, set), report(set, &reordered)] {
            assert_eq!(report["headline"], "no change of nodes");
            assert_eq!(report["difference"], json!({ "nodes": 0, "dollarsPerMonth": 0 }));
            assert_eq!(report["objects"], json!({ "added": [], "removed": [], "changed": [] }));
            for pods in ["becomeUnschedulable", "becomeSchedulable", "removedUnschedulable"] {
                assert_eq!(report[pods], json!([]), "{pods}");
            }
        }
    }
}

#[test]
fn swapped_sets_have_the_negated_differences() {
    let sets = sets();
    for (index, one) in sets.iter().enumerate() {
        for other in &sets[index + 1..] {
            let (there, back) = (report(one, other), report(other, one));
            for field in ["nodes", "dollarsPerMonth"] {
                let of = |report: &Value| report["difference"][field].as_i64().unwrap();
                assert_eq!(of(&there), -of(&back), "{field}: {there:#}");
            }
            assert_eq!((&there["before"], &there["after"]), (&back["after"], &back["before"]));
            assert_eq!(there["objects"]["added"], back["objects"]["removed"]);
            assert_eq!(
                there["objects"]["changed"].as_array().unwrap().len(),
                back["objects"]["changed"].as_array().unwrap().len()
            );
            for (there, back) in [(&there, &back), (&back, &there)] {
                let list = |report: &Value, field: &str| report[field].as_array().unwrap().clone();
                let begin: Vec<Value> =
                    list(there, "becomeUnschedulable").iter().map(|one| one["pod"].clone()).collect();
                let mut end = list(back, "becomeSchedulable");
                end.extend(list(back, "removedUnschedulable"));
                end.sort_by_key(Value::to_string);
                assert_eq!(begin, end);
            }
        }
    }
}
