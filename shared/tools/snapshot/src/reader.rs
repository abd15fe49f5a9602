//! Reads the objects in documents.

mod custom;
mod fields;
mod kinds;
mod metadata;
mod skipped;

pub use fields::{FieldCheck, UnknownField};

use crate::assumed::Assumed;
use crate::created::{Created, create_pods};
use crate::decode::{Undecoded, decode, tree};
use crate::documents::{self, Body, Found, RawList};
use crate::fault::{Fault, SourcePlace, explained};
use crate::kinds::{Head, PlannedKind, head, identity, is_sequence, items, removed};
use crate::manifests::{Identity, Manifest, described};
use crate::objects::{Key, Objects};
use crate::snapshot::Snapshot;
use crate::workloads::TemplatePath;
use metadata::HasMetadata;
use nodeless_api::convert::ConvertError;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_api::view::{InvalidObject, Outline};
use nodeless_model::Template;
use nodeless_model::quotes::{shortened, with_short_keys};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum nesting depth of Lists.
const MAXIMUM_NESTING: usize = 16;
/// The namespace of objects without one, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// A check of the API server that this crate cannot do itself: of an object of a kind, with required fields that were missing. Returns
/// the fields with errors, and the errors.
pub type Check = fn(&str, &serde_json::Value) -> Vec<(String, String)>;

/// Reads exports of a cluster, one after another, into one [`Snapshot`].
#[derive(Clone, Debug, Default)]
pub struct Reader {
    check: Option<Check>,
    field_check: Option<FieldCheck>,
    strict_fields: bool,
    /// The number of unknown fields that are no errors.
    unknown_fields: usize,
    /// The warnings about versions whose fields are not known.
    unchecked: BTreeSet<String>,
    objects: Objects,
    faults: Vec<Fault>,
    warnings: Vec<String>,
    invalid: Vec<InvalidObject>,
    skipped: BTreeMap<String, usize>,
    not_planned: BTreeSet<String>,
    /// The options that name the templates of these objects.
    template_options: BTreeSet<String>,
    template_paths: Vec<&'static TemplatePath>,
    generated: usize,
    create_pods: bool,
    assuming: bool,
    at_maximum: bool,
    scheduler_config: SchedulerConfig,
    /// Whether the objects that are being read replace those of the same name.
    replacing: bool,
    /// The objects that replaced others or were added with them.
    manifests: BTreeMap<Identity, Manifest>,
}

/// An object that is being read: its location and kind.
#[derive(Clone, Copy)]
struct Incoming<'p> {
    place: &'p SourcePlace,
    kind: PlannedKind,
}

impl Incoming<'_> {
    /// The namespace, empty for cluster-scoped objects, and the name of an object of this kind.
    fn key(&self, body: &Body<'_>) -> Key {
        let (namespace, name) = identity(body);
        let namespace = match namespace.as_str() {
            _ if !self.kind.is_namespaced() => String::new(),
            "" => DEFAULT_NAMESPACE.to_owned(),
            _ => namespace,
        };
        (namespace, name)
    }
}

impl Reader {
    /// Creates the pods of workloads without pods, as their controllers would if the manifests were applied: all replicas of a Deployment,
    /// at least as many as its autoscaler sets, the parallel pods of a Job, and those of one run of a CronJob.
    #[must_use]
    pub fn with_pods_of_workloads(self) -> Self {
        Self { create_pods: true, ..self }
    }

    /// Assumes what the claims and StorageClasses of an input that has none at all are.
    #[must_use]
    pub fn with_assumed_objects(self) -> Self {
        Self { assuming: true, ..self }
    }

    /// Creates as many pods of workloads as their autoscalers allow, and not as few.
    #[must_use]
    pub fn at_maximum(self) -> Self {
        Self { at_maximum: true, ..self }
    }

    /// Gives pods the default topology spread constraints of the cluster's scheduler. Services and ReplicationControllers, which are skipped
    /// otherwise, are read for their selectors.
    #[must_use]
    pub fn with_scheduler_config(self, scheduler_config: SchedulerConfig) -> Self {
        Self { scheduler_config, ..self }
    }

