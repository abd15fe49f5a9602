//! Objects that were decoded before.

use super::kinds::Kind;
use nodeless_fake_kubernetes::controllers::object::uid;
use serde_json::Value;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of objects of a type that are kept.
const KEPT: usize = 10_000;

/// Decoded objects or the errors of decoding them, each with the stored object.
type Known<T> = HashMap<String, (Arc<Value>, Result<T, String>)>;

/// The decoded objects of each type, by uid. Every plan reads the whole cluster, of which little has changed since the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoded(Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>);

impl Decoded {
    /// Decodes objects, except for those that are stored as they were before. The objects of a type have one kind.
    pub(super) fn decode<T: Clone + Send + 'static>(
        &self,
        kind: &Kind<T>,
        objects: &[Arc<Value>],
    ) -> Vec<Result<T, String>> {
        let mut types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = types.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Known::<T>::new()));
        let Some(known) = known.downcast_mut::<Known<T>>() else { unreachable!("the type is the key") };
        let decode = |object: &Arc<Value>| match known.get(uid(object)) {
            Some((from, decoded)) if Arc::ptr_eq(from, object) => decoded.clone(),
            _ => {
                let decoded = (kind.reduce)(object);
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
