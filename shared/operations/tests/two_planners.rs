//! Two planners that work at the same time: SQS delivers a message again while the first planner is still at work.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, check_quiescent, drift, pod, running_town};
use nodeless_model::node_pool::{Budget, BudgetNodes};
use nodeless_operations::plan::PlanReport;
use nodeless_ports::{Claims, Plans};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

/// Two plans of which each has read everything before the other writes anything. The second begins a second later.
async fn both(town: &Town) -> [PlanReport; 2] {
    both_with(town, async {}).await
}

/// The same with something that happens after the first plan has read the claims and before the second reads them.
async fn both_with(town: &Town, between: impl Future<Output = ()>) -> [PlanReport; 2] {
    town.cluster.lock().readers = Some(Arc::new(Barrier::new(2)));
    let second = town.cold_planner();
    let later = async {
        between.await;
        town.clock.advance_to(town.clock.time().checked_add(Duration::from_secs(1)).unwrap());
        second.run().await
    };
    let (one, other) = futures::join!(Box::pin(town.planner().run()), Box::pin(later));
    town.cluster.lock().readers = None;
    [one.unwrap(), other.unwrap()]
}

#[tokio::test]
async fn of_two_plans_at_once_one_launches() {
    let mut town = Town::new().await;
    town.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    let reports = both(&town).await;
    let created = town.records().await.len();
    let [first, second] = reports.each_ref().map(|report| report.created.len());
    assert_eq!((created, first + second), (3, 3), "{reports:#?}");
    assert!(first == 0 || second == 0, "{reports:#?}");
    let refused = reports.iter().find(|report| report.created.is_empty()).unwrap();
    assert!(refused.problems.iter().any(|problem| problem.contains("another plan has decided")), "{refused:#?}");
    assert!(town.queue.take_plan().is_some(), "the next plan decides anew");
    town.until("pods run", |town| town.cluster.bound() == 3).await;
    town.minutes(2).await;
    check_quiescent(&town, 3, 3, "after two plans at once").await;
}

#[tokio::test]
async fn of_two_plans_at_once_one_proposes_and_confirms() {
    let mut town = running_town(2).await;
    let one = Budget { reasons: Vec::new(), nodes: BudgetNodes::Count(1), window: None };
    town.cluster.lock().pools[0].disruption.budgets = vec![one];
    drift(&town);
    let reports = both(&town).await;
    let proposed = town.claims.commands().await.unwrap();
    assert_eq!(reports.iter().filter(|report| !report.proposed.is_empty()).count(), 1, "{reports:#?}");
    town.clock.advance_to(town.clock.time().checked_add(Duration::from_secs(20)).unwrap());
    both(&town).await;
    let confirmed = town.claims.commands().await.unwrap();
    assert_eq!(confirmed.len(), proposed.len(), "{confirmed:#?}");
    assert_eq!(town.records().await.iter().filter(|claim| claim.status.command.is_some()).count(), 1, "the budget");
    town.minutes(20).await;
    check_quiescent(&town, 2, 2, "after two plans at once").await;
}

/// The two plans choose other claims, so no version of a claim keeps the later plan from writing what it decided.
#[tokio::test]
async fn surplus_claims_of_static_capacity_leave_by_one_of_two_plans() {
    let mut town = running_town(4).await;
    town.cluster.lock().pools[0].replicas = Some(4);
    town.minutes(1).await;
    town.cluster.lock().pools[0].replicas = Some(2);
    // The claims rank alike but for the names of their nodes, and those without an instance leave before the others.
    let mut others = town.records().await;
    others.sort_by(|a, b| a.status.node_name.cmp(&b.status.node_name));
    let others = others.split_off(2);
    let reports = both_with(&town, async {
        for mut claim in others {
            claim.status.instance = None;
            town.claims.update(&claim, None).await.unwrap();
        }
    })
    .await;
    let leaving = town.records().await.iter().filter(|claim| claim.status.termination.is_some()).count();
    assert_eq!(leaving, 2, "{reports:#?}");
    assert_eq!(reports.iter().filter(|report| !report.leaving.is_empty()).count(), 1, "{reports:#?}");
}
