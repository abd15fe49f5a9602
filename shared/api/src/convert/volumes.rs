//! The topology of the volumes of pods, and why a volume cannot be used.

use crate::slim::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass};
use nodeless_model::requirement::{Requirement, RequirementTerm};
use nodeless_model::{EBS_DRIVER, Operator, Pod, PodShape, Requirements, labels};
use std::collections::{BTreeMap, BTreeSet};

/// The in-tree plugin, whose volumes and StorageClasses are migrated to the CSI driver.
const EBS_IN_TREE: &str = "kubernetes.io/aws-ebs";
/// Set by the volume controller when claim and volume are bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Set by kube-scheduler on a claim whose volume is to be created for this node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The older annotation with the StorageClass of a claim.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotations of the default StorageClass.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The separator of the zones of a volume that is in several zones.
const ZONE_SEPARATOR: &str = "__";

/// The objects that determine the topology of volumes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storage<'a> {
    /// The claims.
    pub claims: &'a [PersistentVolumeClaim],
    /// The volumes.
    pub volumes: &'a [PersistentVolume],
    /// The storage classes.
    pub classes: &'a [StorageClass],
}

/// The volume claims of pods. Keys are `namespace/claim`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeFacts {
    /// Where a volume can be used: on nodes that match any of these terms; without terms, on any node.
    pub topologies: BTreeMap<String, Vec<Requirements>>,
    /// The hosts that have a local volume, as their label `kubernetes.io/hostname`. `topologies` is without them. Claims that no pod mounts
    /// are among them.
    pub hosts: BTreeMap<String, BTreeSet<String>>,
    /// The CSI driver that serves it.
    pub drivers: BTreeMap<String, String>,
    /// Why a pod that mounts it cannot be scheduled.
    pub faults: BTreeMap<String, String>,
}

/// The volume claims that these pods mount, and the hosts of all local volumes. `zone_of` returns the zone of a node by its name.
///
/// Each term of a volume's node affinity is an alternative. So is each term of the allowed topologies of the StorageClass,
/// for a claim that waits for its first consumer. The hosts of a local volume are apart, because their nodes may no longer exist.
#[must_use]
pub fn resolve<'p>(
    storage: Storage<'_>,
    pods: impl IntoIterator<Item = &'p Pod>,
    zone_of: impl Fn(&str) -> Option<String>,
) -> VolumeFacts {
    let claims: BTreeMap<(&str, &str), &PersistentVolumeClaim> = storage
        .claims
        .iter()
        .map(|claim| ((claim.metadata.namespace.as_deref().unwrap_or(""), name(&claim.metadata)), claim))
        .collect();
    let volumes: BTreeMap<&str, &PersistentVolume> =
        storage.volumes.iter().map(|volume| (name(&volume.metadata), volume)).collect();
    let classes: BTreeMap<&str, &StorageClass> =
        storage.classes.iter().map(|class| (name(&class.metadata), class)).collect();
    let mut facts = VolumeFacts::default();
    for (pod, mounted) in
        pods.into_iter().flat_map(|pod| pod.template.volume_claims.iter().map(move |claim| (pod, claim)))
    {
        let key = format!("{}/{}", pod.namespace, mounted.claim_name);
        if facts.topologies.contains_key(&key) || facts.faults.contains_key(&key) {
            continue;
        }
        let found = match claims.get(&(pod.namespace.as_str(), mounted.claim_name.as_str())) {
            Some(claim) => of_claim(claim, &volumes, &classes, &zone_of),
            None if mounted.ephemeral => Err("does not exist yet; Kubernetes creates it for the pod".to_owned()),
            None => Err("does not exist; create it".to_owned()),
        };
        match found {
            Ok(usable) => {
                facts.topologies.insert(key.clone(), usable.topology);
                if !usable.hosts.is_empty() {
                    facts.hosts.insert(key.clone(), usable.hosts);
                }
                facts.drivers.extend(usable.driver.map(|driver| (key, driver)));
            }
            Err(why) => {
                let why = format!("PersistentVolumeClaim {} {why}", mounted.claim_name);
                facts.faults.insert(key, why);
            }
        }
    }
    // The data of a volume is on its host while no pod mounts it, too.
    for (&(namespace, name), claim) in &claims {
        let volume = claim.spec.volume_name.as_deref().and_then(|volume| volumes.get(volume));
        if volume.is_some_and(|volume| volume.is_local())
            && let Ok(usable) = of_claim(claim, &volumes, &classes, &zone_of)
            && !usable.hosts.is_empty()
        {
            facts.hosts.insert(format!("{namespace}/{name}"), usable.hosts);
        }
    }
    facts
}

