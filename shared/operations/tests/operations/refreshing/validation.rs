//! Dry-run validation of an EC2NodeClass with the permissions of the launching function, reported in the status of the class.

use crate::common::Harness;
use jiff::SignedDuration;
use nodeless_api::{Condition, ConditionStatus};
use nodeless_fake_aws::Ec2Error;
use nodeless_launch::node_class::check;
use nodeless_model::labels;
use nodeless_operations::{CapacitySettings, CatalogCache};
use nodeless_ports::ErrorKind;
use nodeless_refresher::{Refresher, Validator};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::sync::Arc;

struct Functions {
    refresher: Refresher,
    validator: Validator,
}

fn functions(harness: &Harness) -> Functions {
    functions_that(harness, true)
}

/// The functions that ask, or do not.
fn functions_that(harness: &Harness, dry_runs: bool) -> Functions {
    Functions {
        refresher: Refresher {
            context: harness.context(),
            claims: harness.ports.claims.clone(),
            queue: harness.ports.queue.clone(),
            cluster: harness.ports.cluster.clone(),
            source: Arc::new(harness.cloud.source()),
            catalog: CatalogCache::default(),
            capacity: CapacitySettings::default(),
            dry_runs,
        },
        validator: Validator {
            context: harness.context(),
            claims: harness.ports.claims.clone(),
            queue: harness.ports.queue.clone(),
            cluster: harness.ports.cluster.clone(),
            cloud: harness.ports.cloud.clone(),
            catalog: CatalogCache::default(),
            dry_runs,
        },
    }
}

/// EC2 refuses RunInstances because of a user data script, for example.
fn refuse_run_instances(harness: &Harness) {
    harness.cloud.ec2.fail_next("RunInstances", &Ec2Error::new("InvalidUserData.Malformed", "no"), 100);
}

fn condition(harness: &Harness, kind: &str) -> Condition {
    let status = harness.cluster.node_class().status.unwrap();
    status.conditions.into_iter().find(|condition| condition.type_ == kind).unwrap()
}

/// Whether the class is ready, and the reason of ValidationSucceeded.
fn reported(harness: &Harness) -> (ConditionStatus, String) {
    (condition(harness, "Ready").status, condition(harness, "ValidationSucceeded").reason)
}

fn minutes(harness: &Harness, minutes: i64) {
    harness.clock.advance_to(harness.clock.time() + SignedDuration::from_mins(minutes));
    harness.cloud.boot();
}

#[tokio::test]
async fn a_class_is_ready_once_ec2_would_launch_from_it_and_follows_its_later_answers() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "conditions": [] }));
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(&harness), (ConditionStatus::Unknown, "AwaitingDryRun".to_owned()));
    assert_eq!(harness.queue.take_node_classes(), ["default"]);
    let _refreshed = harness.queue.take_plan();
    harness.clock.advance_to(harness.clock.time() + SignedDuration::from_secs(1));
    assert!(functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&harness), (ConditionStatus::True, "ValidationSucceeded".to_owned()));
    assert!(harness.queue.take_plan().is_some(), "pods may wait for the class");

    // The answer holds for half an hour, and the class is ready all the while.
    minutes(&harness, 29);
    functions.refresher.run().await.unwrap();
    assert!(harness.queue.take_node_classes().is_empty());
    minutes(&harness, 1);
    harness.cloud.ec2.deny("CreateFleet");
    functions.refresher.run().await.unwrap();
    assert_eq!(harness.queue.take_node_classes(), ["default"]);
    assert_eq!(reported(&harness).0, ConditionStatus::True);
    assert!(functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&harness), (ConditionStatus::False, "CreateFleetAuthCheckFailed".to_owned()));
    let message = condition(&harness, "ValidationSucceeded").message;
    assert!(message.contains("EC2 CreateFleet was denied") && message.contains("ec2:CreateFleet"), "{message}");

    // A doubled message asks nothing; after five minutes the next refresh does, and what was granted is found.
    assert!(!functions.validator.run("default").await.unwrap());
    functions.refresher.run().await.unwrap();
    assert!(harness.queue.take_node_classes().is_empty());
    harness.cloud.ec2.allow("CreateFleet");
    minutes(&harness, 5);
    functions.refresher.run().await.unwrap();
    assert_eq!(harness.queue.take_node_classes(), ["default"]);
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&harness).0, ConditionStatus::True);
}

