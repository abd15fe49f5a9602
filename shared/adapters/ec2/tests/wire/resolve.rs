//! Tests the status that an EC2NodeClass resolves to, and its instance profiles.

use crate::support::{ACCOUNT, CLUSTER, SimulatedAws, candidate, claim, class};
use jiff::{SignedDuration, Timestamp};
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassStatus};
use nodeless_fake_aws::{Ec2Error, Image, InstanceProfile, PlacementGroup};
use nodeless_model::CapacityType::OnDemand;
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{CatalogSource, Cloud, ErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn condition<'a>(status: &'a EC2NodeClassStatus, name: &str) -> &'a Condition {
    let found = status.conditions.iter().find(|condition| condition.type_ == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", status.conditions))
}

/// Asserts that the condition is false for this reason, and what its message contains.
fn fails(status: &EC2NodeClassStatus, name: &str, reason: &str, stated: &str) {
    let condition = condition(status, name);
    assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::False, reason), "{condition:?}");
    assert!(condition.message.contains(stated), "{condition:?}");
    assert_eq!(self::condition(status, "Ready").status, ConditionStatus::False);
}

async fn resolve(world: &SimulatedAws, fields: Value) -> EC2NodeClassStatus {
    world.source().resolve(&class(&fields)).await.unwrap()
}

fn names(status: &EC2NodeClassStatus) -> Vec<&str> {
    status.amis.iter().map(|ami| ami.name.as_deref().unwrap()).collect()
}

#[tokio::test]
async fn a_class_as_people_write_it_becomes_ready() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| account.subnets[1].free_addresses += 1);
    let status = resolve(&world, json!({})).await;
    for condition in &status.conditions {
        assert_eq!(condition.status, ConditionStatus::True, "{condition:?}");
        assert_eq!(condition.observed_generation, Some(4));
    }
    for name in
        ["SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"]
    {
        condition(&status, name);
    }
    let subnets: Vec<(&str, Option<&str>)> =
        status.subnets.iter().map(|subnet| (subnet.zone.as_str(), subnet.zone_id.as_deref())).collect();
    let zones = &world.ec2.account().facts.zones;
    assert_eq!(subnets, [("us-east-1b", Some(zones[1].id.as_str())), ("us-east-1a", Some(zones[0].id.as_str()))]);
    assert_eq!(status.security_groups[0].name.as_deref(), Some("prod-node"));
    assert_eq!(status.amis.len(), 5, "{:?}", status.amis);
    assert_eq!(status.instance_profile.as_deref(), Some("prod-node"));
    assert_eq!(world.ec2.call_counts().keys().filter(|call| call.starts_with("iam:")).count(), 0);

    // Resolved again, nothing moves.
    let again = EC2NodeClass { status: Some(status.clone()), ..class(&json!({})) };
    assert_eq!(world.source().resolve(&again).await.unwrap(), status);
}

#[tokio::test]
async fn aliases_lead_to_their_images() {
    let world = SimulatedAws::new().await;
    let status = resolve(&world, json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@v1.40.0" }] })).await;
    assert_eq!(status.amis.len(), 5, "the image for x86 serves Neuron too");
    assert!(names(&status).iter().all(|name| name.starts_with("bottlerocket-aws-k8s-1.33")));
    let latest = resolve(&world, json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] })).await;
    assert_eq!(latest.amis, status.amis);

    let pinned = world.ec2.now().strftime("al2023@v%Y%m%d").to_string();
    let status = resolve(&world, json!({ "amiSelectorTerms": [{ "alias": pinned }] })).await;
    assert_eq!(status.amis.len(), 5);
    let status = resolve(&world, json!({ "amiSelectorTerms": [{ "alias": "al2023@v20000101" }] })).await;
    fails(&status, "AMIsReady", "AMINotFound", "amazon-eks-node-al2023-x86_64-standard-1.33-v20000101");
    fails(&status, "ValidationSucceeded", "DependenciesNotReady", "AMIsReady");
    let status = resolve(&world, json!({ "amiSelectorTerms": [{ "alias": "al2@latest" }] })).await;
    fails(&status, "AMIsReady", "UnsupportedAlias", "from Kubernetes 1.33 on");
    let windows = |alias: &str| json!({ "amiSelectorTerms": [{ "alias": alias }] });
    let status = resolve(&world, windows("windows2025@latest")).await;
    fails(&status, "AMIsReady", "UnsupportedAlias", "from Kubernetes 1.35 on");
    let status = resolve(&world, windows("windows2022@latest")).await;
    assert_eq!(condition(&status, "Ready").status, ConditionStatus::True, "{:?}", status.conditions);
    let keys: Vec<&str> = status.amis[0].requirements.iter().map(|requirement| requirement.key.as_str()).collect();
    assert_eq!(keys, ["kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/windows-build"]);
}

