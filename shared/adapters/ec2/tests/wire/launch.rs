//! Launching, finding, tagging and terminating instances.

use crate::dry_runs::dry_run;
use crate::support::{CLUSTER, SimulatedAws, candidate, claim, ids, launch, m5, ready};
use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_fake_aws::{CapacityReservation, CapacityType, Ec2Error, Offering, OfferingPattern};
use nodeless_model::CapacityType::{OnDemand, Reserved, Spot};
use nodeless_model::instance::{FaultKind, InstanceState};
use nodeless_model::{ReservedInstances, StringMap};
use nodeless_ports::cloud::LaunchCandidate;
use nodeless_ports::{CatalogSource as _, Cloud as _, ErrorKind};
use serde_json::json;

/// Like [`ready`], with an EC2NodeClass that selects a reservation of two instances.
async fn reserving(interruptible: bool) -> (SimulatedAws, EC2NodeClass) {
    let world = SimulatedAws::new().await;
    let reservation = CapacityReservation {
        id: "cr-0a0000000000000001".into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        total: 2,
        available: 2,
        open: false,
        start: Timestamp::UNIX_EPOCH,
        end: None,
        interruptible,
    };
    world.ec2.change_account(|account| account.capacity_reservations.push(reservation));
    let term = json!({ "id": "cr-0a0000000000000001" });
    let class = world.resolved(json!({ "capacityReservationSelectorTerms": [term] })).await;
    (world, class)
}

#[tokio::test]
async fn the_same_launch_again_finds_the_same_instances() {
    let (world, class) = ready().await;
    let candidates = [candidate("m5.large", "a", OnDemand, 0.096), candidate("m6g.large", "b", OnDemand, 0.077)];
    let claim = claim("group-1", 3);
    let first = launch(&world.cloud(), &claim, &class, &candidates).await.unwrap();
    assert_eq!((first.instances.len(), first.failures.len()), (3, 0));
    assert!(ids(&first).is_sorted());
    let again = launch(&world.cloud(), &claim, &class, &candidates).await.unwrap();
    assert_eq!(ids(&again), ids(&first));
    assert_eq!(world.ec2.instances().len(), 3);

    // The cheaper of the two, from the image of its architecture, in the subnet of its zone, marked as ours.
    let launched = &first.instances[0];
    assert_eq!((launched.instance_type.as_str(), launched.zone.as_str()), ("m6g.large", "us-east-1b"));
    let found = world.cloud().instances(&ids(&first)).await.unwrap();
    assert_eq!(found.len(), 3);
    let image = world.ec2.account().images.into_iter().find(|image| image.id == found[0].image_id).unwrap();
    assert!(image.architecture == "arm64" && image.name.contains("standard"), "{image:?}");
    assert_eq!(launched.image_id, found[0].image_id);
    assert_eq!(launched.subnet_id, found[0].subnet_id);
    assert_eq!(found[0].security_group_ids, ["sg-0a0000000000000001"]);
    let tags = &found[0].tags;
    for (key, value) in [
        ("team", "a"),
        ("kubernetes.io/cluster/prod", "owned"),
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("nodeless.sh/launch-group", "group-1"),
    ] {
        assert_eq!(tags.get(key).map(String::as_str), Some(value), "{key} in {tags:?}");
    }
    assert!(!tags.contains_key("karpenter.sh/nodeclaim"), "all of a group have the same tags at first");
}

#[tokio::test]
async fn spot_is_bought_as_spot_and_a_claim_alone_has_its_name_from_the_start() {
    let (world, class) = ready().await;
    let candidates = [candidate("m5.large", "a", Spot, 0.03), candidate("m5.large", "a", OnDemand, 0.096)];
    let outcome = launch(&world.cloud(), &claim("group-1", 1), &class, &candidates).await.unwrap();
    assert_eq!(outcome.instances[0].capacity_type, Spot);
    let found = world.cloud().instances(&ids(&outcome)).await.unwrap();
    assert_eq!(found[0].capacity_type, Spot);
    assert_eq!(found[0].tags["karpenter.sh/nodeclaim"], "default-abcde");
}

