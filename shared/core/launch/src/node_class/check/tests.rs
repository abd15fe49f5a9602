use super::*;
use crate::node_class::{Problem, conditions};
use nodeless_api::nodeclass::{SecurityGroup, Subnet};
use nodeless_api::test_support::ec2_node_class;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn resolved(class: &EC2NodeClass, problem: Option<Problem>, now: Timestamp) -> EC2NodeClassStatus {
    let subnet = |id: &str| Subnet { id: id.into(), zone: "a".into(), zone_id: None };
    EC2NodeClassStatus {
        subnets: vec![subnet("subnet-1"), subnet("subnet-2")],
        security_groups: vec![SecurityGroup { id: "sg-1".into(), name: None }],
        amis: vec![Ami { id: "ami-1".into(), ..Ami::default() }],
        instance_profile: Some("nodes".into()),
        conditions: conditions(class, &[("SubnetsReady", problem)], None, now),
        ..EC2NodeClassStatus::default()
    }
}

fn class() -> EC2NodeClass {
    let mut class = ec2_node_class("default", "example", &json!({}));
    class.metadata.generation = Some(1);
    class
}

fn denied() -> Refusal {
    let error = PortError::new(ErrorKind::Denied, "EC2 RunInstances", "no").with_code("UnauthorizedOperation");
    refusal(Call::RunInstances, error).unwrap().unwrap()
}

fn throttled() -> PortError {
    PortError::new(ErrorKind::Throttled, "EC2 CreateFleet", "slow down").with_code("RequestLimitExceeded")
}

/// The status, reason and message of ValidationSucceeded, and the status of Ready.
fn reported(status: &EC2NodeClassStatus) -> (ConditionStatus, &str, &str, ConditionStatus) {
    let validation = find(status, VALIDATION).unwrap();
    (validation.status, &validation.reason, &validation.message, find(status, READY).unwrap().status)
}

#[test]
fn errors_of_dry_runs_have_karpenters_reasons() {
    let of = |call, kind, code: &str, message: &str| {
        refusal(call, PortError::new(kind, "EC2", message).with_code(code)).map(|refusal| refusal.map(|it| it.reason))
    };
    let (denied, invalid) = (ErrorKind::Denied, ErrorKind::Invalid);
    assert_eq!(of(Call::CreateFleet, invalid, "DryRunOperation", "would have succeeded"), Ok(None));
    assert_eq!(of(Call::RunInstances, invalid, "InsufficientInstanceCapacity", "none left"), Ok(None));
    for (call, reason) in [
        (Call::CreateLaunchTemplate, "CreateLaunchTemplateAuthCheckFailed"),
        (Call::CreateFleet, "CreateFleetAuthCheckFailed"),
        (Call::RunInstances, "RunInstancesAuthCheckFailed"),
    ] {
        assert_eq!(of(call, denied, "UnauthorizedOperation", "no"), Ok(Some(reason.to_owned())));
    }
    let profile = "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    let found = of(Call::RunInstances, invalid, "InvalidParameterValue", profile);
    assert_eq!(found, Ok(Some("InstanceProfileNotFound".to_owned())));
    let key = of(Call::RunInstances, invalid, "InvalidKMSKey.InvalidState", "disabled");
    assert_eq!(key, Ok(Some("RequestRefused".to_owned())));
    assert!(of(Call::CreateFleet, ErrorKind::Throttled, "RequestLimitExceeded", "slow down").is_err());
    assert!(of(Call::CreateFleet, ErrorKind::Unavailable, "", "no route").is_err());
}

/// The cause may be the instance type of the dry run, one of its parameters, or a parameter that is new in EC2.
#[test]
fn a_rejection_without_a_permission_or_a_field_of_the_class_keeps_it_ready() {
    let class = class();
    let status = resolved(&class, None, at(5));
    let key = key(&class, &status);
    for code in ["InvalidParameterCombination", "InvalidParameterValue", "UnknownParameter", "InvalidRequest"] {
        let error = PortError::new(ErrorKind::Invalid, "EC2 RunInstances", "odd").with_code(code);
        let outcome = refusal(Call::RunInstances, error);
        let check = checked(None, "default", &key, &outcome, at(7));
        assert_eq!(reported(&apply(&class, status.clone(), Some(&check), at(7))).3, ConditionStatus::True, "{code}");
        assert!(check.problem.as_ref().is_some_and(|problem| problem.contains("odd")), "{check:?}");
        // A launch was rejected too, so the class is not ready.
        let again = checked(Some(to_be_confirmed(check)), "default", &key, &outcome, at(30));
        let refused = apply(&class, status.clone(), Some(&again), at(30));
        let (validation, reason, message, ready) = reported(&refused);
        assert_eq!((validation, reason, ready), (ConditionStatus::False, "RequestRefused", ConditionStatus::False));
        assert!(message.contains("odd"), "{message}");
    }
    let subnet = PortError::new(ErrorKind::Invalid, "EC2 RunInstances", "gone").with_code("InvalidSubnetID.NotFound");
    assert_eq!(refusal(Call::RunInstances, subnet).unwrap().unwrap().reason, REFUSED);
}

