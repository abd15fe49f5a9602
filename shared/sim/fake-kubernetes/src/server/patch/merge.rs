//! JSON merge patch (RFC 7386).

use serde_json::Value;

pub(crate) fn patch(object: &Value, patch: &Value) -> Value {
    let mut patched = object.clone();
    json_patch::merge(&mut patched, patch);
    patched
}
