//! Pods that claim devices.

mod costly;
mod real_devices;

use crate::support::*;
use nodeless_devices::{
    ClaimState, ClusterDevices, DeviceClass, Inventory, Place, ResourceClaim, Selectors, Slice, allocate,
};
use nodeless_model::*;
use nodeless_scheduling::{ClusterFacts, ExistingNode, Problem};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The claims of the tests: a template for one GPU, for two, for one of a model that no type is known to have, and one whose selector
/// needs what only drivers know.
pub(crate) fn devices() -> ClusterDevices {
    let request = |fields: Value| {
        let mut exact = json!({"deviceClassName": "gpu.nvidia.com"});
        exact.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"requests": [{"name": "r", "exactly": exact}]})
    };
    let select = |expression: &str| request(json!({"selectors": [{"cel": {"expression": expression}}]}));
    let templates = json!({
        "default/one": request(json!({})),
        "default/two": request(json!({"count": 2})),
        "default/mig": select("device.attributes['gpu.nvidia.com'].type == 'mig'"),
        "default/new": select("device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('580.0.0'))"),
        "default/big": select("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))"),
    });
    let class: DeviceClass = serde_json::from_value(json!({
        "name": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}],
    }))
    .unwrap();
    ClusterDevices {
        classes: BTreeMap::from([(class.name.clone(), class)]),
        templates: serde_json::from_value(templates).unwrap(),
        ..ClusterDevices::NONE
    }
}

pub(crate) fn claiming(name: &str, template: &str) -> Pod {
    let claim = pod::ResourceClaim {
        name: "gpu".into(),
        claim: Some(format!("{name}-gpu-x")),
        template: Some(template.into()),
    };
    pod(name, 500, 512).with_template(|it| it.resource_claims = vec![claim])
}

pub(crate) fn with<'a>(devices: &'a ClusterDevices, pods: &'a [Pod], pools: &'a [NodePool]) -> Problem<'a> {
    Problem { facts: ClusterFacts { devices, ..ClusterFacts::default() }, ..problem(pods, pools) }
}

/// The slice of a node with GPUs of this memory.
pub(crate) fn slice(node: &str, count: usize, memory: &str) -> Slice {
    let gpu = |index: usize| json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": memory}}});
    let devices: Vec<Value> = (0..count).map(gpu).collect();
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "gpu.nvidia.com", "pool": pool, "nodeName": node, "devices": devices});
    serde_json::from_value(json!({"name": format!("{node}-s"), "spec": spec})).unwrap()
}

pub(crate) fn existing(name: &str, instance_type: &str) -> ExistingNode {
    let one = |value: &str| Requirement::one_of([value]);
    ExistingNode {
        name: name.into(),
        node_pool: Some("default".into()),
        initialized: true,
        requirements: Requirements::from([
            (labels::HOSTNAME, one(name)),
            (labels::INSTANCE_TYPE, one(instance_type)),
            (labels::ZONE, one("us-east-1a")),
        ]),
        available: ResourceList::new()
            .with("cpu", Quantity::from_units(40))
            .with("memory", gib(100))
            .with("pods", Quantity::from_units(50)),
        ..ExistingNode::default()
    }
}

