//! Actions of services and users: slow answers, a restored table beside queues, purchases, load, statuses, and a rotation of the certificate
//! authority.

use super::action_tests::{minutes, names, own_instances, pending, scale, with};
use super::tests::{CALM, broken, calm, claims, leave, only, write};
use super::*;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS};
use nodeless_model::ConditionStatus;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_telemetry::{Captured, Null};
use nodeless_world::resources::PROVISIONING_REQUESTS;
use std::collections::BTreeSet;

/// The calm scenario with these lines.
fn calm_with(lines: &str) -> Run {
    Run::new(Scenario::parse(&format!("{CALM}{lines}\n")).unwrap(), 1, None, Arc::new(Null)).unwrap()
}

#[test]
fn functions_end_by_their_timeouts_while_the_api_server_is_slow_and_go_on_afterwards() {
    let lines = Arc::new(Captured::default());
    let yaml = format!("{CALM}actions: [{{ after: 6m, slowCalls: {{ of: cluster, take: 20s, for: 8m }} }}]\n");
    let mut run = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, lines.clone()).unwrap();
    minutes(&mut run, 6);
    lines.take();
    minutes(&mut run, 7);
    scale(&run, 4);
    minutes(&mut run, 14);
    assert_eq!((pending(&run), claims(&run).len()), (1, 3));
    let failed: BTreeSet<String> = lines.take().iter().filter_map(|it| it["why"].as_str().map(str::to_owned)).collect();
    let has = |why: &str| failed.iter().any(|failed| failed.contains(why));
    assert!(has("the service did not answer in time"), "{failed:?}");
    assert!(has("did not end before the function's timeout"), "{failed:?}");
    minutes(&mut run, 25);
    assert_eq!((pending(&run), claims(&run).len()), (0, 4));
}

#[test]
fn messages_survive_a_table_that_is_restored_to_a_second() {
    let mut run = calm_with("actions: [{ after: 6m, restoreTable: { ago: 97s } }]");
    let seconds = |run: &mut Run, seconds: i64| {
        let until = after(run.scenario.start, SignedDuration::from_secs(seconds));
        run.advance(until, &mut |_| ControlFlow::Continue(())).unwrap();
    };
    seconds(&mut run, 263);
    let then = claims(&run);
    scale(&run, 5);
    seconds(&mut run, 359);
    assert_eq!((then.len(), claims(&run).len()), (3, 5));
    scale(&run, 6);
    seconds(&mut run, 360);
    assert_eq!(claims(&run), then);
    assert!(run.driver.queue().next_due().is_some(), "what was sent is still to be received");
    minutes(&mut run, 30);
    assert_eq!((pending(&run), claims(&run).len()), (0, 6));
}

#[test]
fn what_an_account_buys_is_listed_with_its_term() {
    let buy = "{ after: 1m, buyReservedInstances: { instanceType: m6i.large, count: 2, for: 2h } }, \
               { after: 2m, buySavingsPlan: { dollarsPerHour: 0.5, discount: 0.25, family: m6i, for: 3h } }";
    let mut run = calm_with(&format!("actions: [{buy}]"));
    minutes(&mut run, 3);
    let account = run.driver.world().ec2().account();
    let all = account.commitments.unwrap();
    let (plan, rates) = all.plans().next().unwrap();
    assert_eq!((all.reserved[0].instance_count, all.reserved[0].duration), (2, 7200.0));
    assert_eq!((plan.end.duration_since(plan.start).as_hours(), plan.family.as_deref()), (3, Some("m6i")));
    let price = account.facts.types["m6i.large"].on_demand_price.unwrap();
    assert!((rates.unwrap()["m6i.large"] / price - 0.75).abs() < 1e-9);
    let unknown = "actions: [{ after: 1m, buyReservedInstances: { instanceType: c9.huge, count: 1, for: 2h } }]";
    let error = calm_with(unknown).finish().unwrap_err().to_string();
    assert!(error.contains("there is no instance type c9.huge in instanceFamilies"), "{error}");
}

#[test]
fn an_autoscaler_follows_the_load_of_a_workload() {
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 6, "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "AverageValue", "averageValue": "1" } } }],
        },
    });
    let mut run = calm_with(&format!(
        "load: [{{ name: web, after: {{ 3m: 3, 6m: 5, 12m: 2 }} }}]\nactions: [{{ after: 4m, apply: {autoscaler} }}]"
    ));
    let replicas = |run: &Run| {
        let web = run.driver.world().api().get(&DEPLOYMENTS, "default", "web").unwrap();
        web["spec"]["replicas"].as_u64().unwrap()
    };
    for (minute, expected) in [(5, 3), (11, 5), (14, 2)] {
        minutes(&mut run, minute);
        assert_eq!(replicas(&run), expected, "after {minute} minutes");
    }
}