    /// Refuses NodePools and EC2NodeClasses with errors, unless an API server has accepted them.
    #[must_use]
    pub fn with_check(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    /// Reads an export: YAML and JSON documents, also mixed, with objects and Lists. Faults contain `source`.
    pub fn read(&mut self, source: &str, bytes: &[u8]) {
        documents::read(source, bytes, &mut |found| match found {
            Found::Body(place, body) => self.body(&place, body, None, 0),
            Found::List(place, RawList { kind, items }) => {
                self.items(&place, items.into_iter().map(Body::Raw), Some(&kind), 0);
            }
            Found::Fault(fault) => self.faults.push(fault),
        });
    }

    /// Reads manifests that replace the objects of the same kind and name that were read before, and adds the others. A workload is
    /// replaced with its pods: all its replicas are created, without a node.
    pub fn replace(&mut self, source: &str, bytes: &[u8]) {
        (self.replacing, self.create_pods, self.assuming) = (true, true, true);
        self.read(source, bytes);
        self.replacing = false;
    }

    /// The objects that [`replace`](Self::replace) read, but those that cannot be used.
    pub fn replaced(&self) -> impl Iterator<Item = (&Identity, &Manifest)> {
        self.manifests.iter()
    }

    /// Removes an object that was read. A workload is removed with its pods and with the workloads that it controls.
    pub fn remove(&mut self, object: &Identity) {
        self.manifests.remove(object);
        if let Some(kind) = self.kind(None, object.kind) {
            self.objects.remove(kind, &(object.namespace.clone(), object.name.clone()));
        }
    }

    /// Whether autoscalers may give workloads more pods than are created.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        let groups = self.objects.workloads.values().flat_map(|workload| &workload.groups);
        !self.objects.autoscalers.is_empty() || groups.into_iter().any(|group| group.most > group.pods)
    }

    /// Adds one item of a list from an API server. Such items have no kind.
    pub fn item(&mut self, source: &str, index: usize, api_version: &str, kind: &str, object: &RawValue) {
        let place = SourcePlace { source: source.to_owned(), document: 1, line: 1, items: vec![index] };
        let list = (api_version.to_owned(), format!("{kind}List"));
        self.body(&place, Body::Raw(object), Some(&list), 1);
    }

    /// Adds a fault or a warning of the caller.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The snapshot of all objects that were read.
    #[must_use]
    pub fn finish(self) -> Snapshot {
        let more = self.more_unknown_fields();
        let Self {
            mut objects,
            mut faults,
            mut warnings,
            mut invalid,
            skipped,
            not_planned,
            template_options,
            mut manifests,
            scheduler_config,
            ..
        } = self;
        warnings.extend(more);
        let selectors = std::mem::take(&mut objects.selectors);
        let workloads = objects.workloads.iter();
        let unread =
            workloads.flat_map(|((kind, (namespace, name)), workload)| workload.unread_options(kind, namespace, name));
        warnings.extend(unread.map(|fault| format!("{}: {}", fault.object_name(), fault.message)));
        let assumed = if self.assuming { Assumed::before_pods(&objects) } else { Assumed::default() };
        for (Identity { kind, namespace, name }, manifest) in &mut manifests {
            let is_workload = objects.workloads.contains_key(&(*kind, (namespace.clone(), name.clone())));
            manifest.pods = is_workload.then_some(0);
        }
        let Created { pods, most, faults: found } = create_pods(&mut objects, self.at_maximum);
        for ((kind, (namespace, name)), created) in &pods {
            let object = Identity { kind, namespace: namespace.clone(), name: name.clone() };
            manifests.entry(object).and_modify(|manifest| manifest.pods = Some(*created));
        }
        for (place, kind, (namespace, name), undecoded) in found {
            invalid.push(unusable(kind, format!("{namespace}/{name}"), &undecoded, Outline::default()));
            let object = described(kind, &shortened(&namespace), &shortened(&name));
            faults.push(fault(&place, Some(object), undecoded));
        }
        let named = |(kind, (namespace, name)): (&str, Key)| described(kind, &namespace, &name);
        let created = pods.into_iter().map(|(key, pods)| (named(key), pods)).collect();
        let at_most = most.into_iter().map(|(key, pods)| (named(key), pods)).collect();
        warnings.extend(assumed.complete(&mut objects));
        let mut snapshot = Snapshot {
            created,
            at_most,
            not_planned,
            template_options,
            manifests,
            ..Snapshot::new(objects, faults, warnings, invalid, skipped)
        };
        snapshot.set_default_spread(&scheduler_config, &selectors);
        snapshot
    }

