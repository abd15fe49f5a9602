//! Instances as commitments see them.

use crate::apply::{Usage, apply};
use crate::bill::Bill;
use crate::model::Commitments;
use nodeless_model::{CapacityType, InstanceType, Requirement, labels};
use nodeless_scheduling::{Launch, PoolOffer};
use std::collections::BTreeMap;

/// The instance of a node that runs, or that would be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// See [`Usage::linux`].
    pub linux: bool,
    /// See [`Usage::price`].
    pub price: Option<f64>,
}

impl Default for Instance {
    fn default() -> Self {
        Self {
            instance_type: String::new(),
            zone: String::new(),
            capacity_type: CapacityType::OnDemand,
            linux: true,
            price: None,
        }
    }
}

impl Instance {
    /// The most likely instance of a launch of one of these NodePools.
    #[must_use]
    pub fn of_launch(launch: &Launch, node_pools: &[PoolOffer<'_>]) -> Self {
        let offering = &launch.offering;
        let kind = kind(launch, node_pools, &offering.instance_type);
        let os = kind.and_then(|kind| kind.requirements.get(labels::OS)).and_then(Requirement::single);
        let price = match offering.capacity_type {
            // The reservation is billed, and commitments apply to the on-demand price.
            CapacityType::Reserved => kind.and_then(|kind| on_demand_price(kind, &offering.zone)),
            CapacityType::OnDemand | CapacityType::Spot => Some(offering.price),
        };
        Self {
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            linux: os.is_none_or(|os| os == "linux"),
            price,
        }
    }

    /// The instance of a launch if EC2 chooses the most expensive of its instance types.
    #[must_use]
    pub fn dearest_of_launch(launch: &Launch, node_pools: &[PoolOffer<'_>]) -> Self {
        let likely = Self::of_launch(launch, node_pools);
        let dearest = launch.instance_types.iter().max_by(|one, two| one.price.total_cmp(&two.price));
        match dearest.filter(|_| likely.capacity_type != CapacityType::Reserved) {
            Some(kind) => Self { instance_type: kind.name.clone(), price: Some(kind.price), ..likely },
            None => likely,
        }
    }

    /// The instance for an hour.
    #[must_use]
    pub fn usage(&self) -> Usage<'_> {
        self.usage_of(1.0)
    }

    /// A number of such instances for an hour.
    fn usage_of(&self, hours: f64) -> Usage<'_> {
        Usage {
            instance_type: &self.instance_type,
            zone: &self.zone,
            capacity_type: self.capacity_type,
            linux: self.linux,
            hours,
            price: self.price,
        }
    }

    fn key(&self) -> Key {
        let price = self.price.map(f64::to_bits);
        (self.instance_type.clone(), self.zone.clone(), self.capacity_type, self.linux, price)
    }
}

/// Type, zone, capacity type, platform and price.
type Key = (String, String, CapacityType, bool, Option<u64>);

fn kind<'p>(launch: &Launch, node_pools: &'p [PoolOffer<'_>], name: &str) -> Option<&'p InstanceType> {
    let offer = node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
    offer.instance_types.iter().find(|kind| kind.name == name)
}

fn on_demand_price(kind: &InstanceType, zone: &str) -> Option<f64> {
    let mut own = kind.offerings.iter().filter(|one| one.zone == zone && one.capacity_type == CapacityType::OnDemand);
    own.find(|one| one.reservation.is_none() && !one.lacks_price).map(|one| one.price)
}

/// What instances cost with commitments in an hour.
#[must_use]
pub fn bill(instances: &[Instance], commitments: &Commitments) -> Bill {
    apply(&instances.iter().map(Instance::usage).collect::<Vec<Usage<'_>>>(), commitments)
}

/// Many instances, those that are alike counted together, so that they are priced quickly again and again.
#[derive(Clone, Debug, Default)]
pub struct Instances(BTreeMap<Key, (Instance, f64)>);

impl Instances {
    /// Adds an instance.
    pub fn add(&mut self, instance: &Instance) {
        self.0.entry(instance.key()).or_insert_with(|| (instance.clone(), 0.0)).1 += 1.0;
    }

    /// Removes an instance, if there is one like it.
    pub fn remove(&mut self, instance: &Instance) {
        let key = instance.key();
        if let Some((_, count)) = self.0.get_mut(&key) {
            *count -= 1.0;
            if *count < 0.5 {
                self.0.remove(&key);
            }
        }
    }

    /// How many different ones there are.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.0.len()
    }

    /// What is paid for them in an hour.
    #[must_use]
    pub fn paid(&self, commitments: &Commitments) -> f64 {
        let usages: Vec<Usage<'_>> = self.0.values().map(|(instance, count)| instance.usage_of(*count)).collect();
        apply(&usages, commitments).paid()
    }
}

impl FromIterator<Instance> for Instances {
    fn from_iter<I: IntoIterator<Item = Instance>>(all: I) -> Self {
        let mut instances = Self::default();
        all.into_iter().for_each(|one| instances.add(&one));
        instances
    }
}
