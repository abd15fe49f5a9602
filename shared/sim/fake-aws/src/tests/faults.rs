use jiff::SignedDuration;

use super::super::requests::{Describe, Filter, RunInstances, StartInstances, StopInstances, TerminateInstances};
use super::super::services::pricing;
use super::super::{Ec2Error, Ec2Event, InstanceState, LaunchFault, OfferingPattern};
use super::*;

fn request() -> CreateFleet {
    fleet(&["m5.large"], "on-demand", "lowest-price", 1)
}

#[test]
fn throttling_lasts_for_the_scripted_calls() {
    let ec2 = ec2();
    ec2.throttle("CreateFleet", 2);
    for _ in 0..2 {
        let error = ec2.create_fleet(&request()).unwrap_err();
        assert_eq!((error.code.as_str(), error.status), ("RequestLimitExceeded", 503));
    }
    assert_eq!(ec2.create_fleet(&request()).unwrap().instance_ids().len(), 1);
}

#[test]
fn denial_lasts_until_it_is_lifted() {
    let ec2 = ec2();
    ec2.deny("CreateFleet");
    for _ in 0..3 {
        assert_eq!(ec2.create_fleet(&request()).unwrap_err().code, "UnauthorizedOperation");
    }
    ec2.allow("CreateFleet");
    ec2.create_fleet(&request()).unwrap();
}

#[test]
fn an_offering_can_be_refused_with_any_error() {
    let ec2 = ec2();
    let limit = Ec2Error::new("VcpuLimitExceeded", "You have requested more vCPU capacity than your limit.");
    ec2.refuse(OfferingPattern::default(), limit);
    assert_eq!(bought(&ec2, &request()), (vec![], vec!["VcpuLimitExceeded".to_owned(); 2]));
}

#[test]
fn scarce_offerings_share_what_is_left_until_it_is_lifted() {
    let ec2 = ec2();
    let large = OfferingPattern { instance_type: Some("m5.large".to_owned()), ..OfferingPattern::default() };
    ec2.run_short(large.clone(), 3);
    let two = fleet(&["m5.large"], "on-demand", "lowest-price", 2);
    assert_eq!(ec2.create_fleet(&two).unwrap().instance_ids().len(), 2);
    let (offerings, errors) = bought(&ec2, &two);
    assert_eq!((offerings.len(), errors.first().map(String::as_str)), (1, Some("InsufficientInstanceCapacity")));
    assert!(bought(&ec2, &two).0.is_empty());
    ec2.restore(large);
    assert_eq!(ec2.create_fleet(&two).unwrap().instance_ids().len(), 2);
}

#[test]
fn new_instances_are_invisible_for_the_delay() {
    let ec2 = ec2();
    ec2.change_account(|account| account.timing.visibility_delay = SignedDuration::from_secs(5));
    let ids = ec2.create_fleet(&request()).unwrap().instance_ids();
    let by_id = Describe { ids, ..Describe::default() };
    let by_tag = Describe { filters: vec![Filter::new("tag-key", ["karpenter.sh/nodepool"])], ..Describe::default() };
    assert_eq!(ec2.describe_instances(&by_id).unwrap_err().code, "InvalidInstanceID.NotFound");
    assert!(ec2.describe_instances(&by_tag).unwrap().0.is_empty());
    ec2.advance_to(start() + SignedDuration::from_secs(5));
    assert_eq!(ec2.describe_instances(&by_id).unwrap().0.len(), 1);
    assert_eq!(ec2.describe_instances(&by_tag).unwrap().0.len(), 1);
}

#[test]
fn machines_can_hang_fail_or_stay_away() {
    let ec2 = ec2();
    let faults = [LaunchFault::NeverStarts, LaunchFault::NeverJoins, LaunchFault::FailsToStart];
    for fault in faults {
        ec2.spoil_launches(OfferingPattern::default(), fault, 1);
    }
    let request = fleet(&["m5.large"], "on-demand", "lowest-price", 4);
    ec2.create_fleet(&request).unwrap();
    ec2.advance_to(start() + SignedDuration::from_mins(5));
    let states: Vec<_> = ec2.instances().iter().map(|instance| instance.state).collect();
    let (pending, running, gone) = (InstanceState::Pending, InstanceState::Running, InstanceState::Terminated);
    assert_eq!(states, [pending, running, gone, running]);
    let joins = |event: Ec2Event| match event {
        Ec2Event::InstanceRunning { instance } => Some(instance.joins),
        _ => None,
    };
    assert_eq!(ec2.drain_events().into_iter().filter_map(joins).collect::<Vec<_>>(), [false, true]);
    let failed = ec2.instances().remove(2);
    assert_eq!(failed.state_reason.unwrap().0, "Server.InternalError");
}