fn sizes(solution: &nodeless_scheduling::Solution) -> Vec<(&str, usize)> {
    let mut sizes: Vec<(&str, usize)> =
        solution.launches.iter().map(|launch| (launch.offering.instance_type.as_str(), launch.pods.len())).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn nodes_are_launched_with_the_claimed_devices() {
    let (devices, pools) = (devices(), [node_pool("default")]);
    let one = [claiming("a", "one")];
    assert_eq!(sizes(&solve_checked(&with(&devices, &one, &pools))), [("g9.xlarge", 1)]);
    // Two GPUs are on the larger type only, which has four.
    let two: Vec<Pod> = ["a", "b"].map(|name| claiming(name, "two")).into();
    assert_eq!(sizes(&solve_checked(&with(&devices, &two, &pools))), [("g9.12xlarge", 2)]);
    let many: Vec<Pod> = (0..9).map(|index| claiming(&format!("p{index}"), "one")).collect();
    let solution = solve_checked(&with(&devices, &many, &pools));
    assert!(solution.unschedulable.is_empty());
    for (kind, pods) in sizes(&solution) {
        assert!(pods <= if kind == "g9.xlarge" { 1 } else { 4 }, "{kind} has {pods}");
    }
}

#[test]
fn pods_with_different_claims_share_the_devices_of_a_node() {
    let (devices, pools) = (devices(), [node_pool("default")]);
    let pods: Vec<Pod> = [("a", "two"), ("b", "one"), ("c", "one"), ("d", "two"), ("e", "one")]
        .map(|(name, template)| claiming(name, template))
        .into();
    let problem = with(&devices, &pods, &pools);
    let solution = solve_checked(&problem);
    assert!(solution.unschedulable.is_empty());
    for launch in &solution.launches {
        let gpus: usize =
            launch
                .pods
                .iter()
                .map(|pod| {
                    if problem.pods[*pod].template.resource_claims[0].template.as_deref() == Some("two") {
                        2
                    } else {
                        1
                    }
                })
                .sum();
        assert!(gpus <= if launch.offering.instance_type == "g9.xlarge" { 1 } else { 4 }, "{launch:#?}");
        assert!(launch.instance_types.iter().all(|kind| kind.name.starts_with("g9.")), "{launch:#?}");
    }
}

#[test]
fn why_there_is_no_device_is_named() {
    let (devices, pools) = (devices(), [node_pool("default")]);
    for (template, reason) in [
        (
            "mig",
            "NodePool default: no instance type has the claimed devices: ResourceClaim gpu, request r: no free device meets the request and the constraints of the claim",
        ),
        (
            "new",
            "NodePool default: no instance type has the claimed devices: selector 0 of ResourceClaim gpu, request r needs attribute gpu.nvidia.com/driverVersion of driver gpu.nvidia.com, which is not known before the driver publishes the device",
        ),
        ("none", "ResourceClaimTemplate default/none does not exist"),
    ] {
        assert_eq!(reasons(&solve_checked(&with(&devices, &[claiming("a", template)], &pools))), [reason]);
    }
    let mut without_class = devices;
    without_class.classes.clear();
    assert_eq!(
        reasons(&solve_checked(&with(&without_class, &[claiming("a", "one")], &pools))),
        [
            "NodePool default: no instance type has the claimed devices: ResourceClaim gpu, request r: there is no DeviceClass gpu.nvidia.com"
        ]
    );
}

/// What is not known of an instance type is learned from its nodes.
#[test]
fn other_nodes_show_what_an_instance_type_publishes() {
    let pools = [node_pool("default")];
    let pods = [claiming("a", "big")];
    let mut known = devices();
    assert!(reasons(&solve_checked(&with(&known, &pods, &pools)))[0].contains("capacity gpu.nvidia.com/memory"));
    known.slices = vec![slice("other", 4, "48Gi")];
    known.learn([("other", "g9.12xlarge")]);
    assert_eq!(sizes(&solve_checked(&with(&known, &pods, &pools))), [("g9.12xlarge", 1)]);
}

#[test]
fn existing_nodes_are_filled_up_to_their_free_devices() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    devices.slices = vec![slice("node-1", 4, "24Gi"), slice("node-2", 4, "24Gi")];
    let taken: ClaimState = serde_json::from_value(json!({
        "devices": {}, "isOfPod": true,
        "allocation": {"devices": {"results": [
            {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0"},
            {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-2"},
            {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-3", "adminAccess": true},
        ]}},
    }))
    .unwrap();
    devices.claims.insert("default/running".into(), taken);
    let pods: Vec<Pod> = (0..5).map(|index| claiming(&format!("p{index}"), "one")).collect();
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-1", "g9.12xlarge"), existing("plain", "m9.4xlarge")];
    let solution = solve_checked(&problem);
    assert_eq!(solution.placements.iter().map(|placement| placement.node).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).sum::<usize>(), 3);
    problem.nodes.push(existing("node-2", "g9.12xlarge"));
    assert!(solve_checked(&problem).launches.is_empty());
}

/// Between the launch of a node and the first slice of its driver, the node has the devices that it is expected to publish.
#[test]
fn nodes_that_join_have_their_devices() {
    let (devices, pools) = (devices(), [node_pool("default")]);
    let pods = [claiming("a", "one"), claiming("b", "one")];
    let mut problem = with(&devices, &pods, &pools);
    let joining = |initialized: bool, nominated: &[&str]| ExistingNode {
        initialized,
        nominated: nominated.iter().map(|pod| (*pod).to_owned()).collect(),
        ..existing("node-1", "g9.12xlarge")
    };
    problem.nodes = vec![joining(false, &[])];
    assert_eq!(solve_checked(&problem).placements.len(), 2);
    problem.nodes = vec![joining(true, &["default/a"])];
    assert!(solve_checked(&problem).launches.is_empty(), "its driver has not published devices yet");
    problem.nodes = vec![joining(true, &[])];
    assert!(solve_checked(&problem).placements.is_empty(), "it has no driver");
}

#[test]
fn a_claim_with_devices_binds_its_pods_to_the_nodes_of_these() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    devices.slices = vec![slice("node-1", 1, "24Gi")];
    let on = |node: &str| -> ClaimState {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        serde_json::from_value(json!({
            "devices": {}, "isOfPod": false,
            "allocation": {"nodeSelector": {"nodeSelectorTerms": [term]}, "devices": {"results": [
                {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0"},
            ]}},
        }))
        .unwrap()
    };
    devices.claims.insert("default/shared".into(), on("node-1"));
    devices.claims.insert("default/gone".into(), on("node-9"));
    let sharing = |name: &str, claim: &str| {
        pod(name, 500, 512).with_template(|it| {
            it.resource_claims =
                vec![pod::ResourceClaim { name: "gpu".into(), claim: Some(claim.into()), template: None }];
        })
    };
    let pods = [sharing("a", "shared"), sharing("b", "shared")];
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-0", "g9.xlarge"), existing("node-1", "g9.xlarge")];
    let placed: Vec<usize> = solve_checked(&problem).placements.iter().map(|placement| placement.node).collect();
    assert_eq!(placed, [1, 1]);
    let pods = [sharing("a", "gone")];
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-1", "g9.xlarge")];
    assert_eq!(
        reasons(&solve_checked(&problem)),
        ["ResourceClaim default/gone has devices on node node-9, which takes no pods"]
    );
}

fn waiting_for(name: &str, claims: &[&str]) -> Pod {
    let claims = claims.iter().map(|claim| pod::ResourceClaim {
        name: (*claim).into(),
        claim: Some((*claim).into()),
        template: None,
    });
    pod(name, 500, 512).with_template(|it| it.resource_claims = claims.collect())
}

/// The pods that share a claim run on one node, and take its devices once.
#[test]
fn a_claim_is_shared_by_the_pods_that_wait_for_it() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    for claim in ["ours", "theirs", "other"] {
        let template = devices.templates["default/one"].clone();
        devices.claims.insert(format!("default/{claim}"), ClaimState { devices: template, ..ClaimState::default() });
    }
    let pods = [waiting_for("a", &["ours"])];
    assert_eq!(sizes(&solve_checked(&with(&devices, &pods, &pools))), [("g9.xlarge", 1)]);
    let pods = ["a", "b", "c"].map(|name| waiting_for(name, &["ours"]));
    assert_eq!(sizes(&solve_checked(&with(&devices, &pods, &pools))), [("g9.xlarge", 3)]);
    // Two claims of a GPU, and two types with one and four.
    let pods = [("a", "ours"), ("b", "theirs"), ("c", "ours"), ("d", "theirs")]
        .map(|(name, claim)| waiting_for(name, &[claim]));
    let solution = solve_checked(&with(&devices, &pods, &pools));
    assert_eq!(sizes(&solution), [("g9.xlarge", 2), ("g9.xlarge", 2)]);
    for launch in &solution.launches {
        let claims = launch.pods.iter().map(|pod| &pods[*pod].template.resource_claims);
        assert!(claims.clone().all(|claim| Some(claim) == claims.clone().next()), "{launch:#?}");
    }
    // A node with one free GPU takes the pods of one claim.
    devices.slices = vec![slice("node-1", 1, "24Gi")];
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-1", "g9.xlarge")];
    let solution = solve_checked(&problem);
    assert_eq!((solution.placements.len(), sizes(&solution)), (2, vec![("g9.xlarge", 2)]));
}

#[test]
fn pods_that_share_a_claim_and_fit_on_no_node_together_are_left_out() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    let template = devices.templates["default/one"].clone();
    devices.claims.insert("default/ours".into(), ClaimState { devices: template.clone(), ..ClaimState::default() });
    devices.claims.insert("default/mine".into(), ClaimState { devices: template, ..ClaimState::default() });
    let large =
        |name: &str| waiting_for(name, &["ours"]).with_template(|it| it.requests.set("cpu", Quantity::from_units(40)));
    let pods = [large("a"), large("b")];
    let solution = solve_checked(&with(&devices, &pods, &pools));
    assert_eq!((sizes(&solution), solution.unschedulable.len()), (vec![("g9.12xlarge", 1)], 1));
    // The parts of a node that such pods take differ.
    let pods = [waiting_for("a", &["ours"]), waiting_for("b", &["ours", "mine"])];
    let solution = solve_checked(&with(&devices, &pods, &pools));
    assert_eq!(solution.unschedulable.len(), 1);
    assert!(solution.unschedulable[0].reasons[0].to_string().contains("it claims other devices too"));
}

