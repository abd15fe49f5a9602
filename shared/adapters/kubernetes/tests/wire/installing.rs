//! Installation, and the errors of a wrong address or identity.

use super::{Stopped, World, connect, node_class, node_pool, serve};
use nodeless_fake_kubernetes::ListOptions;
use nodeless_kubernetes::KubeCluster;
use nodeless_kubernetes::install::{
    Found, InstallError, Outcome, Rights, Wake, install, remove_nodes, uninstall, versions,
};
use nodeless_ports::{Configuration as _, ErrorKind, NodesAndPods as _, PlanningView as _};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const URL: &str = "https://abc.lambda-url.us-east-1.on.aws/secret";

#[tokio::test]
async fn a_second_installation_changes_nothing_and_removal_keeps_the_definitions() {
    let world = World::bare().await;
    let first = install(&world.connection, None, &Wake::Url(URL.into()), Rights::default()).await.unwrap();
    assert!(first.steps.iter().all(|step| step.outcome == Outcome::Created), "{first}");
    let kinds = ["CustomResourceDefinition", "ClusterRole ", "ClusterRoleBinding", "ValidatingWebhookConfiguration"];
    for kind in kinds {
        assert!(first.steps.iter().any(|step| step.object.starts_with(kind)), "no {kind} in\n{first}");
    }
    let again = install(&world.connection, None, &Wake::Url(URL.into()), Rights::default()).await.unwrap();
    assert!(again.steps.iter().all(|step| step.outcome == Outcome::Unchanged), "{again}");
    let tried = world.connection.clone().with_dry_run();
    let tried = install(&tried, None, &Wake::Url(format!("{URL}2")), Rights::default()).await.unwrap();
    let moved = install(&world.connection, None, &Wake::Url(format!("{URL}2")), Rights::default()).await.unwrap();
    assert_eq!(tried, moved, "the dry run states what the installation then does");
    let updated: Vec<_> = moved.steps.iter().filter(|step| step.outcome == Outcome::Updated).collect();
    assert_eq!(updated.len(), 1, "{moved}");
    assert!(updated[0].object.starts_with("ValidatingWebhookConfiguration"));

    world.create(&NODE_POOLS, node_pool("default"));
    let removed = uninstall(&world.connection, None).await.unwrap();
    for step in &removed.steps {
        let kept = step.object.starts_with("CustomResourceDefinition");
        assert_eq!(step.outcome, if kept { Outcome::Kept } else { Outcome::Removed }, "{removed}");
    }
    assert_eq!(world.server.list(&NODE_POOLS, &ListOptions::default()).unwrap().items.len(), 1);
    let nothing = uninstall(&world.connection, None).await.unwrap();
    assert!(nothing.steps.iter().all(|step| matches!(step.outcome, Outcome::Absent | Outcome::Kept)), "{nothing}");
}

#[tokio::test]
async fn objects_state_the_version_that_applied_them() {
    let world = World::bare().await;
    let absent = versions(&world.connection).await.unwrap();
    assert!(absent.iter().all(|one| one.found == Found::Absent), "{absent:?}");
    let report =
        install(&world.connection, None, &Wake::Url(URL.into()), Rights { nominations: false, ..Rights::default() })
            .await
            .unwrap();
    let applied = versions(&world.connection).await.unwrap();
    let objects: BTreeSet<&String> = applied.iter().map(|one| &one.object).collect();
    assert_eq!(objects, report.steps.iter().map(|step| &step.object).collect());
    let own = Found::Applied(Some(env!("CARGO_PKG_VERSION").to_owned()));
    assert!(applied.iter().all(|one| one.found == own), "{applied:?}");
    assert!(applied.iter().any(|one| one.optional) && applied.iter().any(|one| !one.optional));
    install(&world.connection, None, &Wake::Off, Rights::default()).await.unwrap();
    let without = versions(&world.connection).await.unwrap();
    let absent: Vec<_> = without.iter().filter(|one| one.found == Found::Absent).collect();
    assert!(absent.len() == 1 && absent[0].optional && absent[0].object.starts_with("ValidatingWebhook"), "{absent:?}");
}

