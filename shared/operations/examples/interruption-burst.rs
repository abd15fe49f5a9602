//! What a burst of spot warnings costs: calls, and CPU time of this code, against ports in memory.
//!
//! ```text
//! cargo run --release -p nodeless-operations --example interruption-burst -- 1000
//! ```
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Town, pod};
use jiff::Timestamp;
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::{NodeCondition, provider_id};
use nodeless_model::pod::PodPhase;
use nodeless_model::{
    CapacityType, ConditionStatus, Instance, InstanceState, Node, NodeClaim, Phase, Pod, Quantity, ResourceList,
    StringMap, labels,
};
use nodeless_ports::Claims;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// CPU time of this thread in milliseconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

async fn seed(town: &Town, count: usize) {
    town.cluster.lock().pools[0].limits = ResourceList::new();
    let at = Timestamp::from_second(1_799_990_000).unwrap();
    for number in 0..count {
        let (id, zone) = (format!("i-{number:017}"), ZONES[number % ZONES.len()]);
        let name = format!("default-{number:05}");
        let node = format!("ip-{number}.ec2.internal");
        let mut claim = NodeClaim {
            name: name.clone(),
            uid: format!("uid-{name}"),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: at,
            version: 0,
            spec: NodeClaimSpec::default(),
            phase: Phase::Initialized,
            status: NodeClaimStatus {
                instance: Some(LaunchedInstance {
                    id: id.clone(),
                    instance_type: "m6i.xlarge".into(),
                    zone: zone.into(),
                    capacity_type: CapacityType::Spot,
                    price: 0.08,
                    image_id: "ami-1".into(),
                    private_dns_name: Some(node.clone()),
                    reservation_id: None,
                    launched: at,
                }),
                node_name: Some(node.clone()),
                ..NodeClaimStatus::default()
            },
        };
        for kind in [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED] {
            claim.set_condition(kind, ConditionStatus::True, kind, "", at);
        }
        town.claims.create(&claim, None).await.unwrap();
        town.cloud.put(Instance {
            id: id.clone(),
            state: InstanceState::Running,
            instance_type: "m6i.xlarge".into(),
            zone: zone.into(),
            capacity_type: CapacityType::Spot,
            image_id: "ami-1".into(),
            subnet_id: None,
            security_group_ids: Vec::new(),
            private_dns_name: Some(node.clone()),
            reservation_id: None,
            launched: at,
            tags: StringMap::from([(labels::NODE_POOL.into(), "default".into())]),
        });
        let room = ResourceList::from([
            ("cpu", Quantity::from_milli(3900)),
            ("memory", Quantity::from_mebibytes(15_000)),
            ("pods", Quantity::from_units(58)),
        ]);
        let mut state = town.cluster.lock();
        state.nodes.insert(
            node.clone(),
            Node {
                name: node.clone(),
                uid: format!("uid-{node}"),
                provider_id: Some(provider_id(zone, &id)),
                labels: StringMap::from([
                    (labels::NODE_POOL.into(), "default".into()),
                    (labels::REGISTERED.into(), "true".into()),
                    (labels::INITIALIZED.into(), "true".into()),
                ]),
                finalizers: vec![labels::TERMINATION_FINALIZER.into()],
                capacity: room.clone(),
                allocatable: room,
                conditions: vec![NodeCondition { kind: "Ready".into(), status: Some(true), since: Some(at) }],
                created: Some(at),
                ..Node::default()
            },
        );
        let web = Pod {
            node_name: Some(node),
            phase: PodPhase::Running,
            marked_unschedulable: false,
            ..pod(&format!("web-{number:05}"), 3000)
        };
        state.pods.insert(web.key(), web);
    }
    town.faults.revive();
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count: usize = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let town = Town::new().await;
    seed(&town, count).await;
    let warnings: Vec<String> = (0..count)
        .map(|number| {
            format!(
                r#"{{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{{"instance-id":"i-{number:017}"}}}}"#
            )
        })
        .collect();
    let interrupter = town.interrupter();
    let began = cpu();
    for batch in warnings.chunks(10) {
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        assert!(interrupter.run_all(&batch).await.iter().all(Result::is_ok));
    }
    let (writes, _) = town.faults.revive();
    println!(
        "interruption: {count} warnings, {} batches, {writes} writes, {:.0} ms CPU",
        count.div_ceil(10),
        cpu() - began
    );

    let began = cpu();
    let report = town.planner().run().await.unwrap();
    let (writes, _) = town.faults.revive();
    println!(
        "plan: {} pods, {} nodes launched, {} without a place, {writes} writes, {:.0} ms CPU",
        report.pods,
        report.created.len(),
        report.unschedulable.len(),
        cpu() - began
    );

    let began = cpu();
    let names: Vec<String> = (0..count).map(|number| format!("default-{number:05}")).collect();
    for name in &names {
        town.reconciler().run(name).await.unwrap();
    }
    let (writes, _) = town.faults.revive();
    let left = town.cluster.lock().pods.values().filter(|pod| pod.node_name.is_some()).count();
    println!("first look at each drain: {writes} writes, {left} pods left, {:.0} ms CPU", cpu() - began);
}