#[tokio::test]
async fn what_is_available_is_launched_and_the_rest_is_reported() {
    let (world, class) = ready().await;
    world.ec2.set_capacity(Offering::new("m5.large", "us-east-1a", CapacityType::OnDemand), Some(2));
    let outcome = launch(&world.cloud(), &claim("group-1", 3), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances.len(), 2);
    assert_eq!(outcome.failures.len(), 1);
    let failure = &outcome.failures[0];
    assert_eq!((failure.instance_type.as_str(), failure.zone.as_str()), ("m5.large", "us-east-1a"));
    assert!(failure.lacks_capacity && failure.code == "InsufficientInstanceCapacity", "{failure:?}");
}

#[tokio::test]
async fn all_instances_of_a_group_that_has_to_be_whole_are_launched_or_none() {
    let (world, class) = ready().await;
    let whole = |group: &str| {
        let mut claim = claim(group, 3);
        claim.spec.launch_group.as_mut().unwrap().all_or_none = true;
        claim
    };
    for (capacity_type, priced, short) in
        [(CapacityType::OnDemand, OnDemand, "group-1"), (CapacityType::Spot, Spot, "group-2")]
    {
        let candidates = [candidate("m5.large", "a", priced, 0.096)];
        let offering = Offering::new("m5.large", "us-east-1a", capacity_type);
        world.ec2.set_capacity(offering.clone(), Some(2));
        let outcome = launch(&world.cloud(), &whole(short), &class, &candidates).await.unwrap();
        assert!(outcome.instances.is_empty() && outcome.failures[0].lacks_capacity, "{outcome:?}");
        // In two zones EC2 does not know this condition, and in another zone nothing is missing.
        let two = [candidates[0].clone(), candidate("m5.large", "b", priced, 0.096)];
        let outcome = launch(&world.cloud(), &whole(&format!("{short}-two")), &class, &two).await.unwrap();
        assert_eq!(outcome.instances.len(), 3);
        world.ec2.set_capacity(offering, Some(3));
        let outcome = launch(&world.cloud(), &whole(&format!("{short}-again")), &class, &candidates).await.unwrap();
        assert_eq!(outcome.instances.len(), 3);
    }
}

#[tokio::test]
async fn every_offering_without_capacity_is_reported_once() {
    let (world, class) = ready().await;
    for instance_type in ["m5.large", "m6g.large"] {
        world.ec2.exhaust(OfferingPattern { instance_type: Some(instance_type.into()), ..OfferingPattern::default() });
    }
    let candidates = [
        candidate("m5.large", "a", Spot, 0.03),
        candidate("m5.large", "b", Spot, 0.031),
        candidate("m6g.large", "a", Spot, 0.025),
    ];
    let outcome = launch(&world.cloud(), &claim("group-1", 2), &class, &candidates).await.unwrap();
    assert!(outcome.instances.is_empty());
    let mut reported: Vec<String> =
        outcome.failures.iter().map(|f| format!("{} {}", f.instance_type, f.zone)).collect();
    reported.sort();
    assert_eq!(reported, ["m5.large us-east-1a", "m5.large us-east-1b", "m6g.large us-east-1a"]);
    assert!(outcome.failures.iter().all(|failure| failure.lacks_capacity && failure.capacity_type == Spot));
}

#[tokio::test]
async fn a_quota_that_rejects_the_call_is_a_lack_of_capacity_of_what_it_requested() {
    let (world, class) = ready().await;
    let message = "You've reached your quota for maximum Fleet Requests for this account.";
    world.ec2.fail_next("CreateFleet", &Ec2Error::new("MaxFleetCountExceeded", message), 1);
    let candidates = [candidate("m5.large", "a", Spot, 0.03), candidate("m5.large", "b", OnDemand, 0.096)];
    let outcome = launch(&world.cloud(), &claim("group-1", 2), &class, &candidates).await.unwrap();
    let [failure] = outcome.failures.as_slice() else { panic!("{outcome:?}") };
    assert!(outcome.instances.is_empty() && failure.lacks_capacity, "{outcome:?}");
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("MaxFleetCountExceeded", message));
    assert_eq!((failure.instance_type.as_str(), failure.zone.as_str()), ("m5.large", "us-east-1a"));
    assert_eq!(failure.capacity_type, Spot, "on-demand was not requested");
    world.ec2.fail_next("CreateFleet", &Ec2Error::new("InvalidParameterValue", "no such value"), 1);
    let refused = launch(&world.cloud(), &claim("group-2", 1), &class, &candidates).await.unwrap_err();
    assert_eq!(refused.code, "InvalidParameterValue");
}

