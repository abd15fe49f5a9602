//! Workloads as Kubernetes manifests: one JSON List, as in the output of kubectl, which `nodeless plan` reads.

mod bulk;
mod cluster;
mod devices;
mod pods;
mod volumes;

use crate::Workload;
use serde_json::Value;

/// The fields of a pod that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fullness {
    /// The fields that planning uses.
    #[default]
    Sparse,
    /// All fields that kubectl prints for a pod with two containers: about five kilobytes more, which planning does not use.
    AsKubectl,
    /// The fields that planning uses, and GPUs are requested with ResourceClaimTemplates, as devices of NVIDIA's driver.
    Devices,
}

/// The workload as a List. NodePools are of one EC2NodeClass named `default`; `nodeless plan` uses its own catalog, so the
/// workload's instance types are not written.
#[must_use]
pub fn export(workload: &Workload, fullness: Fullness) -> String {
    let mut list = List::default();
    list.push(&cluster::node_class());
    workload.node_pools.iter().for_each(|pool| list.push(&cluster::node_pool(pool)));
    workload.daemon_sets.iter().for_each(|set| list.push(&cluster::daemon_set(set)));
    workload.namespaces.iter().for_each(|(name, labels)| list.push(&cluster::namespace(name, labels)));
    workload.disruption_budgets.iter().for_each(|budget| list.push(&cluster::disruption_budget(budget)));
    for item in volumes::items(workload) {
        list.push(&item);
    }
    if fullness == Fullness::Devices {
        list.push(&devices::class());
        devices::templates(&workload.pending).iter().for_each(|item| list.push(item));
    }
    let bound = workload.places.iter().flat_map(|place| &place.pods);
    for place in &workload.places {
        list.push(&cluster::node(&place.node));
        list.push(&cluster::node_claim(&place.claim));
    }
    for pod in bound.chain(&workload.pending) {
        let mut item = pods::pod(pod);
        match fullness {
            Fullness::Sparse => {}
            Fullness::AsKubectl => bulk::add(&mut item, &pod.name),
            Fullness::Devices if pod.node_name.is_none() => devices::request(&mut item, pod),
            Fullness::Devices => {}
        }
        list.push(&item);
    }
    list.end()
}

/// Items are written one by one, because all values of a large cluster would take gigabytes.
struct List(String);

impl Default for List {
    fn default() -> Self {
        Self(r#"{"apiVersion":"v1","kind":"List","items":["#.into())
    }
}

impl List {
    fn push(&mut self, item: &Value) {
        if !self.0.ends_with('[') {
            self.0.push(',');
        }
        self.0.push_str(&item.to_string());
    }

    fn end(mut self) -> String {
        self.0.push_str("]}");
        self.0
    }
}