#[tokio::test]
async fn a_parameter_that_cannot_be_read_costs_an_alias_no_other_image() {
    let world = SimulatedAws::new().await;
    let fail = |times| world.ec2.fail_next("GetParameter", &Ec2Error::new("AccessDeniedException", "no"), times);
    let ids =
        |status: &EC2NodeClassStatus| -> BTreeSet<String> { status.amis.iter().map(|ami| ami.id.clone()).collect() };
    fail(1);
    let without = resolve(&world, json!({})).await;
    assert_eq!(condition(&without, "Ready").status, ConditionStatus::True, "{:?}", without.conditions);
    let all = resolve(&world, json!({})).await;
    assert_eq!((without.amis.len(), all.amis.len()), (4, 5));

    // A class that was resolved keeps the image, so that its nodes do not drift.
    fail(1);
    let resolved = EC2NodeClass { status: Some(all.clone()), ..class(&json!({})) };
    assert_eq!(ids(&world.source().resolve(&resolved).await.unwrap()), ids(&all));
    // A changed alias does not, and the image for x86 serves Neuron too.
    fail(1);
    let other = json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] });
    let other = EC2NodeClass { status: Some(all.clone()), ..class(&other) };
    let other = world.source().resolve(&other).await.unwrap();
    assert!(other.amis.len() == 3 && names(&other).iter().all(|name| name.starts_with("bottlerocket")), "{other:?}");
    // If none can be read, the class is not ready.
    fail(5);
    fails(&resolve(&world, json!({})).await, "AMIsReady", "AccessDenied", "GetParameter");
}

fn image(id: &str, name: &str, created: Timestamp, architecture: &str) -> Image {
    Image {
        id: id.into(),
        name: name.into(),
        architecture: architecture.into(),
        owner_id: ACCOUNT.into(),
        owner_alias: None,
        created,
        deprecated: None,
        root_device: "/dev/xvda".into(),
        root_volume_gib: 20,
        state: "available".into(),
        platform: None,
    }
}

