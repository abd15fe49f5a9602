//! The devices that a node will publish, by its instance type.

use crate::attribute::Attribute;
use crate::cluster::ClusterDevices;
use crate::slice::{Device, ResourcePool, Slice, SliceSpec};
use nodeless_model::{InstanceType, Requirement, labels};
use std::collections::BTreeMap;

/// The driver of NVIDIA's GPUs.
const NVIDIA: &str = "gpu.nvidia.com";
/// The driver of AWS's accelerators.
const NEURON: &str = "neuron.aws.com";
/// The resources of instance types that count the devices.
const NVIDIA_RESOURCE: &str = "nvidia.com/gpu";
const NEURON_RESOURCE: &str = "aws.amazon.com/neuron";

/// What AWS's GPUs publish whatever the version of the driver: the name of the GPU in the label of instance types, `productName`,
/// `architecture` and `cudaComputeCapability`. The values are those of NVML, from which the driver reads them.
const GPUS: [(&str, &str, &str, &str); 8] = [
    ("t4", "Tesla T4", "Turing", "7.5.0"),
    ("v100", "", "Volta", "7.0.0"),
    ("a10g", "NVIDIA A10G", "Ampere", "8.6.0"),
    ("a100", "", "Ampere", "8.0.0"),
    ("l4", "NVIDIA L4", "Ada Lovelace", "8.9.0"),
    ("l40s", "NVIDIA L40S", "Ada Lovelace", "8.9.0"),
    ("h100", "NVIDIA H100 80GB HBM3", "Hopper", "9.0.0"),
    ("h200", "NVIDIA H200", "Hopper", "9.0.0"),
];

/// Attributes and capacities that differ from node to node, so that another node does not show them.
const OF_ONE_NODE: [&str; 8] =
    ["uuid", "parentUUID", "pcieBusID", "pciBusID", "pciAddress", "pcieRoot", "serial", "nodeName"];

impl ClusterDevices {
    /// The slices of a node of an instance type that has none yet: of each driver, what another node of the type has published, or else
    /// what is known of the type.
    #[must_use]
    pub fn predicted(&self, kind: &InstanceType, node: &str) -> Vec<Slice> {
        let published = self.published_by_type.get(&kind.name).map_or(&[][..], Vec::as_slice);
        let is_published = |driver: &str| published.iter().any(|slice| slice.spec.driver == driver);
        let known = known(kind).into_iter().filter(|(driver, _)| !is_published(driver));
        learned(published, node)
            .into_iter()
            .chain(known.map(|(driver, devices)| slice(driver, node, devices)))
            .collect()
    }
}

/// The slices of another node, without what is particular to it.
fn learned(published: &[Slice], node: &str) -> Vec<Slice> {
    let mut by_pool: BTreeMap<(&str, &str), Vec<&Slice>> = BTreeMap::new();
    for slice in published {
        by_pool.entry((&slice.spec.driver, &slice.spec.pool.name)).or_default().push(slice);
    }
    let mut slices = Vec::new();
    for ((_, pool), of_pool) in by_pool {
        let newest = of_pool.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or_default();
        let current: Vec<&&Slice> = of_pool.iter().filter(|slice| slice.spec.pool.generation == newest).collect();
        if i64::try_from(current.len()).ok() != current.first().map(|slice| slice.spec.pool.resource_slice_count) {
            continue;
        }
        for slice in current {
            let mut predicted = (*slice).clone();
            predicted.name = format!("{node}-{}", slice.name);
            predicted.spec.pool.name = format!("{node}-{pool}");
            predicted.spec.node_name = Some(node.to_owned());
            predicted.spec.devices.iter_mut().for_each(forget);
            slices.push(predicted);
        }
    }
    slices
}

fn forget(device: &mut Device) {
    device.is_predicted = true;
    device.taints.clear();
    for (name, value) in &mut device.attributes {
        let id = name.rsplit('/').next().unwrap_or(name);
        if OF_ONE_NODE.contains(&id) {
            *value = Attribute::Unknown;
        }
    }
}

/// The devices of an instance type, by driver.
fn known(kind: &InstanceType) -> Vec<(&'static str, Vec<Device>)> {
    let gpus = count(kind, NVIDIA_RESOURCE);
    // The driver does not support the first generation of Inferentia.
    let accelerators = if kind.name.starts_with("inf1.") { 0 } else { count(kind, NEURON_RESOURCE) };
    let mut drivers = Vec::new();
    if gpus > 0 {
        let name = kind.requirements.get(labels::INSTANCE_GPU_NAME).and_then(Requirement::single);
        let device = |index| Device { name: format!("gpu-{index}"), attributes: of_gpu(name), ..predicted() };
        drivers.push((NVIDIA, (0..gpus).map(device).collect()));
    }
    if accelerators > 0 {
        let device = |index| Device { name: format!("neurondevice-{index}"), ..predicted() };
        drivers.push((NEURON, (0..accelerators).map(device).collect()));
    }
    drivers
}

fn predicted() -> Device {
    Device { is_predicted: true, ..Device::default() }
}

fn count(kind: &InstanceType, resource: &str) -> i64 {
    kind.capacity.get(resource).units().clamp(0, 64)
}

fn of_gpu(name: Option<&str>) -> BTreeMap<String, Attribute> {
    let mut attributes = BTreeMap::from([("type".to_owned(), Attribute::String("gpu".to_owned()))]);
    let known = name.and_then(|name| GPUS.iter().find(|(known, ..)| *known == name));
    if let Some((_, product, architecture, capability)) = known {
        if !product.is_empty() {
            attributes.insert("productName".to_owned(), Attribute::String((*product).to_owned()));
        }
        attributes.insert("architecture".to_owned(), Attribute::String((*architecture).to_owned()));
        attributes.insert("cudaComputeCapability".to_owned(), Attribute::Version((*capability).to_owned()));
    }
    attributes
}

fn slice(driver: &str, node: &str, devices: Vec<Device>) -> Slice {
    Slice {
        name: format!("{node}-{driver}"),
        spec: SliceSpec {
            driver: driver.to_owned(),
            pool: ResourcePool { name: node.to_owned(), generation: 1, resource_slice_count: 1 },
            node_name: Some(node.to_owned()),
            devices,
            ..SliceSpec::default()
        },
    }
}
