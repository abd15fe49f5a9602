//! The pods of workloads that have none.

use crate::decode::{Undecoded, decode};
use crate::documents::Body;
use crate::fault::SourcePlace;
use crate::objects::{Key, Objects, ReadPod};
use crate::workloads::{PodGroup, Workload};
use nodeless_api::slim;
use nodeless_model::Pod;
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
    /// The number to which autoscalers may increase it, if it is larger.
    pub(crate) most: BTreeMap<(&'static str, Key), u64>,
    pub(crate) faults: Vec<(SourcePlace, &'static str, Key, Undecoded)>,
}

/// A workload, and the pods that it gets.
struct Counted<'w> {
    key: &'w (&'static str, Key),
    workload: &'w Workload,
    /// The numbers of the pods of its groups.
    pods: Vec<u64>,
    /// The same if it is scaled up as far as allowed.
    most: Vec<u64>,
}

/// Adds the pods of the workloads that have none, and the PersistentVolumeClaims of these pods: as many as at least run, or with
/// `at_maximum` as autoscalers allow. A workload that another one controls is left out: its controller stands for its pods.
pub(crate) fn create_pods(objects: &mut Objects, at_maximum: bool) -> Created {
    let mut created = Created::default();
    let running = remove_replaced(objects);
    let mut workloads = std::mem::take(&mut objects.workloads);
    created.faults = take_templates(&mut workloads);
    let controlled = |key: &Key, workload: &Workload| {
        let (kind, name) = workload.controller.as_ref()?;
        workloads.keys().find(|(known, (namespace, of))| known == kind && *namespace == key.0 && of == name)
    };
    let present = Present::new(objects);
    let mut without_pods: Vec<Counted<'_>> = workloads
        .iter()
        .filter(|((kind, key), workload)| controlled(key, workload).is_none() && !present.has(kind, &key.0, &key.1))
        .map(|(key, workload)| {
            let bounds = bounds(objects, key);
            let [least, most] = replicas(workload, bounds, running.get(key).copied());
            let pods = workload.groups.iter().map(|group| least * u64::from(group.pods)).collect();
            let most = workload.groups.iter().map(|group| most * u64::from(group.most)).collect();
            Counted { key, workload, pods, most }
        })
        .collect();
    for sized in &mut without_pods {
        let [pods, most]: [u64; 2] = [sized.pods.iter().sum(), sized.most.iter().sum()];
        if most > pods {
            created.most.insert(sized.key.clone(), most);
        }
        if at_maximum {
            sized.pods.clone_from(&sized.most);
        }
    }
    // The smallest first, so that a workload with too many pods leaves out no other.
    without_pods.sort_by_key(|sized| (sized.weight(), sized.key));
    let mut left = MAXIMUM_PODS;
    for sized in without_pods {
        let made = match left.checked_sub(sized.weight()) {
            Some(rest) => {
                left = rest;
                sized.create(objects)
            }
            None => Err(sized.too_many()),
        };
        let (kind, key) = sized.key;
        match made {
            Ok(0) => {}
            Ok(pods) => drop(created.pods.insert((*kind, key.clone()), pods)),
            Err(undecoded) => created.faults.push((sized.workload.place.clone(), kind, key.clone(), undecoded)),
        }
    }
    created
}