#[test]
fn calls_are_recorded_with_parameters_and_errors() {
    let ec2 = ec2();
    ec2.throttle("CreateFleet", 1);
    ec2.create_fleet(&request()).unwrap_err();
    ec2.create_fleet(&request()).unwrap();
    let calls = ec2.calls();
    let last = calls.last().unwrap();
    assert_eq!((last.service, last.api.as_str(), last.error.as_deref()), ("ec2", "CreateFleet", None));
    assert_eq!(last.parameters["TargetCapacitySpecification"]["TotalTargetCapacity"], 1);
    assert_eq!(calls[calls.len() - 2].error.as_deref(), Some("RequestLimitExceeded"));
    assert_eq!(ec2.call_counts()["ec2:CreateFleet"], 2);
}

/// The number of calls of an action that are accepted now.
fn accepted<T>(call: impl Fn() -> Result<T, Ec2Error>) -> usize {
    (0..200).take_while(|_| !call().is_err_and(|error| error.code == "RequestLimitExceeded")).count()
}

#[test]
fn each_action_has_a_bucket_that_refills() {
    let ec2 = ec2();
    let list = || ec2.describe_instances(&Describe::default());
    let launch = || ec2.create_fleet(&request());
    let before = ec2.instances().len();
    assert_eq!((accepted(list), accepted(launch)), (100, 50));
    assert_eq!(ec2.instances().len(), before + 50, "a refused call launches nothing");
    ec2.advance_to(start() + SignedDuration::from_secs(2));
    assert_eq!((accepted(list), accepted(launch)), (40, 10));
    ec2.advance_to(start() + SignedDuration::from_hours(1));
    assert_eq!((accepted(list), accepted(launch)), (100, 50));
}

#[test]
fn the_price_list_has_a_bucket_of_its_own() {
    let ec2 = ec2();
    let parameters = serde_json::json!({ "ServiceCode": "AmazonEC2" });
    let read = || pricing::call(&ec2, "GetProducts", &parameters);
    let read_at_once = || (0..20).take_while(|_| read().is_ok()).count();
    assert_eq!(read_at_once(), 10);
    let error = read().unwrap_err();
    assert_eq!((error.code.as_str(), error.status), ("ThrottlingException", 400));
    ec2.advance_to(start() + SignedDuration::from_secs(1));
    assert_eq!(read_at_once(), 5);
}

#[test]
fn a_fleet_draws_from_the_bucket_of_launched_instances() {
    let ec2 = ec2();
    let launched = |target: u32| {
        let (offerings, errors) = bought(&ec2, &fleet(&["m5.large"], "on-demand", "lowest-price", target));
        (offerings.len(), errors)
    };
    assert_eq!(launched(990), (990, vec![]));
    let throttled = vec!["RequestLimitExceeded".to_owned(); 2];
    assert_eq!(launched(11), (0, throttled), "more than is left, from either zone");
    assert_eq!(launched(10), (10, vec![]));
    assert_eq!(launched(1).0, 0);
    ec2.advance_to(start() + SignedDuration::from_secs(3));
    assert_eq!(launched(7).0, 0);
    assert_eq!(launched(6), (6, vec![]), "two a second");
    ec2.change_account(|account| account.launches_at_once = 2000);
    ec2.advance_to(start() + SignedDuration::from_hours(1));
    assert_eq!(launched(2000), (2000, vec![]));
}