/// Pods of a node that is drained are made again, with claims of their own, and the devices of the drained node stay there.
#[test]
fn pods_that_move_get_other_devices() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    devices.slices = vec![slice("node-2", 1, "24Gi")];
    let devices_of = devices.templates["default/one"].clone();
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]});
    let allocation = serde_json::from_value(json!({"nodeSelector": {"nodeSelectorTerms": [term]}})).unwrap();
    let state =
        ClaimState { devices: devices_of, is_of_pod: true, allocation: Some(allocation), ..ClaimState::default() };
    devices.claims.insert("default/a-gpu-x".into(), state);
    let pods = [Pod { node_name: Some("node-1".into()), ..claiming("a", "one") }];
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-2", "g9.xlarge")];
    assert_eq!(solve_checked(&problem).placements.len(), 1);
}

#[test]
fn the_order_of_pods_and_slices_does_not_matter() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    devices.slices = vec![slice("node-1", 2, "24Gi"), slice("node-2", 4, "24Gi")];
    let pods: Vec<Pod> =
        (0..12).map(|index| claiming(&format!("p{index:02}"), if index % 3 == 0 { "two" } else { "one" })).collect();
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-1", "g9.xlarge"), existing("node-2", "g9.12xlarge")];
    let first = solve_checked(&problem);
    assert!(first.unschedulable.is_empty());
    let mut reversed = devices.clone();
    reversed.slices.reverse();
    let mut again = with(&reversed, &pods, &pools);
    again.nodes.clone_from(&problem.nodes);
    again.pods.reverse();
    let second = solve_checked(&again);
    assert_eq!((sizes(&first), first.placements.len()), (sizes(&second), second.placements.len()));
}

