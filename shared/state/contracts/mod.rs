//! The rules of the stored state, as checks that run over a table in memory and over DynamoDB Local.

use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::{
    CapacityType, ClusterLimits, EndedNode, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase, Quantity, ResourceList,
};
use nodeless_ports::ErrorKind;
use nodeless_state::capacity::SpotInterruption;
use nodeless_state::claims::{ChangedClaim, MAX_TOGETHER};
use nodeless_state::costs::{StoredCosts, StoredHour};
use nodeless_state::limits::LaunchLimits;
use nodeless_state::plans::{Commit, Committed, Leaving};
use nodeless_state::{State, StoredShard};
use std::collections::BTreeMap;

/// A shard is written over the version that was read, keeps its contents, and may be empty.
pub(crate) async fn a_shard_is_written_only_over_the_version_that_was_read(table: &State) {
    assert_eq!(table.shard(0).await.unwrap(), None);
    assert_eq!(table.shards().await.unwrap(), []);
    let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap();
    // The maximum number of claims of a shard, with names of maximum length.
    let due: BTreeMap<String, Timestamp> =
        (0..256).map(|number| (format!("{}{number:05}", "a".repeat(58)), at(1_800_000_000_123 + number))).collect();
    let mut shard = StoredShard { shard: 10, version: 0, due, message: Some(at(1_800_000_001_000)), messages: 3 };
    shard.version = table.put_shard(&shard).await.unwrap();
    assert_eq!(shard.version, 1);
    assert_eq!(table.shard(10).await.unwrap().as_ref(), Some(&shard));
    let stale = StoredShard { version: 0, ..shard.clone() };
    assert_eq!(table.put_shard(&stale).await.unwrap_err().kind, ErrorKind::Conflict);

    let empty = StoredShard { due: BTreeMap::new(), message: None, ..shard.clone() };
    assert_eq!(table.put_shard(&empty).await.unwrap(), 2);
    assert_eq!(table.put_shard(&shard).await.unwrap_err().kind, ErrorKind::Conflict, "it is of another version now");
    assert_eq!(table.put_shard(&StoredShard { shard: 2, ..StoredShard::default() }).await.unwrap(), 1);
    let numbers: Vec<(u32, u64, usize)> =
        table.shards().await.unwrap().iter().map(|it| (it.shard, it.version, it.due.len())).collect();
    assert_eq!(numbers, [(2, 1, 0), (10, 2, 0)]);
}

pub(crate) fn claim(name: &str, cpus: i64) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: Timestamp::UNIX_EPOCH,
        version: 0,
        spec: NodeClaimSpec { charge: charge(cpus), ..NodeClaimSpec::default() },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

fn charge(cpus: i64) -> Charge {
    Charge { resources: ResourceList::from([("cpu", Quantity::from_units(cpus))]), dollars_per_hour: 0.1 }
}

/// A claim without a NodePool is written once for its uid, and charged to none.
pub(crate) async fn a_claim_without_a_node_pool_is_charged_to_none(table: &State) {
    let single = NodeClaim { node_pool: None, ..claim("single", 4) };
    let claims = [single.clone()];
    let limits = LaunchLimits::default();
    let launch = async |claims: &[NodeClaim], revision| table.commit(Commit::Launch(claims, &limits), revision).await;
    let revision = table.plan_revision().await.unwrap();
    assert_eq!(launch(&claims, revision).await.unwrap(), Committed::Written);
    assert_eq!(launch(&claims, revision + 1).await.unwrap(), Committed::AlreadyThere);
    let other = NodeClaim { uid: "other".into(), ..single };
    assert_eq!(launch(&[other], revision + 1).await.unwrap_err().kind, ErrorKind::Conflict);
    let written = table.get("single").await.unwrap().unwrap();
    assert_eq!((written.node_pool.as_ref(), written.uid.as_str()), (None, "uid-single"));
    table.update(&written, Some(&charge(1))).await.unwrap();
    table.delete(&table.get("single").await.unwrap().unwrap()).await.unwrap();
    assert!(table.get("single").await.unwrap().is_none() && table.usage().await.unwrap().is_empty());
}

