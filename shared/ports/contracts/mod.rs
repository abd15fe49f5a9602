//! The contract of each port, as checks that the tests of the implementations include and run.

use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::{NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase, Quantity, ResourceList};
use nodeless_ports::claims::{ChangedClaim, MAX_TOGETHER};
use nodeless_ports::{Claims, ErrorKind, Shards, StoredShard};
use std::collections::BTreeMap;

/// A shard is written over the version that was read, keeps its contents, and may be empty.
pub(crate) async fn a_shard_is_written_only_over_the_version_that_was_read(table: &impl Shards) {
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

fn claim(name: &str, cpus: i64) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: "default".into(),
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

/// Claims and their charges are written all or nothing.
pub(crate) async fn claims_are_updated_all_or_none(table: &impl Claims) {
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
