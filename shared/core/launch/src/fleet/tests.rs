use super::*;
use nodeless_api::test_support::ec2_node_class_manifest;
use nodeless_model::{ResourceList, StringMap};
use serde_json::json;

fn class(amis: &serde_json::Value) -> EC2NodeClass {
    let mut class = ec2_node_class_manifest("default", "example", &json!({}));
    class["status"] = json!({
        "subnets": [{"id": "subnet-a2", "zone": "a"}, {"id": "subnet-a1", "zone": "a"}, {"id": "subnet-b", "zone": "b"}],
        "amis": amis,
    });
    serde_json::from_value(class).unwrap()
}

fn images() -> serde_json::Value {
    let of = |id: &str, arch: &str| {
        json!({"id": id, "requirements": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
        ]})
    };
    json!([of("ami-x86", "amd64"), of("ami-arm", "arm64")])
}

fn candidate(instance_type: &str, zone: &str, capacity_type: CapacityType, price: f64) -> LaunchCandidate {
    let family = instance_type.split('.').next().unwrap();
    LaunchCandidate {
        instance_type: instance_type.into(),
        architecture: if family.contains('g') { "arm64".into() } else { "amd64".into() },
        labels: StringMap::new(),
        max_pods: 29,
        kube_reserved: ResourceList::new(),
        system_reserved: ResourceList::new(),
        zone: zone.into(),
        capacity_type,
        price,
        reservation_id: None,
        partition: None,
        efa_interfaces: 0,
        root_volume_gib: None,
    }
}

fn claim(requests: &[&str]) -> NodeClaim {
    let requests: serde_json::Map<String, serde_json::Value> =
        requests.iter().map(|name| ((*name).to_owned(), json!("1"))).collect();
    NodeClaim {
        name: "default-abcde".into(),
        uid: "uid".into(),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        version: 1,
        spec: nodeless_model::claim::NodeClaimSpec {
            requests: serde_json::from_value(serde_json::Value::Object(requests)).unwrap(),
            ..Default::default()
        },
        phase: nodeless_model::claim::Phase::Reserved,
        status: nodeless_model::claim::NodeClaimStatus::default(),
    }
}

fn names(plan: &FleetPlan) -> Vec<String> {
    plan.groups.values().flatten().map(|o| format!("{}/{}/{}", o.instance_type, o.zone, o.subnet_id)).collect()
}

#[test]
fn spot_comes_before_on_demand_unless_it_costs_more() {
    let candidates = [
        candidate("m5.large", "a", CapacityType::OnDemand, 0.10),
        candidate("m5.large", "a", CapacityType::Spot, 0.04),
        candidate("m5.large", "b", CapacityType::Spot, 0.20),
    ];
    let plan = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    assert_eq!(plan.capacity_type, CapacityType::Spot);
    assert_eq!(names(&plan), ["m5.large/a/subnet-a2"]);
}

#[test]
fn each_image_has_its_own_template() {
    let candidates = [
        candidate("m5.large", "a", CapacityType::OnDemand, 0.10),
        candidate("m6g.large", "b", CapacityType::OnDemand, 0.08),
        candidate("m6g.large", "us-east-1z", CapacityType::OnDemand, 0.07),
    ];
    let plan = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    let images: Vec<&str> = plan.groups.keys().map(|variant| variant.image_id.as_str()).collect();
    assert_eq!(images, ["ami-arm", "ami-x86"]);
    assert_eq!(names(&plan), ["m6g.large/b/subnet-b", "m5.large/a/subnet-a2"]);
}

#[test]
fn a_fleet_has_no_more_launch_templates_than_ec2_accepts() {
    // Each type has another number of pods, and therefore another template. In the order of templates, more expensive types come
    // first.
    let candidates: Vec<LaunchCandidate> = (1..=52_u32)
        .map(|index| LaunchCandidate {
            max_pods: 100 - index,
            ..candidate(&format!("m5.{index:02}xlarge"), "a", CapacityType::OnDemand, f64::from(index))
        })
        .collect();
    let all = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    assert_eq!(all.groups.len(), 50);
    assert_eq!(all.left_out.iter().map(String::as_str).collect::<Vec<_>>(), ["m5.51xlarge", "m5.52xlarge"]);
    assert!(all.used("m5.51xlarge", "a").is_none() && all.used("m5.01xlarge", "a").is_some());
    let fewer = plan(&class(&images()), &claim(&[]), &candidates[..50]).unwrap();
    assert_eq!((fewer.groups.len(), fewer.left_out.len()), (50, 0));
}

