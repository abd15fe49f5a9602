//! Extended resources of DeviceClasses (KEP-5004): the kube-scheduler gives a pod that requests such a resource devices of the class on nodes
//! whose kubelet does not report the resource.

use crate::allocation::{DeviceId, Taken};
use crate::claim::DeviceClass;
use crate::cluster::ClusterDevices;
use crate::selector::{Selector, Selectors};
use crate::slices::node_selector::Place;
use crate::slices::pools::{Inventory, Pool, State};
use crate::slices::slice::{Device, Slice};
use nodeless_model::{InstanceType, InstanceTypes, Quantity, StringMap};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Every class has the resource of this prefix and its name, too.
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// The name of a node that is planned, for its slices.
const PLANNED: &str = "planned";

/// The extended resources that pods request and DeviceClasses give, with the compiled selectors of the classes.
pub struct ExtendedResources<'a> {
    devices: &'a ClusterDevices,
    /// By resource, the selectors of its class.
    selectors: BTreeMap<&'a str, Vec<Rc<Selector>>>,
    inventory: Inventory<'a>,
    taken: Taken,
}

impl<'a> ExtendedResources<'a> {
    /// Those of the resources that pods request. Of classes with the same resource, the first by name counts. A class with a selector that
    /// is not supported gives none.
    #[must_use]
    pub fn new(devices: &'a ClusterDevices, requested: &BTreeSet<&'a str>) -> Self {
        let compiled = Selectors::default();
        let mut selectors: BTreeMap<&str, Vec<Rc<Selector>>> = BTreeMap::new();
        for resource in requested {
            let class = devices.classes.values().find(|class| class.gives(resource));
            let of_class = class.and_then(|class| compile(class, &compiled));
            selectors.extend(of_class.map(|of_class| (*resource, of_class)));
        }
        // Pods hold the devices of claims for extended resources by what they request.
        let claims = devices.claims.values().filter(|claim| !claim.is_of_extended_resource);
        let given = claims.filter_map(|claim| claim.allocation.as_ref()).flat_map(|given| &given.devices.results);
        let taken: Vec<&DeviceId> =
            given.filter(|device| device.admin_access != Some(true)).map(|device| &device.id).collect();
        let inventory = Inventory::new(&devices.slices);
        Self { devices, selectors, inventory, taken: taken.into_iter().collect() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// How many of each a node has that no claim has. Resources without a device are missing.
    #[must_use]
    pub fn of_node(&self, name: &str, labels: &StringMap) -> BTreeMap<&'a str, Quantity> {
        self.counted(&self.inventory, &Place { name: Some(name), labels })
    }

    /// The instance types with those resources that EC2 does not report of them, by the devices that their nodes will publish.
    #[must_use]
    pub fn added_to(&self, types: &InstanceTypes) -> InstanceTypes {
        let with_resources = |kind: &InstanceType| {
            let mut kind = kind.clone();
            let slices = self.devices.predicted(&kind, PLANNED);
            let counted =
                self.counted(&Inventory::new(&slices), &Place { name: Some(PLANNED), labels: &StringMap::new() });
            for (resource, count) in counted {
                if kind.capacity.get(resource).is_zero() {
                    kind.capacity.set(resource, count);
                }
            }
            kind
        };
        types.iter().map(with_resources).collect()
    }

    fn counted(&self, inventory: &Inventory<'_>, place: &Place<'_>) -> BTreeMap<&'a str, Quantity> {
        let Ok(pools) = inventory.pools(place) else { return BTreeMap::new() };
        let count = |selectors: &Vec<Rc<Selector>>| pools.iter().map(|pool| self.free(pool, selectors)).sum::<usize>();
        let counts = self.selectors.iter().map(|(resource, selectors)| (*resource, count(selectors)));
        let quantity = |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX));
        counts.filter(|(_, count)| *count > 0).map(|(resource, count)| (resource, quantity(count))).collect()
    }

    /// The devices of a pool that the selectors select. A request for an extended resource tolerates no taint of a device.
    fn free(&self, pool: &Pool<'_>, selectors: &[Rc<Selector>]) -> usize {
        if pool.state != State::Usable {
            return 0;
        }
        let taken = self.taken.of_pool(&pool.id);
        let is_selected = |(slice, device): &&(&Slice, &Device)| {
            device.taints.is_empty()
                && !taken.is_some_and(|taken| taken.contains(&device.name))
                && selectors.iter().all(|selector| selector.matches(&slice.spec.driver, device) == Ok(true))
        };
        pool.devices.iter().filter(is_selected).count()
    }
}

impl DeviceClass {
    /// Whether requests for an extended resource get its devices.
    fn gives(&self, resource: &str) -> bool {
        self.extended_resource_name.as_deref() == Some(resource)
            || resource.strip_prefix(OF_CLASS) == Some(self.name.as_str())
    }
}

fn compile(class: &DeviceClass, compiled: &Selectors) -> Option<Vec<Rc<Selector>>> {
    let selectors = class.selectors.iter();
    selectors.map(|selector| compiled.compile(&selector.cel.as_ref()?.expression).1.ok()).collect()
}
