//! The claims table over the wire, against DynamoDB Local, whose conditions, transactions and limits match those of AWS.

#[path = "../../../../state/contracts/mod.rs"]
mod contracts;

use crate::common::{TABLE, charge, claim, config, instance, table};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use nodeless_model::claim::{LaunchGroup, OfferingKey};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::shortage::Shortage;
use nodeless_model::{CapacityType, NodeClaim, Phase, Quantity, ResourceList};
use nodeless_ports::ErrorKind;
use nodeless_state::capacity::{LaunchBudget, UnavailableOffering};
use nodeless_state::claims::{Created, MAX_TOGETHER};
use nodeless_state::launch_groups::StoredLaunchGroup;
use nodeless_state::limits::PoolLimits;
use nodeless_state::{CLUSTERS, ServedCluster, served_clusters};
use nodeless_storage::DynamoTable;

/// The tests of what every table does.
macro_rules! contracts {
    ($($name:ident)*) => {$(
        #[tokio::test]
        async fn $name() {
            let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
            contracts::$name(&table(&config(&dynamodb.url).await).await).await;
        }
    )*};
}

contracts! {
    a_shard_is_written_only_over_the_version_that_was_read
    launches_stay_within_the_limits_of_the_cluster
    a_stopped_claim_is_charged_when_it_is_started
    claims_are_updated_all_or_none
    a_claim_without_a_node_pool_is_charged_to_none
    interruptions_are_remembered_until_their_time
    costs_are_written_only_over_the_version_that_was_read
    an_instance_that_ends_is_kept_with_the_deletion_of_its_claim
}

#[tokio::test]
async fn claims_and_their_charges_are_written_together() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let limits =
        PoolLimits { resources: ResourceList::from([("cpu", Quantity::from_units(10))]), dollars_per_hour: Some(1.0) };

    assert_eq!(claims.create(&claim("a", 4, 0.4), Some(&limits)).await.unwrap(), Created::Written);
    assert_eq!(claims.create(&claim("a", 4, 0.4), Some(&limits)).await.unwrap(), Created::AlreadyThere);
    let refused = claims.create(&claim("b", 7, 0.1), Some(&limits)).await.unwrap();
    assert_eq!(refused, Created::LimitReached { resource: "cpu".into() });
    let refused = claims.create(&claim("b", 1, 0.7), Some(&limits)).await.unwrap();
    assert_eq!(refused, Created::LimitReached { resource: "dollars-per-hour".into() });
    assert_eq!(claims.create(&claim("b", 6, 0.6), Some(&limits)).await.unwrap(), Created::Written);
    let other = NodeClaim { uid: "another".into(), ..claim("a", 1, 0.0) };
    assert_eq!(claims.create(&other, None).await.unwrap_err().kind, ErrorKind::Conflict);

    let usage = claims.usage().await.unwrap().remove("default").unwrap();
    assert_eq!(
        usage.resources,
        ResourceList::from([("cpu", Quantity::from_units(10)), ("nodes", Quantity::from_units(2))])
    );
    assert!((usage.dollars_per_hour - 1.0).abs() < 1e-9);

    // A write of an old version is rejected. A new charge changes the usage too.
    let mut read = claims.get("a").await.unwrap().unwrap();
    assert_eq!(read.version, 1);
    read.phase = Phase::Launched;
    read.status.instance = Some(instance("i-1"));
    assert_eq!(claims.update(&read, Some(&charge(2, 0.1))).await.unwrap(), 2);
    assert_eq!(claims.update(&read, None).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(claims.update(&read, Some(&charge(1, 0.1))).await.unwrap_err().kind, ErrorKind::Conflict);
    let usage = claims.usage().await.unwrap().remove("default").unwrap();
    assert_eq!(usage.resources.get("cpu"), Quantity::from_units(8));

    let found = claims.find_by_instance("i-1").await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.version, found.spec.charge.clone()), ("a", 2, charge(2, 0.1)));
    assert!(claims.find_by_instance("i-2").await.unwrap().is_none());

    // Deleting releases the charge once.
    assert_eq!(claims.delete(&read).await.unwrap_err().kind, ErrorKind::Conflict);
    claims.delete(&found).await.unwrap();
    claims.delete(&found).await.unwrap();
    let b = claims.get("b").await.unwrap().unwrap();
    claims.delete(&b).await.unwrap();
    assert!(claims.list().await.unwrap().is_empty());
    let usage = claims.usage().await.unwrap().remove("default").unwrap();
    assert!(usage.resources.iter().all(|(_, quantity)| quantity.is_zero()), "{usage:?}");
    assert_eq!(usage.dollars_per_hour, 0.0);
}