/// The account is verified or subscribes later, without a change of the class.
#[test]
fn a_rejection_because_of_the_account_keeps_the_class_ready_and_is_asked_again() {
    let class = class();
    let status = resolved(&class, None, at(5));
    let key = key(&class, &status);
    for code in ["PendingVerification", "OptInRequired"] {
        let error = PortError::new(ErrorKind::Denied, "EC2 RunInstances", "wait").with_code(code);
        let outcome = refusal(Call::RunInstances, error);
        let mut check = checked(None, "default", &key, &outcome, at(7));
        for second in [30, 60] {
            assert!(
                !is_due(Some(&check), &key, at(second - 1)) && is_due(Some(&check), &key, at(second + 300)),
                "{code}"
            );
            // A launch was rejected too.
            check = checked(Some(to_be_confirmed(check)), "default", &key, &outcome, at(second));
            let applied = apply(&class, status.clone(), Some(&check), at(second));
            assert_eq!(reported(&applied).3, ConditionStatus::True, "{code}");
            assert!(check.problem.as_ref().is_some_and(|problem| problem.contains(code)), "{check:?}");
        }
    }
}

#[test]
fn a_new_class_is_not_ready_before_ec2_has_answered() {
    let class = class();
    let status = resolved(&class, None, at(5));
    let open = apply(&class, status.clone(), None, at(5));
    assert!(matches!(reported(&open), (ConditionStatus::Unknown, "AwaitingDryRun", _, ConditionStatus::Unknown)));
    let accepted = checked(None, "default", &key(&class, &status), &Ok(None), at(7));
    let ready = apply(&EC2NodeClass { status: Some(open.clone()), ..class.clone() }, open, Some(&accepted), at(7));
    assert_eq!(reported(&ready), (ConditionStatus::True, VALIDATION, "", ConditionStatus::True));
    assert_eq!(find(&ready, READY).unwrap().last_transition_time, at(7).into());
    let refused = checked(None, "default", &key(&class, &status), &Ok(Some(denied())), at(7));
    let status = apply(&class, status, Some(&refused), at(7));
    let (validation, reason, message, ready) = reported(&status);
    assert_eq!((validation, ready), (ConditionStatus::False, ConditionStatus::False));
    assert!(reason == "RunInstancesAuthCheckFailed" && message.contains("UnauthorizedOperation: no"), "{message}");
}

#[test]
fn a_class_with_another_problem_keeps_its_status_without_dry_runs() {
    let class = class();
    let broken = resolved(&class, Some(Problem::new("SubnetsNotFound", "none")), at(5));
    assert!(!can_be_checked(&broken));
    let accepted = checked(None, "default", &key(&class, &broken), &Ok(None), at(4));
    assert_eq!(apply(&class, broken.clone(), Some(&accepted), at(5)), broken);
}

#[test]
fn a_class_with_another_image_stays_ready_until_the_next_dry_run() {
    let mut class = class();
    let mut status = resolved(&class, None, at(5));
    let accepted = checked(None, "default", &key(&class, &status), &Ok(None), at(5));
    class.status = Some(apply(&class, status.clone(), Some(&accepted), at(5)));
    status.amis[0].id = "ami-2".into();
    let new = key(&class, &status);
    assert!(is_due(Some(&accepted), &new, at(6)));
    assert_eq!(reported(&apply(&class, status.clone(), Some(&accepted), at(6))).3, ConditionStatus::True);
    let refused = checked(Some(accepted), "default", &new, &Ok(Some(denied())), at(7));
    assert_eq!(reported(&apply(&class, status.clone(), Some(&refused), at(7))).3, ConditionStatus::False);
    // Another spec waits for its own dry run.
    class.metadata.generation = Some(2);
    class.spec.detailed_monitoring = Some(true);
    status.conditions = conditions(&class, &[("SubnetsReady", None)], None, at(8));
    assert_eq!(reported(&apply(&class, status, Some(&refused), at(8))).3, ConditionStatus::Unknown);
}

