//! Operations in the most important cases.

use crate::common::{Harness, pod};
use nodeless_api::ConditionStatus;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{Phase, Quantity, labels};
use nodeless_planner::PlanError;
use nodeless_ports::{Clock as _, ErrorKind};
use nodeless_reconciler::interrupt::InterruptError;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::time::Duration;

pub(crate) async fn running_cluster(pods: usize) -> Harness {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == pods).await;
    harness.minutes(1).await;
    harness
}

pub(crate) fn events(harness: &Harness, reason: &str) -> Vec<String> {
    harness.cluster.events_of(reason).into_iter().map(|event| event.message).collect()
}

#[tokio::test]
async fn alike_nodes_are_launched_by_one_call_and_a_doubled_wake_launches_nothing() {
    let harness = Harness::new().await;
    harness.cluster.add_pods((0..5).map(|number| pod(&format!("web-{number}"), 3000)));
    let first = harness.planner().run().await.unwrap();
    assert_eq!((first.pods, first.created.len()), (5, 5), "{first:?}");
    let again = harness.planner().run().await.unwrap();
    assert_eq!((again.placed, again.created.len()), (5, 0), "claims on their way count as the nodes that they will be");
    let leaders = harness.take_claims().await;
    assert_eq!(leaders, [first.created[0].clone()]);
    let done = harness.reconciler().run(&leaders[0]).await.unwrap();
    assert_eq!(done.phase, Some(Phase::Launched));
    assert_eq!((harness.cloud.launch_calls(), harness.cloud.launched()), (1, 5));
    let records = harness.records().await;
    assert!(records.iter().all(|claim| claim.phase == Phase::Launched));
    let nominated = events(&harness, "Nominated");
    assert_eq!(nominated.len(), 5, "once a pod: {nominated:?}");
    assert!(nominated.iter().all(|message| message.starts_with("Pod should schedule on: nodeclaim/")));
    for claim in &records {
        harness.reconciler().run(&claim.name).await.unwrap();
    }
    assert_eq!(harness.cloud.launch_calls(), 1);
}

#[tokio::test]
async fn no_plan_is_made_of_half_a_view() {
    for (operation, expected) in [
        ("claims list", "claims list"),
        ("cluster view", "cluster view"),
        ("claims catalog", "claims catalog"),
        ("claims unavailable", "claims unavailable"),
        ("claims usage", "claims usage"),
    ] {
        let harness = Harness::new().await;
        harness.cluster.add_pods([pod("web", 1000)]);
        harness.faults.fail(operation, ErrorKind::Unavailable);
        let error = harness.planner().run().await.unwrap_err();
        assert!(error.to_string().contains(expected) && error.to_string().contains("no plan was made"), "{error}");
        harness.faults.end_outages();
        assert_eq!(
            harness.faults.take_writes(),
            1,
            "{operation}: the next plan is asked for, and nothing else is written"
        );
        assert!(harness.records().await.is_empty());
    }
    let harness = Harness::new().await;
    harness.claims.put_catalog("2", b"\x63rubbish", harness.clock.time()).await.unwrap();
    assert!(matches!(harness.planner().run().await, Err(PlanError::Catalog(_))));
}

/// The heartbeat comes each minute: an outage of an hour must not be an hour of plans every few seconds.
#[tokio::test]
async fn a_plan_that_cannot_be_made_is_asked_for_again_a_few_times() {
    let harness = Harness::new().await;
    let asked = async || {
        let _fails_or_not = harness.planner().run().await;
        harness.faults.take_writes()
    };
    for _ in 0..2 {
        harness.faults.fail("cluster view", ErrorKind::Unavailable);
        let mut times = Vec::new();
        for _ in 0..7 {
            times.push(asked().await);
        }
        assert_eq!(times, [1, 1, 1, 1, 1, 0, 0], "after 2, 4, 8, 16 and 32 s, and then by the heartbeat alone");
        harness.faults.end_outages();
        harness.planner().run().await.unwrap();
        harness.faults.take_writes();
    }
}

