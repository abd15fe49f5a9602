//! The ports over a world.

use super::{MemoryCatalogSource, MemoryCloud, memory_cluster};
use crate::world::{World, WorldOptions};
use futures::FutureExt as _;
use nodeless_api::{ConditionStatus, EC2NodeClass, test_support};
use nodeless_fake_aws::{CapacityReservation, CapacityType as Ec2CapacityType, Offering};
use nodeless_fake_kubernetes::resource::{NODES, POD_DISRUPTION_BUDGETS, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, PatchOptions, PatchType, Resource, UpdateOptions};
use nodeless_model::claim::{LaunchGroup, NodeClaimSpec};
use nodeless_model::test_support::node_claim;
use nodeless_model::{CapacityType, NodeClaim, ReservedInstances, ResourceList, StringMap, Taint, TaintEffect, labels};
use nodeless_ports::cloud::{LaunchCandidate, LaunchRequest};
use nodeless_ports::cluster::{Eviction, NodePatch, PodRef, SoughtNode};
use nodeless_ports::{CatalogSource as _, Cloud as _, ErrorKind, NodesAndPods as _};
use serde_json::{Value, json};
use std::sync::Arc;

/// The result of a future that is always ready, as those of these ports are.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

fn world() -> World {
    World::new(WorldOptions::default()).unwrap()
}

fn create(world: &World, resource: &Resource, object: Value) -> Arc<Value> {
    world.api().create(resource, object, &CreateOptions::default()).unwrap()
}

fn class(spec: &Value) -> EC2NodeClass {
    let mut class = test_support::ec2_node_class("default", "nodeless", spec);
    class.metadata.generation = Some(1);
    class
}

fn source(world: &World) -> MemoryCatalogSource {
    MemoryCatalogSource::new(world.ec2().clone(), world.catalog().clone(), "nodeless", "1.36")
}

fn resolved(world: &World) -> EC2NodeClass {
    let mut class = class(&json!({}));
    class.status = Some(now(source(world).resolve(&class)).unwrap());
    class
}

fn claim(world: &World, size: u32) -> NodeClaim {
    NodeClaim {
        created: world.now(),
        spec: NodeClaimSpec {
            launch_group: Some(LaunchGroup { id: "group-1".into(), index: 0, size, all_or_none: false }),
            labels: StringMap::from([(labels::NODE_POOL.to_owned(), "default".to_owned())]),
            ..NodeClaimSpec::default()
        },
        ..node_claim("default-abcde")
    }
}

fn candidate(instance_type: &str, zone: &str, price: f64) -> LaunchCandidate {
    LaunchCandidate {
        instance_type: instance_type.into(),
        architecture: "amd64".into(),
        labels: StringMap::new(),
        max_pods: 29,
        kube_reserved: ResourceList::new(),
        system_reserved: ResourceList::new(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
        price,
        reservation_id: None,
        partition: None,
        efa_interfaces: 0,
        root_volume_gib: None,
    }
}

#[test]
fn a_class_resolves_to_what_the_account_has() {
    let world = world();
    let status = resolved(&world).status.unwrap();
    assert_eq!((status.subnets.len(), status.security_groups.len()), (3, 1));
    assert_eq!(status.instance_profile.as_deref(), Some("nodeless-node"));
    assert_eq!(status.amis.len(), 5);
    assert!(status.conditions.iter().all(|condition| condition.status == ConditionStatus::True));

    let lost = class(&json!({ "subnetSelectorTerms": [{ "id": "subnet-0" }], "role": "missing" }));
    let status = now(source(&world).resolve(&lost)).unwrap();
    let broken: Vec<&str> = status
        .conditions
        .iter()
        .filter(|condition| condition.status == ConditionStatus::False)
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(broken, ["SubnetsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"]);
    let profile = status.conditions.iter().find(|condition| condition.type_ == "InstanceProfileReady").unwrap();
    assert!(profile.reason == "RoleNotFound" && profile.message.contains("spec.role: there is no role \"missing\""));
}

#[test]
fn the_same_launch_again_finds_the_same_instances() {
    let world = world();
    let cloud = MemoryCloud::new(world.ec2().clone(), "nodeless");
    let (class, claim) = (resolved(&world), claim(&world, 2));
    let candidates = [candidate("m5.large", "us-east-1a", 0.096), candidate("m5.xlarge", "us-east-1b", 0.192)];
    let request = || LaunchRequest { claim: &claim, node_class: &class, candidates: &candidates };
    let first = now(cloud.launch(request())).unwrap();
    assert_eq!(first.instances.len(), 2);
    assert!(first.instances.iter().all(|it| it.instance_type == "m5.large" && it.zone == "us-east-1a"));
    assert_eq!(now(cloud.launch(request())).unwrap(), first);
    let dearer = [candidate("m5.xlarge", "us-east-1b", 0.192)];
    let other = LaunchRequest { claim: &claim, node_class: &class, candidates: &dearer };
    let ids = |outcome: &[nodeless_model::Instance]| outcome.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    assert_eq!(now(cloud.launch(other)).unwrap_err().code, "IdempotentParameterMismatch");

    let all = now(cloud.all_instances()).unwrap();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it.tags[labels::LAUNCH_GROUP_TAG] == "group-1"));
    let unknown = "i-00000000000000000".to_owned();
    now(cloud.terminate(&[ids(&all), vec![unknown]].concat())).unwrap();
    assert!(now(cloud.all_instances()).unwrap().iter().all(|it| !it.is_alive()));
}