#[test]
fn a_changed_spec_that_resolves_to_the_same_keeps_a_ready_class_ready_until_the_next_dry_run() {
    let ready = |refusal: Option<Refusal>, change: &dyn Fn(&mut EC2NodeClass)| {
        let mut class = class();
        let with_hash = |class: &EC2NodeClass, now| EC2NodeClassStatus {
            resolved_hash: Some(resolved_fields(&class.spec)),
            ..resolved(class, None, now)
        };
        let status = with_hash(&class, at(5));
        let check = checked(None, "default", &key(&class, &status), &Ok(refusal), at(5));
        class.status = Some(apply(&class, status, Some(&check), at(5)));
        class.metadata.generation = Some(2);
        change(&mut class);
        let status = with_hash(&class, at(9));
        assert!(is_due(Some(&check), &key(&class, &status), at(9)));
        reported(&apply(&class, status, Some(&check), at(9))).3
    };
    let tag = |class: &mut EC2NodeClass| drop(class.spec.tags.insert("team".to_owned(), "search".to_owned()));
    assert_eq!(ready(None, &tag), ConditionStatus::True);
    assert_eq!(ready(Some(denied()), &tag), ConditionStatus::Unknown, "the change may be the correction");
    let role = |class: &mut EC2NodeClass| class.spec.role = Some("other".to_owned());
    assert_eq!(ready(None, &role), ConditionStatus::Unknown);
}

#[test]
fn a_throttled_dry_run_keeps_a_class_ready() {
    let mut class = class();
    let status = resolved(&class, None, at(5));
    let accepted = checked(None, "default", &key(&class, &status), &Ok(None), at(5));
    class.status = Some(status);
    class.metadata.generation = Some(2);
    class.spec.detailed_monitoring = Some(true);
    let status = resolved(&class, None, at(9));
    let new = key(&class, &status);
    let unanswered = checked(Some(accepted), "default", &new, &Err(throttled()), at(9));
    assert_eq!(reported(&apply(&class, status.clone(), Some(&unanswered), at(9))).3, ConditionStatus::True);
    // Without an earlier result, the condition contains the error.
    let never = checked(None, "default", &new, &Err(throttled()), at(9));
    let open = apply(&class, status, Some(&never), at(9));
    assert!(reported(&open).2.contains("slow down") && reported(&open).0 == ConditionStatus::Unknown);
}

#[test]
fn dry_runs_are_repeated_at_the_intervals_of_karpenter() {
    let due = |check: &LaunchCheck, second| is_due(Some(check), "k", at(second));
    assert!(is_due(None, "k", at(0)));
    let accepted = checked(None, "default", "k", &Ok(None), at(0));
    assert!(!due(&accepted, 1799) && due(&accepted, 1800));
    let refused = checked(None, "default", "k", &Ok(Some(denied())), at(0));
    assert!(!due(&refused, 299) && due(&refused, 300));
    let unanswered = checked(None, "default", "k", &Err(throttled()), at(0));
    assert!(!due(&unanswered, 19) && due(&unanswered, 20));
    let unconfirmed = to_be_confirmed(accepted);
    assert!(!due(&unconfirmed, 19) && due(&unconfirmed, 20));
    assert!(unconfirmed.answer.is_some_and(|answer| answer.refusal.is_none()), "it is valid until the next result");
}

#[test]
fn the_key_depends_on_annotations_but_not_on_hashes_or_the_order_of_subnets() {
    let mut class = class();
    let mut status = resolved(&class, None, at(0));
    let before = key(&class, &status);
    status.subnets.reverse();
    class.metadata.annotations.get_or_insert_default().insert(labels::EC2_NODE_CLASS_HASH.to_owned(), "1".to_owned());
    assert_eq!(key(&class, &status), before);
    class.metadata.annotations.get_or_insert_default().insert("look".to_owned(), "again".to_owned());
    assert_ne!(key(&class, &status), before);
}
