use super::super::FleetError;
use super::super::requests::TerminateInstances;
use super::super::requests::{FleetLaunchTemplateConfig, ReservedCapacityOptions, Tag, TagSpecification};
use super::super::{CapacityReservation, CapacityType, Offering, OfferingPattern, PlacementGroup, Subnet};
use super::*;

const BOTH: [&str; 2] = ["m5.large", "m6i.large"];

#[test]
fn lowest_price_takes_the_cheapest_offering_for_the_whole_target() {
    let ec2 = ec2();
    let (offerings, errors) = bought(&ec2, &fleet(&["m6i.large", "m5.large"], "on-demand", "lowest-price", 3));
    assert_eq!(offerings, ["m5.large us-east-1a"; 3]);
    assert!(errors.is_empty());
    let price: f64 = ec2.instances().iter().map(|instance| instance.price).sum();
    assert!((price - 3.0 * 0.096).abs() < 1e-9);
}

#[test]
fn prioritized_takes_the_lowest_number_and_not_the_price() {
    let ec2 = ec2();
    let (offerings, _) = bought(&ec2, &fleet(&BOTH, "on-demand", "prioritized", 1));
    assert_eq!(offerings, ["m6i.large us-east-1a"]);
}

#[test]
fn price_capacity_optimized_avoids_pools_too_shallow_for_the_target() {
    let ec2 = ec2();
    let cheapest = Offering::new("m6i.large", "us-east-1a", CapacityType::Spot);
    ec2.set_capacity(cheapest, Some(2));
    let (offerings, _) = bought(&ec2, &fleet(&BOTH, "spot", "price-capacity-optimized", 2));
    assert_eq!(offerings, ["m6i.large us-east-1a"; 2], "deep enough, so the cheapest");
    let (offerings, errors) = bought(&ec2, &fleet(&BOTH, "spot", "price-capacity-optimized", 1));
    assert_eq!(offerings, ["m5.large us-east-1b"], "now empty, so the next in price");
    assert!(errors.is_empty(), "a pool that was not tried gives no error: {errors:?}");
}

#[test]
fn spot_lowest_price_spreads_over_the_asked_number_of_pools() {
    let ec2 = ec2();
    let mut request = fleet(&BOTH, "spot", "lowest-price", 4);
    request.spot_options.as_mut().unwrap().instance_pools_to_use_count = Some(2);
    let (mut offerings, _) = bought(&ec2, &request);
    offerings.sort();
    assert_eq!(
        offerings,
        ["m5.large us-east-1b", "m5.large us-east-1b", "m6i.large us-east-1a", "m6i.large us-east-1a"]
    );
}

#[test]
fn partial_fulfilment_gives_instances_and_one_error_an_override() {
    let ec2 = ec2();
    ec2.exhaust(OfferingPattern { instance_type: Some("m6i.large".to_owned()), ..OfferingPattern::default() });
    ec2.set_capacity(Offering::new("m5.large", "us-east-1a", CapacityType::OnDemand), Some(1));
    ec2.set_capacity(Offering::new("m5.large", "us-east-1b", CapacityType::OnDemand), Some(1));
    let answer = ec2.create_fleet(&fleet(&BOTH, "on-demand", "lowest-price", 3)).unwrap();
    assert_eq!(answer.instance_ids().len(), 2);
    assert_eq!(answer.errors.len(), 4);
    for error in &answer.errors {
        assert_eq!(error.error_code, "InsufficientInstanceCapacity");
        assert_eq!(error.lifecycle, "on-demand");
        let overridden = &error.launch_template_and_overrides.overrides;
        let zone = overridden.availability_zone.as_deref().unwrap();
        assert!(error.error_message.contains(zone), "{}", error.error_message);
    }
}

