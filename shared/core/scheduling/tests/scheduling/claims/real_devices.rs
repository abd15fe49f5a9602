//! Pods that claim devices of EC2's instance types, of which no node exists yet.

use crate::claims::{claiming, existing, with};
use crate::support::*;
use nodeless_devices::{ClusterDevices, DeviceClass, DeviceSelector, Slice};
use nodeless_model::*;
use nodeless_scheduling::{
    AlternativePrice, Options, PoolOffer, Problem, Solution, alternative_prices, claimed_drivers, explain_launch,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Instance types with vCPUs, GPUs, EFA interfaces and dollars per hour.
const TYPES: [(&str, &str, i64, i64, i64, f64); 7] = [
    ("m5", "xlarge", 4, 0, 0, 0.192),
    ("g6", "xlarge", 4, 1, 0, 0.805),
    ("g6e", "xlarge", 4, 1, 0, 1.861),
    ("c5n", "18xlarge", 72, 0, 1, 3.888),
    ("g6", "12xlarge", 48, 4, 1, 4.602),
    ("g5", "12xlarge", 48, 4, 1, 5.672),
    ("p6-b200", "48xlarge", 192, 8, 8, 113.93),
];

fn types() -> InstanceTypes {
    let each = TYPES.iter().map(|(family, size, cpu, gpus, efas, price)| {
        let mut kind = instance_type(family, size, "amd64", (*cpu, cpu * 4, *gpus), *price);
        kind.capacity.set("vpc.amazonaws.com/efa", Quantity::from_units(*efas));
        kind
    });
    each.collect()
}

/// A claim template `t` with these requests and constraints.
fn claims(devices: Value) -> ClusterDevices {
    let class = |(name, expression): (&str, &str)| -> DeviceClass {
        let class = json!({"name": name, "selectors": [{"cel": {"expression": expression}}]});
        serde_json::from_value(class).unwrap()
    };
    let classes = [
        ("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"),
        ("efa", "device.driver == 'dra.net' && device.attributes['dra.net'].rdma == true"),
    ];
    ClusterDevices {
        classes: classes.map(class).into_iter().map(|class| (class.name.clone(), class)).collect(),
        templates: BTreeMap::from([("default/t".to_owned(), serde_json::from_value(devices).unwrap())]),
        ..ClusterDevices::NONE
    }
}

fn selected(class: &str, expression: &str) -> Value {
    json!({"deviceClassName": class, "selectors": [{"cel": {"expression": expression}}]})
}

fn of_product(name: &str, product: &str) -> Value {
    let mut request =
        selected("gpu.nvidia.com", &format!("device.attributes['gpu.nvidia.com'].productName == '{product}'"));
    request["name"] = json!(name);
    request
}

/// One GPU: a B200, or else an L4.
fn b200_or_l4() -> ClusterDevices {
    let alternatives = [of_product("b200", "NVIDIA B200"), of_product("l4", "NVIDIA L4")];
    claims(json!({"requests": [{"name": "gpu", "firstAvailable": alternatives}]}))
}

fn on_demand() -> NodePool {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]));
    pool
}

fn of_types<'a>(devices: &'a ClusterDevices, pods: &'a [Pod], pools: &'a [NodePool]) -> Problem<'a> {
    let mut problem = with(devices, pods, pools);
    problem.node_pools = pools
        .iter()
        .map(|pool| PoolOffer { pool, instance_types: types(), usage: Default::default(), cluster: None })
        .collect();
    problem
}

fn launched(solution: &Solution) -> Vec<&str> {
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    chosen(solution)
}

/// The instance type for one pod with the claim, and why each cheaper type is not it.
fn planned(devices: &ClusterDevices) -> (String, Vec<String>) {
    let (pods, pools) = ([claiming("a", "t")], [on_demand()]);
    let problem = of_types(devices, &pods, &pools);
    let solution = solve_checked(&problem);
    let chosen = launched(&solution)[0].to_owned();
    let explained = explain_launch(&problem, &solution.launches[0]).unwrap();
    (chosen, explained.ruled_out.iter().map(|out| format!("{}: {}", out.name, out.cause)).collect())
}

