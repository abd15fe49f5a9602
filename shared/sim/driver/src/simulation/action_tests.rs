//! Each action has its effect, and what it breaks is repaired when it ends.

use super::tests::{CALM, broken, calm, claims, only, patch, pods, write};
use super::*;
use crate::scenarios::other_objects::{is_instance_of_other, is_of_other};
use futures::FutureExt as _;
use nodeless_fake_aws::Instance;
use nodeless_fake_aws::requests::TerminateInstances;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES, VOLUME_ATTACHMENTS};
use nodeless_fake_kubernetes::{DeleteOptions, ListOptions};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase};
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::{Effect, Observer as _};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::Value;
use std::collections::BTreeSet;

/// A run of the calm scenario with this action after six minutes.
pub(super) fn with(action: &str) -> Run {
    let yaml = format!("{CALM}actions: [{{ after: 6m, {action} }}]\n");
    let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
    minutes(&mut run, 5);
    assert_eq!(claims(&run).len(), 3);
    run
}

/// The calm scenario in two zones, with this action after six minutes. Instances are launched in the first.
fn in_two_zones(action: &str) -> Run {
    let yaml = CALM.replace("zones: [us-east-1a]", "zones: [us-east-1a, us-east-1b]");
    let yaml = format!("{yaml}actions: [{{ after: 6m, {action} }}]\n");
    let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
    minutes(&mut run, 5);
    run
}

/// Advances to this many minutes after the start.
pub(super) fn minutes(run: &mut Run, minutes: i64) {
    let until = after(run.scenario.start, SignedDuration::from_mins(minutes));
    run.advance(until, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(run.report.violations, []);
}

pub(super) fn scale(run: &Run, replicas: u32) {
    patch(run, &DEPLOYMENTS, "default", "web", &json!({ "spec": { "replicas": replicas } }));
}

/// The instances of nodeless.
pub(super) fn own_instances(run: &Run) -> Vec<Instance> {
    run.driver.world().ec2().instances().into_iter().filter(|it| !is_instance_of_other(it)).collect()
}

pub(super) fn pending(run: &Run) -> usize {
    pods(run).iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count()
}

fn spec(run: &Run, resource: &nodeless_fake_kubernetes::Resource, name: &str) -> Value {
    run.driver.world().api().get(resource, "", name).unwrap()["spec"].clone()
}

pub(super) fn names(run: &Run) -> Vec<String> {
    claims(run).into_iter().map(|claim| claim.name).collect()
}

#[test]
fn nothing_is_launched_for_what_is_misconfigured_until_it_is_corrected() {
    for fault in ["unknownInstanceType", "noInstanceType", "noSubnets", "noSecurityGroups", "noAmis"] {
        let mut run = with(&format!("misconfigure: {{ fault: {fault}, for: 10m }}"));
        let specs = |run: &Run| (spec(run, &NODE_POOLS, "general"), spec(run, &NODE_CLASSES, "default"));
        let (before, kept) = (specs(&run), names(&run));
        minutes(&mut run, 8);
        assert_ne!(specs(&run), before, "{fault}");
        scale(&run, 4);
        minutes(&mut run, 15);
        assert_eq!((pending(&run), names(&run)), (1, kept), "{fault}");
        minutes(&mut run, 25);
        assert_eq!(specs(&run), before, "{fault}");
        assert_eq!((pending(&run), claims(&run).len()), (0, 4), "{fault}");
    }
}

#[test]
fn the_nodes_of_a_deleted_node_pool_leave_and_others_come_with_it() {
    let mut run = with("recreateNodePools: { count: 1, for: 10m }");
    let before = names(&run);
    minutes(&mut run, 15);
    assert!(run.driver.world().api().get(&NODE_POOLS, "", "general").is_err());
    // The PodDisruptionBudget allows the eviction of one pod, and nothing is launched for it.
    assert!(pending(&run) > 0 && names(&run).iter().all(|name| before.contains(name)));
    assert!(claims(&run).iter().all(|claim| claim.phase.is_leaving()));
    minutes(&mut run, 40);
    assert_eq!((pending(&run), claims(&run).len()), (0, 3));
    assert!(names(&run).iter().all(|name| !before.contains(name)));
}

#[test]
fn a_node_pool_that_is_changed_while_it_is_deleted_is_created_before() {
    let change =
        "apply: { apiVersion: karpenter.sh/v1, kind: NodePool, metadata: { name: general }, spec: { weight: 7 } }";
    let yaml = format!(
        "{CALM}actions: [{{ after: 6m, recreateNodePools: {{ count: 1, for: 10m }} }}, {{ after: 9m, {change} }}]\n"
    );
    let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
    minutes(&mut run, 8);
    assert!(run.driver.world().api().get(&NODE_POOLS, "", "general").is_err());
    minutes(&mut run, 10);
    assert_eq!(spec(&run, &NODE_POOLS, "general")["weight"], 7);
    minutes(&mut run, 40);
    assert_eq!((pending(&run), claims(&run).len()), (0, 3));
}

#[test]
fn a_claim_that_is_created_for_an_unusable_node_pool_is_reported() {
    for (resource, name, spec) in [
        (
            &NODE_POOLS,
            "general",
            json!({ "template": { "spec": { "requirements": [
                { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.tiny"] },
            ] } } }),
        ),
        (&NODE_CLASSES, "default", json!({ "subnetSelectorTerms": [{ "tags": { "team": "none" } }] })),
    ] {
        let mut run = calm();
        patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "weight": 1 } }));
        patch(&run, resource, "", name, &json!({ "spec": spec }));
        assert_eq!(broken(&mut run), BTreeSet::new());
        let later = after(run.driver.world().now(), SignedDuration::from_mins(3));
        run.driver.world_mut().advance_to(later).unwrap();
        let late = NodeClaim { created: later, ..claims(&run).remove(0) };
        write(&run, &late);
        assert_eq!(broken(&mut run), only("no claim is created for an unusable NodePool"), "{name}");
    }
}