#[tokio::test]
async fn own_images_are_found_by_every_kind_of_term() {
    let world = SimulatedAws::new().await;
    let now = world.ec2.now();
    let earlier = now - SignedDuration::from_hours(24);
    world.ec2.change_account(|account| {
        account.images.push(image("ami-0aa", "mine-1", earlier, "x86_64"));
        account.images.push(image("ami-0ab", "mine-2", now, "x86_64"));
        account.images.push(Image { state: "pending".into(), ..image("ami-0ac", "mine-3", now, "x86_64") });
        account.images.push(image("ami-0ad", "mine-4", earlier, "arm64"));
        account.images.push(Image { owner_id: "999999999999".into(), ..image("ami-0ae", "mine-5", now, "arm64") });
        account.tags.insert("ami-0aa".into(), [("golden".to_owned(), "yes".to_owned())].into());
        account.parameters.insert("/mine".into(), "ami-0aa".into());
        account.parameters.insert("/text".into(), "hello".into());
    });
    let ids = async |terms: Value| -> Vec<String> {
        let status = resolve(&world, json!({ "amiFamily": "AL2023", "amiSelectorTerms": terms })).await;
        status.amis.into_iter().map(|ami| ami.id).collect()
    };
    assert_eq!(ids(json!([{ "name": "mine-*" }])).await, ["ami-0ab", "ami-0ad"], "own ones, available ones");
    assert_eq!(ids(json!([{ "name": "mine-*", "owner": "999999999999" }])).await, ["ami-0ae"]);
    assert_eq!(ids(json!([{ "id": "ami-0aa" }])).await, ["ami-0aa"]);
    assert_eq!(ids(json!([{ "tags": { "golden": "*" } }])).await, ["ami-0aa"]);
    assert_eq!(ids(json!([{ "ssmParameter": "/mine" }, { "ssmParameter": "/text" }])).await, ["ami-0aa"]);
    assert_eq!(ids(json!([{ "id": "ami-0aa" }, { "id": "ami-0ad" }])).await.len(), 2);

    let terms = json!([{ "ssmParameter": "/none" }, { "name": "no-such-name" }]);
    let status = resolve(&world, json!({ "amiFamily": "AL2023", "amiSelectorTerms": terms })).await;
    fails(&status, "AMIsReady", "AMINotFound", "/none");
    fails(&status, "AMIsReady", "AMINotFound", "no-such-name");
}

#[tokio::test]
async fn what_is_not_found_is_named() {
    let world = SimulatedAws::new().await;
    let none = json!([{ "tags": { "a": "b" } }, { "id": "subnet-0ff" }]);
    let status = resolve(&world, json!({ "subnetSelectorTerms": none })).await;
    fails(&status, "SubnetsReady", "SubnetsNotFound", "tags a=b, or id subnet-0ff");
    assert!(status.subnets.is_empty());
    let none = json!([{ "name": "no-such-name" }]);
    let status = resolve(&world, json!({ "securityGroupSelectorTerms": none })).await;
    fails(&status, "SecurityGroupsReady", "SecurityGroupsNotFound", "name no-such-name");
    let known = json!([{ "name": "prod-node" }, { "id": "sg-0a0000000000000001" }]);
    let status = resolve(&world, json!({ "securityGroupSelectorTerms": known })).await;
    assert_eq!(status.security_groups.len(), 1, "found twice, listed once");
}

#[tokio::test]
async fn what_may_not_be_read_is_kept_and_what_cannot_be_read_now_changes_nothing() {
    let world = SimulatedAws::new().await;
    let class = world.resolved(json!({})).await;
    let before = class.status.clone().unwrap();
    for (api, name) in [
        ("DescribeSubnets", "SubnetsReady"),
        ("DescribeSecurityGroups", "SecurityGroupsReady"),
        ("DescribeImages", "AMIsReady"),
    ] {
        world.ec2.deny(api);
        let status = world.source().resolve(&class).await.unwrap();
        fails(&status, name, "AccessDenied", api);
        assert_eq!((&status.subnets, &status.amis), (&before.subnets, &before.amis));
        assert_eq!(status.security_groups, before.security_groups);
        world.ec2.allow(api);
        world.ec2.throttle(api, 3);
        assert_eq!(world.source().resolve(&class).await.unwrap_err().kind, ErrorKind::Throttled);
    }
}

