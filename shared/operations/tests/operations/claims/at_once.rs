//! Plans that do not wait for the end of a batch window.

use crate::common::{Harness, pod};
use futures::FutureExt as _;
use nodeless_model::NodeClaim;
use nodeless_planner::PlanSettings;
use nodeless_planner::{PlanReport, Planner};
use nodeless_ports::queue::WakeSource;
use std::collections::BTreeSet;
use std::time::Duration;

/// A pod of the burst is created in each step: ten in a second.
const STEP: Duration = Duration::from_millis(100);

/// A planner with the batch window of the default settings.
fn planner(harness: &Harness) -> Planner {
    let ports = harness.ports.clone();
    let settings = PlanSettings { zonal_shift: true, ..PlanSettings::default() };
    Planner::new(harness.context(), ports.claims, ports.queue, ports.cluster, settings)
}

/// The plan that these sources request, and the number of the step in which it is made. In each step something happens, by its number.
async fn planned(
    harness: &Harness,
    planner: &Planner,
    woken: &[WakeSource],
    mut happens: impl AsyncFnMut(usize),
) -> (PlanReport, usize) {
    let mut plan = Box::pin(planner.run_until(None, woken));
    for step in 0..600 {
        if let Some(report) = (&mut plan).now_or_never() {
            return (report.unwrap(), step);
        }
        happens(step).await;
        harness.cluster.advance(STEP);
    }
    panic!("no plan was made in a minute")
}

/// The pods that these claims were launched for.
fn pods_of(claims: &[NodeClaim]) -> BTreeSet<&str> {
    claims.iter().flat_map(|claim| &claim.spec.nominated_pods).map(String::as_str).collect()
}

/// A pod that leaves nothing of its node to others.
async fn running_pod() -> (Harness, NodeClaim) {
    let mut harness = Harness::new().await;
    harness.cluster.add_replica_sets([pod("web", 1800)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(1).await;
    harness.queue.clear();
    let claim = harness.records().await.remove(0);
    (harness, claim)
}

async fn warn(harness: &Harness, claim: &NodeClaim) {
    let id = &claim.status.instance.as_ref().unwrap().id;
    let detail = format!(r#"{{"instance-id":"{id}"}}"#);
    let kind = "EC2 Spot Instance Interruption Warning";
    let event = format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{detail}}}"#);
    harness.interrupter().run(&event).await.unwrap();
}

fn add(harness: &Harness, number: usize) {
    harness.cluster.add_pods([pod(&format!("burst-{number:03}"), 500)]);
}

#[tokio::test]
async fn a_spot_warning_ends_a_batch_window_and_the_pods_of_the_burst_keep_it() {
    let (harness, claim) = running_pod().await;
    let planner = planner(&harness);
    add(&harness, 999);
    let (report, step) = planned(&harness, &planner, &[WakeSource::Webhook], async |step| {
        add(&harness, step);
        if step == 40 {
            warn(&harness, &claim).await;
        }
    })
    .await;
    assert!((45..=52).contains(&step), "a second after the warning at most: step {step}");
    let (replacements, replaced) = (harness.claims_named(&report.created).await, [claim]);
    assert_eq!(pods_of(&replacements), pods_of(&replaced), "{report:#?}");
    assert_eq!(harness.queue.take_plan(), Some(WakeSource::Planner), "the next plan is for the burst");

    let woken = [WakeSource::Interruption, WakeSource::Planner];
    let (report, last) = planned(&harness, &planner, &woken, async |step| {
        if step < 30 {
            add(&harness, 100 + step);
        }
    })
    .await;
    assert!((38..=45).contains(&last), "a second after the last pod: step {last}");
    assert!(report.pods > step + 30 && report.unschedulable.is_empty(), "{report:#?}");
}

#[tokio::test]
async fn a_request_that_was_answered_ends_no_other_window() {
    let (harness, claim) = running_pod().await;
    let planner = planner(&harness);
    warn(&harness, &claim).await;
    let woken = [WakeSource::Interruption];
    let (_, first) = planned(&harness, &planner, &woken, async |step| add(&harness, step)).await;
    assert!(first <= 8, "step {first}");
    let (_, second) = planned(&harness, &planner, &woken, async |step| {
        if step < 50 {
            add(&harness, 100 + step);
        }
    })
    .await;
    assert!((58..=65).contains(&second), "step {second}");
}

#[tokio::test]
async fn a_launch_that_fails_requests_a_plan_at_once() {
    let harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1000)]);
    harness.cloud.set_capacity(Some(0));
    drop(harness.planner().run().await.unwrap());
    let requested = || harness.ports.claims.requested_plan();
    assert_eq!(requested().await.unwrap(), None);
    for _ in 0..5 {
        for shard in harness.queue.take_shards() {
            drop(harness.reconciler().run_shard(shard).await);
        }
        harness.cluster.advance(Duration::from_secs(1));
    }
    assert!(requested().await.unwrap().is_some(), "{:#?}", harness.records().await);
}