#[test]
fn below_the_minimum_nothing_is_launched_and_nothing_is_used_up() {
    let ec2 = ec2();
    let offering = Offering::new("m5.large", "us-east-1a", CapacityType::OnDemand);
    ec2.set_capacity(offering, Some(2));
    let of = |target: u32| {
        let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", target);
        request.launch_template_configs[0].overrides.truncate(1);
        let options = request.on_demand_options.as_mut().unwrap();
        (options.min_target_capacity, options.single_availability_zone) = (Some(target), true);
        request
    };
    let short = ec2.create_fleet(&of(3)).unwrap();
    assert!(short.instances.is_empty() && short.errors.len() == 1 && ec2.instances().is_empty(), "{short:?}");
    assert_eq!(ec2.create_fleet(&of(2)).unwrap().instance_ids().len(), 2);
    // <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_OnDemandOptionsRequest.html>
    let without_zone =
        |request: &mut CreateFleet| request.on_demand_options.as_mut().unwrap().single_availability_zone = false;
    let mut request = of(1);
    without_zone(&mut request);
    assert_eq!(ec2.create_fleet(&request).unwrap_err().code, "InvalidParameterCombination");
    assert_eq!(ec2.create_fleet(&of(1001)).unwrap_err().code, "InvalidParameterValue");
}

#[test]
fn capacity_returns_when_instances_are_gone() {
    let ec2 = ec2();
    let only = Offering::new("m5.large", "us-east-1a", CapacityType::OnDemand);
    ec2.set_capacity(only, Some(1));
    ec2.set_capacity(Offering::new("m5.large", "us-east-1b", CapacityType::OnDemand), Some(0));
    let request = fleet(&["m5.large"], "on-demand", "lowest-price", 1);
    let first = ec2.create_fleet(&request).unwrap();
    assert!(ec2.create_fleet(&request).unwrap().instances.is_empty());
    let instance_ids = first.instance_ids();
    ec2.terminate_instances(&TerminateInstances { instance_ids, dry_run: false }).unwrap();
    assert!(ec2.create_fleet(&request).unwrap().instances.is_empty(), "shutting-down still holds it");
    ec2.advance_to(start() + jiff::SignedDuration::from_mins(2));
    assert_eq!(ec2.create_fleet(&request).unwrap().instance_ids().len(), 1);
}

#[test]
fn a_client_token_makes_the_call_idempotent() {
    let ec2 = ec2();
    let mut request = fleet(&BOTH, "on-demand", "lowest-price", 2);
    request.client_token = Some("token".to_owned());
    let first = ec2.create_fleet(&request).unwrap();
    ec2.exhaust(OfferingPattern::default());
    assert_eq!(ec2.create_fleet(&request).unwrap(), first, "the same answer, regardless of capacity now");
    assert_eq!(ec2.instances().len(), 2);
    request.target_capacity_specification.as_mut().unwrap().total_target_capacity = Some(3);
    let error = ec2.create_fleet(&request).unwrap_err();
    assert_eq!(error.code, "IdempotentParameterMismatch");
    assert_eq!(ec2.instances().len(), 2);
}

#[test]
fn a_token_remembers_an_answer_without_instances_too() {
    let ec2 = ec2();
    ec2.exhaust(OfferingPattern::default());
    let mut request = fleet(&["m5.large"], "spot", "lowest-price", 1);
    request.client_token = Some("token".to_owned());
    let first = ec2.create_fleet(&request).unwrap();
    ec2.restore(OfferingPattern::default());
    assert_eq!(ec2.create_fleet(&request).unwrap(), first);
    request.client_token = Some("another".to_owned());
    assert_eq!(ec2.create_fleet(&request).unwrap().instance_ids().len(), 1);
}

#[test]
fn a_full_subnet_is_an_error_of_its_overrides_only() {
    let ec2 = ec2();
    ec2.change_account(|account| account.subnets[0].free_addresses = 1);
    let answer = ec2.create_fleet(&fleet(&["m5.large"], "on-demand", "lowest-price", 3)).unwrap();
    assert_eq!(answer.instance_ids().len(), 3);
    assert_eq!(answer.errors[0].error_code, "InsufficientFreeAddressesInSubnet");
    assert_eq!(ec2.account().subnets[0].free_addresses, 0);
    assert_eq!(ec2.account().subnets[1].free_addresses, 4089);
}