/// Whether the kube-scheduler finds devices for these pods on a node with these slices, one pod after the other.
fn are_allocated(devices: &ClusterDevices, slices: &[Slice], node: &str, pods: &[&Pod]) -> bool {
    let labels = StringMap::new();
    let place = Place { name: Some(node), labels: &labels };
    let inventory = Inventory::new(slices);
    let pools = inventory.pools(&place).unwrap();
    let mut taken = devices.taken();
    pods.iter().all(|pod| {
        let template = pod.template.resource_claims[0].template.as_ref().unwrap();
        let requests = devices.templates[&format!("default/{template}")].clone();
        let claim = ResourceClaim { name: "gpu".into(), devices: requests };
        let given = allocate(&[&claim], &place, &pools, &devices.classes, &taken, &Selectors::default());
        given.iter().flatten().for_each(|allocation| taken.add_all(allocation));
        given.is_ok()
    })
}

const TEMPLATES: [&str; 5] = ["one", "two", "a", "b", "all"];

/// The templates of the tests, and those for devices of a model and for all devices.
pub(crate) fn devices_by_model() -> ClusterDevices {
    let mut made = devices();
    let mut add = |name: &str, fields: Value| {
        let mut exact = json!({"deviceClassName": "gpu.nvidia.com"});
        exact.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let requests = json!({"requests": [{"name": "r", "exactly": exact}]});
        made.templates.insert(format!("default/{name}"), serde_json::from_value(requests).unwrap());
    };
    for model in ["a", "b"] {
        let expression = format!("device.attributes['gpu.nvidia.com'].model == '{model}'");
        add(model, json!({"selectors": [{"cel": {"expression": expression}}]}));
    }
    add("all", json!({"allocationMode": "All"}));
    made
}

