//! Reserved Instances of the account, in virtual time.

use crate::support::{create, list, picture, start, within};
use jiff::SignedDuration;
use nodeless_api::test_support::node_pool_manifest;
use nodeless_driver::Driver;
use nodeless_fake_aws::{CapacityType, InstanceState};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, PODS};
use nodeless_model::listed_commitments::{AccountCommitments, ListedReservedInstances};
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::BTreeSet;

const POOL: &str = "prepaid";

/// Two regional Reserved Instances m5.large that end after some hours.
fn reserve(driver: &Driver, hours: i64) {
    let now = driver.world().now();
    let reserved = ListedReservedInstances {
        id: "ri".into(),
        instance_type: "m5.large".into(),
        instance_count: 2,
        availability_zone: None,
        product_description: "Linux/UNIX".into(),
        instance_tenancy: "default".into(),
        currency_code: "USD".into(),
        state: "active".into(),
        start: now - SignedDuration::from_hours(24),
        end: now + SignedDuration::from_hours(hours),
        duration: 31_536_000.0,
        fixed_price: 500.0,
        usage_price: 0.0,
        recurring_charges: Vec::new(),
    };
    let all = AccountCommitments { reserved: vec![reserved], ..AccountCommitments::default() };
    driver.world().ec2().change_account(|account| account.commitments = Some(all));
}

/// A NodePool that may launch spot, and pods of which a node of its types fits one.
fn deploy(driver: &Driver, replicas: i64) {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m6i.large"] },
    ]);
    let fields =
        json!({ "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s" } });
    create(driver, &NODE_POOLS, node_pool_manifest(POOL, &requirements, &fields));
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.9",
        "resources": { "requests": { "cpu": "1500m", "memory": "256Mi" } } });
    let spec = json!({ "nodeSelector": { "karpenter.sh/nodepool": POOL }, "containers": [container] });
    let template = json!({ "metadata": { "labels": { "app": POOL } }, "spec": spec });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": { "app": POOL } }, "template": template });
    create(driver, &DEPLOYMENTS, json!({ "metadata": { "name": POOL }, "spec": spec }));
}

fn running(driver: &Driver) -> usize {
    list(driver, &PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

/// The ids of the instances that run as m5.large on demand, and of the others.
fn alive(driver: &Driver) -> (BTreeSet<String>, BTreeSet<String>) {
    let instances = driver.world().ec2().instances();
    let alive =
        instances.iter().filter(|it| !matches!(it.state, InstanceState::Terminated | InstanceState::ShuttingDown));
    let prepaid = |it: &&nodeless_fake_aws::Instance| {
        it.offering.instance_type == "m5.large" && it.offering.capacity_type == CapacityType::OnDemand
    };
    let (prepaid, others): (Vec<_>, Vec<_>) = alive.partition(prepaid);
    let ids = |all: Vec<&nodeless_fake_aws::Instance>| all.into_iter().map(|it| it.id.clone()).collect();
    (ids(prepaid), ids(others))
}

#[test]
fn reserved_instances_are_used_and_kept_until_they_end() {
    let mut driver = start();
    reserve(&driver, 2);
    driver.advance_to(within(&driver, 400)).unwrap();
    deploy(&driver, 3);
    let limit = within(&driver, 180);
    assert!(driver.advance_until(limit, |it| running(it) == 3).unwrap(), "{}", picture(&mut driver));
    let launched = alive(&driver);
    assert_eq!((launched.0.len(), launched.1.len()), (2, 1), "{}", picture(&mut driver));

    driver.advance_to(within(&driver, 3600)).unwrap();
    assert_eq!(alive(&driver), launched, "spot costs less than on-demand, and more than nothing");

    let limit = within(&driver, 2 * 3600);
    let ended = driver.advance_until(limit, |it| alive(it).0.is_empty() && running(it) == 3).unwrap();
    assert!(ended, "spot costs less now: {}", picture(&mut driver));
}