#[test]
fn overrides_that_cannot_work_report_why_when_nothing_else_suffices() {
    let ec2 = ec2();
    let mut request = fleet(&["m6g.large", "x9.large"], "on-demand", "lowest-price", 1);
    let (_, errors) = bought(&ec2, &request);
    assert_eq!(errors, ["InvalidParameterValue"; 4], "arm64 on an x86-64 image, and a type that is not");
    request.launch_template_configs[0].overrides[0].image_id = Some("ami-00000000000000000".to_owned());
    request.launch_template_configs[0].overrides.truncate(1);
    assert_eq!(bought(&ec2, &request).1, ["InvalidAMIID.NotFound"]);
    let overridden = &mut request.launch_template_configs[0].overrides[0];
    overridden.subnet_id = Some("subnet-00000000000000000".to_owned());
    assert_eq!(bought(&ec2, &request).1, ["InvalidSubnetID.NotFound"]);
}

#[test]
fn one_missing_template_is_an_error_line_and_all_missing_fail_the_call() {
    let ec2 = ec2();
    ec2.exhaust(OfferingPattern::default());
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 1);
    let mut missing: FleetLaunchTemplateConfig = request.launch_template_configs[0].clone();
    missing.launch_template_specification.launch_template_name = Some("gone".to_owned());
    request.launch_template_configs.push(missing.clone());
    let (_, errors) = bought(&ec2, &request);
    assert!(errors.contains(&"InvalidLaunchTemplateName.NotFoundException".to_owned()), "{errors:?}");
    request.launch_template_configs = vec![missing];
    let error = ec2.create_fleet(&request).unwrap_err();
    assert_eq!(error.code, "InvalidLaunchTemplateName.NotFoundException");
}

#[test]
fn a_spot_price_limit_below_the_price_is_refused() {
    let ec2 = ec2();
    let mut request = fleet(&["m5.large"], "spot", "lowest-price", 1);
    for overridden in &mut request.launch_template_configs[0].overrides {
        overridden.max_price = Some("0.045".to_owned());
    }
    assert_eq!(bought(&ec2, &request).0, ["m5.large us-east-1b"]);
    for overridden in &mut request.launch_template_configs[0].overrides {
        overridden.max_price = Some("0.01".to_owned());
    }
    assert_eq!(bought(&ec2, &request).1, ["SpotMaxPriceTooLow"; 2]);
}

#[test]
fn instances_carry_the_tags_of_call_template_and_ec2() {
    let ec2 = ec2();
    let mut with_tags = template("tagged");
    let specification =
        |resource: &str, tags: Vec<Tag>| TagSpecification { resource_type: Some(resource.to_owned()), tags };
    let data = with_tags.launch_template_data.as_mut().unwrap();
    data.tag_specifications = vec![
        specification("instance", vec![Tag::new("a", "template"), Tag::new("b", "template")]),
        specification("network-interface", vec![Tag::new("c", "d")]),
    ];
    let made = ec2.create_launch_template(&with_tags).unwrap();
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 1);
    request.launch_template_configs[0].launch_template_specification.launch_template_name = Some("tagged".to_owned());
    request.tag_specifications =
        vec![specification("instance", vec![Tag::new("a", "call")]), specification("fleet", vec![Tag::new("e", "f")])];
    let answer = ec2.create_fleet(&request).unwrap();
    let instance = ec2.instances().remove(0);
    let tags: Vec<_> = instance.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        tags,
        [
            ("a", "call"),
            ("aws:ec2:fleet-id", answer.fleet_id.as_str()),
            ("aws:ec2launchtemplate:id", made.id.as_str()),
            ("aws:ec2launchtemplate:version", "1"),
            ("b", "template"),
        ]
    );
    assert_eq!(ec2.account().tags[&instance.network_interface_id]["c"], "d");
    assert_eq!(ec2.account().tags[&answer.fleet_id]["e"], "f");
}

