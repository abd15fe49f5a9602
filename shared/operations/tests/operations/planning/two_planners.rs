//! Two planners that work at the same time: SQS delivers a message again while the first planner is still at work.

use crate::common::{Harness, check_quiescent, drift, fixed_cluster, pod, running_cluster, static_pool};
use nodeless_model::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, Quantity};
use nodeless_planner::PlanReport;
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Two plans of which each has read everything before the other writes anything. The second begins a second later.
async fn both(harness: &Harness) -> [PlanReport; 2] {
    both_with(harness, async {}).await
}

/// Like [`both`], with something that happens after the first plan has read the claims and before the second reads them.
async fn both_with(harness: &Harness, between: impl Future<Output = ()>) -> [PlanReport; 2] {
    harness.faults.meet_at("cluster view", 2);
    let second = harness.cold_planner();
    let later = async {
        between.await;
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(1)).unwrap());
        second.run().await
    };
    let (one, other) = futures::join!(Box::pin(harness.planner().run()), Box::pin(later));
    harness.faults.end_meeting();
    [one.unwrap(), other.unwrap()]
}

#[tokio::test]
async fn of_two_plans_at_once_one_launches() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    let reports = both(&harness).await;
    let created = harness.records().await.len();
    let [first, second] = reports.each_ref().map(|report| report.created.len());
    assert_eq!((created, first + second), (3, 3), "{reports:#?}");
    assert!(first == 0 || second == 0, "{reports:#?}");
    let refused = reports.iter().find(|report| report.created.is_empty()).unwrap();
    assert!(refused.problems.iter().any(|problem| problem.contains("another plan has decided")), "{refused:#?}");
    assert!(harness.queue.take_plan().is_some(), "the next plan decides anew");
    harness.until("pods run", |harness| harness.cluster.bound() == 3).await;
    harness.minutes(2).await;
    check_quiescent(&harness, 3, 3, "after two plans at once").await;
}

#[tokio::test]
async fn of_two_plans_at_once_one_proposes_and_confirms() {
    let mut harness = running_cluster(2).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } }));
    drift(&harness);
    let reports = both(&harness).await;
    let proposed = harness.claims.commands().await.unwrap();
    assert_eq!(reports.iter().filter(|report| !report.proposed.is_empty()).count(), 1, "{reports:#?}");
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(20)).unwrap());
    both(&harness).await;
    let confirmed = harness.claims.commands().await.unwrap();
    assert_eq!(confirmed.len(), proposed.len(), "{confirmed:#?}");
    assert_eq!(harness.records().await.iter().filter(|claim| claim.status.command.is_some()).count(), 1, "the budget");
    harness.minutes(20).await;
    check_quiescent(&harness, 2, 2, "after two plans at once").await;
}

/// The two plans choose other claims, so no version of a claim keeps the later plan from writing what it decided.
#[tokio::test]
async fn surplus_claims_of_static_capacity_leave_by_one_of_two_plans() {
    let mut harness = fixed_cluster(4).await;
    harness.until("nodes are there", |harness| harness.cluster.nodes().len() == 4).await;
    harness.minutes(2).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "replicas": 2 } }));
    // The claims rank alike but for the names of their nodes, and those without an instance leave before the others.
    let mut others = harness.records().await;
    others.sort_by(|a, b| a.status.node_name.cmp(&b.status.node_name));
    let others = others.split_off(2);
    let reports = both_with(&harness, async {
        for mut claim in others {
            claim.status.instance = None;
            harness.claims.update(&claim, None).await.unwrap();
        }
    })
    .await;
    let leaving = harness.records().await.iter().filter(|claim| claim.status.termination.is_some()).count();
    assert_eq!(leaving, 2, "{reports:#?}");
    assert_eq!(reports.iter().filter(|report| !report.leaving.is_empty()).count(), 1, "{reports:#?}");
}

#[tokio::test]
async fn of_two_plans_at_once_launches_stay_within_the_limits_of_the_cluster() {
    let harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(MAX_NODES, Some("2"));
    drift(&harness);
    both(&harness).await;
    assert_eq!(harness.claims.commands().await.unwrap().len(), 1, "a replacement fits");
    // While one plan launches the replacement, the other finds a pod that needs the same node.
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(20)).unwrap());
    let more = async { harness.cluster.add_replica_sets([pod("more", 3000)]) };
    both_with(&harness, more).await;
    for _ in 0..10 {
        let usage = harness.claims.usage().await.unwrap();
        let nodes = PoolUsage::sum(usage.values()).resources.get("nodes");
        assert!(nodes <= Quantity::from_units(2), "{usage:#?}");
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(5)).unwrap());
        both(&harness).await;
    }
}

