//! JSON in several lines, with numbers of at most six decimals, as prices have: further digits are errors of addition.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{Result, Write};

/// The JSON of a value.
pub(super) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Rounded(PrettyFormatter::new())))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct Rounded<'f>(PrettyFormatter<'f>);

impl Formatter for Rounded<'_> {
    fn write_f64<W: Write + ?Sized>(&mut self, to: &mut W, value: f64) -> Result<()> {
        // Adding zero makes minus zero positive.
        self.0.write_f64(to, (value * 1e6).round() / 1e6 + 0.0)
    }

    fn begin_array<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_array(to)
    }

    fn end_array<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_array(to)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> Result<()> {
        self.0.begin_array_value(to, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_array_value(to)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_object(to)
    }

    fn end_object<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_object(to)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> Result<()> {
        self.0.begin_object_key(to, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_object_value(to)
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_object_value(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_no_digits_of_rounding_errors() {
        let value = json!({ "a": [0.1 + 0.2, -0.0, 1e-7, 1234.5], "b": { "c": 1, "d": [] } });
        let text = json(&value).unwrap();
        assert!(text.contains("0.3,") && text.contains("1234.5\n") && !text.contains("-0"), "{text}");
        assert_eq!(
            text,
            serde_json::to_string_pretty(&json!({ "a": [0.3, 0.0, 0.0, 1234.5], "b": { "c": 1, "d": [] } })).unwrap()
        );
    }
}
