use jiff::SignedDuration;

use super::super::requests::{
    ChangeTags, Describe, Filter, RebootInstances, RunInstances, StartInstances, StopInstances, Tag, TagSpecification,
    TerminateInstances,
};
use super::super::{Ec2Event, InstanceState, OfferingPattern};
use super::*;

fn one(ec2: &Ec2, capacity_type: &str) -> String {
    let answer = ec2.create_fleet(&fleet(&["m5.large"], capacity_type, "lowest-price", 1)).unwrap();
    answer.instance_ids().remove(0)
}

fn states(events: &[Ec2Event]) -> Vec<&str> {
    let of = |event: &Ec2Event| match event {
        Ec2Event::InstanceRunning { .. } => Some("running"),
        Ec2Event::InstanceShuttingDown { .. } => Some("shutting-down"),
        Ec2Event::InstanceTerminated { .. } => Some("terminated"),
        _ => None,
    };
    let name = |event| of(event);
    events.iter().filter_map(name).collect()
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn by_id(id: &str) -> Describe {
    Describe { ids: vec![id.to_owned()], ..Describe::default() }
}

#[test]
fn an_instance_starts_stops_and_is_forgotten_after_an_hour() {
    let ec2 = ec2();
    let id = one(&ec2, "on-demand");
    let state = || ec2.describe_instances(&by_id(&id)).map(|(found, _)| found[0].state);
    ec2.advance_to(after(14));
    assert_eq!(state().unwrap(), InstanceState::Pending);
    ec2.advance_to(after(15));
    assert_eq!(state().unwrap(), InstanceState::Running);
    assert_eq!(states(&ec2.drain_events()), ["running"]);
    let request = TerminateInstances { instance_ids: vec![id.clone()], dry_run: false };
    let answer = ec2.terminate_instances(&request).unwrap();
    assert_eq!((answer[0].previous, answer[0].current), (InstanceState::Running, InstanceState::ShuttingDown));
    let again = ec2.terminate_instances(&request).unwrap();
    assert_eq!((again[0].previous, again[0].current), (InstanceState::ShuttingDown, InstanceState::ShuttingDown));
    ec2.advance_to(after(15 + 30));
    assert_eq!(state().unwrap(), InstanceState::Terminated);
    assert_eq!(states(&ec2.drain_events()), ["shutting-down", "terminated"]);
    ec2.advance_to(after(15 + 30 + 3599));
    assert_eq!(state().unwrap(), InstanceState::Terminated);
    ec2.advance_to(after(15 + 30 + 3600));
    assert_eq!(state().unwrap_err().code, "InvalidInstanceID.NotFound");
}

#[test]
fn a_long_step_does_everything_in_order_and_at_its_time() {
    let ec2 = ec2();
    let id = one(&ec2, "spot");
    ec2.advance_to(after(20));
    ec2.interrupt_spot(&id).unwrap();
    ec2.advance_to(after(10_000));
    let events = ec2.drain_events();
    assert_eq!(states(&events), ["running", "shutting-down", "terminated"]);
    let times: Vec<_> = events.iter().filter_map(|event| event.event_bridge()?["time"].as_str()).collect();
    assert_eq!(
        times,
        [
            "2026-01-05T08:00:00Z", // pending
            "2026-01-05T08:00:15Z", // running
            "2026-01-05T08:00:20Z", // the warning
            "2026-01-05T08:02:20Z", // shutting-down
            "2026-01-05T08:02:50Z", // terminated
        ]
    );
    assert!(ec2.instances().is_empty(), "forgotten by now");
}

#[test]
fn an_interruption_looks_like_eventbridges() {
    let ec2 = ec2();
    let id = one(&ec2, "spot");
    let event = ec2.interrupt_spot(&id).unwrap();
    assert_eq!(event["source"], "aws.ec2");
    assert_eq!(event["detail-type"], "EC2 Spot Instance Interruption Warning");
    assert_eq!(event["detail"], json!({ "instance-id": id, "instance-action": "terminate" }));
    assert_eq!(event["resources"][0], format!("arn:aws:ec2:us-east-1:000000000000:instance/{id}"));
    let on_demand = one(&ec2, "on-demand");
    assert_eq!(ec2.interrupt_spot(&on_demand).unwrap_err().code, "IncorrectInstanceState");
    assert_eq!(ec2.interrupt_spot("i-00000000000000abc").unwrap_err().code, "InvalidInstanceID.NotFound");
}

#[test]
fn money_counts_by_the_second_and_at_least_a_minute() {
    let ec2 = ec2();
    let id = one(&ec2, "on-demand");
    assert!((ec2.spent() - 0.096 / 60.0).abs() < 1e-9);
    ec2.advance_to(after(1800));
    assert!((ec2.spent() - 0.048).abs() < 1e-9);
    assert!((ec2.hourly_price() - 0.096).abs() < 1e-9);
    ec2.terminate_instances(&TerminateInstances { instance_ids: vec![id], dry_run: false }).unwrap();
    ec2.advance_to(after(36_000));
    assert!((ec2.spent() - 0.048).abs() < 1e-9, "nothing after the end");
    assert!(ec2.hourly_price().abs() < 1e-9);
}

#[test]
fn describe_filters_by_tag_and_state_and_pages() {
    let ec2 = ec2();
    ec2.create_fleet(&fleet(&["m5.large"], "on-demand", "lowest-price", 7)).unwrap();
    let all = ec2.instances();
    let tagged = ChangeTags {
        resources: vec![all[0].id.clone(), all[1].id.clone()],
        tags: vec![Tag::new("Name", "web-1")],
        dry_run: false,
    };
    ec2.create_tags(&tagged).unwrap();
    ec2.terminate_instances(&TerminateInstances { instance_ids: vec![all[0].id.clone()], dry_run: false }).unwrap();
    let count = |filters: Vec<Filter>| {
        let request = Describe { filters, ..Describe::default() };
        ec2.describe_instances(&request).map(|(found, _)| found.len())
    };
    let alive = || Filter::new("instance-state-name", ["pending", "running"]);
    assert_eq!(count(vec![Filter::new("tag:Name", ["web-*"])]).unwrap(), 2);
    assert_eq!(count(vec![Filter::new("tag:Name", ["web-?"]), alive()]).unwrap(), 1);
    assert_eq!(count(vec![Filter::new("tag-key", ["karpenter.sh/nodepool"]), alive()]).unwrap(), 6);
    assert_eq!(count(vec![Filter::new("colour", ["red"])]).unwrap_err().code, "InvalidParameterValue");
    let mut request = Describe { max_results: Some(5), ..Describe::default() };
    let (first, token) = ec2.describe_instances(&request).unwrap();
    request.next_token = token;
    let (second, end) = ec2.describe_instances(&request).unwrap();
    assert_eq!((first.len(), second.len(), end), (5, 2, None));
    request.ids = vec![all[0].id.clone()];
    assert_eq!(ec2.describe_instances(&request).unwrap_err().code, "InvalidParameterCombination");
}

#[test]
fn tags_of_unknown_resources_change_nothing() {
    let ec2 = ec2();
    let id = one(&ec2, "on-demand");
    let request = ChangeTags {
        resources: vec![id, "i-00000000000000abc".to_owned()],
        tags: vec![Tag::new("Name", "x")],
        dry_run: false,
    };
    assert_eq!(ec2.create_tags(&request).unwrap_err().code, "InvalidInstanceID.NotFound");
    assert!(!ec2.instances()[0].tags.contains_key("Name"));
}

#[test]
fn run_instances_dry_run_succeeds_only_when_the_call_would() {
    let ec2 = ec2();
    let subnet_id = Some(account().subnets[0].id.clone());
    let mut request = RunInstances {
        dry_run: true,
        min_count: Some(1),
        max_count: Some(1),
        instance_type: Some("m5.large".to_owned()),
        subnet_id,
        launch_template: Some(LaunchTemplateSpecification {
            launch_template_name: Some("nodes".to_owned()),
            ..LaunchTemplateSpecification::default()
        }),
        ..RunInstances::default()
    };
    let error = ec2.run_instances(&request).unwrap_err();
    assert_eq!((error.code.as_str(), error.status), ("DryRunOperation", 412));
    request.iam_instance_profile = Some(IamInstanceProfile { name: Some("missing".to_owned()), arn: None });
    let error = ec2.run_instances(&request).unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
    assert!(error.message.contains("iamInstanceProfile.name"), "{error}");
    assert!(ec2.instances().is_empty());
    request.iam_instance_profile = None;
    request.dry_run = false;
    request.client_token = Some("token".to_owned());
    let first = ec2.run_instances(&request).unwrap();
    assert_eq!(ec2.run_instances(&request).unwrap()[0].id, first[0].id);
    assert_eq!(ec2.instances().len(), 1);
}

#[test]
fn a_policy_on_tags_applies_to_dry_runs_too() {
    let ec2 = ec2();
    ec2.change_account(|account| account.require_tags_of("demo"));
    let tagged = |kind: &str, cluster: &str| TagSpecification {
        resource_type: Some(kind.to_owned()),
        tags: [
            ("kubernetes.io/cluster/demo", "owned"),
            ("eks:eks-cluster-name", cluster),
            ("karpenter.sh/nodepool", "a"),
        ]
        .map(|(key, value)| Tag { key: key.to_owned(), value: Some(value.to_owned()) })
        .to_vec(),
    };
    let all = |cluster: &str| ["instance", "volume", "network-interface"].map(|kind| tagged(kind, cluster)).to_vec();
    for dry_run in [true, false] {
        let run = |tag_specifications: Vec<TagSpecification>| {
            let request = RunInstances {
                dry_run,
                min_count: Some(1),
                max_count: Some(1),
                instance_type: Some("m5.large".to_owned()),
                subnet_id: Some(account().subnets[0].id.clone()),
                launch_template: Some(LaunchTemplateSpecification {
                    launch_template_name: Some("nodes".to_owned()),
                    ..LaunchTemplateSpecification::default()
                }),
                tag_specifications,
                ..RunInstances::default()
            };
            ec2.run_instances(&request).map_or_else(|error| error.code, |_| "launched".to_owned())
        };
        for denied in [vec![], vec![tagged("instance", "demo")], all("other")] {
            assert_eq!(run(denied), "UnauthorizedOperation");
        }
        assert_eq!(run(all("demo")), if dry_run { "DryRunOperation" } else { "launched" });
        // RunInstances has few tokens at once.
        ec2.advance_to(after(60));
    }
}

#[test]
fn what_one_call_launched_is_listed_one_after_another_and_its_tags_later_still() {
    let ec2 = ec2();
    ec2.change_account(|account| {
        account.timing.visibility_delay = SignedDuration::from_secs(2);
        account.timing.visibility_spread = SignedDuration::from_secs(3);
        account.timing.tags_delay = SignedDuration::from_secs(1);
    });
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 3);
    request.tag_specifications =
        vec![TagSpecification { resource_type: Some("instance".to_owned()), tags: vec![Tag::new("group", "one")] }];
    ec2.create_fleet(&request).unwrap();
    let by_tag = Describe { filters: vec![Filter::new("tag:group", ["one"])], ..Describe::default() };
    let listed = |request: &Describe| ec2.describe_instances(request).unwrap().0;
    for (seconds, known, tagged) in [(1, 0, 0), (2, 1, 0), (3, 1, 1), (5, 2, 1), (6, 2, 2), (8, 3, 2), (9, 3, 3)] {
        ec2.advance_to(after(seconds));
        assert_eq!((listed(&Describe::default()).len(), listed(&by_tag).len()), (known, tagged), "at {seconds} s");
        let bare = listed(&Describe::default()).iter().filter(|instance| instance.tags.is_empty()).count();
        assert_eq!(bare, known - tagged, "at {seconds} s");
    }
}

