//! Plans that are ended by their timeout, and the plans after them.

use crate::common::{Harness, drift, pod, running_cluster};
use nodeless_model::Node;
use nodeless_planner::{ANSWERS, Action, PlanSettings, Snapshot};
use nodeless_state::plans::UnfinishedPlan;
use nodeless_telemetry::Metric;
use std::time::Duration;

fn settings() -> PlanSettings {
    let keep_snapshots = Some(Duration::from_secs(3600));
    PlanSettings { remembered_from: 1, keep_snapshots, memory_megabytes: Some(1_769), ..PlanSettings::default() }
}

/// The snapshot that was kept last.
fn latest(harness: &Harness) -> Snapshot {
    let kept = harness.claims.snapshots();
    let (_, snapshot) = kept.iter().rfind(|(id, _)| !id.ends_with(ANSWERS)).unwrap();
    Snapshot::read(snapshot).unwrap()
}

/// A cluster with a node that has drifted and a pod that waits.
async fn busy_cluster() -> Harness {
    let mut harness = running_cluster(1).await;
    harness.set(settings());
    drift(&harness);
    harness.cluster.add_pods([pod("late", 3000)]);
    harness.faults.take_writes();
    harness
}

/// How many lines of this kind were logged since lines were asked for last.
fn logged(harness: &Harness, event: &str) -> usize {
    harness.sink.take().into_iter().filter(|line| line["event"] == event).count()
}

async fn decided(harness: &Harness, kind: &str) -> usize {
    let decisions = harness.claims.decisions(1000).await.unwrap();
    decisions.into_iter().filter(|decision| decision.kind == kind).count()
}

#[tokio::test]
async fn a_plan_that_ends_leaves_nothing_of_itself_behind() {
    let harness = busy_cluster().await;
    harness.planner().run().await.unwrap();
    assert_eq!(harness.claims.unfinished_plan().await.unwrap(), None);
    assert_eq!(decided(&harness, "plan-unfinished").await, 0);
}

#[tokio::test]
async fn a_plan_of_a_small_cluster_without_pending_pods_writes_nothing_about_itself() {
    let harness = running_cluster(1).await;
    harness.planner().run().await.unwrap();
    harness.faults.take_writes();
    harness.planner().run().await.unwrap();
    assert_eq!(harness.faults.take_writes(), 0, "an idle cluster costs no write");
}

#[tokio::test]
async fn a_plan_is_recorded_if_pods_are_pending_or_there_are_200_nodes() {
    let mut harness = running_cluster(1).await;
    harness.set(PlanSettings { remembered_from: PlanSettings::default().remembered_from, ..settings() });
    harness.planner().run().await.unwrap();
    let idle = latest(&harness);
    let is_recorded = |snapshot: &Snapshot| {
        let batches = snapshot.replay().batches;
        let mut actions = batches.iter().flat_map(|batch| &batch.actions);
        actions.any(|action| matches!(action, Action::BeginPlan(_)))
    };
    assert!(!is_recorded(&idle));
    for (nodes, recorded) in [(199, false), (200, true)] {
        let mut many = idle.clone();
        let node = many.view.nodes[0].clone();
        many.view.nodes = (0..nodes).map(|index| Node { name: format!("node-{index}"), ..node.clone() }).collect();
        assert_eq!(is_recorded(&many), recorded, "{nodes} nodes");
    }
    harness.cluster.add_pods([pod("late", 3000)]);
    harness.planner().run().await.unwrap();
    assert!(is_recorded(&latest(&harness)), "a pod is pending");
}

/// Plans that are killed for being too much work: the budget is halved until one finishes.
#[tokio::test]
async fn each_plan_that_was_killed_halves_the_work_of_the_next() {
    let mut harness = busy_cluster().await;
    let run = async |harness: &Harness| {
        let deadline = harness.clock.time().checked_add(Duration::from_secs(40)).unwrap();
        drop(harness.planner().run_until(Some(deadline), &[]).await);
    };
    for killed in 0..3_u32 {
        // The first write is the snapshot, the second the record of the plan.
        harness.faults.take_writes();
        harness.faults.kill_at(2, false);
        assert!(harness.process(run).await.is_none());
        assert_eq!(harness.claims.unfinished_plan().await.unwrap().map(|plan| plan.before), Some(killed));
        assert_eq!(latest(&harness).work.provisioning, Some(480_000_000 >> killed));
    }
    run(&harness).await;
    assert_eq!(latest(&harness).work.provisioning, Some(480_000_000 >> 3));
    assert_eq!(harness.records().await.len(), 2, "the pod has its claim");
    run(&harness).await;
    assert_eq!(latest(&harness).work.provisioning, Some(480_000_000), "the last plan finished");
}

