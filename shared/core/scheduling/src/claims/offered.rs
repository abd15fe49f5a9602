//! What instance types have of the attributes that claims select.

use super::PLANNED;
use nodeless_devices::selector::{Read, Selector};
use nodeless_devices::{ClusterDevices, ResourceClaim};
use nodeless_model::InstanceType;
use std::collections::{BTreeMap, BTreeSet};

/// The most values of an attribute that are listed.
const MAX_VALUES: usize = 6;

/// The values of each attribute and capacity that the claims select, with instance types that have it. Empty if no type has one.
pub(super) fn offered(claims: &[ResourceClaim], types: &[&InstanceType], devices: &ClusterDevices) -> String {
    let mut found: BTreeMap<Read, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    let reads = reads(claims, devices);
    for kind in types {
        for slice in devices.predicted(kind, PLANNED) {
            for (read, device) in
                slice.spec.devices.iter().flat_map(|device| reads.iter().map(move |read| (read, device)))
            {
                if let Some(text) = read.text(&slice.spec.driver, device) {
                    found.entry(read.clone()).or_default().entry(text).or_default().insert(&kind.name);
                }
            }
        }
    }
    // What is the same everywhere, as the type of devices that a DeviceClass requires, explains nothing.
    if found.values().any(|values| values.len() > 1) {
        found.retain(|_, values| values.len() > 1);
    }
    let each = found.iter().map(|(read, values)| {
        let shown: Vec<String> = values.iter().take(MAX_VALUES).map(|(text, types)| listed(text, types)).collect();
        let more = match values.len().saturating_sub(MAX_VALUES) {
            0 => String::new(),
            more => format!(" and {more} other values"),
        };
        format!("{read} {}{more}", shown.join(", "))
    });
    each.collect::<Vec<_>>().join("; ")
}

fn listed(text: &str, types: &BTreeSet<&str>) -> String {
    let first = types.first().copied().unwrap_or_default();
    match types.len() {
        0 | 1 => format!("{text} ({first})"),
        count => format!("{text} ({first} and {} more)", count - 1),
    }
}

fn reads(claims: &[ResourceClaim], devices: &ClusterDevices) -> BTreeSet<Read> {
    let expressions = claims.iter().flat_map(|claim| claim.expressions(&devices.classes));
    let compiled = expressions.filter_map(|expression| Selector::compile(expression).ok());
    let constraints = claims.iter().flat_map(|claim| &claim.devices.constraints);
    let attributes = constraints.flat_map(|one| one.match_attribute.iter().chain(&one.distinct_attribute));
    let named = attributes.filter_map(|name| name.split_once('/')).map(|(domain, id)| Read {
        is_capacity: false,
        domain: domain.to_owned(),
        id: id.to_owned(),
    });
    compiled.flat_map(|selector| selector.reads()).chain(named).collect()
}
