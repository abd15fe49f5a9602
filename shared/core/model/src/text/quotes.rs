//! Values of others in messages: the beginning of a value is enough to find it, and a message may be logged where the value must not be.

use std::borrow::Cow;

/// The most characters of a value in a message.
const MAXIMUM: usize = 60;

/// The beginning of a value.
#[must_use]
pub fn shortened(value: &str) -> Cow<'_, str> {
    match value.char_indices().nth(MAXIMUM) {
        Some((end, _)) => Cow::Owned(format!("{}…", &value[..end])),
        None => Cow::Borrowed(value),
    }
}

/// A path to a field, such as `spec.limits.cpu`, with the beginnings of its keys.
#[must_use]
pub fn with_short_keys(path: &str) -> String {
    path.split('.').map(shortened).collect::<Vec<_>>().join(".")
}

/// A message with the beginnings of the values in it, which are between double quotes, as Rust and JSON write them, or between backticks.
#[must_use]
pub fn with_short_quotes(message: &str) -> String {
    let mut short = String::with_capacity(message.len().min(1024));
    let mut rest = message;
    while let Some(start) = rest.find(['"', '`']) {
        let (before, quoted) = rest.split_at(start + 1);
        let end = closing(quoted, rest.as_bytes()[start]);
        short.push_str(before);
        short.push_str(&shortened(&quoted[..end]));
        rest = &quoted[end..];
        if let Some(quote) = rest.chars().next() {
            short.push(quote);
            rest = &rest[1..];
        }
    }
    short.push_str(rest);
    // A value may contain the quote that ends it.
    short.split_inclusive(char::is_whitespace).map(|word| shortened_word(word)).collect()
}

/// A word with the white space after it; of a longer one than a value may be, the beginning. A value that is shortened already has its
/// quotes, and punctuation, in its word.
fn shortened_word(word: &str) -> Cow<'_, str> {
    let text = word.trim_end();
    if text.contains('…') && text.chars().nth(MAXIMUM + 4).is_none() {
        return Cow::Borrowed(word);
    }
    match shortened(text) {
        Cow::Borrowed(_) => Cow::Borrowed(word),
        Cow::Owned(short) => Cow::Owned(short + &word[text.len()..]),
    }
}

/// The index of the closing quote, or of the end. A backslash in double quotes escapes the next character.
fn closing(quoted: &str, quote: u8) -> usize {
    let mut escaped = false;
    let found = quoted.bytes().position(|byte| {
        let closes = byte == quote && !escaped;
        escaped = quote == b'"' && byte == b'\\' && !escaped;
        closes
    });
    found.unwrap_or(quoted.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_beginnings_of_values() {
        let long = "é\"\\".repeat(30);
        let cases = [
            (format!("invalid type: string {long:?}, expected a map"), ", expected a map"),
            (format!("unknown variant `{}`, expected `a`", "x".repeat(100)), ", expected `a`"),
            (format!("it is {:?} and {:?}", "y".repeat(100), "z"), " and \"z\""),
            (format!("it is \"{}", "w".repeat(100)), ""),
            (format!("unknown variant `a`{0}`, expected `b`", "v".repeat(100)), " expected `b`"),
        ];
        for (message, end) in cases {
            let short = with_short_quotes(&message);
            assert!(short.ends_with(end) && short.contains('…'), "{short}");
            assert!(short.chars().count() < 110, "{short}");
        }
    }

    #[test]
    fn short_values_stay() {
        for message in ["", "\"", "`a`", "\"a\\\"b\" is no `x` of \"y\"", "ünïcode"] {
            assert_eq!(with_short_quotes(message), message);
        }
        assert_eq!((shortened(&"ü".repeat(60)).chars().count(), shortened(&"ü".repeat(61)).chars().count()), (60, 61));
    }
}
