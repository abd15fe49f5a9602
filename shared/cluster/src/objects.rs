//! The port with few operations: the objects of the Kubernetes API, by kind.

use crate::failure::CallError;
use crate::kinds::Kind;
use async_trait::async_trait;
use nodeless_ports::cluster::{BatchWindow, InvalidObject, Outline, PodRef};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The path of the objects of a collection in a namespace; that of the collection itself if the namespace is empty.
#[must_use]
pub fn within(collection: &str, namespace: &str) -> String {
    match collection.rsplit_once('/') {
        Some((group, plural)) if !namespace.is_empty() => format!("{group}/namespaces/{namespace}/{plural}"),
        _ => collection.to_owned(),
    }
}

/// The place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectAt<'a> {
    /// The path of the kind's objects in all namespaces, such as `/api/v1/nodes`.
    pub path: &'static str,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl<'a> ObjectAt<'a> {
    /// The place of an object of a cluster-scoped kind.
    #[must_use]
    pub const fn cluster_scoped(path: &'static str, name: &'a str) -> Self {
        Self { path, namespace: "", name }
    }

    /// The place of a pod.
    #[must_use]
    pub fn pod(pod: &'a PodRef) -> Self {
        Self { path: crate::kinds::PODS, namespace: &pod.namespace, name: &pod.name }
    }

    /// The path of the object; names of Kubernetes objects need no encoding.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/{}", within(self.path, self.namespace), self.name)
    }
}

/// Which objects of a kind are listed. What is empty selects all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The label selector, as of `kubectl -l`.
    pub labels: &'a str,
    /// The field selector, as of `kubectl --field-selector`.
    pub fields: &'a str,
}

impl<'a> Selector<'a> {
    /// Those with these labels.
    #[must_use]
    pub fn labels(labels: &'a str) -> Self {
        Self { labels, ..Self::default() }
    }

    /// Those with these fields.
    #[must_use]
    pub fn fields(fields: &'a str) -> Self {
        Self { fields, ..Self::default() }
    }
}

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON merge patch: `null` removes, lists are replaced.
    Merge,
    /// JSON patch: a list of operations, of which all or none are done.
    Json,
    /// Strategic merge patch: single elements of lists are removed. Kinds of CRDs do not support it.
    Strategic,
    /// Server-side apply as the field manager `nodeless`, taking over fields of other managers.
    Apply,
}

/// The options of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion<'a> {
    /// The object is deleted only if it has this uid.
    pub uid: Option<&'a str>,
    /// The grace period of a pod; if unset, that of its spec.
    pub grace_seconds: Option<u32>,
}

/// An object as the API server has it.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'o> {
    /// JSON text.
    Text(&'o RawValue),
    /// The JSON value.
    Value(&'o Arc<Value>),
}

impl<'o> Encoded<'o> {
    /// Decodes it.
    ///
    /// # Errors
    /// When it is not of this type.
    pub fn decode<T: DeserializeOwned>(self) -> serde_json::Result<T> {
        match self {
            Self::Text(text) => serde_json::from_str(text.get()),
            Self::Value(value) => T::deserialize(value.as_ref()),
        }
    }

    /// What can be read of an object that cannot be decoded.
    fn outline(self) -> Outline {
        match self {
            Self::Text(text) => Outline::read(&mut serde_json::Deserializer::from_str(text.get())),
            Self::Value(value) => Outline::read(value.as_ref()),
        }
    }

    /// The provider id of a node, without decoding the rest. `None` if it has none, or cannot be decoded.
    pub(crate) fn provider_id(self) -> Option<Cow<'o, str>> {
        match self {
            Self::Text(text) => provider_id(text),
            Self::Value(value) => value.pointer("/spec/providerID")?.as_str().map(Cow::Borrowed),
        }
    }
}

/// The provider id of a node, without decoding the rest. `None` if it has none, or cannot be decoded.
fn provider_id(node: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Identified<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow, rename = "providerID")]
        provider_id: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<Identified<'_>>(node.get()).ok()?.spec.provider_id
}

/// The decoded objects of a list, and those that cannot be decoded.
pub type Listed<K> = (Vec<<K as Kind>::Model>, Vec<InvalidObject>);