/// A function is killed at its timeout, and then its message blocks the group.
#[tokio::test]
async fn a_plan_that_would_not_end_in_time_is_reported() {
    let harness = Harness::new().await;
    harness.faults.meet_at("cluster view", 2);
    let now = harness.clock.time();
    let deadline = now.checked_add(Duration::from_secs(40)).unwrap();
    let time_passes = async {
        tokio::task::yield_now().await;
        harness.clock.advance_to(now.checked_add(Duration::from_secs(39)).unwrap());
    };
    let (result, ()) = futures::join!(harness.planner().run_until(Some(deadline), &[]), time_passes);
    assert_eq!(result, Err(PlanError::Late));
    harness.faults.end_meeting();
    harness.planner().run().await.unwrap();
}

#[tokio::test]
async fn a_pool_without_its_class_harms_no_other() {
    let harness = Harness::new().await;
    let mut orphan = crate::common::node_pool("orphan");
    orphan["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("missing");
    orphan["spec"]["weight"] = json!(100);
    harness.cluster.create(&NODE_POOLS, orphan);
    let mut broken = crate::common::node_pool("broken");
    broken["spec"]["limits"] = json!({ "nodeless.sh/dollars-per-hour": "-1" });
    harness.cluster.create(&NODE_POOLS, broken);
    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created.len(), 1);
    assert!(report.created[0].starts_with("default-"));
    let reported = report.problems.join("\n");
    assert!(
        reported.contains("NodePool broken") && reported.contains("EC2NodeClass missing does not exist"),
        "{reported}"
    );
    let condition = |pool: &str, kind: &str| {
        let conditions = harness.cluster.node_pool_status(pool).conditions;
        conditions.iter().find(|condition| condition.type_ == kind).map(|it| (it.status, it.reason.clone())).unwrap()
    };
    assert_eq!(condition("default", "Ready").0, ConditionStatus::True);
    assert_eq!(condition("orphan", "NodeClassReady"), (ConditionStatus::False, "NodeClassNotFound".into()));
    assert_eq!(condition("orphan", "Ready"), (ConditionStatus::False, "UnhealthyDependents".into()));
    assert_eq!(condition("orphan", "ValidationSucceeded").0, ConditionStatus::True);
}

#[tokio::test]
async fn unschedulable_pods_get_one_event_with_the_reason() {
    let harness = Harness::new().await;
    harness.cluster.add_pods([pod("giant", 900_000)]);
    for _ in 0..3 {
        let report = harness.planner().run().await.unwrap();
        assert_eq!((report.unschedulable.len(), report.created.len()), (1, 0));
    }
    let reported = events(&harness, "FailedScheduling");
    assert!(reported.len() == 1 && reported[0].contains("NodePool default"), "{reported:?}");
}

/// Such a pod waits for capacity that is not managed, as in Karpenter.
#[tokio::test]
async fn a_pod_that_excludes_node_pools_gets_no_event() {
    let harness = Harness::new().await;
    let mut elsewhere = pod("elsewhere", 1000);
    let terms = json!([{ "matchExpressions": [{ "key": labels::NODE_POOL, "operator": "DoesNotExist" }] }]);
    elsewhere["spec"]["affinity"] = json!({
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } }
    });
    harness.cluster.add_pods([elsewhere, pod("giant", 900_000)]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.unschedulable.len(), report.created.len()), (2, 0));
    let reported = harness.cluster.events_of("FailedScheduling");
    assert!(reported.len() == 1 && reported[0].object.name == "giant", "{reported:?}");
}