#[tokio::test]
async fn what_cannot_be_launched_yet_is_refused() {
    let world = SimulatedAws::new().await;
    let status = resolve(&world, json!({ "placementGroupSelector": { "name": "close" } })).await;
    fails(&status, "PlacementGroupReady", "PlacementGroupNotFound", "placement group close");
    fails(&status, "ValidationSucceeded", "DependenciesNotReady", "PlacementGroupReady");
    world.ec2.change_account(|account| {
        let group = |id: &str, name: &str, strategy: &str| PlacementGroup {
            id: id.into(),
            name: name.into(),
            strategy: strategy.into(),
            partitions: if strategy == "partition" { 7 } else { 0 },
            capacity: None,
        };
        account.placement_groups = vec![group("pg-1", "close", "cluster"), group("pg-2", "parts", "partition")];
    });
    for name in ["parts", "close"] {
        let status = resolve(&world, json!({ "placementGroupSelector": { "name": name } })).await;
        assert_eq!(condition(&status, "Ready").status, ConditionStatus::True, "{:?}", status.conditions);
    }
    let groups = world.source().catalog(None).await.unwrap().placement_groups;
    assert_eq!((groups.len(), groups[0].id.as_str(), groups[0].strategy.as_str()), (2, "pg-1", "cluster"));
    assert_eq!((groups[0].partitions, groups[1].partitions), (0, 7));
    // A reservation that is not there is none to launch into; nothing else waits for it.
    let status = resolve(&world, json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1" }] })).await;
    assert_eq!(condition(&status, "Ready").status, ConditionStatus::True, "{:?}", status.conditions);
    assert!(status.capacity_reservations.is_empty());
    let status = resolve(&world, json!({ "kubelet": { "maxPods": "many" } })).await;
    fails(&status, "ValidationSucceeded", "KubeletExpressionInvalid", "spec.kubelet");
}

fn profiles(world: &SimulatedAws) -> Vec<InstanceProfile> {
    world
        .ec2
        .account()
        .instance_profiles
        .into_iter()
        .filter(|profile| !["prod-node", "prod-windows-node"].contains(&profile.name.as_str()))
        .collect()
}

#[tokio::test]
async fn throttling_of_ssm_and_iam_is_waited_out_and_then_reported() {
    let class = class(&json!({ "role": "other" }));
    let throttled = async |api: &str, times| {
        let world = SimulatedAws::new().await;
        world.ec2.change_account(|account| account.roles.push("other".into()));
        world.ec2.throttle(api, times);
        world.source().resolve(&class).await
    };
    // One parameter of an alias that cannot be read is left out, so all of them are throttled.
    for (api, code, times) in [("GetParameter", "ThrottlingException", 100), ("ListInstanceProfiles", "Throttling", 3)]
    {
        let error = throttled(api, times).await.unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, code), "{error}");
        throttled(api, 2).await.unwrap();
    }
}

#[tokio::test]
async fn a_role_of_ones_own_gets_a_profile_that_goes_with_the_class() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| account.roles.push("other".into()));
    let fields = json!({ "role": "teams/other" });
    let first = world.resolved(fields.clone()).await;
    let made = profiles(&world);
    let status = first.status.clone().unwrap();
    assert_eq!(status.instance_profile.as_deref(), Some(made[0].name.as_str()));
    assert_eq!(made[0].path, "/karpenter/us-east-1/prod/11111111-2222-3333-4444-555555555555/");
    assert_eq!(made[0].roles, ["other"]);
    for (key, value) in [
        ("kubernetes.io/cluster/prod", "owned"),
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("topology.kubernetes.io/region", "us-east-1"),
        ("team", "a"),
    ] {
        assert_eq!(made[0].tags.get(key).map(String::as_str), Some(value), "{key}");
    }
    // Found again, and repaired after a crash left it without its role.
    assert_eq!(resolve(&world, fields.clone()).await.instance_profile, status.instance_profile);
    world.ec2.change_account(|account| account.instance_profiles.last_mut().unwrap().roles.clear());
    assert_eq!(resolve(&world, fields.clone()).await.instance_profile, status.instance_profile);
    assert_eq!(profiles(&world), made);
    assert_eq!(world.calls("iam:CreateInstanceProfile"), 1);

    // The class launches, so there is a template; both go with it.
    let candidates = [candidate("m5.large", "a", OnDemand, 0.096)];
    let request = LaunchRequest { claim: &claim("group-1", 1), node_class: &first, candidates: &candidates };
    world.cloud().launch(request).await.unwrap();
    world.source().release(&first).await.unwrap();
    assert!(profiles(&world).is_empty());
    let left = aws_sdk_ec2::Client::new(&world.config).describe_launch_templates().send().await.unwrap();
    assert!(left.launch_templates().is_empty());
    world.source().release(&first).await.unwrap();
}