#[tokio::test]
async fn a_failure_that_a_person_must_fix_is_no_lack_of_capacity() {
    let (world, class) = ready().await;
    world.ec2.refuse(OfferingPattern::default(), Ec2Error::new("UnauthorizedOperation", "You are not authorized"));
    let outcome = launch(&world.cloud(), &claim("group-1", 1), &class, &m5()).await.unwrap();
    assert_eq!(outcome.failures.len(), 1);
    assert!(!outcome.failures[0].lacks_capacity, "{outcome:?}");
}

#[tokio::test]
async fn a_launch_whose_prices_changed_meanwhile_is_found_by_its_tag() {
    let (world, class) = ready().await;
    let claim = claim("group-1", 2);
    let (cheap, dear) = (candidate("m5.large", "a", OnDemand, 0.096), candidate("m5.xlarge", "a", OnDemand, 0.192));
    let first = launch(&world.cloud(), &claim, &class, &[cheap.clone(), dear.clone()]).await.unwrap();
    let cheap_again = LaunchCandidate { price: 0.3, ..cheap };
    let again = launch(&world.cloud(), &claim, &class, &[dear, cheap_again]).await.unwrap_err();
    // The list of instances may not be complete yet, so the error is returned.
    assert_eq!((again.code.as_str(), again.is_retryable()), ("IdempotentParameterMismatch", false));
    let found = world.cloud().group_instances("group-1").await.unwrap();
    assert_eq!(found.into_iter().map(|instance| instance.id).collect::<Vec<_>>(), ids(&first));
    assert!(world.cloud().group_instances("group-2").await.unwrap().is_empty());
    assert_eq!(world.ec2.instances().len(), 2);
}

#[tokio::test]
async fn unknown_instances_are_left_out_and_gone_ones_are_a_success() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    let mut requested = ids(&launch(&cloud, &claim("group-1", 2), &class, &m5()).await.unwrap());
    requested.push("i-0123456789abcdef0".to_owned());
    assert_eq!(cloud.instances(&requested).await.unwrap().len(), 2);
    assert!(cloud.instances(&[]).await.unwrap().is_empty());
    assert_eq!(cloud.all_instances().await.unwrap().len(), 2);

    cloud.tag(&requested[0], &StringMap::from([("karpenter.sh/nodeclaim".to_owned(), "x".to_owned())])).await.unwrap();
    assert_eq!(cloud.instances(&requested[..1]).await.unwrap()[0].tags["karpenter.sh/nodeclaim"], "x");
    let unknown = cloud.tag(&requested[2], &StringMap::from([("a".to_owned(), "b".to_owned())])).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::NotFound, "{unknown}");

    cloud.terminate(&requested).await.unwrap();
    cloud.terminate(&requested).await.unwrap();
    assert_eq!(world.calls("ec2:TerminateInstances"), 1, "what is going already is not asked again");
    let states: Vec<InstanceState> = cloud.instances(&requested).await.unwrap().iter().map(|i| i.state).collect();
    assert_eq!(states, [InstanceState::ShuttingDown; 2]);
    world.ec2.advance_to(world.ec2.now() + SignedDuration::from_mins(5));
    assert!(cloud.all_instances().await.unwrap().is_empty());
    assert_eq!(cloud.instances(&requested).await.unwrap()[0].state, InstanceState::Terminated);
}

#[tokio::test]
async fn instances_are_stopped_and_started_again() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    let ids = ids(&launch(&cloud, &claim("group-1", 2), &class, &m5()).await.unwrap());
    let later = || world.ec2.advance_to(world.ec2.now() + SignedDuration::from_mins(1));
    let state = async || {
        let found = cloud.instances(&ids).await.unwrap();
        assert!(found.len() == 2 && found[0].state == found[1].state, "{found:?}");
        found[0].state
    };
    later();
    cloud.stop(&ids).await.unwrap();
    cloud.stop(&ids).await.unwrap();
    assert_eq!(state().await, InstanceState::Stopping);
    later();
    assert_eq!(state().await, InstanceState::Stopped);
    world.ec2.exhaust(OfferingPattern::default());
    let refused = cloud.start(&ids).await.unwrap_err();
    assert_eq!(refused.code, "InsufficientInstanceCapacity", "{refused}");
    world.ec2.restore(OfferingPattern::default());
    cloud.start(&ids).await.unwrap();
    assert_eq!(state().await, InstanceState::Pending);
    let unknown = cloud.start(&["i-0123456789abcdef0".to_owned()]).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::NotFound, "{unknown}");
}