#[test]
fn metal_is_launched_only_if_no_other_type_matches() {
    let metal = candidate("m5.metal", "a", CapacityType::OnDemand, 4.0);
    let both = [metal.clone(), candidate("m5.24xlarge", "a", CapacityType::OnDemand, 4.6)];
    assert_eq!(names(&plan(&class(&images()), &claim(&[]), &both).unwrap()), ["m5.24xlarge/a/subnet-a2"]);
    assert_eq!(names(&plan(&class(&images()), &claim(&[]), &[metal]).unwrap()), ["m5.metal/a/subnet-a2"]);
}

#[test]
fn a_partition_is_requested_and_named_in_the_failures_of_its_launch() {
    let of = |partition| LaunchCandidate {
        labels: StringMap::from([(labels::PLACEMENT_GROUP_ID.to_owned(), "pg-1".to_owned())]),
        partition,
        ..candidate("m5.large", "a", CapacityType::OnDemand, 0.1)
    };
    for partition in [None, Some(2)] {
        let plan = plan(&class(&images()), &claim(&[]), &[of(partition)]).unwrap();
        assert_eq!(plan.groups.keys().map(|variant| variant.partition).collect::<Vec<_>>(), [partition]);
        let failure = plan.failure("m5.large", "a", "InsufficientInstanceCapacity", "none");
        assert_eq!((failure.placement_group.as_deref(), failure.partition), (Some("pg-1"), partition));
    }
}

#[test]
fn a_launch_uses_one_reservation() {
    let reserved = |id: &str, price| LaunchCandidate {
        reservation_id: Some(id.into()),
        ..candidate("m5.large", "a", CapacityType::Reserved, price)
    };
    let plan = plan(&class(&images()), &claim(&[]), &[reserved("cr-2", 0.0), reserved("cr-1", 0.0)]).unwrap();
    assert_eq!(plan.capacity_type, CapacityType::Reserved);
    assert_eq!(plan.groups.len(), 1);
}

#[test]
fn the_list_is_truncated_to_the_cheapest_types() {
    let many: Vec<LaunchCandidate> = (0..80)
        .map(|index| candidate(&format!("m{index}.large"), "a", CapacityType::OnDemand, f64::from(100 - index)))
        .collect();
    let plan = plan(&class(&images()), &claim(&[]), &many).unwrap();
    let kept = names(&plan);
    assert_eq!(kept.len(), MAXIMUM_TYPES);
    assert_eq!(kept[0], "m79.large/a/subnet-a2");
}

/// A claim with `minValues` for a label.
fn choosy(key: &str, least: u32) -> NodeClaim {
    let mut claim = claim(&[]);
    claim.spec.requirements.add(key, nodeless_model::Requirement::exists().with_min_values(Some(least)));
    claim
}

#[test]
fn min_values_keep_special_and_expensive_types() {
    let candidates = [
        candidate("m5.large", "a", CapacityType::Spot, 0.05),
        candidate("m5.metal", "a", CapacityType::Spot, 4.0),
        candidate("c5.large", "a", CapacityType::OnDemand, 0.1),
    ];
    let all = plan(&class(&images()), &choosy(labels::INSTANCE_TYPE, 2), &candidates).unwrap();
    assert_eq!(all.capacity_type, CapacityType::Spot);
    assert_eq!(names(&all), ["m5.large/a/subnet-a2", "m5.metal/a/subnet-a2"]);
    let cheap = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    assert_eq!(names(&cheap), ["m5.large/a/subnet-a2"]);
}

#[test]
fn the_list_is_as_long_as_min_values_require() {
    let candidates: Vec<LaunchCandidate> = (0..80)
        .map(|number| candidate(&format!("m5.{number}xlarge"), "a", CapacityType::OnDemand, f64::from(number + 1)))
        .collect();
    for (least, kept) in [(2, 60), (70, 70), (80, 80)] {
        let plan = plan(&class(&images()), &choosy(labels::INSTANCE_TYPE, least), &candidates).unwrap();
        assert_eq!(plan.groups.values().map(Vec::len).sum::<usize>(), kept, "{least}");
    }
}