#[test]
fn a_claim_that_outlives_its_node_pool_is_reported() {
    let mut run = calm();
    run.driver.world().api().delete(&NODE_POOLS, "", "general", &DeleteOptions::default()).unwrap();
    assert_eq!(broken(&mut run), BTreeSet::new());
    let later = after(run.driver.world().now(), SignedDuration::from_mins(11));
    run.driver.world_mut().advance_to(later).unwrap();
    assert!(broken(&mut run).contains("the nodes of a deleted NodePool are terminated"));
}

#[test]
fn nothing_is_launched_while_ec2_does_not_authorize_it() {
    let mut run = with("denial: { api: CreateFleet, for: 10m }");
    let kept = names(&run);
    minutes(&mut run, 7);
    scale(&run, 4);
    minutes(&mut run, 14);
    assert_eq!(pending(&run), 1);
    let ec2 = run.driver.world().ec2();
    let denied = ec2.calls().into_iter().filter(|call| call.error.as_deref() == Some("UnauthorizedOperation"));
    assert!(ec2.denies("CreateFleet") && denied.count() > 0);
    minutes(&mut run, 40);
    assert!(!run.driver.world().ec2().denies("CreateFleet"));
    assert_eq!((pending(&run), claims(&run).len()), (0, 4));
    assert!(kept.iter().all(|name| names(&run).contains(name)));
}

#[test]
fn an_api_that_is_not_called_cannot_be_denied() {
    let yaml = format!("{CALM}actions: [{{ after: 1m, denial: {{ api: ImportImage, for: 1m }} }}]\n");
    let error = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap().finish().unwrap_err();
    assert!(error.to_string().contains("ImportImage is not called; use one of CreateFleet, "), "{error}");
}

#[test]
fn nothing_is_launched_beyond_a_quota() {
    let mut run = with("quota: { capacityType: on-demand, vcpus: 6, for: 10m }");
    minutes(&mut run, 7);
    scale(&run, 4);
    minutes(&mut run, 14);
    assert_eq!((pending(&run), run.driver.world().ec2().launched()), (1, 3));
    minutes(&mut run, 30);
    assert_eq!((pending(&run), run.driver.world().ec2().launched()), (0, 4));
    assert!(run.driver.world().ec2().account().vcpu_quotas.is_empty());
}

