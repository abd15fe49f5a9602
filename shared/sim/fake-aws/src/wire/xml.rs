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
        Value::String(text) => escape_into(out, text),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
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
    escape_into(&mut escaped, text);
    escaped
}

fn escape_into(out: &mut String, text: &str) {
    if text.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && !matches!(byte, b'&' | b'<' | b'>' | b'"'))
    {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => out.push(c),
        }
    }
}
