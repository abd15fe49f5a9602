//! How many pods fit on a node.

use crate::support::*;
use nodeless_devices::{Attempts, Fit, Inventory, Place, PodClaims, ResourceClaim, Selectors, Site, Slice, Taken};
use serde_json::{Value, json};

/// The kinds of pods are given as a claim each.
fn fit(slices: Value, kinds: &[Value], taken: &[&str], counted: Option<u32>) -> Fit {
    let slices: Vec<Slice> = serde_json::from_value(slices).unwrap();
    let kinds: Vec<Vec<ResourceClaim>> =
        kinds.iter().map(|claim| vec![serde_json::from_value(claim.clone()).unwrap()]).collect();
    let labels = std::collections::BTreeMap::new();
    let place = Place { name: Some("node-1"), labels: &labels };
    let inventory = Inventory::new(&slices);
    let pools = inventory.pools(&place).unwrap();
    let ids: Vec<nodeless_devices::DeviceId> = taken.iter().map(|name| id(name)).collect();
    let taken: Taken = ids.iter().collect();
    let counted =
        counted.map(|count| vec![std::collections::BTreeMap::from([(DRIVER.to_owned(), count)]); kinds.len()]);
    let (classes, selectors) = (classes(), Selectors::default());
    let pods = |claims| PodClaims::new(claims, &classes, &selectors, u32::MAX, Attempts::at_most(u64::MAX));
    let mut kinds: Vec<PodClaims<'_>> = kinds.iter().map(pods).collect();
    Site { place: &place, pools: &pools, taken: &taken }.fit(&mut kinds, counted.as_deref())
}

fn of_model(model: &str, count: i64) -> Value {
    let selectors = json!([{"cel": {"expression": format!("device.attributes['{DRIVER}'].model == '{model}'")}}]);
    claim_of(json!([request("r", json!({"count": count, "selectors": selectors}))]), json!([]))
}

fn models(models: &[&str]) -> Value {
    let devices = models.iter().enumerate().map(|(at, model)| device(&format!("d{at}"), "model", model));
    json!([slice("p", devices.collect())])
}

fn times(fit: &Fit) -> Vec<Option<u32>> {
    fit.times.iter().map(|times| times.as_ref().ok().copied()).collect()
}

#[test]
fn pods_of_one_kind_are_counted() {
    let four = models(&["t4"; 4]);
    for (claim, taken, expected) in [
        (of_model("t4", 1), &[][..], Some(4)),
        (of_model("t4", 3), &[], Some(1)),
        (of_model("t4", 1), &["p/d0", "p/d3"], Some(2)),
        (of_model("l4", 1), &[], None),
    ] {
        let fit = fit(four.clone(), &[claim], taken, None);
        assert_eq!(times(&fit), [expected]);
        assert_eq!(fit.free, Default::default());
    }
    let takes = fit(four, &[of_model("t4", 3)], &[], None).takes;
    assert_eq!(takes[0][DRIVER], 3);
}

#[test]
fn devices_that_are_interchangeable_are_shared() {
    let any = claim(&[("r", 1)]);
    let fit = fit(models(&["t4"; 4]), &[any, of_model("t4", 2), of_model("l4", 1)], &["p/d0"], None);
    assert_eq!(times(&fit), [Some(3), Some(1), None]);
    assert_eq!(fit.free[DRIVER], 3);
}

/// One of the four devices is of the model: three pods that need any device, and one that needs it, do not always fit together.
#[test]
fn a_node_with_different_devices_counts_for_one_kind() {
    let any = claim(&[("r", 1)]);
    let mixed = models(&["l4", "t4", "t4", "t4"]);
    let fit_of = |kinds: &[Value], counted| times(&fit(mixed.clone(), kinds, &[], counted));
    assert_eq!(fit_of(&[any.clone(), of_model("l4", 1)], None), [Some(4), None]);
    assert_eq!(fit_of(&[of_model("l4", 1), any.clone()], None), [Some(1), None]);
    // These select no device in common.
    assert_eq!(fit_of(&[of_model("l4", 1), of_model("t4", 1)], None), [Some(1), Some(3)]);
    assert_eq!(times(&fit(models(&["t4"; 4]), &[any.clone(), of_model("t4", 2)], &[], Some(1))), [Some(4), None]);
    assert_eq!(times(&fit(models(&["t4"; 4]), &[any.clone(), of_model("t4", 2)], &[], Some(2))), [Some(4), Some(2)]);
    let all = claim_of(json!([request("r", json!({"allocationMode": "All"}))]), json!([]));
    assert_eq!(times(&fit(models(&["t4"; 4]), &[any, all], &[], None)), [Some(4), None]);
}