#[tokio::test]
async fn claims_of_a_group_are_written_all_or_none() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let limits =
        PoolLimits { resources: ResourceList::from([("cpu", Quantity::from_units(118))]), dollars_per_hour: None };
    let group: Vec<NodeClaim> = (0..MAX_TOGETHER).map(|index| claim(&format!("g-{index:02}"), 1, 0.1)).collect();
    assert_eq!(claims.create_together(&group, Some(&limits)).await.unwrap(), Created::Written);
    assert_eq!(claims.create_together(&group, Some(&limits)).await.unwrap(), Created::AlreadyThere);

    // A claim beyond the limit, a taken name, or a claim of another NodePool fails the whole write.
    let more: Vec<NodeClaim> = (0..22).map(|index| claim(&format!("h-{index:02}"), 1, 0.1)).collect();
    let refused = claims.create_together(&more, Some(&limits)).await.unwrap();
    assert_eq!(refused, Created::LimitReached { resource: "cpu".into() });
    let taken = [claim("i", 1, 0.1), NodeClaim { uid: "another".into(), ..claim("g-00", 1, 0.1) }];
    assert_eq!(claims.create_together(&taken, None).await.unwrap_err().kind, ErrorKind::Conflict);
    let half_ours = [claim("i", 1, 0.1), claim("g-00", 1, 0.1)];
    assert_eq!(claims.create_together(&half_ours, None).await.unwrap_err().kind, ErrorKind::Conflict);
    let strange = [claim("i", 1, 0.1), NodeClaim { node_pool: Some("other".into()), ..claim("j", 1, 0.1) }];
    assert_eq!(claims.create_together(&strange, None).await.unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(claims.create_together(&[], None).await.unwrap_err().kind, ErrorKind::Invalid);

    assert_eq!(claims.list().await.unwrap().len(), MAX_TOGETHER);
    let usage = claims.usage().await.unwrap().remove("default").unwrap();
    assert_eq!(usage.resources.get("cpu"), Quantity::from_units(97));
    assert_eq!(claims.create_together(&more[..21], Some(&limits)).await.unwrap(), Created::Written);
}

#[tokio::test]
async fn a_launch_group_is_written_with_its_claims_and_then_by_one_at_a_time() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let member = |index: u32| {
        let mut member = claim(&format!("g-{index:02}"), 1, 0.1);
        let size = u32::try_from(MAX_TOGETHER).unwrap();
        member.spec.launch_group = Some(LaunchGroup { id: "group".into(), index, size, all_or_none: false });
        member
    };
    // In any order.
    let group: Vec<NodeClaim> = (0..u32::try_from(MAX_TOGETHER).unwrap()).rev().map(member).collect();
    assert!(claims.launch_group("group").await.unwrap().is_none());
    assert_eq!(claims.create_together(&group, None).await.unwrap(), Created::Written);
    let mut stored = claims.launch_group("group").await.unwrap().unwrap();
    assert_eq!((stored.version, stored.members.len(), stored.owners.len()), (1, MAX_TOGETHER, 0));
    assert!(stored.members.is_sorted());
    let mut listed = claims.get_all(&stored.members).await.unwrap();
    assert_eq!(listed, claims.list().await.unwrap());
    assert!(listed.len() == MAX_TOGETHER && listed.is_sorted_by_key(|claim| claim.name.clone()));

    let now = Timestamp::from_second(1_800_000_000).unwrap();
    stored.owners.insert("i-1".into(), "g-00".into());
    assert_eq!(claims.put_launch_group(&stored, now).await.unwrap(), 2);
    assert_eq!(claims.put_launch_group(&stored, now).await.unwrap_err().kind, ErrorKind::Conflict);
    // Writing the same claims again leaves the record unchanged.
    assert_eq!(claims.create_together(&group, None).await.unwrap(), Created::AlreadyThere);
    let present = claims.launch_group("group").await.unwrap().unwrap();
    assert_eq!(present, StoredLaunchGroup { version: 2, ..stored });
    assert_eq!(
        claims.put_launch_group(&StoredLaunchGroup { version: 0, ..present }, now).await.unwrap_err().kind,
        ErrorKind::Conflict
    );

    claims.delete(&listed.remove(0)).await.unwrap();
    let names = [&listed[0].name, "g-00", &listed[0].name, "unknown"].map(|name| name.to_string());
    assert_eq!(claims.get_all(&names).await.unwrap(), [listed[0].clone()]);
    assert!(claims.get_all(&[]).await.unwrap().is_empty());
    // A single claim has no record.
    let mut alone = claim("alone", 1, 0.1);
    alone.spec.launch_group = Some(LaunchGroup { id: "alone".into(), index: 0, size: 1, all_or_none: false });
    claims.create(&alone, None).await.unwrap();
    assert!(claims.launch_group("alone").await.unwrap().is_none());
}