#[test]
fn reports_when_available_types_do_not_satisfy_min_values() {
    let candidates =
        [candidate("m5.large", "a", CapacityType::Spot, 0.05), candidate("m5.large", "b", CapacityType::OnDemand, 0.1)];
    for (key, least, missed) in [
        (labels::INSTANCE_TYPE, 1, false),
        (labels::INSTANCE_TYPE, 2, true),
        (labels::ZONE, 2, false),
        (labels::ZONE, 3, true),
        (labels::CAPACITY_TYPE, 2, false),
        (labels::INSTANCE_FAMILY, 1, true),
    ] {
        assert_eq!(min_values_missed(&choosy(key, least), &candidates).is_some(), missed, "{key} {least}");
    }
    assert_eq!(min_values_missed(&claim(&[]), &[]), None);
    let mut relaxed = choosy(labels::INSTANCE_TYPE, 2);
    let reported = min_values_missed(&relaxed, &candidates).unwrap();
    assert!(
        reported.contains("requires 2 values of node.kubernetes.io/instance-type") && reported.contains("have 1"),
        "{reported}"
    );
    relaxed.spec.annotations.insert(labels::MIN_VALUES_RELAXED.into(), "true".into());
    assert_eq!(min_values_missed(&relaxed, &candidates), None);
}

#[test]
fn a_missing_subnet_or_image_of_the_class_is_reported() {
    let only = [candidate("m5.large", "c", CapacityType::OnDemand, 0.1)];
    let error = plan(&class(&images()), &claim(&[]), &only).unwrap_err().to_string();
    assert!(error.contains("no subnet in any of the zones c"), "{error}");
    let gpu = LaunchCandidate {
        labels: StringMap::from([(labels::INSTANCE_GPU_COUNT.to_owned(), "1".to_owned())]),
        ..candidate("p3.large", "a", CapacityType::OnDemand, 3.0)
    };
    let error = plan(&class(&images()), &claim(&[]), &[gpu]).unwrap_err().to_string();
    assert!(error.contains("none of its 2 AMIs fits p3.large"), "{error}");
    assert_eq!(plan(&class(&images()), &claim(&[]), &[]).unwrap_err(), FleetError::NoCandidates);
}

#[test]
fn types_with_other_root_volumes_get_templates_of_their_own() {
    let sized =
        |name, gib| LaunchCandidate { root_volume_gib: gib, ..candidate(name, "a", CapacityType::OnDemand, 0.1) };
    let candidates = [sized("m5.large", Some(28)), sized("m5.xlarge", Some(36)), sized("m6a.xlarge", Some(36))];
    let asked = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    let groups: Vec<_> = asked.groups.iter().map(|(variant, all)| (variant.root_volume_gib, all.len())).collect();
    assert_eq!(groups, [(Some(28), 1), (Some(36), 2)]);
    let asked = plan(&class(&images()), &claim(&[]), &[sized("m5d.large", None)]).unwrap();
    assert_eq!(asked.groups.keys().next().unwrap().root_volume_gib, None);
}

#[test]
fn a_request_for_efa_selects_types_with_efa() {
    let efa = LaunchCandidate { efa_interfaces: 2, ..candidate("c5n.18xlarge", "a", CapacityType::OnDemand, 4.0) };
    let candidates = [candidate("m5.large", "a", CapacityType::OnDemand, 0.1), efa];
    let asked = plan(&class(&images()), &claim(&[EFA_RESOURCE]), &candidates).unwrap();
    assert_eq!(names(&asked), ["c5n.18xlarge/a/subnet-a2"]);
    assert_eq!(asked.groups.keys().next().unwrap().efa_interfaces, 2);
    let mut claiming = claim(&[]);
    claiming.spec.annotations.insert(labels::DRA_DRIVERS.to_owned(), "dra.net,gpu.nvidia.com".to_owned());
    let claimed = plan(&class(&images()), &claiming, &candidates).unwrap();
    assert_eq!(claimed.groups.keys().next().unwrap().efa_interfaces, 2);
    let not_asked = plan(&class(&images()), &claim(&[]), &candidates[1..]).unwrap();
    assert_eq!(not_asked.groups.keys().next().unwrap().efa_interfaces, 0);
    let none = plan(&class(&images()), &claim(&[EFA_RESOURCE]), &candidates[..1]);
    assert_eq!(none.unwrap_err(), FleetError::NoCandidates);
}

