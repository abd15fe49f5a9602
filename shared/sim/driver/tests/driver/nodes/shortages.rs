//! Shortages of a placement group or of a capacity reservation, in virtual time: launches outside of it go on.

use crate::support::{create, list, picture, start, within};
use futures::FutureExt as _;
use jiff::Timestamp;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_driver::Driver;
use nodeless_fake_aws::{CapacityReservation, InstanceState, PlacementGroup};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::labels;
use nodeless_model::shortage::Shortage;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

/// A class with these fields, and a NodePool of the same name for pods that select it: m5.large in one zone, so that all pools have
/// the same offering.
fn configure(driver: &Driver, name: &str, zones: &[&str], capacity_type: &str, fields: &Value) {
    create(driver, &NODE_CLASSES, ec2_node_class_manifest(name, "nodeless", fields));
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m6i.large"] },
        { "key": "topology.kubernetes.io/zone", "operator": "In", "values": zones },
    ]);
    let mut pool = node_pool_manifest(name, &requirements, &json!({}));
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
    create(driver, &NODE_POOLS, pool);
}

/// A capacity reservation of one instance.
fn reserved(id: &str, interruptible: bool) -> CapacityReservation {
    CapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        total: 1,
        available: 1,
        open: false,
        start: Timestamp::UNIX_EPOCH,
        end: None,
        interruptible,
    }
}

/// Pods of which an m5.large fits one.
fn deploy(driver: &Driver, pool: &str, replicas: i64) {
    deploy_with(driver, pool, replicas, &json!({}));
}

/// The same, with these fields of their spec.
fn deploy_with(driver: &Driver, pool: &str, replicas: i64, fields: &Value) {
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.9",
        "resources": { "requests": { "cpu": "1500m", "memory": "256Mi" } } });
    let mut spec = json!({ "nodeSelector": { "karpenter.sh/nodepool": pool }, "containers": [container] });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    create(
        driver,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": pool },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": pool } },
                "template": { "metadata": { "labels": { "app": pool } }, "spec": spec },
            },
        }),
    );
}

fn running(driver: &Driver, pool: &str) -> usize {
    let pods = list(driver, &PODS);
    pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == pool && pod["status"]["phase"] == "Running").count()
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

fn shortages(driver: &Driver) -> Vec<Shortage> {
    let read = driver.claims().unavailable(driver.world().now()).now_or_never().unwrap().unwrap();
    read.into_iter().map(|one| one.shortage).collect()
}

fn placement_group(driver: &Driver, strategy: &str, capacity: Option<u64>) -> Value {
    let (id, name) = ("pg-0a000000000000001".to_owned(), strategy.to_owned());
    let partitions = if strategy == "partition" { 3 } else { 0 };
    let group = PlacementGroup { id, strategy: name.clone(), name: name.clone(), partitions, capacity };
    driver.world().ec2().change_account(|account| account.placement_groups.push(group));
    json!({ "placementGroupSelector": { "name": name } })
}

/// The instances in each of these zones.
fn alive(driver: &Driver, zones: [&str; 2]) -> [usize; 2] {
    let instances = driver.world().ec2().instances();
    let alive = |it: &&nodeless_fake_aws::Instance| {
        !matches!(it.state, InstanceState::Terminated | InstanceState::ShuttingDown)
    };
    zones.map(|zone| instances.iter().filter(alive).filter(|it| it.offering.zone == zone).count())
}

#[test]
fn a_full_cluster_placement_group_stops_no_launch_outside_it() {
    let mut driver = start();
    let selector = placement_group(&driver, "cluster", Some(1));
    configure(&driver, "close", &["us-east-1a"], "on-demand", &selector);
    configure(&driver, "plain", &["us-east-1a"], "on-demand", &json!({}));
    driver.advance_to(within(&driver, 60)).unwrap();
    deploy(&driver, "close", 2);
    wait(&mut driver, 120, "the group lacks capacity", |it| running(it, "close") == 1 && shortages(it).len() == 2);
    let of_group = |one: &Shortage| one.placement_group.as_deref() == Some("pg-0a000000000000001");
    assert!(shortages(&driver).iter().all(of_group), "{:?}", shortages(&driver));
    deploy(&driver, "plain", 2);
    wait(&mut driver, 120, "the others run", |it| running(it, "plain") == 2);
    assert_eq!(running(&driver, "close"), 1);
}

#[test]
fn a_spread_placement_group_that_is_full_in_a_zone_is_not_tried_with_other_types() {
    let mut driver = start();
    let zones = ["us-east-1a", "us-east-1b"];
    let selector = placement_group(&driver, "spread", None);
    configure(&driver, "apart", &zones, "on-demand", &selector);
    configure(&driver, "plain", &["us-east-1a"], "on-demand", &json!({}));
    driver.advance_to(within(&driver, 60)).unwrap();
    deploy(&driver, "apart", 15);
    wait(&mut driver, 120, "both zones are full", |it| shortages(it).len() == 2);
    assert_eq!(alive(&driver, zones), [7, 7], "seven in a zone");
    let full = |zone| Shortage { placement_group: Some("pg-0a000000000000001".into()), ..Shortage::of_zone(zone) };
    assert_eq!(shortages(&driver), zones.map(full), "of all types");
    deploy(&driver, "plain", 1);
    wait(&mut driver, 150, "the others run", |it| running(it, "plain") == 1 && running(it, "apart") == 14);
    assert_eq!(alive(&driver, zones), [8, 7]);
}

