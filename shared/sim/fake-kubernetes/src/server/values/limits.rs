//! The limits of the API server and of etcd on the sizes of requests and objects.

use serde_json::Value;

use crate::server::status::Status;
use crate::size::{LARGEST_OBJECT, encoded_size};

/// The largest body of a request, in bytes (`MaxRequestBodyBytes` of the API server).
pub(crate) const LARGEST_BODY: usize = 3 * 1024 * 1024;
/// The most bytes that the copy operations of one JSON patch may add (`JSONPatchMaxCopyBytes` of the API server).
pub(crate) const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The most operations of one JSON patch (`maxJSONPatchOperations` of the API server).
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// The most bytes of the paths of all fields, which field ownership keeps one by one: a few long names with many fields below them would
/// otherwise take gigabytes. Objects of real clusters have less than a tenth.
const LONGEST_PATHS: usize = 256 * 1024 * 1024;

/// A request that the API server does not read.
pub(crate) fn too_large(detail: &str) -> Status {
    Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: {detail}"))
}

/// Checks an object that is to be stored.
///
/// # Errors
/// The error of etcd, which the API server returns without a reason.
pub(crate) fn check(object: &Value) -> Result<(), Status> {
    if encoded_size(object) > LARGEST_OBJECT || paths(object, 0) > LONGEST_PATHS {
        return Err(Status::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// Bytes of the paths of all leaves below a path of this length.
fn paths(value: &Value, length: usize) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().fold(0, |sum, (name, value)| sum.saturating_add(paths(value, length + name.len() + 1)))
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().fold(0, |sum, value| sum.saturating_add(paths(value, length + 1)))
        }
        _ => length,
    }
}