/// The names of the ready Nodes of nodeless in a zone.
fn ready_in(run: &Run, zone: &str) -> Vec<String> {
    let list = run.driver.world().api().list(&NODES, &ListOptions::default()).unwrap().items;
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    let own = list.iter().filter(|node| !is_of_other(&NODES, node));
    let here = own.filter(|node| node["metadata"]["labels"]["topology.kubernetes.io/zone"] == zone && ready(node));
    here.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn zone_of_claims(run: &Run) -> String {
    claims(run)[0].status.instance.as_ref().unwrap().zone.clone()
}

#[test]
fn the_pods_of_a_failed_zone_run_in_another_one() {
    let zone = zone_of_claims(&in_two_zones("rebalanceSpot: 1"));
    let mut run = in_two_zones(&format!("zoneFailure: {{ zone: {zone}, for: 40m }}"));
    let before = claims(&run).iter().filter(|claim| claim.status.instance.as_ref().unwrap().zone == zone).count();
    assert!(before > 0);
    minutes(&mut run, 8);
    let instances = own_instances(&run);
    let here: Vec<_> = instances.into_iter().filter(|instance| instance.offering.zone == zone).collect();
    assert!(here.iter().all(|it| it.impaired_since.is_some() && it.system_impaired_since.is_some()));
    assert_eq!(ready_in(&run, &zone), Vec::<String>::new());
    minutes(&mut run, 40);
    assert_eq!((pending(&run), ready_in(&run, &zone).len()), (0, 0));
    assert!(claims(&run).iter().all(|claim| claim.status.instance.as_ref().unwrap().zone != zone));
}

#[test]
fn the_nodes_of_a_zone_that_recovers_soon_are_ready_again_with_their_pods() {
    let zone = zone_of_claims(&in_two_zones("rebalanceSpot: 1"));
    let mut run = in_two_zones(&format!("zoneFailure: {{ zone: {zone}, for: 90s }}"));
    let (before, kept) = (ready_in(&run, &zone), names(&run));
    minutes(&mut run, 7);
    assert_eq!(ready_in(&run, &zone), Vec::<String>::new());
    minutes(&mut run, 20);
    assert_eq!((ready_in(&run, &zone), names(&run)), (before, kept));
    let unready = |pod: &&Arc<Value>| {
        pod["status"]["conditions"].as_array().unwrap().iter().any(|it| it["type"] == "Ready" && it["status"] != "True")
    };
    assert_eq!(pods(&run).iter().filter(unready).count(), 0);
    let instances = own_instances(&run);
    assert!(instances.iter().all(|it| it.impaired_since.is_none() && it.system_impaired_since.is_none()));
}

#[test]
fn an_instance_without_tags_keeps_its_ready_node_and_is_terminated_with_its_claim() {
    let mut run = with("untagMachines: 3");
    let kept = names(&run);
    minutes(&mut run, 20);
    let instances = own_instances(&run);
    assert!(instances.iter().all(|it| !it.tags.contains_key("karpenter.sh/nodepool")), "{instances:?}");
    assert_eq!(names(&run), kept);
    for name in &kept {
        run.driver.world().api().delete(&NODE_CLAIMS, "", name, &DeleteOptions::default()).unwrap();
    }
    minutes(&mut run, 40);
    let instances = own_instances(&run);
    let alive: Vec<_> = instances.iter().filter(|it| it.state.is_alive()).collect();
    assert!(alive.len() == 3 && alive.iter().all(|it| it.tags.contains_key("karpenter.sh/nodepool")), "{alive:?}");
}

/// The run checks all invariants, such as that no ready node is terminated without a drain, and no instance stays without a claim.
#[test]
fn a_table_that_is_restored_or_created_again_keeps_the_nodes() {
    // Three nodes are launched in the first minutes: at the time of the first backup, their claims have no instances yet.
    for action in
        ["restoreTable: { ago: 359s }", "restoreTable: { ago: 5m }", "restoreTable: { ago: 1m }", "recreateTable: null"]
    {
        let mut run = with(action);
        let before: BTreeSet<String> = alive(&run);
        minutes(&mut run, 40);
        assert_eq!((alive(&run), pending(&run), claims(&run).len()), (before, 0, 3), "{action}");
    }
}

/// The instances that run, by id.
fn alive(run: &Run) -> BTreeSet<String> {
    own_instances(run).into_iter().filter(|it| it.state.is_alive()).map(|it| it.id).collect()
}

/// EC2 gives the instance by its id, so it is not missing: it stays as any instance whose kubelet does not respond.
#[test]
fn an_instance_without_tags_whose_node_is_not_ready_is_not_missing() {
    let mut run = with("untagMachines: 3");
    minutes(&mut run, 7);
    let before = alive(&run);
    assert!(before.iter().all(|id| run.driver.world_mut().silence(id)));
    minutes(&mut run, 20);
    assert!(alive(&run).is_superset(&before));
    assert_eq!(pending(&run), 0, "the pods run on other nodes");
}

#[test]
fn an_instance_without_tags_that_outlives_its_claim_is_reported() {
    let mut run = with("untagMachines: 3");
    minutes(&mut run, 7);
    let claim = claims(&run).remove(0);
    run.driver.claims().delete(&claim).now_or_never().unwrap().unwrap();
    assert_eq!(broken(&mut run), BTreeSet::new());
    let later = after(run.driver.world().now(), SignedDuration::from_mins(11));
    run.driver.world_mut().advance_to(later).unwrap();
    assert!(broken(&mut run).contains("no instance is without a claim for more than ten minutes"));
}

#[test]
fn a_running_instance_that_is_terminated_as_missing_is_reported() {
    for (ends_before, wrong) in [(false, true), (true, false)] {
        let mut run = calm();
        let mut claim = claims(&run).remove(0);
        let now = run.driver.world().now();
        begin_termination(&mut claim, TerminationReason::InstanceMissing, "of a test", now);
        write(&run, &claim);
        let id = claim.status.instance.unwrap().id;
        let request = TerminateInstances { instance_ids: vec![id.clone()], dry_run: false };
        run.driver.world().ec2().terminate_instances(&request).unwrap();
        let at = if ends_before { after(now, SignedDuration::from_secs(1)) } else { now };
        run.effects.after(&Effect { at, operation: "cloud terminate", subject: id, accepted: true });
        let reported = broken(&mut run).contains("no running instance with a ready node is terminated as missing");
        assert_eq!(reported, wrong);
    }
}

/// The prices of the catalog that the functions read, of a type in the first zone: on demand and spot.
fn known_prices(run: &Run) -> (f64, f64) {
    let stored = run.driver.claims().catalog().now_or_never().unwrap().unwrap();
    let catalog = nodeless_catalog::Catalog::decode(&stored.unwrap().1).unwrap();
    let kind = catalog.get("m6i.large").unwrap();
    (kind.on_demand_price.unwrap().dollars(), kind.offers[0].spot_price.unwrap().dollars())
}

#[test]
fn changed_prices_are_known_after_the_next_refresh() {
    for (capacity_type, changes) in [("spot", (false, true)), ("on-demand", (true, false))] {
        let mut run = with(&format!("changePrices: {{ capacityType: {capacity_type}, share: 0.5 }}"));
        let before = known_prices(&run);
        let price = |run: &Run, spot| run.driver.world().ec2().facts().price("m6i.large", "us-east-1a", spot).unwrap();
        minutes(&mut run, 13);
        let now = known_prices(&run);
        assert_eq!((now.0 != before.0, now.1 != before.1), changes, "{capacity_type}");
        assert!((now.0 - price(&run, false)).abs() < 1e-6 && (now.1 - price(&run, true)).abs() < 1e-6);
        assert!(now.1 > before.1 * 0.5 && now.1 < before.1 * 1.5 && now.0 > before.0 * 0.5 && now.0 < before.0 * 1.5);
    }
}

fn delete_first_claim(run: &Run) -> NodeClaim {
    let claim = claims(run).remove(0);
    run.driver.world().api().delete(&NODE_CLAIMS, "", &claim.name, &DeleteOptions::default()).unwrap();
    claim
}

fn phase(run: &Run, claim: &NodeClaim) -> Option<Phase> {
    claims(run).into_iter().find(|other| other.name == claim.name).map(|other| other.phase)
}

/// Whether an Event has this reason.
fn is_reported(run: &Run, reason: &str) -> bool {
    let events = run.driver.world().api().list(&EVENTS, &ListOptions::default()).unwrap().items;
    events.iter().any(|event| event["reason"] == reason)
}

#[test]
fn a_drain_waits_for_the_budget_of_pods_that_are_not_ready_and_reports_it() {
    let mut run = with("unreadyPods: { count: 3, for: 24m }");
    minutes(&mut run, 7);
    let claim = delete_first_claim(&run);
    minutes(&mut run, 29);
    assert_eq!(phase(&run, &claim), Some(Phase::Draining));
    assert!(is_reported(&run, "FailedDraining"));
    minutes(&mut run, 35);
    assert_eq!((phase(&run, &claim), pending(&run)), (None, 0));
}

#[test]
fn a_drain_ends_by_the_termination_grace_period_whatever_pods_do() {
    for action in ["unreadyPods", "hangingPods"] {
        let of_class = "nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }";
        let yaml = CALM.replace(of_class, &format!("{of_class}\n          terminationGracePeriod: 5m"));
        let yaml = format!("{yaml}actions: [{{ after: 6m, {action}: {{ count: 3, for: 50m }} }}]\n");
        let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
        minutes(&mut run, 7);
        let claim = delete_first_claim(&run);
        minutes(&mut run, 15);
        assert_eq!(phase(&run, &claim), None, "{action}");
        minutes(&mut run, 25);
        assert_eq!((pending(&run), claims(&run).len()), (0, 3), "{action}");
    }
}

#[test]
fn a_drain_does_not_wait_longer_for_a_pod_that_hangs_than_karpenter() {
    let mut run = with("hangingPods: { count: 3, for: 50m }");
    minutes(&mut run, 7);
    let claim = delete_first_claim(&run);
    minutes(&mut run, 8);
    let stays = pods(&run).into_iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_string());
    assert!(stays.is_some() && phase(&run, &claim) == Some(Phase::Draining));
    // The pod's grace period of 30 seconds, and a minute.
    minutes(&mut run, 12);
    assert_eq!(phase(&run, &claim), None);
}

