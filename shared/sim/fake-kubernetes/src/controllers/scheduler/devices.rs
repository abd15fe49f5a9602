//! Devices for ResourceClaims (the plugin `DynamicResources` of kube-scheduler 1.36), found by the allocator that nodeless plans with.
//!
//! Devices are allocated when a pod gets its node, and written before the pod is bound. A pod is not attempted, and gets no condition,
//! before all its claims exist. Extended resources get no devices.

use super::info::{NodeInfo, PodInfo};
use crate::controllers::object::{all, is_deleting, lenient, list, name, namespace, uid, write_status};
use crate::server::path::Path as _;
use crate::server::resource::{DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES};
use crate::server::{ApiServer, Status, UpdateOptions};
use nodeless_devices::{
    Allocation, ClaimAllocation, DeviceClass, Inventory, Place, ResourceClaim, Selectors, Slice, Taken, allocate,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The finalizer of claims with an allocation.
pub(in crate::controllers) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The published devices, and the claims for them.
#[derive(Debug, Default)]
pub(super) struct Devices {
    slices: Vec<Slice>,
    classes: BTreeMap<String, DeviceClass>,
    /// By namespace and name.
    claims: BTreeMap<(String, String), Claim>,
    taken: Taken,
    selectors: Selectors,
}

#[derive(Debug)]
struct Claim {
    request: ResourceClaim,
    allocation: Option<ClaimAllocation>,
    /// The allocation that is not written yet.
    assumed: Option<Allocation>,
}

/// The claims of a pod.
#[derive(Debug)]
pub(super) struct Claimed<'a> {
    devices: &'a Devices,
    inventory: Inventory<'a>,
    claims: Vec<(&'a (String, String), &'a Claim)>,
}

impl Devices {
    pub(super) fn read(api: &ApiServer) -> Result<Self, Status> {
        let mut devices = Self::default();
        for slice in all(api, &RESOURCE_SLICES)? {
            let spec = read(&slice, "/spec");
            devices.slices.extend(spec.map(|spec| Slice { name: name(&slice).to_owned(), spec }));
        }
        for class in all(api, &DEVICE_CLASSES)? {
            let mut spec = class.at("/spec").cloned().unwrap_or_else(|| json!({}));
            spec["name"] = json!(name(&class));
            devices.classes.extend(read(&spec, "").map(|read: DeviceClass| (read.name.clone(), read)));
        }
        for object in all(api, &RESOURCE_CLAIMS)? {
            let allocation: Option<ClaimAllocation> = object.at("/status/allocation").and_then(|it| read(it, ""));
            let given = allocation.iter().flat_map(|it| &it.devices.results);
            given.filter(|it| it.admin_access != Some(true)).for_each(|it| devices.taken.add(&it.id));
            let key = (namespace(&object).to_owned(), name(&object).to_owned());
            let requests = read(&object, "/spec/devices").unwrap_or_default();
            let request = ResourceClaim { name: key.1.clone(), devices: requests };
            devices.claims.insert(key, Claim { request, allocation, assumed: None });
        }
        Ok(devices)
    }

    /// The claims of a pod.
    pub(super) fn claimed(&self, pod: &PodInfo) -> Claimed<'_> {
        let keys = pod.resource_claims.iter().flatten().map(|claim| (pod.namespace.clone(), claim.clone()));
        let claims: Vec<_> = keys.filter_map(|key| self.claims.get_key_value(&key)).collect();
        let slices: &[Slice] = if claims.is_empty() { &[] } else { &self.slices };
        Claimed { devices: self, inventory: Inventory::new(slices), claims }
    }

    /// Takes the devices that the claims of a pod get on a node.
    pub(super) fn assume(&mut self, pod: &PodInfo, node: &NodeInfo) {
        let assumed: Vec<_> = {
            let claimed = self.claimed(pod);
            let keys = claimed.waiting().map(|(key, _)| (*key).clone());
            keys.zip(claimed.allocations(node).unwrap_or_default()).collect()
        };
        for (key, allocation) in assumed {
            self.taken.add_all(&allocation);
            if let Some(claim) = self.claims.get_mut(&key) {
                claim.allocation = read(&written(&allocation), "");
                claim.assumed = Some(allocation);
            }
        }
    }

    /// Returns the devices of a pod that is not bound after all.
    pub(super) fn forget(&mut self, pod: &PodInfo) {
        for name in pod.resource_claims.iter().flatten() {
            let Some(claim) = self.claims.get_mut(&(pod.namespace.clone(), name.clone())) else { continue };
            let Some(assumed) = claim.assumed.take() else { continue };
            claim.allocation = None;
            let own = assumed.devices.iter().filter(|given| !given.admin_access);
            own.for_each(|given| self.taken.remove(&given.device));
        }
    }

    /// Writes the allocations of a pod's claims, and reserves them for it.
    pub(super) fn write(&mut self, api: &ApiServer, pod: &Value, info: &PodInfo) -> Result<(), Status> {
        for name in info.resource_claims.iter().flatten() {
            let assumed = self.claims.get_mut(&(info.namespace.clone(), name.clone()));
            let assumed = assumed.and_then(|claim| claim.assumed.take());
            reserve(api, pod, name, assumed.as_ref())?;
        }
        Ok(())
    }
}

