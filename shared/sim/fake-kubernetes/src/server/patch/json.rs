//! JSON patch (RFC 6902).

use json_patch::PatchOperation;
use serde_json::Value;

use crate::server::limits::{MAX_COPIED, MAX_OPERATIONS, too_large};
use crate::server::resource::Resource;
use crate::server::status::Status;
use crate::size::{DEEPEST, depth, encoded_size};

/// The nesting at which a patch is stopped, whatever a later operation would remove: deeper values exhaust the stack. It is above
/// [`DEEPEST`], because the bound of each operation is only an estimate.
const DEEPEST_WITHIN: usize = 4 * DEEPEST;

pub(crate) fn patch(resource: &Resource, name: &str, object: &Value, patch: &Value) -> Result<Value, Status> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let count = operations.0.len();
    if count > MAX_OPERATIONS {
        let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(too_large(&text));
    }
    let refuse = |error: String| {
        Status::new(422, "Invalid", format!("the server rejected our request: {error}")).about(resource, name)
    };
    let mut patched = object.clone();
    let (mut copied, mut deepest) = (0, depth(&patched));
    for (index, operation) in operations.0.iter().enumerate() {
        copied += copied_bytes(&patched, operation);
        if copied > MAX_COPIED {
            return Err(refuse(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                 {MAX_COPIED}"
            )));
        }
        deepest = deepest_after(deepest, operation);
        if deepest > DEEPEST_WITHIN {
            return Err(refuse(too_deep()));
        }
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|error| refuse(format!("operation '/{index}' failed at path '{}': {}", error.path, error.kind)))?;
    }
    if depth(&patched) > DEEPEST {
        return Err(refuse(too_deep()));
    }
    Ok(patched)
}

fn too_deep() -> String {
    format!("the patched object is nested more than {DEEPEST} levels deep")
}

/// Bytes that an operation copies.
fn copied_bytes(object: &Value, operation: &PatchOperation) -> usize {
    match operation {
        PatchOperation::Copy(copy) => object.pointer(copy.from.as_str()).map_or(0, encoded_size),
        _ => 0,
    }
}

/// An upper bound of the nesting after an operation on an object with the bound `deepest`. It reads no value of the object, which may be
/// large and moved by every operation.
fn deepest_after(deepest: usize, operation: &PatchOperation) -> usize {
    let at = operation.path().count();
    let below = match operation {
        PatchOperation::Add(add) => depth(&add.value),
        PatchOperation::Replace(replace) => depth(&replace.value),
        PatchOperation::Copy(copy) => deepest.saturating_sub(copy.from.count()),
        PatchOperation::Move(moved) => deepest.saturating_sub(moved.from.count()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return deepest,
    };
    deepest.max(at + below)
}
