//! The kubelet's settings, which v1 has in the EC2NodeClass instead of the NodePool.
//!
//! NodePools that share a class may have different settings. v1 needs a class for each of them then, as upstream's guide states:
//! copies of the class are added.

use crate::object;
use crate::report::Log;
use crate::yaml::{Map, MapEntry, YamlNode};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maps of the kubelet's settings whose values v1 requires to be strings.
const OF_STRINGS: [&str; 5] =
    ["systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod"];

/// A NodePool in the input.
pub(crate) struct KubeletPool<'a> {
    pub(crate) object: &'a mut Map,
    pub(crate) log: &'a mut Log,
    /// Whether the NodePool is converted; a current one is only read.
    pub(crate) converted: bool,
    /// The field with the settings before the conversion.
    pub(crate) field: &'static str,
}

/// An EC2NodeClass in the input.
pub(crate) struct Class<'a> {
    pub(crate) object: &'a mut Map,
    pub(crate) converted: bool,
}

/// A copy of a class, and the index of the NodePool that it is for.
pub(crate) struct Copy {
    pub(crate) object: YamlNode,
    pub(crate) pool: usize,
}

/// Moves the settings of all NodePools. The result is the copies of classes.
pub(crate) fn distribute(pools: &mut [KubeletPool<'_>], classes: &mut [Class<'_>]) -> Vec<Copy> {
    let mut taken = pools.iter_mut().map(take).collect::<Vec<_>>();
    let names = classes.iter().map(|class| object::name(class.object)).collect::<Vec<_>>();
    let mut users = BTreeMap::<String, Vec<usize>>::new();
    for (index, pool) in pools.iter().enumerate() {
        if let Some(name) = reference(pool.object) {
            users.entry(name).or_default().push(index);
        }
    }
    let mut copies = Vec::new();
    for (name, users) in users {
        if users.iter().all(|user| taken[*user].is_none()) {
            continue;
        }
        let Some(class) = names.iter().position(|other| *other == name) else {
            for user in users.into_iter().filter(|user| taken[*user].is_some()) {
                let field = pools[user].field;
                pools[user].log.problem(field,
                    format!("v1 has it in spec.kubelet of EC2NodeClass {name}, which is not in the input; convert both together"),
                );
            }
            continue;
        };
        let groups = groups(&users, &taken);
        let own = own(&groups, &classes[class]);
        let original = YamlNode::Map(classes[class].object.clone());
        for (value, members) in groups {
            let first = members[0];
            if own.as_ref() == Some(&value) {
                if let Some(entry) = taken[first].take().filter(|_| classes[class].converted)
                    && let Some(spec) = classes[class].object.child("spec")
                {
                    spec.entries.push(entry.renamed("kubelet"));
                }
                members.iter().filter(|_| !value.is_null()).for_each(|member| {
                    let field = pools[*member].field;
                    pools[*member].log.changed(field, format!("moved to spec.kubelet of EC2NodeClass {name}"));
                });
                continue;
            }
            let copy = format!("{name}-{}", object::name(pools[first].object));
            if names.contains(&copy) {
                let field = pools[first].field;
                pools[first].log.problem(field,
                    format!("it differs from that of another NodePool of EC2NodeClass {name}, and a copy {copy} of the class exists; \
                             rename it, or give the NodePool a class of its own"),
                );
                continue;
            }
            let kubelet = taken[first].take();
            copies.push(Copy { object: copy_of(&original, &copy, kubelet), pool: first });
            for member in members {
                refer(pools[member].object, &copy);
                let what = format!(
                    "it differs from that of another NodePool of EC2NodeClass {name}: moved to spec.kubelet of EC2NodeClass {copy}, \
                     a copy of that class, to which spec.template.spec.nodeClassRef refers now; nodes are replaced because of drift"
                );
                let field = pools[member].field;
                pools[member].log.changed(field, what);
            }
        }
    }
    copies
}

/// Removes the settings of a NodePool that is converted.
fn take(pool: &mut KubeletPool<'_>) -> Option<MapEntry> {
    if !pool.converted {
        return None;
    }
    let spec =
        pool.object.get_mut("spec")?.as_map_mut()?.get_mut("template")?.as_map_mut()?.get_mut("spec")?.as_map_mut()?;
    let mut entry = spec.take("kubelet").filter(|entry| !entry.value.is_empty())?;
    let Some(settings) = entry.value.as_map_mut() else {
        pool.log.problem(pool.field, "it is not a mapping");
        return None;
    };
    if let Some(runtime) = settings.take("containerRuntime") {
        let field = format!("{}.containerRuntime", pool.field);
        match runtime.value.as_str() {
            None | Some("containerd") => pool.log.changed(&field, "removed: containerd is the only container runtime"),
            Some(other) => pool.log.lost(
                &field,
                format!("{other} is removed: nodes run containerd, the only container runtime since Kubernetes 1.24"),
            ),
        }
    }
    quote(settings);
    (!settings.entries.is_empty()).then_some(entry)
}

/// Makes strings of numbers where v1 requires strings.
fn quote(settings: &mut Map) {
    for field in OF_STRINGS {
        let Some(map) = settings.get_mut(field).and_then(YamlNode::as_map_mut) else { continue };
        for entry in &mut map.entries {
            if let YamlNode::Scalar(scalar) = &entry.value
                && !matches!(scalar.to_value(), Value::String(_) | Value::Null)
            {
                entry.value = YamlNode::text(&scalar.text);
            }
        }
    }
}

/// The class of a NodePool.
fn reference(pool: &Map) -> Option<String> {
    let reference = pool.get("spec")?.at(&["template", "spec", "nodeClassRef", "name"])?;
    reference.as_str().map(str::to_owned)
}

fn refer(pool: &mut Map, name: &str) {
    let reference = pool
        .get_mut("spec")
        .and_then(YamlNode::as_map_mut)
        .and_then(|spec| spec.child("template"))
        .and_then(|template| template.child("spec"))
        .and_then(|spec| spec.child("nodeClassRef"));
    if let Some(reference) = reference {
        reference.set("name", YamlNode::text(name));
    }
}

/// NodePools with equal settings, in the order of the input.
fn groups(users: &[usize], taken: &[Option<MapEntry>]) -> Vec<(Value, Vec<usize>)> {
    let mut groups = Vec::<(Value, Vec<usize>)>::new();
    for user in users {
        let value = taken[*user].as_ref().map_or(Value::Null, |entry| entry.value.to_value());
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, members)) => members.push(*user),
            None => groups.push((value, vec![*user])),
        }
    }
    groups
}

/// The settings that the class itself has afterwards: none if a NodePool has none, else those of the first NodePool.
fn own(groups: &[(Value, Vec<usize>)], class: &Class<'_>) -> Option<Value> {
    if !class.converted {
        let kubelet = class.object.get("spec").and_then(|spec| spec.at(&["kubelet"]));
        return Some(kubelet.filter(|kubelet| !kubelet.is_empty()).map_or(Value::Null, YamlNode::to_value));
    }
    let none = groups.iter().find(|(value, _)| value.is_null());
    none.or(groups.first()).map(|(value, _)| value.clone())
}

fn copy_of(original: &YamlNode, name: &str, kubelet: Option<MapEntry>) -> YamlNode {
    let mut copy = original.clone();
    if let Some(object) = copy.as_map_mut() {
        if let Some(metadata) = object.child("metadata") {
            metadata.set("name", YamlNode::text(name));
        }
        if let Some(spec) = object.child("spec") {
            spec.take("kubelet");
            spec.entries.extend(kubelet.map(|entry| entry.renamed("kubelet")));
        }
    }
    copy
}
