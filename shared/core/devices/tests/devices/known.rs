//! What is known of the devices of EC2's instance types before a node of the type exists.

use nodeless_devices::{
    Attribute, ClusterDevices, DeviceClass, Inventory, Place, ResourceClaim, Selectors, Slice, Taken, allocate,
};
use nodeless_model::{InstanceType, Overhead, Quantity, Requirements, ResourceList, StringMap};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Instance types with their numbers of GPUs and EFA interfaces.
const TYPES: [(&str, i64, i64); 13] = [
    ("c5n.18xlarge", 0, 1),
    ("g4dn.xlarge", 1, 0),
    ("g4dn.metal", 8, 1),
    ("g5.12xlarge", 4, 1),
    ("g6.xlarge", 1, 0),
    ("g6.12xlarge", 4, 1),
    ("g6e.xlarge", 1, 0),
    ("m5.large", 0, 0),
    ("p4d.24xlarge", 8, 4),
    ("p5.48xlarge", 8, 32),
    ("p6-b200.48xlarge", 8, 8),
    ("p6-b300.48xlarge", 8, 16),
    ("g7e.48xlarge", 8, 4),
];

fn instance_type(name: &str, gpus: i64, efas: i64) -> InstanceType {
    InstanceType {
        name: name.into(),
        requirements: Requirements::new(),
        capacity: ResourceList::new()
            .with("nvidia.com/gpu", Quantity::from_units(gpus))
            .with("vpc.amazonaws.com/efa", Quantity::from_units(efas)),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings: Vec::new(),
    }
}

fn classes() -> BTreeMap<String, DeviceClass> {
    let class = |name: &str, expression: &str| {
        let class = json!({"name": name, "selectors": [{"cel": {"expression": expression}}]});
        (name.to_owned(), serde_json::from_value(class).unwrap())
    };
    BTreeMap::from([
        class("gpu", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"),
        class("efa", "device.driver == 'dra.net' && device.attributes['dra.net'].rdma == true"),
    ])
}

/// Whether a claim gets its devices on a node with these slices, or why not.
fn outcome(slices: &[Slice], devices: &Value) -> Result<(), String> {
    let claim: ResourceClaim = serde_json::from_value(json!({"name": "c", "devices": devices})).unwrap();
    let place = Place { name: Some("new"), labels: &StringMap::new() };
    let pools = Inventory::new(slices).pools(&place).unwrap();
    let selectors = Selectors::default();
    let allocated = allocate(&[&claim], &place, &pools, &classes(), &Taken::default(), &selectors);
    allocated.map(|_| ()).map_err(|refusal| refusal.to_string())
}

/// The types of which a new node has the devices.
fn types_with(devices: &Value) -> Vec<&'static str> {
    let has = |(name, gpus, efas): &(&str, i64, i64)| {
        let slices = ClusterDevices::NONE.predicted(&instance_type(name, *gpus, *efas), "new");
        outcome(&slices, devices).is_ok()
    };
    TYPES.iter().filter(|known| has(known)).map(|(name, ..)| *name).collect()
}

fn select(class: &str, expression: &str) -> Value {
    let selectors = json!([{"cel": {"expression": expression}}]);
    json!({"requests": [{"name": "r", "exactly": {"deviceClassName": class, "selectors": selectors}}]})
}

#[test]
fn gpus_are_selected_by_what_their_driver_publishes() {
    let attributes = "device.attributes['gpu.nvidia.com']";
    let memory = "device.capacity['gpu.nvidia.com'].memory";
    for (expression, types) in [
        (
            format!("{memory}.compareTo(quantity('40Gi')) >= 0"),
            &["g6e.xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge"][..],
        ),
        (format!("{memory}.isGreaterThan(quantity('180Gi'))"), &["p6-b300.48xlarge"]),
        (format!("{memory}.isLessThan(quantity('16Gi'))"), &["g4dn.xlarge", "g4dn.metal"]),
        (format!("{attributes}.productName == 'NVIDIA A100-SXM4-40GB'"), &["p4d.24xlarge"]),
        (format!("{attributes}.productName == 'NVIDIA B200'"), &["p6-b200.48xlarge"]),
        (format!("{attributes}.productName.contains('B300')"), &["p6-b300.48xlarge"]),
        (format!("{attributes}.productName.lowerAscii().matches('.*h100.*')"), &["p5.48xlarge"]),
        (
            format!("{attributes}.architecture == 'Blackwell'"),
            &["p6-b200.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge"],
        ),
        (
            format!("{attributes}.brand == 'Nvidia' && {attributes}.architecture == 'Turing'"),
            &["g4dn.xlarge", "g4dn.metal"],
        ),
        (format!("{attributes}.brand == 'Tesla'"), &[]),
        (
            format!("{attributes}.cudaComputeCapability.compareTo(semver('10.0.0')) >= 0"),
            &["p6-b200.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge"],
        ),
    ] {
        assert_eq!(types_with(&select("gpu", &expression)), types, "{expression}");
    }
}

