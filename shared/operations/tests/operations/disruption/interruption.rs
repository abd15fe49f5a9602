//! Batches of interruption messages.

use crate::common::{Harness, pod};
use crate::scenarios;
use nodeless_fake_kubernetes::resource::POD_DISRUPTION_BUDGETS;
use nodeless_model::shortage::Shortage;
use nodeless_model::{CapacityType, NodeClaim, Phase};
use nodeless_ports::{Clock, ErrorKind};
use nodeless_reconciler::interrupt::InterruptError;
use nodeless_telemetry::Metric;
use nodeless_world::resources::NODE_CLASSES;
use serde_json::json;
use std::sync::Arc;

async fn running_cluster(pods: usize) -> (Harness, Vec<NodeClaim>) {
    let harness = scenarios::running_cluster(pods).await;
    harness.queue.clear();
    harness.faults.take_writes();
    harness.cluster.forget_events();
    let records = harness.records().await;
    (harness, records)
}

fn event(detail_type: &str, detail: &str) -> String {
    format!(r#"{{"source":"aws.ec2","detail-type":"{detail_type}","detail":{detail}}}"#)
}

fn about(claim: &NodeClaim) -> String {
    format!(r#"{{"instance-id":"{}"}}"#, claim.status.instance.as_ref().unwrap().id)
}

fn spot(claim: &NodeClaim) -> String {
    event("EC2 Spot Instance Interruption Warning", &about(claim))
}

fn stopping(claim: &NodeClaim) -> String {
    changed(claim, "stopping")
}

fn changed(claim: &NodeClaim, state: &str) -> String {
    let detail = about(claim).replace('}', &format!(r#","state":"{state}"}}"#));
    event("EC2 Instance State-change Notification", &detail)
}

async fn phase(harness: &Harness, claim: &NodeClaim) -> Phase {
    harness.claims.get(&claim.name).await.unwrap().unwrap().phase
}

#[tokio::test]
async fn each_message_of_a_batch_has_a_result_of_its_own() {
    let (harness, claims) = running_cluster(3).await;
    let batch = [
        event("EC2 Instance Rebalance Recommendation", &about(&claims[0])),
        "nonsense".to_owned(),
        spot(&claims[1]),
        stopping(&claims[2]),
        event("EC2 Something New", "{}"),
        event("EC2 Spot Instance Interruption Warning", r#"{"instance-id":7}"#),
        event("EC2 Spot Instance Interruption Warning", r#"{"instance-id":"i-foreign"}"#),
    ];
    let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
    let results = harness.interrupter().run_all(&batch).await;
    assert_eq!(results.len(), batch.len());
    assert_eq!(results[0], Ok(Vec::new()));
    assert!(matches!(results[1], Err(InterruptError::Parse(_))));
    assert_eq!(results[2], Ok(vec![claims[1].name.clone()]));
    assert_eq!(results[3], Ok(vec![claims[2].name.clone()]));
    assert_eq!(results[4], Ok(Vec::new()));
    assert!(
        matches!(&results[5], Err(InterruptError::Parse(error)) if error.to_string().contains("detail.instance-id"))
    );
    assert_eq!(results[6], Ok(Vec::new()));
    assert_eq!(phase(&harness, &claims[0]).await, Phase::Initialized);
    assert_eq!(phase(&harness, &claims[1]).await, Phase::Draining);
    let counted = || harness.sink.totals().get(Metric::Interruptions).to_vec();
    assert_eq!(counted(), [2.0], "those that were marked for termination, and no others");
    harness.interrupter().run(&stopping(&claims[1])).await.unwrap();
    assert_eq!(counted(), [2.0], "it leaves already");
    let events = harness.cluster.events();
    for reason in ["SpotRebalanceRecommendation", "SpotInterrupted", "InstanceStopping", "TerminatingOnInterruption"] {
        for kind in ["Node", "NodeClaim"] {
            let reported = events.iter().any(|event| event.reason == reason && event.object.kind == kind);
            assert!(reported, "{reason} on {kind}");
        }
    }
}

#[tokio::test]
async fn a_termination_by_lifecycle_requests_no_plan_and_its_end_is_due_at_once() {
    let (harness, claims) = running_cluster(1).await;
    let mut claim = claims[0].clone();
    claim.phase = Phase::Terminating;
    harness.claims.update(&claim, None).await.unwrap();
    let interrupter = harness.interrupter();
    assert_eq!(interrupter.run(&changed(&claim, "shutting-down")).await, Ok(vec![]));
    assert_eq!(harness.take_claims().await, Vec::<String>::new(), "lifecycle has requested it");
    assert_eq!(interrupter.run(&changed(&claim, "terminated")).await, Ok(vec![claim.name.clone()]));
    assert_eq!(harness.take_claims().await, [claim.name.clone()]);
    assert!(harness.queue.take_plan().is_none(), "the node has no pods");

    let (harness, claims) = running_cluster(1).await;
    assert_eq!(
        harness.interrupter().run(&changed(&claims[0], "shutting-down")).await,
        Ok(vec![claims[0].name.clone()])
    );
    assert!(harness.queue.take_plan().is_some(), "its pods need another node");
}

#[tokio::test]
async fn what_is_urgent_is_done_before_anything_else_is_looked_at() {
    let (harness, claims) = running_cluster(2).await;
    let batch = [stopping(&claims[0]), spot(&claims[1])];
    let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
    // The claim, the offering, the record of its shard, the message about it, the request for the plan now and its message, the plan
    // after it, and the record of the interruption. Then every call fails.
    harness.faults.fail_from(8);
    let results = harness.interrupter().run_all(&batch).await;
    assert!(results[0].is_err(), "it comes again: {results:?}");
    assert_eq!(results[1], Ok(vec![claims[1].name.clone()]));
    harness.faults.take_writes();
    assert_eq!(phase(&harness, &claims[0]).await, Phase::Initialized);
    assert_eq!(phase(&harness, &claims[1]).await, Phase::Draining);
    assert_eq!(harness.claims.unavailable(harness.clock.now()).await.unwrap().len(), 1);
    assert_eq!(harness.take_claims().await, [claims[1].name.clone()]);
    assert!(harness.queue.take_plan().is_some());
}

#[tokio::test]
async fn a_mark_that_cannot_be_written_holds_no_drain_up_and_comes_again() {
    let (harness, claims) = running_cluster(2).await;
    let batch = [spot(&claims[0]), spot(&claims[1])];
    let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
    harness.faults.fail("claims mark unavailable", ErrorKind::Throttled);
    let results = harness.interrupter().run_all(&batch).await;
    assert!(results.iter().all(|result| matches!(result, Err(InterruptError::Port(_)))), "{results:?}");
    assert_eq!(harness.take_claims().await.len(), 2);
    harness.faults.end_outages();
    let results = harness.interrupter().run_all(&batch).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(harness.claims.unavailable(harness.clock.now()).await.unwrap().len(), 1, "one mark for one offering");
    assert_eq!(
        harness.claims.interruptions(harness.clock.now()).await.unwrap().len(),
        2,
        "one record for each instance"
    );
}

#[tokio::test]
async fn a_spot_interruption_is_recorded_once_and_read_where_a_node_pool_avoids_it() {
    let (harness, claims) = running_cluster(1).await;
    harness.interrupter().run(&spot(&claims[0])).await.unwrap();
    let recorded = harness.claims.interruptions(harness.clock.now()).await.unwrap();
    let instance = claims[0].status.instance.as_ref().unwrap();
    let [one] = &recorded[..] else { panic!("{recorded:?}") };
    assert_eq!(
        (&one.instance_type, &one.zone, &one.instance_id),
        (&instance.instance_type, &instance.zone, &instance.id)
    );
    // A repeated event is the same record, and other events are none.
    harness.interrupter().run(&spot(&claims[0])).await.unwrap();
    harness.interrupter().run(&stopping(&claims[0])).await.unwrap();
    assert_eq!(harness.claims.interruptions(harness.clock.now()).await.unwrap().len(), 1);
    let decisions = harness.claims.decisions(100).await.unwrap();
    let drained: Vec<_> = decisions.iter().filter(|decision| decision.kind == "interruption").collect();
    let [decision] = &drained[..] else { panic!("one drain is one decision: {drained:?}") };
    let node = claims[0].status.node_name.clone().unwrap();
    let expected = format!("{node} is drained, because EC2 interrupts the spot instance (SpotInterrupted, ");
    assert!(decision.summary.starts_with(&expected), "{decision:?}");
    assert_eq!(decision.subjects, [claims[0].name.clone(), node]);
    // Without the annotation it is not read.
    harness.faults.fail("claims interruptions", ErrorKind::Throttled);
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    harness.cluster.annotate_node_pool("nodeless.sh/spot-interruptions", "avoid");
    let report = harness.planner().run().await.unwrap();
    assert!(
        report.problems.iter().any(|it| it.starts_with("it is unknown which spot offerings")),
        "{:?}",
        report.problems
    );
}

#[tokio::test]
async fn a_node_in_a_capacity_block_leaves_forty_minutes_before_the_end() {
    let (harness, claims) = running_cluster(2).await;
    let mut reserved = claims[0].clone();
    reserved.status.instance.as_mut().unwrap().reservation_id = Some("cr-1".into());
    harness.claims.update(&reserved, None).await.unwrap();
    let id = reserved.status.instance.unwrap().id;
    harness.cloud.ec2.change_instance(&id, |instance| {
        instance.capacity_reservation_id = Some("cr-1".into());
        let only = json!({ "CapacityReservationPreference": "capacity-reservations-only" });
        Arc::make_mut(&mut instance.data).other.insert("CapacityReservationSpecification".into(), only);
    });
    let end_in = |minutes: i64| {
        let end = harness.clock.now() + jiff::SignedDuration::from_mins(minutes);
        let reservation = json!({
            "id": "cr-1", "availabilityZone": "us-east-1a", "endTime": end.to_string(), "instanceMatchCriteria": "targeted",
            "instanceType": "p5.48xlarge", "ownerID": "123456789012", "reservationType": "capacity-block", "state": "active",
        });
        harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "capacityReservations": [reservation] }));
    };
    end_in(41);
    harness.sweeper().run().await.unwrap();
    assert_eq!(phase(&harness, &claims[0]).await, Phase::Initialized);
    end_in(40);
    harness.faults.fail("cluster node classes", ErrorKind::Unavailable);
    let report = harness.sweeper().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("capacity blocks")), "{report:?}");
    assert_eq!(phase(&harness, &claims[0]).await, Phase::Initialized);
    harness.faults.end_outages();
    harness.sweeper().run().await.unwrap();
    let left = harness.claims.get(&claims[0].name).await.unwrap().unwrap();
    assert_eq!(left.phase, Phase::Draining);
    assert!(left.status.termination.unwrap().message.contains("cr-1 ends at"));
    assert_eq!(phase(&harness, &claims[1]).await, Phase::Initialized);
}

#[tokio::test]
async fn instances_that_fail_or_have_something_planned_leave() {
    use nodeless_model::claim::TerminationReason;
    use nodeless_model::instance::{FaultKind, InstanceFault};
    let (harness, claims) = running_cluster(4).await;
    let id = |claim: &NodeClaim| claim.status.instance.as_ref().unwrap().id.clone();
    let since = |seconds| Some(harness.clock.now() - jiff::SignedDuration::from_secs(seconds));
    let failed = |id: String, since| InstanceFault { id, kind: FaultKind::CheckFailed { check: "system", since } };
    let planned = |id: String| InstanceFault {
        id,
        kind: FaultKind::Planned { code: "instance-retirement".into(), not_before: None },
    };
    harness.faults.set_instance_faults(vec![
        failed("i-of-somebody-else".into(), since(600)),
        planned(id(&claims[0])),
        failed(id(&claims[0]), since(121)),
        failed(id(&claims[1]), since(100)),
        failed(id(&claims[2]), None),
        planned(id(&claims[3])),
    ]);
    harness.faults.fail("cloud instance faults", ErrorKind::Denied);
    let report = harness.sweeper().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("status checks")), "{report:?}");
    assert_eq!(phase(&harness, &claims[0]).await, Phase::Initialized);
    harness.faults.end_outages();
    harness.sweeper().run().await.unwrap();
    let end = |claim: Option<NodeClaim>| claim.unwrap().status.termination.unwrap();
    let worst = end(harness.claims.get(&claims[0].name).await.unwrap());
    assert_eq!((worst.reason, worst.deadline), (TerminationReason::Unhealthy, Some(worst.requested)));
    assert!(worst.message.contains("the system status check of"), "{}", worst.message);
    // Not long enough, and since when is unknown.
    assert_eq!(phase(&harness, &claims[1]).await, Phase::Initialized);
    assert_eq!(phase(&harness, &claims[2]).await, Phase::Initialized);
    let drained = end(harness.claims.get(&claims[3].name).await.unwrap());
    assert_eq!((drained.reason, drained.deadline), (TerminationReason::Interrupted, None));
    assert!(harness.take_claims().await.contains(&claims[3].name));
    let events = harness.cluster.events_of("InstanceUnhealthy");
    for kind in ["Node", "NodeClaim"] {
        let reported = events.iter().filter(|event| event.object.kind == kind);
        let uids: Vec<&str> = reported.map(|event| event.object.uid.as_str()).collect();
        assert_eq!(uids.len(), 2, "{kind}");
        assert!(kind == "Node" || uids.iter().all(|uid| !uid.is_empty()), "{uids:?}");
    }
}