#[tokio::test]
async fn instances_are_found_by_id_while_filters_fail() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    let launched = ids(&launch(&cloud, &claim("group-1", 2), &class, &m5()).await.unwrap());
    world.impair_a_zone();
    assert!(cloud.all_instances().await.is_err() && cloud.group_instances("group-1").await.is_err());
    assert_eq!(cloud.instances(&launched).await.unwrap().len(), 2);

    // EC2 names the unknown ids, and the call is repeated for the others; an id with the same prefix is another one.
    let like_first = launched[0][..10].to_owned();
    let mut asked = vec!["i-0123456789abcdef0".to_owned(), like_first, "i-0123456789abcdef1".to_owned()];
    asked.extend(launched.iter().cloned());
    let found: Vec<String> = cloud.instances(&asked).await.unwrap().into_iter().map(|instance| instance.id).collect();
    assert_eq!(found, launched);
    assert!(cloud.instances(&asked[..3]).await.unwrap().is_empty());
    cloud.terminate(&launched).await.unwrap();
    assert_eq!(world.calls("ec2:TerminateInstances"), 1);
}

#[tokio::test]
async fn throttling_is_waited_out_and_then_reported() {
    let (world, class) = ready().await;
    world.ec2.throttle("CreateFleet", 2);
    let outcome = launch(&world.cloud(), &claim("group-1", 1), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances.len(), 1, "the SDK tries three times");
    for api in ["CreateFleet", "DescribeInstances"] {
        world.ec2.throttle(api, 3);
    }
    let error = launch(&world.cloud(), &claim("group-2", 1), &class, &m5()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, "RequestLimitExceeded"), "{error}");
    assert_eq!(world.cloud().all_instances().await.unwrap_err().kind, ErrorKind::Throttled);
    world.ec2.deny("CreateFleet");
    let error = launch(&world.cloud(), &claim("group-3", 1), &class, &m5()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn a_reservation_that_the_class_selects_is_launched_into_until_it_is_full() {
    let (world, class) = reserving(false).await;
    let found = &class.status.as_ref().unwrap().capacity_reservations;
    assert_eq!((found.len(), found[0].instance_type.as_str()), (1, "m5.large"));
    let left = world.source().catalog(None).await.unwrap().reservations;
    let owned = ReservedInstances { available: 2, used: Some(0) };
    assert_eq!(left, [("cr-0a0000000000000001".to_owned(), owned)].into());
    // What another account owns may be used by others, too.
    let elsewhere = world.source().with_account(Some("444455556666".to_owned()));
    let shared = ReservedInstances { available: 2, used: None };
    assert_eq!(elsewhere.catalog(None).await.unwrap().reservations["cr-0a0000000000000001"], shared);
    let reserved = LaunchCandidate {
        reservation_id: Some("cr-0a0000000000000001".into()),
        capacity_type: Reserved,
        ..candidate("m5.large", "a", OnDemand, 1e-8)
    };
    let outcome = launch(&world.cloud(), &claim("group-1", 2), &class, std::slice::from_ref(&reserved)).await.unwrap();
    assert_eq!((outcome.instances.len(), outcome.failures.len()), (2, 0));
    assert!(outcome.instances.iter().all(|instance| instance.capacity_type == Reserved));
    let full = launch(&world.cloud(), &claim("group-2", 1), &class, &[reserved]).await.unwrap();
    assert!(full.instances.is_empty() && full.failures[0].lacks_capacity, "{full:?}");
}

#[tokio::test]
async fn an_interruptible_reservation_is_launched_into_with_its_market_type() {
    let (world, class) = reserving(true).await;
    let status = class.status.as_ref().unwrap();
    assert_eq!(status.capacity_reservations[0].interruptible, Some(true));
    let ready = status.conditions.iter().find(|condition| condition.type_ == "CapacityReservationsReady").unwrap();
    assert_eq!(ready.status, nodeless_api::ConditionStatus::True);
    let candidates = [LaunchCandidate {
        reservation_id: Some("cr-0a0000000000000001".into()),
        capacity_type: Reserved,
        labels: [("karpenter.k8s.aws/capacity-reservation-interruptible".to_owned(), "true".to_owned())].into(),
        ..candidate("m5.large", "a", OnDemand, 1e-8)
    }];
    assert_eq!(dry_run(&world, &class, &candidates).await.unwrap(), None);
    let outcome = launch(&world.cloud(), &claim("group-1", 3), &class, &candidates).await.unwrap();
    assert_eq!((outcome.instances.len(), outcome.failures.len()), (2, 1), "EC2 launches what the reservation has");
    assert!(outcome.instances.iter().all(|instance| instance.capacity_type == Reserved));
    let sent = world.ec2.calls().into_iter().rfind(|call| call.api == "CreateFleet").unwrap().parameters;
    assert_eq!(sent["TargetCapacitySpecification"]["DefaultTargetCapacityType"], "reserved-capacity");
    assert!(sent.get("OnDemandOptions").is_none_or(serde_json::Value::is_null), "{sent}");
}

#[tokio::test]
async fn of_several_subnets_in_a_zone_the_one_with_the_most_free_addresses_now_is_used() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| {
        let mut second = account.subnets[0].clone();
        second.id = "subnet-0a0000000000000099".into();
        let tags = account.tags.get(&account.subnets[0].id).cloned().unwrap_or_default();
        account.tags.insert(second.id.clone(), tags);
        account.subnets.push(second);
    });
    let class = world.resolved(json!({})).await;
    let subnets = &class.status.as_ref().unwrap().subnets;
    let in_a: Vec<String> = subnets.iter().filter(|it| it.zone == "us-east-1a").map(|it| it.id.clone()).collect();
    assert_eq!(in_a.len(), 2);
    let cloud = world.cloud();
    // Since the class was resolved, the one with the most free addresses has filled up.
    world.ec2.change_account(|account| {
        account.subnets.iter_mut().find(|subnet| subnet.id == in_a[0]).unwrap().free_addresses = 3;
    });
    let outcome = launch(&cloud, &claim("group-1", 5), &class, &m5()).await.unwrap();
    assert_eq!((outcome.instances.len(), outcome.instances[0].subnet_id.as_ref()), (5, Some(&in_a[1])));
    // When it cannot be read, the order that is known serves.
    world.ec2.throttle("DescribeSubnets", 3);
    let outcome = launch(&cloud, &claim("group-2", 1), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances[0].subnet_id.as_ref(), Some(&in_a[0]));
}

