//! `nodeless plan` composes the stages on its own. For the same snapshot it plans what the pipeline plans.

use crate::common::{Harness, drift, fixed_cluster, pod, running_cluster, small_catalog};
use nodeless_catalog::Catalog;
use nodeless_catalog::facts::{Facts, Zone};
use nodeless_catalog::stored::Price;
use nodeless_model::labels;
use nodeless_model::pod::ResourceClaim;
use nodeless_planner::{Action, DryRun, DryRunInput, PlanSettings, Replay, unpacked};
use nodeless_scheduling::Solution;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The decisions of a plan, as written to the decision records.
#[derive(Debug, Default, PartialEq)]
struct Decided {
    launches: Vec<Value>,
    placements: Vec<Value>,
    unschedulable: Vec<Value>,
    commands: Vec<Value>,
}

/// The plan that `nodeless plan --disruption` prints, and the reasons for which nodes stay.
fn dry(run: &DryRun) -> (Decided, BTreeMap<String, Vec<String>>) {
    let (problem, solution) = run.place();
    let key = |index: &usize| problem.pods.get(*index).map(|pod| pod.key());
    let Solution { launches, placements, unschedulable, .. } = &solution;
    let launches = launches.iter().map(|launch| {
        let types = launch.instance_types.iter();
        let types: Vec<Value> = types.map(|kind| json!({ "name": kind.name, "pricePerHour": kind.price })).collect();
        json!({
            "nodePool": launch.node_pool, "pods": launch.pods.iter().filter_map(key).collect::<Vec<_>>(),
            "requests": launch.requests, "offering": launch.offering, "instanceTypes": types,
        })
    });
    let placements = placements.iter().map(|one| json!({ "pod": key(&one.pod), "node": problem.nodes[one.node].name }));
    let unschedulable = unschedulable.iter().map(|one| {
        let reasons: Vec<String> = one.reasons.iter().map(ToString::to_string).collect();
        json!({ "pod": key(&one.pod), "reasons": reasons })
    });
    let disruption = run.disruption(&solution, 1);
    let commands = disruption.commands.iter().map(|command| json!(command.report()));
    let decided = Decided {
        launches: launches.collect(),
        placements: placements.collect(),
        unschedulable: unschedulable.collect(),
        commands: commands.collect(),
    };
    let kept = disruption.kept.iter().filter(|kept| !disruption.foreign.contains(&kept.node));
    (decided, kept.map(|kept| (kept.node.clone(), kept.reasons.iter().map(ToString::to_string).collect())).collect())
}

/// The plan of the pipeline, and the reasons for which nodes stay.
fn replayed(replay: &Replay) -> (Decided, BTreeMap<String, Vec<String>>) {
    let mut decided = Decided::default();
    let kept = replay.outcome.report.kept.iter();
    let mut kept: BTreeMap<String, Vec<String>> =
        kept.map(|kept| (kept.node.clone(), kept.reasons.iter().map(ToString::to_string).collect())).collect();
    let list = |detail: &Value, field: &str| detail[field].as_array().unwrap().clone();
    for action in replay.batches.iter().flat_map(|batch| &batch.actions) {
        let Action::Record(record) = action else { continue };
        let detail = unpacked(&record.detail).unwrap();
        match record.kind.as_str() {
            "provisioning" => {
                decided.launches = list(&detail, "launches");
                decided.placements = list(&detail, "placements");
                decided.unschedulable = list(&detail, "unschedulable");
            }
            "disruption-proposed" => {
                decided.commands = list(&detail, "commands");
                let reasons = |kept: &Value| serde_json::from_value(kept["reasons"].clone()).unwrap();
                let node = |kept: &Value| kept["node"].as_str().unwrap().to_owned();
                kept = list(&detail, "kept").iter().map(|kept| (node(kept), reasons(kept))).collect();
            }
            _ => {}
        }
    }
    (decided, kept)
}

/// Plans for the cluster in both ways, compares the plans, and returns them.
async fn compare(harness: &Harness, what: &str) -> Decided {
    let mut claims = harness.records().await;
    // The input of `nodeless plan` has when pods last came or went, and not which pods there were or for which it was launched.
    for claim in &mut claims {
        claim.status.pods_seen = None;
        claim.spec.nominated_pods.clear();
    }
    let input = DryRunInput {
        view: harness.cluster.view(),
        claims,
        catalog: small_catalog(),
        now: harness.clock.time(),
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: Some(Vec::new()),
    };
    let run = DryRun::new(input);
    let (dry, dry_kept) = dry(&run);
    let (replayed, replayed_kept) = replayed(&run.into_snapshot().replay());
    assert_eq!(dry.launches, replayed.launches, "{what}");
    assert_eq!(dry.unschedulable, replayed.unschedulable, "{what}");
    assert_eq!(dry.commands, replayed.commands, "{what}");
    if !dry.launches.is_empty() || !dry.unschedulable.is_empty() {
        // A plan that only uses existing nodes is not recorded.
        assert_eq!(dry.placements, replayed.placements, "{what}");
    }
    let names = |kept: &BTreeMap<String, Vec<String>>| kept.keys().cloned().collect::<BTreeSet<String>>();
    assert_eq!(names(&dry_kept), names(&replayed_kept), "{what}");
    for (node, reasons) in &replayed_kept {
        // Without a command, the planner finds only the first reason, without details.
        let same = reasons.iter().all(|reason| dry_kept[node].iter().any(|dry| dry.starts_with(reason.as_str())));
        let complete = dry.commands.is_empty() || dry_kept[node] == *reasons;
        assert!(same && complete, "{what}: {node} stays because of {:?} and {reasons:?}", dry_kept[node]);
    }
    dry
}