/// The partitions of the nodes with running pods of a Deployment, in order, by their label and by EC2.
fn partitions(driver: &Driver, pool: &str) -> (Vec<String>, Vec<u32>) {
    let nodes = list(driver, &NODES);
    let all = nodes.iter().map(|node| &node["metadata"]["labels"]);
    let of_pool = all.filter(|all| all["karpenter.sh/nodepool"] == pool);
    let label = |all: &Value| all[labels::PLACEMENT_GROUP_PARTITION].as_str().unwrap_or("none").to_owned();
    let mut labelled: Vec<String> = of_pool.map(label).collect();
    let instances = driver.world().ec2().instances();
    let mut actual: Vec<u32> = instances.iter().filter_map(|instance| instance.partition).collect();
    labelled.sort();
    actual.sort_unstable();
    (labelled, actual)
}

#[test]
fn pods_are_spread_over_the_partitions_of_a_placement_group() {
    let mut driver = start();
    let selector = placement_group(&driver, "partition", None);
    configure(&driver, "parts", &["us-east-1a"], "on-demand", &selector);
    driver.advance_to(within(&driver, 60)).unwrap();
    let spread = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": labels::PLACEMENT_GROUP_PARTITION, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "parts" } },
    }] });
    deploy_with(&driver, "parts", 6, &spread);
    wait(&mut driver, 180, "all run", |it| running(it, "parts") == 6);
    let (labelled, actual) = partitions(&driver, "parts");
    assert_eq!(labelled, ["1", "1", "2", "2", "3", "3"]);
    assert_eq!(actual, [1, 1, 2, 2, 3, 3]);
}

#[test]
fn nodes_get_the_partition_that_ec2_chose() {
    let mut driver = start();
    let selector = placement_group(&driver, "partition", None);
    configure(&driver, "any", &["us-east-1a"], "on-demand", &selector);
    driver.advance_to(within(&driver, 60)).unwrap();
    deploy(&driver, "any", 4);
    wait(&mut driver, 180, "all run", |it| running(it, "any") == 4);
    let templates = driver.world().ec2().instances();
    let requested = |it: &nodeless_fake_aws::Instance| it.data.other["Placement"].get("PartitionNumber").is_some();
    assert!(!templates.iter().any(requested), "EC2 chooses");
    let (labelled, actual) = partitions(&driver, "any");
    assert_eq!((labelled, actual), (["1", "1", "2", "3"].map(str::to_owned).to_vec(), vec![1, 1, 2, 3]));
}

#[test]
fn a_full_partition_stops_no_launch_into_another_one() {
    let mut driver = start();
    let selector = placement_group(&driver, "partition", Some(1));
    configure(&driver, "full", &["us-east-1a"], "on-demand", &selector);
    driver.advance_to(within(&driver, 60)).unwrap();
    let second = json!({ "nodeSelector": { "karpenter.sh/nodepool": "full", labels::PLACEMENT_GROUP_PARTITION: "2" } });
    deploy_with(&driver, "full", 2, &second);
    wait(&mut driver, 180, "the partition is full", |it| running(it, "full") == 1 && shortages(it).len() == 2);
    let of_partition = |one: &Shortage| one.placement_group.is_some() && one.partition == Some(2);
    assert!(shortages(&driver).iter().all(of_partition), "{:?}", shortages(&driver));
    configure(
        &driver,
        "beside",
        &["us-east-1a"],
        "on-demand",
        &json!({ "placementGroupSelector": { "name": "partition" } }),
    );
    deploy(&driver, "beside", 2);
    wait(&mut driver, 120, "the others run", |it| running(it, "beside") == 2);
    let (labelled, actual) = partitions(&driver, "beside");
    assert_eq!((labelled, actual), (["1", "3"].map(str::to_owned).to_vec(), vec![1, 2, 3]));
}

#[test]
fn a_full_reservation_stops_no_launch_into_another_one() {
    let mut driver = start();
    let ids = ["cr-0a000000000000001", "cr-0a000000000000002"];
    let ec2 = driver.world().ec2().clone();
    ec2.change_account(|account| account.capacity_reservations = ids.map(|id| reserved(id, false)).to_vec());
    let terms: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    configure(&driver, "paid", &["us-east-1a"], "reserved", &json!({ "capacityReservationSelectorTerms": terms }));
    driver.advance_to(within(&driver, 60)).unwrap();
    // Someone else uses the first one, and the catalog does not know it yet.
    ec2.change_account(|account| account.capacity_reservations[0].available = 0);
    deploy(&driver, "paid", 1);
    wait(&mut driver, 120, "it runs", |it| running(it, "paid") == 1);
    let full: Vec<Option<String>> = shortages(&driver).into_iter().map(|one| one.reservation_id).collect();
    assert_eq!(full, [Some(ids[0].to_owned())]);
    let claims = driver.claims().list().now_or_never().unwrap().unwrap();
    let launched = claims.iter().find(|claim| claim.status.instance.is_some()).unwrap();
    let label = launched.status.labels.get(nodeless_model::labels::CAPACITY_RESERVATION_ID);
    assert_eq!(label.map(String::as_str), Some(ids[1]), "of the reservation that it is in");
}