#[tokio::test]
async fn failing_status_checks_and_planned_events_are_found() {
    let (world, class) = ready().await;
    let cloud = world.cloud();
    let ids = ids(&launch(&cloud, &claim("group-1", 6), &class, &m5()).await.unwrap());
    let [own, system, planned, called_off, both, _sound] = ids.as_slice() else { panic!("{ids:?}") };
    let began = world.ec2.now() + SignedDuration::from_mins(1);
    world.ec2.advance_to(began);
    assert_eq!(cloud.instance_faults().await.unwrap(), []);

    assert!(world.ec2.impair(own) && world.ec2.impair_system(system));
    assert!(world.ec2.impair(both) && world.ec2.impair_system(both));
    let retires = began + SignedDuration::from_hours(48);
    for id in [planned, called_off] {
        assert!(world.ec2.plan_event(id, "instance-retirement", retires));
    }
    world.ec2.call_off_events(called_off);

    let second = Timestamp::from_second(began.as_second()).unwrap();
    let failed = |id: &str, check| (id.to_owned(), FaultKind::CheckFailed { check, since: Some(second) });
    let code = |code: &str| FaultKind::Planned {
        code: code.to_owned(),
        not_before: Timestamp::from_second(retires.as_second()).ok(),
    };
    let found = cloud.instance_faults().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|fault| (fault.id, fault.kind)).collect();
    for fault in [
        failed(own, "instance"),
        failed(system, "system"),
        failed(both, "instance"),
        failed(both, "system"),
        (planned.clone(), code("instance-retirement")),
    ] {
        assert!(found.contains(&fault), "{fault:?} is missing: {found:?}");
    }
    assert!(!found.iter().any(|(id, _)| id == called_off), "{found:?}");
}
