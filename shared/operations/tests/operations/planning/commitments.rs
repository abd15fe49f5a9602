//! Plans with the account's Savings Plans and Reserved Instances, as the catalog function stores them.

use crate::common::{Harness, pod, small_catalog};
use jiff::Timestamp;
use nodeless_model::listed_commitments::{AccountCommitments, ListedReservedInstances};
use nodeless_model::{NodeClaim, labels};
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::BTreeMap;

/// The cheapest type for a pod of the tests, and one that costs more.
const CHEAP: &str = "c6i.xlarge";
const PREPAID: &str = "m6i.xlarge";

/// A deployment whose account has Reserved Instances of the more expensive type until then.
async fn with_reserved(count: u32, end: Timestamp) -> Harness {
    let harness = Harness::new().await;
    let reserved = ListedReservedInstances {
        id: "ri".into(),
        instance_type: PREPAID.into(),
        instance_count: count,
        availability_zone: None,
        product_description: "Linux/UNIX".into(),
        instance_tenancy: "default".into(),
        currency_code: "USD".into(),
        state: "active".into(),
        start: Timestamp::UNIX_EPOCH,
        end,
        duration: 31_536_000.0,
        fixed_price: 1000.0,
        usage_price: 0.0,
        recurring_charges: Vec::new(),
    };
    let mut catalog = small_catalog();
    catalog.commitments = Some(AccountCommitments { reserved: vec![reserved], ..AccountCommitments::default() });
    harness.claims.put_catalog("2", &catalog.encode().unwrap(), harness.clock.time()).await.unwrap();
    harness
}

fn add_pods(harness: &Harness, names: std::ops::Range<usize>) {
    harness.cluster.add_pods(names.map(|number| pod(&format!("web-{number}"), 3000)));
}

/// How many claims may be launched as these instance types alone, or as several.
async fn planned(harness: &Harness) -> BTreeMap<String, usize> {
    let mut planned = BTreeMap::new();
    for claim in harness.records().await {
        let types = &claim.spec.instance_types;
        *planned
            .entry(if types.len() == 1 { types[0].clone() } else { format!("{} or others", types[0]) })
            .or_default() += 1;
    }
    planned
}

fn is_prepaid(claim: &NodeClaim) -> bool {
    claim.spec.instance_types == [PREPAID]
}

#[tokio::test]
async fn what_is_paid_already_is_launched_first_and_used_once() {
    let harness = with_reserved(2, Timestamp::MAX).await;
    add_pods(&harness, 0..3);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.created.len(), report.problems.len()), (3, 0), "{report:?}");
    let flexible = format!("{CHEAP} or others");
    assert_eq!(planned(&harness).await, BTreeMap::from([(PREPAID.to_owned(), 2), (flexible.clone(), 1)]));
    for claim in harness.records().await.iter().filter(|claim| is_prepaid(claim)) {
        let required = |key| claim.spec.requirements.get(key).unwrap().single();
        assert_eq!(
            (required(labels::INSTANCE_TYPE), required(labels::CAPACITY_TYPE)),
            (Some(PREPAID), Some("on-demand"))
        );
        assert!(
            claim.spec.requirements.get(labels::CAPACITY_RESERVATION_ID).is_none(),
            "it is no capacity reservation"
        );
        assert!(claim.spec.charge.dollars_per_hour > 0.19, "limits count its price: {:?}", claim.spec.charge);
    }
    let decision =
        harness.claims.decisions(10).await.unwrap().into_iter().find(|one| one.kind == "provisioning").unwrap();
    assert!(decision.detail.contains("\"coveredPerHour\":0.192"), "{}", decision.detail);

    // The claims that are not launched yet use up the commitment, and the instances do.
    add_pods(&harness, 3..4);
    harness.planner().run().await.unwrap();
    assert_eq!(planned(&harness).await, BTreeMap::from([(PREPAID.to_owned(), 2), (flexible.clone(), 2)]));
    for leader in harness.take_claims().await {
        harness.reconciler().run(&leader).await.unwrap();
    }
    let mut launched: BTreeMap<String, usize> = BTreeMap::new();
    for claim in harness.records().await {
        *launched.entry(claim.status.instance.unwrap().instance_type).or_default() += 1;
    }
    assert_eq!(launched, BTreeMap::from([(PREPAID.to_owned(), 2), (CHEAP.to_owned(), 2)]));
    add_pods(&harness, 4..5);
    harness.planner().run().await.unwrap();
    assert_eq!(planned(&harness).await, BTreeMap::from([(PREPAID.to_owned(), 2), (flexible, 3)]));
}

#[tokio::test]
async fn a_commitment_counts_until_it_ends() {
    let harness = Harness::new().await;
    let ended = harness.clock.time();
    for (end, count) in [(ended, 0), (ended + jiff::SignedDuration::from_hours(1), 1)] {
        let harness = with_reserved(1, end).await;
        add_pods(&harness, 0..1);
        harness.planner().run().await.unwrap();
        let prepaid = harness.records().await.iter().filter(|claim| is_prepaid(claim)).count();
        assert_eq!(prepaid, count, "until {end}");
    }
}

#[tokio::test]
async fn limits_and_minimums_of_node_pools_come_first() {
    let dollars = json!({ "spec": { "limits": { "nodeless.sh/dollars-per-hour": "0.18" } } });
    let min_values = json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2 },
    ] } } } });
    for (patch, planned_as) in [(dollars, CHEAP.to_owned()), (min_values, format!("{CHEAP} or others"))] {
        let harness = with_reserved(1, Timestamp::MAX).await;
        harness.cluster.patch(&NODE_POOLS, "default", patch);
        add_pods(&harness, 0..1);
        let report = harness.planner().run().await.unwrap();
        assert_eq!((report.created.len(), report.problems.len()), (1, 0), "{report:?}");
        assert_eq!(planned(&harness).await, BTreeMap::from([(planned_as, 1)]));
    }
}
