//! Values in commands that a user copies into a shell.

use std::borrow::Cow;

/// The value as one word of a POSIX shell: in single quotes, unless it has only characters that have no meaning in a shell
/// (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02>).
#[must_use]
pub fn quoted(value: &str) -> Cow<'_, str> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:,@%+=".contains(character);
    // zsh replaces a word that begins with `=` by the path of a command.
    if !value.is_empty() && !value.starts_with('=') && value.chars().all(plain) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("'{}'", value.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_value_as_one_word() {
        for plain in ["web-0", "arn:aws:iam::1:role/a_b", "Key=a,Value=b"] {
            assert_eq!(quoted(plain), plain);
        }
        for (value, word) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("=ls", "'=ls'"),
            ("$(id)`id`;id|id&&id>a", "'$(id)`id`;id|id&&id>a'"),
            ("it's \"!\" \\", r#"'it'\''s "!" \'"#),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quoted(value), word);
        }
    }
}
