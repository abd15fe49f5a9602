//! Instance types and their offerings as scheduling sees them.

use crate::amounts::resources::name;
use crate::{CapacityType, Quantity, Requirement, Requirements, ResourceList, RootVolumes, labels};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The CSI driver of EBS, which also serves in-tree EBS volumes.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// An instance type as launched for one EC2NodeClass: its labels, its capacity and overhead, and its offerings.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    /// The name, such as `m6i.large`.
    pub name: String,
    /// The labels that its nodes may have. Zone and capacity type list what any offering has.
    pub requirements: Requirements,
    /// The capacity.
    pub capacity: ResourceList,
    /// The number of volumes of [`EBS_DRIVER`] that a node attaches for pods; `None` if it is not limited.
    pub ebs_volumes: Option<u32>,
    /// The overhead.
    pub overhead: Overhead,
    /// The root volume, where the NodePool determines its size.
    pub root_volume: Option<RootVolumes>,
    /// The offerings.
    pub offerings: Vec<Offering>,
}

/// The overhead of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overhead {
    /// kube-reserved.
    pub kube_reserved: ResourceList,
    /// system-reserved.
    pub system_reserved: ResourceList,
    /// The eviction threshold.
    pub eviction_threshold: ResourceList,
}

/// An offering: an instance type in a zone, with a capacity type and a price.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: f64,
    /// Whether the offering is available now, as far as known.
    pub available: bool,
    /// Whether the offering is unavailable only because the price lists have no price for it. A NodeOverlay may set one.
    pub lacks_price: bool,
    /// The capacity reservation, where the capacity type is `reserved`.
    pub reservation: Option<Reservation>,
    /// Further labels that only this offering has, such as the zone id.
    pub requirements: Requirements,
}

/// The capacity reservation of an offering, or other capacity that is paid, used or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The id, `cr-…`; of stopped instances it begins with [`Self::STOPPED`].
    pub id: String,
    /// What is available of it: the number of instances, if each uses one.
    pub remaining: u32,
    /// What an instance uses of it: one of a capacity reservation.
    pub each: u32,
    /// Whether another instance may take the place of one that ends.
    pub reuse: Reuse,
}

/// Whether another instance may take the place of one in a capacity reservation that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reuse {
    /// It may not: nothing can be launched into the reservation now.
    #[default]
    No,
    /// It may, but the capacity may be gone by then: another account owns the reservation or may reclaim its instances, or it is
    /// unknown how many are in use.
    Shared,
    /// It may. The account of the cluster owns the reservation.
    Owned {
        /// The number of its instances in use, in this cluster and elsewhere.
        used: u32,
    },
}

/// The instances of a capacity reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedInstances {
    /// The number of available ones.
    pub available: u32,
    /// The number of those in use, in the cluster and elsewhere; `None` if it is unknown, or if another account owns the reservation.
    pub used: Option<u32>,
}

impl Reservation {
    /// The beginning of the ids of stopped instances that are started in place of a launch.
    pub const STOPPED: &'static str = "stopped/";

    /// Whether these are stopped instances.
    #[must_use]
    pub fn is_of_stopped_instances(&self) -> bool {
        self.id.starts_with(Self::STOPPED)
    }
}

/// All instance types of one EC2NodeClass, shared rather than copied.
pub type InstanceTypes = Arc<[InstanceType]>;

impl InstanceType {
    /// The allocatable resources: the capacity less every overhead, never below zero. Huge pages are subtracted from memory.
    #[must_use]
    pub fn allocatable(&self) -> ResourceList {
        let mut left = self.capacity.clone();
        for overhead in
            [&self.overhead.kube_reserved, &self.overhead.system_reserved, &self.overhead.eviction_threshold]
        {
            for (name, quantity) in overhead.iter() {
                if left.contains(name) {
                    left.set(name, left.get(name).saturating_sub_to_zero(quantity));
                }
            }
        }
        let huge_pages = self.capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
        let set_aside: Quantity = huge_pages.map(|(_, quantity)| quantity).sum();
        if !set_aside.is_zero() {
            left.set(name::MEMORY, left.get(name::MEMORY).saturating_sub_to_zero(set_aside));
        }
        left
    }

    /// What the planned root volume costs beyond that of the EC2NodeClass, in dollars per hour.
    #[must_use]
    pub fn root_volume_price(&self) -> f64 {
        self.root_volume.map_or(0.0, |volumes| volumes.planned.dollars_per_hour)
    }

    /// The available offerings that meet the requirements on zone, capacity type and their own labels.
    pub fn available_offerings<'a, 'r>(
        &'a self,
        requirements: &'r Requirements,
    ) -> impl Iterator<Item = &'a Offering> + use<'a, 'r> {
        let filter = OfferingFilter::new(requirements);
        self.offerings.iter().filter(move |offering| offering.available && filter.includes(offering))
    }

    /// The cheapest available offering that meets the requirements; among equals the first by zone and capacity type.
    #[must_use]
    pub fn cheapest_offering<'a>(&'a self, requirements: &Requirements) -> Option<&'a Offering> {
        self.available_offerings(requirements).min_by(|a, b| a.cmp_price(b))
    }
}

