//! Answers in XML, from JSON trees whose names are already those of the wire.

use serde_json::Value;

/// The names of list entries, by the names of the list and of its parent.
pub(crate) type MemberName = fn(&str, &str) -> &'static str;

/// Lists of the EC2 protocol: `item`, with two exceptions that its model makes.
pub(crate) fn ec2_member(parent: &str, list: &str) -> &'static str {
    match (parent, list) {
        ("inferenceAcceleratorInfo", "accelerators") => "member",
        ("networkInterfaceSet", "groupSet") => "groupId",
        _ => "item",
    }
}

/// Lists of the plain query protocol.
pub(crate) fn query_member(_: &str, _: &str) -> &'static str {
    "member"
}

/// An element with its content. Members without a value are left out.
pub(crate) fn element(out: &mut String, parent: &str, name: &str, value: &Value, member: MemberName) {
    if value.is_null() {
        return;
    }
    open(out, name);
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (below, value) in members {
                element(out, name, below, value, member);
            }
        }
        Value::Array(entries) => {
            let entry_name = member(parent, name);
            for entry in entries {
                entry_element(out, name, entry_name, entry, member);
            }
        }
        Value::String(text) => out.push_str(&escape(text)),
        other => out.push_str(&other.to_string()),
    }
    close(out, name);
}

/// An entry of a list. Its children have the list as their parent, because `item` has no meaning of its own.
fn entry_element(out: &mut String, list: &str, name: &str, value: &Value, member: MemberName) {
    let Value::Object(members) = value else {
        return element(out, list, name, value, member);
    };
    open(out, name);
    for (below, value) in members {
        element(out, list, below, value, member);
    }
    close(out, name);
}

fn open(out: &mut String, name: &str) {
    out.push('<');
    out.push_str(name);
    out.push('>');
}

fn close(out: &mut String, name: &str) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// Text as XML allows it: control characters that XML 1.0 cannot represent are dropped.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\r' => escaped.push_str("&#13;"),
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => escaped.push(c),
        }
    }
    escaped
}
