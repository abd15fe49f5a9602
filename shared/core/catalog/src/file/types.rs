//! The `instanceTypes` of a catalog file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Note, entry};
use crate::facts::{Facts, FactsError, InstanceTypeInfo, NetworkCardInfo};
use crate::type_facts::TypeFacts;

/// Instance types by name, and the names of those that cannot be nodes.
pub(super) type Condensed = (BTreeMap<String, TypeFacts>, BTreeSet<String>);

/// A list of entries: the name of the list, and the entries with their indices.
pub(super) struct List {
    pub name: &'static str,
    pub entries: Vec<(usize, InstanceTypeInfo)>,
}

fn place(list: &str, index: usize, instance_type: &str) -> String {
    format!("{list}[{index}] ({instance_type})")
}

/// Reads entries one by one. An invalid one is reported and omitted.
pub(super) fn read(entries: Vec<Value>, list: &'static str, notes: &mut Vec<Note>) -> List {
    let mut good = Vec::with_capacity(entries.len());
    for (index, value) in entries.into_iter().enumerate() {
        let name = value.get("InstanceType").and_then(Value::as_str).unwrap_or("no InstanceType");
        let place = place(list, index, name);
        match entry::<InstanceTypeInfo>(value) {
            Ok(info) => good.push((index, info)),
            Err(error) => notes.push(Note { place, message: format!("{error}; the type is omitted") }),
        }
    }
    List { name: list, entries: good }
}

/// Parses entries, and checks the fields that a DescribeInstanceTypes response always has.
pub(super) fn condense(list: List, notes: &mut Vec<Note>) -> Result<Condensed, &'static FactsError> {
    let embedded = Facts::embedded()?;
    let mut types = BTreeMap::new();
    let mut left_out = BTreeSet::new();
    for (index, mut info) in list.entries {
        let named = place(list.name, index, &info.instance_type);
        let mut note = |message: &str| notes.push(Note { place: named.clone(), message: message.to_owned() });
        if let Some(message) = unusable(&info) {
            note(message);
            left_out.insert(info.instance_type);
            continue;
        }
        if types.contains_key(&info.instance_type) {
            note("InstanceType: duplicate; the first entry is used");
            continue;
        }
        complete_network(&mut info, embedded, &mut note);
        match facts_of(&info, embedded) {
            Some(facts) => drop(types.insert(info.instance_type, facts)),
            None => drop(left_out.insert(info.instance_type)),
        }
    }
    Ok((types, left_out))
}

fn unusable(info: &InstanceTypeInfo) -> Option<&'static str> {
    if info.instance_type.is_empty() {
        return Some("InstanceType: empty; the type is omitted");
    }
    if info.v_cpu_info.default_v_cpus == 0 {
        return Some("VCpuInfo.DefaultVCpus: 0; the type is omitted");
    }
    if info.processor_info.supported_architectures.is_empty() {
        return Some(
            "ProcessorInfo.SupportedArchitectures: empty; expected \"x86_64\" or \"arm64\"; the type is omitted",
        );
    }
    (info.memory_info.size_in_mib == 0).then_some("MemoryInfo.SizeInMiB: 0; the type is omitted")
}

/// Network cards limit the number of pods of a node. For an entry without cards, they are derived from its interfaces, or else
/// taken from the embedded facts of the type.
fn complete_network(info: &mut InstanceTypeInfo, embedded: &Facts, note: &mut impl FnMut(&str)) {
    let network = &mut info.network_info;
    if !network.network_cards.is_empty() {
        return;
    }
    if network.maximum_network_interfaces > 0 && network.ipv4_addresses_per_interface > 0 {
        network.network_cards = vec![NetworkCardInfo {
            network_card_index: network.default_network_card_index,
            maximum_network_interfaces: network.maximum_network_interfaces,
            ..NetworkCardInfo::default()
        }];
    } else if let Some(known) = embedded.instance_types.get(&info.instance_type) {
        *network = known.network_info.clone();
        note("NetworkInfo.NetworkCards: missing; those of the embedded facts are used");
    } else {
        note("NetworkInfo.NetworkCards: missing; its nodes have the kubelet's default of 110 pods");
    }
}

pub(super) fn facts_of(info: &InstanceTypeInfo, embedded: &Facts) -> Option<TypeFacts> {
    let name = &info.instance_type;
    TypeFacts::new(info, embedded.vpc_limits.get(name), embedded.network_bandwidth.get(name).copied())
}