#[test]
fn weights_count_towards_the_target() {
    let ec2 = ec2();
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 5);
    for overridden in &mut request.launch_template_configs[0].overrides {
        overridden.weighted_capacity = Some(2.0);
    }
    assert_eq!(bought(&ec2, &request).0.len(), 3);
}

#[test]
fn bad_requests_get_ec2s_errors_and_launch_nothing() {
    let ec2 = ec2();
    let good = || fleet(&["m5.large"], "on-demand", "lowest-price", 1);
    let code = |request: &CreateFleet| ec2.create_fleet(request).unwrap_err().code;
    assert_eq!(code(&CreateFleet { fleet_type: Some("maintain".to_owned()), ..good() }), "UnsupportedOperation");
    assert_eq!(code(&CreateFleet { fleet_type: Some("once".to_owned()), ..good() }), "InvalidParameterValue");
    assert_eq!(code(&CreateFleet { launch_template_configs: Vec::new(), ..good() }), "MissingParameter");
    assert_eq!(code(&CreateFleet { target_capacity_specification: None, ..good() }), "MissingParameter");
    assert_eq!(code(&fleet(&["m5.large"], "on-demand", "cheapest", 1)), "InvalidParameterValue");
    assert_eq!(code(&fleet(&["m5.large"], "reserved", "lowest-price", 1)), "InvalidParameterValue");
    let mut reserved_tag = good();
    reserved_tag.tag_specifications[0].tags[0].key = "aws:mine".to_owned();
    assert_eq!(code(&reserved_tag), "InvalidParameterValue");
    assert_eq!(code(&CreateFleet { dry_run: true, ..good() }), "DryRunOperation");
    assert!(ec2.instances().is_empty());
}

#[test]
fn a_targeted_reservation_is_used_and_then_exceeded() {
    let ec2 = ec2();
    ec2.change_account(|account| {
        account.capacity_reservations.push(CapacityReservation {
            id: "cr-0a000000000000001".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            total: 1,
            available: 1,
            open: false,
            start: start(),
            end: None,
            interruptible: false,
        });
    });
    ec2.exhaust(OfferingPattern::default());
    let mut targeted = template("reserved");
    targeted.launch_template_data.as_mut().unwrap().other.insert(
        "CapacityReservationSpecification".to_owned(),
        json!({ "CapacityReservationTarget": { "CapacityReservationId": "cr-0a000000000000001" } }),
    );
    ec2.create_launch_template(&targeted).unwrap();
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 2);
    request.launch_template_configs[0].overrides.truncate(1);
    request.launch_template_configs[0].launch_template_specification.launch_template_name = Some("reserved".to_owned());
    let (offerings, errors) = bought(&ec2, &request);
    assert_eq!(offerings, ["m5.large us-east-1a"], "reserved capacity is there although the pool is exhausted");
    assert_eq!(errors, ["ReservationCapacityExceeded"]);
    assert_eq!(ec2.account().capacity_reservations[0].available, 0);
}