#[tokio::test]
async fn limits_hold_when_many_write_at_once() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let limits =
        PoolLimits { resources: ResourceList::from([("cpu", Quantity::from_units(5))]), dollars_per_hour: None };
    let writers: Vec<_> = (0..12)
        .map(|index| {
            let (claims, limits) = (claims.clone(), limits.clone());
            tokio::spawn(async move { claims.create(&claim(&format!("c-{index}"), 1, 0.1), Some(&limits)).await })
        })
        .collect();
    let mut written = 0;
    for writer in writers {
        // A writer that lost every race reports a conflict and writes nothing.
        written += usize::from(matches!(writer.await.unwrap(), Ok(Created::Written)));
    }
    let listed = claims.list().await.unwrap();
    assert_eq!(listed.len(), written);
    assert_eq!(written, 5);
    assert!(listed.is_sorted_by_key(|claim| claim.name.clone()));
}

#[tokio::test]
async fn usage_is_corrected_only_if_it_is_unchanged() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    claims.create(&claim("a", 4, 0.4), None).await.unwrap();
    let read = claims.usage().await.unwrap().remove("default").unwrap();
    claims.create(&claim("b", 1, 0.1), None).await.unwrap();
    let counted = PoolUsage { recounted: Some(Timestamp::UNIX_EPOCH), ..PoolUsage::default() };
    let refused = claims.correct_usage("default", &read, &counted).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);

    // A claim is replaced by an equal one: the sums are the same, but the usage was written since it was read.
    let read = claims.usage().await.unwrap().remove("default").unwrap();
    let b = claims.get("b").await.unwrap().unwrap();
    claims.delete(&b).await.unwrap();
    claims.create(&claim("c", 1, 0.1), None).await.unwrap();
    let refused = claims.correct_usage("default", &read, &counted).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);

    let read = claims.usage().await.unwrap().remove("default").unwrap();
    claims.correct_usage("default", &read, &counted).await.unwrap();
    let corrected = claims.usage().await.unwrap().remove("default").unwrap();
    assert!(corrected.resources.get("cpu").is_zero());
    assert_eq!(corrected.recounted, counted.recounted);
}

#[tokio::test]
async fn nodes_not_yet_evaluated_are_replaced_as_a_whole() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    assert!(claims.not_yet_evaluated().await.unwrap().is_empty());
    for names in [vec!["a", "b"], vec!["c"], vec![]] {
        let names = names.into_iter().map(str::to_owned).collect();
        claims.put_not_yet_evaluated(&names, Timestamp::MAX).await.unwrap();
        assert_eq!(claims.not_yet_evaluated().await.unwrap(), names);
    }
}

#[tokio::test]
async fn unavailable_offerings_lapse() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let offering = |zone: &str, until| UnavailableOffering {
        shortage: Shortage::of_offering("m6i.large", zone, CapacityType::OnDemand),
        until: at(until),
        reason: "InsufficientInstanceCapacity".into(),
    };
    claims.mark_unavailable(&[offering("a", 100), offering("b", 200), offering("b", 150)]).await.unwrap();
    assert_eq!(claims.unavailable(at(50)).await.unwrap(), [offering("a", 100), offering("b", 200)]);
    assert_eq!(claims.unavailable(at(100)).await.unwrap(), [offering("b", 200)]);
}

#[tokio::test]
async fn shortages_of_placement_groups_and_reservations_are_kept_apart() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let of = |shortage| UnavailableOffering {
        shortage,
        until: Timestamp::from_second(100).unwrap(),
        reason: "InsufficientInstanceCapacity".into(),
    };
    let offering = Shortage::of_offering("m6i.large", "a", CapacityType::Reserved);
    let in_partition = Shortage { placement_group: Some("pg-1".into()), partition: Some(3), ..offering.clone() };
    let in_group = |id: &str| Shortage { placement_group: Some(id.into()), ..Shortage::of_zone("a") };
    let in_reservation = |id: &str| Shortage { reservation_id: Some(id.into()), ..offering.clone() };
    let mut marks = [
        in_group("pg-1"),
        in_group("pg-2"),
        in_partition,
        in_reservation("cr-1"),
        in_reservation("cr-2"),
        offering.clone(),
    ]
    .map(of)
    .to_vec();
    claims.mark_unavailable(&marks).await.unwrap();
    let mut read = claims.unavailable(Timestamp::UNIX_EPOCH).await.unwrap();
    marks.sort();
    read.sort();
    assert_eq!(read, marks);
}

