//! The devices that a node will publish, by its instance type.

/// PCIe roots in the first PCI domain.
macro_rules! roots {
    ($($bus:literal),+) => { &[$(concat!("pci0000:", $bus)),+] };
}

mod efas;
mod gpus;

use crate::claim::DRANET;
use crate::cluster::ClusterDevices;
use crate::slices::attribute::Attribute;
use crate::slices::slice::{Capacity, Device, ResourcePool, Slice, SliceSpec};
use gpus::MODELS;
use nodeless_model::{InstanceType, Quantity, Requirement, labels};
use std::collections::BTreeMap;

/// The driver of NVIDIA's GPUs.
const NVIDIA: &str = "gpu.nvidia.com";
/// The driver of AWS's accelerators.
const NEURON: &str = "neuron.aws.com";
/// The resources of instance types that count the devices.
const NVIDIA_RESOURCE: &str = "nvidia.com/gpu";
const NEURON_RESOURCE: &str = "aws.amazon.com/neuron";
const EFA_RESOURCE: &str = "vpc.amazonaws.com/efa";

/// The names of attributes that are not in the domain of the driver.
const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
const PCI_DEVICE: &str = "dra.net/pciDevice";
/// The value of that attribute.
const EFA: &str = "Elastic Fabric Adapter (EFA)";

/// Attributes and capacities that differ from node to node, so that another node does not show them.
const OF_ONE_NODE: [&str; 7] = ["uuid", "parentUUID", "pcieBusID", "pciBusID", "pciAddress", "serial", "nodeName"];

impl ClusterDevices {
    /// The slices of a node of an instance type that has none yet: of each driver, what another node of the type has published, or else
    /// what is known of the type. A node that was launched without EFA interfaces publishes other network devices only.
    #[must_use]
    pub fn predicted(&self, kind: &InstanceType, node: &str) -> Vec<Slice> {
        self.predicted_with_network(kind, node, true)
    }

    /// [`Self::predicted`], with the devices of `dra.net` that no node of the type has published only if `with_network` is set: clusters
    /// without the driver have DeviceClasses whose selectors fail for devices of other drivers.
    #[must_use]
    pub fn predicted_with_network(&self, kind: &InstanceType, node: &str, with_network: bool) -> Vec<Slice> {
        let published = self.published_by_type.get(&kind.name).map_or(&[][..], Vec::as_slice);
        let is_published = |driver: &str| {
            let mut devices = published.iter().filter(|slice| slice.spec.driver == driver);
            if driver == DRANET {
                devices.any(|slice| slice.spec.devices.iter().any(is_efa))
            } else {
                devices.next().is_some()
            }
        };
        let is_expected = |driver: &str| !is_published(driver) && (with_network || driver != DRANET);
        let known = known(kind).into_iter().filter(|(driver, _)| is_expected(driver));
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
    // The driver does not support the first generation of Inferentia.
    let accelerators = if kind.name.starts_with("inf1.") { 0 } else { count(kind, NEURON_RESOURCE) };
    let accelerators = (0..accelerators).map(|index| predicted(format!("neurondevice-{index}"), BTreeMap::new()));
    let mut drivers = vec![(NVIDIA, gpus(kind)), (NEURON, accelerators.collect()), (DRANET, efas(kind))];
    drivers.retain(|(_, devices)| !devices.is_empty());
    drivers
}

fn predicted(name: String, attributes: BTreeMap<String, Attribute>) -> Device {
    Device { name, attributes, is_predicted: true, ..Device::default() }
}

fn count(kind: &InstanceType, resource: &str) -> usize {
    usize::try_from(kind.capacity.get(resource).units().clamp(0, 64)).unwrap_or(0)
}

fn text(value: &str) -> Attribute {
    Attribute::String(value.to_owned())
}

/// What is known of the devices of an instance type beside what all of them have in common.
fn of_type<T>(types: &'static [(&str, T)], kind: &InstanceType) -> Option<&'static T> {
    let place = types.binary_search_by_key(&kind.name.as_str(), |(name, _)| name).ok()?;
    types.get(place).map(|(_, known)| known)
}

/// NVIDIA's GPUs: all that is known of the type, or what all GPUs of its name have in common.
fn gpus(kind: &InstanceType) -> Vec<Device> {
    let of_type = of_type(&gpus::TYPES, kind);
    let name = kind.requirements.get(labels::INSTANCE_GPU_NAME).and_then(Requirement::single);
    let of_name = || name.and_then(|name| MODELS.into_iter().find(|model| model.label == name));
    let count = count(kind, NVIDIA_RESOURCE);
    let device = |index: usize| {
        let mut device = predicted(format!("gpu-{index}"), BTreeMap::from([("type".to_owned(), text("gpu"))]));
        if let Some(model) = of_type.map(|gpus| gpus.model).or_else(of_name) {
            device.attributes.insert("architecture".to_owned(), text(model.architecture));
            let capability = Attribute::Version(model.capability.to_owned());
            device.attributes.insert("cudaComputeCapability".to_owned(), capability);
        }
        if let Some(gpus) = of_type {
            device.attributes.insert("productName".to_owned(), text(gpus.model.product_name));
            device.attributes.insert("brand".to_owned(), text(gpus.model.brand));
            let root = share(gpus.roots, index, count).map(|root| (PCIE_ROOT.to_owned(), text(root)));
            device.attributes.extend(root);
            let memory = Capacity { value: Quantity::from_mebibytes(gpus.model.memory) };
            device.capacity.insert("memory".to_owned(), memory);
        }
        device
    };
    (0..count).map(device).collect()
}

/// The Elastic Fabric Adapters.
fn efas(kind: &InstanceType) -> Vec<Device> {
    let of_type = of_type(&efas::TYPES, kind);
    let count = count(kind, EFA_RESOURCE);
    let device = |index: usize| {
        let mut attributes = BTreeMap::from([
            (PCI_DEVICE.to_owned(), text(EFA)),
            ("dra.net/pciVendor".to_owned(), text("Amazon.com, Inc.")),
            ("dra.net/rdma".to_owned(), Attribute::Bool(kind.name != efas::WITHOUT_RDMA)),
        ]);
        if let Some(efas) = of_type {
            attributes.insert("dra.net/pciSubsystem".to_owned(), text(efas.subsystem));
            // Which of them a node with fewer interfaces has is not known.
            let is_whole = efas.count == count;
            let root = share(efas.roots, index, count).filter(|_| is_whole);
            attributes.extend(root.map(|root| (PCIE_ROOT.to_owned(), text(root))));
            let numa = share(efas.numa, index, count).filter(|_| is_whole);
            attributes.extend(numa.map(|node| ("dra.net/numaNode".to_owned(), Attribute::Int(*node))));
        }
        predicted(format!("efa-{index}"), attributes)
    };
    (0..count).map(device).collect()
}

fn is_efa(device: &Device) -> bool {
    device.attribute(DRANET, DRANET, "pciDevice") == Some(&text(EFA))
}

/// The value of a device, if each value is that of the same number of devices.
fn share<T>(values: &[T], index: usize, count: usize) -> Option<&T> {
    let of_each = count.checked_div(values.len()).filter(|of_each| of_each * values.len() == count)?;
    values.get(index / of_each)
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
