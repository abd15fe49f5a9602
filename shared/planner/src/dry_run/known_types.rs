//! The instance types of the nodes of an export, which complete what the export lacks.

use nodeless_api::nodeclass::AmiFamily;
use nodeless_api::{EC2NodeClass, EC2NodeClassSpec};
use nodeless_catalog::{Catalog, UnavailableOfferings};
use nodeless_model::{InstanceType, InstanceTypes, NodeClaim, StringMap, labels};
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeMap;

/// The instance types, by EC2NodeClass.
pub(crate) struct KnownTypes<'a> {
    pub(crate) types: &'a BTreeMap<String, Result<InstanceTypes, String>>,
    pub(crate) catalog: &'a Catalog,
}

impl KnownTypes<'_> {
    /// The instance type in a node's labels, as the EC2NodeClass launches it; without a class, as AL2023 does.
    pub(crate) fn type_of(&self, node_class: Option<&str>, node_labels: &StringMap) -> Option<InstanceType> {
        let name = node_labels.get(labels::INSTANCE_TYPE)?;
        let launched = node_class.and_then(|class| self.types.get(class)).and_then(|types| types.as_ref().ok());
        if let Some(types) = launched {
            return named(types, name).cloned();
        }
        let settings = nodeless_operations::node_class::settings(&default_class("")).ok()?;
        let entry = self.catalog.get(name)?;
        Some(nodeless_catalog::instance_types::instance_type(
            self.catalog,
            entry,
            &settings,
            &UnavailableOfferings::default(),
        ))
    }

    pub(crate) fn fill_nodes(&self, view: &mut ClusterView, assumptions: &mut Vec<String>) {
        let of_pools: BTreeMap<&str, &str> =
            view.node_pools.iter().map(|pool| (pool.name.as_str(), pool.template.node_class.as_str())).collect();
        let (mut taken, mut unknown) = (Vec::new(), Vec::new());
        for node in view.nodes.iter_mut().filter(|node| node.allocatable.is_empty()) {
            let class = node.node_pool().and_then(|pool| of_pools.get(pool)).copied();
            match self.type_of(class, &node.labels) {
                Some(kind) => {
                    node.allocatable = kind.allocatable();
                    node.capacity = kind.capacity;
                    taken.push(node.name.as_str());
                }
                None => unknown.push(node.name.as_str()),
            }
        }
        let describe =
            |names: &[&str], what: &str| format!("{} without status.allocatable: {what}", several("Node", names));
        if !taken.is_empty() {
            assumptions.push(describe(&taken, "the capacity of the instance type is assumed"));
        }
        if !unknown.is_empty() {
            assumptions.push(describe(&unknown, "the instance type is unknown too, so no pod fits there"));
        }
    }

    pub(crate) fn fill_claims(&self, records: &mut [NodeClaim], view: &ClusterView) {
        let class_of = |pool: &str| view.node_pools.iter().find(|one| one.name == pool);
        for claim in records.iter_mut().filter(|claim| claim.status.instance.is_some()) {
            if !claim.status.allocatable.is_empty() {
                continue;
            }
            let own = Some(claim.node_class.as_str()).filter(|class| !class.is_empty());
            let class =
                own.or_else(|| class_of(claim.node_pool.as_deref()?).map(|pool| pool.template.node_class.as_str()));
            if let Some(kind) = self.type_of(class, &claim.status.labels) {
                claim.status.allocatable = kind.allocatable();
                claim.status.capacity = kind.capacity;
            }
        }
    }
}

/// `Nodes a, b, c and 4 more`.
pub(crate) fn several(noun: &str, names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = names.len().saturating_sub(3);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{noun}{plural} {}{more}", names[..names.len().min(3)].join(", "))
}

/// The instance type of a name. Catalogs are sorted, other lists need not be.
fn named<'t>(types: &'t [InstanceType], name: &str) -> Option<&'t InstanceType> {
    let known = types.binary_search_by(|kind| kind.name.as_str().cmp(name));
    known.map_or_else(|_| types.iter().find(|kind| kind.name == name), |place| types.get(place))
}

/// An EC2NodeClass with default settings.
pub(crate) fn default_class(name: &str) -> EC2NodeClass {
    EC2NodeClass::new(name, EC2NodeClassSpec { ami_family: Some(AmiFamily::AL2023), ..EC2NodeClassSpec::default() })
}

/// The price per hour of the offering in a node's labels; nothing if the catalog does not have it.
pub(crate) fn price(node_labels: &StringMap, types: &[InstanceType]) -> f64 {
    let label = |key: &str| node_labels.get(key).map_or("", String::as_str);
    let kind = named(types, label(labels::INSTANCE_TYPE));
    let mut offerings = kind.into_iter().flat_map(|kind| &kind.offerings);
    let own = offerings.find(|offering| {
        offering.zone == label(labels::ZONE) && offering.capacity_type.as_str() == label(labels::CAPACITY_TYPE)
    });
    own.map_or(0.0, |offering| offering.price)
}
