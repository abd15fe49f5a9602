//! Durations in the format `90s`, `1h30m`.

use jiff::SignedDuration;
use serde::{Deserialize as _, Deserializer, de::Error as _};

/// Deserializes a duration.
pub(crate) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// Parses a duration.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, String> {
    let parsed: SignedDuration =
        text.parse().map_err(|_| format!("{text} is not a duration; write it like 90s or 1h30m"))?;
    if parsed.is_negative() { Err(format!("{text} is before the beginning")) } else { Ok(parsed) }
}
