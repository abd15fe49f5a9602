//! The pods of workloads that have none.

use crate::decode::{Undecoded, decode};
use crate::documents::Body;
use crate::fault::Place;
use crate::objects::{Key, Objects, ReadPod};
use crate::workloads::Workload;
use nodeless_api::slim;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of pods that are created for all workloads together, so that invalid numbers do not use all memory.
const MAXIMUM_PODS: u64 = 100_000;

/// A pod with volumes of its own counts as this many: it is decoded and planned by itself.
const WEIGHT_OF_OWN_VOLUMES: u64 = 10;

/// The pods that were created for workloads without any, and the workloads whose template is invalid.
#[derive(Default)]
pub(crate) struct Created {
    /// The number of pods of each workload.
    pub(crate) pods: BTreeMap<(&'static str, Key), usize>,
    pub(crate) faults: Vec<(Place, &'static str, Key, Undecoded)>,
}

/// Adds the pods of the workloads that have none, and the PersistentVolumeClaims of these pods. A workload that another one controls is
/// left out: its controller stands for its pods.
pub(crate) fn create_pods(objects: &mut Objects) -> Created {
    let mut created = Created::default();
    let running = remove_replaced(objects);
    let workloads = std::mem::take(&mut objects.workloads);
    let controlled = |key: &Key, workload: &Workload| {
        let (kind, name) = workload.controller.as_ref()?;
        workloads.keys().find(|(known, (namespace, of))| known == kind && *namespace == key.0 && of == name)
    };
    let present = Present::of(objects);
    let number = |kind: &'static str, key: &Key, workload: &Workload| {
        let running = running.get(&(kind, key.clone())).filter(|_| workload.is_scaled);
        running.copied().unwrap_or(workload.pods)
    };
    let mut without_pods: Vec<(u32, &(&'static str, Key), &Workload)> = workloads
        .iter()
        .filter(|((kind, key), workload)| controlled(key, workload).is_none() && !present.has(kind, key))
        .map(|(of, workload)| (number(of.0, &of.1, workload), of, workload))
        .collect();
    // The smallest first, so that a workload with too many pods leaves out no other.
    without_pods.sort_by_key(|(number, of, workload)| (weight(workload, *number), *of));
    let mut left = MAXIMUM_PODS;
    for (number, (kind, key), workload) in without_pods {
        let made = match left.checked_sub(weight(workload, number)) {
            Some(rest) => {
                left = rest;
                create(objects, key, workload, number)
            }
            None => Err(too_many(workload, number)),
        };
        match made {
            Ok(0) => {}
            Ok(pods) => drop(created.pods.insert((*kind, key.clone()), pods)),
            Err(undecoded) => created.faults.push((workload.place.clone(), kind, key.clone(), undecoded)),
        }
    }
    created
}

/// What the pods of a workload count as.
fn weight(workload: &Workload, number: u32) -> u64 {
    u64::from(number) * if workload.has_own_volumes() { WEIGHT_OF_OWN_VOLUMES } else { 1 }
}

fn too_many(workload: &Workload, number: u32) -> Undecoded {
    let (most, with_volumes) = if workload.has_own_volumes() {
        (MAXIMUM_PODS / WEIGHT_OF_OWN_VOLUMES, " with volumes of their own")
    } else {
        (MAXIMUM_PODS, "")
    };
    let problem = if u64::from(number) > most {
        format!("{number} pods{with_volumes} are more than the {most} that can be planned for")
    } else {
        format!(
            "its {number} pods{with_volumes} are not planned, because with those of smaller workloads they are more than the {most} that \
             can be planned for"
        )
    };
    Undecoded { field: workload.number_field().to_owned(), problem }
}

/// Creates this number of pods of a workload, and returns it.
fn create(objects: &mut Objects, key: &Key, workload: &Workload, number: u32) -> Result<usize, Undecoded> {
    let mut pods = Vec::new();
    for index in 0..number {
        let (pod, claims) = workload.pod(&key.0, &key.1, index);
        let body = Body::Tree(pod);
        let in_template = |undecoded: Undecoded| Undecoded {
            field: format!("{}.{}", workload.template_field(), undecoded.field),
            ..undecoded
        };
        let read = decode::<slim::Pod>(&body).map_err(in_template)?;
        let converted = ReadPod::try_from(&read)
            .map_err(|error| in_template(Undecoded { field: error.field, problem: error.problem }))?;
        pods.push((body, converted, claims));
        // The others differ in their names only.
        if !workload.has_own_volumes() {
            break;
        }
    }
    let mut alike = Vec::new();
    if let [(_, first, _)] = &pods[..] {
        let named = |index| {
            let pod = nodeless_model::Pod { name: workload.pod_name(&key.1, index), ..first.pod.clone() };
            ReadPod { pod, ..first.clone() }
        };
        alike.extend((1..number).map(named));
    }
    let count = pods.len() + alike.len();
    for (body, read, claims) in pods {
        let key = (read.pod.namespace.clone(), read.pod.name.clone());
        if read.pod.template.volume_claims.iter().any(|claim| claim.ephemeral) {
            objects.note_ephemeral(&key, &body);
        }
        for claim in claims {
            let name = claim.metadata.name.clone().unwrap_or_default();
            objects.persistent_volume_claims.entry((key.0.clone(), name)).or_insert(claim);
        }
        objects.pods.insert(key, read);
    }
    objects.pods.extend(alike.into_iter().map(|read| ((read.pod.namespace.clone(), read.pod.name.clone()), read)));
    Ok(count)
}

/// The controllers of the pods that were read: kind, namespace and name.
struct Present(BTreeSet<(String, String, String)>);

impl Present {
    fn of(objects: &Objects) -> Self {
        Self(objects.pods.values().flat_map(controllers).collect())
    }

    fn has(&self, kind: &str, (namespace, name): &Key) -> bool {
        self.0.contains(&(kind.to_owned(), namespace.clone(), name.clone()))
    }
}

/// The controllers of a pod by kind, namespace and name: its owner, and the owner of that by its name.
fn controllers(read: &ReadPod) -> Vec<(String, String, String)> {
    let pod = &read.pod;
    let (Some(kind), Some(name)) = (&pod.owner_kind, &pod.owner_name) else { return Vec::new() };
    let mut controllers = vec![(kind.clone(), pod.namespace.clone(), name.clone())];
    // A Deployment names its ReplicaSets, and a CronJob its Jobs, by its own name and a suffix.
    let above = match kind.as_str() {
        "ReplicaSet" => Some("Deployment"),
        "Job" => Some("CronJob"),
        _ => None,
    };
    if let (Some(above), Some((prefix, _))) = (above, name.rsplit_once('-')) {
        controllers.push((above.to_owned(), pod.namespace.clone(), prefix.to_owned()));
    }
    controllers
}

/// Removes the pods of replaced and removed workloads, and returns how many of them have not finished.
fn remove_replaced(objects: &mut Objects) -> BTreeMap<(&'static str, Key), u32> {
    let replaced = std::mem::take(&mut objects.replaced_workloads);
    let mut running = BTreeMap::new();
    if replaced.is_empty() {
        return running;
    }
    let replaced_by = |(kind, namespace, name): &(String, String, String)| {
        replaced.iter().find(|(of, (within, called))| of == kind && within == namespace && called == name)
    };
    objects.pods.retain(|_, read| {
        let Some(workload) = controllers(read).iter().find_map(replaced_by) else { return true };
        *running.entry(workload.clone()).or_default() += u32::from(!read.pod.is_terminal());
        false
    });
    running.retain(|_, pods| *pods > 0);
    running
}
