//! Changes values and texts in ways that no serializer does.

use serde_json::{Value, json};

/// A sequence of numbers that a seed determines (SplitMix64).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// Values of other types, out of range, too long, or with characters that a terminal interprets.
fn other(numbers: &mut Numbers) -> Value {
    let long = |part: &str| json!(part.repeat(30_000));
    let nested = (0..100).fold(json!(1), |inner, _| json!([{ "a": inner }]));
    numbers.one(&[
        json!(null),
        json!(true),
        json!(""),
        json!([]),
        json!({}),
        json!([[null]]),
        json!([{}]),
        json!(-1),
        json!(0),
        json!(0.1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!("-1"),
        json!("1e-400"),
        json!("99999999999999999999Ei"),
        json!("0x1"),
        json!("100001%"),
        json!("-100%"),
        json!("2026-13-45T99:99:99Z"),
        json!("-009999-01-01T00:00:00Z"),
        json!("9999-12-31T23:59:59Z"),
        json!("9223372036854775807h"),
        json!("* * * * *"),
        json!("aws:///us-east-1a/i-0123456789abcdef0"),
        json!("{{ .Values.name }}"),
        json!("\u{0}\u{1b}[31m\r\n---\n\u{202e}"),
        json!("é\u{feff}/.."),
        long("a"),
        long("a/"),
        nested,
    ])
}

/// The JSON pointers of all values inside a value.
pub(super) fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, inner)| (escaped(name), inner)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(place, inner)| (place.to_string(), inner)).collect(),
        _ => Vec::new(),
    };
    for (name, inner) in inner {
        let pointer = format!("{at}/{name}");
        pointers(inner, &pointer, found);
        found.push(pointer);
    }
}

/// Changes one place of a value.
pub(super) fn change(numbers: &mut Numbers, value: &mut Value) {
    let mut found = Vec::new();
    pointers(value, "", &mut found);
    if found.is_empty() {
        return;
    }
    let (pointer, from) = (numbers.one(&found), numbers.one(&found));
    let taken = value.pointer(&from).unwrap().clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    let kind = numbers.below(6);
    match (value.pointer_mut(parent).unwrap(), kind) {
        (Value::Object(fields), 0) => drop(fields.remove(&name)),
        (Value::Object(fields), 1) => drop(fields.insert(numbers.one(&["k".repeat(40_000), String::new()]), taken)),
        (Value::Array(items), 0) => drop(items.remove(name.parse().unwrap())),
        (Value::Array(items), 1) => {
            let item = items[name.parse::<usize>().unwrap()].clone();
            items.extend(std::iter::repeat_n(item, 100));
        }
        (_, 2) => *value.pointer_mut(&pointer).unwrap() = taken,
        _ => *value.pointer_mut(&pointer).unwrap() = other(numbers),
    }
}

/// Changes the bytes of a text: cuts it, overwrites a byte, or repeats a key of an object.
pub(super) fn spoil(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let place = numbers.below(bytes.len());
    match numbers.below(3) {
        0 => bytes.truncate(place),
        1 => bytes[place] = numbers.one(b"{}[]:,\"'\n-#&*!|>%@\\ 0\0\xff"),
        _ => {
            let Some(brace) = bytes[place..].iter().position(|byte| *byte == b'{') else { return };
            let name = numbers.one(&["metadata", "spec", "kind", "name", "containers", "requests", "cpu", "values"]);
            let again = format!("\"{name}\":{},", other(numbers));
            bytes.splice(place + brace + 1..place + brace + 1, again.into_bytes());
        }
    }
}