impl Offering {
    /// Whether the offering's zone, capacity type and own labels meet the requirements.
    #[must_use]
    pub fn meets(&self, requirements: &Requirements) -> bool {
        OfferingFilter::new(requirements).includes(self)
    }

    /// By price, then zone, then capacity type, so that the order is total and deterministic.
    #[must_use]
    pub fn cmp_price(&self, other: &Self) -> std::cmp::Ordering {
        self.price
            .total_cmp(&other.price)
            .then_with(|| self.zone.cmp(&other.zone))
            .then_with(|| self.capacity_type.cmp(&other.capacity_type))
    }

    /// The labels of a node with this offering beyond those of its type: zone, capacity type and its own.
    #[must_use]
    pub fn node_requirements(&self) -> Requirements {
        let mut requirements = self.requirements.clone();
        requirements.add(labels::ZONE, Requirement::one_of([self.zone.as_str()]));
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of([self.capacity_type.as_str()]));
        requirements
    }
}

/// The offerings that meet requirements, which are searched once for all of them.
#[derive(Clone, Copy)]
struct OfferingFilter<'r> {
    zone: Option<&'r Requirement>,
    capacity_type: Option<&'r Requirement>,
    requirements: &'r Requirements,
}

impl<'r> OfferingFilter<'r> {
    fn new(requirements: &'r Requirements) -> Self {
        let (zone, capacity_type) = (requirements.get(labels::ZONE), requirements.get(labels::CAPACITY_TYPE));
        Self { zone, capacity_type, requirements }
    }

    fn includes(&self, offering: &Offering) -> bool {
        self.zone.is_none_or(|zones| zones.has(&offering.zone))
            && self.capacity_type.is_none_or(|types| types.has(offering.capacity_type.as_str()))
            && self.requirements.intersects(&offering.requirements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(zone: &str, capacity_type: CapacityType, price: f64, available: bool) -> Offering {
        Offering {
            zone: zone.into(),
            capacity_type,
            price,
            available,
            lacks_price: false,
            reservation: None,
            requirements: Requirements::new(),
        }
    }

    #[test]
    fn finds_the_cheapest_offering_that_can_be_had() {
        let kind = InstanceType {
            name: "m6i.large".into(),
            requirements: Requirements::new(),
            capacity: ResourceList::new(),
            ebs_volumes: None,
            root_volume: None,
            overhead: Overhead::default(),
            offerings: vec![
                offering("a", CapacityType::OnDemand, 0.1, true),
                offering("b", CapacityType::Spot, 0.03, false),
                offering("c", CapacityType::Spot, 0.04, true),
            ],
        };
        assert_eq!(kind.cheapest_offering(&Requirements::new()).unwrap().zone, "c");
        let on_demand = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]))]);
        assert_eq!(kind.cheapest_offering(&on_demand).unwrap().zone, "a");
        let elsewhere = Requirements::from([(labels::ZONE, Requirement::one_of(["b"]))]);
        assert!(kind.cheapest_offering(&elsewhere).is_none());
    }

    #[test]
    fn huge_pages_are_set_aside_from_memory() {
        let mebibytes = |count| Quantity::from_mebibytes(count);
        let capacity = ResourceList::from([("memory", mebibytes(100)), ("hugepages-2Mi", mebibytes(30))]);
        let mut kind = InstanceType {
            name: "huge".into(),
            requirements: Requirements::new(),
            capacity,
            ebs_volumes: None,
            root_volume: None,
            overhead: Overhead::default(),
            offerings: Vec::new(),
        };
        assert_eq!(kind.allocatable().get("memory"), mebibytes(70));
        kind.capacity.set("hugepages-2Mi", mebibytes(200));
        assert_eq!(kind.allocatable().get("memory"), Quantity::ZERO);
    }

    #[test]
    fn allocatable_is_what_the_overheads_leave() {
        let cpu = |milli| ResourceList::from([("cpu", Quantity::from_milli(milli))]);
        let kind = InstanceType {
            name: "tiny".into(),
            requirements: Requirements::new(),
            capacity: cpu(1000).with("pods", Quantity::from_units(4)),
            ebs_volumes: None,
            root_volume: None,
            overhead: Overhead {
                kube_reserved: cpu(80),
                system_reserved: cpu(20),
                eviction_threshold: ResourceList::new(),
            },
            offerings: Vec::new(),
        };
        assert_eq!(kind.allocatable(), cpu(900).with("pods", Quantity::from_units(4)));
    }
}