/// Claims and their charges are written all or nothing.
pub(crate) async fn claims_are_updated_all_or_none(table: &State) {
    table.create_together(&[claim("a", 4), claim("b", 4)], None).await.unwrap();
    let read = table.list().await.unwrap();
    let changes: Vec<ChangedClaim> = read
        .iter()
        .map(|claim| {
            let charge = (claim.name == "a").then(|| charge(1));
            ChangedClaim { claim: NodeClaim { phase: Phase::Launched, ..claim.clone() }, charge }
        })
        .collect();
    table.update_together(&changes).await.unwrap();
    let usage = async || table.usage().await.unwrap()["default"].resources.get("cpu").units();
    assert_eq!(usage().await, 5);
    let written = table.list().await.unwrap();
    let versions: Vec<_> = written.iter().map(|claim| (claim.version, claim.phase)).collect();
    assert_eq!(versions, [(2, Phase::Launched), (2, Phase::Launched)]);
    assert_eq!(written[0].spec.charge, charge(1), "the charge is on the claim, too");

    // A claim that was written meanwhile fails the whole write.
    table.update(&written[1], None).await.unwrap();
    let again: Vec<ChangedClaim> = written
        .iter()
        .map(|claim| ChangedClaim {
            claim: NodeClaim { phase: Phase::Registered, ..claim.clone() },
            charge: Some(charge(2)),
        })
        .collect();
    assert_eq!(table.update_together(&again).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(table.get("a").await.unwrap().unwrap().phase, Phase::Launched);
    assert_eq!(usage().await, 5);
    assert_eq!(table.update_together(&[]).await.unwrap_err().kind, ErrorKind::Invalid);
    let many: Vec<ChangedClaim> =
        (0..=MAX_TOGETHER).map(|_| ChangedClaim { claim: written[0].clone(), charge: None }).collect();
    assert_eq!(table.update_together(&many).await.unwrap_err().kind, ErrorKind::Invalid);
}

/// Interruptions are recorded once for each instance, and forgotten after their time.
pub(crate) async fn interruptions_are_remembered_until_their_time(table: &State) {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let one = |zone: &str, instance: &str, began, until| SpotInterruption {
        instance_type: "m6i.large".into(),
        zone: zone.into(),
        instance_id: instance.into(),
        at: at(began),
        until: at(until),
    };
    assert_eq!(table.interruptions(at(0)).await.unwrap(), []);
    let all = [one("us-east-1b", "i-1", 10, 100), one("us-east-1a", "i-2", 20, 200), one("us-east-1a", "i-3", 20, 200)];
    table.record_interruptions(&all).await.unwrap();
    table.record_interruptions(&[one("us-east-1a", "i-2", 25, 205)]).await.unwrap();
    let expected = [one("us-east-1a", "i-2", 25, 205), all[2].clone(), all[0].clone()];
    assert_eq!(table.interruptions(at(50)).await.unwrap(), expected);
    assert_eq!(table.interruptions(at(100)).await.unwrap(), expected[..2]);
    table.record_interruptions(&[]).await.unwrap();
}

/// The launches of all NodePools together stay within the limits of the cluster, also if plans run concurrently.
pub(crate) async fn launches_stay_within_the_limits_of_the_cluster(table: &State) {
    // Each claim costs 0.1 dollars.
    let cluster = ClusterLimits { resources: charge(5).resources, dollars_per_hour: Some(0.25) };
    let limits = LaunchLimits { cluster, ..LaunchLimits::default() };
    let of = |pool: &str, name: &str, cpus| [NodeClaim { node_pool: Some(pool.into()), ..claim(name, cpus) }];
    let commit = async |launch: [NodeClaim; 1], revision| {
        table.commit(Commit::Launch(&launch, &limits), revision).await.unwrap()
    };
    let reached = |resource: &str| Committed::ClusterLimitReached { resource: resource.into() };
    assert_eq!(commit(of("one", "a", 3), 0).await, Committed::Written);
    assert_eq!(commit(of("two", "b", 3), 1).await, reached("cpu"));
    // A plan that has read the usage before the first launch is not committed.
    assert_eq!(commit(of("two", "b", 1), 0).await, Committed::Overtaken);
    assert_eq!(commit(of("two", "b", 1), 1).await, Committed::Written);
    assert_eq!(commit(of("three", "c", 1), 2).await, reached("dollars-per-hour"));
    assert_eq!(table.plan_revision().await.unwrap(), 2, "what is refused does not change the plan revision");
    // Capacity that another NodePool releases is usable at once.
    let leaving = Leaving { claim: table.get("a").await.unwrap().unwrap(), charge: Some(Charge::default()) };
    assert_eq!(table.commit(Commit::Leave(&[leaving]), 2).await.unwrap(), Committed::Written);
    assert_eq!(commit(of("three", "c", 4), 3).await, Committed::Written);
}

/// Records of hours are written with the open record or not at all, again without a difference, and are read by their time.
pub(crate) async fn costs_are_written_only_over_the_version_that_was_read(table: &State) {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(table.open_costs().await.unwrap(), StoredCosts::default());
    let open = |version, text: &str| StoredCosts { version, encoded: text.into() };
    assert_eq!(table.put_costs(&open(0, "first"), &[]).await.unwrap(), 1);
    assert_eq!(table.put_costs(&open(0, "second"), &[]).await.unwrap_err().kind, ErrorKind::Conflict);
    let hour = |hour: &str, node_pool: &str, text: &str| StoredHour {
        hour: at(hour),
        node_pool: node_pool.to_owned(),
        encoded: text.into(),
    };
    let hours = [hour("2026-11-23T13:00:00Z", "a", "13a"), hour("2026-11-23T13:00:00Z", "b", "13b")];
    assert_eq!(table.put_costs(&open(0, "late"), &hours).await.unwrap_err().kind, ErrorKind::Conflict);
    let all = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    assert_eq!(table.hours(all.0, all.1).await.unwrap(), [], "nothing is written without the open record");
    assert_eq!(table.put_costs(&open(1, "second"), &hours).await.unwrap(), 2);
    assert_eq!(table.open_costs().await.unwrap(), open(2, "second"));

    // More than fit into one transaction, with one that is there.
    let more: Vec<StoredHour> =
        (0..120).map(|number| hour("2026-11-23T14:00:00Z", &format!("p{number:03}"), "14")).collect();
    let more: Vec<StoredHour> = hours.iter().cloned().chain(more).collect();
    assert_eq!(table.put_costs(&open(2, "third"), &more).await.unwrap(), 3);
    assert_eq!(table.hours(all.0, all.1).await.unwrap(), more, "in the order of hour and NodePool");
    let thirteen = table.hours(at("2026-11-23T13:00:00Z"), at("2026-11-23T14:00:00Z")).await.unwrap();
    assert_eq!(thirteen, hours, "without the hour at which it ends");
    assert_eq!(table.hours(at("2026-11-23T14:00:00Z"), at("2026-11-23T13:00:00Z")).await.unwrap(), []);
}

/// The record of an instance that ended is written with the deletion of its claim, once.
pub(crate) async fn an_instance_that_ends_is_kept_with_the_deletion_of_its_claim(table: &State) {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    table.create_together(&[claim("a", 4), claim("b", 4)], None).await.unwrap();
    let ended = |name: &str, second: i64| EndedNode {
        took_no_pod: false,
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".into()),
        instance_id: format!("i-{name}"),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        price: 0.04,
        volumes_per_month: Some(1.6),
        launched: at(0),
        initialized: None,
        leaving: Some(at(5)),
        stopped: None,
        ended: at(second),
        reason: None,
    };
    let read = table.list().await.unwrap();
    let stale = NodeClaim { version: 7, ..read[0].clone() };
    assert_eq!(table.delete_ended(&stale, Some(&ended("a", 10))).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(table.ended_nodes(at(0)).await.unwrap(), []);
    table.delete_ended(&read[0], Some(&ended("a", 10))).await.unwrap();
    // The claim is gone: the second deletion writes nothing.
    table.delete_ended(&read[0], Some(&ended("a", 20))).await.unwrap();
    table.delete_ended(&read[1], Some(&ended("b", 30))).await.unwrap();
    assert_eq!(table.ended_nodes(at(0)).await.unwrap(), [ended("a", 10), ended("b", 30)]);
    assert_eq!(table.ended_nodes(at(10)).await.unwrap().len(), 2);
    assert_eq!(table.ended_nodes(at(11)).await.unwrap(), [ended("b", 30)]);
    assert!(table.list().await.unwrap().is_empty());
}

/// A claim whose stopped instance is taken is written and charged in one write, within the limits.
pub(crate) async fn a_stopped_claim_is_charged_when_it_is_started(table: &State) {
    let nothing = Charge::default();
    let stopped = NodeClaim { spec: NodeClaimSpec { charge: nothing, ..NodeClaimSpec::default() }, ..claim("a", 0) };
    table.create_together(std::slice::from_ref(&stopped), None).await.unwrap();
    let read = table.get("a").await.unwrap().unwrap();
    let within = |cpus: i64| {
        let resources = ResourceList::from([("cpu", Quantity::from_units(cpus))]);
        LaunchLimits {
            node_pool: nodeless_state::limits::PoolLimits { resources, dollars_per_hour: None },
            cluster: ClusterLimits::default(),
        }
    };
    let four = charge(4);
    let start = async |claim: &NodeClaim, limits: &LaunchLimits, revision| {
        table.commit(Commit::Start(claim, &four, limits), revision).await
    };
    let reached = Committed::LimitReached { resource: "cpu".to_owned() };
    assert_eq!(start(&read, &within(3), 0).await.unwrap(), reached);
    let cluster =
        ClusterLimits { resources: ResourceList::from([("cpu", Quantity::from_units(3))]), ..ClusterLimits::default() };
    let limits = LaunchLimits { cluster, ..within(9) };
    assert!(matches!(start(&read, &limits, 0).await.unwrap(), Committed::ClusterLimitReached { .. }));
    assert_eq!(table.get("a").await.unwrap().unwrap(), read, "nothing was written");
    assert_eq!(start(&read, &within(4), 0).await.unwrap(), Committed::Written);
    let written = table.get("a").await.unwrap().unwrap();
    assert_eq!((written.version, &written.spec.charge, table.plan_revision().await.unwrap()), (2, &four, 1));
    assert_eq!(table.usage().await.unwrap()["default"].resources.get("cpu").units(), 4);
    assert_eq!(start(&written, &within(9), 0).await.unwrap(), Committed::Overtaken, "another plan was made");
    assert_eq!(start(&read, &within(9), 1).await.unwrap_err().kind, ErrorKind::Conflict, "another process wrote it");
}
