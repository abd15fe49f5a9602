//! Nodes that are replaced before they have to go, and switches that hold everything.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, drift, pod, running_town, watched};
use nodeless_disruption::{expiration, pause, rebalance};
use nodeless_model::NodeClaim;
use nodeless_model::claim::condition;
use nodeless_ports::{Claims, Decisions, ErrorKind};

fn annotate(town: &Town, key: &str, value: &str) {
    town.cluster.lock().pools[0].disruption.annotations.insert(key.into(), value.into());
}

fn recommendation(claim: &NodeClaim) -> String {
    let id = &claim.status.instance.as_ref().unwrap().id;
    let kind = "EC2 Instance Rebalance Recommendation";
    format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#)
}

#[tokio::test]
async fn a_recommendation_to_rebalance_replaces_the_node_where_that_is_wanted() {
    let mut town = running_town(2).await;
    let old = town.records().await[0].clone();
    let event = recommendation(&old);
    // A conflict and a failure are tried again, and the same event again changes nothing.
    town.faults.fail("claims update", ErrorKind::Throttled);
    town.interrupter().run(&event).await.unwrap_err();
    town.faults.end_outages();
    for _ in 0..2 {
        assert!(town.interrupter().run(&event).await.unwrap().is_empty(), "no claim leaves at once");
    }
    let noted = town.claims.get(&old.name).await.unwrap().unwrap();
    assert!(noted.has_condition(condition::REBALANCE_RECOMMENDED));
    watched(&mut town, 3).await;
    assert_eq!(town.cloud.launched(), 2, "as in Karpenter it is only reported");

    annotate(&town, rebalance::RECOMMENDATIONS, "Replace");
    watched(&mut town, 2).await;
    assert_eq!(town.cloud.launched(), 2);
    let reported = town
        .cluster
        .lock()
        .events
        .iter()
        .any(|event| event.object.kind == "NodePool" && event.message.contains("write replace or ignore"));
    assert!(reported, "the malformed value is reported");

    annotate(&town, rebalance::RECOMMENDATIONS, "replace");
    watched(&mut town, 10).await;
    assert_eq!((town.cloud.launched(), town.cluster.bound(), town.records().await.len()), (3, 2, 2));
    assert!(town.claims.get(&old.name).await.unwrap().is_none());
    assert!(!town.records().await.iter().any(|claim| claim.has_condition(condition::REBALANCE_RECOMMENDED)));
}

#[tokio::test]
async fn a_node_that_expires_soon_is_replaced_first_and_the_forceful_time_never_comes() {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    town.cluster.lock().pools[0].template.expire_after = Some("1h".parse().unwrap());
    annotate(&town, expiration::GENTLE_BEFORE, "20m");
    town.cluster.add_pods([pod("web", 3000)]);
    town.queue_wake().await;
    town.until("it runs", |town| town.cluster.bound() == 1).await;
    let old = town.records().await[0].name.clone();
    watched(&mut town, 38).await;
    assert_eq!(town.cloud.launched(), 1);
    // `watched` sees that the old node does not begin to drain before the new one is ready.
    watched(&mut town, 12).await;
    assert_eq!((town.cloud.launched(), town.cluster.bound()), (2, 1));
    let records = town.records().await;
    assert!(records.len() == 1 && records[0].name != old && records[0].spec.replaces == [old]);
    let evicted = town.cluster.lock().events.iter().find(|event| event.reason == "Evicted").unwrap().message.clone();
    assert!(evicted.contains("it reaches its expireAfter of 1h"), "what ends is stated: {evicted}");
}

#[tokio::test]
async fn a_pause_of_the_whole_cluster_holds_every_command() {
    let mut town = running_town(1).await;
    town.cluster.lock().annotations.insert(pause::PAUSE.into(), "true".into());
    drift(&town);
    watched(&mut town, 4).await;
    assert_eq!(town.cloud.launched(), 1);
    let report = town.planner().run().await.unwrap();
    assert_eq!(report.kept[0].reasons[0].to_string(), "disruption is paused for the cluster");
    town.cluster.lock().annotations.clear();
    watched(&mut town, 8).await;
    assert_eq!(town.cloud.launched(), 2);
}

#[tokio::test]
async fn what_was_decided_is_written_down_with_why_the_others_stay() {
    let mut town = running_town(3).await;
    {
        let mut state = town.cluster.lock();
        let budget = nodeless_model::Budget {
            reasons: Vec::new(),
            nodes: nodeless_model::node_pool::BudgetNodes::Count(1),
            window: None,
        };
        state.pools[0].disruption.budgets = vec![budget];
        state.pods.remove("default/web-0");
        state.pods.remove("default/web-1");
    }
    watched(&mut town, 6).await;
    let decisions = town.claims.decisions(100).await.unwrap();
    let proposed = decisions.iter().find(|one| one.kind == "disruption-proposed").unwrap();
    let detail: serde_json::Value = serde_json::from_str(&proposed.detail).unwrap();
    assert_eq!(detail["commands"][0]["method"], "Emptiness");
    let kept = detail["kept"].as_array().unwrap();
    let reported = |one: &serde_json::Value| one["node"].is_string() && !one["reasons"].as_array().unwrap().is_empty();
    assert!(!kept.is_empty() && kept.iter().all(reported), "{detail:#}");
    assert_eq!(town.records().await.len(), 1);
}