#[test]
fn an_interruptible_reservation_needs_its_market_type_and_is_terminated_when_reclaimed() {
    let ec2 = ec2();
    ec2.change_account(|account| {
        account.capacity_reservations.push(CapacityReservation {
            id: "cr-0a000000000000001".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            total: 1,
            available: 1,
            open: false,
            start: start(),
            end: None,
            interruptible: true,
        });
    });
    let mut plain = template("plain");
    let data = &mut plain.launch_template_data.as_mut().unwrap().other;
    let target = json!({ "CapacityReservationTarget": { "CapacityReservationId": "cr-0a000000000000001" } });
    data.insert("CapacityReservationSpecification".to_owned(), target);
    ec2.create_launch_template(&plain).unwrap();
    let mut lent = plain.clone();
    lent.launch_template_name = Some("lent".to_owned());
    let data = &mut lent.launch_template_data.as_mut().unwrap().other;
    let market = json!({ "MarketType": "interruptible-capacity-reservation" });
    data.insert("InstanceMarketOptions".to_owned(), market);
    ec2.create_launch_template(&lent).unwrap();
    let request = |template: &str, target: &str| {
        let mut request = fleet(&["m5.large"], target, "lowest-price", 1);
        request.launch_template_configs[0].overrides.truncate(1);
        let name = Some(template.to_owned());
        request.launch_template_configs[0].launch_template_specification.launch_template_name = name;
        let types = vec!["interruptible-capacity-reservation".to_owned()];
        request.reserved_capacity_options =
            (target == "reserved-capacity").then_some(ReservedCapacityOptions { reservation_types: types });
        request
    };
    assert_eq!(bought(&ec2, &request("plain", "on-demand")).1, ["InvalidParameterCombination"]);
    let mut without = request("lent", "reserved-capacity");
    without.reserved_capacity_options = None;
    assert_eq!(ec2.create_fleet(&without).unwrap_err().code, "InvalidFleetConfig");
    assert_eq!(bought(&ec2, &request("lent", "reserved-capacity")).0, ["m5.large us-east-1a"]);

    let id = ec2.instances()[0].id.clone();
    let event = ec2.reclaim_capacity(&id).unwrap();
    assert_eq!(event["detail-type"], "EC2 Capacity Reservation Instance Interruption Warning");
    assert!(ec2.reclaim_capacity("i-0a000000000000009").is_err());
}

/// A fleet of one type whose template is in a placement group.
fn fleet_in(ec2: &Ec2, group: &str, target: u32) -> CreateFleet {
    let mut placed = template(group);
    let placement = json!({ "GroupName": group });
    placed.launch_template_data.as_mut().unwrap().other.insert("Placement".to_owned(), placement);
    ec2.create_launch_template(&placed).unwrap();
    let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", target);
    request.launch_template_configs[0].launch_template_specification.launch_template_name = Some(group.to_owned());
    request
}

#[test]
fn machines_are_distributed_over_partitions_unless_one_is_requested() {
    let ec2 = ec2();
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        name: "parts".to_owned(),
        strategy: "partition".to_owned(),
        partitions: 3,
        capacity: Some(2),
    };
    ec2.change_account(|account| account.placement_groups = vec![group]);
    let partitions = |ec2: &Ec2| {
        let mut found: Vec<u32> = ec2.instances().iter().filter_map(|instance| instance.partition).collect();
        found.sort_unstable();
        found
    };
    ec2.create_fleet(&fleet_in(&ec2, "parts", 4)).unwrap();
    assert_eq!(partitions(&ec2), [1, 1, 2, 3]);
    let in_partition = |name: &str, number: u32, target: u32| {
        let mut placed = template(name);
        let placement = json!({ "GroupName": "parts", "PartitionNumber": number });
        placed.launch_template_data.as_mut().unwrap().other.insert("Placement".to_owned(), placement);
        ec2.create_launch_template(&placed).unwrap();
        let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", target);
        request.launch_template_configs[0].launch_template_specification.launch_template_name = Some(name.to_owned());
        ec2.create_fleet(&request).unwrap()
    };
    let third = in_partition("third", 3, 2);
    assert_eq!(partitions(&ec2), [1, 1, 2, 3, 3]);
    assert!(third.errors.iter().all(|error| error.error_code == "InsufficientInstanceCapacity"), "{:?}", third.errors);
    let fourth = in_partition("fourth", 4, 1);
    assert!(fourth.instance_ids().is_empty() && !fourth.errors.is_empty());
    assert!(fourth.errors.iter().all(|error| error.error_code == "InvalidParameterValue"), "{:?}", fourth.errors);
}