#[tokio::test]
async fn a_node_pool_without_compatible_instance_types_gets_an_event_while_pods_are_pending() {
    let harness = Harness::new().await;
    let huge = json!({ "key": labels::INSTANCE_TYPE, "operator": "In", "values": ["x9.huge"] });
    let families = json!({ "key": labels::INSTANCE_FAMILY, "operator": "Exists", "minValues": 40 });
    for (name, requirement) in [("impossible", huge), ("choosy", families)] {
        let mut pool = crate::common::node_pool(name);
        pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(requirement);
        harness.cluster.create(&NODE_POOLS, pool);
    }
    harness.planner().run().await.unwrap();
    assert!(events(&harness, "NoCompatibleInstanceTypes").is_empty(), "no pod waits");
    harness.cluster.add_pods([pod("web", 1000)]);
    for _ in 0..2 {
        harness.planner().run().await.unwrap();
    }
    let reported = harness.cluster.events_of("NoCompatibleInstanceTypes");
    let mut reported: Vec<_> =
        reported.iter().map(|event| (event.object.name.as_str(), event.message.as_str())).collect();
    reported.sort_unstable();
    let text = "NodePool requirements filtered out all compatible available instance types";
    let too_few = format!("{text} due to minValues incompatibility");
    assert_eq!(reported, [("choosy", too_few.as_str()), ("impossible", text)]);
}

#[tokio::test]
async fn a_node_pool_reports_why_its_class_is_not_ready() {
    let harness = Harness::new().await;
    let reported = async || {
        harness.planner().run().await.unwrap();
        let conditions = harness.cluster.node_pool_status("default").conditions;
        ["NodeClassReady", "Ready"].map(|kind| {
            let found = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
            (found.status, found.reason.clone())
        })
    };
    let of = |status, class: &str, ready: &str| [(status, class.to_owned()), (status, ready.to_owned())];
    assert_eq!(reported().await, of(ConditionStatus::True, "NodeClassReady", "Ready"));
    harness.cluster.change_status(&NODE_CLASSES, "default", |status| {
        status["conditions"][0]["status"] = json!("False");
        status["conditions"][0]["reason"] = json!("UnhealthyDependents");
    });
    let expected = of(ConditionStatus::False, "UnhealthyDependents", "UnhealthyDependents");
    assert_eq!(reported().await, expected);
    harness.cluster.patch(
        &NODE_CLASSES,
        "default",
        json!({ "spec": { "subnetSelectorTerms": [{ "id": "subnet-1" }] } }),
    );
    let unknown = of(ConditionStatus::False, "NodeClassReadinessUnknown", "UnhealthyDependents");
    assert_eq!(reported().await, unknown);
}

/// The catalog function does not run in this harness.
#[tokio::test]
async fn a_changed_tag_needs_no_catalog_and_an_invalid_one_stops_launches() {
    let mut harness = Harness::new().await;
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "tags": { "team": "search" } } }));
    harness.cluster.add_pods([pod("web", 1000)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    let instance = harness.cloud.alive().remove(0);
    assert_eq!(instance.tags.get("team").map(String::as_str), Some("search"));
    // The hash of the claim is that of the changed class, so it does not drift once the class is resolved.
    let class = harness.cluster.node_class();
    let claim = harness.records().await.pop().unwrap();
    assert_eq!(claim.spec.annotations[labels::EC2_NODE_CLASS_HASH], nodeless_api::hash::ec2_node_class(&class));

    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "tags": { "aws:team": "search" } } }));
    harness.cluster.add_pods([pod("large", 3000)]);
    harness.minutes(5).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (1, 1));
    let conditions = harness.cluster.node_pool_status("default").conditions;
    let ready = conditions.into_iter().find(|condition| condition.type_ == "NodeClassReady").unwrap();
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "NodeClassNotReady"));
    assert!(ready.message.contains("aws:team"), "{}", ready.message);
}

#[tokio::test]
async fn a_claim_names_the_instance_profile_of_its_instance() {
    let mut harness = Harness::new().await;
    let profile = harness.cluster.node_class().status.unwrap().instance_profile;
    harness.cluster.add_pods([pod("web", 1000)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(2).await;
    let claim = harness.records().await.pop().unwrap();
    assert_eq!(claim.spec.annotations.get(labels::INSTANCE_PROFILE_NAME), profile.as_ref());
    assert!(profile.is_some());
    assert_eq!(claim.node_labels()[labels::INSTANCE_TENANCY], "default");
}

#[tokio::test]
async fn limits_of_the_table_hold_whatever_a_plan_believes() {
    let mut harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "9" } } }));
    harness.cluster.add_pods((0..5).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.minutes(5).await;
    let usage = harness.claims.usage().await.unwrap();
    assert!(usage["default"].resources.get("cpu") <= Quantity::from_units(9), "{usage:?}");
    assert_eq!((harness.cluster.bound(), harness.cloud.alive().len()), (2, 2));
}