pub(crate) fn slice_of_models(node: &str, models: &[bool]) -> Slice {
    let gpu = |(index, model): (usize, &bool)| {
        let model = if *model { "a" } else { "b" };
        json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"}, "model": {"string": model}}})
    };
    let devices: Vec<Value> = models.iter().enumerate().map(gpu).collect();
    let mut made = slice(node, 0, "0");
    made.spec.devices = serde_json::from_value(Value::Array(devices)).unwrap();
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A plan may leave devices unused, but it places no pod for which the kube-scheduler then finds no device.
    #[test]
    fn planned_pods_get_their_devices(
        nodes in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..5), 0..4),
        templates in prop::collection::vec(prop::sample::select(TEMPLATES.to_vec()), 1..10),
    ) {
        let pools = [node_pool("default")];
        let mut devices = devices_by_model();
        let name = |index: usize| format!("node-{index}");
        devices.slices = nodes.iter().enumerate().map(|(index, models)| slice_of_models(&name(index), models)).collect();
        devices.learn(Vec::new());
        let pods: Vec<Pod> =
            templates.iter().enumerate().map(|(index, template)| claiming(&format!("p{index}"), template)).collect();
        let mut problem = with(&devices, &pods, &pools);
        problem.nodes = (0..nodes.len()).map(|index| existing(&name(index), "g9.12xlarge")).collect();
        let solution = solve_checked(&problem);
        for (index, node) in problem.nodes.iter().enumerate() {
            let placed = solution.placements.iter().filter(|placement| placement.node == index);
            let placed: Vec<&Pod> = placed.map(|placement| problem.pods[placement.pod]).collect();
            prop_assert!(are_allocated(&devices, &devices.slices, &node.name, &placed), "{}: {placed:#?}", node.name);
        }
        let types = catalog();
        for launch in &solution.launches {
            let placed: Vec<&Pod> = launch.pods.iter().map(|pod| problem.pods[*pod]).collect();
            for listed in &launch.instance_types {
                let kind = types.iter().find(|kind| kind.name == listed.name).unwrap();
                let slices = devices.predicted(kind, "new");
                prop_assert!(are_allocated(&devices, &slices, "new", &placed), "{}: {placed:#?}", kind.name);
            }
        }
    }
}