/// No catalog function runs in this test, so the finalizer of the EC2NodeClass stays.
#[tokio::test]
async fn nodes_are_removed_in_order_and_remaining_objects_are_listed() {
    let world = World::bare().await;
    let none = remove_nodes(&world.connection, "nodeless-a", Duration::ZERO).await.unwrap();
    assert!(none.steps.is_empty(), "without definitions there is nothing to remove: {none}");
    install(&world.connection, None, &Wake::Off, Rights::default()).await.unwrap();
    world.create(&NODE_POOLS, node_pool("default"));
    let mut class = node_class("default");
    class["metadata"]["finalizers"] = json!(["karpenter.k8s.aws/termination"]);
    world.create(&NODE_CLASSES, class);
    let error = remove_nodes(&world.connection, "nodeless-a", Duration::ZERO).await.unwrap_err();
    let InstallError::Left { count: 1, kind: "EC2NodeClass", objects } = &error else { panic!("{error}") };
    assert_eq!(objects, "default");
    assert!(world.server.list(&NODE_POOLS, &ListOptions::default()).unwrap().items.is_empty());
    let deleted = &world.server.list(&NODE_CLASSES, &ListOptions::default()).unwrap().items[0];
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted}");
}

/// Two deployments, with two tables, are installed in one cluster.
#[tokio::test]
async fn a_deployment_changes_nothing_in_a_cluster_that_another_one_serves() {
    let world = World::bare().await;
    let (wake, first, second) = (Wake::Url(URL.into()), Some("nodeless-a"), Some("nodeless-b"));
    let installed = install(&world.connection, first, &wake, Rights::default()).await.unwrap();
    assert!(installed.to_string().contains("nodeless.sh/table now names the table nodeless-a"), "{installed}");
    let again = install(&world.connection, first, &wake, Rights::default()).await.unwrap();
    assert!(again.steps.iter().all(|step| step.outcome == Outcome::Unchanged), "{again}");
    world.create(&NODE_POOLS, node_pool("default"));

    world.requests();
    let refused = install(&world.connection, second, &Wake::Off, Rights { nominations: false, ..Rights::default() })
        .await
        .unwrap_err();
    let InstallError::OtherTable(other) = &refused else { panic!("{refused}") };
    assert_eq!((other.serving.as_str(), other.own.as_str()), ("nodeless-a", "nodeless-b"));
    let command = "kubectl annotate namespace kube-system --overwrite nodeless.sh/table=nodeless-b";
    assert!(refused.to_string().contains(command), "{refused}");
    let nodes = remove_nodes(&world.connection, "nodeless-b", Duration::ZERO).await.unwrap();
    for kept in [nodes, uninstall(&world.connection, second).await.unwrap()] {
        assert!(kept.steps.len() == 1 && kept.steps[0].outcome == Outcome::Kept, "{kept}");
        assert!(kept.to_string().contains("\"nodeless-a\"") && kept.to_string().contains("\"nodeless-b\""), "{kept}");
    }
    let requests = world.requests();
    assert!(requests.iter().all(|request| request.starts_with("GET ")), "nothing was changed: {requests:?}");

    let removed = uninstall(&world.connection, first).await.unwrap();
    assert!(removed.to_string().contains("nodeless.sh/table is removed"), "{removed}");
    install(&world.connection, second, &wake, Rights::default()).await.unwrap();
    let system = world.cluster().system_namespace().await.unwrap();
    assert_eq!(system.table.as_deref(), second, "the cluster is free after the first was uninstalled");
    assert!(system.created.is_some());
}

#[tokio::test]
async fn the_webhook_is_removed_when_wake_is_off_and_kept_when_wake_is_not_specified() {
    let world = World::bare().await;
    install(&world.connection, None, &Wake::Url(URL.into()), Rights::default()).await.unwrap();
    let kept = install(&world.connection, None, &Wake::Keep, Rights::default()).await.unwrap();
    assert!(!kept.steps.iter().any(|step| step.object.starts_with("Validating")), "{kept}");
    let off = install(&world.connection, None, &Wake::Off, Rights::default()).await.unwrap();
    assert_eq!(off.steps.last().unwrap().outcome, Outcome::Removed, "{off}");
}

#[tokio::test]
async fn a_cluster_without_definitions_gets_an_error_with_a_fix() {
    let world = World::bare().await;
    let error = world.cluster().view().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("nodeless install"), "{error}");
}

#[tokio::test]
async fn a_wrong_token_is_denied_and_a_closed_port_unavailable() {
    let world = World::bare().await;
    let stranger = connect(&serve(&world.server).await.0, "wrong").await;
    let error = KubeCluster::new(stranger, Stopped::context()).labelled_nodes().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("access entry"), "{error}");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = KubeCluster::new(connect(&url, "right").await, Stopped::context()).view().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