#[test]
fn a_capacity_block_has_its_own_market_type() {
    let block = |name: &str, price| LaunchCandidate {
        reservation_id: Some("cr-1".into()),
        labels: StringMap::from([(labels::CAPACITY_RESERVATION_TYPE.to_owned(), "capacity-block".to_owned())]),
        ..candidate(name, "a", CapacityType::Reserved, price)
    };
    let plan = plan(&class(&images()), &claim(&[]), &[block("p5.48xlarge", 2.0), block("p5.4xlarge", 1.0)]).unwrap();
    assert_eq!(plan.market, Some(Market::CapacityBlock));
    assert_eq!(names(&plan), ["p5.4xlarge/a/subnet-a2"]);
    assert_eq!(plan.groups.keys().next().unwrap().market, plan.market);
}

#[test]
fn of_reservations_with_one_price_interruptible_ones_are_last() {
    let reserved = |id: &str, interruptible: &str| LaunchCandidate {
        reservation_id: Some(id.into()),
        labels: [(labels::CAPACITY_RESERVATION_INTERRUPTIBLE.to_owned(), interruptible.to_owned())].into(),
        ..candidate("m5.large", "a", CapacityType::Reserved, 1e-8)
    };
    let chosen = |candidates: &[LaunchCandidate]| {
        let plan = plan(&class(&images()), &claim(&[]), candidates).unwrap();
        (plan.groups.keys().next().unwrap().reservation_id.clone(), plan.market)
    };
    let [lent, own] = [reserved("cr-1", "true"), reserved("cr-2", "false")];
    assert_eq!(chosen(&[lent.clone(), own]), (Some("cr-2".into()), None));
    assert_eq!(chosen(&[lent]), (Some("cr-1".into()), Some(Market::Interruptible)));
}

#[test]
fn prices_changed_by_an_overlay_are_priorities_of_the_request() {
    let candidates = [candidate("m5.large", "a", CapacityType::OnDemand, 0.02)];
    let class = class(&images());
    let call = |claim: &NodeClaim| {
        let plan = plan(&class, claim, &candidates).unwrap();
        let templates = plan.groups.keys().map(|variant| (variant.clone(), "t".to_owned())).collect();
        crate::request::create_fleet(&crate::request::FleetCall {
            plan: &plan,
            templates: &templates,
            count: 1,
            client_token: "token",
            tags: &nodeless_model::StringMap::new(),
        })
    };
    let priority = "/LaunchTemplateConfigs/0/Overrides/0/Priority";
    let mut claim = claim(&[]);
    let plain = call(&claim);
    assert_eq!(
        (plain.pointer(priority), &plain["OnDemandOptions"]["AllocationStrategy"]),
        (None, &"lowest-price".into())
    );
    claim.spec.annotations.insert(labels::PRICE_OVERLAY_APPLIED.to_owned(), "true".to_owned());
    let overlaid = call(&claim);
    assert_eq!(overlaid.pointer(priority), Some(&0.02.into()));
    assert_eq!(overlaid["OnDemandOptions"]["AllocationStrategy"], "prioritized");
}

#[test]
fn an_account_without_spot_lacks_capacity_and_a_missing_permission_is_an_error() {
    for code in [
        "InsufficientInstanceCapacity",
        "ReservationCapacityExceeded",
        "InvalidCapacityReservationState.Unavailable",
        "SpotMaxPriceTooLow",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    ] {
        assert!(lacks_capacity(code), "{code}");
    }
    for code in ["UnauthorizedOperation", "InvalidAMIID.NotFound", "RequestLimitExceeded", ""] {
        assert!(!lacks_capacity(code), "{code}");
    }
}

#[test]
fn dry_runs_use_on_demand_or_reserved_instances_and_never_spot() {
    let class = class(&images());
    let spot = candidate("m5.large", "a", CapacityType::Spot, 0.04);
    let on_demand = candidate("m5.xlarge", "a", CapacityType::OnDemand, 0.2);
    let sampled = samples(&class, &claim(&[]), &[spot.clone(), on_demand.clone()]).unwrap();
    assert_eq!(sampled, [[on_demand]]);
    assert!(matches!(samples(&class, &claim(&[]), &[spot]), Err(FleetError::NoCandidates)));
}

