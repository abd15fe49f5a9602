//! The sizes of JSON values.

use std::io;

use serde::Serialize;
use serde_json::Value;

/// The largest object, in bytes (`--max-request-bytes` of etcd).
pub(crate) const LARGEST_OBJECT: usize = 3 * 1024 * 1024 / 2;
/// The deepest nesting of an object: what a request with JSON can contain, by the limit of serde_json.
pub(crate) const DEEPEST: usize = 127;

/// Bytes of a value as JSON.
pub(crate) fn encoded_size(value: &impl Serialize) -> usize {
    let mut counted = Counter(0);
    // Writing to the counter does not fail, and JSON values have only text as keys.
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Levels of objects and lists in a value.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
