//! The value of a plain scalar in Kubernetes, which reads the booleans of YAML 1.1.

use serde_json::{Number, Value};

/// The value of a plain scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    if let Some(hex) = digits.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().map(Number::from);
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Number::from(whole));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return text.parse::<f64>().ok().and_then(Number::from_f64);
    }
    None
}