#[test]
fn a_lack_of_capacity_is_an_outcome_and_a_denial_an_error() {
    let world = world();
    let cloud = MemoryCloud::new(world.ec2().clone(), "nodeless");
    let (class, claim) = (resolved(&world), claim(&world, 1));
    let candidates = [candidate("m5.large", "us-east-1a", 0.096)];
    let request = || LaunchRequest { claim: &claim, node_class: &class, candidates: &candidates };
    world.ec2().deny("CreateFleet");
    assert_eq!(now(cloud.launch(request())).unwrap_err().kind, ErrorKind::Denied);
    world.ec2().allow("CreateFleet");
    world.ec2().exhaust(Offering::new("m5.large", "us-east-1a", Ec2CapacityType::OnDemand));
    let outcome = now(cloud.launch(request())).unwrap();
    assert!(outcome.instances.is_empty());
    assert!(outcome.failures[0].lacks_capacity);
    assert_eq!(outcome.failures[0].code, "InsufficientInstanceCapacity");
}

#[test]
fn nodes_of_every_family_join_with_their_labels_and_taints() {
    for (family, custom) in [
        ("AL2", "echo hello"),
        ("AL2023", "echo hello"),
        ("Bottlerocket", "[settings.host-containers.admin]\nenabled = true"),
        ("Windows2022", "Write-Host hello"),
    ] {
        let mut world = world();
        let image = world.ec2().account().images.into_iter().find(|image| image.architecture == "x86_64").unwrap();
        let mut class = class(&json!({
            "amiSelectorTerms": [{ "id": image.id }], "amiFamily": family, "userData": custom,
        }));
        class.status = Some(now(source(&world).resolve(&class)).unwrap());
        let cloud = MemoryCloud::new(world.ec2().clone(), "nodeless");
        let mut claim = claim(&world, 1);
        claim.spec.taints = vec![Taint { key: "team".into(), value: "a".into(), effect: TaintEffect::NoSchedule }];
        let candidates = [candidate("m5.large", "us-east-1a", 0.096)];
        now(cloud.launch(LaunchRequest { claim: &claim, node_class: &class, candidates: &candidates })).unwrap();
        let later = world.now() + jiff::SignedDuration::from_mins(5);
        world.advance_to(later).unwrap();
        let nodes = world.api().list(&NODES, &ListOptions::default()).unwrap();
        assert_eq!(nodes.items.len(), 1, "{family}");
        let node = &nodes.items[0];
        assert_eq!(node["metadata"]["labels"][labels::NODE_POOL], "default", "{family}: {node}");
        let os = if family == "Windows2022" { "windows" } else { "linux" };
        assert_eq!(node["metadata"]["labels"][labels::OS], os, "{family}");
        assert_eq!(node["status"]["capacity"]["pods"], "29", "{family}");
        let taints = node["spec"]["taints"].as_array().unwrap();
        for key in ["team", "karpenter.sh/unregistered"] {
            assert!(taints.iter().any(|taint| taint["key"] == key), "{family}: {taints:?}");
        }
    }
}

#[test]
fn a_reservation_of_the_class_is_found_counted_and_launched_into() {
    let world = world();
    world.ec2().change_account(|account| {
        let reservation = |id: &str, open| CapacityReservation {
            id: id.into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            total: 1,
            available: 1,
            open,
            start: jiff::Timestamp::UNIX_EPOCH,
            end: None,
            interruptible: false,
        };
        account.capacity_reservations = vec![reservation("cr-1", false), reservation("cr-2", true)];
        account.tags.insert("cr-1".into(), [("team".to_owned(), "a".to_owned())].into());
    });
    let mut class = class(&json!({ "capacityReservationSelectorTerms": [
        { "tags": { "team": "a" }, "instanceMatchCriteria": "targeted" },
    ] }));
    class.status = Some(now(source(&world).resolve(&class)).unwrap());
    let found = &class.status.as_ref().unwrap().capacity_reservations;
    assert_eq!(found.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["cr-1"]);
    let left = |world: &World| now(source(world).catalog(None)).unwrap().reservations;
    assert_eq!(left(&world)["cr-1"].available, 1);
    let cloud = MemoryCloud::new(world.ec2().clone(), "nodeless");
    let claim = claim(&world, 1);
    let candidates = [LaunchCandidate {
        capacity_type: CapacityType::Reserved,
        reservation_id: Some("cr-1".into()),
        ..candidate("m5.large", "us-east-1a", 1e-8)
    }];
    let request = LaunchRequest { claim: &claim, node_class: &class, candidates: &candidates };
    let outcome = now(cloud.launch(request)).unwrap();
    assert_eq!(outcome.instances[0].reservation_id.as_deref(), Some("cr-1"));
    let instances = |available, used| ReservedInstances { available, used: Some(used) };
    assert_eq!((left(&world)["cr-1"], left(&world)["cr-2"]), (instances(0, 1), instances(1, 0)));
}

