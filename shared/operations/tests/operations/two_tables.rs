//! Two deployments with two tables in one cluster: neither terminates what the other has launched, because one of them serves the cluster.

use crate::common::{Deployment, Harness, check_quiescent, pod, running_cluster};
use nodeless_model::Phase;
use nodeless_model::labels::TABLE;
use nodeless_world::resources::NODE_CLASSES;
use std::collections::BTreeSet;

fn running(harness: &Harness) -> BTreeSet<String> {
    harness.cloud.running().into_iter().map(|instance| instance.id).collect()
}

fn names_both_tables(message: &str) -> bool {
    let command = "kubectl annotate namespace kube-system --overwrite nodeless.sh/table=other";
    message.contains("\"nodeless\"") && message.contains("\"other\"") && message.contains(command)
}

#[tokio::test]
async fn a_deployment_that_does_not_serve_the_cluster_changes_nothing() {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_cluster(TABLE, Some("nodeless"));
    let second = Deployment::beside(&harness, "other").await;
    let before = running(&harness);
    harness.cluster.add_replica_sets([pod("more", 3000)]);
    for _ in 0..20 {
        let errors = second.run().await;
        assert!(errors.len() == 3 && errors.iter().all(|error| names_both_tables(error)), "{errors:#?}");
        harness.minutes(1).await;
    }
    assert!(second.claims.list().await.unwrap().is_empty());
    assert!(running(&harness).is_superset(&before), "nothing of the first is terminated");
    check_quiescent(&harness, 3, 3, "while both run").await;
    let event = harness.cluster.events_of("OtherDeployment").remove(0);
    assert_eq!((event.object.kind.as_str(), event.object.name.as_str()), ("Namespace", "kube-system"));
    assert!(event.is_warning() && names_both_tables(&event.message), "{}", event.message);

    harness.cluster.delete(&NODE_CLASSES, "default");
    let report = second.refresher.run().await.unwrap();
    assert!(report.resolved.is_empty() && names_both_tables(&report.problems[0]), "{report:#?}");
}

/// The annotation is changed while both run: the second one adopts the nodes.
#[tokio::test]
async fn another_deployment_takes_over_without_replacing_nodes() {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_cluster(TABLE, Some("nodeless"));
    let second = Deployment::beside(&harness, "other").await;
    let before = running(&harness);
    harness.minutes(5).await;
    harness.cluster.annotate_cluster(TABLE, Some("other"));
    let errors = second.run().await;
    assert!(
        matches!(&errors[..], [one] if one.contains("the records of 2 NodeClaims")),
        "the sweep comes after the plan: {errors:#?}"
    );
    for _ in 0..30 {
        harness.minutes(1).await;
        let errors = second.run().await;
        assert!(errors.is_empty(), "{errors:#?}");
    }
    assert_eq!(running(&harness), before, "every node stays");
    let adopted = second.claims.list().await.unwrap();
    let owned = adopted.iter().filter_map(|claim| Some(claim.status.instance.as_ref()?.id.clone()));
    assert_eq!(owned.collect::<BTreeSet<_>>(), before);
    assert!(adopted.iter().all(|claim| claim.phase == Phase::Initialized), "{adopted:#?}");
    let error = harness.sweeper().run().await.unwrap_err().to_string();
    assert!(error.contains("nodeless.sh/table=nodeless`"), "the error states how the first one gets it back: {error}");
}
