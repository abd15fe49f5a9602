//! Whether EC2 would launch from an EC2NodeClass: asked with the permissions of who launches, reported in the status of the class.
#![allow(clippy::unwrap_used)]

mod common;

use common::Town;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodeless_api::nodeclass::{Ami, SecurityGroup};
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::Catalog;
use nodeless_launch::node_class::conditions;
use nodeless_model::{Requirement, labels};
use nodeless_operations::{CapacitySettings, CatalogCache, Refresher, Validator};
use nodeless_ports::{CatalogSource, ErrorKind, PortError, Refusal};
use std::sync::Arc;

/// An account in which everything that a class names is found.
struct Source(Timestamp);

#[async_trait::async_trait]
impl CatalogSource for Source {
    async fn catalog(&self, _previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        Ok(common::small_catalog())
    }

    async fn resolve(&self, class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        let before = class.status.clone().unwrap_or_default();
        Ok(EC2NodeClassStatus {
            security_groups: vec![SecurityGroup { id: "sg-1".into(), name: None }],
            amis: vec![Ami { id: "ami-1".into(), ..Ami::default() }],
            instance_profile: Some("nodes".into()),
            conditions: conditions(class, &[("SubnetsReady", None)], None, self.0),
            ..before
        })
    }

    async fn release(&self, _class: &EC2NodeClass) -> Result<(), PortError> {
        Ok(())
    }
}

struct Functions {
    refresher: Refresher,
    validator: Validator,
}

fn functions(town: &Town) -> Functions {
    functions_that(town, true)
}

/// The functions that ask, or do not.
fn functions_that(town: &Town, dry_runs: bool) -> Functions {
    Functions {
        refresher: Refresher {
            context: town.context(),
            claims: town.ports.claims.clone(),
            queue: town.ports.queue.clone(),
            cluster: town.ports.cluster.clone(),
            source: Arc::new(Source(town.clock.time())),
            catalog: CatalogCache::default(),
            capacity: CapacitySettings::default(),
            dry_runs,
        },
        validator: Validator {
            context: town.context(),
            claims: town.ports.claims.clone(),
            queue: town.ports.queue.clone(),
            cluster: town.ports.cluster.clone(),
            cloud: town.ports.cloud.clone(),
            catalog: CatalogCache::default(),
            dry_runs,
        },
    }
}

fn condition(town: &Town, kind: &str) -> Condition {
    let status = town.cluster.lock().classes["default"].status.clone().unwrap();
    status.conditions.into_iter().find(|condition| condition.type_ == kind).unwrap()
}

/// Whether the class is ready, and the reason of ValidationSucceeded.
fn reported(town: &Town) -> (ConditionStatus, String) {
    (condition(town, "Ready").status, condition(town, "ValidationSucceeded").reason)
}

fn minutes(town: &Town, minutes: i64) {
    town.clock.advance_to(town.clock.time() + SignedDuration::from_mins(minutes));
}

#[tokio::test]
async fn a_class_is_ready_once_ec2_would_launch_from_it_and_follows_its_later_answers() {
    let town = Town::new().await;
    let functions = functions(&town);
    town.cluster.lock().classes.get_mut("default").unwrap().status.as_mut().unwrap().conditions.clear();
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(&town), (ConditionStatus::Unknown, "AwaitingDryRun".to_owned()));
    assert_eq!(town.queue.take_node_classes(), ["default"]);
    let _refreshed = town.queue.take_plan();
    town.clock.advance_to(town.clock.time() + SignedDuration::from_secs(1));
    assert!(functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&town), (ConditionStatus::True, "ValidationSucceeded".to_owned()));
    assert!(town.queue.take_plan().is_some(), "pods may wait for the class");

    // The answer holds for half an hour, and the class is ready all the while.
    minutes(&town, 29);
    functions.refresher.run().await.unwrap();
    assert!(town.queue.take_node_classes().is_empty());
    minutes(&town, 1);
    let refusal =
        Refusal { reason: "CreateFleetAuthCheckFailed".into(), message: "cloud launch was denied: no".into() };
    town.cloud.refuse_dry_runs(Some(refusal));
    functions.refresher.run().await.unwrap();
    assert_eq!(town.queue.take_node_classes(), ["default"]);
    assert_eq!(reported(&town).0, ConditionStatus::True);
    assert!(functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&town), (ConditionStatus::False, "CreateFleetAuthCheckFailed".to_owned()));
    assert_eq!(condition(&town, "ValidationSucceeded").message, "cloud launch was denied: no");

    // A doubled message asks nothing; after five minutes the next refresh does, and what was granted is found.
    assert!(!functions.validator.run("default").await.unwrap());
    functions.refresher.run().await.unwrap();
    assert!(town.queue.take_node_classes().is_empty());
    town.cloud.refuse_dry_runs(None);
    minutes(&town, 5);
    functions.refresher.run().await.unwrap();
    assert_eq!(town.queue.take_node_classes(), ["default"]);
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&town).0, ConditionStatus::True);
}

