//! What is assumed where an input lacks all objects of a kind: an export without claims, or manifests without the cluster's StorageClasses.

use crate::objects::Objects;
use nodeless_api::convert::volumes::default_class;
use nodeless_api::slim;
use nodeless_model::EBS_DRIVER;
use nodeless_model::quotes::shortened;
use std::collections::{BTreeMap, BTreeSet};

/// The class of claims without one, where the default is unknown.
const DEFAULT: &str = "default";

/// Which kinds an input lacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed {
    claims: bool,
    volumes: bool,
    classes: bool,
}

impl Assumed {
    /// What an input lacks, before claims of created pods are added to it.
    pub(crate) fn before_pods(objects: &Objects) -> Self {
        let is_stored = |class: &slim::StorageClass| class.metadata.uid.is_some();
        Self {
            claims: objects.persistent_volume_claims.is_empty(),
            volumes: objects.persistent_volumes.is_empty(),
            // A class that an export of the classes does not have does not exist.
            classes: !objects.storage_classes.values().any(is_stored),
        }
    }

    /// Adds what the input lacks, or removes what cannot be planned without it. Returns warnings.
    pub(crate) fn complete(self, objects: &mut Objects) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.claims {
            let missing = without_claims(objects, |objects, key| {
                !objects.persistent_volume_claims.contains_key(key) && !objects.ephemeral.contains_key(key)
            });
            warnings.extend(missing.map(|pods| planned_without("PersistentVolumeClaims", pods)));
        }
        if self.volumes && !self.claims {
            let bound = without_claims(objects, |objects, key| {
                let claim = objects.persistent_volume_claims.get(key);
                claim.and_then(|claim| claim.spec.volume_name.as_deref()).is_some_and(|volume| !volume.is_empty())
            });
            warnings.extend(bound.map(|pods| planned_without("PersistentVolumes", pods)));
        }
        if self.classes {
            warnings.extend(assume_classes(objects));
        }
        warnings
    }
}

fn planned_without(kind: &str, pods: usize) -> String {
    let pods = if pods == 1 { "1 pod with volumes is".to_owned() } else { format!("{pods} pods with volumes are") };
    format!("the input has no {kind}, so {pods} planned without the zones and limits of volumes; export {kind}, too")
}

/// Removes the claims that cannot be used from pods, and returns the number of these pods.
fn without_claims(objects: &mut Objects, is_missing: impl Fn(&Objects, &(String, String)) -> bool) -> Option<usize> {
    let mut pods = std::mem::take(&mut objects.pods);
    let mut changed = 0;
    for read in pods.values_mut() {
        let pod = &mut read.pod;
        let namespace = pod.namespace.clone();
        let is_lost = |claim: &nodeless_model::pod::VolumeClaim| {
            is_missing(objects, &(namespace.clone(), claim.claim_name.clone()))
        };
        if pod.template.volume_claims.iter().any(is_lost) {
            pod.template_mut().volume_claims.retain(|claim| !is_lost(claim));
            changed += usize::from(!pod.is_terminal());
        }
    }
    objects.pods = pods;
    (changed > 0).then_some(changed)
}

/// Adds the StorageClasses that claims name, as classes of EBS.
fn assume_classes(objects: &mut Objects) -> Option<String> {
    let unbound = |claim: &&slim::PersistentVolumeClaim| claim.spec.volume_name.as_deref().is_none_or(str::is_empty);
    let of_claims =
        objects.persistent_volume_claims.values().filter(unbound).map(|it| it.spec.storage_class_name.clone());
    let of_pods = objects.ephemeral.values().cloned();
    let named: BTreeSet<Option<String>> = of_claims.chain(of_pods).collect();
    let has_default = default_class(objects.storage_classes.values()).is_some();
    let mut assumed = Vec::new();
    for name in named {
        let is_default = name.is_none();
        let name = name.unwrap_or_else(|| DEFAULT.to_owned());
        let key = (String::new(), name.clone());
        if name.is_empty() || objects.storage_classes.contains_key(&key) || (is_default && has_default) {
            continue;
        }
        assumed.push(if is_default {
            "the default StorageClass".to_owned()
        } else {
            format!("StorageClass {}", shortened(&name))
        });
        let mut class = slim::StorageClass {
            provisioner: EBS_DRIVER.to_owned(),
            volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
            ..slim::StorageClass::default()
        };
        class.metadata.name = Some(name);
        if is_default {
            let mark = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
            class.metadata.annotations = Some(BTreeMap::from([mark]));
        }
        objects.storage_classes.insert(key, class);
    }
    let (is, they) = if assumed.len() == 1 { ("is", "it is") } else { ("are", "they are") };
    let named = assumed.join(", ");
    (!assumed.is_empty()).then(|| {
        format!("{named} {is} not in the input; {they} assumed to be of EBS, with volumes in the zone of the first pod")
    })
}