/// The objects of a Kubernetes cluster. The API server rejects a patch with another uid than the object's (422) or another
/// resourceVersion (409).
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Reads an object.
    ///
    /// # Errors
    /// A 404 when it does not exist, or the API server does not serve the kind; [`found`] distinguishes these.
    async fn get(&self, operation: &str, at: ObjectAt<'_>) -> Result<Arc<Value>, CallError>;

    /// Creates an object, in the namespace of its metadata.
    ///
    /// # Errors
    /// When the API server rejects it: a 409 when it exists.
    async fn create(&self, operation: &str, path: &'static str, object: &Value) -> Result<Arc<Value>, CallError>;

    /// Patches an object, or its status, and returns it.
    ///
    /// # Errors
    /// When the API server rejects it.
    async fn patch(
        &self,
        operation: &str,
        part: Part<'_>,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Arc<Value>, CallError>;

    /// Deletes an object, and returns the response: the object if it has finalizers, and otherwise any.
    ///
    /// # Errors
    /// When the API server rejects it: a 404 when it does not exist, a 409 when it has another uid.
    async fn delete(&self, operation: &str, at: ObjectAt<'_>, options: Deletion<'_>) -> Result<Arc<Value>, CallError>;

    /// Creates an Eviction of a pod with this uid.
    ///
    /// # Errors
    /// When the API server rejects it.
    async fn evict(&self, operation: &str, pod: &PodRef) -> Result<(), CallError>;

    /// Lists objects of a kind, and returns the results of `select`, which decodes the objects that it needs with [`decoded`]. `select` is
    /// called again for objects that are listed twice.
    ///
    /// # Errors
    /// When the list cannot be read; [`NotFound`](ErrorKind::NotFound) when the API server does not serve the kind.
    async fn list_selected<K: Kind, T: Send, F>(&self, selector: Selector<'_>, select: F) -> Result<Vec<T>, PortError>
    where
        F: FnMut(Encoded<'_>) -> Option<T> + Send;

    /// Lists objects of a kind.
    ///
    /// # Errors
    /// As of [`Self::list_selected`].
    async fn list<K: Kind>(&self, selector: Selector<'_>) -> Result<Listed<K>, PortError> {
        Ok(separate(self.list_selected::<K, _, _>(selector, |object| Some(decoded::<K>(object))).await?))
    }

    /// Applies `select` to the resourceVersion and the decoded form of each object of a kind that [`Kind::FIELDS`] selects. They have every
    /// change that was made before this call. An implementation may keep them and read only changes.
    ///
    /// # Errors
    /// As of [`Self::list_selected`].
    async fn current_selected<K: Kind, T: Send, F>(
        &self,
        context: &Context,
        select: F,
    ) -> Result<(Vec<T>, Vec<InvalidObject>), PortError>
    where
        F: FnMut(&str, &K::Model) -> Option<T> + Send;

    /// The current objects of a kind.
    ///
    /// # Errors
    /// As of [`Self::current_selected`].
    async fn current<K: Kind>(&self, context: &Context) -> Result<Listed<K>, PortError> {
        self.current_selected::<K, _, _>(context, |_, object| Some(object.clone())).await
    }

    /// Begins a view: from now on, it consists of the results of [`Self::latest`].
    fn begin_view(&self);

    /// Like [`Self::current`], but only [`Self::confirm`] proves that the objects are current.
    ///
    /// # Errors
    /// As of [`Self::current_selected`].
    async fn latest<K: Kind>(&self, context: &Context) -> Result<Listed<K>, PortError>;

    /// Removes the objects of a kind from the view: nothing is decided from them.
    fn leave_out<K: Kind>(&self);

    /// Waits until it is known whether the last results of [`Self::latest`] that are in the view were current.
    ///
    /// # Errors
    /// A [`Conflict`](ErrorKind::Conflict) when they were not, or when that cannot be known.
    async fn confirm(&self) -> Result<(), PortError>;

    /// Waits for the end of the batch window, and returns the uids of the pods that are pending then.
    ///
    /// # Errors
    /// When the pods cannot be followed.
    async fn wait_for_batch(&self, context: &Context, window: BatchWindow) -> Result<BTreeSet<String>, PortError>;
}

/// What a patch changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The object.
    Object(ObjectAt<'a>),
    /// The status of the object.
    Status(ObjectAt<'a>),
}

/// An object that was read; `None` if it does not exist. A kind that the API server does not serve is an error instead: while a CRD is not
/// served, its objects must not look deleted.
///
/// # Errors
/// Those of the read, and [`Unavailable`](ErrorKind::Unavailable) if the kind is not served.
pub fn found<T>(read: Result<T, CallError>, operation: &str, url: &str) -> Result<Option<T>, CallError> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(failed) if failed.names_missing_object() => Ok(None),
        Err(failed) if failed.is(404) => {
            let message = format!(
                "the API server does not serve {url}; if this persists, install the CRDs with `nodeless install`"
            );
            Err(CallError::other(ErrorKind::Unavailable, operation, message))
        }
        Err(failed) => Err(failed),
    }
}

/// The response to a deletion; `None` if the object does not exist, or has another uid than the request.
///
/// # Errors
/// Those of the deletion.
pub fn unless_gone<T>(deleted: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match deleted {
        Err(failed) if failed.is_gone() => Ok(None),
        done => done.map(Some),
    }
}

/// Reads an object, if it exists.
pub(crate) async fn read(
    objects: &impl Objects,
    operation: &str,
    at: ObjectAt<'_>,
) -> Result<Option<Arc<Value>>, CallError> {
    found(objects.get(operation, at).await, operation, &at.url())
}

/// Decodes an object of a list.
///
/// # Errors
/// When it cannot be decoded.
pub fn decoded<K: Kind>(object: Encoded<'_>) -> Result<K::Model, InvalidObject> {
    taken::<K>(object).map_err(|message| invalid::<K>(object, message))
}

/// Decodes an object and reduces it. The error does not contain the object's name.
pub(crate) fn taken<K: Kind>(object: Encoded<'_>) -> Result<K::Model, String> {
    object.decode::<K::Slim>().map_err(|error| error.to_string()).and_then(K::reduce)
}

/// An object that cannot be decoded, and why.
#[must_use]
pub fn invalid<K: Kind>(object: Encoded<'_>, message: String) -> InvalidObject {
    let identity: Identified = object.decode().unwrap_or_default();
    let Identity { namespace, name } = identity.metadata;
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    InvalidObject { kind: K::NAME.to_owned(), name, message, outline: object.outline() }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identified {
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    namespace: String,
    name: String,
}

/// The decoded objects of a list, and those that cannot be decoded.
#[must_use]
pub fn separate<T>(listed: Vec<Result<T, InvalidObject>>) -> (Vec<T>, Vec<InvalidObject>) {
    let (mut objects, mut invalid) = (Vec::with_capacity(listed.len()), Vec::new());
    for taken in listed {
        match taken {
            Ok(taken) => objects.push(taken),
            Err(object) => invalid.push(object),
        }
    }
    (objects, invalid)
}

/// Fails if a list has an object that cannot be decoded and the result cannot contain it: the pod would look deleted, and its
/// node empty.
pub(crate) fn refuse_doubt(hides: bool, invalid: &[InvalidObject]) -> Result<(), PortError> {
    match invalid.first().filter(|_| hides) {
        Some(faulty) => {
            let message = format!(
                "{} {} cannot be decoded: {}; fix or delete it; until then no operation that needs it runs",
                faulty.kind, faulty.name, faulty.message
            );
            Err(PortError::new(ErrorKind::Invalid, format!("Kubernetes list {}", faulty.kind), message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_id_is_read_without_the_rest() {
        let of = |node: &str| {
            let read = |object: Encoded<'_>| object.provider_id().map(Cow::into_owned);
            let of_text = read(Encoded::Text(&RawValue::from_string(node.to_owned()).unwrap()));
            assert_eq!(read(Encoded::Value(&Arc::new(serde_json::from_str(node).unwrap()))), of_text);
            of_text
        };
        let id = Some("aws:///us-east-1a/i-1".to_owned());
        assert_eq!(of(r#"{"status":{"capacity":3},"spec":{"taints":7,"providerID":"aws:///us-east-1a/i-1"}}"#), id);
        assert_eq!(of(r#"{"spec":{"providerID":"aws:\/\/\/us-east-1a\/i-1"}}"#), id, "an escape is decoded");
        for none in [r#"{"spec":{}}"#, r#"{"spec":{"providerID":null}}"#, r#"{"spec":{"providerID":5}}"#, "{}"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
