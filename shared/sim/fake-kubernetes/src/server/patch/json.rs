//! JSON patch (RFC 6902).

use serde_json::Value;

use crate::server::resource::Resource;
use crate::server::status::Status;

pub(crate) fn patch(resource: &Resource, name: &str, object: &Value, patch: &Value) -> Result<Value, Status> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &operations).map_err(|error| {
        Status::new(422, "Invalid", format!("the server rejected our request: {error}")).about(resource, name)
    })?;
    Ok(patched)
}