    fn body(&mut self, place: &SourcePlace, body: Body<'_>, list: Option<&(String, String)>, depth: usize) {
        if is_sequence(&body) {
            return self.list(place, body, None, depth);
        }
        let Head { api_version, kind, has_uid } = match head(&body) {
            Ok(head) => head,
            Err(undecoded) => return self.faults.push(fault(place, None, undecoded)),
        };
        // Items of a typed list omit the fields that the list has.
        let inherited = list.and_then(|(api_version, kind)| Some((api_version.as_str(), kind.strip_suffix("List")?)));
        let inherited = inherited.filter(|(_, kind)| !kind.is_empty());
        let (api_version, kind) = match (kind, inherited) {
            (Some(kind), _) => (api_version, kind),
            (None, Some((inherited, kind))) => (api_version.or(Some(inherited.into())), kind.into()),
            (None, None) => {
                let problem = "it is missing, so this is not a Kubernetes object; give manifests, or the output of `kubectl get ... -o yaml`"
                    .to_owned();
                return self.faults.push(fault(place, None, Undecoded { field: "kind".to_owned(), problem }));
            }
        };
        if kind.ends_with("List") {
            let list = (api_version.unwrap_or_default().into_owned(), kind.into_owned());
            return self.list(place, body, Some(&list), depth);
        }
        let given = api_version.as_deref().filter(|version| !version.is_empty());
        if let Some(advice) = removed(given, &kind) {
            let (_, name) = identity(&body);
            let problem = format!("{:?} was removed in Karpenter 1.0; {advice}", given.unwrap_or_default());
            let undecoded = Undecoded { field: "apiVersion".to_owned(), problem };
            return self.faults.push(fault(place, Some(described(&kind, "", &shortened(&name))), undecoded));
        }
        let is_used =
            |known: &PlannedKind| !matches!(known, PlannedKind::Selecting(_)) || !self.scheduler_config.is_empty();
        let known = self.kind(given, &kind).filter(is_used);
        let Some(known) = known.filter(|known| !(has_uid && matches!(known, PlannedKind::Templated(_)))) else {
            return self.skip(given, &kind, has_uid, &body);
        };
        let incoming = Incoming { place, kind: known };
        if let Some(undecoded) = templated(&body) {
            return self.refuse(&incoming, &body, undecoded);
        }
        if !known.reads(api_version.as_deref()) {
            let version = api_version.unwrap_or_default();
            let problem = match known {
                PlannedKind::NodeClaim => format!("{version:?} is not supported; export it as v1"),
                _ => format!("{version:?} is not supported; convert it to v1 with `nodeless convert -f FILE`"),
            };
            return self.refuse(&incoming, &body, Undecoded { field: "apiVersion".to_owned(), problem });
        }
        let faults = self.faults.len();
        if !has_uid {
            self.check_fields(&incoming, given, &body);
        }
        self.object(&incoming, &body);
        if self.replacing && self.faults.len() == faults {
            self.note_manifest(&incoming, &body);
        }
    }

    /// Records an object that replaces others.
    fn note_manifest(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let (namespace, name) = incoming.key(body);
        let object = Identity { kind: incoming.kind.name(), namespace, name };
        let manifest = Manifest::new(tree(body));
        if manifest.is_named && self.manifests.contains_key(&object) {
            self.warnings.push(format!("{}: {object} exists more than once; the last one is used", incoming.place));
        }
        self.manifests.insert(object, manifest);
    }

    fn list(&mut self, place: &SourcePlace, body: Body<'_>, list: Option<&(String, String)>, depth: usize) {
        if depth > MAXIMUM_NESTING {
            return self.faults.push(place.unreadable("Lists are nested too deeply"));
        }
        match items(body) {
            Ok(bodies) => self.items(place, bodies.into_iter(), list, depth),
            Err(undecoded) => self.faults.push(fault(place, None, undecoded)),
        }
    }

