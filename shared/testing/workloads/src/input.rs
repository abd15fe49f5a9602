//! Workloads as the planner reads them.

use crate::workload::Workload;
use nodeless_api::EC2NodeClass;
use nodeless_api::test_support::ec2_node_class;
use nodeless_api::view::ClusterView;
use nodeless_catalog::Catalog;
use nodeless_catalog::facts::FactsError;
use nodeless_catalog::stored::{CatalogType, Listing, MemoryOverhead, Price, ZoneOffer};
use nodeless_model::{CapacityType, InstanceType, NodeClaim};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The instance type whose facts are used for types that EC2 does not have.
const EXAMPLE: &str = "m5.large";

/// The planner's input: the objects of a cluster, the claims of its nodes, and the catalog.
#[derive(Debug)]
pub struct PlannerInput {
    /// The objects. The EC2NodeClass `default` has no status.
    pub view: ClusterView,
    /// The claims.
    pub claims: Vec<NodeClaim>,
    /// The instance types of the workload.
    pub catalog: Catalog,
}

impl Workload {
    /// The workload as the planner reads it.
    ///
    /// # Errors
    /// If the embedded catalog cannot be read, which a test of the catalog excludes.
    pub fn into_input(self) -> Result<PlannerInput, &'static FactsError> {
        let mut catalog = Catalog::embedded()?;
        let node_class = node_class(&self, &catalog);
        set_types(&mut catalog, &self);
        let Self { node_pools, pending, places, daemon_sets, disruption_budgets, .. } = self;
        let mut view = ClusterView {
            pods: pending.into_iter().map(Arc::new).collect(),
            daemon_sets,
            disruption_budgets,
            node_pools,
            node_classes: BTreeMap::from([("default".to_owned(), node_class)]),
            volumes: self.volumes,
            volume_drivers: self.volume_drivers,
            volume_limits: self.volume_limits,
            namespaces: self.namespaces,
            ..ClusterView::default()
        };
        let mut claims = Vec::with_capacity(places.len());
        for place in places {
            view.nodes.push(place.node);
            view.pods.extend(place.pods.into_iter().map(Arc::new));
            claims.push(place.claim);
        }
        Ok(PlannerInput { view, claims, catalog })
    }
}

/// The EC2NodeClass. Nodes of types that EC2 does not have run ten pods for each cpu, as in Karpenter's benchmark.
fn node_class(workload: &Workload, catalog: &Catalog) -> EC2NodeClass {
    let kubelet = json!({
        "maxPods": 100_000, "podsPerCore": 10, "kubeReserved": { "cpu": "100m", "memory": "0", "ephemeral-storage": "0" },
        "evictionHard": { "memory.available": "0" },
    });
    let is_made_up = workload.instance_types.iter().any(|kind| catalog.get(&kind.name).is_none());
    ec2_node_class("default", "example", &json!({ "kubelet": if is_made_up { kubelet } else { Value::Null } }))
}

/// Gives the catalog the types of a workload, at their prices.
fn set_types(catalog: &mut Catalog, workload: &Workload) {
    let zones: Vec<String> = catalog.zones.iter().map(|zone| zone.name.clone()).collect();
    let Some(example) = catalog.get(EXAMPLE).cloned() else { return };
    let mut is_made_up = false;
    let of = |kind: &InstanceType| {
        let known = catalog.get(&kind.name).cloned();
        is_made_up |= known.is_none();
        priced(known.unwrap_or_else(|| made_up(&example, kind)), kind, &zones)
    };
    let mut types: Vec<CatalogType> = workload.instance_types.iter().map(of).collect();
    types.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
    catalog.types = types;
    if is_made_up {
        // The memory of types that EC2 does not have is that of the nodes.
        catalog.capacity.memory_overhead = "0".parse::<MemoryOverhead>().unwrap_or_default();
    }
}

/// A type that EC2 does not have.
fn made_up(example: &CatalogType, kind: &InstanceType) -> CatalogType {
    let mut entry = example.clone();
    entry.facts.name.clone_from(&kind.name);
    entry.facts.cpus = u32::try_from(kind.capacity.get("cpu").milli() / 1000).unwrap_or_default();
    entry.facts.memory_mib = u64::try_from((kind.capacity.get("memory").milli() / 1000) >> 20).unwrap_or_default();
    entry
}

/// The type at the prices of a workload.
fn priced(entry: CatalogType, kind: &InstanceType, zones: &[String]) -> CatalogType {
    let offer = |zone: u8| {
        let price = |capacity_type| {
            let name = zones.get(usize::from(zone))?;
            let mut offerings = kind.offerings.iter();
            let offering = offerings.find(|one| one.zone == *name && one.capacity_type == capacity_type)?;
            Price::from_dollars(offering.price)
        };
        let (on_demand_price, spot_price) = (price(CapacityType::OnDemand), price(CapacityType::Spot));
        let listing = |price: Option<Price>| if price.is_some() { Listing::Open } else { Listing::Absent };
        let (on_demand, spot) = (listing(on_demand_price), listing(spot_price));
        ZoneOffer { zone, spot_price, on_demand_price, on_demand, spot }
    };
    CatalogType { offers: entry.offers.iter().map(|known| offer(known.zone)).collect(), ..entry }
}
