//! What the invariants about limits and quotas find.

use super::tests::{CALM, broken, calm, claims, leave, only, patch, started, write};
use super::*;
use nodeless_fake_kubernetes::resource::{NAMESPACES, POD_TEMPLATES, RESOURCE_QUOTAS};
use nodeless_fake_kubernetes::{CreateOptions, Resource};
use nodeless_model::claim::TerminationReason;
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_POOLS, PROVISIONING_REQUESTS};
use std::collections::BTreeSet;

#[test]
fn two_claims_may_not_have_one_place_in_a_launch_group() {
    let mut run = calm();
    let all = claims(&run);
    let mut claim = all[0].clone();
    claim.spec.launch_group.clone_from(&all[1].spec.launch_group);
    write(&run, &claim);
    assert_eq!(broken(&mut run), only("each claim has at most one instance"));
}

#[test]
fn a_launch_group_may_not_have_more_instances_than_members() {
    let mut run = calm();
    for mut claim in claims(&run) {
        claim.spec.launch_group.as_mut().unwrap().size = 1;
        write(&run, &claim);
    }
    assert_eq!(broken(&mut run), only("each claim has at most one instance"));
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit() {
    for (limits, annotation) in [
        (json!({ "cpu": "5" }), Value::Null),
        (json!({ "memory": "20Gi" }), Value::Null),
        (json!({ "nodes": "2" }), Value::Null),
        (json!({}), json!({ "nodeless.sh/dollars-per-hour": "0.2" })),
        (json!({ "nodeless.sh/dollars-per-hour": "0.2" }), Value::Null),
    ] {
        let mut run = calm();
        let change = json!({ "metadata": { "annotations": annotation }, "spec": { "limits": limits } });
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), only("the limits of NodePools hold"), "{change}");
    }
}

#[test]
fn three_nodes_of_eight_gibibytes_are_within_a_limit_of_twenty_four() {
    let mut run = calm();
    patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "limits": { "memory": "24Gi" } } }));
    let mut claim = claims(&run).remove(0);
    claim.status.last_pod_event = Some(run.driver.world().now());
    write(&run, &claim);
    assert_eq!(broken(&mut run), BTreeSet::new());
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit_of_gpus() {
    let mut run = started(&CALM.replace("[m6i]", "[g4dn]").replace("[large]", "[xlarge]"));
    let gpus = claims(&run).len();
    for (limit, expected) in [(gpus, BTreeSet::new()), (gpus - 1, only("the limits of NodePools hold"))] {
        let limits = json!({ "nvidia.com/gpu": limit.to_string() });
        patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "limits": limits } }));
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), expected, "{limit} of {gpus}");
    }
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit_of_the_cluster() {
    for (annotation, limit) in
        [("nodeless.sh/max-cpu", "5"), ("nodeless.sh/max-nodes", "2"), ("nodeless.sh/max-dollars-per-hour", "0.2")]
    {
        let mut run = calm();
        let change = json!({ "metadata": { "annotations": { annotation: limit } } });
        patch(&run, &NAMESPACES, "", "kube-system", &change);
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), only("the limits of the cluster hold"), "{change}");
    }
}

#[test]
fn what_leaves_by_force_does_not_count_against_a_limit() {
    for (reason, counts) in [(TerminationReason::Interrupted, false), (TerminationReason::Drifted, true)] {
        let mut run = calm();
        let all = claims(&run);
        let change = json!({ "spec": { "limits": { "nodes": (all.len() - 1).to_string() } } });
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = all[0].clone();
        leave(&run, &mut claim, reason);
        assert_eq!(broken(&mut run).contains("the limits of NodePools hold"), counts, "{reason:?}");
    }
}

#[test]
fn nodes_for_virtual_pods_may_not_exceed_quotas() {
    let metadata = |name: &str| json!({ "metadata": { "name": name, "namespace": "default" } });
    let container =
        json!({ "name": "c", "image": "x", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } });
    let with = |name: &str, field: &str, value: Value| {
        let mut object = metadata(name);
        object[field] = value;
        object
    };
    let set = json!({ "podTemplateRef": { "name": "small" }, "count": 2 });
    let class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    for (hard, allowed) in [
        (json!({ "requests.cpu": "1", "memory": "2Gi", "pods": 2 }), true),
        (json!({ "requests.cpu": "900m" }), false),
        (json!({ "requests.memory": "1500Mi" }), false),
        (json!({ "pods": "1" }), false),
    ] {
        for pods in [
            ["capacity-buffer-spare-0", "capacity-buffer-spare-1"],
            ["provisioning-request-job-0-0", "provisioning-request-job-0-1"],
        ] {
            let mut run = calm();
            let api = run.driver.world().api();
            let create = |resource: &Resource, object: Value| {
                api.create(resource, object, &CreateOptions::default()).unwrap();
            };
            create(&POD_TEMPLATES, with("small", "template", json!({ "spec": { "containers": [container] } })));
            create(
                &CAPACITY_BUFFERS,
                with("spare", "spec", json!({ "podTemplateRef": { "name": "small" }, "replicas": 2 })),
            );
            let spec = json!({ "provisioningClassName": class, "podSets": [set] });
            create(&PROVISIONING_REQUESTS, with("job", "spec", spec));
            create(&RESOURCE_QUOTAS, with("small", "spec", json!({ "hard": hard })));
            assert_eq!(broken(&mut run), BTreeSet::new());
            let mut claim = claims(&run).remove(0);
            claim.spec.nominated_pods.extend(pods.map(|pod| format!("default/{pod}")));
            write(&run, &claim);
            let expected = if allowed {
                BTreeSet::new()
            } else {
                only("what is launched for virtual pods stays within ResourceQuotas")
            };
            assert_eq!(broken(&mut run), expected, "{hard}");
            assert!(run.oracle.virtual_pods.counted > 0);
        }
    }
}