#[test]
fn run_instances_and_terminate_instances_count_instances() {
    let ec2 = ec2();
    let run = |most: u32| {
        let request = RunInstances {
            launch_template: Some(LaunchTemplateSpecification {
                launch_template_name: Some("nodes".to_owned()),
                ..LaunchTemplateSpecification::default()
            }),
            instance_type: Some("m5.large".to_owned()),
            subnet_id: Some(account().subnets[0].id.clone()),
            min_count: Some(1),
            max_count: Some(most),
            ..RunInstances::default()
        };
        ec2.run_instances(&request)
    };
    assert_eq!(run(1000).unwrap().len(), 1000);
    assert_eq!(run(1).unwrap_err().code, "RequestLimitExceeded");
    ec2.advance_to(start() + SignedDuration::from_mins(10));
    assert_eq!(run(100).unwrap().len(), 100);
    let ids: Vec<String> = ec2.instances().into_iter().map(|instance| instance.id).collect();
    let terminate =
        |ids: &[String]| ec2.terminate_instances(&TerminateInstances { instance_ids: ids.to_vec(), dry_run: false });
    assert_eq!(terminate(&ids[..990]).unwrap().len(), 990);
    assert_eq!(terminate(&ids[990..1001]).unwrap_err().code, "RequestLimitExceeded");
    ec2.advance_to(start() + SignedDuration::from_mins(10) + SignedDuration::from_secs(1));
    assert_eq!(terminate(&ids[990..1001]).unwrap().len(), 11);
}

#[test]
fn stops_and_starts_have_buckets_of_requests_and_of_instances() {
    let ec2 = ec2();
    ec2.create_fleet(&fleet(&["m5.large"], "on-demand", "lowest-price", 600)).unwrap();
    ec2.advance_to(start() + SignedDuration::from_mins(1));
    let instance_ids: Vec<String> = ec2.instances().into_iter().map(|instance| instance.id).collect();
    let stops = || ec2.stop_instances(&StopInstances { instance_ids: instance_ids.clone(), dry_run: false });
    let starts = || ec2.start_instances(&StartInstances { instance_ids: instance_ids.clone(), dry_run: false });
    let start_one =
        || ec2.start_instances(&StartInstances { instance_ids: instance_ids[..1].to_vec(), dry_run: false });
    assert_eq!(accepted(stops), 1, "600 of 1000");
    ec2.advance_to(start() + SignedDuration::from_secs(70));
    assert_eq!(accepted(stops), 1, "20 a second");
    ec2.advance_to(start() + SignedDuration::from_mins(3));
    assert_eq!((accepted(starts), accepted(start_one)), (1, 3), "one of five calls was rejected for its instances");
    ec2.advance_to(start() + SignedDuration::from_mins(3) + SignedDuration::from_secs(2));
    assert_eq!(accepted(start_one), 4, "two calls a second");
    ec2.advance_to(start() + SignedDuration::from_mins(4));
    assert_eq!(accepted(starts), 0, "two instances a second");
    ec2.advance_to(start() + SignedDuration::from_mins(5));
    assert_eq!(accepted(starts), 1);
}

#[test]
fn the_filters_of_a_call_have_at_most_200_values() {
    let ec2 = ec2();
    let by = |ids: usize, states: &[&str]| {
        let ids = Filter::new("instance-id", (0..ids).map(|index| format!("i-{index}")));
        let states = Filter::new("instance-state-name", states.iter().map(ToString::to_string));
        let filters = [ids, states].into_iter().filter(|filter| !filter.values.is_empty()).collect();
        ec2.describe_instances(&Describe { filters, ..Describe::default() })
    };
    assert!(by(200, &[]).unwrap().0.is_empty());
    assert_eq!(by(201, &[]).unwrap_err().code, "FilterLimitExceeded");
    assert!(by(199, &["running"]).unwrap().0.is_empty());
    assert_eq!(by(199, &["pending", "running"]).unwrap_err().code, "FilterLimitExceeded");
}

#[test]
fn a_fleet_has_at_most_50_templates() {
    let ec2 = ec2();
    let mut request = request();
    let config = request.launch_template_configs[0].clone();
    request.launch_template_configs = vec![config.clone(); 50];
    let repeated = ec2.create_fleet(&request).unwrap_err();
    assert_eq!(repeated.code, "InvalidFleetConfig", "50 are accepted, but each pool only once");
    request.launch_template_configs.push(config);
    let refused = ec2.create_fleet(&request).unwrap_err();
    assert!(refused.code == "InvalidParameterValue" && refused.message.contains("at most 50"), "{refused}");
}