#[tokio::test]
async fn a_reclaimed_reservation_is_unavailable_and_no_other_one() {
    let (harness, claims) = running_cluster(1).await;
    let mut reserved = claims[0].clone();
    reserved.status.instance.as_mut().unwrap().reservation_id = Some("cr-1".into());
    harness.claims.update(&reserved, None).await.unwrap();
    let warning = event("EC2 Capacity Reservation Instance Interruption Warning", &about(&reserved));
    harness.interrupter().run(&warning).await.unwrap();
    let short = harness.claims.unavailable(harness.clock.now()).await.unwrap();
    let of = |shortage: &Shortage| (shortage.capacity_type, shortage.reservation_id.clone());
    assert_eq!(
        short.iter().map(|one| of(&one.shortage)).collect::<Vec<_>>(),
        [(Some(CapacityType::Reserved), Some("cr-1".into()))]
    );
}

/// Pods that no drain may evict get their next node with the warning, and it waits for them.
#[tokio::test]
async fn pods_that_stay_to_the_end_get_their_next_node_with_the_warning() {
    for protection in ["annotation", "budget", "grace periods"] {
        let mut harness = Harness::new().await;
        let disruption = json!({ "consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty" });
        harness.cluster.patch_node_pool(json!({ "spec": { "disruption": disruption } }));
        let mut pod = pod("web", 3000);
        if protection == "grace periods" {
            // Far longer than the instance lives.
            pod["spec"]["terminationGracePeriodSeconds"] = json!(7200);
            let template = json!({ "spec": { "terminationGracePeriod": "4h" } });
            harness.cluster.patch_node_pool(json!({ "spec": { "template": template } }));
        }
        if protection == "annotation" {
            pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
        } else {
            let spec = json!({ "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } });
            let budget = json!({ "metadata": { "name": "web" }, "spec": spec });
            harness.cluster.create(&POD_DISRUPTION_BUDGETS, budget);
        }
        harness.cluster.add_replica_sets([pod]);
        harness.queue_wake().await;
        harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
        harness.minutes(2).await;
        let old = harness.records().await.remove(0);
        harness.interrupter().run(&spot(&old)).await.unwrap();
        let report = harness.planner().run().await.unwrap();
        let [new] = &report.created[..] else { panic!("{protection}: {report:?}") };
        // The instance may end later than announced.
        harness.minutes(5).await;
        let claim = harness.claims.get(new).await.unwrap().unwrap();
        assert_eq!((claim.phase, harness.cloud.launched()), (Phase::Initialized, 2), "{protection}");
        harness.cloud.end(&old.status.instance.unwrap().id);
        harness.minutes(3).await;
        let names: Vec<String> = harness.records().await.into_iter().map(|claim| claim.name).collect();
        assert_eq!((names, harness.cluster.bound()), (vec![new.clone()], 1), "{protection}");
        assert_eq!(harness.cloud.launched(), 2, "{protection}");
    }
}

#[tokio::test]
async fn a_planned_maintenance_ends_a_node_when_it_begins() {
    let (harness, claims) = running_cluster(1).await;
    let id = &claims[0].status.instance.as_ref().unwrap().id;
    let detail = format!(
        r#"{{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Sat, 05 Jun 2027 15:10:09 GMT","affectedEntities":[{{"entityValue":"{id}"}}]}}"#
    );
    let event = format!(r#"{{"source":"aws.health","detail-type":"AWS Health Event","detail":{detail}}}"#);
    harness.interrupter().run(&event).await.unwrap();
    let ends = async || harness.claims.get(&claims[0].name).await.unwrap().unwrap().status.ends;
    assert_eq!(ends().await, Some("2027-06-05T15:10:09Z".parse().unwrap()));
    // Another end that comes earlier counts.
    harness.interrupter().run(&spot(&claims[0])).await.unwrap();
    assert_eq!(ends().await, Some(harness.clock.now() + std::time::Duration::from_mins(2)));
    harness.interrupter().run(&event).await.unwrap();
    assert_eq!(ends().await, Some(harness.clock.now() + std::time::Duration::from_mins(2)));
}
