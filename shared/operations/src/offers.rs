//! The catalog, decoded once for each version, and the instance types of each EC2NodeClass.

use crate::node_class;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_catalog::unavailable::Unavailable;
use nodeless_catalog::{Catalog, UnavailableOfferings};
use nodeless_lifecycle::Learned;
use nodeless_model::{CapacityType, Instance, InstanceType, InstanceTypes, NodeClaim, StringMap, labels, resources};
use nodeless_ports::claims::UnavailableOffering;
use nodeless_ports::cloud::LaunchCandidate;
use nodeless_ports::{Claims, PortError};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Why there is no catalog to plan with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The table could not be read.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The catalog function has not run.
    #[error("there is no catalog yet; run the catalog function once, or wait for its schedule")]
    Missing,
    /// What is stored cannot be understood.
    #[error("{0}")]
    Damaged(String),
}

/// Keeps the decoded catalog for as long as the process lives. Decoding takes longer than planning for a small cluster.
#[derive(Default)]
pub struct CatalogCache {
    held: Mutex<Option<(String, Arc<Catalog>)>>,
}

impl CatalogCache {
    /// The stored catalog and its version; read and decoded only when the version changed.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn current(&self, claims: &dyn Claims) -> Result<Arc<Catalog>, CatalogError> {
        let mut held = self.held.lock().await;
        let version = claims.catalog_version().await?.ok_or(CatalogError::Missing)?;
        if let Some((present, catalog)) = held.as_ref()
            && *present == version
        {
            return Ok(catalog.clone());
        }
        let (version, bytes) = claims.catalog().await?.ok_or(CatalogError::Missing)?;
        let catalog = Catalog::decode(&bytes).map_err(|error| CatalogError::Damaged(error.to_string()))?;
        let catalog = Arc::new(catalog);
        *held = Some((version, catalog.clone()));
        Ok(catalog)
    }
}

/// The offerings that are known to be short, in the catalog's form.
pub(crate) fn shortages(offerings: &[UnavailableOffering], now: Timestamp) -> UnavailableOfferings {
    let records = offerings.iter().map(|offering| Unavailable {
        instance_type: Some(offering.instance_type.clone()),
        zone: Some(offering.zone.clone()),
        capacity_type: Some(offering.capacity_type),
        until: offering.until,
    });
    UnavailableOfferings::new(records, now)
}

/// The instance types of each EC2NodeClass, or why there are none.
pub(crate) fn instance_types(
    catalog: &Catalog,
    classes: &BTreeMap<String, EC2NodeClass>,
    unavailable: &UnavailableOfferings,
) -> BTreeMap<String, Result<InstanceTypes, String>> {
    let of = |class: &EC2NodeClass| {
        let settings = node_class::settings(class).map_err(|problems| problems.join("; "))?;
        Ok(InstanceTypes::from(catalog.instance_types(&settings, unavailable)))
    };
    classes.iter().map(|(name, class)| (name.clone(), of(class))).collect()
}

/// What may be launched for a claim, the cheapest first: what its requirements allow, of the types that it lists.
pub(crate) fn candidates(claim: &NodeClaim, types: &[InstanceType]) -> Vec<LaunchCandidate> {
    let by_name: BTreeMap<&str, &InstanceType> = types.iter().map(|kind| (kind.name.as_str(), kind)).collect();
    let mut candidates = Vec::new();
    for kind in claim.spec.instance_types.iter().filter_map(|name| by_name.get(name.as_str())) {
        let labels = kind.requirements.single_values();
        for offering in kind.available_offerings(&claim.spec.requirements) {
            candidates.push(LaunchCandidate {
                instance_type: kind.name.clone(),
                architecture: labels.get(labels::ARCH).cloned().unwrap_or_default(),
                labels: labels.clone(),
                max_pods: u32::try_from(kind.capacity.get(resources::name::PODS).units()).unwrap_or(0),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
                price: offering.price,
                reservation_id: offering.reservation.as_ref().map(|reservation| reservation.id.clone()),
            });
        }
    }
    let key = |candidate: &LaunchCandidate| {
        (candidate.instance_type.clone(), candidate.zone.clone(), candidate.capacity_type)
    };
    candidates.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| key(a).cmp(&key(b))));
    candidates
}

/// What the catalog knows about an instance: the labels that its type and offering fix, what it has, what it costs.
/// Of a type that the catalog does not list, only what EC2 itself said.
pub(crate) fn learn(instance: &Instance, types: &[InstanceType]) -> Learned {
    let mut fixed = StringMap::from([
        (labels::INSTANCE_TYPE.to_owned(), instance.instance_type.clone()),
        (labels::ZONE.to_owned(), instance.zone.clone()),
        (labels::CAPACITY_TYPE.to_owned(), instance.capacity_type.as_str().to_owned()),
    ]);
    let Some(kind) = types.iter().find(|kind| kind.name == instance.instance_type) else {
        return Learned { labels: fixed, ..Learned::default() };
    };
    let offering = kind
        .offerings
        .iter()
        .find(|offering| offering.zone == instance.zone && offering.capacity_type == instance.capacity_type);
    let mut learned = kind.requirements.single_values();
    if let Some(offering) = offering {
        learned.extend(offering.requirements.single_values());
    }
    if instance.capacity_type != CapacityType::Reserved {
        learned.remove(labels::CAPACITY_RESERVATION_ID);
    }
    learned.append(&mut fixed);
    let without_zeros = |list: nodeless_model::ResourceList| {
        list.iter()
            .filter(|(_, quantity)| !quantity.is_zero())
            .map(|(name, quantity)| (name.to_owned(), quantity))
            .collect()
    };
    Learned {
        labels: learned,
        capacity: without_zeros(kind.capacity.clone()),
        allocatable: without_zeros(kind.allocatable()),
        price: offering.map_or(0.0, |offering| offering.price),
    }
}
