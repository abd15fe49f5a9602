//! Objects that are far larger than those of any cluster. The API server has no limit for most lists but the size of the object, so a
//! plan has to end, and to report on each pod.

use super::ended;
use crate::support::objects::Objects;
use serde_json::{Value, json};

/// Plans for a pending pod with this change, and returns the plan with its exit code.
fn planned(what: &str, change: impl FnOnce(&mut Value)) -> (Option<i32>, Value) {
    let mut objects = Objects::new();
    change(objects.pod("large", None, "100m"));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 });
    let planned = ended(&["plan", "--cluster", "-", "-o", "json"], list.to_string().as_bytes(), what);
    let plan = serde_json::from_str(&planned.stdout).unwrap_or_else(|error| panic!("{what}: {error}: {planned:?}"));
    (planned.code, plan)
}

fn many(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

/// Whether a node is launched for the pod. If not, the plan reports why: it evaluates only a limited number of some terms.
fn launches(what: &str, change: impl FnOnce(&mut Value)) -> bool {
    let (code, plan) = planned(what, change);
    let launched = plan["launches"].as_array().unwrap().len();
    let refused = &plan["unschedulable"][0];
    let reported =
        refused["pod"] == "default/large" && refused["reasons"].as_array().is_some_and(|all| !all.is_empty());
    assert!(
        matches!((code, launched, reported), (Some(0), 1, false) | (Some(2), 0, true)),
        "{what}: {code:?} {refused}"
    );
    launched == 1
}

/// A term that requires or prefers a zone.
fn zone(name: &str) -> Value {
    json!({ "matchExpressions": [{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [name] }] })
}

#[test]
fn lists_of_ten_thousand_containers_and_tolerations_are_planned() {
    let launched = launches("containers", |pod| {
        let container = |place| json!({ "name": format!("c{place}"), "resources": { "requests": { "cpu": "1m" } } });
        pod["spec"]["containers"] = many(10_000, container);
    });
    assert!(launched, "each container requests 1m");
    let _ = launches("tolerations", |pod| {
        pod["spec"]["tolerations"] = many(10_000, |place| json!({ "key": format!("k{place}"), "operator": "Exists" }));
    });
    let _ = launches("labels", |pod| {
        for place in 0..5_000 {
            pod["metadata"]["labels"][format!("label-{place}")] = json!("value");
        }
    });
}

#[test]
fn lists_of_thousands_of_node_affinity_terms_are_planned() {
    let _ = launches("values", |pod| {
        let mut term = zone("us-east-1a");
        term["matchExpressions"][0]["values"] =
            many(5_000, |place| json!(if place == 4_999 { "us-east-1a".to_owned() } else { format!("zone-{place}") }));
        let required = json!({ "nodeSelectorTerms": [term] });
        pod["spec"]["affinity"] =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    });
    let _ = launches("preferences", |pod| {
        let preferred = many(10_000, |place| json!({ "weight": 1, "preference": zone(&format!("zone-{place}")) }));
        pod["spec"]["affinity"] =
            json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } });
    });
    let launched = launches("terms", |pod| {
        let required = json!({ "nodeSelectorTerms": many(10_000, |place| zone(&format!("zone-{place}"))) });
        pod["spec"]["affinity"] =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    });
    assert!(!launched, "no zone of the terms exists");
}

#[test]
fn lists_of_thousands_of_terms_about_other_pods_are_planned() {
    let near = |place: usize| json!({ "labelSelector": { "matchLabels": { "app": format!("a{place}") } }, "topologyKey": "kubernetes.io/hostname" });
    let _ = launches("anti-affinity", |pod| {
        let required = many(10_000, near);
        pod["spec"]["affinity"] =
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    });
    let _ = launches("preferred affinity", |pod| {
        let preferred = many(10_000, |place| json!({ "weight": 1, "podAffinityTerm": near(place) }));
        pod["spec"]["affinity"] =
            json!({ "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } });
    });
    let _ = launches("topology spread", |pod| {
        pod["spec"]["topologySpreadConstraints"] = many(2_000, |place| {
            let mut constraint = near(place);
            constraint["maxSkew"] = json!(1);
            constraint["whenUnsatisfiable"] = json!("DoNotSchedule");
            constraint
        });
    });
}
