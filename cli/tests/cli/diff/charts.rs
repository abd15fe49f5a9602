//! What charts contain: autoscalers, workloads of other controllers, and what the repository does not have.

use super::{between, compared, deployment, dollars, ended, set};
use crate::support::{Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn without_replicas(name: &str) -> Value {
    let mut web = deployment(name, 1, "3");
    web["spec"].as_object_mut().unwrap().remove("replicas");
    web
}

fn scaler(name: &str, least: u32, most: u32) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": name },
        "spec": { "scaleTargetRef": target, "minReplicas": least, "maxReplicas": most },
    })
}

#[test]
fn autoscalers_are_a_range_of_dollars() {
    let base = set(&[without_replicas("web")]);
    let head = set(&[without_replicas("web"), scaler("web", 6, 30)]);
    let report = compared(0, [&base, &head], &[]);
    // Each pod has a c5.xlarge of its own, for $0.17 an hour.
    let month = |nodes: f64| (nodes * 0.17 * 730.0).round() as i64;
    assert_eq!(dollars(&report), month(6.0) - month(1.0));
    let most = &report["maximum"];
    assert_eq!((&most["before"]["nodes"], &most["after"]["nodes"]), (&json!(1), &json!(30)));
    let [least, most] = [month(6.0) - month(1.0), month(30.0) - month(1.0)];
    let headline = report["headline"].as_str().unwrap();
    let money = |dollars: i64| {
        if dollars < 1000 { format!("${dollars}") } else { format!("${},{:03}", dollars / 1000, dollars % 1000) }
    };
    assert_eq!(
        headline,
        format!(
            "+5 to +29 nodes, +{} to +{} a month from the minimum to the maximum of autoscalers",
            money(least),
            money(most)
        )
    );
    assert_eq!(report["objects"]["added"][0]["kind"], "HorizontalPodAutoscaler");
    for form in ["text", "markdown"] {
        let shown = ended(&Folder::new(), [&base, &head], &["-o", form]).stdout;
        assert!(shown.contains("all, at the maximum of autoscalers"), "{shown}");
        assert!(shown.contains("Workloads with an autoscaler have its minimum of pods"), "{shown}");
    }
    // Without an autoscaler there is no range, and without a change none either.
    assert_eq!(compared(0, [&base, &base], &[])["maximum"], Value::Null);
    assert_eq!(compared(0, [&head, &head], &[])["headline"], "no change of nodes");
    let more = set(&[without_replicas("web"), scaler("web", 6, 40)]);
    let headline = compared(0, [&head, &more], &[])["headline"].clone();
    assert!(headline.as_str().unwrap().starts_with("+0 to +10 nodes, $0 to +$"), "{headline}");
    // A maximum that is too large for a plan is no error.
    let huge = set(&[without_replicas("web"), scaler("web", 6, 4_000_000)]);
    let report = compared(0, [&base, &huge], &[]);
    assert_eq!(report["maximum"], Value::Null);
    assert!(report["assumptions"].to_string().contains("Their maximum is not planned"), "{report:#}");
}

#[test]
fn workloads_of_other_controllers_cost_what_their_pods_cost() {
    let mut rollout = deployment("roll", 4, "3");
    (rollout["apiVersion"], rollout["kind"]) = (json!("argoproj.io/v1alpha1"), json!("Rollout"));
    let template = rollout["spec"]["template"].clone();
    let custom = json!({
        "apiVersion": "example.com/v1", "kind": "Trainer", "metadata": { "name": "t" },
        "spec": { "worker": { "template": template } },
    });
    let head = set(&[rollout, custom]);
    let report = compared(0, [&set(&[]), &head], &[]);
    assert_eq!(report["difference"]["nodes"], 4, "{report:#}");
    assert_eq!(report["notPlanned"], json!(["Trainer default/t"]));
    let shown = ended(&Folder::new(), [&set(&[]), &head], &["-o", "markdown"]).stdout;
    assert!(shown.contains("**Not planned, though pods would be created**\n\n- `Trainer default/t`\n"), "{shown}");
    let shown = ended(&Folder::new(), [&set(&[]), &head], &[]).stdout;
    assert!(shown.contains("not planned, though pods would be created\n  Trainer default/t\n"), "{shown}");
}

#[test]
fn a_storage_class_of_the_cluster_is_assumed() {
    let mut database = deployment("db", 2, "3");
    (database["kind"], database["spec"]["serviceName"]) = (json!("StatefulSet"), json!("db"));
    database["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": { "requests": { "storage": "50Gi" } } },
    }]);
    let ended = ended(&Folder::new(), [&set(&[]), &set(&[database])], &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "warning: StorageClass gp3 is not in the input; it is assumed to be of EBS, with volumes in the zone of the first pod\n";
    assert_eq!(ended.stderr, expected);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["after"]["nodes"], 2);
}

#[test]
fn charts_and_overlays_name_the_command_that_renders_them() {
    for (file, what, command) in [
        ("Chart.yaml", "Helm chart", "helm template"),
        ("kustomization.yaml", "Kustomize directory", "kubectl kustomize"),
    ] {
        let folder = Folder::new();
        let chart = folder.path().join("deploy/web");
        fs::create_dir_all(chart.join("templates")).unwrap();
        fs::write(chart.join(file), "name: web\n").unwrap();
        fs::write(chart.join("templates/web.yaml"), "kind: Deployment\nmetadata: {name: '{{ .Release.Name }}'}\n")
            .unwrap();
        let expected = format!("deploy/web is a {what}, which has to be rendered: give the output of `{command} ");
        let diff = between([Path::new("/dev/null"), &folder.path().join("deploy")], &[]);
        let plan = run(nodeless().args(["plan", "--cluster"]).arg(&chart));
        let what_if = run(nodeless().args(["plan", "--cluster", "/dev/null", "--what-if", "--if"]).arg(&chart));
        for ended in [diff, plan, what_if] {
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
            assert!(ended.stderr.contains(&expected), "{ended:?}");
        }
    }
}
