//! Objects that were decoded before.

use nodeless_cluster::kinds::Kind;
use nodeless_cluster::{Encoded, decoded};
use nodeless_fake_kubernetes::controllers::object::uid;
use nodeless_ports::cluster::InvalidObject;
use serde_json::Value;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of objects of a type that are kept.
const KEPT: usize = 10_000;

/// Decoded objects or the errors of decoding them, each with the stored object.
type Known<T> = HashMap<String, (Arc<Value>, Result<T, InvalidObject>)>;

/// The decoded objects of each type, by uid. Every plan reads the whole cluster, of which little has changed since the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoded(Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>);

impl Decoded {
    /// Decodes objects, except for those that are stored as they were before.
    pub(super) fn decode<K: Kind>(&self, objects: &[Arc<Value>]) -> Vec<Result<K::Model, InvalidObject>> {
        let mut types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Kinds that differ only in what they select share their objects.
        let known = types.entry(TypeId::of::<(K::Slim, K::Model)>());
        let known = known.or_insert_with(|| Box::new(Known::<K::Model>::new()));
        let Some(known) = known.downcast_mut::<Known<K::Model>>() else { unreachable!("the type is the key") };
        let decode = |object: &Arc<Value>| match known.get(uid(object)) {
            Some((from, decoded)) if Arc::ptr_eq(from, object) => decoded.clone(),
            _ => {
                let decoded = decoded::<K>(Encoded::Value(object));
                if known.len() >= KEPT {
                    known.clear();
                }
                known.insert(uid(object).to_owned(), (object.clone(), decoded.clone()));
                decoded
            }
        };
        objects.iter().map(decode).collect()
    }
}
