//! Records of plans, decisions and commands over the wire.

use crate::common::{TABLE, charge, claim, config, table};
use jiff::Timestamp;
use nodeless_model::{NodeClaim, Quantity, ResourceList};
use nodeless_ports::ErrorKind;
use nodeless_state::claims::MAX_TOGETHER;
use nodeless_state::decisions::Decision;
use nodeless_state::limits::{LaunchLimits, PoolLimits};
use nodeless_state::plans::{Commit, Committed, Leaving, StoredCommand, UnfinishedPlan};
use nodeless_state::{LaunchAnswer, LaunchCheck, RecordKind, Refusal, StoredRecord};
use std::time::Duration;

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