#[tokio::test]
async fn without_dry_runs_a_class_is_ready_and_ec2_is_not_asked() {
    let harness = Harness::new().await;
    let functions = functions_that(&harness, false);
    refuse_run_instances(&harness);
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "conditions": [] }));
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(&harness), (ConditionStatus::True, "ValidationSucceeded".to_owned()));
    assert!(harness.queue.take_node_classes().is_empty());
    // A launch that was refused asks for one.
    assert!(!functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&harness).0, ConditionStatus::True);
}

#[tokio::test]
async fn while_ec2_cannot_be_asked_what_was_known_stands() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    functions.refresher.run().await.unwrap();
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&harness).0, ConditionStatus::True);
    harness.queue.clear();

    // A changed selector waits for the answer of EC2, which is retried while there is none.
    let terms = json!([{ "id": harness.cloud.subnet("us-east-1b") }]);
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "subnetSelectorTerms": terms } }));
    functions.refresher.run().await.unwrap();
    assert_eq!(
        (reported(&harness).0, harness.queue.take_node_classes()),
        (ConditionStatus::Unknown, vec!["default".to_owned()])
    );
    harness.faults.fail("cloud dry run", ErrorKind::Throttled);
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&harness).0, ConditionStatus::True);
    assert!(harness.queue.take_node_classes().is_empty(), "not in a loop");
    minutes(&harness, 1);
    assert_eq!(harness.queue.take_node_classes(), ["default"], "but again");
    harness.faults.end_outages();
    refuse_run_instances(&harness);
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&harness), (ConditionStatus::False, "RequestRefused".to_owned()));
}

#[tokio::test]
async fn a_node_pool_that_buys_spot_only_leaves_its_class_ready() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    let spot = json!([{ "key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"] }]);
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": spot } } } }));
    functions.refresher.run().await.unwrap();
    assert!(functions.validator.run("default").await.unwrap());
    let (ready, reason) = reported(&harness);
    assert_eq!((ready, reason.as_str()), (ConditionStatus::True, "ValidationSucceeded"));
}