#[tokio::test]
async fn without_dry_runs_a_class_is_ready_and_ec2_is_not_asked() {
    let town = Town::new().await;
    let functions = functions_that(&town, false);
    town.cloud.refuse_dry_runs(Some(Refusal { reason: "RequestRefused".into(), message: "no".into() }));
    town.cluster.lock().classes.get_mut("default").unwrap().status.as_mut().unwrap().conditions.clear();
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(&town), (ConditionStatus::True, "ValidationSucceeded".to_owned()));
    assert!(town.queue.take_node_classes().is_empty());
    // A launch that was refused asks for one.
    assert!(!functions.validator.run("default").await.unwrap());
    assert_eq!(reported(&town).0, ConditionStatus::True);
}

#[tokio::test]
async fn while_ec2_cannot_be_asked_what_was_known_stands() {
    let town = Town::new().await;
    let functions = functions(&town);
    functions.refresher.run().await.unwrap();
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&town).0, ConditionStatus::True);
    town.queue.clear();

    // Another spec waits for its answer; that there is none for now is no reason to stop.
    {
        let mut state = town.cluster.lock();
        let class = state.classes.get_mut("default").unwrap();
        class.metadata.generation = Some(2);
        class.spec.detailed_monitoring = Some(true);
    }
    functions.refresher.run().await.unwrap();
    assert_eq!(
        (reported(&town).0, town.queue.take_node_classes()),
        (ConditionStatus::Unknown, vec!["default".to_owned()])
    );
    town.faults.fail("cloud dry run", ErrorKind::Throttled);
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&town).0, ConditionStatus::True);
    assert!(town.queue.take_node_classes().is_empty(), "not in a loop");
    minutes(&town, 1);
    assert_eq!(town.queue.take_node_classes(), ["default"], "but again");
    town.faults.end_outages();
    let refusal = Refusal { reason: "RequestRefused".into(), message: "no".into() };
    town.cloud.refuse_dry_runs(Some(refusal));
    functions.validator.run("default").await.unwrap();
    assert_eq!(reported(&town), (ConditionStatus::False, "RequestRefused".to_owned()));
}

#[tokio::test]
async fn a_node_pool_that_buys_spot_only_leaves_its_class_ready() {
    let town = Town::new().await;
    let functions = functions(&town);
    {
        let mut state = town.cluster.lock();
        let requirements = &mut state.pools[0].template.requirements;
        requirements.remove(labels::CAPACITY_TYPE);
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]));
    }
    functions.refresher.run().await.unwrap();
    assert!(functions.validator.run("default").await.unwrap());
    let (ready, reason) = reported(&town);
    assert_eq!((ready, reason.as_str()), (ConditionStatus::True, "ValidationSucceeded"));
}

#[tokio::test]
async fn what_changes_about_a_class_is_told_as_events() {
    let town = Town::new().await;
    let functions = functions(&town);
    town.cluster.lock().classes.get_mut("default").unwrap().status.as_mut().unwrap().conditions.clear();
    let reported = || -> Vec<(String, String)> {
        let mut state = town.cluster.lock();
        let all = std::mem::take(&mut state.events).into_iter().filter(|event| event.object.kind == "EC2NodeClass");
        all.map(|event| (event.reason, event.message)).collect()
    };
    let transition = |kind: &str, text: &str| {
        (kind.to_owned(), format!("Status condition transitioned, Type: {kind}, Status: {text}"))
    };
    functions.refresher.run().await.unwrap();
    assert_eq!(reported(), [transition("SubnetsReady", "Unknown -> True, Reason: SubnetsReady")]);
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
async fn a_class_that_goes_says_which_claims_it_waits_for() {
    let mut town = Town::new().await;
    town.cluster.add_pods([common::pod("web", 1000)]);
    town.queue_wake().await;
    town.until("the pod runs", |town| town.cluster.bound() == 1).await;
    let functions = functions(&town);
    let now = town.clock.time();
    town.cluster.lock().classes.get_mut("default").unwrap().metadata.deletion_timestamp = Some(Time(now));
    functions.refresher.run().await.unwrap();
    let claim = town.records().await.pop().unwrap().name;
    let state = town.cluster.lock();
    let reported = state.events.iter().find(|event| event.reason == "WaitingOnNodeClaimTermination").unwrap();
    assert_eq!(reported.message, format!("Waiting on NodeClaim termination for {claim}"));
    assert_eq!((reported.object.kind.as_str(), reported.is_warning()), ("EC2NodeClass", false));
    assert!(state.classes.contains_key("default"));
}