#[test]
fn an_interruptible_reservation_is_used_after_others_until_its_owner_reclaims_it() {
    let mut driver = start();
    let [lent, own] = ["cr-0a000000000000001", "cr-0a000000000000002"];
    let ec2 = driver.world().ec2().clone();
    ec2.change_account(|account| {
        account.capacity_reservations = vec![reserved(lent, true), reserved(own, false)];
    });
    let terms = json!([{ "id": lent }, { "id": own }]);
    configure(&driver, "paid", &["us-east-1a"], "reserved", &json!({ "capacityReservationSelectorTerms": terms }));
    driver.advance_to(within(&driver, 60)).unwrap();
    let in_reservation = |id: &str| {
        let instances = ec2.instances();
        let alive =
            instances.into_iter().filter(|it| matches!(it.state, InstanceState::Pending | InstanceState::Running));
        alive.filter(|it| it.capacity_reservation_id.as_deref() == Some(id)).map(|it| it.id).collect::<Vec<_>>()
    };
    deploy(&driver, "paid", 1);
    wait(&mut driver, 120, "it runs", |it| running(it, "paid") == 1);
    assert_eq!((in_reservation(lent).len(), in_reservation(own).len()), (0, 1), "in what no one reclaims");
    let more = json!({ "spec": { "replicas": 2 } });
    driver
        .world()
        .api()
        .patch(&DEPLOYMENTS, "default", "paid", None, PatchType::Merge, &more, &PatchOptions::default())
        .unwrap();
    wait(&mut driver, 150, "both run", |it| running(it, "paid") == 2);
    let interruptible: Vec<Value> = list(&driver, &NODES)
        .iter()
        .map(|node| node["metadata"]["labels"][labels::CAPACITY_RESERVATION_INTERRUPTIBLE].clone())
        .filter(|label| !label.is_null())
        .collect();
    assert!(interruptible.contains(&json!("true")) && interruptible.contains(&json!("false")), "{interruptible:?}");

    let reclaimed = in_reservation(lent);
    ec2.reclaim_capacity(&reclaimed[0]).unwrap();
    wait(&mut driver, 100, "it is drained before EC2 terminates it", |it| running(it, "paid") == 1);
    wait(&mut driver, 120, "it is gone", |_| in_reservation(lent).is_empty());
    assert_eq!(in_reservation(own).len(), 1);
}

#[test]
fn a_drifted_node_leaves_its_place_in_a_full_reservation_to_its_replacement() {
    let mut driver = start();
    let id = "cr-0a000000000000001";
    let ec2 = driver.world().ec2().clone();
    ec2.change_account(|account| account.capacity_reservations = vec![reserved(id, false)]);
    let terms = json!([{ "id": id }]);
    configure(&driver, "paid", &["us-east-1a"], "reserved", &json!({ "capacityReservationSelectorTerms": terms }));
    driver.advance_to(within(&driver, 60)).unwrap();
    deploy(&driver, "paid", 1);
    wait(&mut driver, 120, "it runs", |it| running(it, "paid") == 1);
    let change = |driver: &Driver, change: Value| {
        let api = driver.world().api();
        api.patch(&NODE_POOLS, "", "paid", None, PatchType::Merge, &change, &PatchOptions::default()).unwrap();
    };
    change(&driver, json!({ "spec": { "template": { "metadata": { "labels": { "version": "two" } } } } }));
    let on = |driver: &Driver, version: &str| {
        list(driver, &NODES).iter().filter(|node| node["metadata"]["labels"]["version"] == version).count()
    };
    let limit = within(&driver, 600);
    driver.advance_to(limit).unwrap();
    assert_eq!((on(&driver, "two"), running(&driver, "paid")), (0, 1), "the drifted node stays");
    change(&driver, json!({ "metadata": { "annotations": { labels::TERMINATE_FIRST: "drift" } } }));
    wait(&mut driver, 900, "its replacement runs the pod", |it| on(it, "two") == 1 && running(it, "paid") == 1);
    let instances = ec2.instances();
    let alive = instances.iter().filter(|it| matches!(it.state, InstanceState::Pending | InstanceState::Running));
    let used: Vec<Option<&str>> = alive.map(|it| it.capacity_reservation_id.as_deref()).collect();
    assert_eq!(used.iter().filter(|used| **used == Some(id)).count(), 1, "{used:?}");
}