/// A service control policy may deny the cheapest instance type and no other.
#[tokio::test]
async fn a_class_is_denied_only_if_ec2_denies_two_instance_types() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    let message = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/it is not authorized to perform: \
                   ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:instance/* with an explicit deny in a service control \
                   policy.";
    functions.refresher.run().await.unwrap();
    // A dry run makes one call, because the class has one subnet.
    for (denied, ready) in [(1, ConditionStatus::True), (2, ConditionStatus::False)] {
        harness.cloud.ec2.fail_next("RunInstances", &Ec2Error::new("UnauthorizedOperation", message), denied);
        functions.validator.run("default").await.unwrap();
        assert_eq!(reported(&harness).0, ready, "{denied} instance types are denied");
        minutes(&harness, 30);
    }
    assert_eq!(reported(&harness).1, "RunInstancesAuthCheckFailed");
    let runs = harness.cloud.ec2.calls().into_iter().filter(|call| call.api == "RunInstances");
    let types: Vec<String> = runs.map(|call| call.parameters["InstanceType"].as_str().unwrap().to_owned()).collect();
    assert_eq!((types.len(), types[0] == types[1]), (4, false), "{types:?}");
}

#[tokio::test]
async fn an_account_that_is_not_verified_yet_leaves_its_classes_ready() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    functions.refresher.run().await.unwrap();
    for launches_too in [false, true] {
        if launches_too {
            let check = harness.claims.launch_check("default").await.unwrap().unwrap();
            harness.claims.put_launch_check(&check::to_be_confirmed(check)).await.unwrap();
        }
        harness.cloud.ec2.fail_next("RunInstances", &Ec2Error::new("PendingVerification", "wait"), 10);
        minutes(&harness, 1);
        functions.validator.run("default").await.unwrap();
        assert_eq!(reported(&harness).0, ConditionStatus::True, "a launch was rejected: {launches_too}");
        let problem = harness.claims.launch_check("default").await.unwrap().unwrap().problem;
        assert!(problem.is_some_and(|problem| problem.contains("PendingVerification")));
    }
}

/// EC2 rejects the instance types of the NodePool `default`, for example because they do not support a setting of the class.
#[tokio::test]
async fn a_node_pool_whose_instance_types_ec2_rejects_does_not_stop_the_other_node_pools_of_its_class() {
    let harness = Harness::new().await;
    harness.cluster.create(&NODE_POOLS, crate::common::node_pool("other"));
    let functions = functions(&harness);
    functions.refresher.run().await.unwrap();
    functions.validator.run("default").await.unwrap();
    // A dry run makes one call, because the class has one subnet.
    for (rejected, ready) in [(1, ConditionStatus::True), (2, ConditionStatus::False)] {
        let check = harness.claims.launch_check("default").await.unwrap().unwrap();
        harness.claims.put_launch_check(&check::to_be_confirmed(check)).await.unwrap();
        let error = Ec2Error::combination("not supported for the instance type");
        harness.cloud.ec2.fail_next("RunInstances", &error, rejected);
        minutes(&harness, 1);
        functions.validator.run("default").await.unwrap();
        assert_eq!(reported(&harness).0, ready, "the launches of {rejected} NodePools are rejected");
    }
    let message = condition(&harness, "ValidationSucceeded").message;
    assert!(message.contains("not supported for the instance type"), "{message}");
}

#[tokio::test]
async fn changes_of_a_class_are_published_as_events() {
    let harness = Harness::new().await;
    let functions = functions(&harness);
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "conditions": [] }));
    let reported = || -> Vec<(String, String)> {
        let all = harness.cluster.events().into_iter().filter(|event| event.object.kind == "EC2NodeClass");
        let all = all.map(|event| (event.reason, event.message)).collect();
        harness.cluster.forget_events();
        all
    };
    let transition = |kind: &str, text: &str| {
        (kind.to_owned(), format!("Status condition transitioned, Type: {kind}, Status: {text}"))
    };
    functions.refresher.run().await.unwrap();
    let resolved = [
        "SubnetsReady",
        "SecurityGroupsReady",
        "CapacityReservationsReady",
        "AMIsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
    ];
    let expected = resolved.map(|kind| transition(kind, &format!("Unknown -> True, Reason: {kind}")));
    assert_eq!(reported(), expected);
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(), []);
    functions.validator.run("default").await.unwrap();
    let expected = [
        transition("ValidationSucceeded", "Unknown -> True, Reason: ValidationSucceeded"),
        transition("Ready", "Unknown -> True, Reason: Ready"),
    ];
    assert_eq!(reported(), expected);
}

#[tokio::test]
async fn a_deleted_class_reports_which_claims_it_waits_for() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([crate::common::pod("web", 1000)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    let functions = functions(&harness);
    harness.cluster.delete(&NODE_CLASSES, "default");
    functions.refresher.run().await.unwrap();
    let claim = harness.records().await.pop().unwrap().name;
    let reported = harness.cluster.events_of("WaitingOnNodeClaimTermination").remove(0);
    assert_eq!(reported.message, format!("Waiting on NodeClaim termination for {claim}"));
    assert_eq!((reported.object.kind.as_str(), reported.is_warning()), ("EC2NodeClass", false));
    assert!(harness.cluster.node_class().metadata.deletion_timestamp.is_some(), "it is still there");
}
