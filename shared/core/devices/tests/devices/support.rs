//! A node, slices and claims in the form of the API.

use nodeless_devices::{DeviceClass, Inventory, Place, Refusal, ResourceClaim, Selectors, Slice, Taken, allocate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const DRIVER: &str = "gpu.example.com";

/// What is published and requested.
pub(crate) struct Case {
    pub(crate) slices: Vec<Slice>,
    pub(crate) claims: Vec<ResourceClaim>,
    pub(crate) classes: BTreeMap<String, DeviceClass>,
    pub(crate) taken: Vec<&'static str>,
}

impl Case {
    pub(crate) fn new(slices: Value, claims: Value) -> Self {
        Self {
            slices: serde_json::from_value(slices).unwrap(),
            claims: serde_json::from_value(claims).unwrap(),
            classes: classes(),
            taken: Vec::new(),
        }
    }

    pub(crate) fn taken(mut self, taken: &[&'static str]) -> Self {
        self.taken = taken.to_vec();
        self
    }

    pub(crate) fn predicted(mut self) -> Self {
        let devices = self.slices.iter_mut().flat_map(|slice| &mut slice.spec.devices);
        devices.for_each(|device| device.is_predicted = true);
        self
    }

    /// The devices of each claim on `node-1` in zone `a`, as `request=pool/device`.
    pub(crate) fn allocated(&self) -> Result<Vec<Vec<String>>, Refusal> {
        let ids: Vec<nodeless_devices::DeviceId> = self.taken.iter().map(|name| id(name)).collect();
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
        let place = Place { name: Some("node-1"), labels: &labels };
        let inventory = Inventory::new(&self.slices);
        let pools = inventory.pools(&place).unwrap();
        let claims: Vec<&ResourceClaim> = self.claims.iter().collect();
        let taken: Taken = ids.iter().collect();
        let allocations = allocate(&claims, &place, &pools, &self.classes, &taken, &Selectors::default())?;
        let names = |allocation: nodeless_devices::Allocation| {
            let devices = allocation.devices.into_iter();
            devices.map(|given| format!("{}={}/{}", given.request, given.device.pool, given.device.device)).collect()
        };
        Ok(allocations.into_iter().map(names).collect())
    }

    /// The devices of all claims, or why there are none.
    pub(crate) fn outcome(&self) -> String {
        match self.allocated() {
            Ok(claims) => claims.into_iter().map(|devices| devices.join(" ")).collect::<Vec<_>>().join("; "),
            Err(refusal) => refusal.to_string(),
        }
    }
}

/// A device of the driver by `pool/device`.
pub(crate) fn id(name: &str) -> nodeless_devices::DeviceId {
    let (pool, device) = name.split_once('/').unwrap();
    nodeless_devices::DeviceId { driver: DRIVER.into(), pool: pool.into(), device: device.into() }
}

pub(crate) fn classes() -> BTreeMap<String, DeviceClass> {
    let class = |name: &str, expressions: &[&str]| {
        let selectors: Vec<Value> = expressions.iter().map(|it| json!({"cel": {"expression": it}})).collect();
        let class = json!({"name": name, "selectors": selectors});
        (name.to_owned(), serde_json::from_value(class).unwrap())
    };
    BTreeMap::from([
        class("gpu", &["device.driver == 'gpu.example.com'"]),
        class("any", &[]),
        class("large", &["device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"]),
        class("broken", &["device."]),
    ])
}

/// A slice of the pool, for `node-1`, that is all of the pool.
pub(crate) fn slice(pool: &str, devices: Value) -> Value {
    slice_of(pool, 1, 1, json!({"nodeName": "node-1", "devices": devices}))
}

/// A slice of a pool with this generation and number of slices, and further fields.
pub(crate) fn slice_of(pool: &str, generation: i64, count: i64, fields: Value) -> Value {
    let mut spec = json!({
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"name": format!("{pool}-{generation}"), "spec": spec})
}

pub(crate) fn named(name: &str, mut slice: Value) -> Value {
    slice["name"] = json!(name);
    slice
}

/// Devices without attributes.
pub(crate) fn devices(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

/// A device with an attribute.
pub(crate) fn device(name: &str, attribute: &str, value: &str) -> Value {
    json!({"name": name, "attributes": {attribute: {"string": value}}})
}

/// A claim `c` for devices of the class `gpu`, by request and number.
pub(crate) fn claim(requests: &[(&str, i64)]) -> Value {
    let requests: Vec<Value> = requests.iter().map(|(name, count)| request(name, json!({"count": count}))).collect();
    json!({"name": "c", "devices": {"requests": requests}})
}

/// A request for devices of the class `gpu`.
pub(crate) fn request(name: &str, fields: Value) -> Value {
    json!({"name": name, "exactly": with_class(fields)})
}

pub(crate) fn with_class(fields: Value) -> Value {
    let mut exact = json!({"deviceClassName": "gpu"});
    exact.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    exact
}

pub(crate) fn claim_of(requests: Value, constraints: Value) -> Value {
    json!({"name": "c", "devices": {"requests": requests, "constraints": constraints}})
}
