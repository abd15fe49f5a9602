//! Fields that the kind of a manifest does not have.

use super::{between, deployment, pool, set, written};
use crate::support::{Folder, nodeless, run};
use serde_json::{Value, json};
use std::path::Path;

/// A NodePool and a Deployment with fields that do not exist.
fn misspelled() -> Vec<Value> {
    let mut pool = pool("default", &[]);
    let spec = &mut pool["spec"];
    let requirements = spec["template"]["spec"].as_object_mut().unwrap().remove("requirements").unwrap();
    spec["template"]["spec"]["requirments"] = requirements;
    spec["limit"] = json!({ "cpu": 10 });
    spec["consolidationPolicy"] = json!("WhenEmpty");
    let mut web = deployment("web", 1, "1");
    let spec = &mut web["spec"];
    spec["replica"] = spec.as_object_mut().unwrap().remove("replicas").unwrap();
    spec["template"]["spec"]["containers"][0]["resources"] = json!({ "request": { "cpu": "500m" }, "cpu": 1 });
    web["metadata"]["lables"] = json!({});
    vec![pool, web]
}

#[test]
fn misspelled_fields_of_head_are_errors_that_name_them() {
    let folder = Folder::new();
    let head = written(&folder, "head", &misspelled());
    let ended = between([Path::new("/dev/null"), &head], &["-o", "json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let of = |object: &str, field: &str, meant: &str| {
        let kind = object.split(' ').next().unwrap();
        format!("{object}: {field}: {kind} has no such field; did you mean {meant}?")
    };
    let container = "spec.template.spec.containers[0].resources";
    for expected in [
        of("NodePool default", "spec.template.spec.requirments", "requirements"),
        of("NodePool default", "spec.limit", "limits"),
        of("NodePool default", "spec.consolidationPolicy", "spec.disruption.consolidationPolicy"),
        of("Deployment default/web", "metadata.lables", "labels"),
        of("Deployment default/web", "spec.replica", "replicas"),
        of("Deployment default/web", &format!("{container}.request"), "requests"),
        of("Deployment default/web", &format!("{container}.cpu"), "requests.cpu"),
    ] {
        let line = ended.stderr.lines().find(|line| line.ends_with(&expected));
        assert!(
            line.is_some_and(|line| line.starts_with("error: ") && line.contains("/head/")),
            "{expected}: {ended:?}"
        );
    }

    // What HEAD corrects is no error, and neither is what an API server has accepted.
    let right = written(&folder, "right", &set(&[deployment("web", 1, "1")]));
    let corrected = between([&head, &right], &["-o", "json"]);
    assert!(corrected.code == Some(0) && corrected.stderr.contains("warning: "), "{corrected:?}");
    let mut stored = misspelled();
    stored.iter_mut().for_each(|object| object["metadata"]["uid"] = json!("u"));
    let ended = between([&right, &written(&folder, "stored", &stored)], &["-o", "json"]);
    assert!(!ended.stderr.contains("no such field"), "{ended:?}");
}

#[test]
fn elsewhere_they_are_warnings() {
    let folder = Folder::new();
    let cluster = written(&folder, "cluster", &misspelled());
    let planned = run(nodeless().args(["plan", "--cluster"]).arg(&cluster));
    let expected = "Deployment default/web: spec.replica: Deployment has no such field; did you mean replicas?";
    assert_eq!((planned.code, planned.stderr.matches(expected).count()), (Some(0), 1), "{planned:?}");
    let right = written(&folder, "right", &set(&[deployment("web", 1, "1")]));
    let compared = run(nodeless().args(["plan", "--what-if", "--cluster"]).arg(&right).arg("--if").arg(&cluster));
    assert_eq!((compared.code, compared.stderr.matches(expected).count()), (Some(0), 1), "{compared:?}");
    let many: Vec<Value> = (0..100)
        .map(|index| {
            let mut web = deployment(&format!("web-{index}"), 1, "1");
            web["spec"]["replica"] = json!(1);
            web
        })
        .collect();
    let planned = run(nodeless().args(["plan", "--cluster"]).arg(written(&folder, "many", &many)));
    assert_eq!(planned.stderr.matches("has no such field").count(), 20, "{planned:?}");
    assert!(
        planned.stderr.contains("warning: 80 more fields that the kinds of their objects do not have\n"),
        "{planned:?}"
    );
}

#[test]
fn what_may_be_newer_is_a_warning_that_names_the_known_version() {
    let folder = Folder::new();
    let mut web = deployment("web", 1, "1");
    web["spec"]["template"]["spec"]["unheardOf"] = json!(true);
    let mut newer = pool("default", &[]);
    newer["spec"]["template"]["spec"]["unheardOf"] = json!(true);
    let budget = json!({
        "apiVersion": "policy/v9", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "maxUnavailable": 1, "selector": {} },
    });
    let mut other = budget.clone();
    other["metadata"]["name"] = json!("other");
    let mut all = set(&[web, budget, other]);
    all[0] = newer;
    let ended = between([Path::new("/dev/null"), &written(&folder, "head", &all)], &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for (object, field, release) in [
        ("Deployment default/web", "spec.template.spec.unheardOf", "Kubernetes 1.36"),
        ("NodePool default", "spec.template.spec.unheardOf", "Karpenter 1.15"),
    ] {
        let kind = object.split_once(' ').unwrap().0;
        let expected = format!(
            "{object}: {field}: {kind} has no such field in {release}; unless it is one of a later release, correct or remove it\n"
        );
        assert!(ended.stderr.contains(&expected), "{expected}: {ended:?}");
    }
    let expected = "apiVersion: the fields of PodDisruptionBudget are not checked in policy/v9, which Kubernetes 1.36 does not have\n";
    assert_eq!(ended.stderr.matches(expected).count(), 1, "{ended:?}");
}
