//! The labels that nodes of an instance type may have.
//!
//! A label that nodes of the type do not get is listed as absent, so that a pod that requires it is not scheduled to them.

use std::collections::BTreeMap;

use nodeless_model::{CapacityType, Requirement, Requirements, labels};

use crate::facts::Zone;
use crate::node_class::NodeClassSettings;
use crate::stored::{Catalog, CatalogType};
use crate::type_facts::{Architecture, TypeFacts};

pub(super) fn requirements(catalog: &Catalog, entry: &CatalogType, settings: &NodeClassSettings) -> Requirements {
    let facts = &entry.facts;
    let mut requirements = Requirements::new();
    for (key, value) in type_labels(facts) {
        requirements.add(key, at_most_one(value));
    }
    requirements.add(labels::REGION, Requirement::one_of([catalog.region.as_str()]));
    requirements.add(labels::OS, at_most_one(operating_system(facts, settings).map(Into::into)));
    requirements.add(labels::WINDOWS_BUILD, at_most_one(settings.ami_family.windows_build().map(Into::into)));
    requirements.add(labels::INSTANCE_TENANCY, Requirement::one_of(["default", "dedicated"]));
    add_places(&mut requirements, catalog, entry, settings);
    add_reservations(&mut requirements, facts, settings);
    let placement_group = settings.placement_group.as_ref();
    requirements.add(labels::PLACEMENT_GROUP_ID, at_most_one(placement_group.map(|group| group.id.clone())));
    let partitions = placement_group.map_or(0, |group| group.partitions);
    requirements.add(labels::PLACEMENT_GROUP_PARTITION, one_of_partitions(1..=partitions));
    requirements
}

/// The label of a node in one of these partitions of a placement group; without any, the node does not have it.
pub(super) fn one_of_partitions(partitions: impl IntoIterator<Item = u32>) -> Requirement {
    Requirement::one_of(partitions.into_iter().map(|number| number.to_string()))
}

fn at_most_one(value: Option<String>) -> Requirement {
    Requirement::one_of(value)
}

fn operating_system(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<&'static str> {
    match (settings.ami_family.is_windows(), facts.architecture) {
        (false, _) => Some("linux"),
        (true, Architecture::Amd64) => Some("windows"),
        (true, Architecture::Arm64) => None,
    }
}

/// Labels that depend only on the type.
fn type_labels(facts: &TypeFacts) -> Vec<(&'static str, Option<String>)> {
    let name = Name::parse(&facts.name);
    let gpu = only(&facts.gpus);
    let accelerator = accelerator(facts);
    let kebab = |words: &str| words.to_lowercase().replace(' ', "-");
    vec![
        (labels::INSTANCE_TYPE, Some(facts.name.clone())),
        (labels::ARCH, Some(facts.architecture.as_str().into())),
        (labels::INSTANCE_CPU, Some(facts.cpus.to_string())),
        (labels::INSTANCE_CPU_MANUFACTURER, facts.cpu_manufacturer.as_deref().map(kebab)),
        (labels::INSTANCE_CPU_CLOCK_SPEED_MHZ, Some(facts.clock_mhz.to_string())),
        (labels::INSTANCE_MEMORY, Some(facts.memory_mib.to_string())),
        (labels::INSTANCE_HYPERVISOR, Some(facts.hypervisor.clone())),
        (labels::INSTANCE_ENCRYPTION_IN_TRANSIT, Some(facts.encryption_in_transit.to_string())),
        (labels::INSTANCE_CATEGORY, name.category.map(Into::into)),
        (labels::INSTANCE_GENERATION, name.generation.map(Into::into)),
        (labels::INSTANCE_FAMILY, name.family.map(Into::into)),
        (labels::INSTANCE_SIZE, name.size.map(Into::into)),
        (labels::INSTANCE_CAPABILITY_FLEX, Some(name.is_flex().to_string())),
        (
            labels::INSTANCE_LOCAL_NVME,
            facts.local_storage_gb.filter(|_| facts.local_nvme).map(|gigabytes| gigabytes.to_string()),
        ),
        (labels::INSTANCE_EBS_BANDWIDTH, facts.ebs_bandwidth_mbps.map(|mbps| mbps.to_string())),
        (labels::INSTANCE_NETWORK_BANDWIDTH, facts.network_bandwidth_mbps.map(|mbps| mbps.to_string())),
        (labels::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name))),
        (labels::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer))),
        (labels::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count.to_string())),
        (labels::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib.to_string())),
        (labels::INSTANCE_ACCELERATOR_NAME, accelerator.as_ref().map(|accelerator| kebab(accelerator.name))),
        (
            labels::INSTANCE_ACCELERATOR_MANUFACTURER,
            accelerator.as_ref().map(|accelerator| kebab(accelerator.manufacturer)),
        ),
        (labels::INSTANCE_ACCELERATOR_COUNT, accelerator.as_ref().map(|accelerator| accelerator.count.to_string())),
    ]
}

struct Accelerator<'a> {
    name: &'a str,
    manufacturer: &'a str,
    count: u32,
}