/// Numbers that depend on a seed only.
struct Numbers(u64);

impl Numbers {
    /// A number from 0 to `bound` - 1.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Limits of the cluster that are never reached by less than what one more node takes.
struct Limits {
    nodes: Option<u64>,
    cpu: Option<u64>,
    dollars: Option<f64>,
}

impl Limits {
    /// Random limits: one, two or all three.
    fn any(numbers: &mut Numbers) -> Self {
        let kinds = numbers.below(7) + 1;
        let among = |numbers: &mut Numbers, kind: u64, least: u64, most: u64| {
            let amount = least + numbers.below(most - least);
            (kinds & kind != 0).then_some(amount)
        };
        Self {
            nodes: among(numbers, 1, 2, 6),
            cpu: among(numbers, 2, 4, 24),
            dollars: among(numbers, 4, 10, 80).map(|cents| f64::from(u32::try_from(cents).unwrap()) / 100.0),
        }
    }

    fn annotate(&self, harness: &Harness) {
        let texts = [
            (MAX_NODES, self.nodes.map(|nodes| nodes.to_string())),
            (MAX_CPU, self.cpu.map(|cpu| cpu.to_string())),
            (MAX_DOLLARS_PER_HOUR, self.dollars.map(|dollars| dollars.to_string())),
        ];
        texts.iter().for_each(|(annotation, text)| harness.cluster.annotate_cluster(annotation, text.as_deref()));
    }

    /// By what is charged, and by the nodes that there are.
    async fn check(&self, harness: &Harness, when: &str) {
        let usage = PoolUsage::sum(harness.claims.usage().await.unwrap().values());
        // The charge of a claim may be released before its record goes, but not before its instance.
        let alive: BTreeSet<String> = harness.cloud.alive().into_iter().map(|instance| instance.id).collect();
        let runs = |claim: &NodeClaim| claim.status.instance.as_ref().is_some_and(|one| alive.contains(&one.id));
        let running: Vec<NodeClaim> = harness.records().await.into_iter().filter(runs).collect();
        let whole = |limit: u64| Quantity::from_units(i64::try_from(limit).unwrap());
        if let Some(nodes) = self.nodes {
            assert!(usage.resources.get("nodes") <= whole(nodes), "{when}: {usage:?}");
            assert!(u64::try_from(alive.len()).unwrap() <= nodes, "{when}: {alive:?}");
        }
        if let Some(cpu) = self.cpu {
            let capacity = running.iter().map(|claim| claim.status.capacity.get("cpu").units()).sum::<i64>();
            assert!(usage.resources.get("cpu") <= whole(cpu), "{when}: {usage:?}");
            assert!(Quantity::from_units(capacity) <= whole(cpu), "{when}: {running:#?}");
        }
        if let Some(dollars) = self.dollars {
            let prices = running.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|it| it.price);
            let sum = prices.sum::<f64>();
            assert!(usage.dollars_per_hour.max(sum) <= dollars + 1e-6, "{when}: {sum} run, {usage:?}");
        }
    }
}

#[tokio::test]
async fn whatever_two_planners_decide_at_once_the_limits_of_the_cluster_hold() {
    let mut launched = 0;
    for seed in 0..8 {
        let mut numbers = Numbers(seed);
        let mut harness = Harness::new().await;
        let limits = Limits::any(&mut numbers);
        limits.annotate(&harness);
        if numbers.below(2) == 0 {
            harness.cluster.create(&NODE_POOLS, static_pool("desks", 1));
        }
        for round in 0..10 {
            let when = format!("seed {seed}, round {round}");
            match numbers.below(5) {
                0 => drift(&harness),
                1 => {
                    let records = harness.records().await;
                    if let Some(claim) = records.get(usize::try_from(numbers.below(4)).unwrap()) {
                        harness.cluster.delete_node_claim(&claim.name);
                    }
                }
                _ => {
                    let pods = (0..=numbers.below(3)).map(|number| {
                        let milli_cpu = 500 + i64::try_from(numbers.below(6)).unwrap() * 500;
                        pod(&format!("web-{round}-{number}"), milli_cpu)
                    });
                    harness.cluster.add_replica_sets(pods.collect::<Vec<_>>());
                }
            }
            both(&harness).await;
            limits.check(&harness, &when).await;
            for _ in 0..=numbers.below(6) {
                harness.tick().await;
                limits.check(&harness, &when).await;
            }
        }
        launched += harness.cloud.launched();
    }
    assert!(launched > 16, "something was decided: {launched}");
}
