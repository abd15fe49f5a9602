//! Pods with ResourceClaims get nodes with devices, and run there.

use crate::support::{create, list, picture, start, within};
use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::{
    DAEMON_SETS, DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES,
};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A cluster with a NodePool for GPUs, and the driver and the DeviceClass of NVIDIA.
fn cluster() -> Driver {
    let driver = start();
    let requirements = json!([{ "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["g"] }]);
    let body = json!({ "spec": { "template": { "spec": { "requirements": requirements } } } });
    let api = driver.world().api();
    api.patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &body, &PatchOptions::default()).unwrap();
    let container = json!({ "name": "main", "image": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0" });
    let spec = json!({ "containers": [container], "tolerations": [{ "operator": "Exists" }] });
    let labels = json!({ "app": "driver" });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    create(
        &driver,
        &DAEMON_SETS,
        json!({ "metadata": { "name": "driver", "namespace": "kube-system" }, "spec": spec }),
    );
    let expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    let selectors = json!([{ "cel": { "expression": expression } }]);
    create(&driver, &DEVICE_CLASSES, json!({ "metadata": { "name": "gpu" }, "spec": { "selectors": selectors } }));
    let requests = json!([{ "name": "gpu", "exactly": { "deviceClassName": "gpu" } }]);
    let spec = json!({ "spec": { "devices": { "requests": requests } } });
    let metadata = json!({ "name": "one", "namespace": "default" });
    create(&driver, &RESOURCE_CLAIM_TEMPLATES, json!({ "metadata": metadata, "spec": spec }));
    driver
}

fn add_pod(driver: &Driver, name: &str) {
    let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1" } } });
    let claims = json!([{ "name": "gpu", "resourceClaimTemplateName": "one" }]);
    let spec = json!({ "containers": [container], "resourceClaims": claims });
    create(driver, &PODS, json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec }));
}

fn running(driver: &Driver) -> usize {
    let is_running = |pod: &Value| pod["metadata"]["namespace"] == "default" && pod["status"]["phase"] == "Running";
    list(driver, &PODS).iter().filter(|pod| is_running(pod)).count()
}

#[test]
fn pods_with_claims_get_nodes_with_devices() {
    let mut driver = cluster();
    ["a", "b"].iter().for_each(|name| add_pod(&driver, name));
    let limit = within(&driver, 900);
    let all_run = driver.advance_until(limit, |driver| running(driver) == 2).unwrap();
    assert!(all_run, "{}", picture(&mut driver));
    let claims = list(&driver, &RESOURCE_CLAIMS);
    let devices = claims.iter().map(|claim| claim["status"]["allocation"]["devices"]["results"][0].clone());
    let devices: BTreeSet<String> = devices.map(|it| format!("{}/{}", it["pool"], it["device"])).collect();
    assert_eq!((claims.len(), devices.len()), (2, 2), "{claims:?}");
    for name in ["a", "b"] {
        driver.world().api().delete(&PODS, "default", name, &DeleteOptions::default()).unwrap();
    }
    let limit = within(&driver, 1800);
    let all_gone = driver.advance_until(limit, |driver| list(driver, &NODES).is_empty()).unwrap();
    assert!(all_gone, "{}", picture(&mut driver));
    assert!(list(&driver, &RESOURCE_CLAIMS).is_empty() && list(&driver, &RESOURCE_SLICES).is_empty());
}
