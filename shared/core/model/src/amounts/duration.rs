//! Go durations in the format of Karpenter's API (`720h`, `1h30m`, `Never`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration, or `Never` (Karpenter's `NillableDuration`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NillableDuration {
    /// After this long.
    After(Duration),
    /// Never.
    Never,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {why}; write it like 30s, 1h30m or 720h")]
pub struct ParseDurationError {
    text: String,
    why: &'static str,
}

/// Parses a Go duration that is not negative: numbers with the units `ns`, `us`, `ms`, `s`, `m`, `h`, one after another.
///
/// # Errors
/// When the text is empty, negative, lacks a unit or is longer than a [`Duration`] holds.
pub fn parse_go_duration(text: &str) -> Result<Duration, ParseDurationError> {
    let error = |why| ParseDurationError { text: text.to_owned(), why };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.starts_with('-') {
        return Err(error("it is negative"));
    }
    if rest.is_empty() {
        return Err(error("it is empty"));
    }
    let mut nanoseconds: f64 = 0.0;
    while !rest.is_empty() {
        let end = rest
            .bytes()
            .position(|b| !b.is_ascii_digit() && b != b'.')
            .ok_or_else(|| error("a number lacks its unit"))?;
        let number: f64 = rest[..end].parse().map_err(|_| error("it does not begin with a number"))?;
        rest = &rest[end..];
        let end = rest.bytes().position(|b| b.is_ascii_digit() || b == b'.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(error("a unit is unknown")),
        };
        nanoseconds += number * unit;
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(nanoseconds / 1e9).map_err(|_| error("it is too long"))
}

/// Prints a duration in Go's short form without zero units: `1h30m`, `720h`, `45s`, `250ms`; `0s` for none.
#[must_use]
pub fn format_go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let milliseconds = duration.subsec_millis();
    let mut text = String::new();
    for (value, unit) in [(hours, "h"), (minutes, "m"), (seconds, "s"), (u64::from(milliseconds), "ms")] {
        if value > 0 {
            text.push_str(&format!("{value}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

impl NillableDuration {
    /// The duration, if it is not `Never`.
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::After(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

impl FromStr for NillableDuration {
    type Err = ParseDurationError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "Never" { Ok(Self::Never) } else { parse_go_duration(text).map(Self::After) }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(duration) => f.write_str(&format_go_duration(*duration)),
            Self::Never => f.write_str("Never"),
        }
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints() {
        for (text, seconds, printed) in [
            ("0s", 0, "0s"),
            ("30s", 30, "30s"),
            ("1h30m", 5400, "1h30m"),
            ("720h", 2_592_000, "720h"),
            ("90m", 5400, "1h30m"),
        ] {
            let duration = parse_go_duration(text).unwrap();
            assert_eq!(duration.as_secs(), seconds, "{text}");
            assert_eq!(format_go_duration(duration), printed, "{text}");
        }
        assert_eq!(parse_go_duration("1.5h").unwrap(), Duration::from_secs(5400));
        assert_eq!("Never".parse::<NillableDuration>().unwrap(), NillableDuration::Never);
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "5", "-5s", "5d", "s", "1h5", "never", "1e300h"] {
            assert!(text.parse::<NillableDuration>().is_err(), "{text}");
        }
    }
}
