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
use nodeless_state::decisions::Decision;
use nodeless_state::launch_groups::StoredLaunchGroup;
use nodeless_state::limits::{LaunchLimits, PoolLimits};
use nodeless_state::plans::{Commit, Committed, Leaving, StoredCommand, UnfinishedPlan};
use nodeless_state::{CLUSTERS, ServedCluster, served_clusters};
use nodeless_state::{LaunchAnswer, LaunchCheck, RecordKind, Refusal, StoredRecord};
use nodeless_storage::DynamoTable;
use std::time::Duration;

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
async fn a_shard_is_written_only_over_the_version_that_was_read() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::a_shard_is_written_only_over_the_version_that_was_read(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn launches_stay_within_the_limits_of_the_cluster() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::launches_stay_within_the_limits_of_the_cluster(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn a_stopped_claim_is_charged_when_it_is_started() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::a_stopped_claim_is_charged_when_it_is_started(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn claims_are_updated_all_or_none() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::claims_are_updated_all_or_none(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn a_claim_without_a_node_pool_is_charged_to_none() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::a_claim_without_a_node_pool_is_charged_to_none(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn interruptions_are_remembered_until_their_time() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    contracts::interruptions_are_remembered_until_their_time(&table(&config(&dynamodb.url).await).await).await;
}

#[tokio::test]
async fn costs_are_written_only_over_the_version_that_was_read() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let table = table(&config(&dynamodb.url).await).await;
    contracts::costs_are_written_only_over_the_version_that_was_read(&table).await;
}

#[tokio::test]
async fn an_instance_that_ends_is_kept_with_the_deletion_of_its_claim() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let table = table(&config(&dynamodb.url).await).await;
    contracts::an_instance_that_ends_is_kept_with_the_deletion_of_its_claim(&table).await;
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
async fn a_plan_is_remembered_until_it_ends() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let plan = |id: &str| UnfinishedPlan { id: id.to_owned(), began: Timestamp::UNIX_EPOCH, before: 2 };
    assert_eq!(claims.unfinished_plan().await.unwrap(), None);
    claims.end_plan("a").await.unwrap();
    claims.begin_plan(&plan("a"), Timestamp::MAX).await.unwrap();
    claims.begin_plan(&plan("b"), Timestamp::MAX).await.unwrap();
    claims.end_plan("a").await.unwrap();
    assert_eq!(claims.unfinished_plan().await.unwrap(), Some(plan("b")), "another was begun since");
    claims.end_plan("b").await.unwrap();
    assert_eq!(claims.unfinished_plan().await.unwrap(), None);
}

#[tokio::test]
async fn what_a_plan_was_made_from_is_kept_in_chunks() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let config = config(&dynamodb.url).await;
    let claims = table(&config).await;
    let encoded: Vec<u8> = (0..900_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    claims.put_snapshot("2027-01-15T08:00:00.000Z", &encoded, Timestamp::MAX).await.unwrap();
    let answer = aws_sdk_dynamodb::Client::new(&config).scan().table_name(TABLE).send().await.unwrap();
    let mut items = answer.items.unwrap();
    items.sort_by_key(|item| item["sk"].as_s().unwrap().clone());
    let keys: Vec<&String> = items.iter().map(|item| item["sk"].as_s().unwrap()).collect();
    assert_eq!(keys, [0, 1, 2].map(|number| format!("snapshot#2027-01-15T08:00:00.000Z#{number:03}")).each_ref());
    let kept: Vec<u8> = items.iter().flat_map(|item| item["chunk"].as_b().unwrap().as_ref().to_vec()).collect();
    assert_eq!(kept, encoded);
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
async fn the_last_launch_check_of_each_class_is_kept() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    assert_eq!(claims.launch_check("default").await.unwrap(), None);
    let refusal = Refusal { reason: "RunInstancesAuthCheckFailed".into(), message: "no".into() };
    let answer = LaunchAnswer { key: "k".into(), at: Timestamp::UNIX_EPOCH, refusal: Some(refusal) };
    let first = LaunchCheck {
        node_class: "default".into(),
        asked: "k".into(),
        asked_at: Timestamp::UNIX_EPOCH,
        problem: None,
        answer: Some(answer),
    };
    claims.put_launch_check(&first).await.unwrap();
    assert_eq!(claims.launch_check("default").await.unwrap().as_ref(), Some(&first));
    let second = LaunchCheck { problem: Some("throttled".into()), answer: None, ..first };
    claims.put_launch_check(&second).await.unwrap();
    assert_eq!(claims.launch_check("default").await.unwrap(), Some(second));
    assert_eq!(claims.launch_check("other").await.unwrap(), None);
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
async fn decisions_come_back_newest_first() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let decision = |id: &str| Decision {
        id: id.into(),
        at: Timestamp::UNIX_EPOCH,
        kind: "provisioning".into(),
        subjects: vec!["default/web".into()],
        summary: "launch one m6i.large".into(),
        detail: "{}".into(),
    };
    let many: Vec<Decision> = (0..30).map(|index| decision(&format!("{index:04}"))).collect();
    claims.record_decisions(&many, Duration::from_secs(60)).await.unwrap();
    let latest = claims.decisions(2).await.unwrap();
    assert_eq!(latest, [decision("0029"), decision("0028")]);
}

#[tokio::test]
async fn a_decision_about_a_hundred_thousand_pods_is_stored_whole() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let decision = |id: &str, detail: String| Decision {
        id: id.into(),
        at: Timestamp::UNIX_EPOCH,
        kind: "provisioning".into(),
        subjects: (0..3_000).map(|number| format!("default-{number:05}")).collect(),
        summary: "100000 pods".into(),
        detail,
    };
    let placed = |pod: u32| {
        let name = pod.wrapping_mul(2_654_435_761);
        format!("{{\"pod\":\"default/web-{name:08x}\",\"node\":\"ip-{}\"}}", pod % 3_000)
    };
    let pods: Vec<String> = (0..100_000).map(placed).collect();
    let long = decision("0002", format!("[{}]", pods.join(",")));
    let short = [decision("0001", String::new()), decision("0003", String::new())];
    let all = [short[0].clone(), long.clone(), short[1].clone()];
    claims.record_decisions(&all, Duration::from_secs(60)).await.unwrap();
    assert_eq!(claims.decisions(1).await.unwrap(), [short[1].clone()]);
    assert!(claims.decisions(2).await.unwrap() == [short[1].clone(), long.clone()]);
    assert!(claims.decisions(9).await.unwrap() == [short[1].clone(), long, short[0].clone()]);
}

#[tokio::test]
async fn a_command_is_written_only_over_the_version_that_was_read() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let first = StoredCommand {
        id: "drift-a-1".into(),
        version: 0,
        summary: "proposed".into(),
        encoded: vec![0, 159, 146, 150],
    };
    assert_eq!(claims.put_command(&first).await.unwrap(), 1);
    assert_eq!(claims.put_command(&first).await.unwrap_err().kind, ErrorKind::Conflict);
    let read = claims.commands().await.unwrap();
    assert_eq!(read, [StoredCommand { version: 1, ..first.clone() }]);
    assert_eq!(claims.put_command(&read[0]).await.unwrap(), 2);
    assert_eq!(claims.put_command(&read[0]).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(claims.delete_command(&read[0]).await.unwrap_err().kind, ErrorKind::Conflict);
    let last = StoredCommand { version: 2, ..first.clone() };
    for _ in 0..2 {
        claims.delete_command(&last).await.unwrap();
    }
    assert!(claims.commands().await.unwrap().is_empty());
    let huge = StoredCommand { encoded: vec![0; 350_001], ..first };
    assert_eq!(claims.put_command(&huge).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn records_are_written_only_over_the_version_that_was_read() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let expires = Timestamp::from_second(1_800_000_000).unwrap();
    // DynamoDB's TTL has whole seconds: nothing expires early.
    let later = expires.checked_add(Duration::from_secs(1)).unwrap();
    for (kind, pool, expires, kept_until) in [
        (RecordKind::Churn, "a", Some(expires), Some(later)),
        (RecordKind::Registrations, "a", Some(expires), Some(later)),
        (RecordKind::ReportedMemory, "", Some(expires), Some(later)),
        (RecordKind::ZonalShifts, "", None, None),
    ] {
        let record =
            |version, encoded: &str| StoredRecord { node_pool: pool.into(), version, encoded: encoded.into(), expires };
        assert_eq!(claims.record(kind, pool).await.unwrap(), None, "{kind:?}");
        assert_eq!(claims.put_record(kind, &record(0, "first")).await.unwrap(), 1, "{kind:?}");
        let late = claims.put_record(kind, &record(0, "late")).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::Conflict, "{kind:?}");
        assert_eq!(claims.put_record(kind, &record(1, "second")).await.unwrap(), 2, "{kind:?}");
        let late = claims.put_record(kind, &record(1, "late")).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::Conflict, "{kind:?}");
        let kept = claims.record(kind, pool).await.unwrap();
        assert_eq!(kept, Some(StoredRecord { expires: kept_until, ..record(2, "second") }), "{kind:?}");
        // An expired record may be deleted before it is written again; a record that is kept never existed.
        let gone = StoredRecord { node_pool: format!("{pool}gone"), ..record(7, "third") };
        let written = claims.put_record(kind, &gone).await;
        assert_eq!(
            written.map_err(|error| error.kind),
            if expires.is_some() { Ok(8) } else { Err(ErrorKind::Conflict) }
        );
    }
}

