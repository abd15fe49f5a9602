//! Extended resources that DeviceClasses give.

use crate::support::{id, slice};
use nodeless_devices::{
    AllocatedDevice, AllocatedDevices, ClaimAllocation, ClaimState, ClusterDevices, ExtendedResources,
};
use nodeless_model::{InstanceType, Overhead, Quantity, Requirements, ResourceList, StringMap};
use serde_json::json;
use std::collections::BTreeSet;

const GPU: &str = "example.com/gpu";
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/large";

/// `node-1` has three GPUs, one of them tainted; claims have these.
fn devices(claimed: &[(&str, bool)]) -> ClusterDevices {
    let gpu = |name: &str, model: &str| json!({"name": name, "attributes": {"model": {"string": model}}});
    let mut tainted = gpu("c", "large");
    tainted["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
    let slices = json!([slice("node-1", json!([gpu("a", "small"), gpu("b", "large"), tainted]))]);
    let is_gpu = json!([{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]);
    let is_large = json!([{"cel": {"expression": "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].model == 'large'"}}]);
    let mut devices = ClusterDevices {
        slices: serde_json::from_value(slices).unwrap(),
        classes: serde_json::from_value(json!({
            "gpu": {"name": "gpu", "selectors": is_gpu, "extendedResourceName": GPU},
            "large": {"name": "large", "selectors": is_large},
        }))
        .unwrap(),
        ..ClusterDevices::default()
    };
    for (device, is_of_extended_resource) in claimed {
        let results = vec![AllocatedDevice { id: id(&format!("node-1/{device}")), admin_access: None }];
        let allocation = Some(ClaimAllocation { devices: AllocatedDevices { results }, node_selector: None });
        let state =
            ClaimState { allocation, is_of_extended_resource: *is_of_extended_resource, ..ClaimState::default() };
        devices.claims.insert(format!("default/{device}"), state);
    }
    devices
}

fn on_node(devices: &ClusterDevices, requested: &[&'static str]) -> Vec<(String, i64)> {
    let requested: BTreeSet<&str> = requested.iter().copied().collect();
    let found = ExtendedResources::new(devices, &requested).of_node("node-1", &StringMap::new());
    found.into_iter().map(|(name, count)| (name.to_owned(), count.units())).collect()
}

#[test]
fn a_node_has_as_many_as_devices_that_no_claim_has() {
    let both = [GPU, OF_CLASS];
    let of = |large: i64, gpus: i64| {
        let all = [(OF_CLASS, large), (GPU, gpus)];
        all.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect::<Vec<_>>()
    };
    assert_eq!(on_node(&devices(&[]), &both), of(1, 2), "nothing tolerates the taint of a device");
    assert_eq!(on_node(&devices(&[("b", false)]), &both), of(0, 1));
    assert_eq!(on_node(&devices(&[("b", true)]), &both), of(1, 2), "the pod counts with its requests");
    assert_eq!(on_node(&devices(&[]), &["example.com/other", "cpu"]), []);
}

#[test]
fn instance_types_have_what_their_nodes_will_publish_unless_ec2_reports_it() {
    let class =
        |name: &str| json!({"name": name, "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]});
    let mut nvidia = class("gpu.nvidia.com");
    nvidia["extendedResourceName"] = json!("nvidia.com/gpu");
    let devices = ClusterDevices {
        classes: serde_json::from_value(json!({"gpu.nvidia.com": nvidia, "any": class("any")})).unwrap(),
        ..ClusterDevices::default()
    };
    let requested = BTreeSet::from(["nvidia.com/gpu", "deviceclass.resource.kubernetes.io/any"]);
    let types = [("g5.12xlarge", 4), ("m5.large", 0)].map(|(name, gpus)| InstanceType {
        name: name.into(),
        requirements: Requirements::new(),
        capacity: ResourceList::new().with("nvidia.com/gpu", Quantity::from_units(gpus)),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings: Vec::new(),
    });
    let added = ExtendedResources::new(&devices, &requested).added_to(&types.into_iter().collect());
    let has = |kind: usize, resource: &str| added[kind].capacity.get(resource).units();
    assert_eq!((has(0, "nvidia.com/gpu"), has(0, "deviceclass.resource.kubernetes.io/any")), (4, 4));
    assert_eq!((has(1, "nvidia.com/gpu"), has(1, "deviceclass.resource.kubernetes.io/any")), (0, 0));
}