#[tokio::test]
async fn a_lack_of_capacity_is_remembered_and_the_pods_are_planned_for_again() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.cloud.set_capacity(Some(2));
    harness.queue_wake().await;
    harness.until("two pods run", |harness| harness.cluster.bound() == 2).await;
    assert!(!harness.claims.unavailable(harness.clock.now()).await.unwrap().is_empty());
    assert_eq!(harness.cloud.launched(), 2);
    assert!(!events(&harness, "InsufficientCapacityError").is_empty());
    harness.cloud.set_capacity(None);
    harness.until("the third runs", |harness| harness.cluster.bound() == 3).await;
    harness.minutes(2).await;
    assert_eq!((harness.cloud.launched(), harness.records().await.len()), (3, 3));
}

#[tokio::test]
async fn a_budget_that_forbids_holds_the_drain_and_the_node_stays() {
    let mut harness = running_cluster(1).await;
    harness.cluster.protect("web-0");
    let name = harness.records().await[0].name.clone();
    harness.cluster.delete_node_claim(&name);
    harness.minutes(10).await;
    let claim = harness.claims.get(&name).await.unwrap().unwrap();
    assert_eq!(claim.phase, Phase::Draining);
    assert_eq!(claim.status.termination.as_ref().unwrap().reason, TerminationReason::Deleted);
    assert!(!events(&harness, "FailedDraining").is_empty());
    assert!(harness.cloud.running().iter().any(|instance| instance.id == claim.status.instance.as_ref().unwrap().id));
    harness.cluster.end_protection();
    harness.until("the instance is gone", |harness| !harness.cluster.node_claims().contains_key(&name)).await;
    assert!(harness.claims.get(&name).await.unwrap().is_none());
}

#[tokio::test]
async fn nothing_is_launched_any_more_for_pods_whose_drain_a_budget_has_held_up_for_long() {
    let mut harness = running_cluster(1).await;
    harness.cluster.protect("web-0");
    let name = harness.records().await[0].name.clone();
    harness.cluster.delete_node_claim(&name);
    harness.until("a node is launched for the pod that has to leave", |harness| harness.cloud.launched() == 2).await;
    harness.minutes(30).await;
    assert_eq!(harness.claims.get(&name).await.unwrap().unwrap().phase, Phase::Draining);
    assert_eq!(harness.cloud.launched(), 2, "it is not launched again");
    assert_eq!(harness.cloud.alive().len(), 1, "it is empty and goes");
    // The budget lets the pod go: it is a pod that waits.
    harness.cluster.end_protection();
    harness.until("the instance is gone", |harness| !harness.cluster.node_claims().contains_key(&name)).await;
}

#[tokio::test]
async fn a_deleted_node_is_drained_and_its_pods_find_another() {
    let mut harness = running_cluster(1).await;
    let before = harness.records().await[0].clone();
    let node = before.status.node_name.clone().unwrap();
    harness.cluster.delete(&NODES, &node);
    harness.until("it is drained", |harness| harness.cluster.pods().is_empty()).await;
    harness.cluster.add_pods([pod("web-1", 3000)]);
    harness.until("the successor runs", |harness| harness.cluster.bound() == 1).await;
    harness.until("the node is gone", |harness| !harness.cluster.nodes().contains_key(&node)).await;
    harness.minutes(2).await;
    assert!(harness.claims.get(&before.name).await.unwrap().is_none());
    assert_eq!(harness.cloud.alive().len(), 1);
}