#[test]
fn a_tenant_may_write_statuses_and_events() {
    let metadata = json!({ "name": "train", "namespace": "default" });
    let request = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata,
        "spec": { "provisioningClassName": "of-another-controller",
            "podSets": [{ "count": 1, "podTemplateRef": { "name": "none" } }] },
    });
    let condition = json!({ "type": "Provisioned", "status": "True", "reason": "Forged", "message": "forged",
        "lastTransitionTime": "2099-01-01T00:00:00Z" });
    let forged = json!({ "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata,
        "status": { "conditions": [condition] } });
    let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "forged", "namespace": "default" },
        "involvedObject": { "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general" },
        "reason": "DisruptionBlocked", "message": "forged", "type": "Warning" });
    let mut run = calm_with(&format!(
        "actions: [{{ after: 1m, apply: {request} }}, {{ after: 2m, applyStatus: {forged} }}, {{ after: 2m, apply: {event} }}]"
    ));
    minutes(&mut run, 3);
    let api = run.driver.world().api();
    let written = api.get(&PROVISIONING_REQUESTS, "default", "train").unwrap();
    assert_eq!(written["status"]["conditions"][0]["reason"], "Forged");
    assert_eq!(api.get(&EVENTS, "default", "forged").unwrap()["message"], "forged");
}

/// The numbers of the authorities that each running instance of nodeless trusts.
fn trusted(run: &Run) -> BTreeSet<Vec<u32>> {
    let authorities = run.driver.world().certificate_authorities();
    let alive = own_instances(run).into_iter().filter(|instance| instance.state.is_alive());
    alive.map(|instance| authorities.trusted_by(&instance).to_vec()).collect()
}

#[test]
fn each_node_is_replaced_once_for_a_rotation_of_the_certificate_authority() {
    let mut run = with("addCertificateAuthority: null }, { after: 50m, activateCertificateAuthority: null");
    let before = names(&run);
    assert_eq!(trusted(&run), [vec![0]].into());
    minutes(&mut run, 49);
    assert_eq!(trusted(&run), [vec![0, 1]].into());
    let launched = run.driver.world().ec2().launched();
    assert!(launched == 6 && names(&run).iter().all(|name| !before.contains(name)));
    minutes(&mut run, 75);
    assert_eq!((run.driver.world().ec2().launched(), pending(&run)), (launched, 0));
    assert!(run.report.notes.iter().any(|note| note.what.contains("lose the API server: none")));
}

#[test]
fn nodes_that_lack_the_active_authority_lose_the_api_server_and_none_may_be_launched() {
    let mut run = with("addCertificateAuthority: null }, { after: 6m, activateCertificateAuthority: null");
    // The catalog function has not seen the successor, and the process of the launch has the earlier bundle.
    minutes(&mut run, 6);
    assert_eq!(trusted(&run), [vec![0]].into());
    let launched = |run: &Run| run.driver.world().ec2().launched();
    scale(&run, 4);
    let until = after(run.driver.world().now(), SignedDuration::from_mins(4));
    run.driver.advance_until(until, |driver| driver.world().ec2().launched() == 4).unwrap();
    assert_eq!(launched(&run), 4);
    let wrong = only("no instance that is launched after the activation of a certificate authority lacks it");
    assert_eq!(broken(&mut run), wrong);
}

#[test]
fn a_node_may_not_be_replaced_twice_for_a_rotation() {
    let mut run = calm();
    run.driver.world_mut().add_certificate_authority();
    let now = run.driver.world().now();
    let drifts = |run: &mut Run, number: usize, replaces: Vec<String>| {
        let mut claim = claims(run).remove(number);
        claim.spec.replaces = replaces;
        claim.set_condition(condition::DRIFTED, ConditionStatus::True, "NodeClassDrift", "", now);
        write(run, &claim);
        let mut claim = claims(run).remove(number);
        leave(run, &mut claim, TerminationReason::Drifted);
        broken(run)
    };
    let first = names(&run)[0].clone();
    assert_eq!(drifts(&mut run, 0, Vec::new()), BTreeSet::new());
    let twice = drifts(&mut run, 1, vec![first]);
    assert!(twice.contains("a rotation of the certificate authority replaces a node at most once"), "{twice:?}");
}