/// The claims that are made for the pods of a shape.
pub(crate) fn made_claims(shape: &PodShape, classes: &[StorageClass]) -> Vec<PersistentVolumeClaim> {
    let made = |(claim_name, class): (&String, &Option<String>)| {
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.namespace = Some(shape.pod.namespace.clone());
        claim.metadata.name = Some(claim_name.clone());
        claim.spec.storage_class_name = class.clone().or_else(|| default_class(classes.iter()).map(str::to_owned));
        claim
    };
    shape.made_claims.iter().map(made).collect()
}

/// The default StorageClass: the newest of several, and the first by name of those with the same age.
#[must_use]
pub fn default_class<'a>(classes: impl Iterator<Item = &'a StorageClass>) -> Option<&'a str> {
    let is_default = |class: &&StorageClass| {
        let annotations = class.metadata.annotations.as_ref();
        DEFAULT_CLASS.iter().any(|key| annotations.and_then(|all| all.get(*key)).is_some_and(|value| value == "true"))
    };
    let newest = classes.filter(is_default).min_by_key(|class| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(created), class.metadata.name.as_deref())
    });
    newest.and_then(|class| class.metadata.name.as_deref())
}

/// The maximum number of volumes of each driver on a node, from its CSINode; drivers without a limit are omitted.
#[must_use]
pub fn limits(node: &CsiNode) -> BTreeMap<String, u32> {
    let limit = |driver: &crate::slim::CsiDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.clone(), u32::try_from(count).unwrap_or(0)))
    };
    node.spec.drivers.iter().filter_map(limit).collect()
}

/// Where a volume can be used.
#[derive(Default)]
struct Usable {
    topology: Vec<Requirements>,
    hosts: BTreeSet<String>,
    driver: Option<String>,
}

fn of_claim(
    claim: &PersistentVolumeClaim,
    volumes: &BTreeMap<&str, &PersistentVolume>,
    classes: &BTreeMap<&str, &StorageClass>,
    zone_of: &impl Fn(&str) -> Option<String>,
) -> Result<Usable, String> {
    let annotation = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    if claim.metadata.deletion_timestamp.is_some() {
        return Err("is being deleted; create one with another name, or delete the pod".to_owned());
    }
    if claim.status.phase.as_deref() == Some("Lost") {
        return Err("has lost its PersistentVolume; restore the volume or create the claim again".to_owned());
    }
    if let Some(volume) = claim.spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        if annotation(BIND_COMPLETED).is_none() {
            return Err(format!(
                "refers to PersistentVolume {volume} and is not bound to it yet; wait, or check both objects"
            ));
        }
        return match volumes.get(volume) {
            Some(found) if found.metadata.deletion_timestamp.is_none() => of_volume(found),
            Some(_) => Err(format!("is bound to PersistentVolume {volume}, which is being deleted")),
            None => Err(format!("is bound to PersistentVolume {volume}, which does not exist")),
        };
    }
    let class_name = claim.spec.storage_class_name.as_deref().or_else(|| annotation(CLASS_ANNOTATION));
    let Some(class_name) = class_name.filter(|name| !name.is_empty()) else {
        return Err(
            "is not bound and has no storage class; set spec.storageClassName, or mark one class as the default \
                    and create the claim again"
                .to_owned(),
        );
    };
    let Some(class) = classes.get(class_name) else {
        return Err(format!("is not bound, and its StorageClass {class_name} does not exist; create it"));
    };
    if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
        return Err(format!(
            "is not bound, and its StorageClass {class_name} binds at once, without waiting for a node: look at the claim's \
             events, or use volumeBindingMode WaitForFirstConsumer"
        ));
    }
    let mut topology: Vec<Requirements> = class.allowed_topologies.iter().map(allowed).collect();
    if let Some(zone) = annotation(SELECTED_NODE).and_then(zone_of) {
        // The volume is already being created there.
        let there = Requirements::from([(labels::ZONE, Requirement::one_of([zone]))]);
        if topology.is_empty() {
            topology.push(Requirements::new());
        }
        topology.iter_mut().for_each(|term| term.add_all(&there));
    }
    Ok(Usable { topology, driver: driver_of_class(&class.provisioner), ..Usable::default() })
}