#[tokio::test]
async fn a_spot_warning_moves_the_pods_and_avoids_the_offering() {
    let mut harness = running_cluster(1).await;
    let claim = harness.records().await[0].clone();
    let id = claim.status.instance.as_ref().unwrap().id.clone();
    let event = |detail_type: &str, id: &str| {
        format!(r#"{{"source":"aws.ec2","detail-type":"{detail_type}","detail":{{"instance-id":"{id}"}}}}"#)
    };
    let interrupter = harness.interrupter();
    let rebalance = event("EC2 Instance Rebalance Recommendation", &id);
    assert!(interrupter.run(&rebalance).await.unwrap().is_empty());
    let foreign = event("EC2 Spot Instance Interruption Warning", "i-foreign");
    assert!(interrupter.run(&foreign).await.unwrap().is_empty());
    assert!(matches!(interrupter.run("nonsense").await, Err(InterruptError::Parse(_))));
    assert!(interrupter.run(r#"{"source":"aws.s3","detail-type":"x"}"#).await.unwrap().is_empty());
    assert_eq!(harness.claims.get(&claim.name).await.unwrap().unwrap().phase, Phase::Initialized);

    let warning = event("EC2 Spot Instance Interruption Warning", &id);
    for _ in 0..2 {
        assert_eq!(interrupter.run(&warning).await.unwrap(), std::slice::from_ref(&claim.name));
    }
    let after = harness.claims.get(&claim.name).await.unwrap().unwrap();
    assert_eq!(after.status.termination.unwrap().reason, TerminationReason::Interrupted);
    let short = harness.claims.unavailable(harness.clock.now()).await.unwrap();
    assert_eq!((short.len(), short[0].shortage.capacity_type), (1, Some(nodeless_model::CapacityType::Spot)));
    harness.until("it is gone", |harness| harness.cloud.alive().iter().all(|instance| instance.id != id)).await;
    harness.faults.fail("claims", ErrorKind::Throttled);
    assert!(matches!(interrupter.run(&warning).await, Err(InterruptError::Port(_))), "so that the message comes again");
}

#[tokio::test]
async fn an_instance_that_ends_by_itself_is_replaced() {
    let mut harness = crate::common::running_cluster(1).await;
    let first = harness.cloud.running()[0].id.clone();
    harness.cloud.end(&first);
    harness.until("it is replaced", |harness| harness.cluster.bound() == 1 && harness.cloud.alive().len() == 1).await;
    harness.minutes(2).await;
    assert_eq!(harness.records().await.len(), 1);
    assert_ne!(harness.cloud.alive()[0].id, first);
}

#[tokio::test]
async fn a_node_that_never_joins_is_given_up() {
    let mut harness = Harness::new().await;
    harness.cloud.spoil_joins(1);
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.minutes(14).await;
    assert_eq!((harness.cloud.alive().len(), harness.cluster.bound()), (1, 0));
    harness.until("another runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(1).await;
    assert_eq!(harness.cloud.alive().len(), 1);
    assert_eq!(events(&harness, "RegistrationTimeout").len(), 1);
}

#[tokio::test]
async fn a_drain_waits_while_ec2_or_the_cluster_cannot_be_read() {
    for operation in ["cloud instances", "cluster nodes of", "cluster pods on"] {
        let harness = running_cluster(1).await;
        let name = harness.records().await[0].name.clone();
        harness.cluster.delete_node_claim(&name);
        harness.faults.fail(operation, ErrorKind::Unavailable);
        for _ in 0..5 {
            let done = harness.reconciler().run(&name).await.unwrap();
            assert!(done.requeued.is_some() && done.waits_for[0].contains("a fault was injected"), "{done:?}");
        }
        harness.faults.end_outages();
        assert_eq!(harness.cluster.pods().len(), 1, "{operation}");
        assert_eq!(harness.cloud.running().len(), 1, "{operation}");
    }
}

#[tokio::test]
async fn an_empty_node_is_proposed_first_and_kept_when_a_pod_comes_back() {
    let mut harness = running_cluster(1).await;
    harness.cluster.remove_all_pods();
    let mut proposed = false;
    for _ in 0..60 {
        harness.tick().await;
        if let Some(command) = harness.claims.commands().await.unwrap().first() {
            assert!(command.summary.contains("Proposed"), "{}", command.summary);
            proposed = true;
            break;
        }
    }
    assert!(proposed && harness.records().await[0].phase == Phase::Initialized);
    harness.cluster.add_pods([pod("back", 1000)]);
    harness.minutes(5).await;
    let claim = harness.records().await[0].clone();
    assert_eq!((claim.phase, harness.cloud.launched()), (Phase::Initialized, 1));
    assert!(claim.condition(condition::DISRUPTION_REASON).is_none());
    assert!(harness.claims.commands().await.unwrap().is_empty());
}

#[tokio::test]
async fn usage_that_went_astray_is_counted_afresh() {
    let harness = running_cluster(2).await;
    let right = harness.claims.usage().await.unwrap()["default"].clone();
    let mut wrong = right.clone();
    wrong.resources.set("cpu", Quantity::from_units(77));
    harness.claims.correct_usage("default", &right, &wrong).await.unwrap();
    harness.sweeper().run().await.unwrap();
    let counted = harness.claims.usage().await.unwrap()["default"].clone();
    assert_eq!(counted.resources, right.resources);
    assert!(counted.recounted.is_some());
}

#[tokio::test]
async fn after_a_shortage_a_few_nodes_are_tried_and_twice_as_many_after_each_success() {
    let mut harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": null } }));
    harness.cloud.set_capacity(Some(0));
    harness.cluster.add_pods((0..60).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    for _ in 0..20 {
        harness.tick().await;
    }
    assert_eq!(harness.cloud.launched(), 0);
    let budgets = harness.claims.launch_budgets(harness.clock.time()).await.unwrap();
    assert!(!budgets.is_empty() && budgets.iter().all(|budget| budget.size == 8), "{budgets:?}");

    // The shortage is over, but for how many is unknown.
    harness.cloud.set_capacity(None);
    harness.clock.advance_to(harness.clock.time() + jiff::SignedDuration::from_mins(4));
    let report = harness.planner().run().await.unwrap();
    assert!(!report.created.is_empty() && report.created.len() <= budgets.len() * 8, "{}", report.created.len());
    let why = &report.unschedulable[0].1;
    assert!(why.contains("exceeds the launch budget"), "{why}");
    assert!(report.next.is_some_and(|next| next <= std::time::Duration::from_secs(10)));
    let doubled = harness.planner().run().await.unwrap();
    assert!(doubled.created.is_empty(), "those on their way count: {:?}", doubled.created);
    harness.until("all pods run", |harness| harness.cluster.bound() == 60).await;
    let budgets = harness.claims.launch_budgets(harness.clock.time()).await.unwrap();
    assert!(budgets.iter().any(|budget| budget.size >= 16), "{budgets:?}");
}

#[tokio::test]
async fn a_launch_that_ec2_rejects_is_reported_on_the_class_and_not_retried_in_a_loop() {
    let mut harness = Harness::new().await;
    harness.faults.fail("cloud launch", ErrorKind::Denied);
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.minutes(2).await;
    let reported = events(&harness, "LaunchRefused");
    assert!(reported.len() == 1 && reported[0].contains("cloud launch"), "{reported:?}");
    assert_eq!(harness.queue.take_node_classes(), ["default"], "EC2 is asked whether it refuses all");
    let claim = harness.records().await[0].clone();
    let launched = claim.condition(condition::LAUNCHED).unwrap();
    assert_eq!((launched.status, claim.status.launch_attempts), (nodeless_model::ConditionStatus::False, 3));
    assert!(launched.message.contains("cloud launch was denied"), "{}", launched.message);
    // The claim times out five minutes later. The cause is fixed by then, so the next claim succeeds.
    harness.faults.end_outages();
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(2).await;
    assert!(harness.records().await.iter().all(|other| other.name != claim.name));
}
