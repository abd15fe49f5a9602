//! An outage of an hour of everything that plans and launches depend on: nothing is lost, and work goes on within a minute.

use crate::common::{Harness, pod};
use nodeless_model::Phase;
use nodeless_ports::ErrorKind;

/// The calls to the API server, the table and EC2, as fault injection names them.
const SERVICES: [&str; 3] = ["cluster ", "claims ", "cloud "];

#[tokio::test]
async fn after_an_hour_without_a_service_pods_get_nodes_within_a_minute() {
    for service in SERVICES {
        let mut harness = Harness::new().await;
        harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
        harness.faults.fail(service, ErrorKind::Unavailable);
        harness.queue_wake().await;
        harness.minutes(60).await;
        assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (0, 0), "{service}");
        harness.faults.end_outages();
        // A claim whose launch failed for so long was replaced, and its successor may wait for its next attempt.
        harness.minutes(1).await;
        assert!(harness.cloud.launched() > 0, "{service}: {:#?}", harness.records().await);
        harness.until("all pods run", |harness| harness.cluster.bound() == 3).await;
        harness.minutes(2).await;
        let records = harness.records().await;
        assert!(records.iter().all(|claim| claim.phase == Phase::Initialized), "{service}: {records:#?}");
        assert_eq!((harness.cloud.alive().len(), records.len()), (3, 3), "{service}");
        assert!(harness.cluster.events_of("LaunchRefused").is_empty(), "{service}: the EC2NodeClass is not at fault");
    }
}