#[test]
fn a_drain_beyond_its_termination_grace_period_is_reported() {
    let mut run = calm();
    let mut claim = claims(&run).remove(0);
    claim.spec.termination_grace_period = Some(std::time::Duration::from_secs(60));
    let now = run.driver.world().now();
    begin_termination(&mut claim, TerminationReason::Deleted, "of a test", now);
    write(&run, &claim);
    assert_eq!(broken(&mut run), BTreeSet::new());
    run.driver.world_mut().advance_to(after(now, SignedDuration::from_mins(12))).unwrap();
    assert!(broken(&mut run).contains("a drain ends by the terminationGracePeriod"));
}

#[test]
fn an_instance_is_terminated_when_its_volumes_are_detached_however_slowly() {
    let volume = r#"
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: { name: disks }
    provisioner: ebs.csi.aws.com
    volumeBindingMode: WaitForFirstConsumer
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: { name: db }
    spec:
      replicas: 1
      serviceName: db
      selector: { matchLabels: { app: db } }
      template:
        metadata: { labels: { app: db } }
        spec:
          containers:
            - name: db
              image: registry.k8s.io/pause:3.9
              resources: { requests: { cpu: 1500m, memory: 1Gi } }
      volumeClaimTemplates:
        - metadata: { name: data }
          spec: { storageClassName: disks, accessModes: [ReadWriteOnce], resources: { requests: { storage: 10Gi } } }
"#;
    let yaml = format!("{CALM}{}actions: [{{ after: 6m, slowDetachments: {{ take: 5m, for: 30m }} }}]\n", &volume[1..]);
    let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
    minutes(&mut run, 7);
    let attached = |run: &Run| {
        let list = run.driver.world().api().list(&VOLUME_ATTACHMENTS, &ListOptions::default()).unwrap().items;
        list.iter().map(|it| it["spec"]["nodeName"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let node = attached(&run).remove(0);
    let claim = claims(&run).into_iter().find(|claim| claim.status.node_name.as_ref() == Some(&node)).unwrap();
    run.driver.world().api().delete(&NODE_CLAIMS, "", &claim.name, &DeleteOptions::default()).unwrap();
    minutes(&mut run, 11);
    assert!(attached(&run).contains(&node) && phase(&run, &claim) == Some(Phase::Draining));
    minutes(&mut run, 16);
    assert!(!attached(&run).contains(&node));
    assert_eq!((phase(&run, &claim), pending(&run)), (None, 0));
}