#[test]
fn nodes_of_an_instance_type_publish_what_another_did() {
    use nodeless_devices::{Attribute, ClusterDevices};
    let slices = json!([
        {"name": "s", "spec": {
            "driver": DRIVER, "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 1}, "nodeName": "node-1",
            "devices": [{"name": "a", "attributes": {"model": {"string": "t4"}, "uuid": {"string": "x"}}, "taints": [{"key": "k", "effect": "NoSchedule"}]}],
        }},
        {"name": "old", "spec": {
            "driver": DRIVER, "pool": {"name": "node-1", "generation": 2, "resourceSliceCount": 1}, "nodeName": "node-1", "devices": [],
        }},
    ]);
    let mut devices = ClusterDevices { slices: serde_json::from_value(slices).unwrap(), ..ClusterDevices::NONE };
    devices.learn([("node-1", "g4dn.xlarge"), ("node-2", "m5.large")]);
    let kind = nodeless_model::InstanceType { name: "g4dn.xlarge".into(), ..instance_type() };
    let predicted = devices.predicted(&kind, "new");
    assert_eq!(predicted.len(), 1);
    let it = &predicted[0].spec.devices[0];
    assert_eq!(
        (predicted[0].spec.node_name.as_deref(), predicted[0].spec.pool.name.as_str()),
        (Some("new"), "new-node-1")
    );
    assert!(it.is_predicted && it.taints.is_empty());
    assert_eq!(it.attributes["model"], Attribute::String("t4".into()));
    assert_eq!(it.attributes["uuid"], Attribute::Unknown);
    // A driver that has published nothing is expected as on a type without nodes.
    let mut gpu = kind;
    gpu.capacity.set("nvidia.com/gpu", nodeless_model::Quantity::from_units(1));
    let drivers: Vec<String> = devices.predicted(&gpu, "new").into_iter().map(|slice| slice.spec.driver).collect();
    assert_eq!(drivers, [DRIVER, "gpu.nvidia.com"]);
    let other = nodeless_model::InstanceType { name: "g5.xlarge".into(), ..instance_type() };
    assert_eq!(devices.predicted(&other, "new"), []);
}

#[test]
fn what_is_known_of_an_instance_type_is_predicted() {
    use nodeless_devices::{Attribute, ClusterDevices};
    use nodeless_model::{Quantity, Requirement, labels};
    let mut gpu = instance_type();
    gpu.capacity.set("nvidia.com/gpu", Quantity::from_units(4));
    gpu.requirements.add(labels::INSTANCE_GPU_NAME, Requirement::one_of(["l4"]));
    let slices = ClusterDevices::NONE.predicted(&gpu, "new");
    assert_eq!((slices.len(), slices[0].spec.driver.as_str(), slices[0].spec.devices.len()), (1, "gpu.nvidia.com", 4));
    let attributes = &slices[0].spec.devices[0].attributes;
    assert_eq!(attributes["architecture"], Attribute::String("Ada Lovelace".into()));
    assert_eq!(attributes["cudaComputeCapability"], Attribute::Version("8.9.0".into()));
    let mut neuron = instance_type();
    neuron.capacity.set("aws.amazon.com/neuron", Quantity::from_units(16));
    let slices = ClusterDevices::NONE.predicted(&neuron, "new");
    assert_eq!((slices[0].spec.driver.as_str(), slices[0].spec.devices.len()), ("neuron.aws.com", 16));
    assert_eq!(ClusterDevices::NONE.predicted(&instance_type(), "new"), []);
}

fn instance_type() -> nodeless_model::InstanceType {
    nodeless_model::InstanceType {
        name: "x".into(),
        requirements: nodeless_model::Requirements::new(),
        capacity: nodeless_model::ResourceList::new(),
        ebs_volumes: None,
        root_volume: None,
        overhead: nodeless_model::Overhead::default(),
        offerings: Vec::new(),
    }
}
