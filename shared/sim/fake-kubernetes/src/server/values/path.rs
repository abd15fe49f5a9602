//! Reads values of an object by their paths.

use serde_json::Value;

/// Paths as JSON pointers (RFC 6901).
pub(crate) trait Path {
    /// [`Value::pointer`] without allocating a string for each part of the path: the controllers read every object at several paths
    /// whenever anything has changed.
    fn at(&self, pointer: &str) -> Option<&Value>;
}

impl Path for Value {
    fn at(&self, pointer: &str) -> Option<&Value> {
        if pointer.contains('~') {
            return self.pointer(pointer);
        }
        let mut parts = pointer.split('/');
        if parts.next() != Some("") {
            return None;
        }
        parts.try_fold(self, |value, part| match value {
            Self::Object(fields) => fields.get(part),
            Self::Array(_) => value.pointer(&format!("/{part}")),
            _ => None,
        })
    }
}

/// Reads a string at a JSON pointer; empty if it is missing or not a string.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.at(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_where_the_pointer_does() {
        let object = json!({ "a": { "b/c": [1, { "d": 2 }] }, "": 3, "e": null });
        let found: Vec<bool> =
            ["", "/a", "/a/b~1c/1/d", "/a/b~1c", "/", "/e", "/e/f", "a", "/a/x", "/a/b~1c/01", "/a/b~1c/9", "/a/"]
                .iter()
                .map(|pointer| {
                    assert_eq!(object.at(pointer), object.pointer(pointer), "{pointer}");
                    object.at(pointer).is_some()
                })
                .collect();
        assert_eq!(found.iter().filter(|found| **found).count(), 6);
        let list = json!([[5]]);
        for pointer in ["/0/0", "/00", "/+0", "/-", "/1"] {
            assert_eq!(list.at(pointer), list.pointer(pointer), "{pointer}");
        }
    }
}