#[test]
fn a_placement_group_limits_only_its_own_machines() {
    let ec2 = ec2();
    let group = |id: &str, strategy: &str, capacity| {
        let name = strategy.to_owned();
        PlacementGroup { id: id.to_owned(), strategy: name.clone(), name, partitions: 0, capacity }
    };
    ec2.change_account(|account| {
        account.placement_groups = vec![group("pg-1", "spread", None), group("pg-2", "cluster", Some(2))];
    });
    let spread = ec2.create_fleet(&fleet_in(&ec2, "spread", 15)).unwrap();
    assert_eq!(spread.instance_ids().len(), 14, "seven in each of two zones");
    let limit = |error: &FleetError| {
        error.error_code == "InsufficientInstanceCapacity" && error.error_message.contains("up to seven instances")
    };
    assert!(spread.errors.len() == 2 && spread.errors.iter().all(limit), "{:?}", spread.errors);
    let cluster = ec2.create_fleet(&fleet_in(&ec2, "cluster", 3)).unwrap();
    assert_eq!((cluster.instance_ids().len(), cluster.errors.len()), (2, 2));
    assert!(cluster.errors.iter().all(|error| error.error_message.contains("do not have sufficient")));
    assert!(bought(&ec2, &fleet(&["m5.large"], "on-demand", "lowest-price", 20)).1.is_empty(), "outside of both");
    let unknown = ec2.create_fleet(&fleet_in(&ec2, "other", 1)).unwrap();
    assert!(unknown.errors.iter().all(|error| error.error_code == "InvalidPlacementGroup.Unknown"));
    assert!(unknown.instance_ids().is_empty());
}

#[test]
fn a_fleet_names_each_instance_type_once_in_a_zone() {
    let ec2 = ec2();
    let request = fleet(&["m5.large"], "on-demand", "lowest-price", 1);
    let mut twice = request.clone();
    twice.launch_template_configs.push(request.launch_template_configs[0].clone());
    assert_eq!(ec2.create_fleet(&twice).unwrap_err().code, "InvalidFleetConfig", "from two templates");
    let second = Subnet { id: "subnet-0c00000000000001".to_owned(), ..account().subnets[0].clone() };
    ec2.change_account(|account| account.subnets.push(second.clone()));
    let mut subnets = request.clone();
    let overrides = &mut subnets.launch_template_configs[0].overrides;
    overrides.push(FleetOverride { subnet_id: Some(second.id), ..overrides[0].clone() });
    assert_eq!(ec2.create_fleet(&subnets).unwrap_err().code, "InvalidFleetConfig", "in two subnets");
    assert!(ec2.instances().is_empty());
    ec2.create_fleet(&request).unwrap();
}

#[test]
fn only_a_single_interface_gets_a_public_address() {
    let ec2 = ec2();
    let launched = |name: &str, interfaces: serde_json::Value| {
        let mut create = template(name);
        let data = create.launch_template_data.as_mut().unwrap();
        data.security_group_ids.clear();
        data.other.insert("NetworkInterfaces".to_owned(), interfaces);
        ec2.create_launch_template(&create).unwrap();
        let mut request = fleet(&["m5.large"], "on-demand", "lowest-price", 1);
        request.launch_template_configs[0].launch_template_specification.launch_template_name = Some(name.to_owned());
        bought(&ec2, &request)
    };
    let interface = |card: u32, public: bool| json!({ "NetworkCardIndex": card, "AssociatePublicIpAddress": public });
    assert_eq!(launched("one", json!([interface(0, true)])).0.len(), 1);
    assert_eq!(launched("none-public", json!([interface(0, false), interface(1, false)])).0.len(), 1);
    let refused = launched("several", json!([interface(0, true), interface(1, false)]));
    assert_eq!(refused, (vec![], vec!["InvalidParameterCombination".to_owned(); 2]));
}
