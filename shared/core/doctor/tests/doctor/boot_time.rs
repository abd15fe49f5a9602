//! Settings of nodes that cost seconds until their pods run.

use crate::checks::{found, one, ready};
use nodeless_api::test_support::ec2_node_class;
use nodeless_doctor::{Check, Facts, Read, Severity, check};
use serde_json::{Value, json};

/// A cluster that is ready, with these fields in the spec of its EC2NodeClass.
fn with(spec: &Value) -> Facts {
    let mut facts = ready();
    let class = facts.view.node_classes.get_mut("default").unwrap();
    let mut changed = serde_json::to_value(&class.spec).unwrap();
    changed.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    class.spec = serde_json::from_value(changed).unwrap();
    facts
}

fn problems(facts: &Facts) -> Vec<String> {
    let notes = check(facts).into_iter().filter(|finding| finding.check == Check::BootTime);
    notes.map(|finding| finding.problem).collect()
}

#[test]
fn images_that_are_pulled_one_at_a_time() {
    for serial in [
        json!({ "kubelet": { "serializeImagePulls": true } }),
        json!({ "kubelet": { "maxParallelImagePulls": 1 } }),
        json!({ "userData": "kind: NodeConfig\nspec:\n  kubelet:\n    config:\n      serializeImagePulls: true\n" }),
        json!({ "userData": "{\"spec\": {\"kubelet\": {\"config\": {\"serializeImagePulls\": true}}}}" }),
        json!({ "userData": "[settings.kubernetes]\nmax-parallel-image-pulls = 1\n" }),
    ] {
        found(&with(&serial), Severity::Note, Check::BootTime, "pulls one image at a time");
        assert_eq!(one(&with(&serial)).object, "EC2NodeClass default", "{serial}");
    }
    for parallel in [
        json!({ "kubelet": { "serializeImagePulls": false, "maxParallelImagePulls": 10 } }),
        // The settings of the class override those of the user data.
        json!({ "kubelet": { "serializeImagePulls": false }, "userData": "serializeImagePulls: true" }),
        json!({ "userData": "[settings.kubernetes]\nmax-parallel-image-pulls = 10\n# serializeImagePulls: true\n" }),
    ] {
        assert_eq!(check(&with(&parallel)), [], "{parallel}");
    }
}

#[test]
fn images_on_a_volume_of_the_default_throughput() {
    let mapped = |device: &str, ebs: Value| json!({ "blockDeviceMappings": [{ "deviceName": device, "ebs": ebs }] });
    let family = |alias: &str, mut spec: Value| {
        spec["amiSelectorTerms"] = json!([{ "alias": alias }]);
        spec
    };
    let gp3 = |throughput| json!({ "volumeSize": "50Gi", "volumeType": "gp3", "throughput": throughput });
    for slow in [
        json!({ "blockDeviceMappings": [] }),
        mapped("/dev/xvda", json!({ "volumeSize": "50Gi", "volumeType": "gp3" })),
        mapped("/dev/xvda", gp3(125)),
        family("bottlerocket@latest", mapped("/dev/xvdb", gp3(125))),
        family("windows2022@latest", json!({ "blockDeviceMappings": [] })),
        json!({ "amiFamily": "Custom", "blockDeviceMappings": [{ "rootVolume": true, "ebs": gp3(125) }] }),
    ] {
        let problems = problems(&with(&slow));
        assert!(problems.len() == 1 && problems[0].contains("gp3 volume of 125 MiB/s"), "{slow}: {problems:?}");
    }
    for other in [
        mapped("/dev/xvda", gp3(126)),
        mapped("/dev/xvda", json!({ "volumeSize": "50Gi" })),
        mapped("/dev/xvdc", gp3(125)),
        family("bottlerocket@latest", mapped("/dev/xvda", gp3(125))),
        json!({ "instanceStorePolicy": "RAID0", "blockDeviceMappings": [] }),
        json!({ "amiFamily": "Custom", "blockDeviceMappings": [] }),
    ] {
        assert_eq!(problems(&with(&other)), [""; 0], "{other}");
    }
}

#[test]
fn classes_with_the_same_setting_are_one_finding() {
    let mut facts = with(&json!({ "blockDeviceMappings": [] }));
    for name in ["a", "b", "c"] {
        let mut class = ec2_node_class(name, "demo", &json!({}));
        class.spec.role = Some("nodes".to_owned());
        class.status.clone_from(&facts.view.node_classes["default"].status);
        facts.view.node_classes.insert(name.to_owned(), class);
    }
    assert_eq!(one(&facts).object, "EC2NodeClasses a, b, c and 1 more");
    facts.view.node_classes.remove("a");
    assert_eq!(one(&facts).object, "EC2NodeClasses b, c, default");
}

#[test]
fn addresses_that_are_assigned_one_by_one() {
    let facts = |read| Facts { prefix_delegation: read, ..ready() };
    found(&facts(Read::Done(Some(false))), Severity::Note, Check::BootTime, "up to 10 seconds");
    assert_eq!(check(&facts(Read::Done(None))), [], "the cluster has another network plugin");
    found(&facts(Read::Not("no right".to_owned())), Severity::NotChecked, Check::BootTime, "no right");
}
