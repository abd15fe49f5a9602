//! Instances become nodes, and nodes are deleted with their instances.

use super::{World, WorldOptions};
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::requests::{RunInstances, TerminateInstances};
use nodeless_fake_aws::{LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource::NODES;
use serde_json::Value;
use std::sync::Arc;

const SETTINGS: &str = "[settings.kubernetes]\nmax-pods = 8\n[settings.kubernetes.node-labels]\n\"team\" = \"a\"\n\
    [settings.kubernetes.node-taints]\n\"karpenter.sh/unregistered\" = [\":NoExecute\"]\n";

fn launch(world: &World) -> String {
    let account = world.ec2().account();
    let image = account.images.iter().find(|image| image.architecture == "x86_64").unwrap();
    let request = RunInstances {
        min_count: Some(1),
        max_count: Some(1),
        instance_type: Some("m5.large".to_owned()),
        image_id: Some(image.id.clone()),
        subnet_id: Some(account.subnets[0].id.clone()),
        user_data: Some(base64::engine::general_purpose::STANDARD.encode(SETTINGS)),
        ..RunInstances::default()
    };
    world.ec2().run_instances(&request).unwrap()[0].id.clone()
}

fn after(world: &World, seconds: i64) -> Timestamp {
    world.now().saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn nodes(world: &World) -> Vec<Arc<Value>> {
    world.api().list(&NODES, &nodeless_fake_kubernetes::server::ListOptions::default()).unwrap().items
}

#[test]
fn a_node_joins_according_to_its_user_data_and_is_deleted_with_its_instance() {
    let mut world = World::new(WorldOptions::default()).unwrap();
    let id = launch(&world);
    world.advance_to(after(&world, 20)).unwrap();
    assert!(nodes(&world).is_empty());
    world.advance_to(after(&world, 20)).unwrap();
    let node = nodes(&world)[0].clone();
    assert_eq!(node["spec"]["providerID"], format!("aws:///us-east-1a/{id}"));
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["kubernetes.io/arch"]), (&"a".into(), &"amd64".into()));
    assert_eq!(labels["node.kubernetes.io/instance-type"], "m5.large");
    assert_eq!(node["status"]["capacity"]["pods"], "8");
    assert_eq!(node["spec"]["taints"][0]["key"], "karpenter.sh/unregistered");
    assert!(node["spec"]["taints"].as_array().unwrap().len() == 1);
    let request = TerminateInstances { instance_ids: vec![id], dry_run: false };
    world.ec2().terminate_instances(&request).unwrap();
    world.advance_to(after(&world, 120)).unwrap();
    assert!(nodes(&world).is_empty());
    assert!(!world.take_events().is_empty());
}

#[test]
fn a_machine_that_did_not_join_can_join_late() {
    let mut world = World::new(WorldOptions::default()).unwrap();
    world.ec2().spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, 1);
    let id = launch(&world);
    world.advance_to(after(&world, 120)).unwrap();
    assert!(nodes(&world).is_empty());
    assert!(world.join_late(&id));
    world.advance_to(after(&world, 30)).unwrap();
    assert_eq!(nodes(&world).len(), 1);
    assert!(!world.join_late(&id), "it has joined");
    assert!(!world.join_late("i-0123"), "there is none");
}

#[test]
fn a_quiet_world_stays_as_it_is() {
    let mut world = World::new(WorldOptions::default()).unwrap();
    let before = world.api().revision();
    world.advance_to(after(&world, 86_400)).unwrap();
    assert_eq!(world.api().revision(), before);
    assert_eq!(world.next_wakeup(), None);
}