#[tokio::test]
async fn launch_budgets_are_raised_by_the_greater_success_and_reset_whatever_they_were() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let budget = |zone: &str, size, until| LaunchBudget {
        offering: OfferingKey {
            instance_type: "m6i.large".into(),
            zone: zone.into(),
            capacity_type: CapacityType::OnDemand,
        },
        size,
        until: at(until),
    };
    let raise = async |budget: LaunchBudget, now| claims.raise_launch_budgets(&[budget], 100, at(now)).await.unwrap();
    let sizes = async |now| {
        let all = claims.launch_budgets(at(now)).await.unwrap();
        all.into_iter().map(|budget| (budget.offering.zone, budget.size)).collect::<Vec<_>>()
    };
    // A budget that is not larger than the initial one is not recorded.
    raise(budget("a", 80, 100), 0).await;
    assert!(sizes(0).await.is_empty());
    raise(budget("a", 200, 100), 0).await;
    raise(budget("a", 120, 100), 0).await;
    assert_eq!(sizes(0).await, [("a".to_owned(), 200)]);
    claims.reset_launch_budgets(&[budget("a", 8, 100), budget("b", 8, 50)]).await.unwrap();
    assert_eq!(sizes(0).await, [("a".to_owned(), 8), ("b".to_owned(), 8)]);
    raise(budget("a", 16, 100), 0).await;
    assert_eq!(sizes(60).await, [("a".to_owned(), 16)], "what has lapsed counts no more");
    raise(budget("b", 16, 200), 60).await;
    assert_eq!(sizes(60).await.len(), 1, "less than the initial budget, which holds again");
}

#[tokio::test]
async fn the_catalog_is_replaced_as_a_whole() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    assert!(claims.catalog().await.unwrap().is_none());
    let first: Vec<u8> = (0..800_000_u32).map(|byte| (byte % 251) as u8).collect();
    claims.put_catalog("v1", &first, now).await.unwrap();
    assert_eq!(claims.catalog().await.unwrap().unwrap(), ("v1".to_owned(), first));
    claims.put_catalog("v2", &[1, 2, 3], now).await.unwrap();
    assert_eq!(claims.catalog_version().await.unwrap().as_deref(), Some("v2"));
    assert_eq!(claims.catalog().await.unwrap().unwrap(), ("v2".to_owned(), vec![1, 2, 3]));
    assert_eq!(claims.catalog_refreshed().await.unwrap(), None);
    claims.put_catalog_refreshed(now).await.unwrap();
    assert_eq!(claims.catalog_refreshed().await.unwrap(), Some(now));
}

#[tokio::test]
async fn registered_clusters_are_read_and_a_damaged_one_affects_no_other() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let config = config(&dynamodb.url).await;
    table(&config).await;
    let registry = DynamoTable::new(&config, TABLE, CLUSTERS);
    assert_eq!(served_clusters(&registry).await.unwrap(), (vec![], vec![]));
    let client = aws_sdk_dynamodb::Client::new(&config);
    for (name, queues) in [("green", r#"{"planner":"arn:aws:sqs:eu-west-1:1:green-plan.fifo"}"#), ("red", "{")] {
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let put = client.put_item().table_name(TABLE).item("pk", text("#clusters"));
        let put = put.item("sk", text(&format!("cluster#{name}"))).item("queues", text(queues));
        put.item("environment", text(r#"{"NODELESS_TABLE":"nodeless"}"#)).send().await.unwrap();
    }
    let (clusters, unreadable) = served_clusters(&registry).await.unwrap();
    let map = |key: &str, value: &str| std::collections::BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let green = ServedCluster {
        name: "green".to_owned(),
        queues: map("planner", "arn:aws:sqs:eu-west-1:1:green-plan.fifo"),
        environment: map("NODELESS_TABLE", "nodeless"),
    };
    assert_eq!(clusters, [green]);
    assert_eq!(unreadable.len(), 1);
    assert!(unreadable[0].to_string().contains("cluster#red"), "{}", unreadable[0]);
}