/// The accelerator of the labels. Neuron devices take precedence: newer types list only these, older ones both.
fn accelerator(facts: &TypeFacts) -> Option<Accelerator<'_>> {
    let neuron = only(&facts.neuron_devices);
    neuron.map(|device| Accelerator { name: &device.name, manufacturer: "aws", count: device.count }).or_else(|| {
        let device = only(&facts.inference_accelerators)?;
        Some(Accelerator { name: &device.name, manufacturer: &device.manufacturer, count: device.count })
    })
}

/// The only item. Labels cannot describe several kinds of device.
fn only<T>(items: &[T]) -> Option<&T> {
    match items {
        [item] => Some(item),
        _ => None,
    }
}

/// The parts of a type's name, such as `u-6tb1.56xlarge`: category u, generation 1, family u-6tb1, size 56xlarge.
#[derive(Debug, Default, PartialEq, Eq)]
struct Name<'a> {
    category: Option<&'a str>,
    generation: Option<&'a str>,
    family: Option<&'a str>,
    size: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Self {
        let Some((family, size)) = name.split_once('.') else { return Self::default() };
        let (category, rest) = split_where(family, |byte| !byte.is_ascii_lowercase());
        let rest = rest
            .strip_prefix('-')
            .map(|terabytes| split_where(terabytes, |byte| !byte.is_ascii_digit()).1)
            .and_then(|unit| unit.strip_prefix("tb"))
            .unwrap_or(rest);
        let (generation, _) = split_where(rest, |byte| !byte.is_ascii_digit());
        let known = !category.is_empty() && !generation.is_empty();
        Self {
            category: known.then_some(category),
            generation: known.then_some(generation),
            family: Some(family),
            size: Some(size).filter(|size| !size.contains('.')),
        }
    }

    fn is_flex(&self) -> bool {
        self.family.is_some_and(|family| family.contains("-flex"))
    }
}

fn split_where(text: &str, ends: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(ends).unwrap_or(text.len()))
}

/// The zones, zone ids and capacity types of all offerings of the type for the EC2NodeClass.
fn add_places(requirements: &mut Requirements, catalog: &Catalog, entry: &CatalogType, settings: &NodeClassSettings) {
    let offered: BTreeMap<&str, &str> =
        entry.zones(catalog).map(|(zone, _)| (zone.name.as_str(), zone.id.as_str())).collect();
    let zones = || settings.zones.iter().filter(|zone| offered.contains_key(zone.name.as_str()));
    // The ids of the EC2NodeClass are those of the account.
    let id = |zone: &Zone| if zone.id.is_empty() { offered[zone.name.as_str()].to_owned() } else { zone.id.clone() };
    requirements.add(labels::ZONE, Requirement::one_of(zones().map(|zone| zone.name.as_str())));
    requirements.add(labels::ZONE_ID, Requirement::one_of(zones().map(id).filter(|id| !id.is_empty())));
    let reserved = reservations(&entry.facts, settings).next().is_some();
    let capacity_types = [
        (entry.facts.on_demand, CapacityType::OnDemand),
        (entry.facts.spot, CapacityType::Spot),
        (reserved, CapacityType::Reserved),
    ];
    let capacity_types = capacity_types.into_iter().filter(|(sold, _)| *sold);
    requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(capacity_types.map(|(_, kind)| kind.as_str())));
}

fn add_reservations(requirements: &mut Requirements, facts: &TypeFacts, settings: &NodeClassSettings) {
    let all = || reservations(facts, settings);
    requirements
        .add(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(all().map(|reservation| reservation.id.as_str())));
    requirements.add(
        labels::CAPACITY_RESERVATION_TYPE,
        Requirement::one_of(all().map(|reservation| reservation.kind.as_str())),
    );
    requirements.add(
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        Requirement::one_of(all().map(|reservation| reservation.interruptible.to_string())),
    );
}

/// The reservations of this type that the EC2NodeClass selects.
pub(super) fn reservations<'a>(
    facts: &'a TypeFacts,
    settings: &'a NodeClassSettings,
) -> impl Iterator<Item = &'a crate::node_class::CapacityReservation> {
    settings.capacity_reservations.iter().filter(|reservation| reservation.instance_type == facts.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name<'a>(category: &'a str, generation: &'a str, family: &'a str, size: &'a str) -> Name<'a> {
        Name { category: Some(category), generation: Some(generation), family: Some(family), size: Some(size) }
    }

    #[test]
    fn labels_are_derived_from_names() {
        assert_eq!(Name::parse("m5.large"), name("m", "5", "m5", "large"));
        assert_eq!(Name::parse("u-6tb1.56xlarge"), name("u", "1", "u-6tb1", "56xlarge"));
        assert_eq!(Name::parse("u7in-16tb.224xlarge"), name("u", "7", "u7in-16tb", "224xlarge"));
        assert_eq!(Name::parse("c8gd.metal-24xl"), name("c", "8", "c8gd", "metal-24xl"));
        assert_eq!(Name::parse("m7i-flex.large"), name("m", "7", "m7i-flex", "large"));
        assert_eq!(Name::parse("trn1n.32xlarge"), name("trn", "1", "trn1n", "32xlarge"));
    }

    #[test]
    fn unusual_names_have_fewer_labels() {
        assert_eq!(Name::parse("large"), Name::default());
        assert_eq!(
            Name::parse("mac-m4.metal"),
            Name { family: Some("mac-m4"), size: Some("metal"), ..Name::default() }
        );
    }
}