#[test]
fn status_checks_and_planned_events_are_found_by_filters_of_their_own() {
    let ec2 = ec2();
    let ids = ec2.create_fleet(&fleet(&["m5.large"], "on-demand", "lowest-price", 4)).unwrap().instance_ids();
    ec2.advance_to(after(15));
    assert!(ec2.impair(&ids[0]) && !ec2.impair(&ids[0]) && ec2.impair_system(&ids[1]));
    assert!(
        ec2.plan_event(&ids[2], "instance-stop", after(3600))
            && !ec2.plan_event("i-unknown", "instance-stop", after(1))
    );
    let found = |name: &str, value: &str| {
        let request = Describe { filters: vec![Filter::new(name, [value])], ..Describe::default() };
        ec2.describe_instance_status(&request).map(|(found, _)| found.into_iter().map(|it| it.id).collect::<Vec<_>>())
    };
    for (name, value, expected) in [
        ("instance-status.status", "impaired", &ids[0..1]),
        ("instance-status.status", "ok", &ids[1..4]),
        ("instance-status.reachability", "failed", &ids[0..1]),
        ("system-status.status", "impaired", &ids[1..2]),
        ("event.code", "instance-stop", &ids[2..3]),
        ("event.code", "system-reboot", &[]),
        ("instance-state-name", "running", &ids[..]),
    ] {
        assert_eq!(found(name, value).unwrap(), expected, "{name} {value}");
    }
    // Filters that DescribeInstances supports and DescribeInstanceStatus does not.
    for (name, value) in [("tag:team", "a"), ("instance-type", "m5.large")] {
        assert_eq!(found(name, value).unwrap_err().code, "InvalidParameterValue", "{name}");
    }
}

