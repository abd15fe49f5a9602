//! The CatalogSource port over the simulated account.

use super::cloud::{delete_template, failed};
use super::{certificate_authority, details, resolve};
use async_trait::async_trait;
use jiff::SignedDuration;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::{NamedPlacementGroup, Price};
use nodeless_fake_aws::requests::{Describe, Filter};
use nodeless_fake_aws::{CapacityReservation, Ec2, RegionFacts};
use nodeless_launch::{ClusterDetails, authority_digests};
use nodeless_model::{ReservedInstances, labels};
use nodeless_ports::{CatalogSource, PortError};
use std::sync::Arc;

/// The time between two reads of the account's commitments, as in AWS.
const COMMITMENTS_READ_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The catalog of the simulation.
#[derive(Clone, Debug)]
pub struct MemoryCatalogSource {
    ec2: Ec2,
    catalog: Arc<Catalog>,
    cluster: ClusterDetails,
}

impl MemoryCatalogSource {
    /// This catalog, and this account for a cluster of this Kubernetes version, such as `1.33`.
    pub fn new(ec2: Ec2, catalog: Arc<Catalog>, cluster: impl Into<String>, version: impl Into<String>) -> Self {
        Self { ec2, catalog, cluster: details(cluster, version) }
    }
}

/// The current prices of the region.
fn set_prices(catalog: &mut Catalog, facts: &RegionFacts) {
    let zones: Vec<String> = catalog.zones.iter().map(|zone| zone.name.clone()).collect();
    for kind in &mut catalog.types {
        let Some(prices) = facts.types.get(&kind.facts.name) else { continue };
        kind.on_demand_price = prices.on_demand_price.and_then(Price::from_dollars);
        for offer in &mut kind.offers {
            let price = zones.get(usize::from(offer.zone)).and_then(|zone| prices.spot_prices.get(zone));
            // Types that are not sold as spot have a synthetic price in the catalog, and none in the region.
            if let Some(price) = price {
                offer.spot_price = Price::from_dollars(*price);
            }
        }
    }
}

#[async_trait]
impl CatalogSource for MemoryCatalogSource {
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        let mut catalog = self.catalog.as_ref().clone();
        let (account, now) = (self.ec2.account(), self.ec2.now());
        set_prices(&mut catalog, &account.facts);
        let active = account.capacity_reservations.iter().filter(|reservation| reservation.state(now) == "active");
        let instances = |reservation: &CapacityReservation| ReservedInstances {
            available: reservation.available,
            used: Some(reservation.total.saturating_sub(reservation.available)),
        };
        catalog.reservations = active.map(|reservation| (reservation.id.clone(), instances(reservation))).collect();
        let groups = account.placement_groups.iter().map(|group| NamedPlacementGroup {
            id: group.id.clone(),
            name: group.name.clone(),
            strategy: group.strategy.clone(),
            partitions: group.partitions,
        });
        catalog.placement_groups = groups.collect();
        let is_current = |catalog: &&Catalog| {
            let age = catalog.read.map_or(SignedDuration::MAX, |read| now.duration_since(read));
            age < COMMITMENTS_READ_AFTER && catalog.commitments.is_some() == account.commitments.is_some()
        };
        match previous.filter(is_current) {
            Some(previous) => {
                catalog.commitments.clone_from(&previous.commitments);
                catalog.read = previous.read;
            }
            None if account.commitments.is_some() => {
                catalog.commitments.clone_from(&account.commitments);
                catalog.read = Some(now);
            }
            None => {}
        }
        Ok(catalog)
    }

    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        Ok(resolve::status(&self.ec2.account(), node_class, &self.cluster, self.ec2.now()))
    }

    /// Deletes the class's launch templates. The simulation creates no instance profiles, so it deletes none.
    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError> {
        let name = node_class.metadata.name.clone().unwrap_or_default();
        let filters = vec![
            Filter::new(&format!("tag:{}", labels::CLUSTER_NAME_TAG), [self.cluster.name.as_str()]),
            Filter::new(&format!("tag:{}", labels::EC2_NODE_CLASS), [name.as_str()]),
        ];
        let found = self.ec2.describe_launch_templates(&Describe { filters, ..Describe::default() });
        let (templates, _) = found.map_err(|error| failed("EC2 DescribeLaunchTemplates", &error))?;
        templates.iter().try_for_each(|template| delete_template(&self.ec2, &template.id))
    }

    async fn certificate_authority(&self) -> Option<String> {
        Some(authority_digests(&certificate_authority(&self.ec2, &self.cluster.name)))
    }
}
