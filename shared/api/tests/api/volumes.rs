//! Where volumes can be used, from the objects that report it.
#![allow(clippy::cloned_ref_to_slice_refs, reason = "a test reads better that way")]

use nodeless_api::convert::volumes::{Storage, VolumeFacts, limits, resolve};
use nodeless_api::slim;
use nodeless_model::pod::VolumeClaim;
use nodeless_model::{Pod, PodTemplate, labels};
use serde_json::{Value, json};

fn pod(claim: &str, ephemeral: bool) -> Pod {
    let volume_claims = vec![VolumeClaim { claim_name: claim.into(), ephemeral }];
    Pod {
        namespace: "web".into(),
        name: "front".into(),
        template: PodTemplate { volume_claims, ..PodTemplate::default() }.into(),
        ..Pod::default()
    }
}

fn claim(spec: &Value) -> Value {
    json!({ "metadata": { "name": "data", "namespace": "web" }, "spec": spec, "status": { "phase": "Pending" } })
}

fn bound() -> Value {
    let mut claim = claim(&json!({ "volumeName": "pv-1", "storageClassName": "gp3" }));
    claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
    claim["status"]["phase"] = json!("Bound");
    claim
}

fn zonal(zones: &[&str]) -> Value {
    let term = |zone: &&str| json!({ "matchExpressions": [{ "key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone] }] });
    let terms: Vec<Value> = zones.iter().map(term).collect();
    json!({
        "metadata": { "name": "pv-1" },
        "spec": { "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" },
                  "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } },
    })
}

fn class(extra: &Value) -> Value {
    let mut class = json!({
        "metadata": { "name": "gp3" }, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    class.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    class
}

fn facts(claims: &[Value], volumes: &[Value], classes: &[Value]) -> VolumeFacts {
    let claims: Vec<slim::PersistentVolumeClaim> =
        claims.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect();
    let volumes: Vec<slim::PersistentVolume> =
        volumes.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect();
    let classes: Vec<slim::StorageClass> =
        classes.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect();
    let storage = Storage { claims: &claims, volumes: &volumes, classes: &classes };
    resolve(storage, [&pod("data", false)], |node| (node == "n1").then(|| "us-east-1c".to_owned()))
}

/// The zones of each alternative.
fn zones(facts: &VolumeFacts) -> Vec<Vec<String>> {
    let zone = |term: &nodeless_model::Requirements| match term.get(labels::ZONE).and_then(|zone| zone.values()) {
        Some(values) => values.iter().cloned().collect(),
        None => Vec::new(),
    };
    facts.topologies["web/data"].iter().map(zone).collect()
}

#[test]
fn a_bound_volume_is_used_where_its_affinity_allows() {
    let found = facts(&[bound()], &[zonal(&["us-east-1a", "us-east-1b"])], &[]);
    assert_eq!(zones(&found), [["us-east-1a"], ["us-east-1b"]]);
    assert_eq!(found.drivers["web/data"], "ebs.csi.aws.com");
    assert!(found.faults.is_empty());
}

#[test]
fn the_host_of_a_local_volume_is_apart_from_its_topology() {
    let local = json!({ "metadata": { "name": "pv-1" }, "spec": { "local": { "path": "/mnt" }, "nodeAffinity": { "required": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["a"] }] }]
    } } } });
    let found = facts(&[bound()], &[local], &[]);
    assert_eq!(found.topologies["web/data"], [nodeless_model::Requirements::new()]);
    assert_eq!(found.hosts["web/data"].iter().collect::<Vec<_>>(), ["a"]);
    assert!(found.drivers.is_empty());
}

#[test]
fn the_host_of_a_local_volume_counts_while_no_pod_mounts_it() {
    let volume = |source: &str| {
        let mut volume = json!({ "metadata": { "name": "pv-1" }, "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["a"] }] }
        ] } } } });
        volume["spec"][source] = json!({});
        serde_json::from_value::<slim::PersistentVolume>(volume).unwrap()
    };
    let found = |claim: Value, source: &str| {
        let claims = [serde_json::from_value(claim).unwrap()];
        resolve(Storage { claims: &claims, volumes: &[volume(source)], classes: &[] }, [], |_| None)
    };
    let unmounted = found(bound(), "local");
    assert_eq!(unmounted.hosts["web/data"].iter().collect::<Vec<_>>(), ["a"]);
    assert!(unmounted.topologies.is_empty() && unmounted.faults.is_empty(), "no pod needs it: {unmounted:?}");
    let mut deleted = bound();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-10T12:00:00Z");
    let waiting = claim(&json!({ "storageClassName": "gp3" }));
    for (claim, source) in [(deleted, "local"), (waiting, "local"), (bound(), "csi")] {
        assert_eq!(found(claim, source), VolumeFacts::default());
    }
}

