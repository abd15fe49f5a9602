//! The volume for the data of containers, where a NodePool determines its size.

use super::capacity::{local_storage, volume_of_class};
use super::overhead::{disk_for, kube_reserved};
use crate::node_class::{KubeletSettings, NodeClassSettings};
use crate::type_facts::TypeFacts;
use nodeless_model::money::HOURS_PER_MONTH;
use nodeless_model::resources::name::EPHEMERAL_STORAGE;
use nodeless_model::root_volume::gib;
use nodeless_model::{RootVolume, RootVolumes};

/// The root volumes of an instance type; `None` if the EC2NodeClass decides, or the data of containers is on the disks of the instance.
pub(super) fn root_volumes(
    facts: &TypeFacts,
    settings: &NodeClassSettings,
    kubelet: &KubeletSettings,
) -> Option<RootVolumes> {
    let asked = settings.root_volume.as_ref().filter(|_| local_storage(facts, settings).is_none())?;
    let class = volume_of_class(settings);
    let (size, cpus) = (&asked.size, facts.cpus);
    let planned = match asked.requests.filter(|requests| !requests.is_zero()) {
        Some(requests) => {
            let reserved = kube_reserved(facts, settings, kubelet).get(EPHEMERAL_STORAGE)
                + kubelet.system_reserved.get(EPHEMERAL_STORAGE);
            let (needed, taken) = disk_for(requests, reserved, kubelet);
            size.gib_for(cpus, class, taken, needed)
        }
        None if asked.requests.is_some() => size.least_gib(cpus, class),
        None => size.planned_gib(cpus, class),
    };
    let class_gib = gib(class);
    let dollars_per_hour = f64::from(planned.saturating_sub(class_gib)) * asked.dollars_per_gib / HOURS_PER_MONTH;
    let planned = RootVolume { gib: planned, dollars_per_hour };
    Some(RootVolumes { planned, least_gib: size.least_gib(cpus, class), class_gib })
}
