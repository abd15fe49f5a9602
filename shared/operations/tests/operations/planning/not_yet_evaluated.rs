//! The nodes that a decision had no time for.

use nodeless_ports::ErrorKind;
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test]
async fn which_nodes_were_not_looked_at_is_read_and_written_as_soon_as_that_can_be_done() {
    let harness = crate::common::running_cluster(1).await;
    let stored = async || harness.claims.not_yet_evaluated().await.unwrap();
    let waiting = harness.cluster.nodes().keys().cloned().collect::<BTreeSet<String>>();
    let until = harness.clock.time().checked_add(Duration::from_secs(3600)).unwrap();
    // Another process wrote the record. This process has enough time to evaluate all nodes.
    harness.claims.put_not_yet_evaluated(&waiting, until).await.unwrap();
    let planner = harness.cold_planner();
    for broken in ["claims not yet evaluated", "claims put not yet evaluated"] {
        harness.faults.fail(broken, ErrorKind::Unavailable);
        let report = planner.run().await.unwrap();
        assert!(report.problems.iter().any(|why| why.contains("did not evaluate")), "{broken}: {:?}", report.problems);
        harness.faults.end_outages();
        assert_eq!(stored().await, waiting, "{broken}: what is not known is not written over");
    }
    let report = planner.run().await.unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(stored().await.is_empty(), "every node was evaluated, and the process remembers that");
}
