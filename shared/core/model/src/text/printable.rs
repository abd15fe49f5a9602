//! Text that is printed or drawn, without the characters that change how a terminal or a browser shows the text around them.
//!
//! Names, tags, annotations, Events and messages come from others: from the users of a cluster, from AWS, or from a file. A control
//! character in them could begin an escape sequence, which moves the cursor, erases lines or writes to the clipboard; and a character
//! that sets the direction of text could show a command other than the one that is copied
//! (<https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is neither a control character, one that sets the direction of text, nor a separator of lines.
#[must_use]
pub fn is_printable(character: char) -> bool {
    let directional = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !(character.is_control() || directional || matches!(character, '\u{2028}' | '\u{2029}'))
}

/// Text of several lines: line breaks and tabs are kept, and `\u{fffd}` replaces each other character that is not printable.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, |character, next| match character {
        '\n' | '\t' => None,
        '\r' if next == Some('\n') => None,
        other => (!is_printable(other)).then_some(char::REPLACEMENT_CHARACTER),
    })
}

/// Text on one line: spaces replace line breaks and tabs, and `\u{fffd}` replaces each other character that is not printable. The number of
/// characters stays the same.
#[must_use]
pub fn printable_line(text: &str) -> Cow<'_, str> {
    replaced(text, |character, _| match character {
        '\n' | '\r' | '\t' => Some(' '),
        other => (!is_printable(other)).then_some(char::REPLACEMENT_CHARACTER),
    })
}

/// JSON in which each character that is not printable is written as `\uXXXX`, so that the value stays the same: outside of strings, JSON
/// has no such characters but line breaks and tabs.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_kept_in_json) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for character in json.chars() {
        if is_kept_in_json(character) {
            escaped.push(character);
        } else {
            // All of these characters have at most four hexadecimal digits. Writing into a String does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        }
    }
    Cow::Owned(escaped)
}

fn is_kept_in_json(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\t') || is_printable(character)
}

/// The text with some characters replaced, by what `replacement` returns for a character and the next one.
fn replaced(text: &str, replacement: impl Fn(char, Option<char>) -> Option<char>) -> Cow<'_, str> {
    let with_next = || text.chars().zip(text.chars().skip(1).map(Some).chain([None]));
    if with_next().all(|(character, next)| replacement(character, next).is_none()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(with_next().map(|(character, next)| replacement(character, next).unwrap_or(character)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_those_that_set_the_direction_are_replaced() {
        let replaced = ('\0'..=char::MAX).filter(|character| !is_printable(*character)).map(u32::from);
        let ranges = [0..=0x1f, 0x7f..=0x9f, 0x61c..=0x61c, 0x200e..=0x200f, 0x2028..=0x202e, 0x2066..=0x2069];
        assert!(replaced.eq(ranges.into_iter().flatten()));
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}c\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
        assert!(matches!(printable("ünïcode 名前 👩‍🚀\n"), Cow::Borrowed(_)), "nothing is replaced");
    }

    #[test]
    fn line_breaks_and_tabs_stay_in_text_of_several_lines() {
        assert_eq!(printable("a\tb\r\nc\rd\n"), "a\tb\r\nc\u{fffd}d\n");
        assert_eq!(printable_line("a\tb\nc\u{7}d\r"), "a b c\u{fffd}d ");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a\u{7f}": "\u{202e}b\u{1b}\u{9b}\n", "c": [1, "d"] });
        let json = serde_json::to_string_pretty(&value).unwrap();
        let escaped = printable_json(&json);
        assert!(escaped.contains("\"\\u202eb\\u001b\\u009b\\n\"") && escaped.contains("\"a\\u007f\""), "{escaped}");
        assert!(escaped.chars().all(|character| character == '\n' || is_printable(character)));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(matches!(printable_json("{}\n"), Cow::Borrowed(_)));
    }
}