impl<'a> Claimed<'a> {
    /// The claims that have no devices.
    fn waiting(&self) -> impl Iterator<Item = &(&'a (String, String), &'a Claim)> {
        self.claims.iter().filter(|(_, claim)| claim.allocation.is_none())
    }

    /// Why the claims of the pod get no devices on a node, or have none there.
    pub(super) fn against(&self, node: &NodeInfo) -> Option<&'static str> {
        let place = place(node);
        let is_elsewhere = |claim: &ClaimAllocation| {
            claim.node_selector.as_ref().is_some_and(|selector| !selector.matches(&place).unwrap_or(false))
        };
        if self.claims.iter().filter_map(|(_, claim)| claim.allocation.as_ref()).any(is_elsewhere) {
            return Some("resourceclaim not available on the node");
        }
        self.allocations(node).is_none().then_some("cannot allocate all claims")
    }

    /// What the claims without devices get on a node; `None` if one of them gets nothing.
    fn allocations(&self, node: &NodeInfo) -> Option<Vec<Allocation>> {
        let requests: Vec<&ResourceClaim> = self.waiting().map(|(_, claim)| &claim.request).collect();
        if requests.is_empty() {
            return Some(Vec::new());
        }
        let place = place(node);
        let pools = self.inventory.pools(&place).ok()?;
        let Devices { classes, taken, selectors, .. } = self.devices;
        allocate(&requests, &place, &pools, classes, taken, selectors).ok()
    }
}

/// Whether all claims of a pod exist.
pub(super) fn exist(api: &ApiServer, pod: &PodInfo) -> bool {
    pod.resource_claims.iter().all(|claim| {
        let claim = claim.as_ref().and_then(|claim| api.get(&RESOURCE_CLAIMS, &pod.namespace, claim).ok());
        claim.is_some_and(|claim| !is_deleting(&claim))
    })
}

fn place(node: &NodeInfo) -> Place<'_> {
    Place { name: Some(&node.name), labels: &node.labels }
}

/// The part of an object at a path, if it can be read.
fn read<T: DeserializeOwned>(object: &Value, path: &str) -> Option<T> {
    let part = if path.is_empty() { object } else { object.at(path)? };
    serde_json::from_value(part.clone())
        .inspect_err(
            |error| tracing::warn!(object = name(object), %error, "the simulated scheduler cannot read this object"),
        )
        .ok()
}

/// An allocation as `status.allocation` of a claim.
fn written(allocation: &Allocation) -> Value {
    let results = allocation.devices.iter().map(|given| {
        let mut result = json!(given.device);
        result["request"] = json!(given.request);
        if given.admin_access {
            result["adminAccess"] = json!(true);
        }
        result
    });
    let mut written = json!({ "devices": { "results": results.collect::<Vec<Value>>() } });
    if let Some(selector) = &allocation.node_selector {
        written["nodeSelector"] = json!(selector);
    }
    written
}

fn reserve(api: &ApiServer, pod: &Value, claim: &str, allocation: Option<&Allocation>) -> Result<(), Status> {
    let get = || api.get(&RESOURCE_CLAIMS, namespace(pod), claim);
    let Ok(found) = get() else { return Ok(()) };
    let mut finalizers = list(&found, "/metadata/finalizers").to_vec();
    if !finalizers.contains(&json!(FINALIZER)) {
        finalizers.push(json!(FINALIZER));
        let mut changed = found.as_ref().clone();
        changed["metadata"]["finalizers"] = Value::Array(finalizers);
        lenient(api.update(&RESOURCE_CLAIMS, changed, &UpdateOptions::default()))?;
    }
    let Ok(found) = get() else { return Ok(()) };
    let mut status = found.at("/status").cloned().unwrap_or_else(|| json!({}));
    if let Some(allocation) = allocation {
        status["allocation"] = written(allocation);
    }
    let mut users = list(&found, "/status/reservedFor").to_vec();
    if users.iter().all(|user| user["uid"] != uid(pod)) {
        users.push(json!({ "resource": "pods", "name": name(pod), "uid": uid(pod) }));
    }
    status["reservedFor"] = Value::Array(users);
    write_status(api, &RESOURCE_CLAIMS, &found, status)
}
