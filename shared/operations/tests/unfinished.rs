//! Plans that are ended by their timeout, and the plans after them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, drift, pod, running_town};
use nodeless_operations::plan::PlanSettings;
use nodeless_ports::{Decisions, Plans};
use nodeless_telemetry::Metric;
use std::time::Duration;

fn settings() -> PlanSettings {
    PlanSettings { remembered_from: 1, ..PlanSettings::default() }
}

/// A town with a node that has drifted and a pod that waits.
async fn busy_town() -> Town {
    let mut town = running_town(1).await;
    town.set(settings());
    drift(&town);
    town.cluster.add_pods([pod("late", 3000)]);
    town.faults.take_writes();
    town
}

/// How many lines of this kind were logged since lines were asked for last.
fn logged(town: &Town, event: &str) -> usize {
    town.sink.take().into_iter().filter(|line| line["event"] == event).count()
}

async fn decided(town: &Town, kind: &str) -> usize {
    let decisions = town.claims.decisions(1000).await.unwrap();
    decisions.into_iter().filter(|decision| decision.kind == kind).count()
}

#[tokio::test]
async fn a_plan_that_ends_leaves_nothing_of_itself_behind() {
    let town = busy_town().await;
    town.planner().run().await.unwrap();
    assert_eq!(town.claims.unfinished_plan().await.unwrap(), None);
    assert_eq!(decided(&town, "plan-unfinished").await, 0);
}

#[tokio::test]
async fn a_small_plan_writes_nothing_about_itself() {
    let town = running_town(1).await;
    town.planner().run().await.unwrap();
    town.faults.take_writes();
    town.planner().run().await.unwrap();
    assert_eq!(town.faults.take_writes(), 0, "an idle cluster costs no write");
}

/// The process is ended at one write after the other, as by its timeout. What pods need comes first, and whatever the plan that
/// follows finds of the killed one, it does that too; but nothing optional, and reports that. The one after that is whole.
#[tokio::test]
async fn a_plan_after_one_that_was_killed_does_what_pods_need_and_leaves_out_the_rest() {
    let (mut killed, mut died_after_pods) = (0, 0);
    for write in 0.. {
        let mut town = busy_town().await;
        town.faults.kill_at(write, false);
        if town.process(async |town| drop(town.planner().run().await)).await.is_some() {
            break;
        }
        let when = format!("killed at write {write}");
        let (claims, commands) = (town.records().await.len(), town.claims.commands().await.unwrap());
        assert!(commands.is_empty() || claims == 2, "{when}: what pods need comes first");
        if town.claims.unfinished_plan().await.unwrap().is_none() {
            continue;
        }
        killed += 1;
        died_after_pods += usize::from(claims == 2);
        let (planner, _) = (town.cold_planner(), town.sink.take());
        let report = planner.run().await.unwrap();
        assert_eq!(town.records().await.len(), 2, "{when}: the pod that waits has its claim");
        assert_eq!((report.kept.len(), report.proposed.len(), report.leaving.len()), (0, 0, 0), "{when}: {report:?}");
        assert_eq!(town.claims.commands().await.unwrap(), commands, "{when}: none is begun, and none is changed");
        assert_eq!(logged(&town, "plan-unfinished"), 1, "{when}");
        assert_eq!(decided(&town, "plan-unfinished").await, 1, "{when}");
        assert_eq!(town.sink.totals().get(Metric::PlansUnfinished), [1.0], "{when}");
        assert_eq!(town.claims.unfinished_plan().await.unwrap(), None, "{when}: this one has ended");
        let report = planner.run().await.unwrap();
        assert!(!report.proposed.is_empty(), "{when}: the drifted node is looked at again: {report:?}");
        assert_eq!(town.sink.totals().get(Metric::PlansUnfinished), [1.0], "{when}: that one was whole");
    }
    assert!(killed > 5 && died_after_pods > 2, "{killed}, {died_after_pods} of them after pods had their claims");
}

#[tokio::test]
async fn commands_that_have_begun_go_on_after_a_plan_that_was_killed() {
    let mut town = running_town(1).await;
    town.set(settings());
    drift(&town);
    for _ in 0..200 {
        town.tick().await;
        if town.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting")) {
            break;
        }
    }
    assert_eq!(town.claims.commands().await.unwrap().len(), 1);
    // Every plan from now on is killed at its end.
    for _ in 0..400 {
        town.tick().await;
        let (now, began) = (town.clock.time(), town.clock.time());
        let plan = nodeless_ports::plans::UnfinishedPlan { id: "killed".into(), began };
        town.claims.begin_plan(&plan, now).await.unwrap();
    }
    assert!(town.claims.commands().await.unwrap().is_empty(), "the replaced node is gone");
    assert!(town.sink.totals().get(Metric::PlansUnfinished)[0] > 10.0);
}

#[tokio::test]
async fn where_no_time_is_left_pods_get_what_they_need_and_the_rest_waits() {
    let town = busy_town().await;
    let planner = town.planner();
    let soon = town.clock.time().checked_add(Duration::from_secs(9)).unwrap();
    let report = planner.run_until(Some(soon), &[]).await.unwrap();
    assert_eq!((report.created.len(), report.proposed.len(), report.kept.len()), (1, 0, 0), "{report:?}");
    assert!(report.problems.iter().any(|why| why.contains("no time is left")), "{report:?}");
    let later = town.clock.time().checked_add(Duration::from_secs(40)).unwrap();
    let report = planner.run_until(Some(later), &[]).await.unwrap();
    assert_eq!(report.proposed.len(), 1, "{report:?}");
    assert!(town.claims.unfinished_plan().await.unwrap().is_none());
}
