//! Dry runs of launches.

use crate::support::{CLUSTER, SimulatedAws, candidate, claim, launch, m5};
use crate::templates::templates;
use jiff::SignedDuration;
use nodeless_api::EC2NodeClass;
use nodeless_fake_aws::Ec2Error;
use nodeless_model::CapacityType::OnDemand;
use nodeless_model::NodeClaim;
use nodeless_model::launch_check::Refusal;
use nodeless_ports::cloud::{LaunchCandidate, LaunchRequest};
use nodeless_ports::{Cloud as _, ErrorKind, PortError};
use serde_json::json;

pub(crate) async fn dry_run(
    world: &SimulatedAws,
    node_class: &EC2NodeClass,
    candidates: &[LaunchCandidate],
) -> Result<Option<Refusal>, PortError> {
    let claim = NodeClaim { name: "dry-run".into(), uid: "dry-run".into(), ..claim("none", 1) };
    world.cloud().dry_run(LaunchRequest { claim: &claim, node_class, candidates }).await
}

#[tokio::test]
async fn a_dry_run_has_the_tags_of_the_launch_which_a_policy_may_require() {
    let world = SimulatedAws::new().await;
    world.ec2.change_account(|account| account.require_tags_of(CLUSTER));
    let class = world.resolved(json!({})).await;
    assert_eq!(dry_run(&world, &class, &m5()).await.unwrap(), None);
    let keys = |specifications: &serde_json::Value| -> Vec<(String, Vec<String>)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let of = |tags: &serde_json::Value| tags.as_array().unwrap().iter().map(|tag| text(&tag["Key"])).collect();
        let all = specifications.as_array().unwrap().iter();
        all.map(|one| (text(&one["ResourceType"]), of(&one["Tags"]))).collect()
    };
    let called = |api: &str| world.ec2.calls().into_iter().rfind(|call| call.api == api).unwrap().parameters;
    let tried = keys(&called("CreateFleet")["TagSpecifications"]);
    let of_kind = |kind: &str| tried.iter().find(|(it, _)| it == kind).unwrap().1.clone();
    let instances = keys(&called("RunInstances")["TagSpecifications"]);
    assert!(instances.iter().all(|(_, keys)| *keys == of_kind("instance")), "{instances:?}");

    // A claim of its own group has its name as a tag, too.
    let outcome = launch(&world.cloud(), &claim("group-1", 2), &class, &m5()).await.unwrap();
    assert_eq!(outcome.instances.len(), 2);
    let launched = keys(&called("CreateFleet")["TagSpecifications"]);
    let without = |all: &[(String, Vec<String>)]| -> Vec<(String, Vec<String>)> {
        let own = ["karpenter.sh/nodeclaim", "Name", "nodeless.sh/launch-group"];
        let kept = |keys: &[String]| keys.iter().filter(|key| !own.contains(&key.as_str())).cloned().collect();
        all.iter().map(|(kind, keys)| (kind.clone(), kept(keys))).collect()
    };
    assert_eq!(without(&tried), without(&launched));
}

/// A world with an EC2NodeClass that has interfaces of its own, and what a launch of it may be.
async fn with_interfaces() -> (SimulatedAws, EC2NodeClass, [LaunchCandidate; 2]) {
    let world = SimulatedAws::new().await;
    let interfaces = json!([
        { "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" },
        { "networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only" },
    ]);
    let tracking = json!({ "udpTimeout": 30 });
    let fields =
        json!({ "associatePublicIPAddress": true, "connectionTracking": tracking, "networkInterfaces": interfaces });
    let class = world.resolved(fields).await;
    (world, class, ["a", "b"].map(|zone| candidate("m5.large", zone, OnDemand, 0.096)))
}

#[tokio::test]
async fn dry_runs_launch_nothing() {
    let (world, class, candidates) = with_interfaces().await;
    assert_eq!(dry_run(&world, &class, &candidates).await.unwrap(), None);
    assert!(world.ec2.instances().is_empty() && templates(&world).await.len() == 1);
    let called = |api: &str| world.ec2.calls().into_iter().rfind(|call| call.api == api).unwrap().parameters;
    assert_eq!(
        (called("CreateFleet")["DryRun"].clone(), called("RunInstances")["DryRun"].clone()),
        (true.into(), true.into())
    );
    let subnet = world.ec2.account().subnets.into_iter().find(|subnet| subnet.zone == "us-east-1a").unwrap();
    // A policy may ask for tags of all that a launch creates, and for tokens.
    let asked = called("RunInstances");
    let tagged: Vec<&str> = asked["TagSpecifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tags| tags["ResourceType"].as_str().unwrap())
        .collect();
    assert_eq!(tagged, ["instance", "volume", "network-interface"]);
    assert!(asked["TagSpecifications"][2]["Tags"].to_string().contains("eks:eks-cluster-name"), "{asked}");
    assert_eq!(asked["MetadataOptions"]["HttpTokens"], "required");
    let interfaces = called("RunInstances")["NetworkInterfaces"].clone();
    assert!(interfaces.as_array().unwrap().len() == 2 && interfaces[0]["SubnetId"] == subnet.id, "{interfaces}");
}

#[tokio::test]
async fn dry_runs_report_what_ec2_would_refuse() {
    let (world, class, candidates) = with_interfaces().await;
    for (api, reason) in [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ] {
        world.ec2.deny(api);
        let refusal = dry_run(&world, &class, &candidates).await.unwrap().unwrap();
        assert!(refusal.reason == reason && refusal.message.contains("UnauthorizedOperation"), "{refusal:?}");
        world.ec2.allow(api);
    }
    world.ec2.throttle("RunInstances", 3);
    assert_eq!(dry_run(&world, &class, &candidates).await.unwrap_err().kind, ErrorKind::Throttled);
    // RunInstances has few tokens at once, and they are refilled over time.
    world.ec2.advance_to(world.ec2.now() + SignedDuration::from_secs(10));
    // The dry run accepts one working subnet, and a lack of capacity.
    world.ec2.fail_next("RunInstances", &Ec2Error::new("InvalidSubnetID.NotFound", "no such subnet"), 1);
    assert_eq!(dry_run(&world, &class, &candidates).await.unwrap(), None);
    world.ec2.fail_next("RunInstances", &Ec2Error::new("Unsupported", "not in this zone"), 1);
    assert_eq!(dry_run(&world, &class, &candidates).await.unwrap(), None);

    let missing = world.resolved(json!({ "role": null, "instanceProfile": "no-such-profile" })).await;
    let refusal = dry_run(&world, &missing, &candidates).await.unwrap().unwrap();
    assert!(refusal.reason == "InstanceProfileNotFound" && refusal.message.contains("no-such-profile"), "{refusal:?}");
    let mut gone = class;
    gone.status.as_mut().unwrap().security_groups[0].id = "sg-0bad".into();
    let refusal = dry_run(&world, &gone, &candidates).await.unwrap().unwrap();
    assert!(refusal.reason == "RequestRefused" && refusal.message.contains("sg-0bad"), "{refusal:?}");
    assert!(world.ec2.instances().is_empty());
}
