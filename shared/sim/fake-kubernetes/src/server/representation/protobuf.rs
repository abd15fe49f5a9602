//! Decodes Kubernetes' protobuf encoding into the JSON form: newer clients, such as kubectl 1.33, use it to send built-in kinds.
//! Answers are always JSON, which every client accepts.
//!
//! The messages are data, so the decoder supports every built-in kind generically, except for those whose JSON form is not that of a
//! message.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::messages::{Field, INLINE, Label, message_name, messages};
use crate::server::status::Status;

/// The prefix of every encoded object.
const MAGIC: &[u8] = b"k8s\0";
/// A nesting depth that no object of a built-in kind reaches.
const DEEPEST: usize = 64;

/// Numbers whose zero means "not set".
const PORTS: &[&str] = &["nodePort", "hostPort", "healthCheckNodePort"];

/// Decodes an object.
///
/// # Errors
/// Unsupported media type for unknown messages, a bad request for malformed ones.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, Status> {
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| malformed("the prefix \"k8s\" is missing"))?;
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), None);
    for (number, value) in fields(body)? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                for (number, value) in fields(meta)? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(object)) => raw = Some(object),
            _ => {}
        }
    }
    let raw = raw.unwrap_or_default();
    let name = message_name(&version, &kind);
    if !messages().contains_key(name.as_str()) {
        let text = format!("{kind} of {version:?} is not understood in protobuf; send it as JSON");
        return Err(Status::new(415, "UnsupportedMediaType", text));
    }
    let mut object = message(&name, raw, 0)?;
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    Ok(object)
}

fn malformed(detail: &str) -> Status {
    Status::bad_request(format!("the body of the request is no valid protobuf: {detail}"))
}

fn utf8(bytes: &[u8]) -> Result<String, Status> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("a text is not UTF-8"))
}

enum Wire<'a> {
    Number(u64),
    Double(f64),
    Float(f32),
    Bytes(&'a [u8]),
}

fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, Status> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Double(f64::from_le_bytes(array(&mut bytes)?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| malformed("a length is too large"))?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Float(f32::from_le_bytes(array(&mut bytes)?)),
            other => return Err(malformed(&format!("wire type {other} is not used by Kubernetes"))),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Status> {
    let (head, tail) = bytes.split_at_checked(length).ok_or_else(|| malformed("it ends too early"))?;
    *bytes = tail;
    Ok(head)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Status> {
    take(bytes, N)?.try_into().map_err(|_| malformed("it ends too early"))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Status> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(malformed("a number is too long"))
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, Status> {
    if depth > DEEPEST {
        return Err(malformed("it is nested too deeply"));
    }
    if let Some(special) = special(name, bytes)? {
        return Ok(special);
    }
    let known = messages().get(name).ok_or_else(|| malformed(&format!("{name} is not known")))?;
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some(field) = known.get(&number) else {
            let text = format!("field {number} of {name} is newer than this server; send the object as JSON");
            return Err(Status::new(415, "UnsupportedMediaType", text));
        };
        match field.label {
            Label::Map => {
                let entry = object.entry(field.name).or_insert_with(|| json!({}));
                let (key, value) = map_entry(field, &wire, depth)?;
                entry[key] = value;
            }
            Label::Repeated => {
                let value = scalar(field.kind, &wire, depth)?;
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
            }
            Label::One => {
                let value = scalar(field.kind, &wire, depth)?;
                if INLINE.contains(&field.name) {
                    object.extend(value.as_object().cloned().unwrap_or_default());
                // Go encodes unset fields as empty or zero; a port 0 would be invalid in JSON.
                } else if value != "" && !value.is_null() && !(value == 0 && PORTS.contains(&field.name)) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(Value::Object(object))
}

fn map_entry(field: &Field, wire: &Wire<'_>, depth: usize) -> Result<(String, Value), Status> {
    let Wire::Bytes(bytes) = wire else { return Err(malformed(&format!("{} is no map", field.name))) };
    let (mut key, mut value) = (String::new(), scalar(field.kind, &Wire::Bytes(&[]), depth).unwrap_or_default());
    for (number, wire) in fields(bytes)? {
        match (number, &wire) {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => value = scalar(field.kind, wire, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn scalar(kind: &str, wire: &Wire<'_>, depth: usize) -> Result<Value, Status> {
    Ok(match (kind, wire) {
        ("string", Wire::Bytes(bytes)) => json!(utf8(bytes)?),
        ("bytes", Wire::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        ("bool", Wire::Number(number)) => json!(*number != 0),
        ("int32" | "int64", Wire::Number(number)) => json!(number.cast_signed()),
        ("uint32" | "uint64", Wire::Number(number)) => json!(number),
        ("double", Wire::Double(number)) => json!(number),
        ("float", Wire::Float(number)) => json!(number),
        (message_name, Wire::Bytes(bytes)) if message_name.contains('.') => message(message_name, bytes, depth + 1)?,
        _ => return Err(malformed(&format!("a value of type {kind} is encoded as something else"))),
    })
}

/// Messages whose JSON form is a plain value.
fn special(name: &str, bytes: &[u8]) -> Result<Option<Value>, Status> {
    let number = |requested: u64| -> Result<i64, Status> {
        let all = fields(bytes)?;
        let found = all.iter().find(|(number, _)| *number == requested);
        Ok(match found {
            Some((_, Wire::Number(number))) => number.cast_signed(),
            _ => 0,
        })
    };
    let data = |requested: u64| -> Result<&[u8], Status> {
        let all = fields(bytes)?;
        let found = all.into_iter().find(|(number, _)| *number == requested);
        Ok(match found {
            Some((_, Wire::Bytes(bytes))) => bytes,
            _ => &[],
        })
    };
    let value = match name.rsplit('.').next().unwrap_or_default() {
        "Quantity" => json!(utf8(data(1)?)?),
        "IntOrString" if number(1)? == 0 => json!(number(2)?),
        "IntOrString" => json!(utf8(data(3)?)?),
        "Time" | "MicroTime" if bytes.is_empty() => Value::Null,
        kind @ ("Time" | "MicroTime") => {
            let nanoseconds = i32::try_from(number(2)?).map_err(|_| malformed("a time is out of range"))?;
            let time = Timestamp::new(number(1)?, nanoseconds).map_err(|error| malformed(&error.to_string()))?;
            if kind == "Time" { json!(crate::server::time::seconds(time)) } else { json!(format!("{time:.6}")) }
        }
        "RawExtension" | "FieldsV1" => serde_json::from_slice(data(1)?).unwrap_or_default(),
        "ExtraValue" => {
            let mut list = Vec::new();
            for (_, wire) in fields(bytes)? {
                if let Wire::Bytes(text) = wire {
                    list.push(json!(utf8(text)?));
                }
            }
            Value::Array(list)
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}