#[test]
fn in_tree_volumes_count_for_the_driver_and_are_in_the_zone_of_their_labels() {
    let old = json!({
        "metadata": { "name": "pv-1", "labels": { "failure-domain.beta.kubernetes.io/zone": "us-east-1a__us-east-1b" } },
        "spec": { "awsElasticBlockStore": { "volumeID": "vol-1" } },
    });
    let found = facts(&[bound()], &[old], &[]);
    assert_eq!(zones(&found), [["us-east-1a", "us-east-1b"]]);
    assert_eq!(found.drivers["web/data"], "ebs.csi.aws.com");
    let waiting = claim(&json!({ "storageClassName": "gp3" }));
    let found = facts(&[waiting], &[], &[class(&json!({ "provisioner": "kubernetes.io/aws-ebs" }))]);
    assert_eq!(found.drivers["web/data"], "ebs.csi.aws.com");
}

#[test]
fn a_claim_that_waits_for_its_consumer_goes_where_its_class_allows() {
    let waiting = claim(&json!({ "storageClassName": "gp3" }));
    let found = facts(&[waiting.clone()], &[], &[class(&json!({}))]);
    assert_eq!(found.topologies["web/data"], []);
    let allowed = json!({ "allowedTopologies": [{ "matchLabelExpressions": [
        { "key": "topology.kubernetes.io/zone", "values": ["us-east-1a", "us-east-1c"] } ] }] });
    let found = facts(&[waiting.clone()], &[], &[class(&allowed)]);
    assert_eq!(zones(&found), [["us-east-1a", "us-east-1c"]]);
    let mut selected = waiting;
    selected["metadata"]["annotations"] = json!({ "volume.kubernetes.io/selected-node": "n1" });
    assert_eq!(zones(&facts(&[selected.clone()], &[], &[class(&allowed)])), [["us-east-1c"]]);
    assert_eq!(zones(&facts(&[selected.clone()], &[], &[class(&json!({}))])), [["us-east-1c"]]);
    selected["metadata"]["annotations"] = json!({ "volume.kubernetes.io/selected-node": "gone" });
    assert_eq!(facts(&[selected], &[], &[class(&json!({}))]).topologies["web/data"], []);
}

#[test]
fn what_cannot_be_mounted_is_named() {
    let mut deleting = bound();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut lost = bound();
    lost["status"]["phase"] = json!("Lost");
    let mut going = zonal(&["us-east-1a"]);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let waiting = claim(&json!({ "storageClassName": "gp3" }));
    for (claims, volumes, classes, expected) in [
        (vec![], vec![], vec![], "does not exist; create it"),
        (vec![deleting], vec![zonal(&["a"])], vec![], "being deleted"),
        (vec![lost], vec![zonal(&["a"])], vec![], "lost its PersistentVolume"),
        (vec![bound()], vec![], vec![], "pv-1, which does not exist"),
        (vec![bound()], vec![going], vec![], "pv-1, which is being deleted"),
        (vec![claim(&json!({ "volumeName": "pv-1" }))], vec![zonal(&["a"])], vec![], "not bound to it yet"),
        (vec![claim(&json!({}))], vec![], vec![], "no storage class"),
        (vec![claim(&json!({ "storageClassName": "" }))], vec![], vec![], "no storage class"),
        (vec![waiting.clone()], vec![], vec![], "StorageClass gp3 does not exist"),
        (vec![waiting], vec![], vec![class(&json!({ "volumeBindingMode": "Immediate" }))], "binds at once"),
    ] {
        let found = facts(&claims, &volumes, &classes);
        let why = &found.faults["web/data"];
        assert!(why.starts_with("PersistentVolumeClaim data") && why.contains(expected), "{why}");
        assert!(found.topologies.is_empty());
    }
    let found = resolve(Storage::default(), [&pod("front-scratch", true)], |_| None);
    assert!(found.faults["web/front-scratch"].contains("Kubernetes creates it"), "{found:?}");
}

#[test]
fn limits_are_those_of_drivers_that_have_one() {
    let node: slim::CsiNode = serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "drivers": [
        { "name": "ebs.csi.aws.com", "allocatable": { "count": 25 } }, { "name": "efs.csi.aws.com" } ] } }))
    .unwrap();
    assert_eq!(limits(&node), [("ebs.csi.aws.com".to_owned(), 25)].into());
    let bare: slim::CsiNode =
        serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "drivers": null } })).unwrap();
    assert!(limits(&bare).is_empty());
}