/// The process is killed at each write in turn, as by its timeout. Claims for pending pods are written first. The next plan also
/// serves pods, skips optional work and reports that. The plan after it is complete.
#[tokio::test]
async fn a_plan_after_one_that_was_killed_does_what_pods_need_and_leaves_out_the_rest() {
    let (mut killed, mut died_after_pods) = (0, 0);
    for write in 0.. {
        let mut harness = busy_cluster().await;
        harness.faults.kill_at(write, false);
        if harness.process(async |harness| drop(harness.planner().run().await)).await.is_some() {
            break;
        }
        let when = format!("killed at write {write}");
        let (claims, commands) = (harness.records().await.len(), harness.claims.commands().await.unwrap());
        assert!(commands.is_empty() || claims == 2, "{when}: what pods need comes first");
        if harness.claims.unfinished_plan().await.unwrap().is_none() {
            continue;
        }
        killed += 1;
        died_after_pods += usize::from(claims == 2);
        let (planner, _) = (harness.cold_planner(), harness.sink.take());
        let report = planner.run().await.unwrap();
        assert_eq!(harness.records().await.len(), 2, "{when}: the pod that waits has its claim");
        assert_eq!((report.kept.len(), report.proposed.len(), report.leaving.len()), (0, 0, 0), "{when}: {report:?}");
        assert_eq!(harness.claims.commands().await.unwrap(), commands, "{when}: none is begun, and none is changed");
        assert_eq!(logged(&harness, "plan-unfinished"), 1, "{when}");
        assert_eq!(decided(&harness, "plan-unfinished").await, 1, "{when}");
        assert_eq!(harness.sink.totals().get(Metric::PlansUnfinished), [1.0], "{when}");
        assert_eq!(harness.claims.unfinished_plan().await.unwrap(), None, "{when}: this one has ended");
        let report = planner.run().await.unwrap();
        assert!(!report.proposed.is_empty(), "{when}: the drifted node is looked at again: {report:?}");
        assert_eq!(harness.sink.totals().get(Metric::PlansUnfinished), [1.0], "{when}: that one was whole");
    }
    assert!(killed > 5 && died_after_pods > 2, "{killed}, {died_after_pods} of them after pods had their claims");
}

#[tokio::test]
async fn commands_that_have_begun_go_on_after_a_plan_that_was_killed() {
    let mut harness = running_cluster(1).await;
    harness.set(settings());
    drift(&harness);
    for _ in 0..200 {
        harness.tick().await;
        if harness.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting")) {
            break;
        }
    }
    assert_eq!(harness.claims.commands().await.unwrap().len(), 1);
    // Every plan from now on is killed at its end.
    for _ in 0..400 {
        harness.tick().await;
        let (now, began) = (harness.clock.time(), harness.clock.time());
        let plan = UnfinishedPlan { id: "killed".into(), began, before: 0 };
        harness.claims.begin_plan(&plan, now).await.unwrap();
    }
    assert!(harness.claims.commands().await.unwrap().is_empty(), "the replaced node is gone");
    assert!(harness.sink.totals().get(Metric::PlansUnfinished)[0] > 10.0);
}

#[tokio::test]
async fn where_no_time_is_left_pods_get_what_they_need_and_the_rest_waits() {
    let harness = busy_cluster().await;
    let planner = harness.planner();
    let soon = harness.clock.time().checked_add(Duration::from_secs(9)).unwrap();
    let report = planner.run_until(Some(soon), &[]).await.unwrap();
    assert_eq!((report.created.len(), report.proposed.len(), report.kept.len()), (1, 0, 0), "{report:?}");
    assert!(report.problems.iter().any(|why| why.contains("no time is left")), "{report:?}");
    let later = harness.clock.time().checked_add(Duration::from_secs(40)).unwrap();
    let report = planner.run_until(Some(later), &[]).await.unwrap();
    assert_eq!(report.proposed.len(), 1, "{report:?}");
    assert!(harness.claims.unfinished_plan().await.unwrap().is_none());
}