/// Gives workloads that refer to another one its template.
fn take_templates(
    workloads: &mut BTreeMap<(&'static str, Key), Workload>,
) -> Vec<(SourcePlace, &'static str, Key, Undecoded)> {
    let mut faults = Vec::new();
    let referring: Vec<_> = workloads.iter().filter(|(_, workload)| workload.template_of.is_some()).collect();
    let referring: Vec<_> = referring.into_iter().map(|(key, workload)| (key.clone(), workload.clone())).collect();
    for ((kind, key), mut workload) in referring {
        let Some(template) = workload.template_of.take() else { continue };
        let found = workloads.iter_mut().find(|((kind, (namespace, name)), _)| {
            *kind == template.kind && *namespace == key.0 && *name == template.name
        });
        match found {
            Some((_, other)) => {
                if let (Some(own), Some(of_other)) = (workload.groups.first_mut(), other.groups.first()) {
                    own.template.clone_from(&of_other.template);
                }
                if template.is_scaled_down {
                    other.replicas = Some(0);
                }
                workloads.insert((kind, key), workload);
            }
            None => {
                let problem = format!("there is no {} {} in the input", template.kind, template.name);
                let field = "spec.workloadRef".to_owned();
                faults.push((workload.place.clone(), kind, key.clone(), Undecoded { field, problem }));
                workloads.remove(&(kind, key));
            }
        }
    }
    faults
}

/// The least and the most replicas that autoscalers of a workload allow.
fn bounds(objects: &Objects, workload: &(&'static str, Key)) -> Option<[u32; 2]> {
    let (kind, (namespace, name)) = workload;
    let own = objects
        .autoscalers
        .iter()
        .filter(|((_, key), scaler)| key.0 == *namespace && scaler.kind == *kind && scaler.name == *name);
    own.map(|(_, scaler)| [scaler.least, scaler.most]).reduce(|one, two| [one[0].max(two[0]), one[1].max(two[1])])
}

/// The replicas of a workload now, and at most. `running` is the number of its pods that run.
fn replicas(workload: &Workload, bounds: Option<[u32; 2]>, running: Option<u32>) -> [u64; 2] {
    let running = running.map(|pods| u64::from(pods).div_ceil(workload.pods_of_replica().max(1)));
    let given = workload.replicas.map(u64::from);
    match bounds {
        // A workload of no replicas is not scaled.
        Some([least, most]) if given != Some(0) => {
            let [least, most] = [least, most].map(u64::from);
            [given.or(running).unwrap_or(least).clamp(least, most), most]
        }
        _ => [given.or(running).unwrap_or(1); 2],
    }
}

impl Counted<'_> {
    /// What its pods count as.
    fn weight(&self) -> u64 {
        let own =
            |(group, pods): (&PodGroup, &u64)| pods * if group.has_own_volumes() { WEIGHT_OF_OWN_VOLUMES } else { 1 };
        self.workload.groups.iter().zip(&self.pods).map(own).sum()
    }

    fn too_many(&self) -> Undecoded {
        let number: u64 = self.pods.iter().sum();
        let (most, with_volumes) = if self.weight() > number {
            (MAXIMUM_PODS / WEIGHT_OF_OWN_VOLUMES, " with volumes of their own")
        } else {
            (MAXIMUM_PODS, "")
        };
        let problem = if number > most {
            format!("{number} pods{with_volumes} are more than the {most} that can be planned for")
        } else {
            format!(
                "its {number} pods{with_volumes} are not planned, because with those of smaller workloads they are more than the {most} \
                 that can be planned for"
            )
        };
        let largest = self.workload.groups.iter().zip(&self.pods).max_by_key(|(_, pods)| **pods);
        Undecoded { field: largest.map(|(group, _)| group.number_field.clone()).unwrap_or_default(), problem }
    }

    /// Creates its pods, and returns their number.
    fn create(&self, objects: &mut Objects) -> Result<usize, Undecoded> {
        let mut made = Vec::new();
        for (group, pods) in self.workload.groups.iter().zip(&self.pods) {
            made.push(pods_of(self.key, group, u32::try_from(*pods).unwrap_or(u32::MAX))?);
        }
        let mut count = 0;
        for Made { pods, alike } in made {
            count += pods.len() + alike.len();
            for (body, read, claims) in pods {
                let key = (read.pod.namespace.clone(), read.pod.name.clone());
                if read.pod.template.volume_claims.iter().any(|claim| claim.ephemeral) {
                    objects.note_ephemeral(&key.0, &key.1, &body);
                }
                for claim in claims {
                    let name = claim.metadata.name.clone().unwrap_or_default();
                    objects.persistent_volume_claims.entry((key.0.clone(), name)).or_insert(claim);
                }
                objects.pods.insert(key, read);
            }
            objects.pods.extend(alike.into_iter().map(|it| ((it.pod.namespace.clone(), it.pod.name.clone()), it)));
        }
        Ok(count)
    }
}

/// The pods of a group: those that were decoded, and those that differ from them in their names only.
struct Made {
    pods: Vec<(Body<'static>, ReadPod, Vec<slim::PersistentVolumeClaim>)>,
    alike: Vec<ReadPod>,
}

/// The pods of a group, of this number.
fn pods_of(workload: &(&'static str, Key), group: &PodGroup, number: u32) -> Result<Made, Undecoded> {
    let (kind, key) = workload;
    let in_template = |undecoded: Undecoded| Undecoded {
        field: format!("{}.{}", group.template_field, undecoded.field),
        ..undecoded
    };
    let mut pods = Vec::new();
    for index in 0..number {
        let (pod, claims) = group.pod(kind, &key.0, &key.1, index);
        let body = Body::Tree(pod);
        let read = decode::<slim::Pod>(&body).map_err(in_template)?;
        let converted = ReadPod::new(&read)
            .map_err(|error| in_template(Undecoded { field: error.field, problem: error.problem }))?;
        pods.push((body, converted, claims));
        if !group.has_own_volumes() {
            break;
        }
    }
    let mut alike = Vec::new();
    if let [(_, first, _)] = &pods[..] {
        let named = |index| {
            let pod = Pod { name: group.pod_name(&key.1, index), ..first.pod.clone() };
            ReadPod { pod, ..first.clone() }
        };
        alike.extend((1..number).map(named));
    }
    Ok(Made { pods, alike })
}

/// The controllers of the pods that were read: kind, namespace and name.
struct Present(BTreeSet<(String, String, String)>);

impl Present {
    fn new(objects: &Objects) -> Self {
        Self(objects.pods.values().flat_map(|read| controllers(&read.pod)).collect())
    }

    fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.0.contains(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }
}

/// The labels with the name of the workload whose pods other objects control.
const NAMED_BY_LABEL: [(&str, &str); 5] = [
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("ray.io/originated-from-cr-name", "RayJob"),
    ("ray.io/originated-from-cr-name", "RayService"),
];

/// The controllers of a pod by kind, namespace and name: its owner, and the owner of that by its name or a label.
pub(crate) fn controllers(pod: &Pod) -> Vec<(String, String, String)> {
    let (Some(kind), Some(name)) = (&pod.owner_kind, &pod.owner_name) else { return Vec::new() };
    let mut controllers = vec![(kind.clone(), pod.namespace.clone(), name.clone())];
    let labelled = NAMED_BY_LABEL.iter().filter_map(|(label, kind)| Some((kind, pod.template.labels.get(*label)?)));
    controllers.extend(labelled.map(|(kind, name)| ((*kind).to_owned(), pod.namespace.clone(), name.clone())));
    // A Deployment or Rollout names its ReplicaSets, and a CronJob its Jobs, by its own name and a suffix.
    let above: &[&str] = match kind.as_str() {
        "ReplicaSet" => &["Deployment", "Rollout"],
        "Job" => &["CronJob"],
        _ => &[],
    };
    if let Some((prefix, _)) = name.rsplit_once('-') {
        controllers.extend(above.iter().map(|above| ((*above).to_owned(), pod.namespace.clone(), prefix.to_owned())));
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
        let Some(workload) = controllers(&read.pod).iter().find_map(replaced_by) else { return true };
        *running.entry(workload.clone()).or_default() += u32::from(!read.pod.is_terminal());
        false
    });
    running.retain(|_, pods| *pods > 0);
    running
}