#[tokio::test]
async fn records_of_a_kind_are_listed_by_node_pool() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    assert_eq!(claims.records(RecordKind::Churn).await.unwrap(), []);
    let record = |pool: &str| StoredRecord { node_pool: pool.into(), encoded: "{}".into(), ..StoredRecord::default() };
    for pool in ["ab", "a"] {
        claims.put_record(RecordKind::Churn, &record(pool)).await.unwrap();
    }
    let read = claims.records(RecordKind::Churn).await.unwrap();
    assert_eq!(read, ["a", "ab"].map(|pool| StoredRecord { version: 1, ..record(pool) }));
    assert_eq!(claims.records(RecordKind::Registrations).await.unwrap(), [], "each kind has its own items");
}

#[tokio::test]
async fn what_a_plan_decides_is_written_while_no_other_plan_decides_anything() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let claims = table(&config(&dynamodb.url).await).await;
    let node_pool =
        PoolLimits { resources: ResourceList::from([("cpu", Quantity::from_units(1_000))]), dollars_per_hour: None };
    let limits = LaunchLimits { node_pool, ..LaunchLimits::default() };
    let group = |letter: &str| -> Vec<NodeClaim> {
        (0..MAX_TOGETHER).map(|index| claim(&format!("{letter}-{index:02}"), 1, 0.1)).collect()
    };
    assert_eq!(claims.plan_revision().await.unwrap(), 0);
    // A transaction of maximum size.
    assert_eq!(claims.commit(Commit::Launch(&group("a"), &limits), 0).await.unwrap(), Committed::Written);
    assert_eq!(claims.commit(Commit::Launch(&group("b"), &limits), 0).await.unwrap(), Committed::Overtaken);
    assert_eq!(claims.commit(Commit::Launch(&group("a"), &limits), 0).await.unwrap(), Committed::AlreadyThere);
    let refused = claims.commit(Commit::Launch(&[claim("c", 2_000, 0.1)], &limits), 1).await.unwrap();
    assert_eq!(refused, Committed::LimitReached { resource: "cpu".into() });
    let written = claims.list().await.unwrap();
    assert_eq!((written.len(), claims.plan_revision().await.unwrap()), (MAX_TOGETHER, 1));

    let less = |claim: &NodeClaim| Some(charge(0, 0.0)).filter(|_| claim.name.ends_with("00"));
    let leaving: Vec<Leaving> =
        written.iter().map(|claim| Leaving { claim: claim.clone(), charge: less(claim) }).collect();
    assert_eq!(claims.commit(Commit::Leave(&leaving), 0).await.unwrap(), Committed::Overtaken);
    assert_eq!(claims.commit(Commit::Leave(&leaving), 1).await.unwrap(), Committed::Written);
    assert_eq!(claims.commit(Commit::Leave(&leaving), 2).await.unwrap_err().kind, ErrorKind::Conflict);
    assert!(claims.list().await.unwrap().iter().all(|claim| claim.version == 2));
    let usage = claims.usage().await.unwrap().remove("default").unwrap();
    assert_eq!(usage.resources.get("cpu"), Quantity::from_units(96), "one of them counts no more");

    let command = StoredCommand { id: "x".into(), version: 0, summary: "goes".into(), encoded: vec![1] };
    assert_eq!(claims.commit(Commit::Command(&command), 1).await.unwrap(), Committed::Overtaken);
    assert_eq!(claims.commands().await.unwrap(), []);
    assert_eq!(claims.commit(Commit::Command(&command), 2).await.unwrap(), Committed::Written);
    assert_eq!(claims.commit(Commit::Command(&command), 3).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(claims.commands().await.unwrap(), [StoredCommand { version: 1, ..command }]);
    assert_eq!(claims.plan_revision().await.unwrap(), 3);
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
