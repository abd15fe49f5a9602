//! Instance types from facts, for the settings of one EC2NodeClass.
//!
//! The figures are those of Karpenter, so that the allocatable resources are the same after a migration. `tests/catalog/published.rs`
//! compares them with the tables that Karpenter publishes.

mod attachments;
mod capacity;
mod compatibility;
mod kubelet;
mod labels;
mod offerings;
mod overhead;
mod root_volume;

use nodeless_model::InstanceType;

use crate::node_class::NodeClassSettings;
use crate::stored::{Catalog, CatalogType};
use crate::unavailable::UnavailableOfferings;
use std::borrow::Cow;
use std::collections::BTreeSet;

pub use capacity::interface_limited_pods;
pub use compatibility::{Incompatibility, incompatibility};
pub use kubelet::KubeletExpressionError;
pub use overhead::{kube_reserved_cpu_milli, kube_reserved_memory_mib};

/// Names of the resources of AWS device plugins and VPC controllers.
pub mod resource {
    /// NVIDIA GPUs.
    pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
    /// AMD GPUs.
    pub const AMD_GPU: &str = "amd.com/gpu";
    /// Habana Gaudi accelerators.
    pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
    /// AWS Neuron devices.
    pub const AWS_NEURON: &str = "aws.amazon.com/neuron";
    /// Cores of AWS Neuron devices.
    pub const AWS_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
    /// Branch interfaces for pods with their own security groups.
    pub const AWS_POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
    /// Addresses for Windows pods.
    pub const AWS_PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
    /// Elastic fabric adapters.
    pub const AWS_EFA: &str = "vpc.amazonaws.com/efa";
}

impl Catalog {
    /// All instance types for an EC2NodeClass, by name.
    #[must_use]
    pub fn instance_types(
        &self,
        settings: &NodeClassSettings,
        unavailable: &UnavailableOfferings,
    ) -> Vec<InstanceType> {
        self.types.iter().map(|entry| instance_type(self, entry, settings, unavailable)).collect()
    }

    /// The first expression of the kubelet settings without a usable value for an instance type. Karpenter, too, evaluates
    /// expressions for all instance types of the region before it uses an EC2NodeClass.
    ///
    /// # Errors
    /// See [`KubeletExpressionError`].
    pub fn check_expressions(&self, settings: &NodeClassSettings) -> Result<(), KubeletExpressionError> {
        self.types.iter().try_for_each(|entry| kubelet::settings(&entry.facts, settings).map(|_| ()))
    }

    /// The instance types with these names for an EC2NodeClass, each once, by name. Names that the catalog does not have are left
    /// out. All instance types of a region take tens of megabytes; a launch or a price needs few of them.
    #[must_use]
    pub fn instance_types_named<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        settings: &NodeClassSettings,
        unavailable: &UnavailableOfferings,
    ) -> Vec<InstanceType> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let entries = names.into_iter().filter_map(|name| self.get(name));
        entries.map(|entry| instance_type(self, entry, settings, unavailable)).collect()
    }
}

/// The instance type for an EC2NodeClass, with all offerings in the order of zone and capacity type.
///
/// Unavailable offerings are listed too, because nodes that run on them still have a price. An offering whose price is
/// unknown is unavailable and its price is 0.
#[must_use]
pub fn instance_type(
    catalog: &Catalog,
    entry: &CatalogType,
    settings: &NodeClassSettings,
    unavailable: &UnavailableOfferings,
) -> InstanceType {
    // A type without kubelet settings has no available offerings. Those of the class are for nodes that run already.
    let kubelet = kubelet::settings(&entry.facts, settings).unwrap_or(Cow::Borrowed(&settings.kubelet));
    let root_volume = root_volume::root_volumes(&entry.facts, settings, &kubelet);
    let capacity = capacity::capacity(&entry.facts, settings, &kubelet, root_volume.as_ref());
    InstanceType {
        name: entry.facts.name.clone(),
        requirements: labels::requirements(catalog, entry, settings),
        ebs_volumes: Some(attachments::ebs_volumes(&entry.facts, settings)),
        overhead: overhead::overhead(&entry.facts, settings, &kubelet, &capacity),
        capacity,
        root_volume,
        offerings: offerings::offerings(catalog, entry, settings, unavailable),
    }
}

#[cfg(test)]
mod tests;
