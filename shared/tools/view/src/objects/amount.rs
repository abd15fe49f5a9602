//! Amounts of CPU and memory.

use nodeless_model::resources::{format_quantity, name};
use nodeless_model::{Quantity, ResourceList};
use serde::Serialize;
use std::ops::AddAssign;

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// Thousandths of a CPU.
    pub cpu_millicores: i64,
    /// Bytes of memory.
    pub memory_bytes: i64,
}

impl Amount {
    /// The CPU and memory of a list of resources.
    #[must_use]
    pub fn from_list(resources: &ResourceList) -> Self {
        Self::new(resources.get("cpu"), resources.get("memory"))
    }

    /// An amount of these quantities.
    #[must_use]
    pub fn new(cpu: Quantity, memory: Quantity) -> Self {
        Self { cpu_millicores: cpu.milli(), memory_bytes: memory.units() }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.cpu_millicores = self.cpu_millicores.saturating_add(other.cpu_millicores);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
}

/// The resources other than CPU, memory, local disk and pods, such as `nvidia.com/gpu` and `hugepages-2Mi`. Those of which there
/// is none are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extended {
    /// What pods can request.
    pub allocatable: ResourceList,
    /// The requests of the pods.
    pub requested: ResourceList,
}

impl Extended {
    /// The names of the resources.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let more = self.requested.iter().filter(|(name, _)| !self.allocatable.contains(name));
        self.allocatable.iter().chain(more).map(|(name, _)| name)
    }

    /// What is requested and what is allocatable of a resource: `4/8`; `None` if there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let amounts = [self.requested.get(name), self.allocatable.get(name)];
        let [requested, allocatable] = amounts.map(|amount| format_quantity(name, amount));
        amounts.iter().any(|amount| !amount.is_zero()).then(|| format!("{requested}/{allocatable}"))
    }

    /// The text of each resource: `nvidia.com/gpu 4/8`.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        self.names().filter_map(|name| Some(format!("{name} {}", self.text(name)?)))
    }
}

/// The resources of a list that [`Extended`] has. Limits of volumes, and the interfaces and addresses that the VPC resource controller
/// adds to nodes and pods, are not among them: no user requests them.
pub(crate) fn extended(resources: &ResourceList) -> ResourceList {
    const OTHERS: [&str; 4] = [name::CPU, name::MEMORY, name::EPHEMERAL_STORAGE, name::PODS];
    let is_extended = |name: &str| {
        !OTHERS.contains(&name)
            && !["attachable-volumes-", "vpc.amazonaws.com/"].iter().any(|start| name.starts_with(start))
    };
    let shown = resources.iter().filter(|(name, amount)| is_extended(name) && *amount > Quantity::ZERO);
    shown.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// The allocatable and used resources of a node or a group of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// What pods can request.
    pub allocatable: Amount,
    /// The requests of the pods.
    pub requested: Amount,
    /// The use that metrics.k8s.io reports; `null` if it does not answer or does not report the node.
    pub used: Option<Amount>,
    /// GPUs and other resources.
    pub extended: Extended,
}

impl Load {
    /// The load of a group is the sum of its members. Its use is that of the members whose use is known.
    pub fn add(&mut self, other: &Self) {
        self.allocatable += other.allocatable;
        self.requested += other.requested;
        self.extended.allocatable.add(&other.extended.allocatable);
        self.extended.requested.add(&other.extended.requested);
        if let Some(used) = other.used {
            *self.used.get_or_insert_default() += used;
        }
    }

    /// The share of CPU that is requested, 0 to 1 or more.
    #[must_use]
    pub fn cpu_requested(&self) -> f64 {
        share(self.requested.cpu_millicores, self.allocatable.cpu_millicores)
    }

    /// The share of memory that is requested.
    #[must_use]
    pub fn memory_requested(&self) -> f64 {
        share(self.requested.memory_bytes, self.allocatable.memory_bytes)
    }

    /// The share of CPU that is used.
    #[must_use]
    pub fn cpu_used(&self) -> Option<f64> {
        self.used.map(|used| share(used.cpu_millicores, self.allocatable.cpu_millicores))
    }

    /// The share of memory that is used.
    #[must_use]
    pub fn memory_used(&self) -> Option<f64> {
        self.used.map(|used| share(used.memory_bytes, self.allocatable.memory_bytes))
    }
}

/// A share of a total; zero of nothing is zero.
#[expect(clippy::cast_precision_loss, reason = "a share is shown as a percentage")]
pub(crate) fn share(part: i64, total: i64) -> f64 {
    match (part, total) {
        (0, _) => 0.0,
        (_, ..=0) => 1.0,
        _ => part as f64 / total as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_nothing_is_not_a_number_out_of_range() {
        assert!((share(0, 0) - 0.0).abs() < f64::EPSILON);
        assert!((share(5, 0) - 1.0).abs() < f64::EPSILON);
        assert!((share(1, 4) - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn gpus_and_huge_pages_are_extended_resources_and_what_a_node_has_none_of_is_not() {
        let list = |entries: &[(&str, &str)]| -> ResourceList {
            entries.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
        };
        let allocatable = [
            ("cpu", "4"),
            ("pods", "58"),
            ("nvidia.com/gpu", "8"),
            ("hugepages-2Mi", "1Gi"),
            ("hugepages-1Gi", "0"),
            ("vpc.amazonaws.com/pod-eni", "38"),
        ];
        let own = Extended {
            allocatable: extended(&list(&allocatable)),
            requested: extended(&list(&[("nvidia.com/gpu", "4"), ("aws.amazon.com/neuron", "1")])),
        };
        let texts: Vec<String> = own.texts().collect();
        assert_eq!(texts, ["hugepages-2Mi 0/1Gi", "nvidia.com/gpu 4/8", "aws.amazon.com/neuron 1/0"]);
        assert_eq!(own.text("hugepages-1Gi"), None);
    }

    #[test]
    fn the_use_of_a_group_is_that_of_the_members_that_report_it() {
        let mut sum = Load::default();
        sum.add(&Load::default());
        assert_eq!(sum.used, None);
        let used = Amount { cpu_millicores: 5, memory_bytes: 7 };
        sum.add(&Load { used: Some(used), ..Load::default() });
        assert_eq!(sum.used, Some(used));
    }
}