#[tokio::test]
async fn pending_pods_get_the_same_nodes() {
    let harness = Harness::new().await;
    harness.cluster.add_pods((0..9).map(|number| pod(&format!("web-{number}"), 700 + 100 * number)));
    harness.cluster.add_pods([pod("huge", 3_000_000)]);
    let decided = compare(&harness, "an empty cluster").await;
    assert!(decided.launches.len() > 1 && decided.unschedulable.len() == 1, "{decided:?}");
}

#[tokio::test]
async fn nodes_stay_for_the_same_reasons() {
    let harness = running_cluster(4).await;
    let policy = json!({ "spec": { "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized" } } });
    harness.cluster.patch_node_pool(policy);
    let decided = compare(&harness, "a cluster without waste").await;
    assert!(decided.commands.is_empty(), "{decided:?}");
}

#[tokio::test]
async fn limits_count_what_a_plan_launches() {
    let mut harness = running_cluster(3).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "16" } } }));
    drift(&harness);
    harness.cluster.add_pods([pod("late", 3000)]);
    let decided = compare(&harness, "a limit that the pending pod reaches").await;
    assert_eq!(decided.launches.len(), 1, "{decided:?}");
    harness.minutes(3).await;
    harness.cluster.add_pods([pod("later", 3000)]);
    let decided = compare(&harness, "a limit that is reached").await;
    assert_eq!(decided.unschedulable.len(), 1, "{decided:?}");
}

#[tokio::test]
async fn static_node_pools_keep_their_number() {
    let mut harness = fixed_cluster(2).await;
    harness.minutes(2).await;
    compare(&harness, "a static NodePool").await;
    harness.cluster.add_pods([pod("web", 3000)]);
    drift(&harness);
    compare(&harness, "a static NodePool that drifted").await;
}

#[tokio::test]
async fn protected_nodes_stay_for_the_same_reasons() {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_node_pool(labels::DO_NOT_DISRUPT, "true");
    harness.cluster.remove_all_pods();
    harness.cluster.advance(Duration::from_secs(60));
    let decided = compare(&harness, "empty nodes").await;
    assert!(!decided.commands.is_empty(), "{decided:?}");
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } }));
    let decided = compare(&harness, "empty nodes with a budget of one").await;
    assert_eq!(decided.commands.len(), 1, "{decided:?}");
    harness.minutes(2).await;
}

#[tokio::test]
async fn without_subnets_no_node_is_planned_in_a_local_zone() {
    let harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 700)]);
    let mut catalog = small_catalog();
    catalog.zones[0] = Zone { name: "us-east-1-bos-1a".to_owned(), id: "use1-bos1-az1".to_owned() };
    // Spot in the Local Zone would be the cheapest offering.
    for offer in catalog.types.iter_mut().flat_map(|kind| &mut kind.offers) {
        if offer.zone == 0 {
            offer.spot_price = Price::from_dollars(0.001);
        }
    }
    let mut view = harness.cluster.view();
    view.node_classes.values_mut().for_each(|class| class.status = None);
    let now = harness.clock.time();
    let (shifted, settings) = (Vec::new(), PlanSettings::default());
    let run = DryRun::new(DryRunInput {
        view,
        claims: Vec::new(),
        catalog,
        now,
        shifted,
        settings,
        commitments: None,
        disruption: None,
    });
    let (_, solution) = run.place();
    let offering = json!(solution.launches[0].offering);
    assert_ne!(offering["zone"], "us-east-1-bos-1a", "{offering}");
}

#[tokio::test]
async fn a_claim_names_the_drivers_of_the_devices_that_its_pods_claim() {
    let harness = Harness::new().await;
    // No node has space for both.
    harness.cluster.add_pods([pod("train", 3500), pod("web", 700)]);
    let mut view = harness.cluster.view();
    let class =
        json!({ "name": "gpus", "selectors": [{ "cel": { "expression": "device.driver == 'gpu.nvidia.com'" } }] });
    let requests = json!({ "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "gpus" } }] });
    let devices = json!({
        "slices": [], "classes": { "gpus": class }, "claims": {}, "templates": { "default/gpu": requests }, "publishedByType": {},
    });
    view.devices = serde_json::from_value(devices).unwrap();
    let claim = ResourceClaim { name: "gpu".to_owned(), claim: None, template: Some("gpu".to_owned()) };
    let train = view.pods.iter_mut().find(|pod| pod.name == "train").unwrap();
    Arc::make_mut(train).template_mut().resource_claims.push(claim);
    let mut catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
    catalog.types.retain(|entry| ["m6i.large", "g4dn.xlarge"].contains(&entry.facts.name.as_str()));
    let run = DryRun::new(DryRunInput {
        view,
        claims: Vec::new(),
        catalog,
        now: harness.clock.time(),
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: None,
    });
    let batches = run.into_snapshot().replay().batches;
    let created = batches.iter().flat_map(|batch| &batch.actions).filter_map(|action| match action {
        Action::CreateGroup(claims, _) => Some(claims),
        _ => None,
    });
    let drivers: BTreeMap<&str, Option<&str>> = created
        .flatten()
        .flat_map(|claim| claim.spec.nominated_pods.iter().map(move |pod| (pod, claim)))
        .map(|(pod, claim)| (pod.as_str(), claim.spec.annotations.get(labels::DRA_DRIVERS).map(String::as_str)))
        .collect();
    assert_eq!(drivers, [("default/train", Some("gpu.nvidia.com")), ("default/web", None)].into());
}