fn without_devices(kind: &str, request: &str) -> String {
    format!(
        "{kind}: it does not have the claimed devices: ResourceClaim gpu, request {request}: no free device meets the request and the constraints of the claim"
    )
}

#[test]
fn the_cheapest_type_with_the_claimed_devices_is_launched() {
    let memory = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0";
    let memory = claims(json!({"requests": [{"name": "gpu", "exactly": selected("gpu.nvidia.com", memory)}]}));
    let reasons = ["m5.xlarge", "g6.xlarge"].map(|kind| without_devices(kind, "gpu")).to_vec();
    assert_eq!(planned(&memory), ("g6e.xlarge".to_owned(), reasons));
    let root = claims(json!({
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}],
        "constraints": [{"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    }));
    let (kind, reasons) = planned(&root);
    assert_eq!((kind.as_str(), &reasons[4]), ("g5.12xlarge", &without_devices("g6.12xlarge", "gpu")));
    let efa = claims(json!({"requests": [{"name": "nic", "exactly": {"deviceClassName": "efa", "count": 1}}]}));
    assert_eq!(planned(&efa).0, "c5n.18xlarge");
    let both = claims(json!({
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
            {"name": "nic", "exactly": {"deviceClassName": "efa"}},
        ],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    }));
    assert_eq!(planned(&both).0, "g5.12xlarge");
    let (pods, types) = ([claiming("a", "t")], types());
    let of = |devices: &ClusterDevices| {
        claimed_drivers(&[&pods[0]], devices, types.iter()).into_iter().collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        (of(&both).as_str(), of(&efa).as_str(), of(&memory).as_str()),
        ("dra.net,gpu.nvidia.com", "dra.net", "gpu.nvidia.com")
    );
}

#[test]
fn the_first_available_alternative_is_launched() {
    let devices = b200_or_l4();
    let (kind, reasons) = planned(&devices);
    assert_eq!(kind, "p6-b200.48xlarge");
    assert_eq!(reasons[1], "g6.xlarge: it has alternative gpu/l4 of the claims, and gpu/b200 comes before it");
    assert_eq!(reasons[2], without_devices("g6e.xlarge", "gpu"));
    // Pods share the node of the first alternative.
    let (pods, pools) = (["a", "b", "c"].map(|name| claiming(name, "t")), [on_demand()]);
    assert_eq!(launched(&solve_checked(&of_types(&devices, &pods, &pools))), ["p6-b200.48xlarge"]);
}

#[test]
fn the_next_alternative_is_launched_where_there_is_no_node_with_the_first() {
    let (devices, pods) = (b200_or_l4(), [claiming("a", "t")]);
    let mut excluded = on_demand();
    let family = Requirement::none_of(["p6-b200"]);
    excluded.template.requirements.add(labels::INSTANCE_FAMILY, family);
    assert_eq!(launched(&solve_checked(&of_types(&devices, &pods, &[excluded]))), ["g6.xlarge"]);
    let mut limited = on_demand();
    limited.limits.set("cpu", Quantity::from_units(100));
    assert_eq!(launched(&solve_checked(&of_types(&devices, &pods, &[limited]))), ["g6.xlarge"]);
    let pools = [on_demand()];
    let mut sold_out = of_types(&devices, &pods, &pools);
    let mut types = types().to_vec();
    types.last_mut().unwrap().offerings.iter_mut().for_each(|offering| offering.available = false);
    sold_out.node_pools[0].instance_types = types.into();
    assert_eq!(launched(&solve_checked(&sold_out)), ["g6.xlarge"]);
}

/// The alternatives of the launch of a pod with the claim, with their price.
fn priced(problem: &Problem<'_>) -> Vec<String> {
    let solution = solve_checked(problem);
    let prices = alternative_prices(problem, &solution.launches[0], &Options::default());
    let text = |one: AlternativePrice| {
        let nodes = one.nodes.map_or("none".to_owned(), |nodes| format!("{:?} {}", nodes.instance_types, nodes.price));
        format!("{} {nodes}{}", one.name, if one.is_chosen { " chosen" } else { "" })
    };
    prices.into_iter().map(text).collect()
}

#[test]
fn each_alternative_has_a_price() {
    let (devices, pods, mut pools) = (b200_or_l4(), [claiming("a", "t")], [on_demand()]);
    let both = [r#"gpu/b200 {"p6-b200.48xlarge": 1} 113.93 chosen"#, r#"gpu/l4 {"g6.xlarge": 1} 0.805"#];
    assert_eq!(priced(&of_types(&devices, &pods, &pools)), both);
    pools[0].limits.set("cpu", Quantity::from_units(100));
    let next = ["gpu/b200 none", r#"gpu/l4 {"g6.xlarge": 1} 0.805 chosen"#];
    assert_eq!(priced(&of_types(&devices, &pods, &pools)), next);
    // One node with eight GPUs, or a node for each pod.
    let (several, pools) = (["a", "b"].map(|name| claiming(name, "t")), [on_demand()]);
    let together = [r#"gpu/b200 {"p6-b200.48xlarge": 1} 113.93 chosen"#, r#"gpu/l4 {"g6.xlarge": 2} 1.61"#];
    assert_eq!(priced(&of_types(&devices, &several, &pools)), together);
    let exactly = claims(json!({"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}));
    assert_eq!(priced(&of_types(&exactly, &pods, &pools)), Vec::<String>::new());
}

/// The kube-scheduler binds a pod to a node that has any of its alternatives.
#[test]
fn an_existing_node_with_any_alternative_is_used() {
    let mut devices = b200_or_l4();
    let gpu =
        json!({"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA L4"}}});
    let slice: Slice = serde_json::from_value(json!({"name": "s", "spec": {
        "driver": "gpu.nvidia.com", "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-1", "devices": [gpu],
    }}))
    .unwrap();
    devices.slices = vec![slice];
    let (pods, pools) = ([claiming("a", "t"), claiming("b", "t")], [on_demand()]);
    let mut problem = of_types(&devices, &pods, &pools);
    problem.nodes = vec![existing("node-1", "g6.xlarge")];
    let solution = solve_checked(&problem);
    assert_eq!((solution.placements.len(), launched(&solution)), (1, vec!["p6-b200.48xlarge"]));
}

#[test]
fn the_remedy_names_what_instance_types_have() {
    let memory = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('300Gi')) >= 0";
    let memory = claims(json!({"requests": [{"name": "gpu", "exactly": selected("gpu.nvidia.com", memory)}]}));
    let (pods, pools) = ([claiming("a", "t")], [on_demand()]);
    let problem = of_types(&memory, &pods, &pools);
    assert_eq!(
        advice(&problem).remedies.join("; "),
        "change the pod's resource claims to what instance types have (capacity gpu.nvidia.com/memory 182784Mi (p6-b200.48xlarge), 23028Mi (g5.12xlarge), 23034Mi (g6.12xlarge and 1 more), 46068Mi (g6e.xlarge)), or ask for the device as an extended resource of its containers"
    );
    // A NodePool without the types that would have the devices.
    let product = json!({"requests": [{"name": "gpu", "firstAvailable": [of_product("b200", "NVIDIA B200")]}]});
    let product = claims(product);
    let mut excluded = on_demand();
    excluded.template.requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of(["m5", "g6", "g6e"]));
    let pools = [excluded];
    let advice = advice(&of_types(&product, &pods, &pools)).remedies.join("; ");
    assert!(
        advice.contains(
            "attribute gpu.nvidia.com/productName \"NVIDIA L4\" (g6.12xlarge and 1 more), \"NVIDIA L40S\" (g6e.xlarge)"
        ),
        "{advice}"
    );
    assert!(advice.contains("karpenter.k8s.aws/instance-family"), "{advice}");
}

/// Without a claim that names it, no devices of `dra.net` are expected, for which the selector of the class would fail.
#[test]
fn a_class_that_names_no_driver_selects_gpus_beside_efa() {
    let both = json!({"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]});
    let mut devices = claims(both);
    let class = devices.classes.get_mut("gpu.nvidia.com").unwrap();
    class.selectors = vec![DeviceSelector::cel("device.attributes['gpu.nvidia.com'].type == 'gpu'")];
    assert_eq!(planned(&devices).0, "g6.12xlarge");
}