    /// The items of a List of this depth.
    fn items<'b>(
        &mut self,
        place: &SourcePlace,
        bodies: impl Iterator<Item = Body<'b>>,
        list: Option<&(String, String)>,
        depth: usize,
    ) {
        for (index, body) in bodies.enumerate() {
            self.body(&place.item(index), body, list, depth + 1);
        }
    }

    /// An object of a built-in kind, with its key.
    fn slim<T: DeserializeOwned + HasMetadata>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
    ) -> Option<(Key, T)> {
        match decode::<T>(body) {
            Ok(object) => self.named(incoming, body, object),
            Err(undecoded) => {
                self.refuse(incoming, body, undecoded);
                None
            }
        }
    }

    /// Sets the namespace that the object would get, and returns its name.
    fn named<T: HasMetadata>(&mut self, incoming: &Incoming<'_>, body: &Body<'_>, mut object: T) -> Option<(Key, T)> {
        let meta = object.metadata();
        let namespace = match meta.namespace.take().filter(|namespace| !namespace.is_empty()) {
            _ if !incoming.kind.is_namespaced() => String::new(),
            Some(namespace) => namespace,
            None => DEFAULT_NAMESPACE.to_owned(),
        };
        meta.namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
        let given = meta.name.clone().filter(|name| !name.is_empty());
        let name = given.or_else(|| {
            // The API server would add random characters, but a plan has to be deterministic.
            let prefix = meta.generate_name.as_ref().filter(|prefix| !prefix.is_empty())?;
            self.generated += 1;
            Some(format!("{prefix}{}", self.generated))
        });
        let Some(name) = name else {
            let problem = "it is missing".to_owned();
            self.refuse(incoming, body, Undecoded { field: "metadata.name".to_owned(), problem });
            return None;
        };
        meta.name = Some(name.clone());
        Some(((namespace, name), object))
    }

    fn converted<T, M>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        read: Option<(Key, T)>,
        convert: impl Fn(&T) -> Result<M, ConvertError>,
    ) -> Option<(Key, M)> {
        let (key, object) = read?;
        match convert(&object) {
            Ok(converted) => Some((key, converted)),
            Err(error) => {
                self.refuse(incoming, body, Undecoded { field: error.field, problem: error.problem });
                None
            }
        }
    }

    fn keep<M>(
        &mut self,
        incoming: &Incoming<'_>,
        object: Option<(Key, M)>,
        into: fn(&mut Objects) -> &mut BTreeMap<Key, M>,
    ) {
        let Some((key, object)) = object else { return };
        match into(&mut self.objects).entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(object)),
            Entry::Occupied(mut entry) => {
                let (namespace, name) = entry.key();
                let what = described(incoming.kind.name(), namespace, name);
                entry.insert(object);
                if self.replacing {
                    return;
                }
                self.warnings.push(format!("{}: {what} exists more than once; the last one is used", incoming.place));
            }
        }
    }

    /// Omits an object and reports why.
    fn refuse(&mut self, incoming: &Incoming<'_>, body: &Body<'_>, undecoded: Undecoded) {
        let (namespace, name) = incoming.key(body);
        let what = described(incoming.kind.name(), &shortened(&namespace), &shortened(&name));
        let key = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        self.invalid.push(unusable(incoming.kind.name(), key, &undecoded, outline(body)));
        self.faults.push(fault(incoming.place, Some(what), undecoded));
    }
}

/// Whether the name, namespace or a label of an object is a template expression. No API server accepts such an object. Other fields, such
/// as the arguments of containers, may have expressions of their own.
fn templated(body: &Body<'_>) -> Option<Undecoded> {
    let parsed;
    let metadata = match body {
        // Large exports are scanned, and not parsed twice.
        Body::Raw(raw) if !raw.get().contains("{{") => return None,
        Body::Raw(_) => {
            parsed = tree(body);
            &parsed["metadata"]
        }
        Body::Tree(value) => &value["metadata"],
    };
    let named = ["name", "namespace", "generateName"].map(|field| (field, &metadata[field]));
    let labels = metadata["labels"].as_object().into_iter().flatten().map(|(_, value)| ("labels", value));
    named.into_iter().chain(labels).find_map(|(field, value)| {
        let template = Template::find(value.as_str()?)?;
        Some(Undecoded { field: format!("metadata.{field}"), problem: template.to_string() })
    })
}

fn unusable(kind: &str, name: String, undecoded: &Undecoded, outline: Outline) -> InvalidObject {
    let problem = explained(&undecoded.problem);
    let message = match undecoded.field.as_str() {
        "" => problem,
        field => format!("{}: {problem}", with_short_keys(field)),
    };
    InvalidObject { kind: kind.to_owned(), name, message, outline }
}

fn outline(body: &Body<'_>) -> Outline {
    match body {
        Body::Raw(raw) => Outline::read(&mut serde_json::Deserializer::from_str(raw.get())),
        Body::Tree(value) => Outline::read(value),
    }
}

fn fault(place: &SourcePlace, object: Option<String>, undecoded: Undecoded) -> Fault {
    let Undecoded { field, problem } = undecoded;
    Fault { place: place.clone(), object, field, problem: explained(&problem) }
}