#[test]
fn the_second_dry_run_uses_another_instance_category_or_at_least_another_family() {
    let class = class(&images());
    let chosen = |types: &[&str]| {
        let price = |index: usize| f64::from(u32::try_from(index).unwrap());
        let of = |(index, name): (usize, &&str)| candidate(name, "a", CapacityType::OnDemand, price(index));
        let candidates: Vec<LaunchCandidate> = types.iter().enumerate().map(of).collect();
        let samples = samples(&class, &claim(&[]), &candidates).unwrap();
        samples.into_iter().map(|of_type| of_type[0].instance_type.clone()).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&["t3.nano", "t3.micro", "t3a.nano", "m5.large", "c5.large"]), ["t3.nano", "m5.large"]);
    assert_eq!(chosen(&["t3.nano", "t3.micro", "t3a.nano"]), ["t3.nano", "t3a.nano"]);
    assert_eq!(chosen(&["t3.nano", "t3.micro"]), ["t3.nano"]);
    assert_eq!(chosen(&["t3.nano", "m5.metal"]), ["t3.nano", "m5.metal"]);
}

#[test]
fn a_call_that_is_rejected_for_lack_of_capacity_is_a_failure_of_what_it_requested() {
    let candidates = [
        candidate("m5.large", "a", CapacityType::Spot, 0.04),
        candidate("m5.large", "b", CapacityType::Spot, 0.05),
        candidate("m6g.large", "b", CapacityType::Spot, 0.05),
        candidate("m5.large", "a", CapacityType::OnDemand, 0.1),
    ];
    let plan = plan(&class(&images()), &claim(&[]), &candidates).unwrap();
    let failed = |code: &str, message: &str| {
        let outcome = plan.rejected(code, message)?;
        assert!(outcome.instances.is_empty());
        let of_spot = |one: &OfferingFailure| one.lacks_capacity && one.capacity_type == CapacityType::Spot;
        assert!(outcome.failures.iter().all(|one| of_spot(one) && one.code == code && one.message == message));
        let mut names: Vec<String> =
            outcome.failures.iter().map(|one| format!("{} {}", one.instance_type, one.zone)).collect();
        names.sort();
        Some(names)
    };
    let all = ["m5.large a", "m5.large b", "m6g.large b"].map(str::to_owned).to_vec();
    for code in ["MaxSpotInstanceCountExceeded", "MaxFleetCountExceeded", "VcpuLimitExceeded"] {
        assert_eq!(failed(code, "exceeded"), Some(all.clone()), "{code}");
    }
    let full = "There are not enough free addresses in subnet 'subnet-b' to satisfy the requested number of instances.";
    assert_eq!(failed("InsufficientFreeAddressesInSubnet", full), Some(all[1..].to_vec()), "one subnet is full");
    let other = full.replace("subnet-b", "subnet-c");
    assert_eq!(failed("InsufficientFreeAddressesInSubnet", &other), Some(all), "none of those that were requested");
    assert_eq!(failed("UnauthorizedOperation", "'subnet-b'"), None);
    assert_eq!(failed("RequestLimitExceeded", "Request limit exceeded."), None);
}

#[test]
fn a_failure_has_the_placement_group_and_the_reservation_of_its_launch() {
    let reserved = LaunchCandidate {
        reservation_id: Some("cr-1".into()),
        labels: StringMap::from([(labels::PLACEMENT_GROUP_ID.to_owned(), "pg-1".to_owned())]),
        ..candidate("m5.large", "a", CapacityType::Reserved, 0.0)
    };
    let plan = plan(&class(&images()), &claim(&[]), &[reserved]).unwrap();
    let outcome = plan.rejected("ReservationCapacityExceeded", "full").unwrap();
    let of = |one: &OfferingFailure| (one.placement_group.clone(), one.reservation_id.clone());
    assert_eq!(of(&outcome.failures[0]), (Some("pg-1".into()), Some("cr-1".into())));
}

#[test]
fn the_context_is_not_sent_if_min_values_were_relaxed() {
    let candidates = [candidate("m5.large", "a", CapacityType::OnDemand, 0.1)];
    let mut class = class(&images());
    class.spec.context = Some("context-1".into());
    let context = |relaxed: &str| {
        let mut claim = claim(&[]);
        claim.spec.annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), relaxed.to_owned());
        plan(&class, &claim, &candidates).unwrap().context
    };
    assert_eq!((context("false").as_deref(), context("true")), (Some("context-1"), None));
}