#[test]
fn efa_devices_are_those_of_the_interfaces() {
    let request =
        |count: i64| json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "efa", "count": count}}]});
    let with_efa = types_with(&request(1));
    assert_eq!(
        with_efa,
        [
            "c5n.18xlarge",
            "g5.12xlarge",
            "g6.12xlarge",
            "p4d.24xlarge",
            "p5.48xlarge",
            "p6-b200.48xlarge",
            "p6-b300.48xlarge",
            "g7e.48xlarge"
        ],
        "g4dn.metal publishes rdma false"
    );
    assert_eq!(types_with(&request(16)), ["p5.48xlarge", "p6-b300.48xlarge"]);
    let device = "device.attributes['dra.net'].pciDevice == 'Elastic Fabric Adapter (EFA)'";
    assert_eq!(types_with(&select("efa", device)), with_efa);
    // A network device without such an interface is not expected.
    let slices = ClusterDevices::NONE.predicted(&instance_type("c5n.18xlarge", 0, 0), "new");
    assert_eq!(slices, []);
}

#[test]
fn devices_share_a_pcie_root() {
    let request = |name: &str, class: &str, count: i64| json!({"name": name, "exactly": {"deviceClassName": class, "count": count}});
    let on_one_root = |requests: Vec<Value>| {
        types_with(&json!({
            "requests": requests,
            "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
        }))
    };
    assert_eq!(
        on_one_root(vec![request("gpu", "gpu", 2)]),
        ["g4dn.metal", "g5.12xlarge", "p4d.24xlarge", "p6-b200.48xlarge", "g7e.48xlarge"]
    );
    assert_eq!(on_one_root(vec![request("gpu", "gpu", 4)]), ["g5.12xlarge"]);
    assert_eq!(
        on_one_root(vec![request("gpu", "gpu", 1), request("nic", "efa", 1)]),
        ["g5.12xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge"]
    );
    assert_eq!(on_one_root(vec![request("gpu", "gpu", 1), request("nic", "efa", 4)]), ["p5.48xlarge"]);
}

#[test]
fn what_is_not_known_is_refused_and_not_guessed() {
    let root = json!({
        "requests": [{"name": "nic", "exactly": {"deviceClassName": "efa"}}],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    });
    let unknown_root = Err(
        "a constraint of ResourceClaim c needs attribute resource.kubernetes.io/pcieRoot of driver dra.net, which is not known before the driver publishes the device"
            .to_owned(),
    );
    let on = |name: &str, gpus, efas| ClusterDevices::NONE.predicted(&instance_type(name, gpus, efas), "new");
    assert_eq!(outcome(&on("c5n.18xlarge", 0, 1), &root), unknown_root);
    // Which of the 32 interfaces the class gives the node is not known.
    assert_eq!(outcome(&on("p5.48xlarge", 8, 16), &root), unknown_root);
    assert_eq!(outcome(&on("p5.48xlarge", 8, 32), &root), Ok(()));
    let memory = select("gpu", "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1Gi'))");
    assert!(outcome(&on("g99.xlarge", 1, 0), &memory).unwrap_err().contains("needs capacity gpu.nvidia.com/memory"));
}

/// The slice of a node, of devices with these names and attributes.
fn published(driver: &str, devices: Value) -> Slice {
    let pool = json!({"name": "node-1", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": driver, "pool": pool, "nodeName": "node-1", "devices": devices});
    serde_json::from_value(json!({"name": format!("node-1-{driver}"), "spec": spec})).unwrap()
}

fn learned(kind: &InstanceType, slices: Vec<Slice>) -> Vec<Slice> {
    let mut devices = ClusterDevices { slices, ..ClusterDevices::NONE };
    devices.learn([("node-1", kind.name.as_str())]);
    devices.predicted(kind, "new")
}

#[test]
fn what_a_driver_publishes_wins_over_what_is_known() {
    let kind = instance_type("g6.xlarge", 1, 0);
    let attributes = json!({
        "type": {"string": "gpu"}, "productName": {"string": "NVIDIA L4 of tomorrow"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:99"}, "uuid": {"string": "GPU-1"},
    });
    let gpu = json!([{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "100Gi"}}}]);
    let slices = learned(&kind, vec![published("gpu.nvidia.com", gpu)]);
    let device = &slices[0].spec.devices[0];
    assert_eq!(slices.len(), 1);
    assert_eq!(device.attributes["productName"], Attribute::String("NVIDIA L4 of tomorrow".into()));
    assert_eq!(device.attributes["resource.kubernetes.io/pcieRoot"], Attribute::String("pci0000:99".into()));
    assert_eq!(device.attributes["uuid"], Attribute::Unknown);
    assert!(
        outcome(&slices, &select("gpu", "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))"))
            .is_ok()
    );
}

/// EFA interfaces are attached on request only, so a node without them does not show that the type has none.
#[test]
fn a_node_without_efa_interfaces_does_not_hide_those_of_its_type() {
    let kind = instance_type("c5n.18xlarge", 0, 1);
    let interface = json!([{"name": "eth0", "attributes": {"dra.net/rdma": {"bool": false}}}]);
    let efa = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "efa"}}]});
    assert_eq!(outcome(&learned(&kind, vec![published("dra.net", interface)]), &efa), Ok(()));
    let attributes =
        json!({"dra.net/rdma": {"bool": true}, "dra.net/pciDevice": {"string": "Elastic Fabric Adapter (EFA)"}});
    let adapters = json!([{"name": "a", "attributes": attributes}, {"name": "b", "attributes": attributes}]);
    let slices = learned(&kind, vec![published("dra.net", adapters)]);
    assert_eq!(slices.iter().map(|slice| slice.spec.devices.len()).sum::<usize>(), 2);
}