#[test]
fn a_reboot_starts_the_kubelet_of_a_running_instance_again() {
    let ec2 = ec2();
    let id = one(&ec2, "on-demand");
    let reboot = || ec2.reboot_instances(&RebootInstances { instance_ids: vec![id.clone()], dry_run: false });
    let rebooted = || {
        let events = ec2.drain_events().into_iter();
        events.filter(|event| matches!(event, Ec2Event::InstanceRebooted { instance } if instance.restarted)).count()
    };
    ec2.advance_to(after(1800));
    reboot().unwrap();
    assert_eq!((ec2.instances()[0].state, rebooted()), (InstanceState::Running, 1));
    ec2.stop_instances(&StopInstances { instance_ids: vec![id.clone()], dry_run: false }).unwrap();
    assert_eq!(reboot().unwrap_err().code, "IncorrectInstanceState");
    ec2.terminate_instances(&TerminateInstances { instance_ids: vec![id.clone()], dry_run: false }).unwrap();
    reboot().unwrap();
    assert_eq!(rebooted(), 0);
}

#[test]
fn a_stopped_instance_costs_nothing_holds_no_capacity_and_keeps_its_address() {
    let ec2 = ec2();
    let id = one(&ec2, "on-demand");
    ec2.advance_to(after(1800));
    ec2.drain_events();
    let ids = || vec![id.clone()];
    let stop = || ec2.stop_instances(&StopInstances { instance_ids: ids(), dry_run: false });
    let started = || ec2.start_instances(&StartInstances { instance_ids: ids(), dry_run: false });
    let instance = || ec2.instances().remove(0);
    let address = instance().private_ip;
    let changed = stop().unwrap();
    assert_eq!((changed[0].previous, changed[0].current), (InstanceState::Running, InstanceState::Stopping));
    assert_eq!(started().unwrap_err().code, "IncorrectInstanceState");
    ec2.advance_to(after(1830));
    assert_eq!((instance().state, stop().unwrap()[0].current), (InstanceState::Stopped, InstanceState::Stopped));
    ec2.advance_to(after(36_000));
    assert!((ec2.spent() - 0.048).abs() < 1e-9 && ec2.hourly_price().abs() < 1e-9);

    ec2.run_short(OfferingPattern::default(), 0);
    assert_eq!(started().unwrap_err().code, "InsufficientInstanceCapacity");
    assert_eq!(instance().state, InstanceState::Stopped);
    ec2.restore(OfferingPattern::default());
    assert_eq!(started().unwrap()[0].current, InstanceState::Pending);
    assert_eq!(started().unwrap()[0].previous, InstanceState::Pending, "starting twice succeeds");
    ec2.advance_to(after(36_015));
    assert!(instance().state == InstanceState::Running && instance().private_ip == address && instance().restarted);
    let of_state: Vec<_> = ec2.drain_events().iter().filter_map(|it| it.event_bridge().cloned()).collect();
    let names: Vec<_> = of_state.iter().filter_map(|event| event["detail"]["state"].as_str()).collect();
    assert_eq!(names, ["stopping", "stopped", "pending", "running"]);

    // Several are started together, or none.
    let two = [ids(), vec![one(&ec2, "on-demand")]].concat();
    let stop_two = || ec2.stop_instances(&StopInstances { instance_ids: two.clone(), dry_run: false });
    let start_two = || ec2.start_instances(&StartInstances { instance_ids: two.clone(), dry_run: false });
    stop_two().unwrap();
    ec2.advance_to(after(36_060));
    ec2.run_short(OfferingPattern::default(), 1);
    assert_eq!(start_two().unwrap_err().code, "InsufficientInstanceCapacity");
    assert!(ec2.instances().iter().all(|instance| instance.state == InstanceState::Stopped));
    assert_eq!(started().unwrap()[0].current, InstanceState::Pending, "its capacity is left");
    ec2.restore(OfferingPattern::default());
    assert_eq!(start_two().unwrap().len(), 2);

    let spot = one(&ec2, "spot");
    let refused = ec2.stop_instances(&StopInstances { instance_ids: vec![spot], dry_run: false });
    assert_eq!(refused.unwrap_err().code, "UnsupportedOperation");
    stop().unwrap();
    ec2.advance_to(after(36_100));
    let changed = ec2.terminate_instances(&TerminateInstances { instance_ids: ids(), dry_run: false }).unwrap();
    assert_eq!((changed[0].previous, changed[0].current), (InstanceState::Stopped, InstanceState::ShuttingDown));
    assert_eq!(started().unwrap_err().code, "IncorrectInstanceState");
}