fn of_volume(volume: &PersistentVolume) -> Result<Usable, String> {
    let spec = &volume.spec;
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let (mut topology, mut hosts) = (Vec::new(), BTreeSet::new());
    for term in required.iter().flat_map(|required| &required.node_selector_terms) {
        let mut terms = Vec::new();
        for expression in term.match_expressions.iter().flatten() {
            let operator = operator(&expression.operator).ok_or_else(|| {
                let name = name(&volume.metadata);
                format!(
                    "is bound to PersistentVolume {name}, whose node affinity has the operator {:?}",
                    expression.operator
                )
            })?;
            let values = expression.values.clone().unwrap_or_default();
            terms.push(RequirementTerm { key: expression.key.clone(), operator, values, min_values: None });
        }
        if volume.is_local() {
            let of_host = |term: &mut RequirementTerm| term.key == labels::HOSTNAME;
            for host in terms.extract_if(.., of_host).filter(|term| term.operator == Operator::In) {
                hosts.extend(host.values);
            }
        }
        topology.push(Requirements::from_terms(&terms).map_err(|error| {
            format!("is bound to PersistentVolume {}, whose node affinity is faulty: {error}", name(&volume.metadata))
        })?);
    }
    if required.is_none() {
        topology.extend(zones_by_label(volume));
    }
    let driver = match (&spec.csi, &spec.aws_elastic_block_store) {
        (Some(csi), _) => Some(csi.driver.clone()),
        (None, Some(_)) => Some(EBS_DRIVER.to_owned()),
        (None, None) => None,
    };
    Ok(Usable { topology, hosts, driver })
}

/// The zones in the labels of an older volume.
fn zones_by_label(volume: &PersistentVolume) -> Option<Requirements> {
    let mut zones = Requirements::new();
    for (key, value) in volume.metadata.labels.iter().flatten() {
        if labels::normalize(key) == labels::ZONE {
            zones.add(key, Requirement::one_of(value.split(ZONE_SEPARATOR)));
        }
    }
    (!zones.is_empty()).then_some(zones)
}

fn allowed(term: &k8s_openapi::api::core::v1::TopologySelectorTerm) -> Requirements {
    let mut requirements = Requirements::new();
    for expression in term.match_label_expressions.iter().flatten() {
        requirements.add(&expression.key, Requirement::one_of(&expression.values));
    }
    requirements
}

fn driver_of_class(provisioner: &str) -> Option<String> {
    match provisioner {
        // This provisioner creates no volumes, so there is no limit to count against.
        "" | "kubernetes.io/no-provisioner" => None,
        EBS_IN_TREE => Some(EBS_DRIVER.to_owned()),
        driver => Some(driver.to_owned()),
    }
}

fn operator(text: &str) -> Option<Operator> {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    [In, NotIn, Exists, DoesNotExist, Gt, Lt].into_iter().find(|operator| operator.as_str() == text)
}

fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or("")
}