#[test]
fn a_node_keeps_what_others_put_there() {
    let world = world();
    let node = create(
        &world,
        &NODES,
        json!({
            "metadata": { "name": "n", "labels": { "a": "1", "b": "2" } },
            "spec": { "taints": [
                { "key": "karpenter.sh/unregistered", "effect": "NoExecute" }, { "key": "other", "effect": "NoSchedule" },
            ] },
        }),
    );
    let cluster = memory_cluster(world.api(), world.clock().clone());
    let uid = node["metadata"]["uid"].as_str().unwrap();
    let patch = NodePatch {
        labels: StringMap::from([("a".into(), "3".into())]),
        remove_labels: vec!["b".into()],
        remove_taints: vec![Taint::unregistered()],
        add_taints: vec![Taint::disrupted()],
        add_finalizer: Some(labels::TERMINATION_FINALIZER.into()),
        ..NodePatch::default()
    };
    now(cluster.patch_node("n", uid, &patch)).unwrap();
    let node = world.api().get(&NODES, "", "n").unwrap();
    assert_eq!((&node["metadata"]["labels"]["a"], node["metadata"]["labels"].get("b")), (&json!("3"), None));
    let keys: Vec<&Value> = node["spec"]["taints"].as_array().unwrap().iter().map(|taint| &taint["key"]).collect();
    assert_eq!(keys, ["other", "karpenter.sh/disrupted"]);
    let before = world.api().revision();
    now(cluster.patch_node("n", uid, &patch)).unwrap();
    assert_eq!(world.api().revision(), before);
    assert_eq!(now(cluster.patch_node("n", "another", &patch)).unwrap_err().kind, ErrorKind::Conflict);
    let unless = |label: &str| NodePatch { unless_labelled: Some(label.into()), ..patch.clone() };
    assert_eq!(now(cluster.patch_node("n", uid, &unless("a"))).unwrap_err().kind, ErrorKind::Conflict);
    now(cluster.patch_node("n", uid, &unless("c"))).unwrap();
    assert_eq!(now(cluster.patch_node("m", uid, &patch)).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_node_that_was_read_before_another_process_labelled_it_is_not_patched() {
    let world = world();
    let provider_id = "aws:///us-east-1a/i-1";
    let object = json!({ "metadata": { "name": "n" }, "spec": { "providerID": provider_id } });
    let uid = create(&world, &NODES, object)["metadata"]["uid"].as_str().unwrap().to_owned();
    let cluster = memory_cluster(world.api(), world.clock().clone());
    let sought = [SoughtNode { provider_id: provider_id.into(), name: None, joining: true }];
    assert_eq!(now(cluster.nodes_of_all(&sought)).unwrap().nodes.len(), 1);
    let labelled = json!({ "metadata": { "labels": { "registered": "true" } } });
    world.api().patch(&NODES, "", "n", None, PatchType::Merge, &labelled, &PatchOptions::default()).unwrap();
    let patch = NodePatch {
        labels: StringMap::from([("a".into(), "1".into())]),
        unless_labelled: Some("registered".into()),
        ..NodePatch::default()
    };
    assert_eq!(now(cluster.patch_node("n", &uid, &patch)).unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(world.api().get(&NODES, "", "n").unwrap()["metadata"]["labels"].get("a"), None);
}

#[test]
fn a_budget_blocks_an_eviction() {
    let mut world = world();
    let pod = create(
        &world,
        &PODS,
        json!({
            "metadata": { "name": "web", "labels": { "app": "web" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "pause" }] },
        }),
    );
    let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    create(&world, &POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    let mut running = pod.as_ref().clone();
    running["status"] = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    let running = world.api().update_status(&PODS, running, &UpdateOptions::default()).unwrap();
    world.converge().unwrap();
    let cluster = memory_cluster(world.api(), world.clock().clone());
    let uid = running["metadata"]["uid"].as_str().unwrap().to_owned();
    let pod = PodRef { namespace: "default".into(), name: "web".into(), uid };
    assert!(matches!(now(cluster.evict(&pod)).unwrap(), Eviction::Blocked { .. }));
    let gone = PodRef { name: "gone".into(), ..pod };
    assert_eq!(now(cluster.evict(&gone)).unwrap(), Eviction::AlreadyGone);
}