#[tokio::test]
async fn profiles_are_created_and_deleted_below_the_iam_path_of_the_organization() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| account.roles.push("other".into()));
    let source = world.source().with_iam_path("/teams/platform/".into());
    let mut class = crate::support::class(&json!({ "role": "other" }));
    for _ in 0..2 {
        class.status = Some(source.resolve(&class).await.unwrap());
        let path = "/teams/platform/karpenter/us-east-1/prod/11111111-2222-3333-4444-555555555555/";
        let made = profiles(&world);
        assert_eq!((made.len(), made[0].path.as_str()), (1, path));
    }
    assert_eq!(world.calls("iam:CreateInstanceProfile"), 1);
    source.release(&class).await.unwrap();
    assert!(profiles(&world).is_empty());
}

#[tokio::test]
async fn karpenters_profile_is_taken_over() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| {
        account.roles.push("other".into());
        account.instance_profiles.push(InstanceProfile {
            name: "prod_12345".into(),
            path: "/karpenter/us-east-1/prod/11111111-2222-3333-4444-555555555555/".into(),
            id: "AIPA1".into(),
            roles: vec!["other".into()],
            created: account.instance_profiles[0].created,
            tags: [].into(),
        });
    });
    let status = resolve(&world, json!({ "role": "other" })).await;
    assert_eq!(status.instance_profile.as_deref(), Some("prod_12345"));
    assert_eq!(world.calls("iam:CreateInstanceProfile"), 0);
}

#[tokio::test]
async fn profiles_of_others_stay() {
    let world = SimulatedAws::new().await;
    let named = world.resolved(json!({ "role": null, "instanceProfile": "prod-node" })).await;
    assert_eq!(named.status.as_ref().unwrap().instance_profile.as_deref(), Some("prod-node"));
    assert_eq!(condition(named.status.as_ref().unwrap(), "Ready").status, ConditionStatus::True);
    world.source().release(&named).await.unwrap();
    world.source().release(&world.resolved(json!({})).await).await.unwrap();
    assert_eq!(world.ec2.account().instance_profiles.len(), 2);
}

#[tokio::test]
async fn a_profile_with_a_path_is_named_without_it() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| {
        let mut profile = account.instance_profiles[0].clone();
        (profile.name, profile.path, profile.id) = ("nodes".into(), "/teams/a/".into(), "AIPA2".into());
        account.instance_profiles.push(profile);
    });
    let class = world.resolved(json!({ "role": null, "instanceProfile": "nodes" })).await;
    let candidates = [candidate("m5.large", "a", OnDemand, 0.096)];
    let request = LaunchRequest { claim: &claim("group-1", 1), node_class: &class, candidates: &candidates };
    assert_eq!(world.cloud().launch(request).await.unwrap().instances.len(), 1);
    let (arn, _) = world.ec2.instances()[0].instance_profile.clone().unwrap();
    assert!(arn.ends_with(":instance-profile/teams/a/nodes"), "{arn}");
    world.source().release(&class).await.unwrap();
    assert_eq!(profiles(&world).len(), 1, "it belongs to another owner");
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_named() {
    let world = SimulatedAws::new().await;
    let status = resolve(&world, json!({ "role": "no-such-role" })).await;
    fails(&status, "InstanceProfileReady", "RoleNotFound", "no-such-role");
    assert_eq!(status.instance_profile, None);
    world.ec2.deny("ListInstanceProfiles");
    let status = resolve(&world, json!({ "role": "no-such-role" })).await;
    fails(&status, "InstanceProfileReady", "AccessDenied", "ListInstanceProfiles");
}
